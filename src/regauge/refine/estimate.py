"""What a run takes and needs, found out before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.errors import ProviderError, UsageError
from regauge.gate import REVISION_FIRST
from regauge.refine.loop import MoreCalls, advance, calls_wanted, floor_calls
from regauge.refine.trials import deciding_judges
from regauge.runner import Draw, PlannedCase, endpoint_of
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.project import Settings
    from regauge.providers import ModelId
    from regauge.refine.loop import Setting, State
    from regauge.refine.subject import Subject
    from regauge.runner import EvalSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTrial:
    """What one trial of a case takes on average, with its LLM judges.

    Attributes:
        judging: The calls of each judge, by its name.
        call_usd: What one call costs, of the prompt or of a judge; None where a price is missing.
    """

    judging: Mapping[str, float]
    call_usd: float | None


def expected_trial(evals: EvalSession, subject: Subject) -> ExpectedTrial:
    """What a trial takes, from recorded completions and judgements or from the requests."""
    draws: list[Draw] = []
    for member in subject.members.values():
        suite = replace(member.suite, judges=deciding_judges(member.suite))
        planned = PlannedCase(suite, member.case)
        planned.digest = planned.request(REVISION_FIRST).digest
        draws.append(Draw(planned, REVISION_FIRST))
    answers = evals.missing_answers(draws)
    verdicts = evals.missing_judgements(draws)
    costs = [*(one.cost_usd for one in answers), *(one.cost_usd for one in verdicts)]
    calls = len(draws) + sum(one.calls for one in verdicts)
    known = [cost for cost in costs if cost is not None]
    return ExpectedTrial(
        judging={one.judge: round(one.calls / len(draws), 4) for one in verdicts},
        call_usd=sum(known) / calls if len(known) == len(costs) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run takes, before anything is spent.

    Attributes:
        first_look: Calls of all models that say whether anything fails.
        least: Calls below which nothing is begun.
        one_repair: About how many calls find a fault, repair it and verify the repair.
        most: Calls that are never exceeded.
        goals: What each goal takes that was set: its name, and the fewest trials that meet it.
        out_of_reach: What to say of goals that the run cannot show to be met.
        steadying: About how many calls looks at flaky checks take on top, from and to; None where
            none are worked on.
        judged: Whether LLM judges are among these calls.
        call_usd: What one of these calls costs on average; None without a price.
    """

    train: int
    holdout: int
    first_look: int
    least: int
    one_repair: int
    most: int
    goals: tuple[tuple[str, int], ...]
    out_of_reach: tuple[str, ...]
    steadying: tuple[int, int] | None
    judged: bool
    call_usd: float | None

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        goals: dict[str, JSON] = {"goals": [{"name": n, "trials": t} for n, t in self.goals]}
        if self.out_of_reach:
            goals["out_of_reach"] = list(self.out_of_reach)
        steadying: dict[str, JSON] = {"steadying_calls": list(self.steadying or ())}
        return {
            "train": self.train,
            "holdout": self.holdout,
            "first_look_calls": self.first_look,
            "least_calls": self.least,
            "one_repair_calls": self.one_repair,
            "calls_max": self.most,
            "judged": self.judged,
            "call_usd": self.call_usd,
            **(steadying if self.steadying else {}),
            **(goals if self.goals else {}),
        }


def check_calls(setting: Setting, prompt: str) -> None:
    """See that a run's calls pay for one repair.

    Raises:
        UsageError: They do not.
    """
    calls, floor = setting.policy.limits.calls, floor_calls(setting)
    if calls < floor:
        raise UsageError(
            f"{calls} calls do not pay for one repair of {prompt}, which takes {floor} or more, so"
            " nothing was asked\n"
            "  fix: raise --budget-calls, or `budget_calls` in [tool.regauge.refine]; `--estimate`"
            " shows what it takes"
        )


def check_more(setting: Setting, state: State, told: MoreCalls, *, run: str, prompt: str) -> State:
    """Where a run goes on with more calls.

    Raises:
        UsageError: The run is over, and calls are not what it lacked; or these are too few for
            its next step.
    """
    if state.stop is not None and state.stop.reason != "calls":
        raise UsageError(
            f"run {run} is over ({state.stop.reason}), and not for want of calls\n"
            f"  fix: begin a new run: regauge refine {prompt}"
        )
    after = advance(setting, state, told)
    if after.stop is not None and after.stop.reason == "calls":
        calls = calls_wanted(setting, state)
        raise UsageError(
            f"{plural(told.calls, 'call')} more lead nowhere: {after.stop.text};"
            " nothing was asked\n"
            f"  fix: regauge refine resume {run} --budget-calls {calls}"
        )
    return after


def check_key(settings: Settings, model: ModelId, environ: Mapping[str, str]) -> None:
    """Look for the key of the model that proposes; nobody is asked.

    Raises:
        UsageError: Nothing says where its provider is.
        ProviderError: The variable that should hold its key is not set.
    """
    from regauge.providers._endpoint import Endpoint

    declared = endpoint_of(settings, model.provider)
    if declared is None:
        return
    endpoint = Endpoint(name=model.provider, settings=declared, environ=environ)
    try:
        endpoint.key()
        endpoint.headers()
    except ProviderError as error:
        raise ProviderError(
            f"{model}, which is to propose edits, cannot be asked: {error}\n"
            "  or: let another model propose, with --refiner-model, or none, with"
            " --proposers=rules",
            kind=error.kind,
        ) from error
