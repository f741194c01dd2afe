"""Turns judged trials into the rows of a run record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regauge.errors import JudgeError, ProviderError, RegaugeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.digests import JSON
    from regauge.errors import UnmeasuredError
    from regauge.runner import EvalResult, JudgedVerdict

__all__ = ["cause_of", "rows_of"]

_RAW_CHARS_MAX = 4000


def rows_of(result: EvalResult, *, arm: str | None = None) -> Iterator[dict[str, Any]]:
    """One row per trial, in the shape of `TrialRow`; plain values, for speed.

    Args:
        result: The judged trials of one case.
        arm: In a run that gates, whose they are: `candidate` or `main`.
    """
    suite, case = result.suite, result.case
    version = suite.prompt.version
    outcome = result.outcome
    for trial in result.trials:
        completion = trial.answer.completion if trial.answer else None
        yield {
            "node": result.where,
            "prompt": suite.prompt.name,
            "version": str(version) if version else None,
            "prompt_digest": suite.prompt.digest,
            "dataset": suite.dataset.name,
            "case": case.id,
            "case_digest": case.digest,
            "tier": case.tier,
            "split": case.split,
            "tags": list(case.tags),
            "model": str(suite.model),
            "trial": trial.number,
            "request_digest": trial.request_digest,
            "case_outcome": outcome,
            "not_blocking": result.not_blocking,
            "outcome": trial.outcome,
            "verdicts": [_verdict_row(judged) for judged in trial.verdicts],
            "cause": cause_of(trial.error) if trial.error else None,
            "source": trial.answer.source if trial.answer else None,
            "answer": completion.text if completion else None,
            "refusal": completion.refusal if completion else None,
            "finish_reason": completion.finish_reason if completion else None,
            "answered_by": completion.model if completion else None,
            "fingerprint": completion.fingerprint if completion else None,
            "input_tokens": completion.usage.input_tokens if completion else 0,
            "output_tokens": completion.usage.output_tokens if completion else 0,
            "latency_s": completion.latency_s if completion else None,
            "cost_usd": completion.cost_usd if completion else None,
            "attempts": completion.attempts if completion else _attempts(trial.error),
            "arm": arm,
        }


def cause_of(error: UnmeasuredError) -> dict[str, JSON]:
    """The kind and the words of an error, in the shape of `Cause`."""
    named = error.__cause__ if isinstance(error.__cause__, RegaugeError) else error
    told = next((one for one in (error, named) if isinstance(one, ProviderError)), None)
    cause: dict[str, JSON] = {
        "kind": told.kind if told else type(named).__name__,
        "message": str(error),
    }
    if isinstance(error, JudgeError) and error.raw is not None:
        cause["raw"] = _shortened(error.raw)
    return cause


def _shortened(raw: str) -> str:
    """The beginning of what a judge's model said; the recordings hold all of it."""
    if len(raw) <= _RAW_CHARS_MAX:
        return raw
    return f"{raw[:_RAW_CHARS_MAX]}… {len(raw) - _RAW_CHARS_MAX} more characters"


def _attempts(error: UnmeasuredError | None) -> int:
    return error.attempts if isinstance(error, ProviderError) else 0


def _verdict_row(judged: JudgedVerdict) -> dict[str, JSON]:
    verdict = judged.verdict
    row: dict[str, JSON] = {
        "judge": judged.judge,
        "judge_digest": judged.judge_digest,
        "criterion": judged.criterion,
        "outcome": verdict.outcome,
        "score": verdict.score,
        "reason": verdict.reason,
    }
    if verdict.expected is not None:
        row["expected"] = verdict.expected
    if verdict.actual is not None:
        row["actual"] = verdict.actual
    if judged.labels:
        row["labels"] = True
    if not judged.gates:
        row["gates"] = False
    if judged.standing:
        row["standing"] = judged.standing
    calls = judged.calls
    if calls is None:
        if verdict.cost_usd:
            row["cost_usd"] = verdict.cost_usd
    else:
        row["cost_usd"] = calls.cost_usd
        row["spent_usd"] = calls.spent_usd
        row["calls"] = calls.calls
        row["live_calls"] = calls.live
        row["retries"] = calls.retries
        row["input_tokens"] = calls.input_tokens
        row["output_tokens"] = calls.output_tokens
        row["latency_s"] = calls.latency_s
    if verdict.details:
        row["details"] = dict(verdict.details)
    return row
