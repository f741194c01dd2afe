"""Which answers are still to be recorded, and what that would use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.providers import estimate_requests
from regauge.recordings._recording import RecordingKey

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from regauge.project import PriceSettings
    from regauge.providers import CompletionRequest, Estimate
    from regauge.recordings._file import RecordingsFile

__all__ = ["Draw", "Needs", "needs_recording"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One answer that a run wants: the case it is for, and the request with its trial number."""

    case: str
    request: CompletionRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The draws of one prompt that have no answer yet.

    Attributes:
        prompt: The name of the prompt.
        missing: Draws of cases for which nothing is recorded, or not this trial.
        stale: Draws of cases whose recorded answers are all for other requests.
        estimate: What recording them would use.
    """

    prompt: str
    missing: tuple[Draw, ...]
    stale: tuple[Draw, ...]
    estimate: Estimate

    def __bool__(self) -> bool:
        return bool(self.missing or self.stale)

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases concerned, each once, in the order in which they were asked for."""
        return tuple(dict.fromkeys(draw.case for draw in (*self.stale, *self.missing)))

    def __str__(self) -> str:
        """How many, why, what it would use, and the command that does it."""
        parts = [
            f"{len(draws)} {why}"
            for draws, why in (
                (self.stale, "for an older version of the prompt or the case"),
                (self.missing, "not recorded yet"),
            )
            if draws
        ]
        estimate = self.estimate
        cost = "cost not known" if estimate.cost_usd is None else f"about ${estimate.cost_usd:.4f}"
        answers = "answer needs" if estimate.requests == 1 else "answers need"
        return (
            f"{self.prompt}: {estimate.requests:,} {answers} recording ({', '.join(parts)});"
            f" about {estimate.input_tokens:,} tokens in, {estimate.output_tokens:,} out, {cost}\n"
            f"  record: pytest evals --record=missing -k {self.prompt}"
        )


def needs_recording(
    prompt: str,
    draws: Iterable[Draw],
    *,
    file: RecordingsFile,
    kept: Container[RecordingKey] = (),
    price: Callable[[CompletionRequest], PriceSettings | None],
) -> Needs:
    """Sort out which draws have no answer yet.

    Args:
        prompt: The name of the prompt.
        draws: What a run wants.
        file: The committed recordings of the prompt.
        kept: Further answers that are at hand, such as a `LocalStore`.
        price: The price of a request's model; None where it is not known.
    """
    missing: list[Draw] = []
    stale: list[Draw] = []
    for draw in draws:
        key = RecordingKey.of(draw.request)
        if key in file or key in kept:
            continue
        other = file.cases_with_other_digest(draw.case, key.digest)
        (stale if other else missing).append(draw)
    return Needs(
        prompt=prompt,
        missing=tuple(missing),
        stale=tuple(stale),
        estimate=estimate_requests(
            [draw.request for draw in (*stale, *missing)],
            price=price,
            answer_tokens=_mean_answer_tokens(file) if missing or stale else None,
        ),
    )


def _mean_answer_tokens(file: RecordingsFile) -> float | None:
    """How long the recorded answers are, in tokens; None where there are none."""
    counts = [recording.completion.usage.output_tokens for recording in file]
    return sum(counts) / len(counts) if counts and any(counts) else None
