"""What one process knows at the end of a run, in a form that workers can hand to another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from regauge.runner import MissingAnswers, MissingJudgements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["RunEnd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of a run in one process, or in all of them.

    Attributes:
        collected: Cases of all evals that were collected.
        planned: Those of them that were selected.
        missing: What lacks an answer; only in record mode `none`.
        missing_judgements: What lacks replies of judges' models; only in record mode `none`.
        written: Per recordings file, how many of its lines are new or differ.
        session: The local store's session of the run, in record mode `all`.
        turns: How many of the planned cases had their turn.
        without_result: The items that had their turn and neither a result nor a failure.
        left_out: Why an item counts as unmeasured, by its node id, where no row says so.
        owed: What the run leaves out without a word of the user, each with its fix.
        trouble: What could not be written, and why.
        unwritten: Rows of the run record that are not on the disk.
    """

    collected: int = 0
    planned: int = 0
    missing: list[MissingAnswers] = field(default_factory=list[MissingAnswers])
    missing_judgements: list[MissingJudgements] = field(default_factory=list[MissingJudgements])
    written: dict[str, int] = field(default_factory=dict[str, int])
    session: int | None = None
    turns: int = 0
    without_result: list[str] = field(default_factory=list[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    owed: list[str] = field(default_factory=list[str])
    trouble: list[str] = field(default_factory=list[str])
    unwritten: list[str] = field(default_factory=list[str])

    def joined(self, other: RunEnd) -> RunEnd:
        """Of two processes: all plan the same cases, each writes recordings of its own."""
        return RunEnd(
            collected=max(self.collected, other.collected),
            planned=max(self.planned, other.planned),
            missing=self.missing or other.missing,
            missing_judgements=_joined(self.missing_judgements, other.missing_judgements),
            written=_added(self.written, other.written),
            session=self.session if other.session is None else other.session,
            turns=self.turns + other.turns,
            without_result=[*self.without_result, *other.without_result],
            left_out=self.left_out | other.left_out,
            owed=self.owed or other.owed,
            trouble=[*dict.fromkeys([*self.trouble, *other.trouble])],
            unwritten=[*self.unwritten, *other.unwritten],
        )

    def with_written(self, written: Mapping[str, int]) -> RunEnd:
        """The same end, with further recordings written."""
        return replace(self, written=_added(self.written, written))

    def to_text(self) -> str:
        """As JSON, for another process."""
        return TypeAdapter(RunEnd).dump_json(self).decode()

    @classmethod
    def from_text(cls, text: str) -> RunEnd:
        """What `to_text` wrote."""
        return TypeAdapter(RunEnd).validate_json(text)


def _joined(
    one: Sequence[MissingJudgements], other: Sequence[MissingJudgements]
) -> list[MissingJudgements]:
    """Each process judges cases of its own."""
    joined = {(missing.prompt, missing.judge): missing for missing in one}
    for missing in other:
        key = (missing.prompt, missing.judge)
        joined[key] = joined[key].plus(missing) if key in joined else missing
    return list(joined.values())


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {path: one.get(path, 0) + other.get(path, 0) for path in sorted({*one, *other})}
