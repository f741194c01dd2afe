"""`regauge power`: what the gate can find with the cases there are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regauge.cli._options import FiniteRange
from regauge.cli._terminal import echo
from regauge.errors import UsageError
from regauge.gate import Target, cases_needed, first_draws_needed, operating_line, policy_of
from regauge.gate.baselines import baseline_path, load_baseline
from regauge.maintenance.baselines import no_baseline
from regauge.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.gate import Count, GatePolicy, OperatingLine, Rate
    from regauge.gate.baselines import Baseline

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge power                            every prompt that has a baseline
  regauge power alert-severity --drop 0.02 --power 0.8
  regauge power alert-severity --cases 200

Exit codes: 0 done, 2 wrong use or a faulty file.
"""
_MOST_CASES = 3_000


@click.command(name="power", epilog=_EPILOG)
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option(
    "--baseline",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A baseline to use instead of the committed one.",
)
@click.option(
    "--cases",
    type=click.IntRange(1, _MOST_CASES),
    metavar="N",
    help="Simulate N cases like those of the baseline.",
)
@click.option(
    "--drop",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    metavar="RATE",
    help="Print what detecting this loss in every case takes, such as 0.02.",
)
@click.option(
    "--power",
    "wanted",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    metavar="RATE",
    help="Wanted sensitivity for --drop.",
)
@click.option("--seed", type=click.IntRange(0), default=0, metavar="N", help="Random seed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    prompts: tuple[str, ...],
    *,
    file: Path | None,
    cases: int | None,
    drop: float | None,
    wanted: float,
    seed: int,
    as_json: bool,
) -> None:
    """Simulate what the gate detects with the cases of PROMPTs, or of all prompts.

    From the baselines: false alarms, sensitivity to a broken case and to losses, and cost. It makes
    no calls.
    """
    project = Project.find()
    policy = policy_of(project.settings.gate)
    target = None if drop is None else Target(drop=drop, power=wanted, seed=seed)
    asked = _Asked(policy=policy, cases=cases, target=target, seed=seed)
    found = [_Power.of(baseline, asked) for baseline in _baselines(project, prompts, file)]
    if as_json:
        click.echo(json.dumps([one.to_json() for one in found], ensure_ascii=False, indent=2))
        return
    if not found:
        echo("there are no baselines yet: regauge baseline update")
    for one in found:
        for number, line in enumerate(one.lines()):
            echo(line, bold=not number)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is to be simulated."""

    policy: GatePolicy
    cases: int | None
    target: Target | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Power:
    """What was found for one prompt.

    Attributes:
        known: How many cases have trials of main.
        trials: Trials of main of the case that has fewest.
        needed_cases: How many cases like these find the drop so often; None if not asked, or if
            no number looked at is enough.
        needed_draws: How many first trials of these cases do.
    """

    prompt: str
    asked: _Asked
    known: int
    trials: int
    line: OperatingLine | None
    needed_cases: int | None = None
    needed_draws: int | None = None

    @classmethod
    def of(cls, baseline: Baseline, asked: _Asked) -> _Power:
        """Simulate the gate on one prompt's history."""
        kept = [case for history in baseline.histories for case in history.cases.values()]
        counts: list[Count] = [case.whole for case in kept if case.drawn]
        needed_cases = needed_draws = None
        if asked.target is not None:
            needed = cases_needed(counts, asked.policy, asked.target, at_most=_MOST_CASES)
            needed_cases = None if needed is None else needed.cases
            needed_draws = first_draws_needed(counts, asked.policy, asked.target)
        return cls(
            prompt=baseline.prompt,
            asked=asked,
            known=len(counts),
            trials=min((count.trials for count in counts), default=0),
            line=operating_line(
                counts,
                asked.policy,
                seed=asked.seed,
                cells=sum(len(case.checks) for case in kept if case.drawn),
                cases=asked.cases,
            ),
            needed_cases=needed_cases,
            needed_draws=needed_draws,
        )

    def lines(self) -> Iterator[str]:
        """What people read; the first line names the prompt."""
        if self.line is None:
            yield f"{self.prompt}: no trial of main is known yet"
            yield f"  regauge baseline update {self.prompt}"
            return
        cases = "1 case" if self.known == 1 else f"{self.known} cases"
        trials = "1 trial" if self.trials == 1 else f"{self.trials} trials"
        yield f"{self.prompt}: {cases} with at least {trials} of main each"
        yield from (f"  {line}" for line in str(self.line).splitlines())
        yield f"  An unchanged prompt costs {self.line.calls_per_case:.2f} calls per case."
        full = self.asked.policy.baseline_trials_of(self.known)
        if self.trials < full:
            yield (
                f"  The baseline is not complete: {self.trials} of {full} trials; "
                f"regauge baseline update {self.prompt}"
            )
        if self.asked.target is not None:
            yield f"  {self._needs(self.asked.target)}"

    def to_json(self) -> dict[str, object]:
        """The same for programs; rates between 0 and 1."""
        line = self.line
        document: dict[str, object] = {
            "prompt": self.prompt,
            "cases_known": self.known,
            "trials_of_main": self.trials,
        }
        if line is not None:
            document |= {
                "cases": line.cases,
                "false_alarm": _rate_json(line.false_alarm),
                "one_broken": None if line.one_broken is None else _rate_json(line.one_broken),
                "drops": [{"drop": drop, **_rate_json(rate)} for drop, rate in line.drops],
                "flaky_drop": None if line.flaky_drop is None else _rate_json(line.flaky_drop),
                "calls_per_case": round(line.calls_per_case, 4),
                "first_draws": self.asked.policy.first_draws_of(line.cases),
                "next_step": None
                if line.step is None
                else {
                    "first_draws": line.step.first_draws,
                    "drops": [{"drop": drop, **_rate_json(rate)} for drop, rate in line.step.drops],
                    "calls_per_case": round(line.step.calls_per_case, 4),
                },
            }
        target = self.asked.target
        if target is not None:
            document["needed"] = {
                "drop": target.drop,
                "power": target.power,
                "cases": self.needed_cases,
                "first_draws": self.needed_draws,
            }
        return document

    def _needs(self, target: Target) -> str:
        drop, power = f"{100 * target.drop:g}-point drop", f"{100 * target.power:g}"
        cases = (
            f"more than {_MOST_CASES:,} cases"
            if self.needed_cases is None
            else f"about {self.needed_cases} cases"
        )
        said = f"To find a {drop} in {power} of 100 runs takes {cases} like these"
        if self.needed_draws is None:
            return f"{said}."
        if self.needed_draws == self.asked.policy.first_draws_of(self.known):
            return (
                f"The {self.known} cases there are find a {drop} in at least {power} of 100 runs."
            )
        return f"{said}, or first_draws = {self.needed_draws} with the {self.known} there are."


def _baselines(project: Project, prompts: tuple[str, ...], file: Path | None) -> Iterator[Baseline]:
    if file is not None and len(prompts) > 1:
        raise UsageError(
            f"--baseline is the file of one prompt, not of {len(prompts)}\n"
            f"  fix: regauge power {prompts[0]} --baseline {file}"
        )
    directory = project.fixtures_dir / "baselines"
    names = prompts or tuple(sorted(path.stem for path in directory.glob("[!.]*.json")))
    paths = [file] if file is not None else [baseline_path(project, name) for name in names]
    for path in paths:
        baseline = load_baseline(path, shown=project.relative(path))
        if baseline is None:
            raise no_baseline(project, path.stem)
        yield baseline


def _rate_json(rate: Rate) -> dict[str, object]:
    interval = rate.interval
    return {
        "rate": round(rate.value, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "runs": rate.runs,
        "range": None
        if rate.range is None
        else {"low": round(rate.range.low, 4), "high": round(rate.range.high, 4)},
    }
