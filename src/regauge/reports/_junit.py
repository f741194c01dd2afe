"""What JUnit files carry about a case, beside its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.runner import EvalResult

__all__ = ["junit_properties"]


def junit_properties(result: EvalResult) -> Iterator[tuple[str, object]]:
    """Names and values, of the case and then of each of its trials."""
    yield "regauge.prompt", str(result.prompt.id)
    yield "regauge.case", result.case.id
    yield "regauge.tier", result.case.tier
    yield "regauge.model", str(result.suite.model)
    yield "regauge.trials", len(result.trials)
    yield "regauge.passed", result.passed
    for trial in result.trials:
        if trial.answer is not None:
            completion = trial.answer.completion
            at = f"[{trial.number}]" if len(result.trials) > 1 else ""
            yield f"regauge.latency_s{at}", completion.latency_s
            if completion.cost_usd is not None:
                yield f"regauge.cost_usd{at}", completion.cost_usd
            yield f"regauge.source{at}", trial.answer.source
            for judged in trial.verdicts:
                yield f"regauge.score{at}.{judged.judge}", judged.verdict.score
                if not judged.gates:
                    yield f"regauge.informs{at}.{judged.judge}", judged.standing
                if judged.calls is not None:
                    yield f"regauge.judge_calls{at}.{judged.judge}", judged.calls.calls
                    if judged.calls.cost_usd is not None:
                        yield f"regauge.judge_cost_usd{at}.{judged.judge}", judged.calls.cost_usd
