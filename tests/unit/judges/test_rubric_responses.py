"""What is read as a judge's verdict, and what is not."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from regauge.judges.model._rubric import expected_score
from regauge.judges.model.response import (
    ResponseError,
    json_object,
    read_response,
    text_of,
)
from regauge.prompts import RubricSpec
from regauge.providers import Completion, TokenLogprob
from tests.unit.judges.asked import completion

SHARE = RubricSpec(kind="graded")
STARS = RubricSpec(kind="graded", low=1, high=5)
BINARY = RubricSpec(kind="binary")
CHOICE = RubricSpec(kind="choice", choices={"same": 1, "partly the same": 0.5, "different": 0})
PAIR = RubricSpec(kind="pair")


def js(**keys: object) -> str:
    return json.dumps({"reasoning": "why", **keys})


@pytest.mark.parametrize(
    ("spec", "text", "value", "score"),
    [
        (STARS, js(score=4), 4, 0.75),
        (STARS, js(score=4.5), 4.5, 0.875),
        (STARS, js(score="4"), 4, 0.75),
        (STARS, js(score="4/5"), 4, 0.75),
        (STARS, js(score="4 out of 5"), 4, 0.75),
        (STARS, js(score="75%"), 4, 0.75),
        (SHARE, js(score="4/5"), 0.8, 0.8),
        (SHARE, js(score="80 %"), 0.8, 0.8),
        (RubricSpec(kind="graded", low=0, high=100), js(score="80%"), 80, 0.8),
        (STARS, f"```json\n{js(score=2)}\n```", 2, 0.25),
        (STARS, f"\ufeff {js(score=2)}\n", 2, 0.25),
        (STARS, f"Here it is:\n{js(score=2)}\nI hope this helps.", 2, 0.25),
        (STARS, js(score=2, confidence=0.9), 2, 0.25),
        (STARS, "Not bad.\n**Score:** 4/5", 4, 0.75),
        (STARS, "Score: 2\nNo, the times are right. Final score: 4.", 4, 0.75),
        (STARS, "It has 3/5 of the steps. Score: 2", 2, 0.25),
        (STARS, "I would give it 4 out of 5.", 4, 0.75),
        (STARS, "3", 3, 0.5),
        (STARS, "On a score of 1 to 5: score 2.", 2, 0.25),
        (BINARY, js(verdict="pass"), "pass", 1),
        (BINARY, js(verdict=" FAIL "), "fail", 0),
        (BINARY, "It passes the first check.\n\nVerdict: **fail**", "fail", 0),
        (BINARY, "Because of the times.\n\nFAIL.", "fail", 0),
        (CHOICE, js(choice="Partly the same"), "partly the same", 0.5),
        (CHOICE, "Choice: partly the same", "partly the same", 0.5),
        (BINARY, "It does not pass.\nVerdict: fail", "fail", 0),
        (BINARY, "It does not fail.\nVerdict: pass", "pass", 1),
        (BINARY, "> It fails.\n\nIt passes.\nVerdict: pass", "pass", 1),
        (BINARY, "At first I thought it fails.\nVerdict: pass", "pass", 1),
        (BINARY, "It fails to name a source, as allowed.\nVerdict: pass", "pass", 1),
        (BINARY, "It does not pass.\nFinal verdict: pass", "pass", 1),
        (BINARY, js(verdict="pass", reasoning="It fails. No: the date is right."), "pass", 1),
        (STARS, "It is not a 5.\nScore: 4", 4, 0.75),
        (CHOICE, "They are not the same.\nChoice: different", "different", 0),
        (PAIR, "The first is worse.\nWinner: second", "second", 0),
        (PAIR, js(winner="second"), "second", 0),
        (PAIR, "second is better at first sight, but overall the first is better", "first", 1),
        (RubricSpec(kind="pair", ties=True), js(winner="tie"), "tie", 0.5),
    ],
)
def test_a_verdict_is_read(spec: RubricSpec, text: str, value: object, score: float):
    reply = read_response(text, spec)
    assert (reply.value, reply.score) == (value, pytest.approx(score))


@pytest.mark.parametrize(
    ("spec", "text", "why"),
    [
        (STARS, "", "no text"),
        (STARS, "I cannot judge this.", "states none"),
        (STARS, js(), "has no 'score'"),
        (STARS, js(verdict="pass"), "has no 'score'"),
        (STARS, '{"score": 4}', "no 'reasoning'"),
        (STARS, '{"reasoning": ["a"], "score": 4}', "no text"),
        (STARS, js(score=6), "not on the scale 1 to 5"),
        (STARS, js(score=0), "not on the scale"),
        (STARS, js(score=True), "a boolean"),
        (STARS, js(score=None), "null"),
        (STARS, js(score=[4]), "a list"),
        (STARS, js(score="good"), "not a number"),
        (STARS, js(score="0,8"), "not a number"),
        (STARS, js(score="8/10"), "is of 10, not of 5"),
        (SHARE, js(score="4/0"), "is of 0"),
        (STARS, '{"reasoning": "a", "score": NaN}', "NaN"),
        (STARS, '{"reasoning": "a", "score": 1e999}', "not on the scale"),
        (STARS, '{"reasoning": "a", "score": ' + "9" * 6000 + "}", "not on the scale"),
        (STARS, '{"reasoning": "a", "score": 1, "score": 5}', "gives 'score' twice"),
        (STARS, '{"reasoning": "a", "score": 5', "cut off"),
        (STARS, '{"reasoning": "and then Score: 5', "cut off"),
        (STARS, '```json\n{"reasoning": "a", "sco', "cut off"),
        (STARS, f'{js(score=5)} and also {{"reasoning": "b', "cut off"),
        (STARS, '{"reasoning": "a", score: 5}', "not JSON"),
        (STARS, '{"a":' * 200_000, "nested too deeply"),
        (STARS, f"{js(score=2)} Or rather: {js(score='great')}", "not a number"),
        (STARS, f"{js(score=2)} On second thought: {js(score=3)}", "more than one verdict"),
        (STARS, "3/5 of the times, 4/5 of the names", "states none"),
        (STARS, "Score: \uff15", "states none"),
        (STARS, "On a score of 1 to 5 it is rather good.", "states none"),
        (CHOICE, "By choice different people would agree.", "states none"),
        (BINARY, js(verdict="maybe"), "not one of 'pass', 'fail'"),
        (BINARY, js(verdict=True), "not one of"),
        (BINARY, "Verdict: pass/fail", "states none"),
        (BINARY, "Verdict: pass or fail", "states none"),
        (BINARY, "It does not pass muster", "states none"),
        (BINARY, "It does not pass.\nVerdict: pass", "states 'It does not pass'"),
        (BINARY, "The answer fails.\n\n**Verdict: pass**", "'The answer fails'"),
        (BINARY, "The date is wrong, so it cannot pass.\nVerdict: pass", "it cannot pass"),
        (BINARY, "Verdict: pass. It doesn't pass.", "It doesn't pass"),
        (BINARY, f"It fails.\n{js(verdict='pass')}", "'It fails'"),
        (BINARY, js(verdict="pass", reasoning="Late. It does not pass."), "does not pass"),
        (BINARY, js(verdict="pass", reasoning="Late. Verdict: fail."), "concludes"),
        (STARS, "It deserves a 2.\nScore: 4", "'It deserves a 2'"),
        (STARS, "I would not give it a 4.\nScore: 4", "not give it a 4"),
        (CHOICE, "They are not the same.\nChoice: same", "not the same"),
        (PAIR, "The second is worse.\nWinner: second", "The second is worse"),
        (PAIR, js(winner="tie"), "not one of 'first', 'second'"),
        (PAIR, "Both are equally good.", "states none"),
    ],
)
def test_what_states_no_verdict_is_no_verdict(spec: RubricSpec, text: str, why: str):
    with pytest.raises(ResponseError, match=why):
        read_response(text, spec)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (completion(None, finish_reason="tool_calls"), "no text"),
        (completion(None, refusal="I won't."), 'refused: "I won\'t."'),
        (completion(js(score=5), finish_reason="length"), "cut off"),
        (completion(js(score=5), finish_reason="content_filter"), "content filter"),
        (completion("  \n"), "no text"),
    ],
)
def test_a_reply_that_is_not_whole_is_none(reply: Completion, why: str):
    with pytest.raises(ResponseError, match=why):
        text_of(reply)


# Reasoning that is a number alone would be another score.
@given(
    st.text(st.characters(exclude_characters="0123456789")),
    st.sampled_from([1, 2, 3, 4, 5]),
    st.text(),
)
def test_what_an_object_says_is_read_whatever_its_reasoning_holds(
    reasoning: str, score: int, judged: str
):
    text = json.dumps({"reasoning": reasoning, "score": score}, ensure_ascii=False)
    reply = read_response(text, STARS, judged_texts=[judged])
    assert (reply.value, reply.reasoning) == (score, reasoning)
    assert reply.offset is not None
    assert text[reply.offset :].startswith(f"{score}}}")


@given(st.text(alphabet=st.sampled_from('{}[]":,score pasf15/%\n`>*-'), max_size=80))
def test_no_text_is_read_as_anything_but_a_verdict_of_the_rubric(text: str):
    for spec in (SHARE, STARS, BINARY, CHOICE, PAIR):
        try:
            reply = read_response(text, spec)
        except ResponseError:
            continue
        assert 0 <= reply.score <= 1
        if spec.kind == "graded":
            assert isinstance(reply.value, float)
            assert spec.low <= reply.value <= spec.high
        else:
            assert reply.value in spec.labels


@given(st.text(), st.integers(min_value=1, max_value=40))
def test_no_beginning_of_an_object_is_a_verdict(reasoning: str, missing: int):
    text = json.dumps({"reasoning": reasoning, "score": 5})
    with pytest.raises(ResponseError):
        read_response(text[: max(1, len(text) - missing)], STARS)


def test_a_megabyte_is_read_in_no_time():
    for text in (
        "{" * 10**6,
        "9" * 10**6,
        "Score: x\n" * 10**5,
        "Score: 3\n" * 10**5,
        ' "' * (5 * 10**5),
    ):
        with pytest.raises(ResponseError):
            read_response(text, STARS, judged_texts=[text[:100]])
    assert read_response(js(score=2, more="x" * 10**6), STARS).value == 2


def test_an_object_is_one_object():
    assert json_object('```\n{"claims": []}\n```') == {"claims": []}
    for text in ('{"claims": []} and more', "[]", '{"claims": [}', ""):
        with pytest.raises(ResponseError):
            json_object(text)


def tokens(*given: str | tuple[str, dict[str, float]]) -> tuple[TokenLogprob, ...]:
    """Tokens, where it matters with the probabilities of what might have stood there."""
    made: list[TokenLogprob] = []
    for entry in given:
        text, others = (entry, {}) if isinstance(entry, str) else entry
        top = tuple((other, math.log(share)) for other, share in others.items())
        made.append(TokenLogprob(token=text, logprob=-0.1, top=top))
    return tuple(made)


@pytest.mark.parametrize(
    ("spec", "logprobs", "score"),
    [
        (
            STARS,
            tokens('{"reasoning": "a", "score": ', ("4", {"4": 0.5, "5": 0.3, "x": 0.2}), "}"),
            (0.5 * 0.75 + 0.3 * 1) / 0.8,
        ),
        (STARS, tokens('{"reasoning": "a", "score":', (" 4", {" 4": 0.9, " 2": 0.1}), "}"), 0.7),
        (STARS, tokens('{"reasoning": "a", "score": ', ("4", {"x": 0.9, "4": 0.1}), "}"), 0.75),
        (STARS, tokens('{"reasoning": "a", "score": ', "4", "}"), 0.75),
        (STARS, tokens('{"another text": ', ("4", {"1": 1.0}), "}"), 0.75),
        (
            BINARY,
            tokens('{"reasoning": "a", "verdict": "', ("pa", {"pa": 0.6, "f": 0.4}), 'ss"}'),
            0.6,
        ),
    ],
)
def test_the_score_is_the_mean_over_what_its_token_might_have_been(
    spec: RubricSpec, logprobs: tuple[TokenLogprob, ...], score: float
):
    text = '{"reasoning": "a", "verdict": "pass"}'
    if spec is STARS:
        text = '{"reasoning": "a", "score": 4}'
    given = completion(text, logprobs=logprobs)
    reply = expected_score(read_response(text_of(given), spec), given, spec)
    assert reply.score == pytest.approx(score)
    assert Completion.from_json(json.loads(json.dumps(given.to_json()))) == given
