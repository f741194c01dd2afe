"""What a run would have to record: how many answers, about how many tokens, at what cost."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.providers import estimate_requests
from regauge.runner._providers import SIMULATED, price_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.project import Settings
    from regauge.runner._answers import Answers
    from regauge.runner._options import RunOptions
    from regauge.runner._plan import Draw, Plan
    from regauge.runner._suite import Suite

__all__ = ["MissingAnswers", "missing_answers", "record_command"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingAnswers:
    """The answers one prompt lacks.

    Attributes:
        stale: How many cases have an answer to an older request of the prompt.
        tokens: About how many tokens the calls would use, in and out.
        cost_usd: About what they would cost; None when no price is declared.
        command: What records them.
    """

    prompt: str
    model: str
    simulated: bool
    answers: int
    cases: int
    stale: int
    tokens: int
    cost_usd: float | None
    command: str


def missing_answers(
    plan: Plan, answers: Answers, settings: Settings, *, options: RunOptions
) -> list[MissingAnswers]:
    """What each prompt of a plan lacks, in the order of the plan."""
    by_suite: dict[tuple[str, str], list[Draw]] = {}
    for draw in plan.missing:
        suite = draw.planned.suite
        by_suite.setdefault((suite.prompt.name, str(suite.model)), []).append(draw)
    return [
        _of_suite(prompt, model, draws, answers=answers, settings=settings, options=options)
        for (prompt, model), draws in by_suite.items()
    ]


def _of_suite(
    prompt: str,
    model: str,
    draws: Sequence[Draw],
    *,
    answers: Answers,
    settings: Settings,
    options: RunOptions,
) -> MissingAnswers:
    estimate = estimate_requests(
        (draw.planned.request(draw.trial) for draw in draws),
        price=lambda request: price_for(settings, request),
        answer_tokens=answers.file(prompt).mean_answer_tokens(),
    )
    cases = {draw.planned.case.id: draw.planned for draw in draws}
    return MissingAnswers(
        prompt=prompt,
        model=model,
        simulated=model.split(":", maxsplit=1)[0] == SIMULATED,
        answers=len(draws),
        cases=len(cases),
        stale=sum(answers.has_older(planned) for planned in cases.values()),
        tokens=estimate.input_tokens + estimate.output_tokens,
        cost_usd=estimate.cost_usd,
        command=record_command(draws[0].planned.suite, settings, options),
    )


def record_command(suite: Suite, settings: Settings, options: RunOptions) -> str:
    """The command that records exactly what this run lacks."""
    words = (
        ["pytest", suite.origin, "--record", "missing"]
        if suite.dataset.path == suite.prompt.path
        else ["regauge", "record", suite.prompt.name]
    )
    if options.model is not None:
        words += ["--model", options.model]
    if options.judge_model not in {None, settings.judge_model}:
        words += ["--judge-model", str(options.judge_model)]
    if options.trials != settings.trials:
        words += ["--trials", str(options.trials)]
    return shlex.join(words)
