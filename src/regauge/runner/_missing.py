"""Missing recordings of a run: completions and judgements, their tokens and cost."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from regauge.model_id import is_simulated
from regauge.providers import cost_of, sum_if_known
from regauge.runner._plan import judges_file
from regauge.runner._providers import batch_cost, price_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from regauge.judges import ModelJudge
    from regauge.project import Settings
    from regauge.runner._completions import Completions
    from regauge.runner._eval import Eval
    from regauge.runner._expected import ExpectedJudging, ExpectedUsage
    from regauge.runner._plan import PlannedTrial
    from regauge.runner._spec import RunOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRecordings:
    """Missing recordings of one prompt, with the expected cost of recording them.

    Attributes:
        simulated: Whether only simulated models would be called.
        cases: The number of cases with missing recordings.
        stale: The number of these with recordings of an older request.
        calls: The approximate number of calls, several per trial of a conversation.
        tokens: The approximate number of input and output tokens.
        cost_usd: The approximate cost in US dollars; None if no price is declared.
        batch_cost_usd: The cost in a batch; None if batches are unavailable or without a price.
        command: The command that records them.
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
class MissingCompletions(MissingRecordings):
    """The missing completions of one prompt and model."""

    model: str
    completions: int


def missing_completions(
    planned_trials: Iterable[PlannedTrial],
    usage: ExpectedUsage,
    completions: Completions,
    settings: Settings,
    *,
    options: RunOptions,
) -> list[MissingCompletions]:
    """The missing completions of each prompt, in the order of the trials.

    One that several evals share counts once.

    Args:
        planned_trials: The trials without a completion.
        usage: The expected tokens of each.
        completions: The recorded completions, including those of older requests.
        settings: The settings with the prices.
        options: The options that the command repeats.
    """
    by_eval: dict[tuple[str, str], dict[object, PlannedTrial]] = {}
    for planned_trial in planned_trials:
        planned_case, eval_ = planned_trial.planned_case, planned_trial.planned_case.eval
        if eval_.target is not None and eval_.target.outputs is not None:
            continue  # regauge does not record them; each trial names its missing line
        of_eval = by_eval.setdefault((eval_.prompt.name, str(eval_.model)), {})
        # Conversations with the same beginning go on differently.
        is_single = planned_case.digest and not planned_case.converses
        of_eval.setdefault(planned_trial.key if is_single else planned_trial, planned_trial)
    missing_by_prompt: list[MissingCompletions] = []
    for (prompt, model), missing_trials in by_eval.items():
        missing = [*missing_trials.values()]
        cases = {
            planned_trial.planned_case.case.id: planned_trial.planned_case
            for planned_trial in missing
        }
        expected = [usage.calls_of_trial(planned_trial) for planned_trial in missing]
        costs = [
            cost_of(
                tokens, price_for(settings, planned_trial.planned_case.request(planned_trial.trial))
            )
            for planned_trial, (_, tokens) in zip(missing, expected, strict=True)
        ]
        total_usd = sum_if_known(costs)
        cost_usd = None if total_usd is None else round(total_usd, 9)
        missing_by_prompt.append(
            MissingCompletions(
                prompt=prompt,
                model=model,
                simulated=is_simulated(model),
                completions=len(missing),
                calls=round(sum(calls for calls, _ in expected)),
                cases=len(cases),
                stale=sum(completions.has_older(planned_case) for planned_case in cases.values()),
                tokens=sum(usage.input_tokens + usage.output_tokens for _, usage in expected),
                cost_usd=cost_usd,
                batch_cost_usd=batch_cost(settings, model.partition(":")[0], cost_usd),
                command=record_command(missing[0].planned_case.eval, settings, options),
            )
        )
    return missing_by_prompt


def record_command(eval_: Eval, settings: Settings, options: RunOptions) -> str:
    """The command that records the missing recordings of this run."""
    words = (
        ["pytest", eval_.origin, "--record", "missing"]
        if eval_.dataset.path == eval_.prompt.path
        else ["regauge", "record", eval_.prompt.name, *eval_.evals_option]
    )
    if options.models:
        words += ["--model", str(eval_.model)]
    if options.judge_model not in {None, settings.judge_model}:
        words += ["--judge-model", str(options.judge_model)]
    if options.trials != settings.trials:
        words += ["--trials", str(options.trials)]
    return shlex.join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingJudgements(MissingRecordings):
    """The judgements of one judge and prompt without recorded responses.

    Attributes:
        models: The models that would be called.
    """

    judge: str
    models: str
    judgements: int

    def plus(self, other: MissingJudgements) -> MissingJudgements:
        """The sum of two processes that judged different cases."""
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


@dataclass(slots=True)
class Misses:
    """The judgements of a replay whose responses are not recorded.

    Attributes:
        judges: Their judges, by prompt and name.
    """

    judges: dict[tuple[str, str], ModelJudge] = field(
        default_factory=dict[tuple[str, str], "ModelJudge"]
    )
    _planned_trials: dict[tuple[str, str], dict[tuple[str, int], PlannedTrial]] = field(
        default_factory=dict[tuple[str, str], dict[tuple[str, int], "PlannedTrial"]]
    )

    def note(self, judge: ModelJudge, planned_trial: PlannedTrial) -> None:
        """Add a judgement that cannot be replayed."""
        key = (planned_trial.planned_case.eval.prompt.name, judge.name)
        self.judges.setdefault(key, judge)
        self._planned_trials.setdefault(key, {}).setdefault(
            (planned_trial.planned_case.case.id, planned_trial.trial), planned_trial
        )

    def summary(
        self,
        judging: ExpectedJudging,
        completions: Completions,
        settings: Settings,
        *,
        options: RunOptions,
    ) -> list[MissingJudgements]:
        """The missing judgements of each judge, in the order they were noted."""
        missing: list[MissingJudgements] = []
        for (prompt, name), judge in self.judges.items():
            planned_trials = list(self._planned_trials[prompt, name].values())
            cases = {planned_trial.planned_case.case.id for planned_trial in planned_trials}
            recorded = {x.case for x in completions.file(judges_file(prompt)) if x.judge == name}
            expected = judging.of_trials(judge, planned_trials)
            cost_usd = None if expected.cost_usd is None else round(expected.cost_usd, 9)
            providers = {model.partition(":")[0] for model in judge.models}
            in_batch = {batch_cost(settings, provider, cost_usd) for provider in providers}
            missing.append(
                MissingJudgements(
                    prompt=prompt,
                    judge=name,
                    models=", ".join(judge.models),
                    simulated=all(map(is_simulated, judge.models)),
                    judgements=len(planned_trials),
                    cases=len(cases),
                    stale=len(cases & recorded),
                    calls=round(expected.calls),
                    tokens=round(expected.tokens),
                    cost_usd=cost_usd,
                    batch_cost_usd=in_batch.pop() if len(in_batch) == 1 else None,
                    command=record_command(planned_trials[0].planned_case.eval, settings, options),
                )
            )
        return missing
