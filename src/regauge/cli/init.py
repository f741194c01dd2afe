"""New files: `regauge init` writes a working set, `regauge new` one piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regauge.atomic import write_whole
from regauge.cli import Group
from regauge.cli._options import input_values
from regauge.cli._terminal import echo, short
from regauge.errors import UsageError
from regauge.gate import Count, operating_line, policy_of
from regauge.project import Project
from regauge.prompts import find_prompt, load_prompt
from regauge.scaffold import (
    WORKFLOWS,
    WorkflowContext,
    WorkflowHost,
    find_install,
    given_install,
    new_eval,
    new_judge,
    new_prompt,
    plan_working_set,
    refuse_blocked,
    workflow,
    write_planned,
)
from regauge.scaffold._golden import append_case, redacted
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON
    from regauge.scaffold import NewFile, Planned

__all__ = ["init_command", "new_command"]

_INIT_EPILOG = """\
\b
Examples:
  regauge init
  regauge init --yes             no questions
  regauge init --dry-run --json  print what would be written
  regauge init --install "python -m pip install --require-hashes -r requirements.txt"

Exit codes: 0 done, 1 you answered no, 2 a file cannot be written.
"""
_WORDS = {"write": "wrote", "add": "added to", "keep": "left alone"}
_NO_INSTALL = """\
note: no workflows: `pip install regauge` would install whatever has that name on the day
  fix: pin regauge in a lock file or a requirements file with hashes, then run this command again;
       or regauge init --install "python -m pip install --require-hashes -r requirements.txt"\
"""
_PLANS = {"write": "write", "add": "add to", "keep": "leave alone"}


@click.command(name="init", epilog=_INIT_EPILOG)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("-n", "--dry-run", is_flag=True, help="Print what would be written.")
@click.option("--install", metavar="COMMAND", help="Command that installs regauge in workflows.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; do not ask.")
def init_command(*, yes: bool, dry_run: bool, install: str | None, as_json: bool) -> None:
    """Set up regauge here: a prompt, ten golden cases, an eval, workflows and settings.

    Existing files stay. `pytest evals` passes at once, with the simulated model. Workflows install
    regauge from the project's lock file, requirements with hashes, commit or path; without one, and
    without --install, they are not written.
    """
    root = Path.cwd()
    source = given_install(install) if install is not None else find_install(root)
    planned = plan_working_set(root, source)
    anything = any(one.action != "keep" for one in planned)
    if anything and not (yes or dry_run or as_json):
        for one in planned:
            echo(_planned_line(root, one, _PLANS))
        _confirm()
    done = planned if dry_run else write_planned(root, planned)
    if as_json:
        rows = [
            {"path": _shown(root, one), "action": one.action, "reason": one.reason} for one in done
        ]
        document = {"root": str(root), "dry_run": dry_run, "files": rows}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for one in done:
        style = "" if one.action == "keep" else "green"
        echo(_planned_line(root, one, _PLANS if dry_run else _WORDS), style=style)
    if source is None:
        echo(_NO_INSTALL, style="yellow")
    elif install is None:
        echo(f"workflows install regauge from {source.source}")
    if not dry_run:
        _say_gate(root, done)
        _say_next(root, anything=anything)


def _confirm() -> None:
    try:
        if not click.confirm("Write these files?", default=True):
            raise SystemExit(1)
    except click.Abort as error:
        # click raises the same for Ctrl-C.
        if isinstance(error.__context__, EOFError):
            click.echo(err=True)
            raise UsageError(
                "standard input ended before an answer; the directory is unchanged\n"
                "  fix: regauge init --yes writes the files, --dry-run only lists them"
            ) from error
        raise


def _say_gate(root: Path, done: Sequence[Planned]) -> None:
    """Print what a gate with the golden cases finds, and what more first trials find and cost."""
    written = [one.path for one in done if one.path.suffix == ".jsonl" and one.path.is_file()]
    cases = sum(len(path.read_bytes().splitlines()) for path in written)
    if not cases:
        return
    policy = policy_of(Project(root=root).settings.gate)
    trials = policy.baseline_trials_of(cases)
    # Until there is a baseline, cases count as if they had passed all of it.
    line = operating_line([Count(passed=trials, trials=trials)] * cases, policy, drops=(0.05, 0.1))
    echo()
    echo(f"gate:  {cases} cases, {policy.first_draws_of(cases)} trials of each at first")
    for words in str(line).splitlines():
        echo(f"       {words}")


def _say_next(root: Path, *, anything: bool) -> None:
    echo()
    if not anything:
        echo("nothing to do: everything is there")
    above = Project.find(root).root
    if above != root:
        echo(f"note: commands run here use the project in {above}", style="yellow")
    for note in WorkflowHost.of(root).notes:
        echo(f"note: {note}", style="yellow")
    echo("next:  pytest evals          answers are recorded in fixtures/recordings")
    echo("       git add -A && git commit")
    echo("       regauge doctor        says what is still missing")


def _planned_line(root: Path, one: Planned, words: dict[str, str]) -> str:
    reason = f" ({one.reason})" if one.reason else ""
    return f"{words[one.action]:11} {_shown(root, one)}{reason}"


def _shown(root: Path, one: Planned) -> str:
    return one.path.relative_to(root).as_posix()


_NEW_EPILOG = """\
\b
Examples:
  regauge new prompt alert-severity
  regauge new eval alert-severity
  regauge new case ticket-kind slow-page -i ticket=@mail.txt --expected '{"kind": "bug"}'
  regauge new judge tone
  regauge new workflow evals

Exit codes: 0 written, 2 wrong use, or it is there already.
"""
_AFTER_EVALS = ("comment", "refine")
_OPEN_PULL_REQUESTS = ("baseline", "refine")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(name="new", cls=Group, epilog=_NEW_EPILOG)
def new_command() -> None:
    """Create a prompt, case, eval, rubric or workflow from a template."""


@new_command.command(name="prompt", epilog=_NEW_EPILOG)
@click.argument("name")
@_json
def prompt_command(name: str, *, as_json: bool) -> None:
    """Write prompts/NAME.prompt.yml."""
    project = Project.find()
    _write(project, new_prompt(name, project.root), as_json=as_json)
    if not as_json:
        echo(f"  next: say what it does, then regauge bump {name} and regauge new eval {name}")


@new_command.command(name="judge", epilog=_NEW_EPILOG)
@click.argument("name")
@_json
def judge_command(name: str, *, as_json: bool) -> None:
    """Write prompts/judges/NAME.prompt.yml, a rubric for a judge that asks a model."""
    project = Project.find()
    _write(project, new_judge(name, project.root), as_json=as_json)
    if not as_json:
        echo(f'  next: say what passes, then regauge bump {name}; in an eval: rubric("{name}")')


@new_command.command(name="eval", epilog=_NEW_EPILOG)
@click.argument("name")
@_json
def eval_command(name: str, *, as_json: bool) -> None:
    """Write evals/test_NAME.py, an eval of prompt NAME."""
    project = Project.find()
    prompt = load_prompt(find_prompt(name))
    _write(project, [new_eval(prompt)], as_json=as_json)
    if not as_json:
        echo("  next: choose judges (regauge judges lists them), then pytest evals")


@new_command.command(name="workflow", epilog=_NEW_EPILOG)
@click.argument("name", type=click.Choice(WORKFLOWS))
@click.option("--install", metavar="COMMAND", help="Command that installs regauge in it.")
@_json
def workflow_command(name: str, *, install: str | None, as_json: bool) -> None:
    """Create a workflow of GitHub Actions.

    evals: replay and gate. comment: comment the decision. baseline: update baselines nightly.
    refine: propose fixes as pull requests.
    """
    project = Project.find()
    source = given_install(install) if install is not None else find_install(project.root)
    if source is None:
        raise UsageError(
            "nothing in this project pins regauge, so the workflow would install whatever has"
            " that name on the day\n"
            "  fix: add regauge to a lock file or to a requirements file with hashes, or name the"
            f" command: regauge new workflow {name} --install"
            ' "python -m pip install --require-hashes -r requirements.txt"'
        )
    repository = WorkflowHost.of(project.root)
    context = WorkflowContext.of_project(project, repository=repository, install=source)
    written = workflow(name, context)
    _write(project, [written], as_json=as_json, fix="move it away, or change it by hand")
    notes = repository.notes
    if name in _AFTER_EVALS and not (project.root / written.path).with_name("evals.yml").exists():
        notes.append(
            "it waits for a workflow `evals`, and there is none: regauge new workflow evals"
        )
    for note in notes:
        click.secho(f"note: {note}", fg="yellow", err=True)
    if as_json:
        return
    if install is None:
        echo(f"  it installs regauge from {source.source}")
    if name in _OPEN_PULL_REQUESTS:
        echo("  next: in the settings of the repository, let Actions create pull requests")
    if name != "comment":
        echo(f"  next: add secrets to the repository: {', '.join(context.keys)}")


@new_command.command(name="case", epilog=_NEW_EPILOG)
@click.argument("name")
@click.argument("case_id", metavar="ID")
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="INPUT=VALUE",
    help="NAME=TEXT, NAME=@FILE or NAME:=JSON; repeatable.",
)
@click.option("--expected", metavar="JSON", help="The expected value: JSON, or text.")
@click.option("--tier", type=click.Choice(["critical", "required", "tracked"]))
@_json
def case_command(
    name: str,
    case_id: str,
    *,
    inputs: tuple[str, ...],
    expected: str | None,
    tier: str | None,
    as_json: bool,
) -> None:
    """Add a case to the golden dataset of prompt NAME; keys and other secrets are taken out."""
    project = Project.find()
    document: dict[str, JSON] = {"id": case_id, "inputs": input_values(inputs, option="--input")}
    if expected is not None:
        document["expected"] = _value(expected)
    if tier is not None:
        document["tier"] = tier
    document = redacted(project, document)
    path, line = append_case(project, name, document)
    shown = project.relative(path).as_posix()
    if as_json:
        click.echo(json.dumps({"path": shown, "line": line, "case": document}, ensure_ascii=False))
    else:
        echo(f"added {case_id} to {shown}:{line}", style="green")


def _value(text: str) -> JSON:
    try:
        value: JSON = read_json(text)
    except ValueError:
        return text
    return value


def _write(
    project: Project,
    pieces: Sequence[NewFile],
    *,
    as_json: bool,
    fix: str = "choose another name",
) -> None:
    paths = [project.root / piece.path for piece in pieces]
    for path in paths:
        if path.exists() or path.is_symlink():
            raise UsageError(f"{short(path)} is there already\n  fix: {fix}")
    for piece in pieces:
        refuse_blocked(project.root, piece.path)
    for path, piece in zip(paths, pieces, strict=True):
        try:
            write_whole(path, piece.text.encode())
        except OSError as error:
            raise UsageError(
                f"{short(path)} cannot be written: {error.strerror or error}\n"
                "  fix: give write permission, then run the command again"
            ) from error
    if as_json:
        click.echo(json.dumps({"written": [piece.path for piece in pieces]}, indent=2))
    else:
        for path in paths:
            echo(f"wrote {short(path)}", style="green")
