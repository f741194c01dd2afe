"""Tops up a baseline: which trials of base are wanted, and what becomes of those that landed."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from regauge.errors import BudgetError, MissingRecordingError, UsageError
from regauge.evidence import NONE_DRAWN, Count, RoundReport
from regauge.gate._cases import CaseTrials, tallies_of
from regauge.gate._compare import CellChange
from regauge.gate._record import CONTROL_FIRST, HISTORY_FIRST, facts_of_trial, stored_number
from regauge.gate._suites import graded_checks, scores_p_value
from regauge.gate._types import CRITICAL_TRIALS, GateCase
from regauge.gate.baselines import (
    CASE_DIGITS,
    AnchorTrials,
    Baseline,
    Session,
    StoredHistory,
    StoredTrials,
)
from regauge.runner import PlannedTrial, ticking
from regauge.stats import e_bh, expected_failures, log_e_value, suite_p_value
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from regauge.gate._types import GatePolicy, TrialFacts
    from regauge.gate.baselines import HistoryKey
    from regauge.providers import Completion
    from regauge.runner import EvalSession, PlannedCase, RunProgress, Trial, TrialRunner
    from regauge.stats import Direction


SESSIONS = 3
"""Sessions that a complete history comes from at least."""

_ID = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpPolicy:
    """Limits for filling a history.

    Attributes:
        complete_trials: Trials of a complete history.
        sessions: Sessions they must come from at least: one session is one look at the mood of
            the provider.
        per_session: Trials of each case in one session.
        apart_h: Hours from the beginning of one session to that of the next.
        any_time: Whether a session counts however short ago the last one was.
    """

    complete_trials: int = 12
    sessions: int = SESSIONS
    per_session: int = 4
    apart_h: float = 1.0
    any_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """The trials of one session for one eval.

    Attributes:
        history: What is stored, cases that are gone or changed left out.
        digests: The digest of each case as it is now, by its id.
        critical: The cases that need more trials than others.
        first: The session's first trial number.
        trials_by_case: Trials that each case gets; cases that have enough are not in it.
        waits_h: Hours until the next session may begin, when that is why nothing is drawn.
        sessions: How many sessions complete the history, this one among them.
        sessions_others: How many complete the cases that are not critical.
    """

    history: StoredHistory
    digests: Mapping[str, str]
    critical: frozenset[str] = frozenset()
    first: int
    trials_by_case: Mapping[str, int] = field(default_factory=dict[str, int])
    waits_h: float = 0.0
    sessions: int = 0
    sessions_others: int = 0

    @property
    def complete(self) -> bool:
        """Return whether nothing is wanted any more."""
        return not self.trials_by_case and not self.waits_h

    def numbers(self, case_id: str) -> range:
        """The trial numbers of a case in this session."""
        return range(self.first, self.first + self.trials_by_case.get(case_id, 0))


def top_up(
    baseline: Baseline,
    key: HistoryKey,
    *,
    version: str,
    cases: Mapping[str, str],
    now: datetime,
    policy: TopUpPolicy,
    critical: Collection[str] = (),
    deselected: Collection[str] = (),
    restart: bool = False,
) -> TopUp:
    """Select the trials that are missing in the history under a key.

    Args:
        version: The prompt's version; empty where it has none.
        cases: The digest of each case as it is now, by its id.
        critical: The cases that need `CRITICAL_TRIALS`.
        now: When this session begins.
        deselected: The cases that this session cannot run; their stored trials stay.
        restart: Whether stored trials are dropped; their numbers stay taken.

    Raises:
        UsageError: The numbers for trials of the base are used up.
    """
    stored = baseline.find(key) or StoredHistory(key=key)
    histories = {
        case_id: case
        for case_id, case in stored.cases.items()
        if not restart and cases.get(case_id, "")[:CASE_DIGITS] == case.digest
    }
    history = replace(stored, version=version, cases=histories)
    first = history.sessions[-1].last + 1 if history.sessions else HISTORY_FIRST
    if restart:
        history = replace(history, sessions=())
    more = replace(policy, complete_trials=max(policy.complete_trials, CRITICAL_TRIALS))
    policies = {
        case_id: more if case_id in critical else policy
        for case_id in cases
        if case_id not in deselected
    }
    missing = {
        case_id: lacking
        for case_id, own in policies.items()
        if (lacking := _lacking(history, histories.get(case_id), own))
    }
    sessions = {
        case_id: _sessions(history, histories.get(case_id), own)
        for case_id, own in policies.items()
    }
    others = [count for case_id, count in sessions.items() if case_id not in critical]
    waits_h = 0.0 if policy.any_time or not missing else _waits_h(history, now, policy)
    if waits_h:
        missing = {}
    if first + max(missing.values(), default=0) > CONTROL_FIRST:
        raise UsageError(
            f"the trial numbers {HISTORY_FIRST} to {CONTROL_FIRST - 1} of dataset"
            f" {key.dataset!r} are used up\n  fix: delete the baseline file and start again"
        )
    return TopUp(
        history=history,
        digests=dict(cases),
        critical=frozenset(critical),
        first=first,
        trials_by_case=missing,
        waits_h=waits_h,
        sessions=max(sessions.values(), default=0),
        sessions_others=max(others or sessions.values(), default=0),
    )


def applied(
    asked: TopUp,
    facts: Mapping[str, Mapping[int, TrialFacts]],
    *,
    now: datetime,
    served: Collection[str],
) -> StoredHistory:
    """The history with the trials of a session that could be measured.

    Where none of those who answered now ever answered before, the provider serves another model
    under the old name: what was stored is forgotten.

    Args:
        facts: By case and trial number; trials that could not be measured are not in it.
        now: When the session began.
        served: Who answered, as the provider says it.
    """
    history = asked.history
    if not any(facts.values()):
        return history
    if history.served and served and history.served.isdisjoint(served):
        history = replace(history, sessions=(), cases={})
    cases = dict(history.cases)
    for case_id, trials in facts.items():
        if not trials:
            continue
        digest = asked.digests[case_id][:CASE_DIGITS]
        case = cases.get(case_id, StoredTrials(digest=digest))
        for number in sorted(trials):
            case = case.add(number, trials[number])
        cases[case_id] = case
    session = Session(
        id=now.astimezone(UTC).strftime(_ID),
        first=asked.first,
        last=max(number for trials in facts.values() for number in trials),
        served=tuple(sorted(served)),
    )
    return replace(history, sessions=(*history.sessions, session), cases=cases)


def merged(
    baseline: Baseline,
    updated: Sequence[tuple[StoredHistory, bool]],
    *,
    anchors: Sequence[AnchorTrials] = (),
    anchor_versions: Collection[str] = (),
) -> Baseline:
    """The baseline with histories of all evals of a prompt, the version before kept as needed.

    Histories of other models stay as long as the prompt does.

    Args:
        baseline: As it was.
        updated: The history of each eval, and whether it is complete.
        anchors: Trials of the version that later ones are compared with, for each eval.
        anchor_versions: That version, by eval; stored trials of it stay where no others are given.
    """
    current = tuple(history for history, _ in updated if history.cases)
    keys = [history.key for history in current]
    prompts, models = {key.prompt for key in keys}, {key.model for key in keys}
    elsewhere = tuple(
        stored
        for stored in baseline.histories
        if stored.key.prompt in prompts and stored.key.model not in models
    )
    previous: list[StoredHistory] = []
    for history, complete in updated:
        before = None if complete else baseline.before(history.key)
        if before is not None and before not in previous:
            previous.append(before)
    if not current:  # nothing could be measured, so nothing is known better than before
        return baseline
    drawn = {(anchor.history.key.dataset, anchor.history.key.model) for anchor in anchors}
    histories = tuple(
        anchor
        for anchor in baseline.anchors
        if anchor.history.version in anchor_versions
        and (anchor.history.key.dataset, anchor.history.key.model) not in drawn
    )
    return replace(
        baseline,
        histories=(*current, *elsewhere),
        previous=tuple(previous),
        anchors=(*anchors, *histories),
    )


def _lacking(history: StoredHistory, case: StoredTrials | None, policy: TopUpPolicy) -> int:
    """The number of trials of a case for this session."""
    if case is None:
        return min(policy.per_session, policy.complete_trials)
    trials = min(policy.per_session, max(0, policy.complete_trials - len(case.drawn)))
    sessions = len(history.sessions_of(case))
    return max(trials, 1 if sessions < policy.sessions else 0)


def _sessions(history: StoredHistory, case: StoredTrials | None, policy: TopUpPolicy) -> int:
    """The number of sessions a case still needs."""
    drawn, session_count = (
        (len(case.drawn), len(history.sessions_of(case))) if case is not None else (0, 0)
    )
    lacking = max(0, policy.complete_trials - drawn)
    return max(-(-lacking // policy.per_session), policy.sessions - session_count, 0)


def _waits_h(history: StoredHistory, now: datetime, policy: TopUpPolicy) -> float:
    if not history.sessions:
        return 0.0
    last = datetime.strptime(history.sessions[-1].id, _ID).replace(tzinfo=UTC)
    next_at = last + timedelta(hours=policy.apart_h)
    return max(0.0, (next_at - now) / timedelta(hours=1))


# CI systems show lines one by one; a shorter interval fills their logs.
_PROGRESS_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSuite:
    """One eval, and what this session draws for it."""

    asked: TopUp
    cases: tuple[PlannedCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRedraw:
    """One eval whose history is complete, and what asks for fresh trials of it."""

    redraw: Redraw
    checks: Mapping[str, str]
    cases: tuple[PlannedCase, ...]


@dataclass(slots=True, kw_only=True)
class LandedSuite:
    """The results of the trials of one eval.

    Attributes:
        facts: By case and trial number.
        served: Who answered, as the provider says it.
        unmeasured: Why trials could not be measured, with how many share the reason.
        unmeasured_cases: The cases they belong to.
    """

    facts: dict[str, dict[int, TrialFacts]] = field(
        default_factory=lambda: defaultdict[str, dict[int, "TrialFacts"]](dict)
    )
    served: set[str] = field(default_factory=set[str])
    unmeasured: Counter[str] = field(default_factory=Counter[str])
    unmeasured_cases: set[str] = field(default_factory=set[str])

    def take(
        self, draw: PlannedTrial, trial: Trial, checks: Mapping[str, str]
    ) -> TrialFacts | None:
        """Note one trial; what it showed, or None where it could not be measured."""
        case_id = draw.planned_case.case.id
        facts = facts_of_trial(trial, checks, graded=checks)
        if facts is None or trial.sourced_completion is None:
            self.unmeasured[_why(trial)] += 1
            self.unmeasured_cases.add(case_id)
            return None
        self.facts[case_id][draw.trial] = facts
        self.served.add(_served(trial.sourced_completion.completion))
        return facts


def _served(completion: Completion) -> str:
    return f"{completion.model} {completion.fingerprint or ''}".strip()


def _why(trial: Trial) -> str:
    """The reason why a trial could not be measured, in words that trials of one cause share."""
    match trial.error:
        case MissingRecordingError():
            return "no answer is kept, and no model may be asked (--record=none)"
        case BudgetError():
            return "the budget was reached; the same command continues from here"
        case None:
            return "no verdict"
        case error:
            return str(error)


def draws_of(suite: AskedSuite) -> list[PlannedTrial]:
    """The draws of one eval in this session, round by round."""
    numbers = {planned.case.id: suite.asked.numbers(planned.case.id) for planned in suite.cases}
    rounds = max((len(drawn) for drawn in numbers.values()), default=0)
    return [
        PlannedTrial(planned, numbers[planned.case.id][index])
        for index in range(rounds)
        for planned in suite.cases
        if index < len(numbers[planned.case.id])
    ]


def draw_trials(
    suites: Sequence[AskedSuite],
    *,
    session: EvalSession,
    waiting: Callable[[RunProgress], None],
) -> list[LandedSuite]:
    """Have every trial made; one that cannot be measured is noted and does not count.

    Args:
        suites: What is asked for.
        session: Finds answers, asks models and keeps what they say.
        waiting: Called now and then while models answer.
    """

    async def draw_all() -> list[LandedSuite]:
        _expect(session, sum(len(draws_of(suite)) for suite in suites))
        async with _drawing(session, waiting) as trials:
            return [await _draw_suite(suite, trials) for suite in suites]

    return run_stoppable(draw_all())


def redraw_trials(
    asked: Sequence[AskedRedraw],
    *,
    session: EvalSession,
    waiting: Callable[[RunProgress], None],
) -> list[LandedSuite]:
    """Have fresh trials made until each asked history is compared with enough of them.

    They have the numbers of a gate's trials of the base: none of them was drawn for a history.

    Args:
        asked: What is asked for; it takes in what its trials show.
        session: Finds answers, asks models and keeps what they say.
        waiting: Called now and then while models answer.
    """

    async def redraw_all() -> list[LandedSuite]:
        _expect(session, 0)
        async with _drawing(session, waiting) as trials:
            return [await _redraw_suite(redraw, session, trials) for redraw in asked]

    return run_stoppable(redraw_all())


async def _draw_suite(suite: AskedSuite, trials: TrialRunner) -> LandedSuite:
    draws = draws_of(suite)
    made = await trials.run_all(draws)
    landed = LandedSuite()
    for draw, trial in zip(draws, made, strict=True):
        landed.take(draw, trial, suite.asked.history.key.judges)
    return landed


async def _redraw_suite(
    asked: AskedRedraw, session: EvalSession, trials: TrialRunner
) -> LandedSuite:
    planned = {case.case.id: case for case in asked.cases}
    landed = LandedSuite()
    for wave in asked.redraw.waves():
        session.progress.total += len(wave)
        draws = [PlannedTrial(planned[case], stored_number("base", nth)) for case, nth in wave]
        made = await trials.run_all(draws)
        for (case, nth), draw, trial in zip(wave, draws, made, strict=True):
            asked.redraw.take(case, nth, landed.take(draw, trial, asked.checks))
    return landed


@asynccontextmanager
async def _drawing(
    session: EvalSession, waiting: Callable[[RunProgress], None]
) -> AsyncGenerator[TrialRunner]:
    tick = partial(waiting, session.progress)
    async with ticking(tick, every_s=_PROGRESS_EVERY_S), session.open_trials() as trials:
        yield trials


def _expect(session: EvalSession, trials: int) -> None:
    progress = session.progress
    progress.start(progress.completed + progress.failed + trials)


# The error rate of calling all cases together worse, in one night: one false alarm in 200 nights,
# shared by the prompts and their scores.
_SUITE_ALPHA = 0.005
_SINCE = "when the baseline was made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The comparison of fresh trials of the base with its history.

    Attributes:
        changes: The checks whose pass rate certainly changed since their baseline.
        before: All trials of the history, together.
        now: The first fresh trials of every case, together.
        suite: The probability of at least this many failures if nothing changed; None
            where there is nothing to compare them with.
        served: Who answers now, where no one of them ever answered before; empty else.
    """

    changes: tuple[CellChange, ...]
    before: Count
    now: Count
    suite: RoundReport | None
    served: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        """Return whether the base passes less often than its history, by a case or all together."""
        return self.suite_worse or any(change.direction == "worse" for change in self.changes)

    @property
    def suite_worse(self) -> bool:
        """Return whether all cases together, or their scores, certainly pass less often."""
        if self.suite is None:
            return False
        by_scores = any(p <= self.suite.bound for p in self.suite.scores.values())
        return self.suite.p_value <= self.suite.bound or by_scores

    @property
    def stale(self) -> bool:
        """Return whether the history says nothing of the base of today any more."""
        return self.worse or bool(self.changes) or bool(self.served)


class Redraw:
    """The trials that one history asks for, wave by wave, and what they come to.

    Args:
        history: A complete one.
        digests: The digest of each case as it is now, by its id.
        policy: What a change of the prompt would be held to.
        prompt: Its name.
        trials: How many of each case are drawn at first; suspects are drawn on.
        prompts: How many are tested together; they share the error rate of the suite.
    """

    def __init__(
        self,
        history: StoredHistory,
        digests: Mapping[str, str],
        policy: GatePolicy,
        *,
        prompt: str,
        trials: int,
        prompts: int = 1,
    ) -> None:
        self._served_before = history.served
        self._policy = policy
        self._prompt = prompt
        self._first = trials
        self._prompts = prompts
        self._checks = tuple(sorted(history.key.judges))
        stored = {case: history.history(case, digest) for case, digest in sorted(digests.items())}
        self._drawn = {
            case: CaseTrials(
                GateCase(prompt=prompt, case=case, checks=self._checks, history=trials_before),
                first=trials,
                seeds=0,
            )
            for case, trials_before in stored.items()
            if trials_before is not None
        }
        self._changes: tuple[CellChange, ...] = ()

    def waves(self) -> Iterator[list[tuple[str, int]]]:
        """Cases and numbers of trials, from 0; each wave is taken before the next is requested."""
        yield self._ask(self._drawn, self._first)
        suspects = self._suspects()
        least = self._policy.case.suspect
        for step in self._policy.case.steps:
            self._changes, suspects = self._weigh(suspects, least=least)
            least = self._policy.case.clear
            if not suspects:
                return
            yield self._ask(dict.fromkeys(case for case, _, _ in suspects), step)
        self._changes, _ = self._weigh(suspects, least=least)

    def take(self, case: str, number: int, facts: TrialFacts | None) -> None:
        """Take in a trial; None where it could not be measured."""
        self._drawn[case].take("candidate", number, facts)

    def drift(self, *, served: Collection[str]) -> Drift:
        """The drift that all trials show.

        Args:
            served: Who answered, as the provider says it.
        """
        before = self._served_before
        another = bool(before and served) and before.isdisjoint(served)
        now = sum((case.candidate(stop=self._first) for case in self._drawn.values()), NONE_DRAWN)
        return Drift(
            changes=self._changes,
            before=sum((case.history() for case in self._drawn.values()), NONE_DRAWN),
            now=now,
            suite=self._suite() if now.trials else None,
            served=tuple(sorted(served)) if another else (),
        )

    def _ask(self, cases: Iterable[str], trials: int) -> list[tuple[str, int]]:
        wave: list[tuple[str, int]] = []
        for case in cases:
            drawn = self._drawn[case]
            asked = drawn.ask("candidate", drawn.asked("candidate") + trials)
            wave += [(case, number) for number in asked]
        return wave

    def _suspects(self) -> list[tuple[str, str, Direction]]:
        suspects: list[tuple[str, str, Direction]] = []
        for case, drawn in self._drawn.items():
            for check in self._checks:
                before, now = drawn.history(check), drawn.candidate(check)
                if now.failed and before.passed:
                    suspects.append((case, check, "worse"))
                elif now.trials and not now.failed and self._seldom(before):
                    suspects.append((case, check, "better"))
        return suspects

    def _seldom(self, before: Count) -> bool:
        return before.trials > 0 and before.rate <= self._policy.improved_at_most

    def _weigh(
        self, suspects: Sequence[tuple[str, str, Direction]], *, least: float
    ) -> tuple[tuple[CellChange, ...], list[tuple[str, str, Direction]]]:
        """The drift that is certain so far, and the suspects that need further trials."""
        changes = list(self._changes)
        open_tests: list[tuple[str, str, Direction]] = []
        family = max(1, len(self._drawn) * len(self._checks))
        directions: tuple[Direction, ...] = ("worse", "better")
        for direction in directions:
            own = [suspect for suspect in suspects if suspect[2] == direction]
            if not own:
                continue
            before = [self._drawn[case].history(check) for case, check, _ in own]
            now = [self._drawn[case].candidate(check) for case, check, _ in own]
            evidence = log_e_value(*tallies_of(before), *tallies_of(now), direction=direction)
            named = [log(c.e_value) for c in changes if c.direction == direction]
            together = np.concatenate([named, evidence])
            bound = float(
                e_bh(together, alpha=self._policy.case.alpha, cells=family).log_bound.item()
            )
            for cell, old, new, log_e in zip(own, before, now, evidence.tolist(), strict=True):
                case, check, _ = cell
                if log_e >= bound:
                    changes.append(
                        CellChange(
                            case=case,
                            check=check,
                            direction=direction,
                            before=old,
                            now=new,
                            e_value=exp(min(log_e, 700.0)),
                            bound=round(exp(bound), 6),
                            since=_SINCE,
                        )
                    )
                elif log_e >= log(least) and not any(self._drawn[case].gaps()):
                    open_tests.append(cell)
        return tuple(changes), open_tests

    def _suite(self) -> RoundReport:
        drawn = list(self._drawn.values())
        base = tallies_of([case.history() for case in drawn])
        candidate = tallies_of([case.candidate(stop=self._first) for case in drawn])
        graded = graded_checks(drawn)
        return RoundReport(
            trials=self._first,
            drawn=int(candidate[1].sum()),
            fails=int((candidate[1] - candidate[0]).sum()),
            expected=float(expected_failures(*base, candidate[1])),
            p_value=float(suite_p_value(*base, *candidate)),
            bound=_SUITE_ALPHA / self._prompts / (1 + len(graded)),
            scores={
                check: scores_p_value(
                    (self._prompt, check),
                    [case.history_scores(check) for case in drawn],
                    [case.scores("candidate", check, [range(self._first)]) for case in drawn],
                    min_effect=self._policy.min_effect,
                )
                for check in graded
            },
        )
