"""Parts of a refinement with few inputs, as tables: statuses, stops, orders, goals, texts of cases."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from regauge.datasets import GoldenCase
from regauge.errors import BudgetError, ConfigError, JudgeError, ProviderError, UsageError
from regauge.judges import max_chars, max_words
from regauge.project import Project
from regauge.providers import ModelId
from regauge.refine.guards import CaseText
from regauge.refine.loop._state import Spending
from regauge.refine.problem import _RUN_WORDS, _neighbours, _representatives, _runs
from regauge.refine.runs import status_of
from regauge.refine.subject import (
    _joined_evals,
    _kinds,
    _nearest,
    deciding_judges,
    goal_name,
    goals_for,
)
from regauge.refine.trials import _describe_error, _interrupted, count_replayed, trial_spending
from regauge.runner import CallTotals, PlannedCase
from tests.parts import EvalParts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("reason", "proposal", "accepted", "status"),
    [
        ("improved", True, 2, "proposed"),
        ("calls", True, 2, "proposed"),
        ("calls", False, 1, "not-verified"),
        ("calls", False, 0, "interrupted"),
        ("usd", False, 2, "interrupted"),
        ("tokens", False, 0, "interrupted"),
        ("no-key", False, 0, "interrupted"),
        ("provider-outage", False, 0, "interrupted"),
        ("interrupted", False, 1, "interrupted"),
        ("unmeasured", False, 0, "unmeasured"),
        ("suite-refused", False, 0, "no-change"),
        ("cycles", False, 3, "no-change"),
    ],
)
def test_the_status_of_a_run_follows_from_why_it_stopped(
    reason: str, *, proposal: bool, accepted: int, status: str
):
    stop = SimpleNamespace(reason=reason, proposal=proposal)
    state = SimpleNamespace(stop=stop, accepted_edits=(object(),) * accepted)
    assert status_of(cast("Any", state)) == status


def judge_error(cause: Exception | None) -> JudgeError:
    error = JudgeError("it cannot judge", judge="tone")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BudgetError("no calls are left", limit="calls"), "calls"),
        (BudgetError("no dollars are left", limit="usd"), "usd"),
        (ProviderError("refused", kind="authentication"), "no-key"),
        (ProviderError("it is down", kind="server"), "provider-outage"),
        (judge_error(ProviderError("refused", kind="authentication")), "no-key"),
        (judge_error(ProviderError("it is down", kind="server")), "provider-outage"),
        (judge_error(ValueError("no")), "unmeasured"),
        (judge_error(None), "unmeasured"),
    ],
)
def test_an_error_of_trials_stops_a_run_for_its_reason(error: Exception, reason: str):
    stop = _interrupted(error, "a text")
    assert (stop.reason, stop.text) == (reason, "a text")


def test_an_error_in_the_code_of_a_judge_has_its_name():
    assert _describe_error(ValueError("no")) == "no"
    assert _describe_error(JudgeError("no", judge="tone")) == "no"
    error = JudgeError("no", judge="tone", traceback="Traceback")
    assert _describe_error(error) == "no\n  fix: correct judge 'tone'"


@pytest.mark.parametrize(
    ("cycle", "order"), [(1, "a d e b f c"), (2, "b f c a d e"), (3, "a d e b f c")]
)
def test_failing_cases_are_shown_by_kind_in_turn_and_each_cycle_begins_with_others(
    cycle: int, order: str
):
    kinds = {"a": "x", "b": "x", "c": "x", "d": "y", "f": "y", "e": ""}
    confused = {case: Counter([kind] if kind else []) for case, kind in kinds.items()}
    shown = _representatives("abcdef", confused, cycle)
    assert sorted(shown) == sorted(order.split())
    assert shown == order.split()


def test_passing_cases_most_like_a_failing_one_come_first():
    texts = {
        "far": "the printer has paper",
        "near": "the disk of the node and its host is full",
        "same": "the disk is full today",
        "fails": "the disk is full",
    }
    cases = {
        name: GoldenCase(id=name, inputs={"text": text}, expected=None, split="train")
        for name, text in texts.items()
    }
    assert _neighbours(["far", "near", "same"], ["fails"], cases) == ["same", "near", "far"]
    assert _neighbours(["far", "near"], [], cases) == ["far", "near"]


def test_the_texts_of_a_case_are_its_inputs_and_what_is_expected_as_it_is_written():
    case = GoldenCase(
        id="a", inputs={"text": "Zoë", "n": 3}, expected={"name": "Zoë"}, split="train"
    )
    made = CaseText.from_case(case)
    assert (made.id, made.texts, made.expected) == ("a", ("Zoë", "3"), '{"name": "Zoë"}')
    without = GoldenCase(id="b", inputs={"text": "x"}, expected=None, split="train")
    assert not CaseText.from_case(without).expected


def project(tmp_path: Path, goals: str) -> Project:
    (tmp_path / "prompts").mkdir()
    for name in ("triage", "greet"):
        (tmp_path / f"prompts/{name}.prompt.yml").write_text("messages: []\n")
    (tmp_path / "pyproject.toml").write_text(f"[tool.regauge.refine]\ngoals = [{goals}]\n")
    return Project.find(tmp_path)


def test_a_prompt_has_its_own_goals_and_those_of_all(tmp_path: Path):
    here = project(
        tmp_path,
        '{ pass_rate = 0.9 }, { prompt = "triage", judge = "tone", pass_rate = 0.8 },'
        ' { prompt = "greet", criterion = "format", tag = "new", pass_rate = 0.75 }',
    )
    named = {name: [*map(goal_name, goals_for(here, name))] for name in ("triage", "greet")}
    assert named == {
        "triage": ["every check at 90 %", "tone at 80 %"],
        "greet": ["every check at 90 %", "criterion format on tag new at 75 %"],
    }


def test_a_goal_of_a_prompt_that_is_not_there_is_an_error(tmp_path: Path):
    here = project(tmp_path, '{ prompt = "trage", pass_rate = 0.8 }')
    with pytest.raises(ConfigError, match="trage"):
        goals_for(here, "triage")


def test_a_judge_is_named_by_its_kind_too():
    rule = max_words(3)
    assert next(_kinds(rule.name, rule)) == "max_words"
    assert [*_kinds("tone(a, b)", cast("Any", SimpleNamespace(kind="function")))] == ["tone"]
    judged = cast("Any", SimpleNamespace(kind="rubric"))
    assert [*_kinds("tone", judged)] == ["tone", "rubric"]


@pytest.mark.parametrize(
    ("name", "names", "words"),
    [
        ("tone", ["tones", "kind"], "tones"),
        ("zzz", ["b", "a", "b"], "there are a, b; set `prompt = ...`"),
        (None, [], "there are none; set `prompt = ...`"),
    ],
)
def test_a_goal_names_what_it_may_mean(name: str | None, names: list[str], words: str):
    assert words in _nearest(name, names)


def test_a_usage_error_is_no_interruption_by_a_provider():
    assert _interrupted(UsageError("no"), "t").reason == "unmeasured"


@pytest.mark.parametrize("words", [0, 1, _RUN_WORDS - 1, _RUN_WORDS, _RUN_WORDS + 2])
def test_a_text_has_the_whole_runs_of_its_words_alone(words: int):
    names = [f"Word{number}" for number in range(words)]
    runs = _runs(", ".join(names) + ".")
    assert len(runs) == max(0, words - _RUN_WORDS + 1)
    assert all(len(run.split()) == _RUN_WORDS for run in runs)
    assert all(run in " ".join(names).casefold() for run in runs)


JUDGED = CallTotals(calls=3, live=1, cost_usd=0.25)


@pytest.mark.parametrize(
    ("source", "calls", "usd", "judge_calls", "replayed"),
    [
        ("live", None, 0.5, 0, 0),
        ("local", None, 0.5, 0, 1),
        ("recording", None, 0.0, 0, 1),
        ("live", JUDGED, 0.75, 3, 2),
        ("recording", JUDGED, 0.0, 3, 3),
        ("live", replace(JUDGED, cost_usd=None), 0.5, 3, 2),
        (None, JUDGED, 0.0, 3, 2),
        (None, None, 0.0, 0, 0),
    ],
)
def test_a_trial_counts_its_calls_and_their_first_cost(
    source: Any, calls: CallTotals | None, usd: float, judge_calls: int, replayed: int
):
    trial = EvalParts().trial(source=source)
    if source is None:
        trial = replace(trial, sourced_completion=None)
    trial = replace(trial, verdicts=(replace(trial.verdicts[0], calls=calls),))
    assert trial_spending(trial) == Spending(calls=1, judge_calls=judge_calls, usd=usd)
    assert count_replayed(trial) == replayed


@pytest.mark.parametrize(
    ("check", "judges"),
    [
        (None, ["max_words(9)", "tone", "style"]),
        ("tone", ["max_words(9)", "tone"]),
        ("max_words(9)", ["max_words(9)"]),
        ("no such check", ["max_words(9)"]),
    ],
)
def test_a_trial_for_one_check_needs_the_blocking_rules_and_its_own_llm_judge(
    check: str | None, judges: list[str]
):
    models = [cast("Any", SimpleNamespace(name=name)) for name in ("tone", "style", "advice")]
    statuses = {
        judge.name: cast("Any", SimpleNamespace(blocking=judge.name != "advice"))
        for judge in models
    }
    suite = replace(EvalParts().suite(), judges=(max_words(9), *models), judge_statuses=statuses)
    assert [judge.name for judge in deciding_judges(suite, check)] == judges
    without_rules = replace(suite, judges=tuple(models))
    expected = ["tone"] if check == "tone" else ["tone", "style"]
    assert [judge.name for judge in deciding_judges(without_rules, check)] == expected


def test_evals_that_judge_the_same_completions_are_joined():
    made = EvalParts()
    whole = made.suite(name="triage")
    first = replace(whole, judges=(max_words(9), max_words(5)), trials=2)
    second = replace(whole, judges=(max_words(5), max_chars(9)), pass_rate=0.5)
    others = [
        replace(made.suite(), judges=(max_words(9),)),
        replace(whole, model=ModelId(provider="sim", model="clerk-2")),
    ]
    suites = _joined_evals([PlannedCase(s, made.case()) for s in (first, second, *others)])
    joined = suites[id(first)]
    assert suites[id(second)] is joined
    assert {judge.name for judge in joined.judges} == {
        "max_words(9)",
        "max_words(5)",
        "max_chars(9)",
    }
    assert len(joined.judges) == 3
    assert (joined.trials, joined.pass_rate) == (2, 1.0)
    assert [suites[id(other)] for other in others] == others
