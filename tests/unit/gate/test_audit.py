"""Recorded trials beside new ones: which difference is chance, and whose recordings are better."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from regauge.evidence import Count
from regauge.gate import GatePolicy
from regauge.gate._audit import (
    AuditedTrial,
    audit_by_steps,
    audit_fresh,
    recorded_outcomes,
    today_is_worse,
)
from regauge.gate.power import sensitivity_line
from regauge.recordings import RecordingKey
from regauge.runner import PlannedCase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from regauge.runner import PlannedTrial, Trial
    from tests.parts import EvalParts


def recorded(series: str, outcomes: str, prompt: str = "a") -> list[AuditedTrial]:
    """Trials of a case each: `+` passed when it was recorded, `-` failed."""
    return [
        AuditedTrial(prompt=prompt, case=f"c{n}", series=series, number=0, passed=sign == "+")  # type: ignore[arg-type]
        for n, sign in enumerate(outcomes)
    ]


def fresh(outcomes: str, prompt: str = "a") -> dict[tuple[str, str], list[bool | None]]:
    """New trials of a case each; of `?` nothing was measured."""
    values = {"+": True, "-": False, "?": None}
    return {(prompt, f"c{n}"): [values[sign]] for n, sign in enumerate(outcomes)}


@pytest.mark.parametrize(
    ("before", "now", "result", "better", "worse"),
    [
        ("++++", "++++", "agree", 0, 0),
        ("+++-", "++-+", "agree", 1, 1),
        ("+" * 12, "-" * 12, "better", 12, 0),
        ("-" * 12, "+" * 12, "agree", 0, 12),
        ("+" * 12, "-" * 11 + "?", "better", 11, 0),
        ("+" * 4, "-" * 4, "agree", 4, 0),
    ],
)
def test_recordings_are_better_where_many_pass_that_fail_again(
    before: str, now: str, result: str, better: int, worse: int
):
    report = audit_fresh(recorded("evals", before), fresh(now))
    assert report is not None
    assert (report.result, report.better, report.worse) == (result, better, worse)
    assert report.trials == len(now.replace("?", ""))
    assert report.prompts == (("a",) if better > worse else ())
    assert bool(report.fix) is (result == "better")
    assert report.message.startswith(f"recordings {'agree' if result == 'agree' else 'of a are'}")


def test_without_a_pair_there_is_no_report():
    assert audit_fresh(recorded("evals", "++"), fresh("??")) is None
    assert audit_fresh(recorded("evals", "++"), {}) is None


def test_the_series_that_is_least_by_chance_is_reported_at_its_share_of_the_level():
    alone = audit_fresh(recorded("gate", "+" * 12), fresh("-" * 12))
    both = [*recorded("evals", "+++"), *recorded("gate", "+" * 12)]
    report = audit_fresh(both, fresh("-" * 12))
    assert alone is not None
    assert report is not None
    assert (report.trials, report.p_value) == (12, alone.p_value)
    assert report.level == alone.level / 2


def test_a_prompt_whose_recordings_are_not_better_is_not_named():
    trials = [*recorded("evals", "+" * 12), *recorded("evals", "-" * 3, "b")]
    report = audit_fresh(trials, fresh("-" * 12) | fresh("+" * 3, "b"))
    assert report is not None
    assert report.prompts == ("a",)


def test_the_base_is_worse_today_where_its_record_was_clearly_better():
    before = [Count(passed=20, trials=20)] * 8
    assert today_is_worse(before, [Count(passed=0, trials=1)] * 8)
    assert not today_is_worse(before, [Count(passed=1, trials=1)] * 8)


@pytest.mark.parametrize("trials", [0, 3])
def test_there_is_no_sensitivity_without_trials_of_the_base(trials: int):
    assert sensitivity_line([], GatePolicy(), recorded=trials) is None


class Recorded:
    """A session that reads recordings: `texts` by trial, with the day on which each was made."""

    def __init__(self, made: EvalParts, texts: dict[int, tuple[str, str]]) -> None:
        self.case = PlannedCase(made.suite(), made.case())
        self._made = made
        self._recordings = {
            RecordingKey(self.case.digest, number): SimpleNamespace(
                completion=SimpleNamespace(text=text), recorded_at=day
            )
            for number, (text, day) in texts.items()
        }
        self.completions = SimpleNamespace(file=lambda _: self._recordings)

    def replay(self, draws: Any) -> list[Any]:
        ((number, text),) = [
            (draw.trial, self._recordings[draw.key].completion.text) for draw in draws
        ]
        outcome = {"+": "passed", "-": "failed", "?": "unmeasured"}[text[0]]
        return [self._made.trial(number, outcome)]


@pytest.mark.parametrize(
    ("texts", "numbers", "outcomes"),
    [
        ({}, 3, []),
        ({0: ("+a", "1"), 3000: ("-b", "1")}, 1, ["evals 0 +", "gate 0 -"]),
        ({0: ("+a", "1"), 1: ("-b", "1"), 2: ("+c", "1")}, 2, ["evals 0 +", "evals 1 -"]),
        ({0: ("?a", "1"), 3001: ("+b", "2")}, 2, ["gate 1 +"]),
        # A gate copies its first trials for the evals, and a copy is the same trial.
        ({0: ("+a", "1"), 3000: ("+a", "1")}, 1, ["evals 0 +"]),
        ({0: ("+a", "1"), 1: ("-b", "1"), 3000: ("-b", "1")}, 2, ["evals 0 +", "evals 1 -"]),
        ({0: ("+a", "1"), 3000: ("+a", "2")}, 1, ["evals 0 +", "gate 0 +"]),
        ({2999: ("+a", "1"), 3002: ("+b", "1"), 4000: ("+c", "1")}, 3, ["gate 2 +"]),
    ],
)
def test_each_committed_trial_of_evals_and_gate_is_compared_once(
    made: EvalParts, texts: dict[int, tuple[str, str]], numbers: int, outcomes: list[str]
):
    reader: Any = Recorded(made, texts)
    trials = recorded_outcomes(
        reader, [("a", reader.case, ("severity",))], numbers=lambda _: numbers
    )
    assert [f"{t.series} {t.number} {'-+'[t.passed]}" for t in trials] == outcomes
    assert {(t.prompt, t.case) for t in trials} <= {("a", "c0")}


@pytest.mark.parametrize(
    ("failing", "steps", "result"),
    [(0, 1, "agree"), (1, 2, "agree"), (400, 1, "better")],
)
def test_an_audit_repeats_few_trials_once_each_and_more_after_a_doubt(
    made: EvalParts, failing: int, steps: int, result: str
):
    """Few fail again: the first step of a tenth ends the audit if none or all of its trials do."""
    batches: list[list[PlannedTrial]] = []

    class Trials:
        async def run_all(self, draws: list[PlannedTrial]) -> list[Trial]:
            first = sum(map(len, batches))
            batches.append(draws)
            return [
                made.trial(0, "failed" if number < failing else "passed")
                for number in range(first, first + len(draws))
            ]

    @asynccontextmanager
    async def open_trials() -> AsyncIterator[Trials]:
        yield Trials()

    trials = [
        AuditedTrial(prompt="a", case=f"c{n % 50}", series="evals", number=n // 50, passed=True)
        for n in range(400)
    ]
    cases = {f"c{n}": PlannedCase(made.suite(), made.case(n)) for n in range(50)}
    session = cast("Any", SimpleNamespace(open_trials=open_trials))
    report = asyncio.run(audit_by_steps(session, trials, cases, ["severity"], seed="s"))
    assert (len(batches), report.result) == (steps, result)
    sizes = [len(batch) for batch in batches]
    assert 20 <= sizes[0] <= 60
    assert all(120 <= first + second <= 200 for first, second in pairwise(sizes))
    draws = [(draw.planned_case.case.id, draw.trial) for batch in batches for draw in batch]
    numbers: dict[str, list[int]] = {}
    for case, number in draws:
        numbers.setdefault(case, []).append(number)
    assert all(found == [1000 + n for n in range(len(found))] for found in numbers.values())
