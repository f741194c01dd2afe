"""SQL that a library parses, without its log in the output of a run."""

from __future__ import annotations

import logging

import pytest

from regauge.judges.rules._infrastructure import _mute_parser, _parse


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select 1", ""),
        ("select a from t; -- done", ""),
        ("", "no statement"),
        (";", "no statement"),
        ("-- a comment", "no statement"),
        ("Sure!", "at line 1, column 5"),
        ("1", "no statement: '1'"),
        ("select from where", "at line 1, column"),
        ("select 1" + " " * 50_000, "longer than 50000 characters"),
        ("select 1" + " " * (50_000 - 8), ""),
    ],
)
def test_a_text_is_sql_or_the_reason_is_given(text: str, reason: str):
    parsed = _parse(text, "")
    assert isinstance(parsed, str) is bool(reason)
    if reason:
        assert reason in parsed


def test_what_the_parser_logs_is_kept_out_of_a_run_and_no_longer(
    caplog: pytest.LogCaptureFixture,
):
    log = logging.getLogger("sqlglot")
    before = [*log.filters]
    with _mute_parser():
        log.warning("within")
    log.warning("after")
    assert log.filters == before
    assert [record.getMessage() for record in caplog.records] == ["after"]
    _parse("EXPLAIN ANALYZE FOO BAR 1", "")
    assert [record.getMessage() for record in caplog.records] == ["after"]
