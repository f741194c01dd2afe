"""`regauge baseline`: show or update baselines, find flaky cases, simulate the gate."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from regauge.cli import Group
from regauge.cli._options import (
    FiniteRange,
    baseline_option,
    batch_options,
    dry_run_option,
    json_option,
    model_option,
    number_option,
    record_option,
    refuse_options,
    run_options,
    seed_option,
    trials_option,
)
from regauge.cli._terminal import Meter, echo, echo_json
from regauge.errors import UnmeasuredError, UsageError
from regauge.gate import SESSIONS, DetectableDrop, TopUpPolicy, policy_of
from regauge.gate.baselines import load_baseline
from regauge.maintenance.baseline_views import baseline_json, baseline_lines, no_baseline
from regauge.maintenance.baselines import BaselineUpdate
from regauge.maintenance.batches import BatchOptions
from regauge.maintenance.collection import is_partial, option_words, with_evals
from regauge.maintenance.gate_power import SIMULATED_MAX, GatePower
from regauge.model_id import parse_model_id
from regauge.project import TRIALS_MAX, Project
from regauge.refine.analysis import format_share, variance_of
from regauge.refine.trials import outcomes_of
from regauge.reports import progress_line
from regauge.runner import PlannedTrial, check_model
from regauge.stop_signals import run_stoppable
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from regauge.gate.baselines import Baseline
    from regauge.refine.analysis import Variance
    from regauge.runner import EvalSession


# A year; a longer gap between sessions is probably a typo.
_GAP_MAX_H = 24 * 366
_SHARE = FiniteRange(0, 1, min_open=True, max_open=True)


@click.group(name="baseline", cls=Group)
def command() -> None:
    """Show or update baselines, find flaky cases, simulate the gate.

    A baseline states how often the base passes each golden case. The gate reads it from
    fixtures/baselines/NAME.json: commit it.

    Examples:
      regauge baseline update                  update the baselines of all prompts
      regauge baseline update alert-severity --dry-run
      regauge baseline update --recheck 1      and re-check complete ones
      regauge baseline show alert-severity
      regauge baseline flaky alert-severity --trials 10
      regauge baseline simulate alert-severity --cases 200

    Exit codes: 0 done, 1 the base passes less often than before, 2 wrong use or a faulty file,
    3 unmeasured.
    """


@command.command(name="update")
@click.argument("prompts", nargs=-1, metavar="[PROMPT|FILE]...")
@trials_option(1, 100)
@batch_options
@number_option(
    "--recheck",
    click.IntRange(0, 10),
    "Re-check complete baselines with N new trials per case.",
    default=0,
)
@number_option(
    "--session-gap",
    FiniteRange(min=0, max=_GAP_MAX_H),
    "Hours between sessions.",
    default=1.0,
    metavar="HOURS",
)
@click.option(
    "--new-session", is_flag=True, help="Start a new session now, ignoring --session-gap."
)
@click.option("--issue", is_flag=True, help="Open an issue on GitHub if a case passes less often.")
@model_option()
@record_option("none", "missing", default="missing")
@dry_run_option
@run_options
@json_option
def update(
    prompts: tuple[str, ...],
    *,
    trials: int | None,
    batch: bool,
    collect: bool,
    no_submit: bool,
    recheck: int,
    session_gap: float,
    new_session: bool,
    issue: bool,
    record: str,
    dry_run: bool,
    path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Update the baselines of PROMPTs, by default all.

    It makes new trials of the base. Run it on the default branch, after merges and nightly. A
    baseline is complete with 12 trials per case from 3 sessions, or more for fewer than 17 cases.
    Each version is compared with the version before and with the anchor. `--record none` uses only
    the local store.

    Examples:
      regauge baseline update                  update the baselines of all prompts
      regauge baseline update alert-severity --dry-run
      regauge baseline update --recheck 1      and re-check complete ones

    Exit codes: 0 done, 1 the base passes less often than before, 2 wrong use or a faulty file,
    3 unmeasured.
    """
    project = Project.find()
    gate = policy_of(project.settings.gate)
    if batch or collect:
        refused = {"--recheck": recheck, "--record none": record == "none"}
        refuse_options(refused, "does not go with --batch and --collect", fix="run {option} alone")
    words = ["regauge", "baseline", "update"]
    words += option_words({"model": options.get("model"), "trials": trials})
    batches, prompts = BatchOptions.of_command(
        shlex.join(words), prompts, batch=batch, collect=collect, no_submit=no_submit
    )

    def policy(cases: int) -> TopUpPolicy:
        per_case = gate.baseline_trials_of(cases)
        return TopUpPolicy(
            complete_trials=per_case,
            per_session=trials or -(-per_case // SESSIONS),
            apart_h=session_gap,
            any_time=new_session,
        )

    options["record"] = "none" if dry_run else record
    print_line: Callable[[str], None] = (lambda _: None) if as_json else echo
    done = BaselineUpdate(
        project=project,
        policy=policy,
        recheck=recheck,
        dry_run=dry_run,
        print_line=print_line,
        meter=Meter,
        batch=batches,
        is_partial=is_partial(project, path),
    )
    with_evals(
        project,
        path,
        done.run,
        prompts=prompts,
        options=option_words(options),
        one_item_per_eval=True,
        warn=lambda text: print_line(f"warning: {text}"),
    )
    if as_json:
        echo_json(done.to_json())
    if done.worse and issue:
        from regauge.maintenance.baseline_views import open_baseline_issue

        print_aside = partial(click.echo, err=True)
        issue_comment = open_baseline_issue(done.to_json()["done"], on_wait=print_aside)
        click.echo(f"issue {issue_comment.outcome}: {issue_comment.url}", err=True)
    if done.worse:
        click.get_current_context().exit(1)
    if done.unmeasured:
        raise UnmeasuredError("\n".join(done.unmeasured))
    if done.pending:
        for line in done.pending if not as_json else ():
            click.echo(line)
        click.get_current_context().exit(UnmeasuredError.exit_code)


@command.command(name="show")
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option("--all", "all_cases", is_flag=True, help="Also show cases that always pass.")
@json_option
def show(prompts: tuple[str, ...], *, all_cases: bool, as_json: bool) -> None:
    """Show the baselines and flaky cases of PROMPTs, by default all.

    Examples:
      regauge baseline show
      regauge baseline show alert-severity --all

    Exit codes: 0 done, 2 wrong use or a faulty file.
    """
    project = Project.find()
    baselines = [*_baselines(project, prompts)]
    if as_json:
        documents = [
            baseline_json(project, baseline, stored_baseline)
            for baseline in baselines
            for stored_baseline in baseline.baselines
        ]
        echo_json(documents)
        return
    if not baselines:
        click.echo("there are no baselines yet: regauge baseline update")
    for baseline in baselines:
        for stored_baseline in baseline.baselines:
            title, *lines = baseline_lines(project, baseline, stored_baseline, all_cases=all_cases)
            echo(title, bold=True)
            for line in lines:
                echo(line)


_CASES_SHOWN = 8


@command.command(name="flaky")
@click.argument("prompt", metavar="NAME")
@trials_option(2, TRIALS_MAX, default=5)
@model_option()
@record_option("none", "missing", default="missing")
@dry_run_option
@run_options
@json_option
def flaky(
    prompt: str,
    *,
    trials: int,
    record: str,
    dry_run: bool,
    path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Report how often the results of prompt NAME repeat.

    Each case runs several times; stored trials are used first.

    Examples:
      regauge baseline flaky alert-severity
      regauge baseline flaky alert-severity --trials 10 --json

    Exit codes: 0 done, 2 wrong use or a faulty file, 3 unmeasured.
    """
    project = Project.find()
    if options["model"] is not None:  # a replay, as of --dry-run, does not check it
        check_model(project.settings, parse_model_id(options["model"]))
    options["record"] = "none" if dry_run else record

    def act(evals: EvalSession) -> None:
        cases = evals.plan.cases
        try:
            calls = sum(
                not evals.completions.has(case, PlannedTrial(case, number).key)
                for case in cases
                if case.error is None
                for number in range(trials)
            )
            if not dry_run:
                _measure_variance(evals, prompt, trials, calls, as_json=as_json)
            elif as_json:
                click.echo(json.dumps({"cases": len(cases), "trials": trials, "calls": calls}))
            else:
                count = plural(len(cases), "case")
                echo(f"{count}, {trials} trials each: {plural(calls, 'call')} to make")
        finally:
            evals.close()

    with_evals(project, path, act, prompts=[prompt], options=option_words(options))


def _measure_variance(
    evals: EvalSession, prompt: str, trials: int, calls: int, *, as_json: bool
) -> None:
    """Run the trials of all cases, and print how often results repeat.

    Args:
        calls: The number of trials without a completion.

    Raises:
        UnmeasuredError: Trials are missing.
    """
    evals.progress.start(calls)
    with Meter(lambda: progress_line(evals.progress, evals.budget)):
        outcomes, missing = run_stoppable(outcomes_of(evals, evals.plan.cases, trials))
    variance = variance_of(outcomes)
    if as_json:
        document = variance.to_json() if variance is not None else None
        click.echo(json.dumps({"prompt": prompt, "unmeasured": len(missing), "variance": document}))
    elif variance is not None:
        _print_variance(prompt, variance)
    if missing:
        raise UnmeasuredError(
            f"{plural(len(missing), 'trial')} could not be measured: {missing[0]}"
        )


def _print_variance(prompt: str, variance: Variance) -> None:
    echo(f"{prompt}: {plural(variance.cases, 'case')}, {variance.trials} trials", bold=True)
    echo("of two trials of one case")
    echo(f"  {format_share(variance.outputs):>4} give the same output")
    echo(f"  {format_share(variance.verdicts):>4} get the same verdicts")
    for name, check in variance.checks.items():
        line = (
            f"  {format_share(check.agreement):>4} {name}: passed {check.passed} of {check.trials}"
        )
        cases = first_of(check.unsteady, _CASES_SHOWN)
        echo(line + (f"; flaky: {cases}" if cases else ""))


@command.command(name="simulate")
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@baseline_option
@number_option(
    "--cases", click.IntRange(1, SIMULATED_MAX), "Simulate N cases like those of the baseline."
)
@number_option(
    "--drop",
    _SHARE,
    "Print what detecting this loss in every case takes, such as 0.02.",
    metavar="RATE",
)
@number_option("--power", _SHARE, "Wanted sensitivity for --drop.", default=0.8, metavar="RATE")
@seed_option
@json_option
def simulate(
    prompts: tuple[str, ...],
    *,
    baseline: Path | None,
    cases: int | None,
    drop: float | None,
    power: float,
    seed: int,
    as_json: bool,
) -> None:
    """Simulate what the gate detects with PROMPTs, by default all.

    From the baselines: false alarms, sensitivity to a broken case and to losses, and cost. It makes
    no calls.

    Examples:
      regauge baseline simulate                            every prompt that has a baseline
      regauge baseline simulate alert-severity --drop 0.02 --power 0.8
      regauge baseline simulate alert-severity --cases 200

    Exit codes: 0 done, 2 wrong use or a faulty file.
    """
    project = Project.find()
    policy = policy_of(project.settings.gate)
    target = None if drop is None else DetectableDrop(drop=drop, power=power, seed=seed)
    powers = [
        GatePower.simulate(saved, policy, target, cases=cases, seed=seed)
        for saved in _baselines(project, prompts, baseline)
    ]
    if as_json:
        echo_json([simulated.to_json() for simulated in powers])
        return
    if not powers:
        echo("there are no baselines yet: regauge baseline update")
    for simulated in powers:
        for number, line in enumerate(simulated.lines()):
            echo(line, bold=not number)


def _baselines(
    project: Project, prompts: tuple[str, ...], file: Path | None = None
) -> Iterator[Baseline]:
    if file is not None and len(prompts) > 1:
        command = ["regauge", "baseline", "simulate", prompts[0], "--baseline", str(file)]
        message = f"--baseline is the file of one prompt, not of {len(prompts)}"
        raise UsageError(message, fix=shlex.join(command))
    directory = project.fixtures_dir / "baselines"
    names = prompts or tuple(sorted(path.stem for path in directory.glob("[!.]*.json")))
    paths = [file] if file is not None else [project.baseline_path(name) for name in names]
    for path in paths:
        baseline = load_baseline(path, place=project.relative(path))
        if baseline is None:
            raise no_baseline(project, path.stem)
        yield baseline
