"""The audit: recorded trials compared with new trials of the same requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from regauge.digests import digest_of
from regauge.evidence import AuditReport, Count
from regauge.gate._cases import tallies_of
from regauge.gate._trials import CANDIDATE_FIRST, EVALS_FIRST, facts_of_trial, stored_number
from regauge.recordings import RecordingKey
from regauge.runner import PlannedTrial, calls_of
from regauge.stats import AUDIT_STEPS, FULL_AUDIT, audit_p_value, suite_p_value
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.runner import EvalSession, PlannedCase, Trial


# Largest p-value that calls the base worse than its baseline today, so that the provider explains
# the audit. A larger one excuses more recordings, a smaller one blames more authors.
_BASE_WORSE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTrial:
    """A recorded trial and its outcome.

    Attributes:
        series: Trial numbers it belongs to: those of the evals or those of a gate.
        number: Position in its series, from 0.
        recorded_at: UTC time, as in recordings.
    """

    prompt: str
    case: str
    series: Literal["evals", "gate"]
    number: int
    passed: bool
    recorded_at: str = ""


def recorded_outcomes(
    reader: EvalSession,
    cases: Iterable[tuple[str, PlannedCase, Sequence[str]]],
    *,
    numbers: Callable[[str], int],
) -> list[AuditedTrial]:
    """Return the committed trials that can be judged from recordings alone.

    Args:
        reader: A session that only reads recordings.
        cases: Eval name, case and required checks.
        numbers: Returns the number of trials in each series of an eval.
    """
    audited_trials: list[AuditedTrial] = []
    for prompt, planned_case, checks in cases:
        file = reader.completions.file(planned_case.eval.prompt.name)
        texts: set[tuple[str | None, str]] = set()
        for series, first in (("evals", EVALS_FIRST), ("gate", CANDIDATE_FIRST)):
            for number in range(numbers(prompt)):
                planned_trial = PlannedTrial(planned_case, first + number)
                keys = [RecordingKey(planned_case.digest, planned_trial.trial)]
                if planned_case.converses:
                    completion, calls = calls_of(planned_trial, reader.completions.find_call)
                    keys = [call.key for call in calls] if completion is not None else []
                recordings = [recording for key in keys if (recording := file.get(key)) is not None]
                if not recordings:
                    continue
                # A gate copies its first trials for the evals.
                recorded_at = max(recording.recorded_at for recording in recordings)
                identity = (recordings[-1].completion.text, recorded_at)
                if identity in texts:
                    continue
                texts.add(identity)
                (trial,) = reader.replay([planned_trial])
                facts = facts_of_trial(trial, checks, graded=())
                if facts is not None and facts.passed is not None:
                    audited_trials.append(
                        AuditedTrial(
                            prompt=prompt,
                            case=planned_case.case.id,
                            series="evals" if series == "evals" else "gate",
                            number=number,
                            passed=facts.passed,
                            recorded_at=recorded_at,
                        )
                    )
    return audited_trials


def audit_fresh(
    recorded: Sequence[AuditedTrial], fresh: Mapping[tuple[str, str], Sequence[bool | None]]
) -> AuditReport | None:
    """Compare each recorded trial with the new one of its number; None without any pair.

    Trials of the evals and of a gate are tested separately and share the level, as a new trial
    serves each test once.

    Args:
        recorded: Committed trials.
        fresh: Outcomes of the new trials of an eval and case, by number; None if unmeasured.
    """
    pairs: dict[str, list[tuple[AuditedTrial, bool]]] = defaultdict(list)
    for recorded_trial in recorded:
        outcomes = fresh.get((recorded_trial.prompt, recorded_trial.case), ())
        passed = outcomes[recorded_trial.number] if recorded_trial.number < len(outcomes) else None
        if passed is not None:
            pairs[recorded_trial.series].append((recorded_trial, passed))
    if not pairs:
        return None
    level = FULL_AUDIT[0].level / len(pairs)
    return min(
        (_report(series, level) for series in pairs.values()), key=lambda report: report.p_value
    )


async def audit_by_steps(
    session: EvalSession,
    recorded: Sequence[AuditedTrial],
    cases: Mapping[str, PlannedCase],
    checks: Sequence[str],
    *,
    seed: str,
) -> AuditReport:
    """Re-run few of the recorded trials, and more if these leave a doubt.

    Args:
        session: Runs the trials, and reuses what a partner of the cases recorded.
        recorded: Trials of one eval, at least one.
        cases: Planned cases by id.
        checks: Required judges.
        seed: Seed of the order. Authors must not know it beforehand, such as the commit that merged
            the recordings.
    """
    count: Counter[str] = Counter()
    pairs: dict[AuditedTrial, bool | None] = {}
    report: AuditReport | None = None
    async with session.open_trials() as trials:
        for step in AUDIT_STEPS:
            passed, failed = step.shares(len(recorded))
            selected_trials = [
                recorded_trial
                for recorded_trial in recorded
                if recorded_trial not in pairs
                and _place(recorded_trial, seed) < (passed if recorded_trial.passed else failed)
            ]
            planned_trials: list[PlannedTrial] = []
            for recorded_trial in selected_trials:
                planned_trials.append(
                    PlannedTrial(
                        cases[recorded_trial.case],
                        stored_number("base", count[recorded_trial.case]),
                    )
                )
                count[recorded_trial.case] += 1
            new_trials = await trials.run_all(planned_trials)
            for recorded_trial, trial in zip(selected_trials, new_trials, strict=True):
                facts = facts_of_trial(trial, checks, graded=())
                pairs[recorded_trial] = facts.passed if facts is not None else None
            measured = [
                (recorded_trial, fresh)
                for recorded_trial, fresh in pairs.items()
                if fresh is not None
            ]
            report = _report(measured, step.level, passed=passed, failed=failed)
            if report.p_value <= step.level or report.p_value > step.further:
                break
    assert report is not None
    return report


def _place(recorded_trial: AuditedTrial, seed: str) -> Fraction:
    """The position of a trial in the order of an audit, from 0 to 1."""
    digest = digest_of(
        [
            seed,
            recorded_trial.prompt,
            recorded_trial.case,
            recorded_trial.series,
            recorded_trial.number,
        ]
    )
    return Fraction(int(digest[:12], 16), 16**12)


def fresh_counts(
    session: EvalSession, cases: Sequence[PlannedCase], checks: Sequence[str], *, nth: int
) -> dict[str, Count]:
    """Run one further trial of the base for each case; return counts by case id.

    Args:
        session: Runs the trials.
        cases: Planned cases.
        checks: Required judges.
        nth: Number of the trial today; earlier ones were used for a decision.
    """
    planned_trials = [
        PlannedTrial(planned_case, stored_number("base", nth)) for planned_case in cases
    ]

    async def run_trials() -> list[Trial]:
        async with session.open_trials() as trials:
            return await trials.run_all(planned_trials)

    new_trials = run_stoppable(run_trials())
    counts: dict[str, Count] = {}
    for planned_case, trial in zip(cases, new_trials, strict=True):
        facts = facts_of_trial(trial, checks, graded=())
        counts[planned_case.case.id] = Count.of([facts.passed if facts is not None else None])
    return counts


def today_is_worse(before: Sequence[Count], today: Sequence[Count]) -> bool:
    """Return whether the base passes less today than in its baseline, with equal weights."""
    p_value = suite_p_value(*tallies_of(before), *tallies_of(today), weights=1)
    return float(p_value) <= _BASE_WORSE


def _report(
    pairs: Sequence[tuple[AuditedTrial, bool]],
    level: float,
    *,
    passed: Fraction = Fraction(1),
    failed: Fraction = Fraction(1),
) -> AuditReport:
    lead: Counter[str] = Counter()
    better = worse = 0
    for recorded_trial, fresh in pairs:
        if recorded_trial.passed and not fresh:
            better += 1
            lead[recorded_trial.prompt] += 1
        elif fresh and not recorded_trial.passed:
            worse += 1
            lead[recorded_trial.prompt] -= 1
    p_value = audit_p_value(better, worse, passed=passed, failed=failed)
    return AuditReport(
        trials=len(pairs),
        better=better,
        worse=worse,
        p_value=p_value,
        level=level,
        result="better" if p_value <= level else "agree",
        prompts=tuple(sorted(prompt for prompt, count in lead.items() if count > 0)),
    )
