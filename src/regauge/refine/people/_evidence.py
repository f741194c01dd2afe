"""`Evidence`: one thing that a person said of a prompt's answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON

__all__ = ["Evidence", "EvidenceKind", "Heard", "heard_in_words"]

EvidenceKind = Literal["label", "comment", "note"]
"""A label of one answer, a comment on a pull request, a note in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a person said; a hint for whoever proposes, and never evidence for an edit.

    Attributes:
        text: In that person's words; empty for a label without a reason.
        by: Who said it, as the source names them.
        verdict: Of a label: `pass`, `fail`, or a score such as `0.4 of 1`.
        case: Of a label: the golden case that was answered.
        judge: Of a label: the judge that it is meant for.
        answer: Of a label: what was judged.
        at: Where it stands: a file and line, or an address.
    """

    kind: EvidenceKind
    text: str
    by: str = ""
    verdict: str = ""
    case: str = ""
    judge: str = ""
    answer: str = ""
    at: str = ""

    def to_json(self) -> dict[str, JSON]:
        """A plain document, without what is empty."""
        return {key: value for key, value in asdict(self).items() if value or key == "text"}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Evidence:
        """What `to_json` wrote.

        Raises:
            ValueError: It is of no kind.
        """
        if document.get("kind") not in get_args(EvidenceKind):
            raise ValueError(f"there is no evidence of kind {document.get('kind')!r}")
        names = {one.name for one in fields(cls)} - {"kind"}
        said = {name: str(document[name]) for name in names if name in document}
        return cls(kind=cast("EvidenceKind", document["kind"]), **{"text": "", **said})


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What people said, and in words what of it was left out, such as `2 of bots`."""

    said: tuple[Evidence, ...] = ()
    left_out: tuple[str, ...] = ()

    def __add__(self, other: Heard) -> Heard:
        return Heard(said=(*self.said, *other.said), left_out=(*self.left_out, *other.left_out))

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        return {"said": [one.to_json() for one in self.said], "left_out": list(self.left_out)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Heard:
        """What `to_json` wrote.

        Raises:
            ValueError: An entry is of no kind.
        """
        return cls(
            said=tuple(Evidence.from_json(one) for one in document["said"]),
            left_out=tuple(map(str, document["left_out"])),
        )


def heard_in_words(heard: Heard) -> str:
    """How much people said, in a few words; empty where they said nothing.

    >>> heard_in_words(Heard(said=(Evidence(kind="note", text="x"),), left_out=("2 of bots",)))
    '1 note; left out: 2 of bots'
    """
    counts = Counter(one.kind for one in heard.said)
    told = ", ".join(plural(counts[kind], kind) for kind in get_args(EvidenceKind) if counts[kind])
    if not heard.left_out:
        return told
    return f"{told or 'nothing that can be used'}; left out: {', '.join(heard.left_out)}"
