"""The proposer that asks nobody: what it puts where, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.refine.edits import apply, count_lost_words
from regauge.refine.proposers._rules import propose_by_rules
from tests.unit.refine.proposers.problems import (
    LIMIT,
    RELEASED,
    SEVERITY,
    mode,
    prompt,
    strategies,
    without,
)

if TYPE_CHECKING:
    from regauge.providers import Completion, CompletionRequest

CHECKS = {LIMIT.name: LIMIT, SEVERITY.name: SEVERITY}
REASON = "- reason: one sentence of at most 30 words."
CRITICAL = "- critical: somebody has to be woken up."
WARNING = "- warning: somebody has to look at it."


def after(system: str, edit: object) -> str:
    """The first message once an edit is made."""
    return apply(prompt(system), edit.ops).messages[0].content  # type: ignore[attr-defined]


def test_the_answer_of_field_equals_is_never_advised() -> None:
    assert propose_by_rules(prompt(RELEASED), mode(SEVERITY), CHECKS) == ()


@pytest.mark.parametrize(
    ("said", "strategy", "becomes"),
    [
        ("- reason: one sentence of about 30 words.", "strengthen", REASON),
        ("- reason: one sentence of 30 words.", "strengthen", REASON),
        ("- reason: one sentence of at most 300 words.", "set-number", REASON),
        ("- reason: one sentence of at least 90 words.", "set-number", REASON),
    ],
)
def test_a_loose_or_other_number_is_reworded_in_place(
    said: str, strategy: str, becomes: str
) -> None:
    now = RELEASED.replace(REASON, said)
    edit = propose_by_rules(prompt(now), mode(), CHECKS)[0]
    assert edit.strategy == strategy
    assert after(now, edit) == RELEASED.replace(REASON, becomes)


def test_a_number_of_another_field_is_left_alone() -> None:
    now = without(RELEASED, REASON) + "- title: at most 5 words.\n"
    edits = propose_by_rules(prompt(now), mode(), CHECKS)
    assert "set-number" not in strategies(edits)
    listed = {LIMIT.name: replace(LIMIT, advice="reason: at most 30 words")}
    edits = propose_by_rules(prompt("title: at most 5 words, plain"), mode(), listed)
    assert "set-number" not in strategies(edits)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("Write what happened and why, in at most 90 words.", "at most 20 words"),
        ("(b) Write the summary: no more than 90 words, plain text.", "at most 20 words"),
        ("| summary | at most 90 words | what happened |", "at most 20 words"),
        ("Give it a title of at most 8 words first.", None),
        ("If the report has more than 90 words, read its end first.", None),
        ("Write what happened and why, in at most 9 sentences.", None),
    ],
)
def test_a_limit_of_a_part_above_that_of_the_answer_is_lowered(
    line: str, becomes: str | None
) -> None:
    whole = replace(LIMIT, advice="Keep the answer to at most 20 words.")
    edits = propose_by_rules(prompt(f"{line}\n"), mode(whole), {LIMIT.name: whole})
    lowered = [edit for edit in edits if edit.strategy == "set-number"]
    assert bool(lowered) == (becomes is not None)
    for edit in lowered:
        assert becomes in after(f"{line}\n", edit)


def test_the_advice_goes_to_the_section_it_belongs_to() -> None:
    now = RELEASED.replace(REASON, "- reason: one sentence.")
    edits = propose_by_rules(prompt(now), mode(), CHECKS)
    added = next(edit for edit in edits if edit.strategy == "add-rule")
    assert after(now, added) == now.replace(
        "- reason: one sentence.", f"- reason: one sentence.\n- {LIMIT.advice}"
    )


TAGGED = "<role>\nYou rate alerts.\n</role>\n<form>\nAnswer in JSON.\nThe reason is a sentence.\n</form>\n<alert>"
DENSE = "You rate alerts, and you answer in JSON. Explain the reason in any number of words."
TERSE = "You rate alerts.\nform: JSON, one line\nreason: in any words, one sentence"


@pytest.mark.parametrize(
    ("now", "advice", "strategy", "becomes"),
    [
        (
            TAGGED,
            "Keep the reason to at most 30 words.",
            "add-rule",
            TAGGED.replace("</form>", "Keep the reason to at most 30 words.\n</form>"),
        ),
        (
            DENSE,
            "Keep the reason to at most 30 words.",
            "add-rule",
            f"{DENSE} Keep the reason to at most 30 words.",
        ),
        (
            TERSE,
            "reason: at most 30 words",
            "add-rule",
            f"{TERSE}\nreason: at most 30 words",
        ),
        ("1. Rate.\n2. Reason.", "Be brief.", "add-rule", "1. Rate.\n2. Reason.\n3. Be brief."),
    ],
    ids=["tags", "paragraph", "terse", "numbers"],
)
def test_the_advice_is_written_as_the_prompt_is(
    now: str, advice: str, strategy: str, becomes: str
) -> None:
    checks = {LIMIT.name: replace(LIMIT, advice=advice)}
    edits = propose_by_rules(prompt(now), mode(), checks)
    assert becomes in [after(now, edit) for edit in edits if edit.strategy == strategy]


def test_a_rule_is_never_put_among_entries_about_something_else() -> None:
    now = "You rate alerts.\nbody: right below the reason, short"
    checks = {LIMIT.name: replace(LIMIT, advice="reason: one word")}
    edits = propose_by_rules(prompt(now), mode(), checks)
    assert [after(now, edit) for edit in edits] == [f"{now}\nreason: one word"]


@pytest.mark.parametrize(
    ("said", "advice", "becomes"),
    [
        ("1. Ordne jeden Antrag einer Stufe von 1 bis 6 zu.", "Ordne jeden Antrag einer Stufe von 1 bis 4 zu.",
         "1. Ordne jeden Antrag einer Stufe von 1 bis 4 zu."),
        ("- Never promise a refund.", "Promise a refund.", "- Promise a refund."),
        ("Give all times in CET; be brief here.", "Give all times in UTC", "Give all times in UTC; be brief here."),
        ("要約は二百字以内で書いてください。", "要約は三百字以内で書いてください。", "要約は三百字以内で書いてください。"),
    ],
)  # fmt: skip
def test_the_same_sentence_with_another_value_is_corrected_in_place(said, advice, becomes):
    checks = {LIMIT.name: replace(LIMIT, advice=advice)}
    edits = propose_by_rules(prompt(said), mode(), checks)
    assert [after(said, e).rstrip() for e in edits if e.strategy == "set-value"] == [becomes]


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("Give all times in CET.", "Give all times in UTC. Be brief."),
        ("Give all times in CET.", "Be brief. Give all times in UTC."),
        ("Give all times in {{zone}}.", "Give all times in UTC."),
        ("Give all times in UTC.", "Give all times in UTC."),
        ("Give all times in CET.", "Give your times in UTC, with the zone."),
    ],
)
def test_a_value_is_corrected_where_a_whole_sentence_differs_in_nothing_else(said, advice):
    checks = {LIMIT.name: replace(LIMIT, advice=advice)}
    edits = propose_by_rules(prompt(said), mode(), checks)
    assert "set-value" not in strategies(edits)


@pytest.mark.parametrize(
    ("prompt_text", "advice"),
    [
        (
            "You are a site reliability engineer who prepares incident reviews.\nAnswer in English.",
            "State the severity of the incident.",
        ),
        (
            "- summary: what happened, and how it was resolved.",
            "Keep `summary` to at most 80 words.",
        ),
        ("Gebe alle Beträge in Euro an. Nenne Betrag und Datum.", "Nenne das Datum zuerst."),
    ],
)
def test_a_shared_word_replaces_nothing(prompt_text, advice):
    checks = {LIMIT.name: replace(LIMIT, advice=advice)}
    edits = propose_by_rules(prompt(prompt_text), mode(), checks)
    assert edits
    for edit in edits:
        assert not count_lost_words(prompt(prompt_text), apply(prompt(prompt_text), edit.ops))


@pytest.mark.parametrize(
    "said",
    [
        "- reason: why it is so. At most 30 sentences.",
        "| Field | Limit |\n| --- | --- |\n| reason | at most 30 sentences |",
    ],
)
def test_a_unit_that_is_wrong_is_corrected_where_it_is(said):
    edits = propose_by_rules(prompt(said), mode(), CHECKS)
    assert [after(said, e).rstrip() for e in edits if e.strategy == "set-unit"] == [
        said.replace("sentences", "words")
    ]


async def nobody(request: CompletionRequest) -> Completion:
    """Who answers no question."""
    raise AssertionError(request)
