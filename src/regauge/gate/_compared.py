"""The cases of a gate run, each with what the candidate and main are asked for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from regauge.judges import Rule
from regauge.runner import PlannedCase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.gate._types import GateCase
    from regauge.gate.base import Base
    from regauge.runner import Suite

__all__ = ["Compared", "SuiteBase", "compared_cases"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SuiteBase:
    """One suite of a gate run and its base version.

    Attributes:
        name: What the gate calls it: the prompt's name, and the dataset's where several suites
            are of one prompt.
        base: How the suite stands to its base version.
        planned: The cases that were selected.
    """

    name: str
    base: Base
    planned: Sequence[PlannedCase]

    @property
    def suite(self) -> Suite:
        """The candidate's arm."""
        return self.base.candidate

    @property
    def partial(self) -> bool:
        """Whether cases were left out, as by `-k`."""
        return len(self.planned) < len(self.suite.dataset)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """One case of a gate run.

    Attributes:
        case: For the engine.
        candidate: What the candidate is asked; None for a case that is gone.
        again: The same, judged by those judges alone that decide: informing ones have had their
            say of the first trials, and may cost more than the answer.
        main: What main is asked, so judged as well; None where main has no such case. Its trials
            belong to the candidate's request: those of another version may be older.
        graded: The checks whose scores are compared, beside whether they pass.
    """

    case: GateCase
    candidate: PlannedCase | None
    again: PlannedCase | None
    main: PlannedCase | None
    graded: frozenset[str] = field(default_factory=frozenset[str])


def suite_names(suites: Sequence[Suite]) -> list[str]:
    """A name of its own for each suite: its prompt's, with what tells it from the others."""
    counts = Counter(suite.prompt.name for suite in suites)
    names: list[str] = []
    for suite in suites:
        name = suite.prompt.name
        if counts[name] > 1:
            name = f"{name} ({suite.dataset.name})"
        number = 2
        while name in names:
            name = f"{suite.prompt.name} ({suite.dataset.name}, {number})"
            number += 1
        names.append(name)
    return names


def compared_cases(suites: Iterable[SuiteBase]) -> list[Compared]:
    """The cases of all suites, in their order; what is gone counts where nothing was left out."""
    found: list[Compared] = []
    for one in suites:
        planned = {each.case.id: each for each in one.planned}
        graded = _graded(one.base)
        again = _with_deciding_judges(one.suite, one.base)
        main = _with_deciding_judges(one.base.suite, one.base) if one.base.suite else None
        for case in one.base.cases:
            candidate = planned.get(case.case)
            if candidate is None and (case.state != "removed" or one.partial):
                continue
            found.append(
                Compared(
                    case=replace(case, prompt=one.name),
                    candidate=candidate,
                    again=PlannedCase(again, candidate.case) if candidate is not None else None,
                    main=PlannedCase(main, candidate.case, partner=candidate.digest)
                    if main is not None and candidate is not None and case.state == "changed"
                    else None,
                    graded=graded,
                )
            )
    return found


def _with_deciding_judges(suite: Suite, base: Base) -> Suite:
    """A suite with those judges alone that decide."""
    checks = {check for case in base.cases for check in case.checks}
    return replace(suite, judges=tuple(judge for judge in suite.judges if judge.name in checks))


def _graded(base: Base) -> frozenset[str]:
    """The judges that give scores: as main's history shows, or all that are no rules."""
    if base.history is not None:
        return base.history.graded
    return frozenset(judge.name for judge in base.candidate.judges if not isinstance(judge, Rule))
