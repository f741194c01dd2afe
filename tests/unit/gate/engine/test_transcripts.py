"""Whole gates, trial by trial: what each round asks for, what is found of it, and what is said."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.gate import (
    BaseTrials,
    Gate,
    GateCase,
    GatePolicy,
    MessageContext,
    TrialFacts,
    case_message,
    control_note,
    critical_note,
    reason_message,
)
from regauge.gate._messages import suite_message
from regauge.gate._types import with_more_trials
from regauge.stats import CasePolicy, SuitePolicy
from tests.transcripts import assert_as_written
from tests.unit.gate.engine.drive import ONE, count, others, scripted, with_policy
from tests.unit.gate.engine.test_suites import failing, once
from tests.unit.gate.engine.test_verdicts import flipped

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.gate import GateOutcome
    from tests.unit.gate.engine.drive import Scripted


def graded(
    seed: int, candidate: float, base: float = 0.85, cases: int = 12, policy: GatePolicy = ONE
) -> tuple[Gate, Callable[[str, str, int], TrialFacts]]:
    """Cases with scores around a mean on either side; now and then a check fails or abstains."""
    dice = random.Random(seed)
    baseline = BaseTrials(
        checks={"helpful": count("11/12"), "polite": count("10/10")},
        total=count("11/12"),
        scores={"helpful": tuple(0.8 + dice.random() / 10 for _ in range(12)), "polite": (1.0,)},
        distinct_outputs=12,
    )
    known = [
        GateCase(prompt="p", case=f"c{number}", checks=("helpful", "polite"), baseline=baseline)
        for number in range(cases)
    ]

    def facts(case: str, side: str, number: int) -> TrialFacts:
        own = random.Random(f"{seed} {case} {side} {number}")
        score = (candidate if side == "candidate" else base) + own.random() / 10 - 0.05
        polite = None if own.random() < 0.1 else own.random() < 0.97
        return TrialFacts(
            checks={"helpful": score > 0.6, "polite": polite},
            scores={"helpful": score},
            output_digest=f"{case} {own.randrange(6)}",
        )

    return Gate(known, policy), facts


def noisy(seed: int, worse: float, cases: int = 25) -> list[Scripted]:
    """Cases of all kinds, some of which pass less often than they did."""
    dice = random.Random(seed)

    def script(rate: float) -> str:
        return "".join("1" if dice.random() < rate else "0" for _ in range(80))

    made: list[Scripted] = []
    for number in range(cases):
        rate = dice.choice([1.0, 1.0, 0.97, 0.75, 0.1])
        before = sum(dice.random() < rate for _ in range(12))
        made.append(
            scripted(
                script(rate - worse * dice.random() * 2),
                base=script(rate),
                was=f"{before}/12",
                name=f"c{number}",
                prompt=("triage", "reply")[number % 3 == 0],
                tier=dice.choice(["required", "required", "required", "critical", "tracked"]),
                accepted=dice.choice(["", "", "", "agreed"]),
                broke_before=dice.randrange(3),
            )
        )
    return made


SCRIPTED: dict[str, tuple[list[Scripted], GatePolicy]] = {
    **{
        f"noise {seed}": (noisy(seed, 0.15 * (seed % 4)), GatePolicy() if seed % 2 else ONE)
        for seed in range(10)
    },
    **{
        f"noise continued {seed}": (noisy(seed, 0.1), with_more_trials(GatePolicy(), 19))
        for seed in range(20, 23)
    },
    "weighed, one look": (flipped(5, 15), ONE),
    "weighed, worse": (flipped(12, 5), ONE),
    "weighed, undecided": (flipped(6, 5), ONE),
    "weighed, continued": (flipped(6, 5), with_more_trials(ONE, 16)),
    "small, weighed": (flipped(2, 3)[:20], GatePolicy()),
    "spread": ([*failing(12, "001", tier="tracked"), *others(88)], ONE),
    "unconfirmed": ([*once(12, tier="tracked"), *others(88)], ONE),
    "doubtful": ([*once(1, tier="tracked", was="20/20"), *others(30)], ONE),
    "warned": ([*failing(12, "0"), *others(88)], with_policy(on_broken="warn")),
    "without baseline": ([scripted("0", was=None), *others(9, was=None)], GatePolicy()),
    "in part without": ([scripted("01", was=None), *others(5)], GatePolicy()),
    "not measured": ([*failing(4, "0!"), *others(20, base="!")], GatePolicy()),
    "replayed": (
        [scripted("0-"), scripted("1-", name="d"), scripted("-", name="e"), *others(9, base="-")],
        with_policy(provisional=True, first_trials=2),
    ),
    "only recorded": (
        [
            replace(one, case=replace(one.case, recorded=True))
            for one in (*failing(9, "0001", base="1"), *others(20))
        ],
        GatePolicy(first_trials=4),
    ),
    "new": (
        [
            scripted("101", was=None, state="new"),
            scripted("1", was=None, state="new", name="d", tier="tracked"),
            scripted("0", was=None, state="new", name="e", accepted="agreed"),
            scripted("00", was=None, state="new", name="f", tier="critical", strict=True),
            scripted(state="removed", name="g"),
            scripted(state="removed", name="h", accepted="agreed"),
            scripted(state="unchanged", name="i", accepted="agreed"),
        ],
        GatePolicy(on_new="warn", accepted_max=0),
    ),
    "one step": (
        [*failing(3, "0110"), *others(40)],
        GatePolicy(
            case=CasePolicy(steps=(2, 3), late_steps=(2,), extra_steps=(3,), serious=2.0),
            suite=SuitePolicy(screen=(0.02, 0.01), pairs=(1, 2), control=2),
        ),
    ),
    "better": (
        [
            scripted("1", was="0/12", base="0"),
            scripted("10", was="2/12", base="0", name="d"),
            scripted("1", was="3/12", base="00101", name="e"),
            scripted("1", was="4/12", base="0", name="f"),
            scripted("1", was="0/12", base="1", name="g"),
            *others(30),
        ],
        GatePolicy(on_drifted="block"),
    ),
}


def seen(gate: Gate, facts_of: Callable[[str, str, str, int], object]) -> list[str]:
    """Each round as side and trials per case; every trial is answered."""
    lines: list[str] = []
    while wanted := gate.pending_trials():
        asked: dict[str, list[int]] = {}
        for one in wanted:
            asked.setdefault(f"{one.side} {one.prompt}/{one.case}", []).extend(one.trials)
            for number in one.trials:
                facts = facts_of(one.prompt, one.case, one.side, number)
                gate.observe(one.prompt, one.case, one.side, number, facts)  # type: ignore[arg-type]
        sizes: dict[tuple[str, int, int], int] = {}
        for name, numbers in asked.items():
            key = (name.split()[0], numbers[0], len(numbers))
            sizes[key] = sizes.get(key, 0) + 1
        lines.append(
            "round: "
            + ", ".join(
                f"{cases} {side} {first}+{more}" for (side, first, more), cases in sizes.items()
            )
        )
    return lines


def outcome_lines(outcome: GateOutcome) -> list[str]:
    """Everything the outcome says, with its numbers; cases that passed unseen are left out."""
    drawn = f"{outcome.checks} checks, {outcome.base_trials} of base, first {outcome.first_trials}"
    lines = [f"{outcome.decision}, finished {outcome.finished}, {drawn}"]
    messages = {
        (case.prompt, case.case): case_message(case, MessageContext(checks=outcome.checks))
        for case in outcome.cases
    }
    for case in outcome.cases:
        if case.status == "passed" and not case.candidate.failed and not case.today.trials:
            continue
        lines.append(f"{messages[case.prompt, case.case]}{' BLOCKS' if case.blocks else ''}")
        lines.append(
            f"    {case.status}: {case.candidate}, before {case.before}, today {case.today},"
            f" repeated {case.repeat_count}, missing {case.unmeasured_trials}, needs {case.unrecorded_trials}, recorded"
            f" {case.recorded}, flaky {case.flaky}, bar {case.bar}, bound {shown(case.failure_bound)}"
        )
        lines += [
            f"    {check.check} {check.status} {check.direction}: {check.candidate}, paired"
            f" {check.paired} with {check.today}, e {shown(check.e_value)} of {shown(check.bound)},"
            f" today {shown(check.e_today)}"
            for check in case.checks
        ]
    for suite in outcome.suites:
        lines.append(suite_message(suite))
        lines.append(
            f"    {suite.status}, {suite.cases} cases, asked {suite.suspects}, stable failed"
            f" {suite.stable_failed}, needs {suite.unrecorded_trials}, broken {suite.broken}, fixed {suite.fixed}"
        )
        for one in suite.rounds:
            scores = {check: shown(p) for check, p in one.scores.items()}
            lines.append(
                f"    round of {one.trials}: {one.fails} of {one.total_trials} failed, expected"
                f" {shown(one.expected)}, p {shown(one.p_value)} {one.equal} of {shown(one.bound)},"
                f" scores {scores}"
            )
        for pair in suite.pairs:
            p_values = {check: shown(p) for check, p in pair.p_values.items()}
            lines.append(
                f"    pairs {pair.candidate}, base {pair.base}: {p_values} of {shown(pair.bound)}"
            )
        for net in suite.net:
            lines.append(
                f"    net {net.candidate}, base {net.base}: worse {shown(net.p_worse)}, better"
                f" {shown(net.p_better)} of {shown(net.bound)}"
            )
        if suite.difference is not None:
            rates = suite.difference
            lines.append(
                f"    from {shown(rates.base)} to {shown(rates.candidate)}, {shown(rates.low)} to"
                f" {shown(rates.high)}, side by side {suite.side_by_side}"
            )
        if suite.control is not None:
            lamp = suite.control
            lines.append(f"    control {lamp.base}, p {shown(lamp.p_baseline)}, below {lamp.below}")
    for reason in outcome.reasons:
        message = messages.get((reason.prompt, reason.case)) or reason_message(reason, outcome)
        lines.append(f"{reason.leads_to} for {reason.kind} {reason.check}: {message}")
    return [*lines, control_note(outcome), critical_note(outcome), ""]


def shown(number: float | None) -> str:
    """A number without the digits that another machine may compute otherwise."""
    return "none" if number is None else f"{number:.4g}"


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_gate_decides_as_it_was_written_down(name: str):
    cases, policy = SCRIPTED[name]
    known = {one.case.key: one for one in cases}
    gate = Gate([one.case for one in known.values()], policy)
    lines = seen(
        gate,
        lambda prompt, case, side, number: known[prompt, case].facts(side, number),  # type: ignore[arg-type]
    )
    assert_as_written("\n".join([*lines, *outcome_lines(gate.outcome())]), f"gate/{name}")


@pytest.mark.parametrize(
    ("seed", "candidate", "base", "cases"),
    [
        (1, 0.85, 0.85, 12),
        (2, 0.75, 0.85, 12),
        (3, 0.7, 0.7, 30),
        (4, 0.64, 0.85, 35),
        (5, 0.9, 0.85, 5),
    ],
)
def test_a_gate_with_scores_decides_as_it_was_written_down(
    seed: int, candidate: float, base: float, cases: int
):
    gate, facts = graded(seed, candidate, base, cases)
    lines = seen(gate, lambda _, case, side, number: facts(case, side, number))
    assert_as_written("\n".join([*lines, *outcome_lines(gate.outcome())]), f"gate/scores {seed}")


def test_a_part_of_the_way_tells_what_is_known_so_far():
    """After the first round, and one after it, of a gate that has more to ask."""
    known = {one.case.key: one for one in flipped(2, 2)[:20]}
    gate = Gate([one.case for one in known.values()], GatePolicy())
    lines: list[str] = []
    for _ in range(2):
        for one in gate.pending_trials():
            for number in one.trials:
                facts = known[one.prompt, one.case].facts(one.side, number)
                gate.observe(one.prompt, one.case, one.side, number, facts)
        lines += outcome_lines(gate.outcome())
    assert_as_written("\n".join(lines), "gate/on the way")
