"""Verdicts of rules as rows of data: each rule with its options, on outputs at either side of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import JudgeError, UsageError
from regauge.judges import judge_from_spec
from regauge.judges._rule import Rule
from regauge.judges.output import JudgedOutput
from regauge.providers import ToolCall
from tests.transcripts import DATA, held_rows, read_rows
from tests.unit.judges.samples import CASE, completion

if TYPE_CHECKING:
    from collections.abc import Iterator

VERDICTS = DATA / "verdicts"
INPUTS: dict[str, Any] = {
    "report": "Disk full on api-7 at 2024-05-03T14:05Z, 2 of 5 pods died; 1,200 ms, 0.50 EUR.",
    "notes": ["see Node_4", {"at": "3 Mai 2023, 9:15:30"}],
    "n": 3,
}


def verdict_on(rule: Rule, output: str | dict[str, Any]) -> str:
    """A verdict in one line: outcome, score, code, reason, and the values that it states."""
    try:
        if isinstance(output, str):
            verdict = rule.check_text(output, inputs=INPUTS)
        else:
            changes = dict(output)
            if "tool_calls" in changes:
                calls = enumerate(changes["tool_calls"])
                changes["tool_calls"] = tuple(
                    ToolCall(id=str(n), name=name, arguments=arguments)
                    for n, (name, arguments) in calls
                )
            made = completion(changes.pop("text", "ok"), **changes)
            verdict = rule.examine(JudgedOutput.from_completion(made, CASE))
    except JudgeError as error:
        return f"error: {error}"
    values = {"expected": verdict.expected, "actual": verdict.actual, **verdict.details}
    code = values.pop("code", None)
    shown = {name: value for name, value in values.items() if value is not None}
    line = f"{verdict.outcome} {verdict.score:.4f} {code}: {verdict.reason}"
    return f"{line} | {json.dumps(shown, ensure_ascii=False)}" if shown else line


def advice_of(rule: Rule) -> list[str]:
    """What a prompt should say for it, for a field of its output, and for its negation."""
    return [rule.advice(), rule.advice(field="reason"), rule.advice(negated=True)]


def read_rule(spec: Any) -> Rule:
    rule = judge_from_spec(spec)
    assert isinstance(rule, Rule)
    return rule


REFUSALS = DATA / "judge_refusals.jsonl"


def refusal_of(spec: Any) -> str:
    """Why no judge can be made of a specification; empty where one can."""
    try:
        judge_from_spec(spec)
    except UsageError as error:
        return str(error)
    return ""


def test_what_no_judge_can_be_made_of_is_refused_with_the_words_of_its_row():
    def refusals() -> list[dict[str, Any]]:
        specs = [row["spec"] for row in read_rows(REFUSALS)]
        return [{"spec": spec, "refused": refusal_of(spec)} for spec in specs]

    assert held_rows(REFUSALS, refusals) == refusals()


def judged_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the name, the advice and the verdicts of its rule now."""
    rule = read_rule(row["judge"])
    verdicts = [[output, verdict_on(rule, output)] for output, _ in row["verdicts"]]
    parts = {"name": rule.name, "advice": advice_of(rule), "verdicts": verdicts}
    return {"judge": row["judge"], **parts}


def verdict_rows() -> Iterator[dict[str, Any]]:
    """The rows of all files: a rule, and its verdict on each output."""
    for file in sorted(VERDICTS.glob("*.jsonl")):
        yield from held_rows(file, lambda file=file: map(judged_row, read_rows(file)))


@pytest.mark.parametrize("row", [*verdict_rows()], ids=lambda row: json.dumps(row["judge"])[:60])
def test_a_rule_judges_as_its_row_has_it(row: dict[str, Any]):
    assert judged_row(row) == row
