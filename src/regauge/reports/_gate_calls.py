"""Counts what a gate run asked for."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from regauge.reports._decision import CallsDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.gate import Decided
    from regauge.runner import Trial

__all__ = ["calls_of"]


def calls_of(decided: Decided) -> CallsDocument:
    """The trials of a gate run by kind, and what the live ones used."""
    first = again = main = live = input_tokens = output_tokens = 0
    cost_usd: float | None = 0.0
    for (prompt, _, arm), trials in decided.trials.items():
        for number, trial in enumerate(trials):
            if trial.answer is None:
                continue
            if arm == "main":
                main += 1
            elif number < decided.outcome.first_draws.get(prompt, 1):
                first += 1
            else:
                again += 1
            for used in _used(trial):
                live += used["live"]
                input_tokens += used["input_tokens"]
                output_tokens += used["output_tokens"]
                cost_usd = _sum(cost_usd, used["spent_usd"])
    return CallsDocument(
        first=first,
        again=again,
        main=main,
        live=live,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost_usd,
    )


def _used(trial: Trial) -> Iterator[Mapping[str, Any]]:
    """What the calls of a trial used: the prompt's own, then those of its judges."""
    if trial.answer is not None and trial.answer.source == "live":
        completion = trial.answer.completion
        yield {
            "live": 1,
            "input_tokens": completion.usage.input_tokens,
            "output_tokens": completion.usage.output_tokens,
            "spent_usd": completion.cost_usd,
        }
    for judged in trial.verdicts:
        if judged.calls is not None and judged.calls.live:
            yield asdict(judged.calls)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
