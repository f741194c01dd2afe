"""Judging prompts that are one message with headings, as libraries of metrics write them."""

from __future__ import annotations

import json

import pytest

from regauge.sim._evidence import parse_list, read_sheet
from tests.unit.sim.bench import request
from tests.unit.sim.judging import FAITHFUL, REPORT, TEXT, judged, schema

VERDICT = {"type": "string", "enum": ["yes", "no", "borderline"]}
VERDICTS = schema(
    verdicts={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"verdict": VERDICT, "reason": {"type": ["string", "null"]}},
            "required": ["verdict"],
        },
    }
)
SCORE = schema(reason=TEXT, score={"type": "number"})
WRONG = FAITHFUL.replace("20 minutes", "45 minutes")


def verdicts(prompt: str) -> list[str]:
    return [entry["verdict"] for entry in judged("", prompt, VERDICTS)["verdicts"]]


def graded(answer: str, scale: str) -> float:
    prompt = f"""\
You evaluate answers. Give {scale}.

Evaluation Steps:
1. Check that every statement of the actual output is supported by the context.
2. Check numbers and times.

Test Case:
Actual Output:
{answer}

Context:
{[REPORT]!r}

Parameters:
Actual Output and Context

---
**Example JSON:**
{{"reason": "why", "score": 0}}

JSON:
"""
    return judged("", prompt, SCORE)["score"]


@pytest.mark.parametrize(
    ("scale", "high"),
    [("an integer between 0 and 10", 10), ("a score from 0 to 1", 1), ("1-5 points", 5)],
)
def test_scores_are_on_the_scale_that_the_prompt_names(scale, high):
    good, bad = graded(FAITHFUL, scale), graded(WRONG, scale)
    assert 0 <= bad < good <= high
    assert good > 0.8 * high


def test_a_strict_score_is_nothing_or_all():
    scale = "a score that is STRICTLY EITHER 1 (yes), OR 0 (no)"
    assert (graded(FAITHFUL, scale), graded(WRONG, scale)) == (1, 0)


def test_each_claim_in_a_list_gets_its_verdict():
    claims = ["Nobody could log in for 20 minutes.", "Nobody could log in for 45 minutes."]
    unknown = "Burglars stole the database team's disks."
    prompt = (
        "Judge whether each claim agrees with the context: 'yes', 'no' or 'borderline'.\n\n"
        f"Retrieval Contexts:\n{[REPORT]!r}\n\nClaims:\n{[*claims, unknown]!r}\n\nJSON:"
    )
    assert verdicts(prompt)[:2] == ["yes", "no"]
    assert verdicts(prompt)[2] != "yes"


def test_examples_of_the_prompt_are_not_what_is_judged():
    prompt = (
        "List the claims of the text.\n\nText:\nAn example that nobody asked about.\n"
        "===== END OF EXAMPLE ======\n\nAI Output:\nThe disk was full. Writes failed.\n\nJSON:"
    )
    form = schema(claims={"type": "array", "items": TEXT})
    assert judged("", prompt, form)["claims"] == ["The disk was full.", "Writes failed."]


def test_rude_words_are_flagged_and_polite_ones_are_not():
    prompt = (
        "Determine for each opinion whether it is toxic.\n\n"
        "Opinions:\n['Only an idiot would deploy on Friday.', 'I like Mondays.']\n\nJSON:"
    )
    assert verdicts(prompt) == ["yes", "no"]


def test_instructions_that_can_be_checked_are_checked():
    prompt = (
        "For each of the prompt instructions determine whether it was followed.\n\n"
        "Prompt Instructions:\n['Answer in upper case.', 'Use at most 3 words.']\n\n"
        "LLM Actual Output:\nThe disk was full again\n\nJSON:"
    )
    assert verdicts(prompt) == ["no", "no"]


def test_contestants_are_compared_by_name():
    contestants = json.dumps({"Alice": WRONG, "Bob": FAITHFUL})
    prompt = (
        "You are a judge; pick the best contestant.\n\nEvaluation Steps:\nEvery statement and number "
        f"is supported by the context.\n\nContext:\n{REPORT}\n\nContestants:\n{contestants}\n\nJSON:"
    )
    assert judged("", prompt, schema(winner=TEXT, reason=TEXT))["winner"] == "Bob"


def test_questions_are_answered_yes_where_the_text_speaks_of_it():
    prompt = (
        "Determine whether the text answers each question.\n\nText:\nThe disk of db-1 was full.\n\n"
        "Questions:\n['Was the disk of db-1 full?', 'Did burglars steal laptops?']\n\nJSON:"
    )
    form = schema(answers={"type": "array", "items": TEXT})
    assert judged("", prompt, form)["answers"] == ["yes", "no"]


@pytest.mark.parametrize(
    ("shown", "entries"),
    [
        ('["a b", "c"]', ["a b", "c"]),
        ("['it\\'s', \"b\"]", ["it's", "b"]),
        ('{"claims": ["a", "b"]}', ["a", "b"]),
        ("1. one\n2. two", ["one", "two"]),
        ("[ToolCall(\n    name='a'\n)]", ["ToolCall( name='a' )"]),
        ("", []),
    ],
)
def test_lists_are_read_as_prompts_show_them(shown, entries):
    assert parse_list(shown) == entries


def test_a_prompt_without_any_heading_is_all_criteria():
    sheet = read_sheet(request("Be a judge.").messages)
    assert (sheet.criteria, dict(sheet.parts), sheet.judged_text) == ("Be a judge.", {}, "")
