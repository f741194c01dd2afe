"""Lists and rulings of the simulated judge, for each part that its prompt may have."""

from __future__ import annotations

import json
from dataclasses import asdict

from regauge.sim._evidence import Sheet
from regauge.sim._judge import entries, make_rulings
from regauge.sim._rules import CLERK_1, Dice
from tests.transcripts import assert_as_written

ANSWER = "The disk was full. I think it is bad. You must restart the node at 14:05."
SOURCE = "The disk of api-7 was full at 14:05. Two of 5 pods died."
CLAIMS = '["The disk was full.", "severity: 3", "All 9 pods died at 14:05."]'
LISTS = {
    "of statements": ("statements", {"answer": ANSWER}),
    "of claims": ("claims", {"text": ANSWER}),
    "of opinions": ("opinions", {"answer": ANSWER}),
    "of truths with a source": ("truths", {"answer": ANSWER, "source": SOURCE}),
    "of truths without one": ("truths", {"answer": ANSWER}),
    "of intentions": ("intentions", {"answer": ANSWER, "talk": "Fix the disk. Say why."}),
    "of questions about a text": ("questions", {"text": ANSWER}),
    "of questions about claims": ("questions", {"text": ANSWER, "items": CLAIMS}),
    "of a source alone": ("claims", {"source": f'["{SOURCE}", "It rained."]'}),
    "of an input alone": ("claims", {"input": "What was full?"}),
    "of nothing": ("claims", {}),
}
RULINGS = {
    "claims and a source": ("Is it supported?", {"items": CLAIMS, "source": SOURCE}),
    "claims and a question": ("Is it relevant?", {"items": CLAIMS, "input": "Was the disk full?"}),
    "kinds of entries": ("Is it biased?", {"items": '["All old people lie.", "It is so."]'}),
    "claims and an answer": ("Is it relevant?", {"items": CLAIMS, "answer": ANSWER}),
    "findings": (
        "Is it supported?",
        {
            "items": json.dumps(
                [
                    json.dumps({"claim": "The disk was full.", "quote": "The disk was full."}),
                    json.dumps({"claim": "It rained.", "answer": "The source does not state it."}),
                ]
            )
        },
    ),
    "instructions": (
        "the prompt instructions",
        {
            "items": '["Answer in JSON.", "At most 3 words.", "At most 99 words.", "Use upper case."]',
            "answer": ANSWER,
        },
    ),
    "an answer and a source": ("Does it agree?", {"answer": ANSWER, "source": f'["{SOURCE}"]'}),
    "an answer and three nodes": ("EQUAL TO 3", {"answer": ANSWER, "source": SOURCE}),
    "an expected text": ("It is attributed.", {"expected": ANSWER, "source": SOURCE}),
    "a source alone": ("Is it relevant?", {"source": SOURCE, "input": "Was the disk full?"}),
    "an answer alone": ("Is it relevant?", {"answer": ANSWER, "input": "Was the disk full?"}),
}


def test_lists_of_the_judge_are_as_it_was_written_down():
    lines: list[str] = []
    for name, (key, parts) in LISTS.items():
        sheet = Sheet(criteria="Generate 2 questions.", parts=parts)
        lines += [f"{name}:", *(f"  {entry}" for entry in entries(key, sheet))]
    assert_as_written("\n".join([*lines, ""]), "judge/lists")


def test_rulings_of_the_judge_are_as_it_was_written_down():
    lines: list[str] = []
    dice = Dice(rules=CLERK_1, number=0, temperature=0)
    for name, (head, parts) in RULINGS.items():
        rulings = make_rulings(Sheet(criteria=head, parts=parts), dice, head)
        lines += [f"{name}:", *(f"  {json.dumps(asdict(ruling))}" for ruling in rulings)]
    assert_as_written("\n".join([*lines, ""]), "judge/rulings")
