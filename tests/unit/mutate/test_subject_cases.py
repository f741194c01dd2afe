"""Cases that may guard instructions: their words, tier, key and trials of the base."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from regauge.evidence import Count
from regauge.gate.baselines import BaselineKey, StoredBaseline, StoredTrials
from regauge.judges import contains, max_words
from regauge.mutate import JudgedTrial
from regauge.mutate._subject import EvalBench, _case, member_key
from regauge.runner import PlannedCase

if TYPE_CHECKING:
    from regauge.runner import PlannedTrial, Trial

KEY = BaselineKey(prompt="a" * 64, model="sim:m", dataset="d", judges={"max_words(3)": "b" * 64})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, 'disk 0 is full\n{"severity": "critical"}\n\ndisk\nmax_words(3)\nc0'),
        ({"expected": None}, "disk 0 is full\n\n\ndisk\nmax_words(3)\nc0"),
        ({"expected": "ü"}, 'disk 0 is full\n"ü"\n\ndisk\nmax_words(3)\nc0'),
        (
            {"inputs": {"a": "one", "b": [2]}, "tags": ("x", "y"), "id": "z"},
            'one\n[2]\n{"severity": "critical"}\n\nx\ny\nmax_words(3)\nz',
        ),
        (
            {"checks": ({"contains": "é"},), "tags": ()},
            'disk 0 is full\n{"severity": "critical"}\n[{"contains": "é"}]\nmax_words(3)\nc0',
        ),
    ],
)
def test_the_words_of_a_case_are_its_inputs_expectation_checks_tags_and_id(
    made: Any, changes: dict[str, Any], text: str
):
    suite = replace(made.suite(), judges=(max_words(3),))
    case = _case("key", PlannedCase(suite, made.case(**changes)), None, accepted=False)
    assert (case.key, case.checks, case.text) == ("key", ("max_words(3)",), text)
    assert case.baseline is None


@pytest.mark.parametrize(
    ("tier", "passed", "trials", "held"),
    [
        ("required", 20, 20, "required"),
        ("tracked", 20, 20, "tracked"),
        ("critical", 20, 20, "critical"),
        ("critical", 19, 19, "required"),
        ("critical", 19, 20, "required"),
        ("critical", 0, 0, "required"),
    ],
)
def test_a_case_is_critical_once_proven_and_blocks_unless_it_is_tracked_or_accepted(
    made: Any, tier: str, passed: int, trials: int, held: str
):
    case = made.case(tier=tier)
    stored = StoredTrials(
        digest=case.digest[:16],
        numbers=tuple(range(100, 100 + trials)),
        passed=passed,
        checks={"max_words(3)": Count(passed=passed, trials=trials)},
    )
    baseline = StoredBaseline(
        key=KEY, version="1.0.0", sessions=(), cases={"c0": stored} if trials else {}
    )
    planned = PlannedCase(replace(made.suite(), judges=(max_words(3),)), case)
    count = Count(passed=passed, trials=trials) if trials else None
    for accepted in (False, True):
        guard = _case("c0", planned, baseline, accepted=accepted)
        assert (guard.tier, guard.blocks) == (held, tier != "tracked" and not accepted)
        assert (guard.baseline and guard.baseline.total) == count


@pytest.mark.parametrize(
    ("text", "judged", "passed"),
    [("same", [("max_words(3)",)], True), ("other", [("max_words(3)",), ("max_words(3)", "tone")], False)],
)  # fmt: skip
def test_llm_judges_judge_the_outputs_of_a_mutant_that_the_base_does_not_have(
    made: Any, text: str, judged: list[tuple[str, ...]], *, passed: bool
):
    tone = cast("Any", SimpleNamespace(name="tone", kind="rubric", digest="t"))
    suite = replace(
        made.suite(),
        judges=(max_words(3), tone),
        judge_statuses={"tone": cast("Any", SimpleNamespace(blocking=True))},
    )
    drawn: list[tuple[str, ...]] = []

    class Trials:
        async def run(self, draw: PlannedTrial) -> Trial:
            judges = draw.planned_case.eval.judges
            is_base = draw.planned_case.eval.prompt is suite.prompt
            if not is_base:
                drawn.append(tuple(judge.name for judge in judges))
            trial: Trial = made.trial(outcome="passed" if is_base else "failed")
            source, (verdict,) = trial.sourced_completion, trial.verdicts
            assert source is not None
            completion = replace(source.completion, text="same" if is_base else text)
            return replace(
                trial,
                sourced_completion=replace(source, completion=completion),
                verdicts=tuple(replace(verdict, judge=judge.name) for judge in judges),
            )

    members = {"c0": PlannedCase(suite, made.case())}
    bench = EvalBench(cast("Any", SimpleNamespace(members=members)), cast("Any", Trials()))
    mutant = replace(suite.prompt, messages=suite.prompt.messages[:1])
    (trial,) = asyncio.run(bench.run_trials(mutant, [("c0", 0)]))
    assert isinstance(trial, JudgedTrial)
    assert (trial.output, drawn) == (text, judged)
    assert trial.facts.checks == {"max_words(3)": passed, "tone": passed}


def test_a_case_of_an_earlier_eval_keeps_its_key(made: Any):
    suite = replace(made.suite(), judges=(contains("a"),))
    keys: list[str] = []
    for case in (made.case(0), made.case(1), made.case(0), made.case(0)):
        keys.append(member_key(case, suite, keys))
    assert keys == ["c0", "c1", "alert/c0#2", "alert/c0#3"]
