"""Trials, verdicts, refiner calls and the gate, on a real prompt.

Proposers see training cases only, with expected values masked.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import (
    BudgetError,
    JudgeError,
    PromptError,
    ProviderError,
    RecordingError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.gate import (
    CONTROL_FIRST,
    EVALS_FIRST,
    BaseTrials,
    Gate,
    GateCase,
    GatePolicy,
    TrialFacts,
    tier_held,
)
from regauge.judges.model._response import ResponseError
from regauge.prompts import input_text
from regauge.refine.analysis import Check, CheckOutcome, Outcome
from regauge.refine.edits import EditError, apply
from regauge.refine.guards import CaseText, Leaks
from regauge.refine.loop._plan import calls_left, floor_calls, model_calls_left, trials_for
from regauge.refine.loop._state import (
    CritiqueResult,
    Interrupted,
    ProposalResult,
    RevisionDecision,
    Spending,
    TrialPlan,
    TrialResults,
)
from regauge.refine.proposers._model import (
    ProposerCalls,
    object_in,
    request_critique,
    request_edits,
)
from regauge.refine.proposers._protocol import Problem, RedactedCase
from regauge.refine.subject import (
    CandidateTargets,
    cases_of,
    deciding_judges,
    public_texts,
)
from regauge.runner import CaseRequest, PlannedCase, PlannedTrial
from regauge.statements import content_words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.gate import CaseTier, GateOutcome, Side
    from regauge.providers import Completion, CompletionRequest
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.analysis import FailureMode, Tally
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.feedback import FeedbackRemark
    from regauge.refine.loop._state import CallProposer, LoopConfig, LoopState, RunGate
    from regauge.refine.proposers._protocol import Example, Proposer
    from regauge.refine.subject import Subject
    from regauge.runner import EvalSession, Trial, TrialRunner

_KEPT_CHARS = 1  # a single character reveals no value
# This number of words in a row is no chance, as in `GuardPolicy.phrase`.
_RUN_WORDS = 5
# A label is a word or a few; longer texts are outputs.
_LABEL_WORDS = 4
_WORD = re.compile(r"\w[\w'/:.-]*\w|\w")


@dataclass(frozen=True, slots=True)
class Masked:
    """An expected value without its content.

    Attributes:
        hidden: Pairs of a hidden text and its placeholder; the longest first.
    """

    shape: JSON
    hidden: tuple[tuple[str, str], ...]

    def text(self, visible: str) -> str:
        """A text without hidden texts, whole or in runs of some words."""
        for secret, placeholder in self.hidden:
            for part in (secret, *_stretches(secret)):
                visible = re.sub(_pattern_of(part), placeholder, visible, flags=re.IGNORECASE)
        return visible


def mask_value(expected: JSON, *, public: str = "") -> Masked:
    """Mask an expected value.

    Args:
        public: Texts that are no secret, such as the prompt. Values among their words, such as a
            label, are not masked.

    >>> it = mask_value({"severity": "critical", "minutes": 16})
    >>> it.shape
    {'severity': '<severity: text>', 'minutes': '<minutes: number>'}
    >>> it.text("severity is 'info', 'critical' wanted")
    "severity is 'info', '<severity: text>' wanted"
    >>> mask_value({"severity": "critical"}, public="critical, warning or info").shape
    {'severity': 'critical'}
    """
    hidden: dict[str, str] = {}
    shape = _hide(expected, "", public, hidden)
    return Masked(shape, tuple(sorted(hidden.items(), key=lambda pair: (-len(pair[0]), pair[0]))))


def is_public(value: JSON, public: str) -> bool:
    """Return whether a short text is among public words; numbers may be there by chance."""
    return (
        isinstance(value, str)
        and any(character.isalpha() for character in value)
        and len(value.split()) <= _LABEL_WORDS
        and re.search(_pattern_of(value), public) is not None
    )


def _hide(value: JSON, name: str, public: str, hidden: dict[str, str]) -> JSON:
    """A placeholder for each text of a value; the texts are added to `hidden`."""
    match value:
        case Mapping():
            return {key: _hide(part, key, public, hidden) for key, part in value.items()}
        case list():
            return [_hide(part, name, public, hidden) for part in value][:1]
        case None:
            return None
        case str() if is_public(value, public):
            return value
        case _:
            mark, text = _mark(value, name), str(value)
            secrets = () if isinstance(value, bool) else (text, *text.splitlines())
            for secret in map(str.strip, secrets):
                if len(secret) > _KEPT_CHARS and not is_public(secret, public):
                    hidden[secret] = mark
            return mark


def _mark(value: JSON, name: str) -> str:
    kinds: dict[type, str] = {bool: "yes or no", int: "number", float: "number"}
    kind = kinds.get(type(value), "text")
    return f"<{name}: {kind}>" if name else f"<expected {kind}>"


def _pattern_of(secret: str) -> str:
    """A text as a pattern: any white space, and no part of a longer word."""
    words = [re.escape(word) for word in secret.split()]
    return r"(?<!\w)" + r"(?:\s|\\n)+".join(words) + r"(?!\w)"


def _stretches(secret: str) -> Iterator[str]:
    """Runs of some words of a longer text."""
    places = [match.span() for match in _WORD.finditer(secret)]
    for n in range(len(places) - _RUN_WORDS + 1):
        yield secret[places[n][0] : places[n + _RUN_WORDS - 1][1]]


# Words of several parts, or with a digit: names of things rather than of a language.
_THING = re.compile(r"\w+(?:[-_.:/@]\w+)+|\w*\d\w*")
_LEFT_OUT = "(a line on a case that is held out is left out)"


def redact_feedback(
    evidence: Sequence[FeedbackRemark],
    train: Mapping[str, GoldenCase],
    holdout: Mapping[str, GoldenCase],
    *,
    public: Iterable[str],
    policy: GuardPolicy,
    show_expected: bool = False,
) -> tuple[FeedbackRemark, ...]:
    """Human feedback for proposers: without held-out cases and expected values.

    Lines about a held-out case are left out, and expected values of train cases are masked: all
    values of a case that the text names, only unique ones of other cases.
    """
    if not evidence:
        return ()
    inputs = (input_text(value) for case in train.values() for value in case.inputs.values())
    texts = [*public, *inputs]
    public_text = "\n".join(texts).casefold()
    holdout_texts = [CaseText.from_case(case) for case in holdout.values()]
    leaks, secret = Leaks(holdout_texts, texts, policy), _veils(holdout, public_text)
    terms = set(
        _THING.findall("\n".join(t for case in holdout_texts for t in case.texts).casefold())
    )
    terms -= set(_THING.findall(public_text))
    veils = {} if show_expected else _veils(train, public_text)

    def names_holdout(line: str) -> bool:
        return (
            not terms.isdisjoint(_THING.findall(line.casefold()))
            or any(veil.name.search(line) or veil.over(line) != line for veil in secret.values())
            or bool(leaks.describe_leak(line))
        )

    def redact(evidence: FeedbackRemark) -> FeedbackRemark:
        text = "\n".join(
            _LEFT_OUT if names_holdout(line) else line for line in evidence.text.split("\n")
        )
        for name, veil in veils.items():
            is_named = name == evidence.case or veil.name.search(text)
            text = veil.mask.text(text) if is_named else veil.over(text)
        case_veil = veils.get(evidence.case)
        output = case_veil.mask.text(evidence.output) if case_veil else evidence.output
        return replace(evidence, text=text, output=output)

    return tuple(map(redact, evidence))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Veil:
    """The mask of one case; `name` finds its id, `private` are values that only it has."""

    name: re.Pattern[str]
    mask: Masked
    private: tuple[tuple[str, str], ...]

    def over(self, text: str) -> str:
        """A text without values that only this case has."""
        low = text.casefold()
        runs = _runs(low)
        hidden = tuple(
            pair for pair in self.private if pair[0].casefold() in low or runs & _runs(pair[0])
        )
        return replace(self.mask, hidden=hidden).text(text) if hidden else text


def _veils(cases: Mapping[str, GoldenCase], public_text: str) -> dict[str, _Veil]:
    masks = {name: mask_value(case.golden) for name, case in cases.items()}
    return {
        name: _Veil(
            name=re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE),
            mask=mask,
            private=tuple(pair for pair in mask.hidden if pair[0].casefold() not in public_text),
        )
        for name, mask in masks.items()
    }


@lru_cache(4_096)
def _runs(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", text.casefold())
    return frozenset(
        " ".join(words[n : n + _RUN_WORDS]) for n in range(len(words) - _RUN_WORDS + 1)
    )


# Every case costs up to 750 tokens of each request; three tell a pattern from an accident.
_FAILING_SHOWN = 3
_PASSING_SHOWN = 2
_LABELS_SHOWN = 4
_CONFUSIONS_SHOWN = 12
# Trials of a search have their own numbers: they select edits, so they are no evidence.
_SEARCH_FROM = 500
# A search spends each of its calls on one of these: half of them fail, half pass.
_SEARCHED_MAX = 12
# A case is understood by its beginning and end; whole documents fill a context.
_INPUT_CHARS = 2_000
_ANSWER_CHARS = 1_000


def problem_of(
    state: LoopState,
    cases: Mapping[str, GoldenCase],
    *,
    released: Sequence[str] = (),
    examples: Sequence[Example] = (),
    feedback: Sequence[FeedbackRemark] = (),
    show_expected: bool = False,
    schema: str = "",
    run_trials: Callable[[Sequence[TrialPlan]], Awaitable[TrialResults | Interrupted]]
    | None = None,
) -> Problem:
    """The problem that a proposer receives.

    Args:
        state: The state of the run; only train cases are shown.
        cases: Cases by their names in the run.
        released: Texts of earlier versions of the prompt, the newest first.
        examples: The pool of examples.
        feedback: The redacted remarks of users.
        show_expected: Show expected values without a mask.
        schema: The schema of the prompt's output: its values are no secret.
        run_trials: Called with trials, for proposers that search.
    """
    mode = state.mode
    train = {case for case in state.config.train if case in cases}
    failing = [case for case in mode.failing if case in train]
    passing = [case for case in mode.cases if case in train and case not in failing]
    public = f"{state.text.full_text}\n{schema}"
    confused = {case: _confusions(state, mode.check, case, cases[case], public) for case in failing}
    confusions = sum(confused.values(), Counter[str]())
    failing = _representatives(failing, confused, state.cycle)
    passing = _neighbours(passing, failing[:_FAILING_SHOWN], cases)

    def redacted(name: str) -> RedactedCase:
        case, failures = cases[name], state.tally.failures(state.text.digest, name, mode.check)
        outcomes = failures or state.tally.outcomes(state.text.digest, name)
        output = outcomes[0].output if outcomes else ""
        results = (result for outcome in failures[:1] for result in outcome.checks)
        reasons = [result.reason for result in results if result.check == mode.check]
        hide = mask_value(None if show_expected else case.golden, public=public)
        shape = mask_value(case.expected, public=public).shape
        return RedactedCase(
            inputs={key: _cut(input_text(text), _INPUT_CHARS) for key, text in case.inputs.items()},
            output=_cut(hide.text(output), _ANSWER_CHARS),
            expected=case.expected if show_expected else shape,
            reason=hide.text("; ".join(reasons)),
        )

    trial_counts: Counter[tuple[str, str]] = Counter()

    async def search(text: PromptText, cases: Sequence[str]) -> TrialResults | Interrupted:
        assert run_trials is not None
        trials: list[tuple[str, int]] = []
        for case in cases:
            key = (text.digest, case)
            trials.append((case, state.config.first_trial + _SEARCH_FROM + trial_counts[key]))
            trial_counts[key] += 1
        return await run_trials((TrialPlan(text=text, trials=tuple(trials)),))

    return Problem(
        text=state.text,
        mode=mode,
        check=state.config.checks.get(mode.check, Check(name=mode.check)),
        checks=state.config.checks,
        failing=tuple(redacted(case) for case in failing[:_FAILING_SHOWN]),
        passing=tuple(redacted(case) for case in passing[:_PASSING_SHOWN]),
        confusions=tuple(confusions.most_common(_CONFUSIONS_SHOWN)),
        lessons=state.memory.lessons(mode.key),
        critique=state.critique,
        released=tuple(released),
        examples=tuple(examples),
        replaceable=state.config.guard.open_sections(state.text),
        feedback=_bearing_on(mode, feedback),
        cycle=state.cycle,
        model_calls=model_calls_left(state),
        cases=(*failing[: _SEARCHED_MAX // 2], *passing[: _SEARCHED_MAX // 2]),
        run_trials=None if run_trials is None else search,
        calls=max(0, trials_for(state.config, calls_left(state) - floor_calls(state.config))),
    )


def _bearing_on(
    mode: FailureMode, feedback: Sequence[FeedbackRemark]
) -> tuple[FeedbackRemark, ...]:
    """Labels for the check or of its failing cases, the nearest first, and all other remarks."""

    def distance(label: FeedbackRemark) -> tuple[bool, bool]:
        return label.judge != mode.check, label.case not in mode.failing

    labels = [remark for remark in feedback if remark.kind == "label" and not all(distance(remark))]
    other_remarks = (remark for remark in feedback if remark.kind != "label")
    return (*sorted(labels, key=distance)[:_LABELS_SHOWN], *other_remarks)


def _confusions(
    state: LoopState, check: str, name: str, case: GoldenCase, public: str
) -> Counter[str]:
    """Pairs of expected value and output of one case, with their number; allowed values only."""
    expected = case.expected if isinstance(case.expected, dict) else {"": case.expected}
    fields = {key: value for key, value in expected.items() if is_public(value, public)}
    # A check of one field names it; others are about all of them.
    checked_fields = {key: value for key, value in fields.items() if key and key in check} or fields
    counts: Counter[str] = Counter()
    for outcome in state.tally.failures(state.text.digest, name, check):
        with suppress(ResponseError):
            values = (
                object_in(outcome.output, *checked_fields)
                if "" not in checked_fields
                else {"": outcome.output}
            )
            for key, value in checked_fields.items():
                value_text = str(values.get(key, "(missing)")).strip()
                if value_text != value:
                    value_text = (
                        value_text
                        if value_text == "(missing)" or is_public(value_text, public)
                        else "another value"
                    )
                    counts[f"{key}: {value} -> {value_text}".removeprefix(": ")] += 1
    return counts


def _representatives(
    failing: Sequence[str], confused: Mapping[str, Counter[str]], cycle: int
) -> list[str]:
    """Failing cases, one of each kind of failure in turn; each cycle begins with others."""
    kinds: dict[str, list[str]] = {}
    for case in failing:
        kinds.setdefault(next(iter(confused[case]), ""), []).append(case)
    groups = sorted(kinds.values(), key=len, reverse=True)
    interleaved = [case for row in zip_longest(*groups) for case in row if case is not None]
    start = (cycle - 1) * _FAILING_SHOWN % max(1, len(interleaved))
    return [*interleaved[start:], *interleaved[:start]]


def _neighbours(
    passing: Sequence[str], failing: Sequence[str], cases: Mapping[str, GoldenCase]
) -> list[str]:
    """Passing cases, the most similar to a failing one first."""
    words = {
        case: content_words(" ".join(map(input_text, cases[case].inputs.values())))
        for case in (*passing, *failing)
    }

    def likeness(case: str) -> float:
        shared = (
            len(words[case] & words[o]) / max(1, len(words[case] | words[o])) for o in failing
        )
        return max(shared, default=0.0)

    return sorted(passing, key=likeness, reverse=True)


def _cut(text: str, length: int) -> str:
    """A text without its middle if it is too long."""
    if len(text) <= length:
        return text
    return (
        f"{text[: length // 2]}\n[... {len(text) - length} characters ...]\n{text[-length // 2 :]}"
    )


async def outcomes_of(
    evals: EvalSession, planned_cases: Sequence[PlannedCase], trials: int
) -> tuple[list[Outcome], list[UnmeasuredError]]:
    """Trials of every planned case, and the errors of unmeasured ones."""
    async with evals.open_trials() as trials_run:
        draws = [PlannedTrial(case, number) for case in planned_cases for number in range(trials)]
        results = await trials_run.run_all(draws)
    outcomes: list[Outcome] = []
    for draw, trial in zip(draws, results, strict=True):
        if trial.error is None:
            suite = draw.planned_case.suite
            case = f"{suite.dataset.name}/{draw.planned_case.case.id}"
            outcomes.append(outcome_of(suite.prompt.digest, case, draw.trial, trial))
    return outcomes, [trial.error for trial in results if trial.error is not None]


def outcome_of(text: str, case: str, number: int, trial: Trial) -> Outcome:
    """A measured trial as an outcome of the loop."""
    assert trial.sourced_completion is not None
    return Outcome(
        text=text,
        case=case,
        trial=number,
        output=trial.sourced_completion.completion.text or "",
        checks=tuple(
            CheckOutcome(
                check=verdict.judge,
                passed=verdict.verdict.outcome == "pass",
                code="" if verdict.verdict.outcome == "pass" else verdict.verdict.code,
                reason="" if verdict.verdict.outcome == "pass" else verdict.verdict.reason,
            )
            for verdict in trial.verdicts
            if verdict.blocking and verdict.verdict.outcome != "abstain"
        ),
    )


def trial_spending(trial: Trial) -> Spending:
    """The calls of a trial, and their first cost.

    Completions from the local store count, too: a resumed run has paid for them.
    """
    judge_calls = [verdict.calls for verdict in trial.verdicts if verdict.calls]
    usd = 0.0
    if trial.sourced_completion is not None and trial.sourced_completion.source != "recording":
        usd = trial.sourced_completion.completion.cost_usd or 0.0
        usd += sum(calls.cost_usd or 0.0 for calls in judge_calls)
    return Spending(calls=1, judge_calls=sum(calls.calls for calls in judge_calls), usd=usd)


def count_replayed(trial: Trial) -> int:
    """The number of replayed calls of a trial and its judges."""
    is_replayed = trial.sourced_completion is not None and trial.sourced_completion.source != "live"
    return is_replayed + sum(
        verdict.calls.calls - verdict.calls.live for verdict in trial.verdicts if verdict.calls
    )


_PROMPT = "revision"


async def verify_by_gate(
    state: LoopState,
    action: RunGate,
    run_trials: Callable[[Sequence[TrialPlan]], Awaitable[TrialResults | Interrupted]],
    *,
    policy: GatePolicy | None = None,
    tiers: Mapping[str, CaseTier] | None = None,
) -> RevisionDecision | Interrupted:
    """Compare the revision with the base, on independent trials of train and held-out cases.

    The base's trials selected the failures and not the edits, so they may serve as a baseline.
    Trials from an earlier comparison are not run again.
    """
    cases = [
        GateCase(
            prompt=_PROMPT,
            case=case,
            checks=checks,
            baseline=_baseline(state.tally, state.config.base, case, checks),
            tier=tier_held(
                (tiers or {}).get(case, "required"),
                state.tally.case_count(state.config.base.digest, case),
                1,
            ),
        )
        for case in state.config.cases
        if (checks := state.tally.checks(state.config.base.digest, [case]))
    ]
    gate = Gate(cases, _without_repairs(policy or GatePolicy()))
    spending = Spending()
    outcomes: list[Outcome] = []
    by_trial = {
        (o.text, o.case, o.trial): o
        for outcomes in state.fresh.counted_outcomes.values()
        for o in outcomes
    }
    texts: dict[Side, PromptText] = {"candidate": state.text, "base": state.config.base}
    while requests := gate.pending_trials():
        trials: list[tuple[str, Side, int]] = [
            (want.case, want.side, number) for want in requests for number in want.trials
        ]
        draws: list[TrialPlan] = []
        for side, text in texts.items():
            pairs = [(case, _stored_number(side, n)) for case, its, n in trials if its == side]
            new_pairs = tuple(pair for pair in pairs if (text.digest, *pair) not in by_trial)
            draws.append(TrialPlan(text=text, trials=new_pairs))
        missing = sum(len(run_trials.trials) for run_trials in draws)
        if spending.calls + missing > action.calls_max:
            return RevisionDecision(
                decision="undecided",
                reasons=(f"{action.calls_max} calls were left, and the gate wants more",),
                outcomes=tuple(outcomes),
                spending=spending,
                short=True,
            )
        if missing:
            done = await run_trials(draws)
            if isinstance(done, Interrupted):
                return done
            spending += done.spending
            outcomes += done.outcomes
            by_trial |= {(o.text, o.case, o.trial): o for o in done.outcomes}
        for case, side, number in trials:
            outcome = by_trial.get((texts[side].digest, case, _stored_number(side, number)))
            gate.observe(_PROMPT, case, side, number, _facts(outcome))
    gate_outcome = gate.outcome()
    return RevisionDecision(
        decision=gate_outcome.decision,
        reasons=_words(gate_outcome),
        outcomes=tuple(outcomes),
        spending=spending,
    )


def _stored_number(side: Side, number: int) -> int:
    """The number of the n-th trial of a side.

    Later evals of the revision replay these trials; its later gate runs trials of its own.
    """
    return number + (CONTROL_FIRST if side == "base" else EVALS_FIRST)


def _without_repairs(policy: GatePolicy) -> GatePolicy:
    """The gate's policy for broken cases: fixes outweigh none of them.

    The base's trials are of this run, so there is no outage to detect.
    """
    first = 1 if policy.first_trials == "auto" else policy.first_trials
    suite = replace(policy.suite, control=0)
    return replace(
        policy, improved_at_most=-1.0, on_broken="block", first_trials=first, suite=suite
    )


def _baseline(tally: Tally, base: PromptText, case: str, checks: Sequence[str]) -> BaseTrials:
    outcomes = tally.outcomes(base.digest, case)
    return BaseTrials(
        checks={check: tally.count(base.digest, case, check) for check in checks},
        total=tally.case_count(base.digest, case),
        distinct_outputs=len({outcome.output for outcome in outcomes}),
    )


def _facts(outcome: Outcome | None) -> TrialFacts | None:
    if outcome is None or not outcome.checks:
        return None
    return TrialFacts(
        checks={check.check: check.passed for check in outcome.checks},
        output_digest=digest_of(outcome.output),
    )


def _words(outcome: GateOutcome) -> tuple[str, ...]:
    changes = [
        f"{case.case}: passed {case.candidate} new trials, {case.before} before ({case.status})"
        for case in outcome.cases
        if case.status in {"broken", "undecided", "drifted", "unmeasured"}
    ]
    suites = [f"all cases together: {suite.status}" for suite in outcome.suites]
    return tuple(
        changes
        + [text for text in suites if not text.endswith(("passed", "untested", "unconfirmed"))]
    )


# Up to this share of a batch may be unmeasured before a provider counts as down.
_UNMEASURED_MAX = 0.1


@dataclass(kw_only=True)
class EvalWorkbench:
    """Runs and judges trials of a prompt's evals, with any text."""

    subject: Subject
    config: LoopConfig
    show_expected: bool
    trials: TrialRunner
    proposers: Mapping[str, Proposer]
    policy: GatePolicy
    replayed_calls: int = 0

    def __post_init__(self) -> None:
        self._planned_cases: dict[tuple[str, str, str | None], PlannedCase] = {}
        self._targets = CandidateTargets()

    async def run_trials(self, plans: Sequence[TrialPlan]) -> TrialResults | Interrupted:
        """Run and judge trials; unmeasured ones are left out."""
        requests = [
            (plan.text, case, number, plan.check) for plan in plans for case, number in plan.trials
        ]
        try:
            results = await asyncio.gather(*(self._run_trial(*want) for want in requests))
        except PromptError as error:
            return Interrupted(reason="interrupted", text=str(error))
        failed = [trial.error for trial in results if trial.error is not None]
        for cause in (error.__cause__ for error in failed):
            if isinstance(cause, RecordingError):  # no further completion can be kept
                raise cause
        if failed and len(failed) > max(1, _UNMEASURED_MAX * len(results)):
            share = f"{len(failed)} of {len(results)}"
            text = f"{share} trials could not be measured: {_describe_error(failed[0])}"
            return _interrupted(failed[0], text)
        outcomes = [
            outcome_of(text.digest, case, number, trial)
            for (text, case, number, _), trial in zip(requests, results, strict=True)
            if trial.error is None
        ]
        await self._check_targets(requests, results)
        self.replayed_calls += sum(map(count_replayed, results))
        return TrialResults(
            outcomes=tuple(outcomes),
            spending=sum(map(trial_spending, results), Spending()),
            problem=_describe_error(failed[0]) if failed else "",
        )

    def close(self) -> None:
        """Remove the texts that were written for targets."""
        self._targets.close()

    async def _check_targets(
        self, requests: Sequence[tuple[PromptText, str, int, str | None]], results: Sequence[Trial]
    ) -> None:
        """Check that targets loaded the texts, and end their processes: each text has its own.

        Raises:
            UsageError: A target did not load a text.
        """
        targets = {
            target
            for (text, case, _, check), trial in zip(requests, results, strict=True)
            if trial.sourced_completion is not None
            and trial.sourced_completion.source == "live"
            and (target := self._planned_cases[text.digest, case, check].suite.target) is not None
        }
        for target in targets:
            await self.trials.end_target(target)
        for target in targets:
            target.check_candidate_loaded()

    async def call_proposer(
        self, state: LoopState, action: CallProposer
    ) -> CritiqueResult | ProposalResult | Interrupted:
        """Call a proposer; edits that would break the prompt's file are rejected here."""
        proposer = self.proposers[action.proposer]
        calls = ProposerCalls(self._complete, model_calls_left(state), self._forget)
        try:
            match action.kind:
                case "critique":
                    return await request_critique(proposer, self._problem(state, action), calls)
                case "edits":
                    proposal = await request_edits(proposer, self._problem(state, action), calls)
                    return self._readable(state.text, proposal)
        except UnmeasuredError as error:
            return _interrupted(error, str(error))
        except Exception as error:  # noqa: BLE001 - proposers may be anybody's
            text = f"{action.proposer} broke: {type(error).__name__}: {error}"
            if action.kind == "edits":
                return ProposalResult(edits=(), spending=Spending(), refused=(text,))
            return Interrupted(reason="interrupted", text=text)

    async def verify(self, state: LoopState, action: RunGate) -> RevisionDecision | Interrupted:
        """Compare the revision with the base by the gate."""
        tiers: dict[str, CaseTier] = {
            name: member.case.tier for name, member in self.subject.members.items()
        }
        return await verify_by_gate(state, action, self.run_trials, policy=self.policy, tiers=tiers)

    async def _run_trial(
        self, text: PromptText, case: str, number: int, check: str | None
    ) -> Trial:
        if (text.digest, case, check) not in self._planned_cases:
            self._plan(text, check)
        return await self.trials.run(
            PlannedTrial(self._planned_cases[text.digest, case, check], number)
        )

    def _plan(self, text: PromptText, check: str | None) -> None:
        """Plan the cases with a text; its file is spliced and read back once.

        Advisory judges, and LLM judges of other checks, would call models for nothing.
        """
        prompt = self.subject.prompt
        if text.digest != self.config.base.digest:
            prompt = self.subject.prompt_with(text)
        suites = {id(member.suite): member.suite for member in self.subject.members.values()}
        candidates = {
            key: replace(
                self._targets.with_prompt(suite, prompt), judges=deciding_judges(suite, check)
            )
            for key, suite in suites.items()
        }
        for name, member in self.subject.members.items():
            planned_case = PlannedCase(candidates[id(member.suite)], member.case)
            self._planned_cases[text.digest, name, check] = planned_case

    def _problem(self, state: LoopState, action: CallProposer) -> Problem:
        return problem_of(
            state,
            {name: member.case for name, member in self.subject.members.items()},
            released=self.subject.released_texts,
            examples=self.subject.examples,
            feedback=self._hints if action.proposer in self.config.critics else (),
            show_expected=self.show_expected,
            schema=json.dumps(self.subject.prompt.response_format, ensure_ascii=False),
            run_trials=self.run_trials,
        )

    @cached_property
    def _hints(self) -> tuple[FeedbackRemark, ...]:
        """The remarks of users; a run without models does not use them."""
        subject, config = self.subject, self.config
        return redact_feedback(
            subject.feedback.evidence,
            cases_of(subject.members, "train"),
            cases_of(subject.members, "holdout"),
            public=(config.base.full_text, *public_texts(subject, config.checks.values())),
            policy=config.policy.guard,
            show_expected=self.show_expected,
        )

    async def _complete(self, request: CompletionRequest) -> Completion:
        answer = await self.trials.complete(self._question(request))
        self.replayed_calls += answer.source != "live"
        return answer.completion

    def _forget(self, request: CompletionRequest) -> None:
        self.trials.forget(self._question(request))

    def _question(self, request: CompletionRequest) -> CaseRequest:
        return CaseRequest.of_refiner(request, prompt=self.subject.prompt, command="refine")

    def _readable(self, text: PromptText, proposal: ProposalResult) -> ProposalResult:
        """The proposals without edits whose text the prompt's file cannot hold."""
        readable: list[Edit] = []
        refused = list(proposal.refused)
        for edit in proposal.edits:
            try:
                self.subject.prompt_with(apply(text, edit.ops))
            except EditError:
                readable.append(edit)  # the loop reports it
            except RegaugeError as error:
                refused.append(f"{edit.strategy}: the file could not hold it: {error}")
            else:
                readable.append(edit)
        return replace(proposal, edits=tuple(readable), refused=tuple(refused))


def _describe_error(error: Exception) -> str:
    """An error of a trial, with the fix if the code of a judge raised it."""
    if isinstance(error, JudgeError) and error.traceback:
        return f"{error}\n  fix: correct judge {error.judge!r}"
    return str(error)


def _interrupted(error: Exception, text: str) -> Interrupted:
    if isinstance(error, BudgetError):
        return Interrupted(reason=error.limit, text=text)
    # A judge's error has that of its provider as its cause.
    cause = error if isinstance(error, ProviderError) else error.__cause__
    if not isinstance(cause, ProviderError):
        return Interrupted(reason="unmeasured", text=text)
    is_key = cause.kind == "authentication"
    return Interrupted(reason="no-key" if is_key else "provider-outage", text=text)
