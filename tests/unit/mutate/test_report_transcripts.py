"""Mutation reports of many kinds, word for word: on a terminal, as Markdown, as a badge."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from regauge.mutate import ChangedGuards, GuardChange, MutantClass
from regauge.mutate._pull_request import GuardCount
from regauge.mutate._report import EvalFacts, UnmeasuredMutants
from regauge.prompts import Message, Prompt
from regauge.reports.mutants import (
    guards_document,
    mutation_badge,
    mutation_lines,
    mutation_markdown,
)
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
    suite = EvalFacts(cases=9, able=6, tracked=2, failing=1)
    return {"missing": UnmeasuredMutants(mutants=mutants, calls=40, cost_usd=cost_usd, eval=suite)}


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
        *(f"{line.tone:6}|{line.text}" for line in mutation_lines(made, PROMPT)),
        "",
        mutation_markdown(made),
        str(mutation_badge(made, len(rows))),
        str(mutation_badge(made, len(rows) + 1)),
        made.score.model_dump_json(),
    ]
    assert_as_written("\n".join([*text, ""]), f"mutation reports/{name}")


CLASSES = (None, *get_args(MutantClass))
CASES = ("a", "b", "c", "d", "e")
CHANGES = [
    *(
        GuardChange(kind="deleted", line=2, text="Be brief.", before=before, cases=CASES[:2])
        for before in CLASSES
    ),
    *(
        GuardChange(
            kind=kind,
            line=3,
            text=LONG,
            before="killed" if kind == "unguarded" else None,
            after=after,
            causes=causes if kind == "unguarded" else (),
            cases=CASES if after == "killed" else (),
            reason="" if after else "out of budget",
        )
        for kind, causes, after in product(
            ("unguarded", "edited", "added"),
            (("deletes case a",), ("deletes case a", "deletes case b")),
            CLASSES,
        )
        if kind == "unguarded" or len(causes) == 1
    ),
    GuardChange(kind="guarded", line=4, text="Use JSON.", after="killed", cases=CASES[:1]),
    GuardChange(kind="guarded", line=4, text="Use JSON.", after="killed"),
]
COUNTS = {
    "as before": (GuardCount(guarded=4, total=5), GuardCount(guarded=4, total=5), None),
    "without a base": (GuardCount(guarded=2, total=5, open=1), None, 0.5),
    "at the floor": (GuardCount(guarded=3, total=6), GuardCount(guarded=6, total=6), 0.5),
    "open at the floor": (GuardCount(guarded=2, total=6, open=1), None, 0.5),
    "below the floor": (GuardCount(guarded=1, total=6, open=1), None, 0.5),
    "nothing": (GuardCount(guarded=0, total=0), GuardCount(guarded=0, total=0), 0.5),
}


def test_guards_under_a_change_are_told_as_it_was_written_down():
    texts = []
    for name, (now, base, floor) in COUNTS.items():
        guards = ChangedGuards(
            prompt="triage",
            eval="triage" if base else "other",
            now=now,
            base=base,
            changes=tuple(CHANGES) if name == "as before" else (),
            trials=3,
            notes=("a note",),
            floor=floor,
        )
        document = guards_document(guards, "main")
        texts.append(document.model_dump_json(exclude={"changes"}))
        texts += [f"  {change.message}" for change in document.changes]
    assert_as_written("\n".join([*texts, ""]), "mutation reports/guards")
