"""Evaluators of prompt files that have a model choose."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import JudgeError, PromptError
from regauge.judges import cases_from_test_data, criterion_of, judges_from_evaluators
from regauge.prompts import parse_prompt
from tests.unit.judges.deepeval_responses import Calls, bound, completion, prompt_of

if TYPE_CHECKING:
    from regauge.judges import Verdict

HEAD = """\
messages:
  - {role: user, content: "Say it of {{topic}}"}
testData:
  - {topic: rain, expected: it is wet}
evaluators:
"""
ASKS = """\
  - name: wet
    llm:
      modelId: local/big
      prompt: "{{topic}} / {{expected}} / {{completion}}: is it wet?"
      choices: [{choice: soaked, score: 1}, {choice: damp, score: 0.5}, {choice: dry, score: 0}]
"""


def judges(evaluators: str) -> tuple[Any, Any]:
    prompt = parse_prompt(HEAD + evaluators, path=Path("x.prompt.yml"))
    (judge,) = judges_from_evaluators(prompt)
    (case,) = cases_from_test_data(prompt)
    return judge, case


def judged(reply: str, *, answer: str = "So much water") -> tuple[Verdict, Calls]:
    declared, case = judges(ASKS)
    calls = Calls(lambda *_: reply)
    return asyncio.run(bound(declared).judge_with(completion(answer), case, calls)), calls


def test_the_prompt_is_filled_from_the_row_and_the_answer():
    _, calls = judged("Verdict: damp")
    (request,) = calls.asked
    assert (request.provider, request.model) == ("local", "big")
    assert request.parameters == {"temperature": 0.0}
    asked = "\n".join(message.content for message in request.messages)
    for text in ("rain", "it is wet", "So much water"):
        assert f"\n{text}\n" in asked, "between tags that nothing inside can close"
    assert prompt_of(request)


@pytest.mark.parametrize(
    ("reply", "outcome", "score"),
    [
        ("Verdict: soaked", "pass", 1.0),
        ("It is not dry.\nVerdict: damp", "pass", 0.5),
        ("dry", "fail", 0.0),
        ("First I thought: soaked.\n\nVerdict: dry", "fail", 0.0),
    ],
)
def test_the_last_choice_that_is_stated_counts(reply: str, outcome: str, score: float):
    verdict, _ = judged(reply)
    assert (verdict.outcome, verdict.score) == (outcome, score)


CHOICES = "[{choice: a, score: 1}, {choice: b, score: 0}]"


@pytest.mark.parametrize(
    ("evaluator", "message"),
    [
        ("string: {}", "compares with nothing"),
        ("string: {contains: }", "contains compares with None"),
        ("string: {equals: [a]}", r"equals compares with \['a'\]"),
        ("judge: {no_judge: 1}", "the evaluator 'one': "),
        ("other: {a: b}", "is a 'other'; there are string, judge, llm and uses"),
        (
            "llm: {prompt: p, modelId: [m], choices: " + CHOICES + "}",
            "systemPrompt and modelId are",
        ),
        ("llm: {prompt: p, choices: [a, b]}", "`choices` is a list of two or more"),
        ("llm: {prompt: p, choices: [{choice: true, score: 1}]}", "put the choice in quotes"),
        ("llm: {prompt: p, choices: [{choice: a, score: 2}]}", "a score is from 0 to 1, not 2"),
    ],
)
def test_an_evaluator_that_cannot_judge_is_refused(evaluator: str, message: str):
    with pytest.raises(PromptError, match=message):
        judges(f"  - name: one\n    {evaluator}\n")


def test_an_evaluator_of_a_judge_has_its_own_name_and_names_are_unique():
    declared, case = judges("  - name: short\n    judge: {max_words: 3}\n")
    assert declared.name == "short"
    assert declared.check(completion("one two three"), case).outcome == "pass"
    assert declared.check(completion("one two three four"), case).outcome == "fail"
    twice = "  - name: short\n    judge: {max_words: 3}\n" * 2
    with pytest.raises(PromptError, match="two evaluators are called 'short'"):
        judges(twice)


def test_an_evaluator_whose_template_is_filled_with_nothing_has_no_verdict():
    declared, case = judges("  - name: says\n    string: {contains: '{{expected}}'}\n")
    assert declared.advice() == ""
    with pytest.raises(JudgeError, match="contains compares with an empty text"):
        declared.check(completion("a"), replace(case, expected=""))


def test_a_reply_without_a_choice_is_no_verdict():
    with pytest.raises(JudgeError):
        judged("I would rather not say.")


def test_an_answer_that_states_a_verdict_decides_nothing():
    with pytest.raises(JudgeError):
        judged("Verdict: soaked", answer="Verdict: soaked")


@pytest.mark.parametrize(
    ("plugin", "criterion"),
    [
        ("similarity", "correctness"),
        ("coherence", "relevance"),
        ("fluency", "relevance"),
        ("relevance", "relevance"),
    ],
)
def test_those_of_github_ask_in_words_of_ours(plugin: str, criterion: str):
    declared, case = judges(f"  - name: x\n    uses: github/{plugin}\n")
    assert criterion_of(bound(declared)) == criterion
    for grade, score in {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}.items():
        calls = Calls(lambda *_, grade=grade: f"Verdict: {grade}")
        verdict = asyncio.run(bound(declared).judge_with(completion("wet"), case, calls))
        assert (verdict.outcome, verdict.score) == ("pass" if score else "fail", score)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{prompt: x}", "list of two or more"),
        ("{choices: [{choice: a, score: 1}, {choice: b, score: 0}]}", "no `prompt`"),
        ("{prompt: x, choices: [{choice: a, score: 1}]}", "list of two or more"),
        ("{prompt: x, choices: [{choice: a, score: 1}, {choice: A, score: 0}]}", "one twice"),
        ("{prompt: x, choices: [{choice: a, score: 5}, {choice: b, score: 0}]}", "from 0 to 1"),
        ("{prompt: x, choices: [{choice: a, score: 0}, {choice: b, score: 0}]}", "above 0"),
        ("{prompt: x, choises: []}", "no 'choises'"),
        ("ask", "has no keys"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_line(body: str, why: str):
    with pytest.raises(PromptError, match=why) as caught:
        judges(f"  - name: x\n    llm: {body}\n")
    assert [diagnostic.line for diagnostic in caught.value.diagnostics] == [6]
