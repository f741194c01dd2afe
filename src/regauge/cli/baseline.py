"""`regauge baseline`: fill and show what main is known for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regauge.cli import Group
from regauge.cli._options import FiniteRange
from regauge.cli._terminal import Meter, echo
from regauge.errors import UnmeasuredError
from regauge.gate import policy_of
from regauge.gate.baselines import SESSIONS, TopUpPolicy, baseline_path, load_baseline
from regauge.maintenance.baselines import BaselineUpdate, history_json, history_lines, no_baseline
from regauge.maintenance.collection import with_evals
from regauge.project import Project

if TYPE_CHECKING:
    from regauge.gate.baselines import Baseline
    from regauge.runner import EvalSession

__all__ = ["command"]

_APART_MAX_H = 24 * 366
_EPILOG = """\
\b
Examples:
  regauge baseline update                  top up the baselines of all prompts
  regauge baseline update alert-severity --dry-run
  regauge baseline update --redraw 1       and hold complete ones against today
  regauge baseline show alert-severity

Exit codes: 0 done, 1 main passes less often than before, 2 wrong use or a faulty file,
3 unmeasured.
"""


@click.group(name="baseline", cls=Group, epilog=_EPILOG)
def command() -> None:
    """Fill and show baselines: how often main passes each golden case.

    The gate compares a change with them. They are committed: fixtures/baselines/NAME.json.
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
    help="Hold complete histories against N fresh trials of each case.",
)
@click.option("--dry-run", is_flag=True, help="Print the calls and their cost, and make none.")
@click.option("--model", metavar="ID", help="Ask provider:model in place of every prompt's.")
@click.option(
    "--record",
    type=click.Choice(["none", "missing"]),
    default="missing",
    show_default=True,
    help="none: use only answers that the local store has.",
)
@click.option("--concurrency", metavar="N|auto", help="Requests in flight at once.")
@click.option("--budget-usd", type=FiniteRange(min=0), help="What it may cost.")
@click.option(
    "--sessions-apart",
    type=FiniteRange(min=0, max=_APART_MAX_H),
    default=1.0,
    show_default=True,
    metavar="HOURS",
    help="How long after the last session the next may begin.",
)
@click.option(
    "--force-session",
    is_flag=True,
    help="Start a session at once, for models whose answers do not change from day to day.",
)
@click.option("--issue", is_flag=True, help="Open an issue on GitHub if a case passes less often.")
@click.option("--json", "as_json", is_flag=True, help="What was done and found, as JSON.")
@click.option(
    "--evals",
    "path",
    type=click.Path(path_type=Path),
    help="Where evals are; `evals` of the project by default.",
)
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
    """Top up the baselines of PROMPTs, or of all prompts, with fresh trials of main.

    Run it on the default branch, after merges and once a night: a baseline is complete with 12
    trials of each case from 3 sessions, or more where there are fewer than 17 cases. Trials
    that evals or the gate made never count. While the baseline of a new version fills, it is
    compared with that of the version before.

    With --redraw, fresh trials say whether main still fares as a complete history tells. They count
    nowhere. Where it surely does not, the model or a judge changed, and a new history begins.

    Each version is also compared with an old one, the anchor: the last release of a new major
    version, or what `anchor` of [tool.regauge.gate] names. Where it seems worse, the anchor is run
    again next to it.

    Exits with 1 when the base is worse than the version before, the anchor or its own history; with
    3 when trials could not be measured; what was measured is kept.
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
@click.option("--all", "every", is_flag=True, help="Show cases that always pass, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show(prompts: tuple[str, ...], *, every: bool, as_json: bool) -> None:
    """Show the baselines of PROMPTs, or all: per case how many trials of main passed.

    Flaky cases are measured, not declared: a case is flaky when its trials make it more than 95 %
    sure that main passes it between 5 and 95 times of 100.
    """
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
