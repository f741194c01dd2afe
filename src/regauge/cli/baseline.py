"""`regauge baseline`: fill and show what main is known for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from regauge.cli import Group
from regauge.cli._options import FiniteRange, evals_option
from regauge.cli._terminal import Meter, echo
from regauge.errors import UnmeasuredError
from regauge.gate import policy_of
from regauge.gate.baselines import SESSIONS, TopUpPolicy, baseline_path, load_baseline
from regauge.maintenance.baselines import BaselineUpdate, history_json, history_lines, no_baseline
from regauge.maintenance.collection import with_evals
from regauge.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.gate.baselines import Baseline
    from regauge.runner import EvalSession

__all__ = ["command"]

_APART_MAX_H = 24 * 366
_EPILOG = """\
\b
Examples:
  regauge baseline update                  top up the baselines of all prompts
  regauge baseline update alert-severity --dry-run
  regauge baseline update --redraw 1       and re-check complete ones
  regauge baseline show alert-severity

Exit codes: 0 done, 1 the base passes less often than before, 2 wrong use or a faulty file,
3 unmeasured.
"""


@click.group(name="baseline", cls=Group, epilog=_EPILOG)
def command() -> None:
    """Update or show baselines: how often the base passes each golden case.

    They are committed as fixtures/baselines/NAME.json, for the gate.
    """


@command.command(name="update", epilog=_EPILOG)
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option(
    "--trials",
    type=click.IntRange(1, 100),
    help="Trials of each case in this session; a third of a complete baseline by default.",
)
@click.option(
    "--redraw",
    type=click.IntRange(0, 10),
    default=0,
    show_default=True,
    metavar="N",
    help="Re-check complete baselines with N new trials per case.",
)
@click.option("--dry-run", is_flag=True, help="Print planned calls and cost, then exit.")
@click.option("--model", metavar="ID", help="Run provider:model instead of the prompts' models.")
@click.option(
    "--record",
    type=click.Choice(["none", "missing"]),
    default="missing",
    show_default=True,
    help="none: use only the local store.",
)
@click.option("--concurrency", metavar="N|auto", help="Requests in flight at once.")
@click.option("--budget-usd", type=FiniteRange(min=0), help="Limit of the cost in US dollars.")
@click.option(
    "--sessions-apart",
    type=FiniteRange(min=0, max=_APART_MAX_H),
    default=1.0,
    show_default=True,
    metavar="HOURS",
    help="Hours between sessions.",
)
@click.option(
    "--force-session",
    is_flag=True,
    help="Start a new session now, ignoring --sessions-apart.",
)
@click.option("--issue", is_flag=True, help="Open an issue on GitHub if a case passes less often.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@evals_option
def update(
    prompts: tuple[str, ...],
    *,
    trials: int | None,
    redraw: int,
    dry_run: bool,
    model: str | None,
    record: str,
    concurrency: str | None,
    budget_usd: float | None,
    sessions_apart: float,
    force_session: bool,
    issue: bool,
    as_json: bool,
    path: Path | None,
) -> None:
    """Run new trials of the base for the baselines of PROMPTs, or of all prompts.

    Run it on the default branch, after merges and nightly. A baseline is complete with 12 trials
    per case from 3 sessions, or more for fewer than 17 cases. Each version is compared with the
    version before and with the anchor.

    Exits with 1 if the base is worse, and with 3 if trials could not be measured.
    """
    project = Project.find()
    gate = policy_of(project.settings.gate)

    def policy(cases: int) -> TopUpPolicy:
        wanted = gate.baseline_trials_of(cases)
        return TopUpPolicy(
            wanted=wanted,
            per_session=trials or -(-wanted // SESSIONS),
            apart_h=sessions_apart,
            any_time=force_session,
        )

    given = {
        "--record": "none" if dry_run else record,
        "--model": model,
        "--concurrency": concurrency,
        "--budget-usd": budget_usd,
    }
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    done = BaselineUpdate(
        project,
        policy,
        redraw=redraw,
        dry_run=dry_run,
        say=(lambda _: None) if as_json else echo,
        meter=Meter,
    )

    def act(evals: EvalSession) -> None:
        done.run(evals)

    with_evals(
        project, path or project.root / "evals", act, prompts=prompts, options=options, draw=False
    )
    if as_json:
        click.echo(json.dumps(done.to_json(), ensure_ascii=False, indent=2))
    if done.worse and issue:
        from regauge.maintenance.baselines import open_baseline_issue

        posted = open_baseline_issue(done.to_json()["done"], say=_say)
        click.echo(f"issue {posted.outcome}: {posted.url}", err=True)
    if done.worse:
        click.get_current_context().exit(1)
    if done.unmeasured:
        raise UnmeasuredError("\n".join(done.unmeasured))


@command.command(name="show", epilog=_EPILOG)
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option("--all", "every", is_flag=True, help="Also show cases that always pass.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(prompts: tuple[str, ...], *, every: bool, as_json: bool) -> None:
    """Show the baselines of PROMPTs, or of all prompts, with flaky cases."""
    project = Project.find()
    found = _baselines(project, prompts)
    if as_json:
        documents = [
            history_json(project, baseline, history)
            for baseline in found
            for history in baseline.histories
        ]
        click.echo(json.dumps(documents, ensure_ascii=False, indent=2))
        return
    if not found:
        click.echo("there are no baselines yet: regauge baseline update")
    for baseline in found:
        for history in baseline.histories:
            for line in history_lines(project, baseline, history, every=every):
                echo(line.text, bold=line.bold)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _baselines(project: Project, prompts: tuple[str, ...]) -> list[Baseline]:
    directory = project.fixtures_dir / "baselines"
    names = prompts or tuple(sorted(path.stem for path in directory.glob("[!.]*.json")))
    found: list[Baseline] = []
    for name in names:
        path = baseline_path(project, name)
        baseline = load_baseline(path, shown=project.relative(path))
        if baseline is None:
            raise no_baseline(project, name)
        found.append(baseline)
    return found
