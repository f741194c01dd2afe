"""Whether committed completions pass more often than fresh trials of the same requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.gate._numbers import CANDIDATE_FIRST, EVALS_FIRST
from regauge.gate._record import facts_of_trial
from regauge.recordings import RecordingKey
from regauge.runner import Draw
from regauge.stats import FULL_AUDIT, audit_p_value, suite_p_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from regauge.gate._types import Count
    from regauge.runner import EvalSession, PlannedCase

__all__ = [
    "AuditReport",
    "AuditResult",
    "AuditedTrial",
    "audit_fresh",
    "recorded_outcomes",
    "today_is_worse",
]

AuditResult: TypeAlias = Literal["agree", "base-worse", "better"]
# Up to this p-value the base is below its own record today, so the provider explains the audit.
_BASE_WORSE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTrial:
    """A recorded trial and whether it passed.

    Attributes:
        series: Whose numbers it has: of the evals, or of a gate.
    """

    prompt: str
    case: str
    series: Literal["evals", "gate"]
    number: int
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Recorded trials next to fresh ones.

    Attributes:
        trials: How many were compared.
        better: Those whose recorded trial passed and whose fresh one failed.
        worse: The reverse.
        p_value: How likely so many of the first kind are where nobody selected.
        level: Up to this p-value the recordings count as better than fresh trials.
        result: `agree`; `better` than fresh trials; or `base-worse`, where they are better, but
            the base is below its record today as well, so the provider may have changed.
        prompts: Those with more of the first kind than of the second.
    """

    trials: int
    better: int
    worse: int
    p_value: float
    level: float
    result: AuditResult
    prompts: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The report in plain counts."""
        names = ", ".join(self.prompts)
        counts = (
            f"{self.better} of {self.trials} recorded trials passed where a fresh one failed,"
            f" {self.worse} the reverse (p = {self.p_value:.2g})"
        )
        match self.result:
            case "agree":
                return f"recordings agree with fresh trials: {counts}"
            case "base-worse":
                return (
                    f"recordings of {names} are better than fresh trials: {counts}; the base is"
                    " below its record today, too: recorded again, or the provider changed"
                )
            case "better":
                return f"recordings of {names} are better than fresh trials: {counts}"

    @property
    def fix(self) -> str:
        """The command that records fresh answers."""
        return f"regauge record --all {' '.join(self.prompts)}, then commit the recordings"


def recorded_outcomes(
    reader: EvalSession,
    cases: Iterable[tuple[str, PlannedCase, Sequence[str]]],
    *,
    numbers: Callable[[str], int],
) -> list[AuditedTrial]:
    """The committed trials of cases that can be judged from what is committed.

    Args:
        reader: A session that only reads recordings.
        cases: The name of each suite, what is asked, and the checks that must pass.
        numbers: How many trials of each series of a suite, from its first.
    """
    found: list[AuditedTrial] = []
    for prompt, planned, checks in cases:
        file = reader.answers.file(planned.suite.prompt.name)
        texts: set[tuple[str | None, str]] = set()
        for series, first in (("evals", EVALS_FIRST), ("gate", CANDIDATE_FIRST)):
            for number in range(numbers(prompt)):
                recording = file.get(RecordingKey(planned.digest, first + number))
                if recording is None:
                    continue
                # A gate keeps its first trials for the evals, too.
                identity = (recording.completion.text, recording.recorded_at)
                if identity in texts:
                    continue
                texts.add(identity)
                (trial,) = reader.replay([Draw(planned, first + number)])
                facts = facts_of_trial(trial, checks, graded=())
                if facts is not None and facts.passed is not None:
                    found.append(
                        AuditedTrial(
                            prompt=prompt,
                            case=planned.case.id,
                            series="evals" if series == "evals" else "gate",
                            number=number,
                            passed=facts.passed,
                        )
                    )
    return found


def audit_fresh(
    recorded: Sequence[AuditedTrial], fresh: Mapping[tuple[str, str], Sequence[bool | None]]
) -> AuditReport | None:
    """Compare every recorded trial with the fresh one of its number; None where none can be.

    The trials of the evals and those of a gate are tested apart, for a fresh trial serves each
    test once; both share the level.

    Args:
        recorded: What is committed.
        fresh: Whether each fresh trial of a suite and case passed, by number.
    """
    pairs: dict[str, list[tuple[AuditedTrial, bool]]] = defaultdict(list)
    for one in recorded:
        outcomes = fresh.get((one.prompt, one.case), ())
        passed = outcomes[one.number] if one.number < len(outcomes) else None
        if passed is not None:
            pairs[one.series].append((one, passed))
    if not pairs:
        return None
    level = FULL_AUDIT[0].level / len(pairs)
    return min((_report(series, level) for series in pairs.values()), key=lambda one: one.p_value)


def today_is_worse(before: Sequence[Count], today: Sequence[Count]) -> bool:
    """Whether the base passes less today than its record says, all cases weighed alike."""
    p_value = suite_p_value(
        [count.passed for count in before],
        [count.trials for count in before],
        [count.passed for count in today],
        [count.trials for count in today],
        weights=1,
    )
    return float(p_value) <= _BASE_WORSE


def _report(pairs: Sequence[tuple[AuditedTrial, bool]], level: float) -> AuditReport:
    lead: Counter[str] = Counter()
    better = worse = 0
    for one, passed in pairs:
        if one.passed and not passed:
            better += 1
            lead[one.prompt] += 1
        elif passed and not one.passed:
            worse += 1
            lead[one.prompt] -= 1
    p_value = audit_p_value(better, worse)
    return AuditReport(
        trials=len(pairs),
        better=better,
        worse=worse,
        p_value=p_value,
        level=level,
        result="better" if p_value <= level else "agree",
        prompts=tuple(sorted(prompt for prompt, count in lead.items() if count > 0)),
    )
