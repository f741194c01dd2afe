"""Options of a run, what the loop gets of the prompt and its cases, and what the run takes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from regauge.errors import PromptError, ProviderError, UsageError
from regauge.gate import REVISION_FIRST
from regauge.judges import criterion_of
from regauge.prompts import content_errors, replaceable_faults, without_errors
from regauge.refine._policy import Limits, RefinePolicy
from regauge.refine.analysis import Check
from regauge.refine.edits import PromptText
from regauge.refine.feedback import heard_in_words
from regauge.refine.guards import Guard
from regauge.refine.leaks import CaseText
from regauge.refine.loop._loop import advance
from regauge.refine.loop._plan import calls_wanted, floor_calls
from regauge.refine.loop._state import Release, Setting
from regauge.refine.subject import DeclaredGoal, deciding_judges
from regauge.runner import Draw, PlannedCase, endpoint_of
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.digests import JSON
    from regauge.judges import Judge
    from regauge.project import Settings
    from regauge.providers import ModelId
    from regauge.refine.loop._state import MoreCalls, State
    from regauge.refine.subject import Subject
    from regauge.runner import EvalSession

# Each seed has numbers of its own, behind those of the gate.
_TRIALS_PER_SEED = 10_000
# The budget of the benchmark; three repairs, where one takes more than 200 calls.
_CALLS_MIN = 600
_CALLS_PER_FLOOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, from the project and the command line.

    Attributes:
        proposers: Proposers, cheapest first.
        model: Who criticises and proposes, as `provider:model`; empty is the prompt's own.
        calls: The most calls of all models; None is three times the least one repair takes.
        localise: Calls that may tell which sentence carries which check.
        variance: Whether an edit may be accepted because it makes a flaky check steady.
        goals: Pass rates to reach; without goals, no reproducible failure.
        temperature: Of the refiner model's requests; None is what suits the step.
    """

    proposers: tuple[str, ...] = ("rules", "model")
    model: str = ""
    cycles: int = 5
    calls: int | None = None
    model_calls: int = 40
    usd: float | None = None
    seed: int = 0
    frozen: tuple[str, ...] = ()
    show_goldens: bool = False
    tracked: bool = False
    localise: int = 0
    variance: bool = False
    goals: tuple[DeclaredGoal, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None

    def to_json(self) -> dict[str, JSON]:
        """A plain document; without goals and limits of replies where none are set."""
        document: dict[str, JSON] = json.loads(json.dumps(asdict(self)))
        for name in ("goals", "temperature", "max_tokens", "context_tokens"):
            if document[name] in (None, []):
                del document[name]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunOptions:
        """Read the document that `to_json` writes."""
        given: dict[str, Any] = dict(document)
        for key in ("proposers", "frozen"):
            given[key] = tuple(given[key])
        given["goals"] = tuple(map(DeclaredGoal.from_json, given.get("goals", ())))
        return cls(**given)


def setting_of(
    subject: Subject,
    options: RunOptions,
    *,
    critics: frozenset[str],
    judging: Mapping[str, float] | None = None,
) -> Setting:
    """The setting of a run."""
    marked = replaceable_faults(subject.prompt)
    if marked:
        raise PromptError(marked)
    base = subject.text
    by_split = {
        split: tuple(name for name, member in subject.members.items() if member.case.split == split)
        for split in ("train", "holdout")
    }
    if not by_split["train"]:
        raise UsageError(
            "every golden case is held out, so nothing may be learned of any\n"
            "  fix: give some of them `split: train`, or lower `holdout` in [tool.regauge]"
        )
    checks = {name: _check(judge) for name, judge in subject.judges().items()}
    policy = RefinePolicy(
        limits=Limits(
            calls=options.calls or _CALLS_MIN,
            model_calls=options.model_calls,
            usd=options.usd,
            cycles=options.cycles,
            localise_calls=options.localise,
        )
    )
    guard = Guard(
        base,
        [CaseText.of(member.case) for member in subject.members.values()],
        public_of(subject, checks.values()),
        policy.guard,
        frozen=options.frozen,
        released=subject.released,
        replaceable=subject.prompt.replaceable,
        people=[one.text for one in subject.heard.said],
    )
    setting = Setting(
        base=base,
        train=by_split["train"],
        holdout=by_split["holdout"],
        checks=checks,
        guard=guard,
        policy=policy,
        proposers=options.proposers,
        critics=critics,
        variance=options.variance,
        first_trial=REVISION_FIRST + _TRIALS_PER_SEED * options.seed,
        releases=(*subject.releases, *_without_errors(subject)),
        errors_in=lambda text: _errors_in(subject, text),
        heard=heard_in_words(subject.heard) if critics else "",
        judging=judging or {},
    )
    if options.calls is None:
        calls = max(_CALLS_MIN, _CALLS_PER_FLOOR * floor_calls(setting)) + options.localise
        limits = replace(policy.limits, calls=calls)
        setting = replace(setting, policy=replace(policy, limits=limits))
    return setting


def _errors_in(subject: Subject, text: PromptText) -> tuple[str, ...]:
    found = content_errors(text.messages, subject.prompt.response_format)
    return tuple(f"{error.text}; {error.fix}" for error in found)


def _without_errors(subject: Subject) -> tuple[Release, ...]:
    """The prompt with every error undone that `regauge lint` warns about, tried as a release is."""
    messages = without_errors(subject.prompt.messages, subject.prompt.response_format)
    if messages == subject.prompt.messages:
        return ()
    text = PromptText(messages=messages)
    command = "undo what `regauge lint` warns about"
    return (Release(name="the prompt without lint warnings", text=text, command=command),)


def public_of(subject: Subject, checks: Iterable[Check]) -> tuple[str, ...]:
    """Texts that a proposal may contain besides the prompt's messages, despite the cases.

    The schema of the answer is part of it: its labels are given to the model as it is.
    """
    return (
        *(text for check in checks for text in (check.advice, check.description)),
        *subject.released,
        *(f"{one.input} {one.output}" for one in subject.examples),
        json.dumps(subject.prompt.response_format, ensure_ascii=False),
    )


def _check(judge: Judge) -> Check:
    """A judge as the loop knows it; one that gives no advice of its own has none."""
    advice = getattr(judge, "advice", None)
    return Check(
        name=judge.name,
        criterion=criterion_of(judge),
        advice=str(advice()) if callable(advice) else "",
        description=str(getattr(judge, "description", "") or ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTrial:
    """The average calls of one trial of a case, with its LLM judges.

    Attributes:
        call_usd: What one call costs, of the prompt or of a judge; None where a price is missing.
    """

    judging: Mapping[str, float]
    call_usd: float | None


def expected_trial(evals: EvalSession, subject: Subject) -> ExpectedTrial:
    """The average calls of a trial, from recordings or from the requests."""
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
    """The estimate of a run, before any cost.

    Attributes:
        first_look: Calls of all models that say whether anything fails.
        least: Calls below which nothing is begun.
        one_repair: About how many calls find a fault, repair it and verify the repair.
        most: Calls that are never exceeded.
    """

    train: int
    holdout: int
    first_look: int
    least: int
    one_repair: int
    most: int
    judged: bool
    call_usd: float | None

    def to_json(self) -> dict[str, JSON]:
        """A plain document."""
        return {
            "train": self.train,
            "holdout": self.holdout,
            "first_look_calls": self.first_look,
            "least_calls": self.least,
            "one_repair_calls": self.one_repair,
            "calls_max": self.most,
            "judged": self.judged,
            "call_usd": self.call_usd,
        }


def check_calls(setting: Setting, prompt: str) -> None:
    """See that a run's calls pay for one repair."""
    calls, floor = setting.policy.limits.calls, floor_calls(setting)
    if calls < floor:
        raise UsageError(
            f"{calls} calls do not pay for one repair of {prompt}, which takes {floor} or more, so"
            " nothing was asked\n"
            "  fix: raise --budget-calls, or `budget_calls` in [tool.regauge.refine]; `--dry-run`"
            " shows what it takes"
        )


def check_more(setting: Setting, state: State, told: MoreCalls, *, run: str, prompt: str) -> State:
    """Where a run continues with more calls."""
    if state.stop is not None and state.stop.reason != "calls":
        raise UsageError(
            f"run {run} is over ({state.stop.reason}), and not for want of calls\n"
            f"  fix: begin a new run: regauge refine {prompt}"
        )
    after = advance(setting, state, told)
    if after.stop is not None and after.stop.reason == "calls":
        calls = calls_wanted(setting, state)
        raise UsageError(
            f"{plural(told.calls, 'more call')} cannot finish the run: {after.stop.text};"
            " nothing was asked\n"
            f"  fix: regauge refine resume {run} --budget-calls {calls}"
        )
    return after


def check_key(settings: Settings, model: ModelId, environ: Mapping[str, str]) -> None:
    """Look for the key of the model that proposes; no one is asked."""
    from regauge.providers._endpoint import Endpoint

    declared = endpoint_of(settings, model.provider)
    if declared is None:
        return
    endpoint = Endpoint(name=model.provider, settings=declared, environ=environ)
    try:
        endpoint.check()
    except ProviderError as error:
        raise ProviderError(
            f"{model}, which is to propose edits, cannot be asked: {error}\n"
            "  or: let another model propose, with --refiner-model, or none, with"
            " --proposers=rules",
            kind=error.kind,
        ) from error
