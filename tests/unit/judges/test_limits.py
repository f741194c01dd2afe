"""Limits that JSON has no word for, and judges that compare with a case nobody gave."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from regauge.cli.judges import try_command as command
from regauge.errors import JudgeError, UsageError
from regauge.judges import (
    Rule,
    answer_is,
    bleu,
    choice_is,
    chrf,
    contains,
    json_matches_schema,
    judge_from_spec,
    rouge_l,
    similarity,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", ["max_cost_usd", "max_latency_s", "max_tokens"])
@pytest.mark.parametrize("limit", [math.nan, math.inf, -math.inf, -1])
def test_a_limit_is_a_finite_number_from_0_up(kind: str, limit: float):
    with pytest.raises(UsageError, match=f"{kind}: (limit|n|at_most) is a number from 0 up"):
        judge_from_spec({kind: limit})


def test_a_parameter_that_is_no_json_value_is_refused():
    with pytest.raises(UsageError, match="json_matches_schema: a parameter is not a JSON value"):
        json_matches_schema({"const": math.nan})


@pytest.mark.parametrize(
    "rule",
    [contains(), similarity(), bleu(), chrf(), rouge_l(), choice_is(), answer_is()],
)
def test_a_case_without_what_a_judge_compares_with_is_named(rule: Rule, tmp_path: Path):
    with pytest.raises(JudgeError, match="nothing was given as expected"):
        rule.check_text("The pod died.", expected=None)
    output = tmp_path / "output.txt"
    output.write_text("The pod died.", encoding="utf-8")
    done = CliRunner().invoke(command, [rule.kind, str(output)])
    assert isinstance(done.exception, JudgeError)
    assert f"{rule.kind}: case 'case' has no expected (no case given)" in str(done.exception)


def test_integers_beyond_the_range_of_a_float_are_compared_digit_by_digit():
    large = 10**400

    def is_equal(expected: int, actual: float) -> bool:
        rule = judge_from_spec({"json_like": {"value": {"n": expected}}})
        assert isinstance(rule, Rule)
        return rule.check_text(f'{{"n": {actual}}}').outcome == "pass"

    assert is_equal(large, large)
    assert is_equal(-large, -large)
    for expected, actual in [(large, large + 1), (large, -large), (large, 1.5), (1, large)]:
        assert not is_equal(expected, actual)
