"""Which prompts the loop is tried on, and with what kind of help."""

from __future__ import annotations

import random
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.refine_tasks._adversaries import attack_of, attacking, cycling
from benchmarks.refine_tasks._bench import By, Row, Trial, refined, row_of
from benchmarks.refine_tasks._simulated import Proposals
from benchmarks.refine_tasks._task import with_faults
from regauge.refine.edits import EditError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from benchmarks.refine_tasks._bench import SimulatedBench
    from benchmarks.refine_tasks._task import Task
    from regauge.refine.loop._state import LoopState

__all__ = ["SCENARIOS", "Scenario", "run_one", "trial_of"]

_SLOPPY = Proposals(p_fix=0.6, p_leak=0.3, p_drop=0.4, p_fluff=0.6)
_LEAKY = Proposals(p_fix=0.5, p_leak=0.5, p_drop=0.1, p_fluff=0.3)
_USUAL = Proposals()
_UNFIXABLE_RATE = 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of run.

    Attributes:
        faults: Instructions that are spoilt.
        unfixable: Whether one requirement fails whatever the prompt says.
        flips: The share of judgements that come out the wrong way.
        propose: Who proposes in place of the task's reflection model.
        runs: How many there are unless told otherwise.
        budgets: Whether each run has another budget.
        kinds: The faults that are seeded; all that the task can make if there are none here.
        only_by: Asked of the reflection model alone.
        own: Needs something that only the families here have.
        variance: Whether what is only flaky is worked on, too.
        sections: Whether whole sections are proposed, and nothing else; needs headings.
        grouped: Needs cases that differ in what they are about.
    """

    name: str
    faults: int = 0
    how: Proposals = _USUAL
    unfixable: bool = False
    flips: float = 0.0
    propose: Callable[[Task, Trial], Trial] | None = None
    runs: int = 60
    only_by: By | None = None
    own: bool = False
    grouped: bool = False
    budgets: bool = False
    kinds: tuple[str, ...] = ()
    variance: bool = False
    sections: bool = False


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="single", faults=1),
        Scenario(name="double", faults=2),
        Scenario(name="healthy", how=Proposals(neutral=True)),
        Scenario(name="healthy-sloppy", how=_SLOPPY),
        Scenario(name="unfixable", how=Proposals(neutral=True), unfixable=True),
        Scenario(name="unfixable-sloppy", how=_SLOPPY, unfixable=True),
        Scenario(name="single-flips", faults=1, flips=0.05),
        Scenario(name="healthy-flips", how=Proposals(neutral=True), flips=0.05),
        Scenario(name="leaky", faults=1, how=_LEAKY, only_by="model"),
        Scenario(
            name="leaky-numbers", faults=1, how=replace(_LEAKY, leak="number"), only_by="model",
            own=True,
        ),
        Scenario(
            name="leaky-spelled", faults=1, how=replace(_LEAKY, leak="spelled"), only_by="model",
            own=True,
        ),
        Scenario(
            name="leaky-retold", faults=1, how=replace(_LEAKY, leak="paraphrase"), only_by="model",
            own=True, grouped=True,
        ),
        Scenario(
            # To replace a contradiction helps all cases, however narrow the new line is.
            name="narrow", faults=1, how=Proposals(p_narrow=1.0), only_by="model", own=True,
            grouped=True, kinds=("delete",),
        ),
        Scenario(name="attacks", faults=1, propose=attacking, only_by="model", runs=100),
        Scenario(name="cycling", faults=1, propose=cycling, only_by="model"),
        Scenario(name="sections", faults=1, sections=True, only_by="model", own=True),
        Scenario(name="budgets", faults=1, budgets=True),
        # What is hedged is left to chance in a few cases: the check is flaky, and seldom more.
        Scenario(name="hedged", faults=1, kinds=("hedge",), own=True),
        Scenario(name="hedged-variance", faults=1, kinds=("hedge",), own=True, variance=True),
        Scenario(name="healthy-variance", how=_SLOPPY, variance=True),
        Scenario(name="unfixable-variance", how=_SLOPPY, unfixable=True, variance=True),
    )
}  # fmt: skip


@contextmanager
def trial_of(
    task: Task, scenario: Scenario, by: By, index: int
) -> Generator[tuple[Trial, str], None, None]:
    """One run of a scenario, not begun, and the faults in it; the task behaves so meanwhile.

    The same index is the same run.
    """
    rng = random.Random(f"{scenario.name}{index}")
    names, kinds = task.names, scenario.kinds or task.kinds
    # Every requirement and every kind of fault comes up equally often.
    pairs = list(task.faults) or [(kind, name) for kind in kinds for name in names]
    first = pairs[index % len(pairs)]
    faults = [first][: scenario.faults]
    while True:
        others = [pair for pair in pairs if pair[1] != first[1]]
        more = [rng.choice(others) for _ in range(scenario.faults - 1)]
        with suppress(EditError):  # faults that change the same words are drawn again
            prompt = with_faults(task, [*faults, *more], rng)
            break
    faults += more
    task.flips = scenario.flips
    task.unfixable.clear()
    if scenario.unfixable:
        task.unfixable[names[1 + index % (len(names) - 1)]] = _UNFIXABLE_RATE
    trial = Trial(
        prompt=prompt,
        train=task.cases(20, 1000 + index, "tr"),
        holdout=task.cases(10, 20_000 + index, "va"),
        seed=index,
        how=scenario.how,
        by=by,
        variance=scenario.variance,
        sections=getattr(task, "sections", ()) if scenario.sections else (),
        calls=rng.choice([60, 140, 200, 260, 330, 480]) if scenario.budgets else 600,
    )
    try:
        yield trial, " ".join("/".join(fault) for fault in faults)
    finally:
        task.unfixable.clear()
        task.flips = 0.0


def run_one(task: Task, scenario: Scenario, by: By, index: int) -> tuple[Row, int]:
    """One run of a scenario, and how many settled edits it took up again.

    The same index is the same run.
    """
    with trial_of(task, scenario, by, index) as (made, label):
        trial = scenario.propose(task, made) if scenario.propose is not None else made
        state, bench, seconds = refined(task, trial)
    row = row_of(task, trial, state, seconds, label=label)
    if trial.inputs:
        order = attack_of(trial).casefold().removeprefix("- ")
        row = replace(row, leak=row.leak or order in row.prompt.casefold())
    _hold(state, bench)
    return row, _repeats(state)


def _repeats(state: LoopState) -> int:
    """How many edits were tested that led to a text which was refuted or replaced before."""
    settled: set[str] = set()
    repeats = 0
    for entry in state.memory.attempts:
        # What is taken back was accepted before, and is not tested anew.
        rollback_reason = entry.result in {"suite-refused", "overfit", "undecided"}
        repeats += entry.after in settled and not rollback_reason
        if entry.result in {"guarded", "refuted", "overfit", "suite-refused"}:
            settled.add(entry.after)
        elif entry.result == "accepted":
            settled |= {entry.before, entry.after}
    return repeats


def _hold(state: LoopState, bench: SimulatedBench) -> None:
    """What must hold in every run, whatever it is about."""
    limits = bench.config.policy.limits
    if state.spending.calls > limits.calls or state.spending.model_calls > limits.model_calls + 3:
        raise AssertionError(f"{state.spending} is more than {limits}")
    holdout = set(bench.config.holdout)
    if any(holdout & set(shown) for shown in bench.requests):
        raise AssertionError("a holdout case was shown to a proposer")
