"""`regauge new`: the least that loads, to be filled in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from regauge.atomic import write_whole
from regauge.cli._golden_append import append_case, redacted
from regauge.cli._group import Group
from regauge.cli._input_values import input_values
from regauge.cli._terminal.text import echo, short
from regauge.errors import UsageError
from regauge.project import Project
from regauge.prompts import find_prompt, load_prompt
from regauge.scaffold import (
    WORKFLOWS,
    Repository,
    new_eval,
    new_judge,
    new_prompt,
    new_workflow,
    refuse_blocked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON
    from regauge.scaffold import Piece

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge new prompt alert-severity
  regauge new eval alert-severity
  regauge new case ticket-kind slow-page -i ticket=@mail.txt --expected '{"kind": "bug"}'
  regauge new judge tone
  regauge new workflow baseline

Exit codes: 0 written, 2 wrong use, or it is there already.
"""
_json = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@click.group(name="new", cls=Group, epilog=_EPILOG)
def command() -> None:
    """Write a prompt, a case, an eval, a judge or a workflow; nothing is overwritten."""


@command.command(name="prompt", epilog=_EPILOG)
@click.argument("name")
@_json
def prompt_command(name: str, *, as_json: bool) -> None:
    """Write prompts/NAME.prompt.yml."""
    project = Project.find()
    _write(project, new_prompt(name, project.root), as_json=as_json)
    if not as_json:
        echo(f"  next: say what it does, then regauge bump {name} and regauge new eval {name}")


@command.command(name="judge", epilog=_EPILOG)
@click.argument("name")
@_json
def judge_command(name: str, *, as_json: bool) -> None:
    """Write prompts/judges/NAME.prompt.yml, a rubric for a judge that asks a model."""
    project = Project.find()
    _write(project, new_judge(name, project.root), as_json=as_json)
    if not as_json:
        echo(f'  next: say what passes, then regauge bump {name}; in an eval: rubric("{name}")')


@command.command(name="eval", epilog=_EPILOG)
@click.argument("name")
@_json
def eval_command(name: str, *, as_json: bool) -> None:
    """Write evals/test_NAME.py, an eval of prompt NAME."""
    project = Project.find()
    prompt = load_prompt(find_prompt(name))
    _write(project, [new_eval(prompt)], as_json=as_json)
    if not as_json:
        echo("  next: choose judges (regauge judges lists them), then pytest evals")


@command.command(name="workflow", epilog=_EPILOG)
@click.argument("name", type=click.Choice(WORKFLOWS))
@_json
def workflow_command(name: str, *, as_json: bool) -> None:
    """Write a workflow of GitHub Actions beside those of `regauge init`.

    baseline draws fresh trials of main every night, for the gate to compare with. refine proposes
    a revision, as a pull request, of each prompt whose cases fail on main. Both open pull
    requests.
    """
    project = Project.find()
    repository = Repository.of(project.root)
    provider, key = _keyed(project)
    written = new_workflow(name, repository, provider=provider, key=key)
    _write(project, [written], as_json=as_json, fix="move it away, or change it by hand")
    notes = repository.notes
    if name == "refine" and not (project.root / written.path).with_name("evals.yml").exists():
        notes.append("it waits for a workflow `evals`, and there is none: regauge init writes it")
    for note in notes:
        click.secho(f"note: {note}", fg="yellow", err=True)
    if not as_json:
        echo("  next: in the settings of the repository, let Actions create pull requests;")
        echo(f"  and put the key of your model into its secrets, as {key}")


def _keyed(project: Project) -> tuple[str, str]:
    """The provider of the project's model and the variable with its key; else those of OpenAI."""
    provider = str(project.settings.model or "").partition(":")[0]
    declared = project.settings.providers.get(provider)
    key = declared.api_key_env if declared is not None else None
    return (provider, key) if key else ("openai", "OPENAI_API_KEY")


@command.command(name="case", epilog=_EPILOG)
@click.argument("name")
@click.argument("case_id", metavar="ID")
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="INPUT=VALUE",
    help="NAME=TEXT, NAME=@FILE or NAME:=JSON. Once for each input.",
)
@click.option("--expected", metavar="JSON", help="What judges compare with; a text as it is.")
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
        value: JSON = json.loads(text)
    except ValueError:
        return text
    return value


def _write(
    project: Project,
    pieces: Sequence[Piece],
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
