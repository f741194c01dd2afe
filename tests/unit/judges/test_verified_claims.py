"""Answers checked claim by claim against their source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import JudgeError, UsageError
from regauge.judges import ModelJudge, UnboundJudge, expected, verified_claims
from tests.unit.judges.asked import Asked, case, completion, context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from regauge.judges.model._claims import ClaimsJudge
    from regauge.providers import CompletionRequest

pytestmark = pytest.mark.asyncio
CLAIMS = ["The disk of node 4 was full.", "It was replaced at 11:40."]
QUESTIONS = ["What was full?", "When was the disk replaced?"]


def step_of(request: CompletionRequest) -> str:
    form: Any = request.response_format
    return form["json_schema"]["name"]


def verifier(
    *verdicts: str, found: Sequence[str] = CLAIMS, **other: object
) -> Callable[[CompletionRequest], str]:
    """A model that goes through the steps; `other` replaces the reply of a step by its name."""
    rows = [
        {"number": number, "reasoning": "so", "verdict": verdict}
        for number, verdict in enumerate(verdicts, start=1)
    ]
    usual: Mapping[str, object] = {
        "claims": {"claims": found},
        "questions": {"questions": QUESTIONS[: len(found)]},
        "source_answer": {"quote": "The disk was full.", "answer": "The disk."},
        "claim_verdicts": {"verdicts": rows},
    }
    return lambda request: json.dumps({**usual, **other}[step_of(request)])


def judge(tmp_path: Path, **parameters: Any) -> ClaimsJudge:
    return verified_claims("report", **parameters).bind(context(tmp_path))


async def test_the_score_is_the_share_of_supported_claims(tmp_path: Path):
    asked = Asked(verifier("supported", "contradicted"), trial=3)
    verdict = await judge(tmp_path).judge_with(completion("An answer."), case(), asked)
    assert (verdict.outcome, verdict.score, verdict.code) == ("fail", 0.5, "unsupported")
    assert verdict.reason == "1 of 2 claims supported; contradicted: 'It was replaced at 11:40.'"
    findings: Any = verdict.details["claims"]
    assert findings[1] == {
        "number": 2,
        "claim": CLAIMS[1],
        "question": QUESTIONS[1],
        "answer": "The disk.",
        "quote": "The disk was full.",
        "verdict": "contradicted",
        "reasoning": "so",
    }
    assert [step_of(request) for request in asked.requests] == [
        "claims",
        "questions",
        "source_answer",
        "source_answer",
        "claim_verdicts",
    ]
    assert {request.trial for request in asked.requests} == {3}
    half = judge(tmp_path, at_least=0.5)
    assert (await half.judge_with(completion("x"), case(), asked)).outcome == "pass"


async def test_questions_are_answered_from_the_source_without_the_claim(tmp_path: Path):
    asked = Asked(verifier("supported", "supported"))
    await judge(tmp_path).judge_with(completion("An answer."), case(), asked)
    extract, pose, *answers, compare = [
        "\n".join(message.content for message in request.messages) for request in asked.requests
    ]
    assert "An answer." in extract
    for question, text in zip(QUESTIONS, answers, strict=True):
        assert question in text
        assert "The disk was full." in text
        assert not any(claim in text for claim in CLAIMS)
        assert "An answer." not in text
    assert "<source-" not in extract + pose + compare
    assert all(claim in pose and claim in compare for claim in CLAIMS)


async def test_nothing_to_verify_is_no_evidence(tmp_path: Path):
    asked = Asked(verifier(found=[]))
    verdict = await judge(tmp_path).judge_with(completion("Thanks!"), case(), asked)
    assert (verdict.outcome, verdict.code) == ("abstain", "no_claims")
    assert len(asked.requests) == 1


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        ({"claims": {"statements": []}}, "no list 'claims'"),
        ({"claims": {"claims": [1]}}, "no texts"),
        ({"claims": {"claims": [f"claim {n}" for n in range(61)]}}, "61 claims, more than 60"),
        ({"questions": {"questions": ["one?"]}}, "1 question for 2 claims"),
        ({"questions": {"questions": ["one?", " "]}}, "2 questions for 2 claims"),
        ({"source_answer": {"quote": "x"}}, "'quote', 'answer'"),
        ({"claim_verdicts": {"verdicts": []}}, "0 verdicts for 2 claims"),
        (
            {"claim_verdicts": {"verdicts": [{"number": 1, "verdict": "supported"}] * 2}},
            "claim 1 two verdicts",
        ),
        ({"claim_verdicts": {"verdicts": [{"number": 1, "verdict": "true"}]}}, "that is none"),
        ({"claim_verdicts": {"verdicts": [{"number": "1", "verdict": "supported"}]}}, "is none"),
        ({"claim_verdicts": ["supported", "supported"]}, "not one JSON object"),
    ],
)
async def test_replies_that_do_not_fit_are_no_verdict(tmp_path: Path, replies, why: str):
    asked = Asked(verifier("supported", "supported", **replies))
    with pytest.raises(JudgeError, match=why) as caught:
        await judge(tmp_path).judge_with(completion("x"), case(), asked)
    assert caught.value.judge.startswith("verified_claims(report), claims-")
    assert caught.value.raw == json.dumps(next(iter(replies.values())))


async def test_the_source_may_be_an_expected_value(tmp_path: Path):
    asked = Asked(verifier("supported", "supported"))
    declared = verified_claims(expected("reference"), field="text")
    assert declared.name == "verified_claims(expected.reference, field=text)"
    bound = declared.bind(context(tmp_path))
    await bound.judge_with(completion('{"text": "An answer."}'), case(), asked)
    assert ">\nIt was the disk.\n</source-" in asked.requests[2].messages[-1].content
    with pytest.raises(JudgeError, match=r"has no expected\.reference"):
        await bound.judge_with(completion('{"text": "x"}'), case(expected={}), asked)


async def test_a_released_step_keeps_its_words_until_its_version_changes(tmp_path: Path):
    """Whoever changes one bumps its version and writes the new digest here."""
    prompts = judge(tmp_path).prompts.values()
    assert {str(prompt.id) for prompt in prompts} == {
        "claims-answer@1.0.0 (8ffa7674a3d9)",
        "claims-compare@1.0.0 (c2e678d08969)",
        "claims-extract@1.0.0 (070ae7c63e96)",
        "claims-question@1.0.0 (de63262b8bb5)",
    }
    assert not [warning for prompt in prompts for warning in prompt.warnings]


async def test_a_project_may_bring_its_own_step(tmp_path: Path):
    usual = judge(tmp_path)
    text = usual.prompts["claims-extract"].source.replace("You list", "Please list")
    own = verified_claims("report").bind(context(tmp_path, claims_extract=text))
    asked = Asked(verifier("supported", "supported"))
    await own.judge_with(completion("x"), case(), asked)
    assert asked.requests[0].messages[0].content.startswith("Please list")
    assert own.digest != usual.digest
    assert usual.digest != judge(tmp_path / "a", at_least=0.9).digest
    assert usual.digest != judge(tmp_path / "a", model="local:other").digest


async def test_verified_claims_are_a_judge_that_asks_a_model(tmp_path: Path):
    declared = verified_claims("report").with_name("claims")
    assert isinstance(declared, UnboundJudge)
    bound = declared.bind(context(tmp_path))
    assert isinstance(bound, ModelJudge)
    assert (bound.name, bound.models) == ("claims", ("local:judge",))
    with pytest.raises(UsageError, match="from 0 to 1"):
        verified_claims("report", at_least=80)
    with pytest.raises(UsageError, match="no model is set"):
        verified_claims("report").bind(context(tmp_path, model=None))


async def test_an_answer_without_text_asks_nobody(tmp_path: Path):
    asked = Asked(verifier())
    verdict = await judge(tmp_path).judge_with(completion(None), case(), asked)
    assert (verdict.outcome, asked.requests) == ("fail", [])
