"""Drives a gate with answers written down beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regauge.gate import BaseTrials, Count, Gate, GateCase, GatePolicy, TrialFacts
from regauge.stats import SuitePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from regauge.gate import CaseReport, GateOutcome, Side
    from regauge.gate._types import TrialRequest

PROMPT = "triage"
# One first trial of each case and none of main: what follows is asked for by what a test shows.
ONE = GatePolicy(first_trials=1, suite=SuitePolicy(control=0))
# What the letters of a script stand for; the last letter goes on for ever.
FACTS: dict[str, Any] = {
    "1": TrialFacts(checks={"right": True}),
    "0": TrialFacts(checks={"right": False}),
    ".": TrialFacts(checks={"right": None}),
    "!": None,
    "-": "not-recorded",
    "x": "unavailable",
}


def count(text: str) -> Count:
    """`9/12` as nine passes of twelve trials."""
    passed, trials = text.split("/")
    return Count(passed=int(passed), trials=int(trials))


def baseline(text: str, *, distinct: int = 1) -> BaseTrials:
    return BaseTrials(
        checks={"right": count(text)},
        total=count(text),
        sessions=("a", "b", "c"),
        distinct_outputs=distinct,
    )


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """A case, and what each trial of it will show."""

    case: GateCase
    candidate: str = "1"
    base: str = "1"

    def facts(self, side: Side, number: int) -> Any:
        script = self.candidate if side == "candidate" else self.base
        return FACTS[script[min(number, len(script) - 1)]]


def scripted(
    candidate: str = "1",
    *,
    base: str = "1",
    was: str | None = "12/12",
    name: str = "c",
    prompt: str = PROMPT,
    **more: Any,
) -> Scripted:
    case = GateCase(
        prompt=prompt,
        case=name,
        checks=("right",),
        baseline=None if was is None else baseline(was),
        **more,
    )
    return Scripted(case=case, candidate=candidate, base=base)


def others(number: int, **more: Any) -> list[Scripted]:
    """Cases that pass and always did."""
    return [scripted(name=f"other-{i}", **more) for i in range(number)]


def run(
    cases: Iterable[Scripted],
    policy: GatePolicy | None = None,
    *,
    order: Callable[[list[tuple[TrialRequest, int]]], Iterable[tuple[TrialRequest, int]]] = iter,
) -> GateOutcome:
    """Answer what is wanted until nothing is."""
    known = {one.case.key: one for one in cases}
    return answer_all(Gate([one.case for one in known.values()], policy or ONE), known, order=order)


def answer_all(
    gate: Gate,
    known: Mapping[tuple[str, str], Scripted],
    *,
    order: Callable[[list[tuple[TrialRequest, int]]], Iterable[tuple[TrialRequest, int]]] = iter,
) -> GateOutcome:
    asked: set[tuple[str, str, str, int]] = set()
    while wanted := gate.pending_trials():
        trials = [(one, number) for one in wanted for number in one.trials]
        for one, number in order(trials):
            key = (one.prompt, one.case, one.side, number)
            assert key not in asked, f"{key} was wanted twice"
            asked.add(key)
            facts = known[one.prompt, one.case].facts(one.side, number)
            gate.observe(one.prompt, one.case, one.side, number, facts)
    return gate.outcome()


def with_policy(**more: Any) -> GatePolicy:
    return replace(ONE, **more)


@dataclass
class Tally:
    """An order of trials that leaves them as they are, and counts those of the candidate."""

    candidate: int = 0

    def __call__(self, trials: list[tuple[TrialRequest, int]]) -> list[tuple[TrialRequest, int]]:
        self.candidate += sum(one.side == "candidate" for one, _ in trials)
        return trials


def cases_called(verdict: str, outcome: GateOutcome) -> list[CaseReport]:
    """The cases with a verdict."""
    return [case for case in outcome.cases if case.status == verdict]
