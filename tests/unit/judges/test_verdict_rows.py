"""Verdicts of rules as rows of data: each rule with its options, on outputs at either side of them.

`python -m tests.unit.judges.test_verdict_rows` writes the verdicts of all rows; read the difference
before it is committed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regauge.errors import JudgeError, UsageError
from regauge.judges import judge_from_spec
from regauge.judges._output import JudgedOutput
from regauge.judges._rule import Rule
from regauge.providers import ToolCall
from tests.unit.judges.samples import CASE, completion

DATA = Path(__file__).parents[2] / "data" / "verdicts"
INPUTS: dict[str, Any] = {
    "report": "Disk full on api-7 at 2024-05-03T14:05Z, 2 of 5 pods died; 1,200 ms, 0.50 EUR.",
    "notes": ["see Node_4", {"at": "3 Mai 2023, 9:15:30"}],
    "n": 3,
}


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a file: a rule, and its verdict on each output."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


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


REFUSALS = DATA.parent / "judge_refusals.jsonl"


def refusal_of(spec: Any) -> str:
    """Why no judge can be made of a specification; empty where one can."""
    try:
        judge_from_spec(spec)
    except UsageError as error:
        return str(error)
    return ""


def test_what_no_judge_can_be_made_of_is_refused_with_the_words_of_its_row():
    rows = read_rows(REFUSALS)
    refusals = [{"spec": row["spec"], "refused": refusal_of(row["spec"])} for row in rows]
    assert refusals == rows


@pytest.mark.parametrize(
    "row",
    [row for file in sorted(DATA.glob("*.jsonl")) for row in read_rows(file)],
    ids=lambda row: json.dumps(row["judge"])[:60],
)
def test_a_rule_judges_as_its_row_has_it(row: dict[str, Any]):
    rule = read_rule(row["judge"])
    verdicts = [(output, verdict_on(rule, output)) for output, _ in row["verdicts"]]
    assert verdicts == [(output, verdict) for output, verdict in row["verdicts"]]
    assert advice_of(rule) == row["advice"]


def write_rows() -> None:
    refusals = [{**row, "refused": refusal_of(row["spec"])} for row in read_rows(REFUSALS)]
    REFUSALS.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in refusals), "utf-8"
    )
    for file in sorted(DATA.glob("*.jsonl")):
        lines: list[str] = []
        for row in read_rows(file):
            rule = read_rule(row["judge"])
            row["advice"] = advice_of(rule)
            row["verdicts"] = [[output, verdict_on(rule, output)] for output, _ in row["verdicts"]]
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        file.write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    write_rows()
