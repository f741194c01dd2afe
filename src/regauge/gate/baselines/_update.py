"""Tops up a baseline: which trials of main are wanted, and what becomes of those that landed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.gate._numbers import CONTROL_FIRST, HISTORY_FIRST
from regauge.gate.baselines._baseline import (
    CASE_DIGITS,
    Anchor,
    Baseline,
    CaseTrials,
    Session,
    StoredHistory,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from regauge.gate._types import TrialFacts
    from regauge.gate.baselines._baseline import HistoryKey

__all__ = ["CRITICAL_TRIALS", "SESSIONS", "TopUp", "TopUpPolicy", "applied", "merged", "top_up"]

CRITICAL_TRIALS = 20
"""Trials of main that a critical case must have passed, all of them, to be worth its name."""

SESSIONS = 3
"""Sessions that a complete history comes from at least."""

_ID = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpPolicy:
    """Limits for filling a history.

    Attributes:
        wanted: Trials of a complete history.
        sessions: Sessions they must come from at least: one session is one look at the mood of
            the provider.
        per_session: Trials of each case in one session.
        apart_h: Hours from the beginning of one session to that of the next.
        any_time: Whether a session counts however short ago the last one was.
    """

    wanted: int = 12
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
        wanted: How many trials each case gets; cases that have enough are not in it.
        waits_h: Hours until the next session may begin, when that is why nothing is drawn.
        sessions: How many sessions complete the history, this one among them.
        sessions_others: How many complete the cases that are not critical.
    """

    history: StoredHistory
    digests: Mapping[str, str]
    critical: frozenset[str] = frozenset()
    first: int
    wanted: Mapping[str, int] = field(default_factory=dict[str, int])
    waits_h: float = 0.0
    sessions: int = 0
    sessions_others: int = 0

    @property
    def complete(self) -> bool:
        """Return whether nothing is wanted any more."""
        return not self.wanted and not self.waits_h

    def numbers(self, case_id: str) -> range:
        """The trial numbers of a case in this session."""
        return range(self.first, self.first + self.wanted.get(case_id, 0))


def top_up(
    baseline: Baseline,
    key: HistoryKey,
    *,
    version: str,
    cases: Mapping[str, str],
    now: datetime,
    policy: TopUpPolicy,
    critical: Collection[str] = (),
    anew: bool = False,
) -> TopUp:
    """Select the trials that are missing in the history under a key.

    Args:
        version: The prompt's version; empty where it has none.
        cases: The digest of each case as it is now, by its id.
        critical: The cases that need `CRITICAL_TRIALS`.
        now: When this session begins.
        anew: Whether what is stored is forgotten; its numbers stay taken.

    Raises:
        UsageError: The numbers for trials of main are used up.
    """
    known = baseline.find(key) or StoredHistory(key=key)
    kept = {
        case_id: case
        for case_id, case in known.cases.items()
        if not anew and cases.get(case_id, "")[:CASE_DIGITS] == case.digest
    }
    history = replace(known, version=version, cases=kept)
    first = history.sessions[-1].last + 1 if history.sessions else HISTORY_FIRST
    if anew:
        history = replace(history, sessions=())
    more = replace(policy, wanted=max(policy.wanted, CRITICAL_TRIALS))
    policies = {case_id: more if case_id in critical else policy for case_id in cases}
    wanted = {
        case_id: lacking
        for case_id, its in policies.items()
        if (lacking := _lacking(history, kept.get(case_id), its))
    }
    sessions = {
        case_id: _sessions(history, kept.get(case_id), its) for case_id, its in policies.items()
    }
    others = [count for case_id, count in sessions.items() if case_id not in critical]
    waits_h = 0.0 if policy.any_time or not wanted else _waits_h(history, now, policy)
    if waits_h:
        wanted = {}
    if first + max(wanted.values(), default=0) > CONTROL_FIRST:
        raise UsageError(
            f"the trial numbers {HISTORY_FIRST} to {CONTROL_FIRST - 1} of dataset"
            f" {key.dataset!r} are used up\n  fix: delete the baseline file and start again"
        )
    return TopUp(
        history=history,
        digests=dict(cases),
        critical=frozenset(critical),
        first=first,
        wanted=wanted,
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
        case = cases.get(case_id, CaseTrials(digest=digest))
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
    anchors: Sequence[Anchor] = (),
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
        known
        for known in baseline.histories
        if known.key.prompt in prompts and known.key.model not in models
    )
    previous: list[StoredHistory] = []
    for history, complete in updated:
        before = None if complete else baseline.before(history.key)
        if before is not None and before not in previous:
            previous.append(before)
    if not current:  # nothing could be measured, so nothing is known better than before
        return baseline
    drawn = {(anchor.history.key.dataset, anchor.history.key.model) for anchor in anchors}
    kept = tuple(
        anchor
        for anchor in baseline.anchors
        if anchor.history.version in anchor_versions
        and (anchor.history.key.dataset, anchor.history.key.model) not in drawn
    )
    return replace(
        baseline,
        histories=(*current, *elsewhere),
        previous=tuple(previous),
        anchors=(*anchors, *kept),
    )


def _lacking(history: StoredHistory, case: CaseTrials | None, policy: TopUpPolicy) -> int:
    """The number of trials of a case for this session."""
    if case is None:
        return min(policy.per_session, policy.wanted)
    trials = min(policy.per_session, max(0, policy.wanted - len(case.drawn)))
    sessions = len(history.sessions_of(case))
    return max(trials, 1 if sessions < policy.sessions else 0)


def _sessions(history: StoredHistory, case: CaseTrials | None, policy: TopUpPolicy) -> int:
    """The number of sessions a case still needs."""
    drawn, held = (len(case.drawn), len(history.sessions_of(case))) if case is not None else (0, 0)
    lacking = max(0, policy.wanted - drawn)
    return max(-(-lacking // policy.per_session), policy.sessions - held, 0)


def _waits_h(history: StoredHistory, now: datetime, policy: TopUpPolicy) -> float:
    if not history.sessions:
        return 0.0
    last = datetime.strptime(history.sessions[-1].id, _ID).replace(tzinfo=UTC)
    next_at = last + timedelta(hours=policy.apart_h)
    return max(0.0, (next_at - now) / timedelta(hours=1))
