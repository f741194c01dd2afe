"""Functions as judges: what they may take, return and be combined with."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from regauge import Completion, GoldenCase, Usage, Verdict
from regauge.errors import JudgeError, UsageError
from regauge.judges import (
    AsyncFunctionJudge,
    Rule,
    all_of,
    as_judge,
    contains_all,
    expected,
    field,
    matches,
    max_words,
    not_,
    one_of,
    weighted,
)
from regauge.judges._function import sources_of

if TYPE_CHECKING:
    from collections.abc import Callable


def even(number: int) -> bool:
    return number == 0 or odd(number - 1)


def odd(number: int) -> bool:
    return number != 0 and even(number - 1)


CASE = GoldenCase(
    id="disk-full", inputs={"name": "DiskFull"}, expected={"severity": "critical"}, split="train"
)


def completion(text: str | None = "critical: DiskFull") -> Completion:
    return Completion(
        text=text, finish_reason="stop", usage=Usage(), model="m", provider="p", latency_s=0.1
    )


def judged(function: Callable[..., Any], text: str | None = "critical: DiskFull") -> Verdict:
    judge: Any = as_judge(function)
    return asyncio.run(judge.judge(completion(text), CASE))


async def awaited(output: str, expected: Any) -> bool:
    await asyncio.sleep(0)
    return expected["severity"] in output


class Callable_:  # noqa: N801 - stands for any class
    def __call__(self, output: str, inputs: Any) -> bool:
        return inputs["name"] in output


def keywords(*, output: str, case: GoldenCase, strictly: bool = True) -> bool:
    return strictly and case.id == "disk-full" and bool(output)


def unknown_default(output: str, threshold: float = 0.5, expected: Any = None) -> bool:
    return threshold == 0.5 and expected["severity"] in output


@pytest.mark.parametrize(
    "function",
    [
        lambda output: "critical" in output,
        lambda output, expected: expected["severity"] in output,
        lambda expected, output: expected["severity"] in output,
        lambda inputs, completion: inputs["name"] in completion.text,
        lambda case: case.id == "disk-full",
        lambda text, golden: golden.id in "disk-full" and "critical" in text,
        lambda _output, _case: _case.id == "disk-full",
        lambda output, **kwargs: not kwargs and bool(output),
        lambda *args: args[1].id == "disk-full",
        functools.partial(lambda word, output: word in output, "critical"),
        Callable_(),
        awaited,
        keywords,
        unknown_default,
    ],
)
def test_parameters_are_filled_by_their_names(function: Callable[..., Any]):
    assert judged(function).outcome == "pass"


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda output, expect: bool(output and expect), "expect"),
        (lambda input, output: bool(input and output), "input"),  # noqa: A006
        (lambda a, b, c: bool(a and b and c), "c"),
        (lambda *, text: bool(text), "text"),
    ],
)
def test_a_parameter_that_nothing_fills_is_refused(function: Callable[..., Any], name: str):
    with pytest.raises(UsageError, match=f"nothing fills the parameter '{name}'"):
        as_judge(function)


@pytest.mark.parametrize(
    ("result", "outcome", "score", "reason"),
    [
        ((True, "well put"), "pass", 1, "well put"),
        ((0.25, "rude"), "fail", 0.25, "rude"),
        ({"pass": True}, "pass", 1, None),
        ({"pass": False, "score": 0.9, "reason": "too long"}, "fail", 0.9, "too long"),
        ({"pass": True, "score": 0.1, "reason": "short"}, "pass", 0.1, "short"),
        ({"passed": True, "reason": "fine"}, "pass", 1, "fine"),
        ({"score": 0.75}, "pass", 0.75, None),
    ],
)
def test_pairs_and_dictionaries_are_results(
    result: Any, outcome: str, score: float, reason: str | None
):
    verdict = judged(lambda output: result if output else None)
    assert (verdict.outcome, verdict.score) == (outcome, score)
    assert reason is None or verdict.reason == reason


@pytest.mark.parametrize(
    ("result", "outcome", "score"),
    [
        (np.bool_(True), "pass", 1),  # noqa: FBT003 - it takes no keyword
        (np.bool_(False), "fail", 0),  # noqa: FBT003 - as above
        (np.float32(0.75), "pass", 0.75),
        (np.float64(0.25), "fail", 0.25),
        (np.int64(1), "pass", 1),
        (np.array(0.75), "pass", 0.75),
        ((np.float32(0.25), "rude"), "fail", 0.25),
    ],
)
def test_scalars_of_numpy_are_results(result: Any, outcome: str, score: float):
    verdict = judged(lambda output: result if output else None)
    assert (verdict.outcome, verdict.score) == (outcome, score)


@pytest.mark.parametrize("result", [np.float32(2), np.array([0.5]), np.array([0.5, 1])])
def test_numbers_outside_the_range_and_arrays_are_no_verdict(result: Any):
    with pytest.raises(JudgeError, match="returned"):
        judged(lambda output: result if output else None)


@pytest.mark.parametrize(
    "result",
    [
        None,
        "yes",
        2,
        float("nan"),
        (True,),
        (True, 3),
        ("yes", "so"),
        (True, "a", "b"),
        {},
        {"reason": "why"},
        {"pass": "yes"},
        {"pass": True, "passed": False},
        {"score": 7},
        {"pass": True, "verdict": "x"},
        [True],
    ],
)
def test_anything_else_is_no_verdict(result: Any):
    with pytest.raises(JudgeError, match="returned"):
        judged(lambda output: result if output else None)


def test_an_assertion_fails_the_answer():
    def checks(output: str) -> None:
        assert "warning" in output, "no severity named"

    verdict = judged(checks)
    assert (verdict.outcome, verdict.reason) == ("fail", "assertion: no severity named")
    assert judged(checks, "warning: disk").outcome == "pass"


def test_a_function_that_forgets_to_return_is_no_pass():
    def forgets(output: str) -> None:
        _ = "critical" in output

    with pytest.raises(JudgeError, match="is a `return` missing"):
        judged(forgets)


def test_without_a_text_only_what_takes_no_text_is_called():
    assert judged(lambda output: output == "", None).code == "no_text"
    assert judged(lambda completion: completion.text is None, None).outcome == "pass"


def test_a_function_that_raises_on_an_empty_output_says_that_it_is_empty():
    def last_line(output: str) -> bool:
        return output.splitlines()[-1] == "Done."

    with pytest.raises(JudgeError, match="case 'disk-full' with an empty output: list index"):
        judged(last_line, "")


def test_an_async_function_is_a_judge_of_its_own():
    judge = as_judge(awaited)
    assert isinstance(judge, AsyncFunctionJudge)
    assert judge.name == "awaited"

    async def broken(output: str) -> bool:
        return output[99] == "x"

    with pytest.raises(JudgeError, match="broken raised IndexError on case 'disk-full'"):
        judged(broken)


def test_functions_stand_wherever_rules_do():
    def short(output: str) -> bool:
        return len(output) < 5

    made: list[Any] = [
        all_of(short, max_words(3)),
        not_(not_(short)),
        weighted({short: 1}),
        field("a", short),
    ]
    assert all(isinstance(rule, Rule) for rule in made)
    assert made[0].check_text("a b").outcome == "pass"
    assert made[0].check_text("a b c d e f").outcome == "fail"
    assert made[1].check_text("a").outcome == "pass"
    assert made[2].check_text("too long a text").outcome == "fail"
    assert made[3].check_text('{"a": "b"}').outcome == "pass"
    with pytest.raises(UsageError, match=r"^awaited is async"):
        all_of(awaited)


@pytest.mark.parametrize(
    ("rule", "text", "golden", "outcome"),
    [
        (one_of([expected("word"), "b"]), "a", {"word": "a"}, "pass"),
        (one_of([expected("word")]), "b", {"word": "a"}, "fail"),
        (max_words(expected("n")), "a b c", {"n": 2}, "fail"),
        (contains_all(expected("words")), "x y", {"words": ["x", "y"]}, "pass"),
        (contains_all(expected("words"), "z"), "x", {"words": "x"}, "fail"),
        (matches(expected("pattern")), "x1", {"pattern": r"\d"}, "pass"),
    ],
)
def test_a_case_can_bring_any_parameter(rule: Rule, text: str, golden: Any, outcome: str):
    assert rule.check_text(text, expected=golden).outcome == outcome


def test_a_parameter_of_a_case_that_makes_no_sense_is_an_error():
    with pytest.raises(JudgeError, match=re.escape("not 'x'")):
        max_words(expected("n")).check_text("a", expected={"n": "x"})
    with pytest.raises(JudgeError, match=re.escape("expected.n")):
        max_words(expected("n")).check_text("a", expected={})


def test_functions_that_use_each_other_are_each_read_once():
    first, *helpers = sources_of(even)
    assert first.startswith("def even(")
    assert [source.split("(")[0] for source in helpers] == ["def odd"]
    assert sources_of(odd)[0] == helpers[0]
