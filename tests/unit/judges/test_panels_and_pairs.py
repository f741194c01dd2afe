"""Several judges that decide together, and pairs that are compared in both orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import JudgeError, PromptError, ProviderError, UsageError
from regauge.judges import ModelJudge, UnboundJudge, expected, max_words, pairwise, panel, rubric
from tests.unit.judges.asked import GRADED, Asked, case, completion, context, verdict_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from regauge.judges.model._panel import PanelJudge
    from regauge.judges.model._rubric import PairJudge
    from regauge.providers import CompletionRequest

pytestmark = pytest.mark.asyncio
BETTER = """\
version: 1.0.0
rubric: {kind: pair, ties: true}
messages:
  - {role: user, content: "{{report}}\\n{{first}}\\n{{second}}"}
"""


def shown_first(request: CompletionRequest) -> str:
    """The text that a pair's request shows first."""
    content = request.messages[-1].content
    return content.partition("<first-")[2].partition(">\n")[2].partition("\n</first-")[0]


def prefers(text: str) -> Callable[[CompletionRequest], str]:
    return lambda request: verdict_reply(
        winner="first" if shown_first(request) == text else "second"
    )


def pair(tmp_path: Path, **parameters: Any) -> PairJudge:
    return pairwise("better", **parameters).bind(context(tmp_path, better=BETTER))


@pytest.mark.parametrize(
    ("say", "outcome", "score", "code"),
    [
        (prefers("mine"), "pass", 1.0, "ok"),
        (prefers("It was the disk."), "fail", 0.0, "not_better"),
        (lambda _: verdict_reply(winner="tie"), "pass", 0.5, "ok"),
        (lambda _: verdict_reply(winner="first"), "abstain", 0.0, "order_flip"),
        (lambda _: verdict_reply(winner="second"), "abstain", 0.0, "order_flip"),
    ],
)
async def test_an_answer_is_compared_in_both_orders(tmp_path, say, outcome, score, code):
    asked = Asked(say)
    verdict = await pair(tmp_path).judge_with(completion("mine"), case(), asked)
    assert (verdict.outcome, verdict.score, verdict.code) == (outcome, score, code)
    assert {shown_first(request) for request in asked.requests} == {"mine", "It was the disk."}
    assert verdict.details["flip"] is (code == "order_flip")
    orders: Any = verdict.details["orders"]
    assert [order["shown_first"] for order in orders] == ["a", "b"]


async def test_a_flip_is_no_tie_and_says_how_it_went(tmp_path: Path):
    judge = pair(tmp_path)
    found = await judge.compare("x", "y", case(), Asked(lambda _: verdict_reply(winner="first")))
    assert (found.winners, found.winner, found.flips) == (("a", "b"), None, True)
    assert found.reason == "the order decides: a wins when a is shown first, b when b is"
    one_tie = Asked(
        lambda request: verdict_reply(winner="tie" if shown_first(request) == "x" else "first")
    )
    found = await judge.compare("x", "y", case(), one_tie)
    assert (found.winners, found.winner) == (("tie", "b"), None)


async def test_a_win_may_be_demanded_and_the_other_answer_stand_elsewhere(tmp_path: Path):
    judge = pair(tmp_path, at_least=1, against=expected("older"), field="text")
    asked = Asked(lambda _: verdict_reply(winner="tie"))
    given = case(expected={"older": "old"})
    verdict = await judge.judge_with(completion('{"text": "new"}'), given, asked)
    assert (verdict.outcome, verdict.score) == ("fail", 0.5)
    assert {shown_first(request) for request in asked.requests} == {"new", "old"}


async def test_the_same_text_needs_no_model(tmp_path: Path):
    asked = Asked(lambda _: verdict_reply(winner="first"))
    found = await pair(tmp_path).compare("same", "same\n", case(), asked)
    assert (found.winner, asked.requests) == ("tie", [])


async def test_a_pair_needs_a_rubric_for_pairs_and_something_to_compare_with(tmp_path: Path):
    with pytest.raises(PromptError, match="needs a rubric of the kind pair, and this one is grade"):
        pairwise("faithful").bind(context(tmp_path, faithful=GRADED))
    with pytest.raises(JudgeError, match=r"has no expected\.reference"):
        await pair(tmp_path).judge_with(completion("x"), case(expected=None), Asked(prefers("x")))
    unstated = Asked(lambda _: "They are equally good.")
    with pytest.raises(JudgeError, match="asked twice"):
        await pair(tmp_path).judge_with(completion("x"), case(), unstated)


def bench(tmp_path: Path, *models: str, **parameters: Any) -> PanelJudge:
    members = [rubric("faithful", model=f"local:{model}") for model in models]
    return panel(members, **parameters).bind(context(tmp_path, faithful=GRADED))


def scores(**by_model: int) -> Asked:
    return Asked(lambda request: verdict_reply(score=by_model[request.model]))


@pytest.mark.parametrize(
    ("reducer", "at_least", "outcome", "score"),
    [
        ("majority", 0.5, "pass", 2 / 3),
        ("all", 0.5, "fail", 2 / 3),
        ("median", 0.9, "pass", 1.0),
        ("mean", 0.5, "pass", 2 / 3),
        ("min", 0.1, "fail", 0.0),
    ],
)
async def test_a_panel_makes_one_verdict_of_several(tmp_path, reducer, at_least, outcome, score):
    judge = bench(tmp_path, "a", "b", "c", reducer=reducer, at_least=at_least)
    verdict = await judge.judge_with(completion("x"), case(), scores(a=5, b=1, c=5))
    assert (verdict.outcome, verdict.score) == (outcome, pytest.approx(score))
    assert verdict.details["agreement"] == pytest.approx(2 / 3)
    members: Any = verdict.details["members"]
    assert [(row["models"], row["outcome"]) for row in members] == [
        (["local:a"], "pass"),
        (["local:b"], "fail"),
        (["local:c"], "pass"),
    ]
    assert verdict.reason.startswith(f"2 of 3 pass ({reducer}); score ")


async def test_members_that_abstain_do_not_count(tmp_path: Path):
    project = context(tmp_path, better=BETTER, faithful=GRADED)
    members = [pairwise("better", model="local:p"), rubric("faithful", model="local:r")]
    judge = panel(members, "all").bind(project)
    flips = Asked(
        lambda request: verdict_reply(
            **({"winner": "first"} if request.model == "p" else {"score": 5})
        )
    )
    verdict = await judge.judge_with(completion("x"), case(), flips)
    assert (verdict.outcome, verdict.score) == ("pass", 1.0)
    alone = panel([pairwise("better", model=f"local:{m}") for m in "pq"]).bind(project)
    verdict = await alone.judge_with(
        completion("x"), case(), Asked(lambda _: verdict_reply(winner="first"))
    )
    assert (verdict.outcome, verdict.code) == ("abstain", "all_abstained")


async def test_a_member_without_a_verdict_leaves_the_panel_without_one(tmp_path: Path):
    def say(request: CompletionRequest) -> str | Exception:
        down = ProviderError("b is down", kind="connection")
        return down if request.model == "b" else verdict_reply(score=5)

    asked = Asked(say)
    with pytest.raises(ProviderError):
        await bench(tmp_path, "a", "b", "c").judge_with(completion("x"), case(), asked)
    assert len(asked.requests) == 3


async def test_a_panel_is_a_judge_that_asks_all_its_models(tmp_path: Path):
    declared = panel([rubric("faithful", model="local:a"), rubric("faithful", model="local:b")])
    assert isinstance(declared, UnboundJudge)
    judge = declared.bind(context(tmp_path, faithful=GRADED))
    assert isinstance(judge, ModelJudge)
    assert (judge.name, judge.models) == ("panel(faithful)", ("local:a", "local:b"))
    others = [
        bench(tmp_path, "a", "c"),
        bench(tmp_path, "a", "b", reducer="all"),
        bench(tmp_path, "a", "b", at_least=0.6),
    ]
    assert len({judge.digest, *(other.digest for other in others)}) == 4


async def test_panels_that_make_no_sense_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="at least two"):
        panel([rubric("faithful")])
    with pytest.raises(UsageError, match="not an LLM judge"):
        panel([rubric("faithful"), max_words(3)])  # type: ignore[list-item]  # on purpose
    with pytest.raises(UsageError, match="no reducer"):
        panel([rubric("a"), rubric("b")], "best")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(UsageError, match="they would always agree"):
        bench(tmp_path, "a", "a")
