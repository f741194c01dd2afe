"""LLM judges of single turns, and of all turns of a conversation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import UsageError
from regauge.judges import each_turn, in_turn, max_words, pairwise, rubric
from tests.unit.judges.asked import GRADED, Asked, case, completion, context, verdict_reply

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.judges import Verdict
    from regauge.providers import CompletionRequest

TURNS = [
    {"role": "user", "content": "What broke?"},
    {"role": "assistant", "content": "The disk."},
    {"role": "user", "content": "And why?"},
    {"role": "assistant", "content": "Logs filled it."},
]


def judged(declared: Any, root: Path, scores: dict[str, int]) -> tuple[Verdict, Asked]:
    """The verdict of a model that scores an output by a word in it."""

    def say(request: CompletionRequest) -> str:
        text = "\n".join(message.content for message in request.messages)
        return verdict_reply(score=next(score for word, score in scores.items() if word in text))

    asked = Asked(say)
    judge = declared.bind(context(root, grade=GRADED))
    made = completion("Logs filled it.", messages=tuple(TURNS))
    return asyncio.run(judge.judge_with(made, case(), asked)), asked


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [({"The disk.": 5, "Logs": 5}, "pass"), ({"The disk.": 5, "Logs": 1}, "fail")],
)
def test_all_turns_must_pass(tmp_path: Path, scores: dict[str, int], outcome: str):
    verdict, asked = judged(each_turn(rubric("grade")), tmp_path, scores)
    assert verdict.outcome == outcome
    assert len(asked.requests) == 2


@pytest.mark.parametrize(("turn", "outcome"), [(1, "pass"), (2, "fail")])
def test_one_turn_is_judged_alone(tmp_path: Path, turn: int, outcome: str):
    declared = in_turn(turn, rubric("grade"))
    verdict, asked = judged(declared, tmp_path, {"The disk.": 5, "Logs": 1})
    assert verdict.outcome == outcome
    assert verdict.reason.startswith(f"turn {turn}: ")
    assert len(asked.requests) == 1


def test_a_conversation_without_the_turn_fails_without_a_call(tmp_path: Path):
    verdict, asked = judged(in_turn(3, rubric("grade")), tmp_path, {})
    assert verdict.outcome == "fail"
    assert asked.requests == []


def test_a_judge_of_turns_has_the_calls_and_models_of_its_inner_judge(tmp_path: Path):
    place = context(tmp_path, grade=GRADED)
    one, each = (
        make.bind(place) for make in (in_turn(1, rubric("grade")), each_turn(rubric("grade")))
    )  # type: ignore[union-attr]
    assert (one.usual_calls, each.usual_calls) == (1, 2)
    assert one.models == each.models == ("local:judge",)
    assert [judge.name for judge in each.calibrated] == ["grade"]
    assert one.digest != each.digest


def test_what_is_no_judge_has_no_turns():
    assert each_turn(max_words(3)).name == "each_turn(max_words(3))"
    with pytest.raises(UsageError, match="each_turn: 'polite' is not a judge"):
        each_turn("polite")  # type: ignore[arg-type]


PAIR = """\
version: 1.0.0
rubric: {kind: pair, ties: true}
messages:
  - {role: user, content: "{{report}} {{first}} {{second}}"}
"""


@pytest.mark.parametrize("make", [rubric, pairwise])
def test_an_output_without_text_fails_without_a_call(tmp_path: Path, make: Any):
    judge = make("pair" if make is pairwise else "grade").bind(
        context(tmp_path, grade=GRADED, pair=PAIR)
    )
    asked = Asked(lambda _: "")
    verdict = asyncio.run(judge.judge_with(completion(None), case(expected="the disk"), asked))
    assert (verdict.outcome, asked.requests) == ("fail", [])
