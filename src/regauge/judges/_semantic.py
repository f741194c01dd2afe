"""Nearness in meaning through an embedding model, with a lexical measure to fall back on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from regauge.digests import digest_of
from regauge.errors import JudgeError, ProviderError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._asking import Declared
from regauge.judges._types import Verdict, failed
from regauge.judges.rules._similarity import (
    Distance,
    chrf,
    nearness,
    nearness_limits,
    nearness_verdict,
    reference_text,
    rouge_l,
    similarity,
)
from regauge.providers import parse_model_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.judges._rule import Rule
    from regauge.providers import Completion


Fallback = Literal["similarity", "rouge_l", "chrf"]


class Embedder(Protocol):
    """Anything that turns texts into vectors; implement it, do not subclass it."""

    @property
    def model(self) -> str:
        """The model, as `provider:model`."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The vector of each text, in their order and all of one length.

        Raises:
            ProviderError: There are no vectors; its `kind` says why.
        """
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """The name of an embedding model; a run puts what records and replays it in its place.

    Attributes:
        model: As `provider:model`.
    """

    model: str

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Nothing: only a run knows where the model is.

        Raises:
            JudgeError: Always.
        """
        del texts
        raise JudgeError(
            f"{self.model} is asked by runs of `pytest evals` alone\n"
            "  fix: elsewhere give the judge an embedder: means_like(OpenAIEmbedder(...))",
            judge="means_like",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticJudge(Declared):
    """A judge that compares the vectors of answer and reference.

    Attributes:
        embedder: What gives the vectors, or the name of the model that does.
        fallback: What judges instead when the embedder cannot be asked; None for no verdict.
        criterion: What it is about; no part of the digest.
    """

    embedder: Embedder
    to: str | Expected
    measure: Distance
    at_least: float | None
    at_most: float | None
    fallback: Rule | None
    criterion: Criterion = "correctness"

    @property
    def digest(self) -> str:
        """Over model, reference, measure, limits and fallback."""
        return digest_of(
            {
                "kind": "means_like",
                "version": 2,
                "model": self.embedder.model,
                "to": {"expected": self.to.path} if isinstance(self.to, Expected) else self.to,
                "measure": self.measure,
                "limits": [self.at_least, self.at_most],
                "fallback": self.fallback.digest if self.fallback else None,
            }
        )

    async def prepare(self, completion: Completion, case: GoldenCase) -> None:
        """Have the vectors given that a verdict will ask for.

        Raises:
            ProviderError: The embedder could not be asked.
            JudgeError: The case has no reference.
        """
        answer = Answer.of(completion, case)
        if answer.text is not None and answer.text.strip():
            reference = reference_text(answer, self.to, self.name)
            await self.embedder.embed([answer.text, reference])

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Compare; the reason says which model or which lexical measure was used.

        Raises:
            ProviderError: The embedder could not be asked, and there is no fallback.
            JudgeError: The case has no reference, or the vectors make no sense.
        """
        answer = Answer.of(completion, case)
        if answer.text is None:
            return answer.nothing()
        reference = reference_text(answer, self.to, self.name)
        if not answer.text.strip():
            # Endpoints refuse such texts, and the answer is at fault, not they.
            return failed("the answer is blank", code="not_near", expected=reference)
        try:
            vectors = await self.embedder.embed([answer.text, reference])
        except ProviderError as error:
            if self.fallback is None:
                raise
            verdict = self.fallback.examine(answer)
            why = f"{self.embedder.model} could not be asked ({error.kind})"
            return replace(verdict, reason=f"{why}, lexical fallback: {verdict.reason}")
        try:
            one, other = vectors
            found = nearness(one, other, self.measure)
        except ValueError as error:
            raise JudgeError(
                f"{self.embedder.model} gave vectors that cannot be compared: {error}",
                judge=self.name,
            ) from error
        return nearness_verdict(
            found,
            measure=self.measure,
            at_least=self.at_least,
            at_most=self.at_most,
            by=self.embedder.model,
            reference=reference,
        )


def means_like(
    embedder: Embedder | None = None,
    to: str | Expected = expected(),
    *,
    model: str | None = None,
    measure: Distance = "cosine",
    at_least: float | None = None,
    at_most: float | None = None,
    fallback: Fallback | None = None,
    fallback_at_least: float = 0.75,
) -> SemanticJudge:
    """Compare meaning with a reference, by vectors of an embedding model.

    Vectors hardly represent a negation: add a rule for required or forbidden words. Vectors of
    `model` are [recorded](recordings.md#vectors); an `embedder` is called every time.

    Args:
        embedder: A source of vectors, instead of `model`.
        to: The value or reference to compare with; by default the case's `expected`.
        model: The embedding model, as `provider:model`.
        measure: `cosine`, `dot` or `euclidean`.
        at_least: The least cosine or dot product that passes, 0.75 if unset.
        at_most: The greatest distance that passes, 0.5 if unset.
        fallback: A lexical measure to use if the model cannot be called; by default none, and the
            case is unmeasured.
        fallback_at_least: The least fallback score that passes.

    Raises:
        UsageError: The limits do not go with the measure, or there is not one of `embedder` and
            `model`.

    >>> means_like(model="openai:text-embedding-3-small", at_least=0.8).name
    'means_like(expected, cosine)'
    """
    if isinstance(embedder, (str, Expected)) or (embedder is None) == (model is None):
        raise UsageError(
            "means_like takes a model or an embedder, and the reference as `to`:"
            ' means_like(model="openai:text-embedding-3-small", to=expected("answer"))'
        )
    lexical: dict[Fallback, Callable[..., Rule]] = {
        "similarity": similarity,
        "rouge_l": rouge_l,
        "chrf": chrf,
    }
    least, most = nearness_limits("means_like", measure, at_least, at_most)
    return SemanticJudge(
        embedder=embedder or EmbeddingModel(str(parse_model_id(model or "", at="means_like"))),
        to=to,
        measure=measure,
        at_least=least,
        at_most=most,
        fallback=lexical[fallback](to, at_least=fallback_at_least) if fallback else None,
        name=f"means_like({to}, {measure})",
    )
