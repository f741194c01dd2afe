"""What is done with refinement runs that are over: list, show, apply, take back, check."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._terminal import echo, short
from regauge.errors import UsageError
from regauge.project import Project
from regauge.prompts import find_prompt
from regauge.refine import (
    apply_run,
    commit_on_branch,
    current_branch,
    find_refinement,
    headline,
    list_refinements,
    push,
    read_trail,
    reject,
    remote_address,
    roll_back,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from regauge.refine import Run

__all__ = ["RUN_COMMANDS", "applied", "branched", "reviewed"]


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_command(*, as_json: bool) -> None:
    """List the runs, the newest first."""
    runs = list_refinements(Project.find())
    if as_json:
        click.echo(json.dumps([{"run": run.id, **run.facts()} for run in runs], indent=1))
        return
    if not runs:
        echo("no prompt was refined here yet: regauge refine NAME")
    for run in runs:
        facts = run.facts()
        said = (facts.get(name, "") for name in ("prompt", "status", "stop"))
        echo("  ".join([run.id, *(str(word) for word in said if word)]))


@click.command(name="show")
@click.argument("name", metavar="RUN")
@click.option("--trail", is_flag=True, help="Every decision, out of the audit trail.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def show_command(name: str, *, trail: bool, as_json: bool) -> None:
    """Show why a run proposes what it does. RUN: an id, its beginning, `latest`, or a prompt."""
    run = find_refinement(Project.find(), name)
    if trail:
        _show_trail(run, as_json=as_json)
        return
    if not run.result.is_file():
        raise UsageError(
            f"run {run.id} is not over\n  fix: regauge refine resume {run.id}, or --trail"
        )
    source = run.result if as_json else run.markdown
    echo(source.read_text(encoding="utf-8").rstrip())


@click.command(name="diff")
@click.argument("name", metavar="RUN")
def diff_command(name: str) -> None:
    """Show what a run changes of the prompt's file, as a patch."""
    run = find_refinement(Project.find(), name)
    if run.diff.is_file():
        click.echo(run.diff.read_text(encoding="utf-8"), nl=False)
    else:
        echo(f"run {run.id} proposes no change")


@click.command(name="apply")
@click.argument("name", metavar="RUN")
def apply_command(name: str) -> None:
    """Write what a run proposes into the prompt's file, and its version into prompts.lock."""
    project = Project.find()
    applied(project, find_refinement(project, name), echo)


@click.command(name="rollback")
@click.argument("name", metavar="RUN")
def rollback_command(name: str) -> None:
    """Put back what a run replaced."""
    project = Project.find()
    run = find_refinement(project, name)
    changed = roll_back(run, find_prompt(_prompt(run), root=project.root))
    run.note(status="rolled-back")
    echo(f"took back run {run.id}: {', '.join(str(short(path)) for path in changed)}")


@click.command(name="verify")
@click.argument("name", metavar="RUN")
def verify_command(name: str) -> None:
    """Check that nobody changed a run's audit trail."""
    run = find_refinement(Project.find(), name)
    events = read_trail(run.trail)
    echo(f"{run.id}: {len(events)} events, chain whole, last {events[-1].digest[:12]}")


RUN_COMMANDS = (
    list_command,
    show_command,
    diff_command,
    apply_command,
    rollback_command,
    verify_command,
)


def applied(project: Project, run: Run, say: Callable[[str], None]) -> None:
    """Write a run's proposal."""
    changed = apply_run(run, find_prompt(_prompt(run), root=project.root))
    run.note(status="applied")
    say(f"wrote {', '.join(str(short(path)) for path in changed)}")
    say(f"  take it back: regauge refine rollback {run.id}")


def reviewed(project: Project, run: Run, result: Mapping[str, Any]) -> bool:
    """Ask a person for every edit; True when all are wanted.

    What was verified is all of them together, so one that is not wanted takes the rest along: it
    is remembered, and the next run looks for another.
    """
    refused = [
        number
        for number, change in enumerate(result["changes"])
        if not click.confirm(
            f"{number + 1}. {change['strategy']} for {change['check']}: take it?", err=True
        )
    ]
    if refused:
        reject(project, run, refused)
        click.echo("  not taken; the next run looks for another edit", err=True)
    return not refused


def branched(
    project: Project,
    run: Run,
    result: Mapping[str, Any],
    *,
    name: str,
    pr: bool,
    say: Callable[[str], None],
) -> None:
    """Commit a run's proposal on a branch of its own, and open a pull request where asked to."""
    path = find_prompt(_prompt(run), root=project.root)
    note = str(result["revision"]["note"]) or "Revise the prompt"
    title = f"{result['prompt']}: {note[0].lower()}{note[1:]}"
    branch = commit_on_branch(run, path, name=name, message=f"{title}\n\n{headline(result)}\n")
    run.note(branch=branch.name, commit=branch.commit)
    say(f"committed {branch.commit[:9]} on branch {branch.name}")
    if not pr:
        say(f"  push it: git push origin {branch.name}")
        return
    _pulled(project, run, path, branch.name, title=title, say=say)


def _pulled(
    project: Project, run: Run, path: Path, branch: str, *, title: str, say: Callable[[str], None]
) -> None:
    """Push a branch and open a pull request into the branch the run began on."""
    from regauge.github import GitHub, repo_of_remote

    base = (
        current_branch(path)
        or os.environ.get("GITHUB_HEAD_REF")
        or project.settings.gate.ref.removeprefix("origin/")
    )
    repo = os.environ.get("GITHUB_REPOSITORY") or repo_of_remote(remote_address(path))
    try:
        github = GitHub.from_environ(os.environ, repo=repo, say=say)
    except UsageError as error:
        raise UsageError(
            f"the branch is there, but no pull request: {str(error).splitlines()[0]}\n"
            f"  fix: git push origin {branch} && gh pr create --head {branch} --base {base}"
            f" --title {shlex.quote(title)} --body-file {short(run.markdown)}"
        ) from error
    with github:
        push(path, branch)
        body = run.markdown.read_text(encoding="utf-8")
        posted = github.open_pull_request(head=branch, base=base, title=title, body=body)
    run.note(pull_request=posted.url)
    say(f"pull request {posted.url}")


def _show_trail(run: Run, *, as_json: bool) -> None:
    for event in read_trail(run.trail):
        if as_json:
            click.echo(json.dumps({"seq": event.seq, "kind": event.kind, "body": event.body}))
            continue
        if event.kind == "began":
            echo(f"0 began: {event.body['prompt']} {event.body['version']}")
            continue
        state = event.body["state"]
        echo(f"{event.seq} {event.body['observation']['kind']} -> {state['phase']}", bold=True)
        for decision in event.body["decisions"]:
            echo(f"    {decision['event']}: {decision['text']}")


def _prompt(run: Run) -> str:
    return str(run.facts()["prompt"])
