"""Earlier edits and their results, and the number of decisions on held-out cases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from regauge.digests import digest_of
from regauge.files import read_regular, write_whole
from regauge.refine.edits import are_near_duplicates, changed_places, changed_statements, kind_of
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.project import Project
    from regauge.refine.edits import Edit, PromptText

AttemptResult = Literal[
    "accepted",
    "suite-refused",  # rejected by the gate
    "overfit",  # helps on the cases it was made for only
    "undecided",  # too little evidence
    "refuted",  # no gain, or another check got worse
    "screened-out",  # helped on none of a few failing cases
    "guarded",  # rejected by a guard without a call
    "rejected-by-person",
]

# Results against an edit itself. An undecided edit may be tried again with more trials, and one
# that was screened out may have failed by bad luck. A guard checks each edit again.
_REJECTED_BY_USER: AttemptResult = "rejected-by-person"
AGAINST: frozenset[AttemptResult] = frozenset(
    {"refuted", "overfit", "suite-refused", _REJECTED_BY_USER}
)
_CHANCES: dict[AttemptResult, int] = {"undecided": 2, "screened-out": 2, "accepted": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One edit and the result of its test.

    Attributes:
        before: The shape of the text before the edit.
        after: The shape of the text with the edit.
        places: The headings under which it adds something, line by line.
        ops: The kinds of its operations, such as `insert+replace`.
    """

    before: str
    after: str
    failure_mode: str
    added_text: str
    removed_text: str
    result: AttemptResult
    detail: str = ""
    cycle: int = 0
    places: str = ""
    proposer: str = ""
    strategy: str = ""
    ops: str = ""

    @classmethod
    def from_edit(
        cls,
        edit: Edit,
        before: PromptText,
        after: PromptText,
        failure_mode: str,
        result: AttemptResult,
        *,
        detail: str = "",
        cycle: int = 0,
    ) -> Attempt:
        """The result of a test of an edit, which leads from one text to another."""
        added_text, removed_text = changed_statements(before, after)
        return cls(
            before=before.shape,
            after=after.shape,
            failure_mode=failure_mode,
            added_text=added_text,
            removed_text=removed_text,
            result=result,
            detail=detail,
            cycle=cycle,
            places=changed_places(before, after),
            proposer=edit.proposer,
            strategy=edit.strategy,
            ops="+".join(sorted({kind_of(op) for op in edit.ops})),
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """All edits that were tried, and all earlier best texts."""

    attempts: tuple[Attempt, ...] = ()
    incumbents: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, attempts: Iterable[Mapping[str, Any]]) -> Memory:
        """Read attempts that `asdict` made; a ValueError for any other document."""
        return cls(TypeAdapter(tuple[Attempt, ...]).validate_python(tuple(attempts)))

    def with_attempts(self, *entries: Attempt) -> Memory:
        """The memory with more entries at the end."""
        return Memory((*self.attempts, *entries), self.incumbents)

    def with_incumbent(self, text: PromptText) -> Memory:
        """The memory with a text that no edit may restore."""
        return Memory(self.attempts, (*self.incumbents, text.shape))

    def refuses(self, failure_mode: str, before: PromptText, after: PromptText) -> str:
        """The reason to reject an edit without a test; empty if there is none."""
        return self.refusal(failure_mode, before, after)[0]

    def refusal(
        self, failure_mode: str, before: PromptText, after: PromptText
    ) -> tuple[str, int | None]:
        """The reason to reject an edit without a test, and the place of the attempt behind it.

        The reason is empty if there is none; some reasons have no attempt.
        """
        if after.shape in self.incumbents:
            return "it leads back to a text that was replaced", None
        changed, places = changed_statements(before, after), changed_places(before, after)
        matches = [
            t
            for t in self.attempts
            if t.after == after.shape
            # A user rejects an edit; other edits may lead to the same text.
            and (
                t.result != _REJECTED_BY_USER
                or t.before == before.shape
                or _includes_edit(changed, _lines(t))
            )
        ]
        refusals = [(t, "this text was tried before") for t in matches if t.result in AGAINST]
        for result, chances in _CHANCES.items():
            attempts = [t for t in matches if t.result == result]
            if len(attempts) >= chances:
                refusals.append((attempts[-1], f"this text was tried {chances} times before"))
        refusals += [
            (t, "nearly the same edit was tried before")
            for t in self.lessons(failure_mode)
            if t.result in AGAINST
            # A rule may be followed in one place and not in another; a user's rejection
            # holds everywhere.
            and (t.places == places or t.result == _REJECTED_BY_USER)
            and are_near_duplicates(changed, _lines(t))
        ]
        if not refusals:
            return "", None
        attempt, text = refusals[0]
        is_by_user = attempt.result == _REJECTED_BY_USER and attempt.detail
        detail = f", as {attempt.detail}" if is_by_user else ""
        return f"{text}: {attempt.result}{detail}", self.attempts.index(attempt)

    def lessons(self, failure_mode: str) -> tuple[Attempt, ...]:
        """Earlier edits for the same failures, with their results."""
        return tuple(t for t in self.attempts if t.failure_mode == failure_mode)


def _lines(attempt: Attempt) -> tuple[str, str]:
    return attempt.added_text, attempt.removed_text


def _includes_edit(edited: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether an edit does all that another one does."""
    return all(
        set(other_text.split("\n")) <= {*text.split("\n"), ""}
        for text, other_text in zip(edited, other, strict=True)
    )


# Datasets change and grow; older ones are no longer needed.
_HOLDOUTS_KEPT = 50


class HoldoutLedger:
    """The decisions on a prompt's held-out cases, over all runs."""

    def __init__(self, project: Project, prompt: str, holdout: Iterable[str]) -> None:
        self._project = project
        self._path = project.state_dir / "refine" / f"{prompt}.looks.json"
        self._key = digest_of(sorted(holdout))
        self._uses: frozenset[str] = frozenset()

    def read(self) -> frozenset[str]:
        """The decisions so far; none if the ledger cannot be read."""
        self._uses = frozenset(self._read_all().get(self._key, ()))
        return self._uses

    def add(self, uses: frozenset[str]) -> None:
        """Write further decisions; a repeated one changes nothing."""
        if uses <= self._uses:
            return
        self._uses |= uses
        ledger = self._read_all()
        ledger[self._key] = sorted({*ledger.pop(self._key, ()), *uses})
        entries = dict([*ledger.items()][-_HOLDOUTS_KEPT:])
        self._project.prepare_state_dir("refine")
        write_whole(self._path, (json.dumps(entries, indent=1) + "\n").encode())

    def _read_all(self) -> dict[str, list[str]]:
        try:
            document: Any = read_json(read_regular(self._path))
            return {str(key): [*map(str, uses)] for key, uses in document.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
