from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from regauge.errors import RegaugeError, UsageError
from regauge.judges import min_chars
from regauge.project import Project, Settings
from regauge.runner import RunOptions, golden, resolve_options, spec_of
from regauge.runner._eval import bind
from regauge.runner._missing import record_command
from regauge.runner._spec import TRIALS_MAX, EvalSpec, declared_evals

if TYPE_CHECKING:
    from pathlib import Path

NOTHING: dict[str, Any] = {
    "record": None,
    "trials": None,
    "concurrency": None,
    "budget_usd": None,
    "fail_fast": False,
}


def resolved(
    settings: dict[str, Any] | None = None, environ: dict[str, str] | None = None, **given: Any
) -> RunOptions:
    return resolve_options(
        Settings.model_validate(settings or {}), environ or {}, **(NOTHING | given)
    )


@pytest.mark.parametrize(
    ("ci", "mode"),
    [
        (None, "missing"),
        ("", "missing"),
        ("0", "missing"),
        ("false", "missing"),
        ("No", "missing"),
        ("1", "none"),
        ("true", "none"),
        ("woodpecker", "none"),
    ],
)
def test_where_ci_is_set_nothing_is_asked_by_deerror(ci: str | None, mode: str):
    assert resolved(environ={} if ci is None else {"CI": ci}).record == mode


def test_the_command_line_goes_before_settings_and_settings_before_ci():
    in_ci = {"CI": "1"}
    assert resolved({"record": "missing"}, in_ci).record == "missing"
    assert resolved({"record": "missing"}, in_ci, record="all").record == "all"
    assert resolved({"trials": 3}).trials == 3
    assert resolved({"trials": 3}, trials=1).trials == 1
    assert resolved({"concurrency": 4}).concurrency == 4
    assert resolved({"concurrency": 4}, concurrency="auto").concurrency == "auto"
    assert resolved({"budget_usd": 5}).budget_usd == 5
    assert resolved({"budget_usd": 5}, budget_usd=0.0).budget_usd == 0.0


def test_a_run_that_stops_at_failures_looks_less_far_ahead():
    assert resolved().ahead is None
    assert resolved(fail_fast=True).ahead == 32


@given(st.text(max_size=6))
def test_a_concurrency_is_a_number_in_range_or_auto(text: str):
    valid = text == "auto" or (text.isascii() and text.isdigit() and 1 <= int(text) <= 1024)
    if valid or not text:
        expected = "auto" if text in {"", "auto"} else int(text)
        assert resolved(concurrency=text).concurrency == expected
    else:
        with pytest.raises(UsageError, match="--concurrency takes"):
            resolved(concurrency=text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"trials": 0}, "--trials must be from 1 to 10000, not 0"),
        ({"trials": -1}, "--trials must be from 1"),
        ({"trials": TRIALS_MAX + 1}, "--trials must be from 1"),
        ({"budget_usd": -0.01}, "--budget-usd must be a number of dollars from 0 up, not -0.01"),
        ({"budget_usd": math.inf}, "--budget-usd must be a number"),
        ({"concurrency": "0"}, "--concurrency takes"),
        ({"budget_tokens": -1}, "--budget-tokens must be a number from 0 up, not -1"),
        ({"budget_calls": -1}, "--budget-calls must be a number from 0 up, not -1"),
        ({"models": ("sim:a", "sim:b", "sim:a")}, "--model names sim:a twice\n  fix: name each"),
        ({"judge_model": "gpt-5"}, "--judge-model: 'gpt-5' names no provider"),
    ],
)
def test_numbers_out_of_range_are_refused(given: dict[str, Any], words: str):
    with pytest.raises(UsageError) as caught:
        resolved(**given)
    assert words in str(caught.value)


def test_an_eval_has_the_options_of_its_decorator():
    def evaluated(result: Any) -> None: ...

    judge = min_chars(1)
    options: dict[str, Any] = {
        "judges": [judge],
        "dataset": "cases",
        "trials": 3,
        "pass_rate": 0.5,
        "model": "sim:clerk-1",
        "version": "1.0.0",
        "target": "shop",
    }
    assert spec_of(golden("alert", **options)(evaluated)) == EvalSpec(
        prompt="alert", **{**options, "judges": (judge,)}
    )
    assert spec_of(golden("alert")(evaluated)) == EvalSpec(
        prompt="alert",
        judges=(),
        dataset=None,
        trials=None,
        pass_rate=1.0,
        model=None,
        version=None,
        target=None,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(({"pass_rate": rate}, "above 0 and at most 1, not") for rate in (0, -1, 1.01, 2, "1", None)),
        *(({"trials": n}, f"trials must be from 1 to {TRIALS_MAX}, not") for n in (0, -1, TRIALS_MAX + 1, 1.0, "2")),
        ({"pass_rate": 1, "trials": TRIALS_MAX}, "there is no prompt 'alert'"),
        ({"pass_rate": 0.001, "trials": 1}, "there is no prompt 'alert'"),
    ],
)  # fmt: skip
def test_numbers_of_an_eval_are_in_their_range(tmp_path: Path, options: dict[str, Any], words: str):
    def evaluated(result: Any) -> None: ...

    spec = spec_of(golden("alert", **options)(evaluated))
    assert spec is not None
    with pytest.raises(RegaugeError, match=re.escape(words)):
        bind(spec, evaluated, project=Project(root=tmp_path), options=RunOptions(record="none"))


def test_without_options_a_run_has_the_defaults_of_its_options():
    options = resolve_options(
        Settings(), {}, record=None, trials=None, concurrency=None, budget_usd=None
    )
    assert options == RunOptions(record="missing", concurrency="auto")
    assert (options.trials, options.ahead, options.rejudge, options.models) == (1, None, False, ())


def test_the_ends_of_the_ranges_are_taken():
    options = resolved(
        trials=TRIALS_MAX,
        budget_usd=0.0,
        budget_tokens=0,
        budget_calls=0,
        models=("sim:a", "sim:b"),
    )
    assert (options.trials, options.budget_usd, options.models) == (
        TRIALS_MAX,
        0.0,
        ("sim:a", "sim:b"),
    )
    assert (options.budget_tokens, options.budget_calls) == (0, 0)
    assert resolved(trials=1).trials == 1
    assert resolved({"judge_model": "sim:a"}).judge_model == "sim:a"
    assert resolved({"judge_model": "sim:a"}, judge_model="sim:b").judge_model == "sim:b"


def test_the_command_that_records_repeats_what_is_not_the_default(made: Any):
    suite = made.suite()
    settings = Settings.model_validate({"judge_model": "sim:j", "trials": 2})

    def command(**given: Any) -> str:
        return record_command(
            suite, settings, resolved({"judge_model": "sim:j", "trials": 2}, **given)
        )

    assert command() == "regauge record alert"
    assert command(judge_model="sim:k") == "regauge record alert --judge-model sim:k"
    assert command(trials=3) == "regauge record alert --trials 3"
    assert command(models=("sim:clerk-1",)) == "regauge record alert --model sim:clerk-1"
    own = replace(suite, dataset=replace(suite.dataset, path=suite.prompt.path))
    assert record_command(own, settings, resolved(trials=2)) == (
        "pytest prompts/alert.prompt.yml --record missing"
    )


@pytest.mark.parametrize(
    ("source", "evals"),
    [
        (b"from regauge import golden\n(", []),
        (b"import golden\n@golden('a')\ndef test_a(result): ...\n", []),
        (b"from regauge import golden\n@golden\ndef test_a(result): ...\n", []),
        (b"from regauge import golden\n@golden('a')\ndef test_a(result): ...\n", [(2, "test_a", ("a",))]),
        (b"import regauge\n@regauge.golden('a')\nasync def test_a(result): ...\n", [(2, "test_a", ("a",))]),
        (
            b"from regauge import golden as eval_of\nNAME = 'a'\n@eval_of(NAME, dataset='d')\ndef test_a(result): ...\n",
            [(3, "test_a", ("a", "d"))],
        ),
        (
            b"from other import golden as eval_of\nimport regauge\n@eval_of('a')\ndef test_a(result): ...\n",
            [],
        ),
    ],
)  # fmt: skip
def test_evals_of_a_file_are_found_without_its_import(source: bytes, evals: list[Any]):
    found = [(one.line, one.function, one.texts) for one in declared_evals(source)]
    assert found == evals


def test_judges_and_target_of_an_eval_are_read_from_its_source():
    source = (
        b"from regauge import golden\nJUDGES = [a(1), b]\n"
        b"@golden('x', judges=JUDGES, target='app:run')\ndef test_a(result): ...\n"
        b"@golden('x', judges=make(), target=app)\ndef test_b(result): ...\n"
    )
    first, second = declared_evals(source)
    assert (first.judges, first.target, first.texts) == (("a(1)", "b"), "app:run", ("x", "app:run"))
    assert (second.judges, second.target) == (("make()",), None)
