"""Nearness in meaning: measures, limits, the fallback and who is named in the reason."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.errors import JudgeError, ProviderError, UsageError
from regauge.judges import Verdict, means_like, near_in_meaning
from tests.unit.judges.samples import CASE, completion

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VECTORS = {"north": [0.0, 1.0], "south": [0.0, -1.0], "far north": [0.0, 3.0], "zero": [0.0, 0.0]}


class Atlas:
    """An embedder that knows four places."""

    model = "atlas:places-1"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [VECTORS[text] for text in texts]


class Down:
    """An embedder that nobody can reach."""

    model = "atlas:places-1"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        del texts
        raise ProviderError("refused", kind="connection")


class Odd:
    """An embedder whose vectors differ in length."""

    model = "atlas:odd"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        del texts
        return [[1.0], [1.0, 2.0]]


def judged(judge: object, text: str | None, expected: str = "north") -> Verdict:
    case = replace(CASE, expected=expected)
    return asyncio.run(judge.judge(completion(text), case))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("measure", "text", "outcome", "score"),
    [
        ("cosine", "far north", "pass", 1.0),
        ("cosine", "south", "fail", 0.0),
        ("cosine", "zero", "fail", 0.0),
        ("dot", "far north", "pass", 1.0),
        ("euclidean", "far north", "fail", 1 / 3),
        ("euclidean", "north", "pass", 1.0),
    ],
)
def test_measures(measure: str, text: str, outcome: str, score: float):
    verdict = judged(means_like(Atlas(), measure=measure), text)  # type: ignore[arg-type]
    assert verdict.outcome == outcome
    assert verdict.score == pytest.approx(score)
    assert verdict.reason.startswith("atlas:places-1: ")


def test_without_a_fallback_there_is_no_verdict():
    with pytest.raises(ProviderError):
        judged(means_like(Down()), "north")


def test_a_fallback_is_named():
    verdict = judged(means_like(Down(), fallback="similarity"), "north")
    assert verdict.outcome == "pass"
    assert verdict.reason.startswith(
        "atlas:places-1 could not be called (connection), lexical fallback: ratio 1"
    )


def test_vectors_that_cannot_be_compared_are_no_verdict():
    with pytest.raises(JudgeError, match="cannot be compared"):
        judged(means_like(Odd()), "north")


def test_limits_go_with_the_measure():
    with pytest.raises(UsageError, match="wants at_most"):
        means_like(Atlas(), measure="euclidean", at_least=0.5)
    with pytest.raises(UsageError, match="wants at_least"):
        near_in_meaning("north", vectors=VECTORS, at_most=0.5)


def test_no_text_is_a_fail_and_nobody_is_asked():
    assert judged(means_like(Down()), None).code == "no_text"
    assert judged(means_like(Down()), " \n").code == "not_near"


def test_the_digest_covers_model_measure_limits_and_fallback():
    digests = {
        means_like(Atlas()).digest,
        means_like(Odd()).digest,
        means_like(Atlas(), measure="dot").digest,
        means_like(Atlas(), at_least=0.9).digest,
        means_like(Atlas(), fallback="chrf").digest,
        means_like(Atlas(), "north").digest,
    }
    assert len(digests) == 6


def test_a_model_is_named_without_anything_being_opened():
    judge = means_like(model="openai/text-embedding-3-small", at_least=0.8)
    assert judge.embedder.model == "openai:text-embedding-3-small"
    assert judge.digest == means_like(model="openai:text-embedding-3-small", at_least=0.8).digest
    assert judge.with_name("near").name == "near"
    with pytest.raises(JudgeError, match="called only by runs of `pytest evals`"):
        judged(judge, "north")


@pytest.mark.parametrize(
    "make",
    [
        means_like,
        lambda: means_like(Atlas(), model="atlas:places-1"),
        lambda: means_like("north", model="atlas:places-1"),  # type: ignore[arg-type]
        lambda: means_like("atlas:places-1"),  # type: ignore[arg-type]
        lambda: means_like(model="small"),
    ],
)
def test_the_vectors_come_from_one_place(make: Callable[[], object]):
    with pytest.raises(UsageError, match="means_like"):
        make()
