"""How near an answer is to a reference in meaning, by the vectors of an embedding model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from regauge.digests import digest_of
from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Expected, expected
from regauge.judges._evidence import number, quote, shown
from regauge.judges._rule import Check, on_answer
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._likeness import reference_text

if TYPE_CHECKING:
    from regauge.judges._answer import Answer

__all__ = ["Distance", "Vectors", "near_in_meaning", "nearness"]

Distance = Literal["cosine", "dot", "euclidean"]
Vectors = Mapping[str, Sequence[float]]


def nearness(one: Sequence[float], other: Sequence[float], measure: Distance) -> float:
    """Compare two vectors.

    `cosine` is their dot product over the product of their lengths, 0 where a length is 0;
    `dot` is their dot product; `euclidean` is the distance between their ends.

    Raises:
        ValueError: The vectors differ in length.

    >>> nearness([1, 0], [1, 1], "euclidean")
    1.0
    """
    if measure == "euclidean":
        return math.dist(one, other)
    dot = math.fsum(left * right for left, right in zip(one, other, strict=True))
    if measure == "dot":
        return dot
    lengths = math.hypot(*one) * math.hypot(*other)
    return dot / lengths if lengths else 0.0


def nearness_verdict(
    found: float,
    *,
    measure: Distance,
    at_least: float | None,
    at_most: float | None,
    by: str,
    reference: str,
) -> Verdict:
    """The verdict on a nearness; scores are held within [0, 1]."""
    if measure == "euclidean":
        limit = at_most if at_most is not None else 0.0
        reason = (
            f"{by}: euclidean distance {number(found)} to {quote(reference)}, "
            f"at most {number(limit)} wanted"
        )
        score = 1 / (1 + found)
        if found <= limit:
            return passed(reason, score=score)
        return failed(reason, code="not_near", score=score, expected=shown(reference))
    least = at_least if at_least is not None else 0.0
    reason = f"{by}: {measure} {number(found)} to {quote(reference)}, {number(least)} wanted"
    if found >= least:
        return passed(reason, score=min(1.0, max(0.0, found)))
    return failed(
        reason, code="not_near", score=min(1.0, max(0.0, found)), expected=shown(reference)
    )


def nearness_limits(
    kind: str, measure: Distance, at_least: float | None, at_most: float | None
) -> tuple[float | None, float | None]:
    """The limits that go with a measure.

    Raises:
        UsageError: The limit is of the other kind, or the measure is unknown.
    """
    match measure:
        case "euclidean":
            if at_least is not None:
                raise UsageError(f"{kind}: a euclidean distance wants at_most, not at_least")
            return None, 0.5 if at_most is None else at_most
        case "cosine" | "dot":
            if at_most is not None:
                raise UsageError(f"{kind}: {measure} wants at_least, not at_most")
            return 0.75 if at_least is None else at_least, None
        case _:
            raise UsageError(f"{kind}: no measure {measure!r}; there are cosine, dot, euclidean")


@rule(codes=("not_near",))
def near_in_meaning(
    to: str | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    vectors: Vectors,
    measure: Distance = "cosine",
    at_least: float | None = None,
    at_most: float | None = None,
    field: str | None = None,
) -> Check:
    """The answer is near a reference in meaning, by vectors that are known already.

    `cosine` is the dot product over the product of the lengths; `dot` the dot product;
    `euclidean` the distance, for which the score is 1 / (1 + distance). Vectors of meaning hardly
    see a negation: "ran out" and "did not run out" are near each other. `means_like(model=...)`
    makes the same comparison and asks an embedding model for the vectors, which are recorded.

    Args:
        to: The reference; by default the case's `expected`.
        vectors: The vector of each text; a text without one is a JudgeError.
        measure: `cosine`, `dot` or `euclidean`.
        at_least: The least cosine or dot product that passes; 0.75 by default.
        at_most: The greatest distance that passes; 0.5 by default.
        field: Judge this part of a JSON answer instead of the whole.

    >>> known = {"disk full": [1.0, 0.1], "no space left": [0.9, 0.2]}
    >>> print(near_in_meaning("disk full", vectors=known).check_text("no space left"))
    pass (0.99): given vectors: cosine 0.9929 to 'disk full', 0.75 wanted
    """
    least, most = nearness_limits("near_in_meaning", measure, at_least, at_most)
    which = digest_of({text: list(vector) for text, vector in vectors.items()})[:8]

    def vector(text: str) -> Sequence[float]:
        if text not in vectors:
            raise JudgeError(
                f"near_in_meaning: no vector of {quote(text)} among those given ({which})",
                judge="near_in_meaning",
            )
        return vectors[text]

    def check(answer: Answer) -> Verdict:
        reference = reference_text(answer, to, "near_in_meaning")
        found = nearness(vector(answer.text or ""), vector(reference), measure)
        return nearness_verdict(
            found,
            measure=measure,
            at_least=least,
            at_most=most,
            by="given vectors",
            reference=reference,
        )

    return on_answer(field, check)
