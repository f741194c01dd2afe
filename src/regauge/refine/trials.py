"""Trials, judgements, refiner calls and the gate, performed on a real prompt.

Proposers see training cases only, with expected values masked.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import (
    BudgetError,
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
from regauge.judges.model._reply import ReplyFault
from regauge.prompts import input_text
from regauge.refine.analysis import Check, CheckOutcome, Outcome
from regauge.refine.edits import EditError, apply
from regauge.refine.guards import CaseText, Leaks
from regauge.refine.loop._plan import calls_max, floor_calls, trials_for
from regauge.refine.loop._state import (
    Critiqued,
    Draws,
    Interrupted,
    Looked,
    Proposed,
    Spent,
    SuiteSaid,
    TrialsDone,
)
from regauge.refine.proposers._model import criticised, looked, object_in, proposed
from regauge.refine.proposers._protocol import Problem, RedactedCase
from regauge.refine.subject import cases_of, deciding_judges, public_of
from regauge.runner import CaseRequest, PlannedCase, PlannedTrial

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.gate import CaseTier, GateOutcome, Side
    from regauge.prompts import Prompt
    from regauge.providers import Completion, CompletionRequest
    from regauge.refine._policy import GuardPolicy
    from regauge.refine.analysis import FailureCluster, Tally
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.feedback import FeedbackRemark
    from regauge.refine.loop._state import AskProposer, LoopConfig, LoopState, RunSuite
    from regauge.refine.proposers._protocol import Example, Proposer
    from regauge.refine.subject import Subject
    from regauge.runner import Eval, EvalSession, Trial, TrialRunner
    from regauge.targets import Target

_KEPT_CHARS = 1  # of a single character no one learns an answer
# So many words in a row are no chance, as `GuardPolicy.phrase` has it.
_RUN_WORDS = 5
# A label is a word or a few; longer texts are answers.
_LABEL_WORDS = 4
_WORD = re.compile(r"\w[\w'/:.-]*\w|\w")


@dataclass(frozen=True, slots=True)
class Masked:
    """An expected value without its content.

    Attributes:
        hidden: Each text that is hidden, with its placeholder; the longest first.
    """

    shape: JSON
    hidden: tuple[tuple[str, str], ...]

    def text(self, visible: str) -> str:
        """A text without what is hidden, be it whole or in stretches of some words."""
        for secret, placeholder in self.hidden:
            visible = re.sub(_pattern_of(secret), placeholder, visible, flags=re.IGNORECASE)
            for stretch in _stretches(secret):
                visible = re.sub(_pattern_of(stretch), placeholder, visible, flags=re.IGNORECASE)
        return visible


def masked(expected: JSON, *, public: str = "") -> Masked:
    """An expected value, hidden.

    Args:
        public: Texts that everybody sees, such as the prompt. Texts of the value that are words
            of it, such as a label, stay as they are.

    >>> it = masked({"severity": "critical", "minutes": 16})
    >>> it.shape
    {'severity': '<severity: text>', 'minutes': '<minutes: number>'}
    >>> it.text("severity is 'info', 'critical' wanted")
    "severity is 'info', '<severity: text>' wanted"
    >>> masked({"severity": "critical"}, public="critical, warning or info").shape
    {'severity': 'critical'}
    """
    hidden: dict[str, str] = {}
    shape = _hide(expected, "", public, hidden)
    return Masked(shape, tuple(sorted(hidden.items(), key=lambda pair: (-len(pair[0]), pair[0]))))


def is_public(value: JSON, public: str) -> bool:
    """Return whether a short text is among public words; a number may stand there by chance."""
    return (
        isinstance(value, str)
        and any(character.isalpha() for character in value)
        and len(value.split()) <= _LABEL_WORDS
        and re.search(_pattern_of(value), public) is not None
    )


def _hide(value: JSON, name: str, public: str, hidden: dict[str, str]) -> JSON:
    """A placeholder for each text of a value; the texts go into `hidden`."""
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


def hints_of(
    evidence: Sequence[FeedbackRemark],
    train: Mapping[str, GoldenCase],
    holdout: Mapping[str, GoldenCase],
    *,
    public: Iterable[str],
    policy: GuardPolicy,
    show_goldens: bool = False,
) -> tuple[FeedbackRemark, ...]:
    """Human feedback as far as proposers may see it: nothing of the holdout, no answer.

    Lines that speak of a held-out case are left out, and what is expected of train cases is
    hidden: of a case that is named all of it, of others what only they say.
    """
    if not evidence:
        return ()
    inputs = (input_text(value) for case in train.values() for value in case.inputs.values())
    texts = [*public, *inputs]
    public_text = "\n".join(texts).casefold()
    held = [CaseText.from_case(case) for case in holdout.values()]
    leaks, secret = Leaks(held, texts, policy), _veils(holdout, public_text)
    things = set(_THING.findall("\n".join(t for case in held for t in case.texts).casefold()))
    things -= set(_THING.findall(public_text))
    veils = {} if show_goldens else _veils(train, public_text)

    def speaks(line: str) -> bool:
        return (
            not things.isdisjoint(_THING.findall(line.casefold()))
            or any(veil.name.search(line) or veil.over(line) != line for veil in secret.values())
            or bool(leaks.describe_leak(line))
        )

    def redact(evidence: FeedbackRemark) -> FeedbackRemark:
        text = "\n".join(_LEFT_OUT if speaks(line) else line for line in evidence.text.split("\n"))
        for name, veil in veils.items():
            is_named = name == evidence.case or veil.name.search(text)
            text = veil.whole.text(text) if is_named else veil.over(text)
        own = veils.get(evidence.case)
        answer = own.whole.text(evidence.answer) if own else evidence.answer
        return replace(evidence, text=text, answer=answer)

    return tuple(map(redact, evidence))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Veil:
    """Hides what is expected of one case; `name` finds its id, `private` is what only it says."""

    name: re.Pattern[str]
    whole: Masked
    private: tuple[tuple[str, str], ...]

    def over(self, text: str) -> str:
        """A text without what only this case says."""
        low = text.casefold()
        runs = _runs(low)
        hidden = tuple(
            pair for pair in self.private if pair[0].casefold() in low or runs & _runs(pair[0])
        )
        return replace(self.whole, hidden=hidden).text(text) if hidden else text


def _veils(cases: Mapping[str, GoldenCase], public_text: str) -> dict[str, _Veil]:
    wholes = {name: masked(case.golden) for name, case in cases.items()}
    return {
        name: _Veil(
            name=re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE),
            whole=whole,
            private=tuple(pair for pair in whole.hidden if pair[0].casefold() not in public_text),
        )
        for name, whole in wholes.items()
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
# Trials that a search draws have numbers of their own: they choose, so they prove nothing.
_SEARCH_FROM = 500
# A search spends each of its calls on one of these: half of them fail, half pass.
_SEARCHED_MAX = 12
# A case is understood by its beginning and end; whole documents fill a context.
_INPUT_CHARS = 2_000
_ANSWER_CHARS = 1_000


def problem_of(
    setting: LoopConfig,
    state: LoopState,
    cases: Mapping[str, GoldenCase],
    *,
    released: Sequence[str] = (),
    examples: Sequence[Example] = (),
    people: Sequence[FeedbackRemark] = (),
    show_goldens: bool = False,
    schema: str = "",
    draw: Callable[[Sequence[Draws]], Awaitable[TrialsDone | Interrupted]] | None = None,
) -> Problem:
    """The problem that a proposer receives.

    Args:
        setting: What the run is about; of its cases only those to train on are shown.
        state: Where the run stands.
        cases: By the names that the run knows them by.
        released: Texts of earlier versions of the prompt, the newest first.
        examples: The pool.
        people: What people said, as far as proposers may know of it.
        show_goldens: Show what is expected as it is.
        schema: Of the prompt's answers: like the prompt's own words, its values are no secret.
        draw: Draws trials, for proposers that search with some of their own.
    """
    cluster = state.cluster
    train = {case for case in setting.train if case in cases}
    failing = [case for case in cluster.failing if case in train]
    passing = [case for case in cluster.cases if case in train and case not in failing]
    public = f"{state.text.whole}\n{schema}"
    confused = {
        case: _confusions(state, cluster.check, case, cases[case], public) for case in failing
    }
    confusions = sum(confused.values(), Counter[str]())
    failing = _representatives(failing, confused, state.cycle)
    passing = _neighbours(passing, failing[:_FAILING_SHOWN], cases)

    def redacted(case: str) -> RedactedCase:
        golden = cases[case]
        return _redact_case(
            state, cluster.check, case, golden, show_goldens=show_goldens, public=public
        )

    left_calls = calls_max(setting, state) - state.spent.total
    left = setting.policy.limits.model_calls - state.spent.model_calls
    drawn: Counter[tuple[str, str]] = Counter()

    async def search(text: PromptText, cases: Sequence[str]) -> TrialsDone | Interrupted:
        assert draw is not None
        trials: list[tuple[str, int]] = []
        for case in cases:
            key = (text.digest, case)
            trials.append((case, setting.first_trial + _SEARCH_FROM + drawn[key]))
            drawn[key] += 1
        return await draw((Draws(text=text, trials=tuple(trials)),))

    return Problem(
        text=state.text,
        cluster=cluster,
        check=setting.checks.get(cluster.check, Check(name=cluster.check)),
        checks=setting.checks,
        failing=tuple(redacted(case) for case in failing[:_FAILING_SHOWN]),
        passing=tuple(redacted(case) for case in passing[:_PASSING_SHOWN]),
        confusions=tuple(confusions.most_common(_CONFUSIONS_SHOWN)),
        lessons=state.memory.lessons(cluster.key),
        critique=state.critique,
        released=tuple(released),
        examples=tuple(examples),
        hindering=tuple(b.text for b in state.bearings if cluster.check in b.hinders),
        replaceable=setting.guard.open_sections(state.text),
        people=_bearing_on(cluster, people),
        cycle=state.cycle,
        model_calls=max(0, left),
        cases=(*failing[: _SEARCHED_MAX // 2], *passing[: _SEARCHED_MAX // 2]),
        draw=None if draw is None else search,
        calls=max(0, trials_for(setting, left_calls - floor_calls(setting))),
    )


def _bearing_on(
    cluster: FailureCluster, people: Sequence[FeedbackRemark]
) -> tuple[FeedbackRemark, ...]:
    """Labels for the check or of its failing cases, the nearest first, and all that was said."""

    def distance(label: FeedbackRemark) -> tuple[bool, bool]:
        return label.judge != cluster.check, label.case not in cluster.failing

    labels = [each for each in people if each.kind == "label" and not all(distance(each))]
    others = (each for each in people if each.kind != "label")
    return (*sorted(labels, key=distance)[:_LABELS_SHOWN], *others)


def _confusions(
    state: LoopState, check: str, name: str, case: GoldenCase, public: str
) -> Counter[str]:
    """Of one case, how often which allowed value came where which was expected."""
    expected = case.expected if isinstance(case.expected, dict) else {"": case.expected}
    fields = {key: value for key, value in expected.items() if is_public(value, public)}
    # A check of one field names it; others are about all of them.
    named = {key: value for key, value in fields.items() if key and key in check} or fields
    counts: Counter[str] = Counter()
    for outcome in state.tally.failures(state.text.digest, name, check):
        with suppress(ReplyFault):
            answer = object_in(outcome.answer, *named) if "" not in named else {"": outcome.answer}
            for key, value in named.items():
                got = str(answer.get(key, "(missing)")).strip()
                if got != value:
                    got = got if got == "(missing)" or is_public(got, public) else "another value"
                    counts[f"{key}: {value} -> {got}".removeprefix(": ")] += 1
    return counts


def _representatives(
    failing: Sequence[str], confused: Mapping[str, Counter[str]], cycle: int
) -> list[str]:
    """Failing cases, one of each kind of failure in turn; every cycle begins with others."""
    kinds: dict[str, list[str]] = {}
    for case in failing:
        kinds.setdefault(next(iter(confused[case]), ""), []).append(case)
    ranked = sorted(kinds.values(), key=len, reverse=True)
    dealt = [case for row in zip_longest(*ranked) for case in row if case is not None]
    start = (cycle - 1) * _FAILING_SHOWN % max(1, len(dealt))
    return [*dealt[start:], *dealt[:start]]


def _neighbours(
    passing: Sequence[str], failing: Sequence[str], cases: Mapping[str, GoldenCase]
) -> list[str]:
    """Passing cases, those first that share most words with a failing one."""

    def words(case: str) -> frozenset[str]:
        values = cases[case].inputs.values()
        return frozenset(re.findall(r"\w+", " ".join(map(input_text, values)).casefold()))

    fails = [words(case) for case in failing]

    def likeness(case: str) -> float:
        own = words(case)
        return max(
            (len(own & words) / len(own | words) for words in fails if own | words), default=0.0
        )

    return sorted(passing, key=likeness, reverse=True)


def _redact_case(
    state: LoopState, check: str, name: str, case: GoldenCase, *, show_goldens: bool, public: str
) -> RedactedCase:
    failures = state.tally.failures(state.text.digest, name, check)
    outcomes = failures or state.tally.outcomes(state.text.digest, name)
    answer = outcomes[0].answer if outcomes else ""
    reasons = [result.reason for o in failures[:1] for result in o.checks if result.check == check]
    hide = masked(None if show_goldens else case.golden, public=public)
    return RedactedCase(
        inputs={key: _cut(input_text(value), _INPUT_CHARS) for key, value in case.inputs.items()},
        answer=_cut(hide.text(answer), _ANSWER_CHARS),
        expected=case.expected if show_goldens else masked(case.expected, public=public).shape,
        reason=hide.text("; ".join(reasons)),
    )


def _cut(text: str, most: int) -> str:
    """A text without its middle, where it is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most} characters ...]\n{text[-most // 2 :]}"


async def outcomes_of(
    evals: EvalSession, planned: Sequence[PlannedCase], trials: int
) -> tuple[list[Outcome], list[UnmeasuredError]]:
    """So many trials of every planned case, and why some could not be measured."""
    async with evals.open_trials() as made_by:
        draws = [PlannedTrial(case, number) for case in planned for number in range(trials)]
        made = await made_by.run_all(draws)
    outcomes: list[Outcome] = []
    for draw, trial in zip(draws, made, strict=True):
        if trial.error is None:
            suite = draw.planned_case.suite
            case = f"{suite.dataset.name}/{draw.planned_case.case.id}"
            outcomes.append(outcome_of(suite.prompt.digest, case, draw.trial, trial))
    return outcomes, [trial.error for trial in made if trial.error is not None]


def outcome_of(text: str, case: str, number: int, trial: Trial) -> Outcome:
    """A measured trial as the loop counts it."""
    assert trial.sourced_completion is not None
    return Outcome(
        text=text,
        case=case,
        trial=number,
        answer=trial.sourced_completion.completion.text or "",
        checks=tuple(
            CheckOutcome(
                check=judged.judge,
                passed=judged.verdict.outcome == "pass",
                code="" if judged.verdict.outcome == "pass" else judged.verdict.code,
                reason="" if judged.verdict.outcome == "pass" else judged.verdict.reason,
            )
            for judged in trial.verdicts
            if judged.blocking and judged.verdict.outcome != "abstain"
        ),
    )


def spent_on(trial: Trial) -> Spent:
    """The calls of a trial, and what they cost when they were made.

    Answers that the local store had cost, too: a run that was cut off and resumed has paid them.
    """
    judged = [verdict.calls for verdict in trial.verdicts if verdict.calls]
    usd = 0.0
    if trial.sourced_completion is not None and trial.sourced_completion.source != "recording":
        usd = trial.sourced_completion.completion.cost_usd or 0.0
        usd += sum(calls.cost_usd or 0.0 for calls in judged)
    return Spent(calls=1, judge_calls=sum(calls.calls for calls in judged), usd=usd)


def replayed_calls(trial: Trial) -> int:
    """The number of a trial's calls, with its judges', that were made before."""
    own = trial.sourced_completion is not None and trial.sourced_completion.source != "live"
    return own + sum(
        verdict.calls.calls - verdict.calls.live for verdict in trial.verdicts if verdict.calls
    )


_PROMPT = "revision"


async def verify_by_gate(
    setting: LoopConfig,
    state: LoopState,
    action: RunSuite,
    draw: Callable[[Sequence[Draws]], Awaitable[TrialsDone | Interrupted]],
    *,
    policy: GatePolicy | None = None,
    tiers: Mapping[str, CaseTier] | None = None,
) -> SuiteSaid | Interrupted:
    """Compare the revision with the base, on fresh trials of train and holdout alike.

    The base's trials chose what was to be repaired and not how, so they may serve as history.
    Fresh trials that are known from an earlier comparison are not drawn again.
    """
    cases = [
        GateCase(
            prompt=_PROMPT,
            case=case,
            checks=checks,
            history=_history(state.tally, setting.base, case, checks),
            tier=tier_held(
                (tiers or {}).get(case, "required"), state.tally.whole(setting.base.digest, case), 1
            ),
        )
        for case in (*setting.train, *setting.holdout)
        if (checks := state.tally.checks(setting.base.digest, [case]))
    ]
    gate = Gate(cases, _without_repairs(policy or GatePolicy()))
    spent = Spent()
    outcomes: list[Outcome] = []
    by_trial = {
        (o.text, o.case, o.trial): o for outcomes in state.fresh.seen.values() for o in outcomes
    }
    texts: dict[Side, PromptText] = {"candidate": state.text, "base": setting.base}
    while requests := gate.pending_trials():
        trials: list[tuple[str, Side, int]] = [
            (want.case, want.side, number) for want in requests for number in want.trials
        ]
        draws = [_unknown(side, text, trials, by_trial) for side, text in texts.items()]
        missing = sum(len(draw.trials) for draw in draws)
        if spent.calls + missing > action.calls_max:
            return SuiteSaid(
                decision="undecided",
                reasons=(f"{action.calls_max} calls were left, and the gate wants more",),
                outcomes=tuple(outcomes),
                spent=spent,
                short=True,
            )
        if missing:
            done = await draw(draws)
            if isinstance(done, Interrupted):
                return done
            spent += done.spent
            outcomes += done.outcomes
            by_trial |= {(o.text, o.case, o.trial): o for o in done.outcomes}
        for case, side, number in trials:
            outcome = by_trial.get((texts[side].digest, case, _stored_number(side, number)))
            gate.observe(_PROMPT, case, side, number, _facts(outcome))
    gate_outcome = gate.outcome()
    return SuiteSaid(
        decision=gate_outcome.decision,
        reasons=_words(gate_outcome),
        outcomes=tuple(outcomes),
        spent=spent,
    )


def _unknown(
    side: Side,
    text: PromptText,
    trials: Sequence[tuple[str, Side, int]],
    outcomes: Container[tuple[str, str, int]],
) -> Draws:
    """The trials of one side that the gate requests and that do not exist yet."""
    pairs = [(case, _stored_number(asked, n)) for case, asked, n in trials if asked == side]
    return Draws(
        text=text,
        trials=tuple((case, n) for case, n in pairs if (text.digest, case, n) not in outcomes),
    )


def _stored_number(side: Side, number: int) -> int:
    """The number of the n-th trial of a side.

    The revision's are those that evals replay once it is taken; the gate that it then has to
    pass makes trials of its own.
    """
    return number + (CONTROL_FIRST if side == "base" else EVALS_FIRST)


def _without_repairs(policy: GatePolicy) -> GatePolicy:
    """The same policy for what is broken: fixes were tested before, and outweigh nothing here.

    The base's trials are of this very run, so there is no outage to look for.
    """
    first = 1 if policy.first_draws == "auto" else policy.first_draws
    suite = replace(policy.suite, control=0)
    return replace(policy, improved_at_most=-1.0, on_broken="block", first_draws=first, suite=suite)


def _history(tally: Tally, base: PromptText, case: str, checks: Sequence[str]) -> BaseTrials:
    outcomes = tally.outcomes(base.digest, case)
    return BaseTrials(
        checks={check: tally.check(base.digest, case, check) for check in checks},
        total=tally.whole(base.digest, case),
        distinct_outputs=len({outcome.answer for outcome in outcomes}),
    )


def _facts(outcome: Outcome | None) -> TrialFacts | None:
    if outcome is None or not outcome.checks:
        return None
    return TrialFacts(
        checks={check.check: check.passed for check in outcome.checks},
        output_digest=digest_of(outcome.answer),
    )


def _words(outcome: GateOutcome) -> tuple[str, ...]:
    named = [
        f"{case.case}: passed {case.candidate} new trials, {case.before} before ({case.verdict})"
        for case in outcome.cases
        if case.verdict in {"broken", "undecided", "drifted"}
    ]
    suites = [f"all cases together: {suite.verdict}" for suite in outcome.suites]
    return tuple(
        named
        + [text for text in suites if not text.endswith(("passed", "untested", "unconfirmed"))]
    )


# Up to this share of a batch may be unmeasured before a provider counts as down.
_UNMEASURED_MAX = 0.1


@dataclass(kw_only=True)
class SuiteBench:
    """Draws trials of a prompt's evals, whatever its text, and lets their judges judge."""

    subject: Subject
    setting: LoopConfig
    show_goldens: bool
    trials: TrialRunner
    proposers: Mapping[str, Proposer]
    policy: GatePolicy
    replayed: int = 0

    def __post_init__(self) -> None:
        self._planned: dict[tuple[str, str, str | None], PlannedCase] = {}
        self._targets: dict[tuple[str, int], Target] = {}
        self._directories = ExitStack()

    async def draw(self, draws: Sequence[Draws]) -> TrialsDone | Interrupted:
        """Draw and judge trials; what could not be measured is missing from the answer."""
        requests = [
            (draw.text, case, number, draw.check) for draw in draws for case, number in draw.trials
        ]
        try:
            made = await asyncio.gather(*(self._make(*want) for want in requests))
        except PromptError as error:
            return Interrupted(reason="interrupted", text=str(error))
        failed = [trial.error for trial in made if trial.error is not None]
        for cause in (each.__cause__ for each in failed):
            if isinstance(cause, RecordingError):  # no further completion can be kept
                raise cause
        if failed and len(failed) > max(1, _UNMEASURED_MAX * len(made)):
            text = f"{len(failed)} of {len(made)} trials could not be measured: {failed[0]}"
            return _interrupted(failed[0], text)
        outcomes = [
            outcome_of(text.digest, case, number, trial)
            for (text, case, number, _), trial in zip(requests, made, strict=True)
            if trial.error is None
        ]
        await self._check_targets(requests, made)
        self.replayed += sum(map(replayed_calls, made))
        return TrialsDone(outcomes=tuple(outcomes), spent=sum(map(spent_on, made), Spent()))

    def close(self) -> None:
        """Remove the texts that were written for targets."""
        self._directories.close()

    async def _check_targets(
        self, requests: Sequence[tuple[PromptText, str, int, str | None]], made: Sequence[Trial]
    ) -> None:
        """See that targets loaded the texts, and end their processes: each text has its own.

        Raises:
            UsageError: A target did not load a text.
        """
        called = {
            target
            for (text, case, _, check), trial in zip(requests, made, strict=True)
            if trial.sourced_completion is not None
            and trial.sourced_completion.source == "live"
            and (target := self._planned[text.digest, case, check].suite.target) is not None
        }
        for target in called:
            await self.trials.end_target(target)
        for target in called:
            target.check_candidate_loaded()

    async def ask(
        self, state: LoopState, action: AskProposer
    ) -> Looked | Critiqued | Proposed | Interrupted:
        """Ask a proposer; edits that would break the prompt's file are refused here."""
        proposer = self.proposers[action.proposer]
        made = (self._ask, self._forget)
        try:
            match action.what:
                case "look":
                    return await looked(proposer, self.setting.policy.limits.model_calls, *made)
                case "critique":
                    return await criticised(proposer, self._problem(state, action), *made)
                case "edits":
                    proposal = await proposed(proposer, self._problem(state, action), *made)
                    return self._readable(state.text, proposal)
        except UnmeasuredError as error:
            return _interrupted(error, str(error))
        except Exception as error:  # noqa: BLE001 - proposers may be anybody's
            text = f"{action.proposer} broke: {type(error).__name__}: {error}"
            if action.what == "edits":
                return Proposed(edits=(), spent=Spent(), refused=(text,))
            return Interrupted(reason="interrupted", text=text)

    async def verify(self, state: LoopState, action: RunSuite) -> SuiteSaid | Interrupted:
        """Let the gate compare the revision with the base."""
        tiers: dict[str, CaseTier] = {
            name: member.case.tier for name, member in self.subject.members.items()
        }
        return await verify_by_gate(
            self.setting, state, action, self.draw, policy=self.policy, tiers=tiers
        )

    async def _make(self, text: PromptText, case: str, number: int, check: str | None) -> Trial:
        if (text.digest, case, check) not in self._planned:
            self._plan(text, check)
        return await self.trials.run(PlannedTrial(self._planned[text.digest, case, check], number))

    def _plan(self, text: PromptText, check: str | None) -> None:
        """Plan the cases under a text; its file is spliced and read back once.

        Judges that are advisory, or LLM judges of other checks, would call models for nothing.
        """
        prompt = self.subject.prompt
        if text.digest != self.setting.base.digest:
            prompt = self.subject.prompt_with(text)
        suites = {
            id(member.suite): replace(
                self._suite(member.suite, prompt, text),
                judges=deciding_judges(member.suite, check),
            )
            for member in self.subject.members.values()
        }
        for name, member in self.subject.members.items():
            planned = PlannedCase(suites[id(member.suite)], member.case)
            self._planned[text.digest, name, check] = planned

    def _suite(self, suite: Eval, prompt: Prompt, text: PromptText) -> Eval:
        """A suite under a text: its prompt has it, or its target loads it."""
        if suite.target is None:
            return replace(suite, prompt=prompt)
        key = (text.digest, id(suite))
        target = self._targets.get(key)
        if target is None:
            made = TemporaryDirectory(prefix="regauge-candidate-")
            directory = Path(self._directories.enter_context(made))
            target = self._targets[key] = suite.target.with_candidate(prompt, directory)
        subject = target.describe_subject(suite.prompt.name, path=suite.prompt.path)
        return replace(suite, prompt=subject, target=target)

    def _problem(self, state: LoopState, action: AskProposer) -> Problem:
        return problem_of(
            self.setting,
            state,
            {name: member.case for name, member in self.subject.members.items()},
            released=self.subject.released,
            examples=self.subject.examples,
            people=self._hints if action.proposer in self.setting.critics else (),
            show_goldens=self.show_goldens,
            schema=json.dumps(self.subject.prompt.response_format, ensure_ascii=False),
            draw=self.draw,
        )

    @cached_property
    def _hints(self) -> tuple[FeedbackRemark, ...]:
        """The remarks of users; a run without models does not use them."""
        subject, setting = self.subject, self.setting
        return hints_of(
            subject.feedback.evidence,
            cases_of(subject.members, "train"),
            cases_of(subject.members, "holdout"),
            public=(setting.base.whole, *public_of(subject, setting.checks.values())),
            policy=setting.policy.guard,
            show_goldens=self.show_goldens,
        )

    async def _ask(self, request: CompletionRequest) -> Completion:
        answer = await self.trials.complete(self._question(request))
        self.replayed += answer.source != "live"
        return answer.completion

    def _forget(self, request: CompletionRequest) -> None:
        self.trials.forget(self._question(request))

    def _question(self, request: CompletionRequest) -> CaseRequest:
        return CaseRequest.of_refiner(request, prompt=self.subject.prompt, command="refine")

    def _readable(self, text: PromptText, proposed: Proposed) -> Proposed:
        """Without edits whose text the prompt's file cannot hold."""
        kept: list[Edit] = []
        refused = list(proposed.refused)
        for edit in proposed.edits:
            try:
                self.subject.prompt_with(apply(text, edit.ops))
            except EditError:
                kept.append(edit)  # the loop says so itself
            except RegaugeError as error:
                refused.append(f"{edit.strategy}: the file could not hold it: {error}")
            else:
                kept.append(edit)
        return replace(proposed, edits=tuple(kept), refused=tuple(refused))


def _interrupted(error: Exception, text: str) -> Interrupted:
    if isinstance(error, BudgetError):
        return Interrupted(reason="calls" if error.limit == "calls" else "usd", text=text)
    if isinstance(error, ProviderError) and error.kind == "authentication":
        return Interrupted(reason="no-key", text=text)
    return Interrupted(reason="provider-outage", text=text)
