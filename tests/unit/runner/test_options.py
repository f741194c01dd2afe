from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from regauge.errors import UsageError
from regauge.project import Settings
from regauge.runner import RunOptions, resolve_options

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
    "given", [{"trials": 0}, {"trials": -1}, {"budget_usd": -0.01}, {"concurrency": "0"}]
)
def test_numbers_out_of_range_are_refused(given: dict[str, Any]):
    with pytest.raises(UsageError):
        resolved(**given)
