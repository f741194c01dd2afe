"""Missing recordings of a run: completions and judgements, their tokens and cost."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.model_id import is_simulated
from regauge.providers import cost_of, sum_if_known
from regauge.runner._plan import judges_file
from regauge.runner._providers import batch_cost, price_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.judges import ModelJudge
    from regauge.project import Settings
    from regauge.runner._answers import Answers
    from regauge.runner._expected import ExpectedJudging, ExpectedUsage
    from regauge.runner._plan import Draw
    from regauge.runner._spec import RunOptions
    from regauge.runner._suite import Eval


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRecordings:
    """Recordings of one prompt that are missing, and what they would take.

    Attributes:
        simulated: Whether only simulated models would be called.
        cases: How many cases they are of.
        stale: Cases that have recordings of an older request.
        calls: About how many calls they take: more than trials where cases are conversations.
        tokens: About how many tokens the calls would use, in and out.
        cost_usd: About what they would cost; None when no price is declared.
        batch_cost_usd: The same in a batch; None where no batch is possible or its price unknown.
        command: What records them.
    """

    prompt: str
    simulated: bool
    cases: int
    stale: int
    calls: int
    tokens: int
    cost_usd: float | None
    batch_cost_usd: float | None
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingAnswers(MissingRecordings):
    """The missing completions of one prompt: trials without one."""

    model: str
    answers: int


def missing_answers(
    draws: Iterable[Draw],
    usage: ExpectedUsage,
    answers: Answers,
    settings: Settings,
    *,
    options: RunOptions,
) -> list[MissingAnswers]:
    """The missing completions of each prompt, in the order of the trials.

    Args:
        draws: The trials without a completion.
        usage: The expected tokens of each.
        answers: Where completions of older requests may be.
        settings: Where prices are.
        options: What the command repeats.
    """
    by_suite: dict[tuple[str, str], list[Draw]] = {}
    for draw in draws:
        suite = draw.planned.suite
        if suite.target is not None and suite.target.outputs is not None:
            continue  # nothing records them; each trial names the line that is missing
        by_suite.setdefault((suite.prompt.name, str(suite.model)), []).append(draw)
    gathered_answers: list[MissingAnswers] = []
    for (prompt, model), missing in by_suite.items():
        cases = {draw.planned.case.id: draw.planned for draw in missing}
        expected = [usage.calls_of_draw(draw) for draw in missing]
        costs = [
            cost_of(tokens, price_for(settings, draw.planned.request(draw.trial)))
            for draw, (_, tokens) in zip(missing, expected, strict=True)
        ]
        total_usd = sum_if_known(costs)
        cost_usd = None if total_usd is None else round(total_usd, 9)
        gathered_answers.append(
            MissingAnswers(
                prompt=prompt,
                model=model,
                simulated=is_simulated(model),
                answers=len(missing),
                calls=round(sum(calls for calls, _ in expected)),
                cases=len(cases),
                stale=sum(answers.has_older(planned) for planned in cases.values()),
                tokens=sum(each.input_tokens + each.output_tokens for _, each in expected),
                cost_usd=cost_usd,
                batch_cost_usd=batch_cost(settings, model.partition(":")[0], cost_usd),
                command=record_command(missing[0].planned.suite, settings, options),
            )
        )
    return gathered_answers


def record_command(suite: Eval, settings: Settings, options: RunOptions) -> str:
    """The command that records exactly what is missing in this run."""
    words = (
        ["pytest", suite.origin, "--record", "missing"]
        if suite.dataset.path == suite.prompt.path
        else ["regauge", "record", suite.prompt.name]
    )
    if options.models:
        words += ["--model", str(suite.model)]
    if options.judge_model not in {None, settings.judge_model}:
        words += ["--judge-model", str(options.judge_model)]
    if options.trials != settings.trials:
        words += ["--trials", str(options.trials)]
    return shlex.join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingJudgements(MissingRecordings):
    """The judgements of one judge on answers to one prompt without recorded replies.

    Attributes:
        models: Who would be asked.
    """

    judge: str
    models: str
    judgements: int

    def plus(self, other: MissingJudgements) -> MissingJudgements:
        """Of two processes that each judged cases of their own."""
        return replace(
            self,
            judgements=self.judgements + other.judgements,
            cases=self.cases + other.cases,
            stale=self.stale + other.stale,
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=sum_if_known((self.cost_usd, other.cost_usd)),
            batch_cost_usd=sum_if_known((self.batch_cost_usd, other.batch_cost_usd)),
        )


class Misses:
    """Collects the judgements that would need a model, where none may be called.

    Attributes:
        judges: Those that would call it, by prompt and name.
    """

    def __init__(self) -> None:
        self.judges: dict[tuple[str, str], ModelJudge] = {}
        self._draws: dict[tuple[str, str], dict[tuple[str, int], Draw]] = {}

    def note(self, judge: ModelJudge, draw: Draw) -> None:
        """Remember a judgement that cannot be replayed."""
        key = (draw.planned.suite.prompt.name, judge.name)
        self.judges.setdefault(key, judge)
        self._draws.setdefault(key, {}).setdefault((draw.planned.case.id, draw.trial), draw)

    def summary(
        self,
        judging: ExpectedJudging,
        answers: Answers,
        settings: Settings,
        *,
        options: RunOptions,
    ) -> list[MissingJudgements]:
        """The missing judgements of each judge, in the order they were noted."""
        missing: list[MissingJudgements] = []
        for (prompt, name), judge in self.judges.items():
            draws = list(self._draws[prompt, name].values())
            cases = {draw.planned.case.id for draw in draws}
            recorded = {x.case for x in answers.file(judges_file(prompt)) if x.judge == name}
            expected = judging.of_draws(judge, draws)
            cost_usd = None if expected.cost_usd is None else round(expected.cost_usd, 9)
            providers = {model.partition(":")[0] for model in judge.models}
            in_batch = {batch_cost(settings, provider, cost_usd) for provider in providers}
            missing.append(
                MissingJudgements(
                    prompt=prompt,
                    judge=name,
                    models=", ".join(judge.models),
                    simulated=all(map(is_simulated, judge.models)),
                    judgements=len(draws),
                    cases=len(cases),
                    stale=len(cases & recorded),
                    calls=round(expected.calls),
                    tokens=round(expected.tokens),
                    cost_usd=cost_usd,
                    batch_cost_usd=in_batch.pop() if len(in_batch) == 1 else None,
                    command=record_command(draws[0].planned.suite, settings, options),
                )
            )
        return missing
