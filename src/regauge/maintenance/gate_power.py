"""The sensitivity of the gate for a prompt, simulated from its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Self

from regauge.gate import cases_needed, first_trials_needed, sensitivity_line
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from regauge.gate import Count, DetectableDrop, GatePolicy, Rate, SensitivityLine
    from regauge.gate.baselines import Baseline

SIMULATED_MAX = 3_000
"""The simulation bounds cases times runs; more cases take minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePower:
    """The sensitivity of the gate for one prompt.

    Attributes:
        target: The drop to detect; None if not requested.
        counts: Trials of the base for each measured case.
        needed_cases: The number of similar cases that detect the drop; None if not requested, or
            above the simulated maximum.
        needed_draws: First trials of these cases that detect the drop; None if not requested, or
            above the maximum.
    """

    prompt: str
    policy: GatePolicy
    target: DetectableDrop | None
    counts: Sequence[Count]
    line: SensitivityLine | None
    needed_cases: int | None
    needed_draws: int | None

    @classmethod
    def simulate(
        cls,
        baseline: Baseline,
        policy: GatePolicy,
        target: DetectableDrop | None,
        *,
        cases: int | None,
        seed: int,
    ) -> Self:
        """Simulate the gate on one prompt's baseline."""
        measured_cases = [
            case
            for stored_baseline in baseline.baselines
            for case in stored_baseline.cases.values()
            if case.numbers
        ]
        counts = [case.total for case in measured_cases]
        checks = sum(len(case.checks) for case in measured_cases)
        return cls(
            prompt=baseline.prompt,
            policy=policy,
            target=target,
            counts=counts,
            line=sensitivity_line(counts, policy, seed=seed, checks=checks, cases=cases),
            needed_cases=cases_needed(counts, policy, target, at_most=SIMULATED_MAX)
            if target
            else None,
            needed_draws=first_trials_needed(counts, policy, target) if target else None,
        )

    @property
    def trials(self) -> int:
        """The fewest trials of the base of any case."""
        return min((count.trials for count in self.counts), default=0)

    def lines(self) -> Iterator[str]:
        """The text for users; the first line names the prompt."""
        if self.line is None:
            yield f"{self.prompt}: no trial of base is known yet"
            yield f"  regauge baseline update {quote(self.prompt)}"
            return
        cases, trials = plural(len(self.counts), "case"), plural(self.trials, "trial")
        yield f"{self.prompt}: {cases} with at least {trials} of base each"
        yield from (f"  {line}" for line in str(self.line).splitlines())
        yield f"  An unchanged prompt costs {self.line.calls_per_case:.2f} calls per case."
        full = self.policy.baseline_trials_of(len(self.counts))
        if self.trials < full:
            yield (
                f"  The baseline is not complete: {self.trials} of {full} trials; "
                f"regauge baseline update {quote(self.prompt)}"
            )
        if self.target is not None:
            yield f"  {self._required_text(self.target)}"

    def to_json(self) -> dict[str, object]:
        """The same as JSON; rates from 0 to 1."""
        line = self.line
        document: dict[str, object] = {
            "prompt": self.prompt,
            "cases_known": len(self.counts),
            "trials_of_base": self.trials,
        }
        if line is not None:
            document |= {
                "cases": line.cases,
                "false_alarm": _rate_json(line.false_alarm),
                "one_broken": line.one_broken and _rate_json(line.one_broken),
                "drops": _drops_json(line.drops),
                "flaky_drop": line.flaky_drop and _rate_json(line.flaky_drop),
                "calls_per_case": round(line.calls_per_case, 4),
                "first_trials": self.policy.first_trials_of(line.cases),
                "next_step": None,
            }
            if (step := line.step) is not None:
                document["next_step"] = {
                    "first_trials": step.first_trials,
                    "drops": _drops_json(step.drops),
                    "calls_per_case": round(step.calls_per_case, 4),
                }
        if self.target is not None:
            document["needed"] = {
                "drop": self.target.drop,
                "power": self.target.power,
                "cases": self.needed_cases,
                "first_trials": self.needed_draws,
            }
        return document

    def _required_text(self, target: DetectableDrop) -> str:
        drop, power = f"{100 * target.drop:g}-point drop", f"{100 * target.power:g}"
        cases = (
            f"about {self.needed_cases}" if self.needed_cases else f"more than {SIMULATED_MAX:,}"
        )
        sentence = f"To find a {drop} in {power} of 100 runs takes {cases} cases like these"
        cases_today, draws = len(self.counts), self.needed_draws
        if draws is None:
            return f"{sentence}."
        if draws == self.policy.first_trials_of(cases_today):
            return (
                f"The {cases_today} cases there are find a {drop} in at least {power} of 100 runs."
            )
        return f"{sentence}, or first_trials = {draws} with the {cases_today} there are."


def _rate_json(rate: Rate) -> dict[str, object]:
    interval, span = rate.interval, rate.range
    return {
        "rate": round(rate.value, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "runs": rate.runs,
        "range": None if span is None else {"low": round(span.low, 4), "high": round(span.high, 4)},
    }


def _drops_json(drops: Iterable[tuple[float, Rate]]) -> list[dict[str, object]]:
    return [{"drop": drop, **_rate_json(rate)} for drop, rate in drops]
