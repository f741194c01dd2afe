"""A score from the probabilities of the verdict's token, where the endpoint gives them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from regauge.judges.model._numbers import share_of
from regauge.judges.model._reply import score_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.judges.model._reply import Reply
    from regauge.prompts import RubricSpec
    from regauge.providers import Completion, TokenLogprob

__all__ = ["expected_score"]

# Where so little of the probability falls on verdicts, the token is not the verdict's.
_MASS_MIN = 0.5


def expected_score(reply: Reply, completion: Completion, spec: RubricSpec) -> Reply:
    """The reply with the mean score of the verdicts its token might have been, by probability.

    Without log-probabilities, or where one token does not tell verdicts apart, the reply as it is.
    """
    token = _token_at(completion, reply.at)
    if token is None or not token.top:
        return reply
    weights: dict[float, float] = {}
    for text, logprob in token.top:
        score = _score(text, spec)
        if score is not None and math.isfinite(logprob):
            weights[score] = weights.get(score, 0.0) + math.exp(logprob)
    mass = sum(weights.values())
    if mass < _MASS_MIN:
        return reply
    mean = sum(score * weight for score, weight in weights.items()) / mass
    return replace(reply, score=min(1.0, max(0.0, mean)))


def _token_at(completion: Completion, at: int | None) -> TokenLogprob | None:
    """The token that holds the character at a place of the text."""
    if at is None or not completion.logprobs or completion.text is None:
        return None
    if "".join(token.token for token in completion.logprobs) != completion.text:
        return None  # bytes of a character may be torn apart: places cannot be trusted
    end = 0
    for token in completion.logprobs:
        end += len(token.token)
        if at < end:
            return token
    return None


def _score(token: str, spec: RubricSpec) -> float | None:
    """The score of the one verdict that a token is or begins."""
    word = token.strip().strip('"').strip()
    if not word:
        return None
    if spec.kind == "graded":
        return share_of(int(word), spec) if word in map(str, spec.steps) else None
    begun = _beginning(word, spec.labels)
    return score_of(begun, spec) if begun is not None else None


def _beginning(word: str, labels: Iterable[str]) -> str | None:
    begun = [label for label in labels if label.casefold().startswith(word.casefold())]
    return begun[0] if len(begun) == 1 else None
