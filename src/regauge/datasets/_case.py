"""One golden case, and the split its id puts it in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.digests import JSON, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GoldenCase", "Split", "Tier", "split_of"]

Tier: TypeAlias = Literal["critical", "required", "tracked"]
Split: TypeAlias = Literal["train", "holdout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenCase:
    """One example of what a prompt is given and what a right answer holds.

    Attributes:
        id: Unique in its dataset and stable: recordings, baselines and `-k` go by it.
        inputs: The values of the prompt's variables; the text of a file where one was named.
        expected: What judges compare with; any JSON, None where nothing is expected.
        tags: Words to select and group cases by.
        tier: How much a failure weighs: `critical` and `required` cases must pass, `tracked`
            ones are only watched.
        split: `holdout` cases are kept from whatever improves the prompt.
        source: Where the material comes from; empty when it was made up.
        licence: The licence of that material.
        at: Where the case stands, as `fixtures/golden/x.jsonl:12`; the row for parquet files.
        note: Why the tier is what it is, or anything a reader should know.
        checks: Judges of this case alone, as YAML names them, beside those of its eval.
        pass_at: The weighted share of `checks` that must pass, above 0 and up to 1; None for all.
    """

    id: str
    inputs: Mapping[str, JSON]
    expected: JSON = None
    tags: tuple[str, ...] = ()
    tier: Tier = "required"
    split: Split
    source: str = ""
    licence: str = ""
    at: str = ""
    note: str = ""
    checks: tuple[JSON, ...] = ()
    pass_at: float | None = None
    _digest: list[str] = field(default_factory=list[str], init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        # Inputs are plain dictionaries, which have no hash; equal cases have equal ids.
        return hash(self.id)

    @property
    def digest(self) -> str:
        """The SHA-256 of what makes this another case when it changes.

        That is id, inputs and expected, and checks and `pass_at` where the case has any.
        """
        if not self._digest:
            content: dict[str, JSON] = {
                "id": self.id,
                "inputs": self.inputs,
                "expected": self.expected,
            }
            if self.checks:
                content |= {"checks": self.checks, "pass_at": self.pass_at}
            self._digest.append(digest_of(content))
        return self._digest[0]

    @property
    def golden(self) -> JSON:
        """What judges compare an answer with, which must not get into a prompt."""
        if not self.checks:
            return self.expected
        return {"expected": self.expected, "checks": [*self.checks]}


def split_of(case_id: str, *, salt: str = "", holdout: float = 0.3) -> Split:
    """The split that a case's id puts it in, on every machine and for good.

    The first 8 bytes of SHA-256 over `salt`, a zero byte and the id, read as a big-endian
    fraction of 2**64, are below `holdout` for the cases held out. So a larger `holdout` only ever
    moves cases from train to holdout, and adding cases moves none.

    Args:
        case_id: The id of the case.
        salt: Any text; another one deals the cases anew.
        holdout: The share to hold out, from 0 (none) to 1 (all).

    Raises:
        ValueError: `holdout` is not a share.

    >>> split_of("KubeletDown"), split_of("Watchdog")
    ('holdout', 'train')
    """
    if not 0 <= holdout <= 1:
        raise ValueError(f"holdout is a share from 0 to 1, not {holdout!r}")
    head = hashlib.sha256(f"{salt}\0{case_id}".encode("utf-8", "backslashreplace")).digest()[:8]
    return "holdout" if int.from_bytes(head, "big") < holdout * 2**64 else "train"
