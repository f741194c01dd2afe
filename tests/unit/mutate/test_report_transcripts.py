"""Mutation reports of many kinds, word for word: on a terminal, as Markdown, as a badge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.mutate._report import SuiteFacts, UnmeasuredMutants
from regauge.prompts import Message, Prompt
from regauge.reports.mutants import mutation_badge, mutation_lines, mutation_markdown
from tests.transcripts import assert_as_written
from tests.unit.mutate.test_report import report, row

if TYPE_CHECKING:
    from regauge.mutate import MutantRow

SOURCE = "\n".join(f"- line {number}" for number in range(1, 9))
PROMPT = Prompt(
    name="triage",
    path=Path("triage.prompt.yml"),
    messages=(Message(role="system", content=SOURCE),),
    source=SOURCE,
)
LONG = "x" * 71


def missing(mutants: int, cost_usd: float | None = 0.5) -> dict[str, Any]:
    suite = SuiteFacts(cases=9, able=6, tracked=2, failing=1)
    return {"missing": UnmeasuredMutants(mutants=mutants, calls=40, cost_usd=cost_usd, suite=suite)}


ALL = [
    row(2, "killed", cases=["a", "b", "c"], judges=["right", "tone"]),
    row(2, "harmful", cases=["d"]),
    row(3, "survived", cases=["e", "f", "g"], evidence={"section": "# Rules:"}),
    row(5, "no-effect", text=LONG, evidence={"section": "# Rules:"}),
    row(5, "undecided", reason="out of budget"),
    row(7, "equivalent", reason="so", operator="negate"),
    row(7, "killed", operator="negate", judges=["right"]),
    row(12, "survived", operator="order-in-input", reason=""),
]
UNMEASURED = row(4, "undecided", reason="not recorded", evidence={"unmeasured": True})
REPORTS: dict[str, tuple[list[MutantRow], dict[str, Any]]] = {
    "every class": (ALL, {}),
    "none": ([], {}),
    "all guarded": ([row(number, "killed", judges=["right"]) for number in (1, 2, 3)], {}),
    "work left": (ALL[:4], {"version": None, "simulated": False}),
    "in part": ([*ALL, UNMEASURED], missing(1, None)),
    "none measured": ([UNMEASURED], missing(1)),
    **{
        f"badge {killed}": (
            [row(number, "killed" if number <= killed else "survived") for number in range(1, 21)],
            {},
        )
        for killed in (0, 4, 5, 9, 10, 14, 15, 17, 18, 20)
    },
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_mutation_report_is_told_as_it_was_written_down(name: str):
    rows, changes = REPORTS[name]
    made = report(*rows).model_copy(update=changes)
    text = [
        *(f"{tone:6}|{line}" for line, tone in mutation_lines(made, PROMPT)),
        "",
        mutation_markdown(made),
        str(mutation_badge(made, len(rows))),
        str(mutation_badge(made, len(rows) + 1)),
        made.score.model_dump_json(),
    ]
    assert_as_written("\n".join([*text, ""]), f"mutation reports/{name}")
