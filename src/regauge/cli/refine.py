"""`regauge refine`: propose the smallest revision that repairs what fails."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._evals import with_evals
from regauge.cli._refine_runs import RUN_COMMANDS, applied, branched, reviewed
from regauge.cli._terminal import echo
from regauge.errors import UsageError
from regauge.project import Project
from regauge.refine import (
    CUT_OFF,
    Refinement,
    RunOptions,
    begin_run,
    find_refinement,
    headline,
    only_one,
    recall,
    remember_status,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.refine import Note, Run, State
    from regauge.runner import EvalSession

__all__ = ["command"]

_EPILOG = """\
\b
Exit codes: 0 a revision or "no change proposed", 2 wrong use or a faulty file, 3 it could not
go on (a provider, the budget), 130 Ctrl-C. What was cut off goes on with `regauge refine resume`.

\b
Examples:
  regauge refine alert-severity            propose; the prompt's file is left alone
  regauge refine alert-severity --estimate
  regauge refine alert-severity --apply    write the file, its version and prompts.lock
  regauge refine alert-severity --branch   commit the proposal on a branch of its own
  regauge refine show latest
"""
_STYLES = {"accepted": "green", "confirmed": "green", "rolled-back": "red", "refuted": "red"}


class _RefineGroup(click.Group):
    """Takes a prompt's name where no subcommand is named: that runs the loop."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in {"-h", "--help"}:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "NAME [OPTIONS] | COMMAND RUN")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.commands["run"].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(name="refine", cls=_RefineGroup, epilog=_EPILOG)
def command() -> None:
    """Propose the smallest revision of a prompt that repairs what fails and breaks nothing.

    The loop finds what fails reproducibly, asks proposers for small edits, tests each on trials of
    its own, and lets the gate compare the result with the prompt as it was, on all cases and on
    trials that chose nothing. Where no edit is justified, none is proposed.
    """


@command.command(name="run", epilog=_EPILOG)
@click.argument("prompt", metavar="NAME")
@click.option("--max-cycles", type=click.IntRange(min=1), help="Rounds of edit and test.")
@click.option("--max-calls", type=click.IntRange(min=1), help="Calls of the prompt's model.")
@click.option("--max-model-calls", type=click.IntRange(min=0), help="Calls of the refiner model.")
@click.option("--budget-usd", type=click.FloatRange(min=0), help="What the run may cost.")
@click.option("--model", metavar="ID", help="Ask provider:model in place of the prompt's.")
@click.option("--refiner-model", metavar="ID", help="Who criticises and proposes.")
@click.option("--proposers", metavar="A,B", help="Who is asked for edits, the cheapest first.")
@click.option("--strategy", "strategies", multiple=True, help="Only edits of this kind.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Another one, other trials.")
@click.option("--show-goldens", is_flag=True, help="Let proposers see what train cases expect.")
@click.option("--tracked", is_flag=True, help="Count cases that are only tracked, too.")
@click.option("--forget", is_flag=True, help="Leave out what earlier runs found.")
@click.option("--estimate", "--dry-run", "dry_run", is_flag=True, help="Say what it would take.")
@click.option("--apply", "apply_it", is_flag=True, help="Write the proposal into the file.")
@click.option("--interactive", is_flag=True, help="Ask for every edit, then write the file.")
@click.option("--branch", is_flag=False, flag_value="", help="Commit the proposal on a branch.")
@click.option("--pr", is_flag=True, help="Open a pull request from that branch.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@click.option("--record", type=click.Choice(["none", "missing"]), default="missing", hidden=True)
@click.option("--concurrency", metavar="N|auto", help="Requests in flight at once.")
@click.option("--evals", "path", type=click.Path(path_type=Path), help="Where evals are.")
def run_command(
    prompt: str,
    *,
    path: Path | None,
    apply_it: bool,
    interactive: bool,
    branch: str | None,
    pr: bool,
    dry_run: bool,
    forget: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Refine the prompt NAME."""
    project = Project.find()
    asked = _options(project, options)
    finished: list[Mapping[str, Any]] = []

    def act(evals: EvalSession) -> None:
        memory = None if forget else partial(recall, project, prompt)
        refinement = Refinement(evals, evals.plan.cases, asked, memory)
        _say_estimate(refinement, as_json=as_json, alone=dry_run)
        if dry_run:
            evals.close()
            return
        facts: dict[str, Any] = {
            "command": ["regauge", *sys.argv[1:]],
            "evals": str(path or ""),
            "words": _words(asked, options),
            "file": str(project.relative(refinement.subject.prompt.path)),
            "options": asked.to_json(),
        }
        run = begin_run(project, prompt, facts)
        finished.append(_conducted(evals, refinement, run, refinement.run, as_json=as_json))

    with nullcontext() if dry_run else only_one(project, prompt, ""):
        with_evals(
            project,
            path or project.root / "evals",
            act,
            prompts=[prompt],
            options=_words(asked, options),
            draw=False,
        )
    if finished:
        _after(
            project,
            finished[0],
            apply_it=apply_it,
            interactive=interactive,
            branch="" if pr and branch is None else branch,
            pr=pr,
            as_json=as_json,
        )


@command.command(name="resume", epilog=_EPILOG)
@click.argument("name", metavar="RUN")
@click.option("--budget-usd", type=click.FloatRange(min=0), help="What it may cost from here on.")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
def resume_command(name: str, *, budget_usd: float | None, as_json: bool) -> None:
    """Go on where a run was cut off; nothing it paid for is paid again."""
    project = Project.find()
    run = find_refinement(project, name)
    facts = run.facts()
    prompt = str(facts["prompt"])
    words = [str(word) for word in facts["words"]]
    if budget_usd is not None:
        words = [word for word in words if not word.startswith("--budget-usd=")]
        words.append(f"--budget-usd={budget_usd}")
    finished: list[Mapping[str, Any]] = []

    def act(evals: EvalSession) -> None:
        options = RunOptions.from_json(facts["options"])
        if budget_usd is not None:
            options = replace(options, usd=None)  # what this sitting may cost is kept elsewhere
        refinement = Refinement(evals, evals.plan.cases, options)
        finished.append(_conducted(evals, refinement, run, refinement.resume, as_json=as_json))

    with only_one(project, prompt, run.id):
        with_evals(
            project,
            Path(facts["evals"]) if facts.get("evals") else project.root / "evals",
            act,
            prompts=[prompt],
            options=words,
            draw=False,
        )
    _after(project, finished[0], as_json=as_json)


def _options(project: Project, given: Mapping[str, Any]) -> RunOptions:
    """What the command line says, else the project."""
    settings = project.settings.refine
    proposers = given["proposers"]
    return RunOptions(
        proposers=tuple(name.strip() for name in proposers.split(",") if name.strip())
        if proposers
        else tuple(settings.proposers),
        model=given["refiner_model"] or settings.model or "",
        cycles=given["max_cycles"] or settings.max_cycles,
        calls=given["max_calls"] or settings.max_calls,
        model_calls=settings.max_model_calls
        if given["max_model_calls"] is None
        else given["max_model_calls"],
        usd=settings.budget_usd if given["budget_usd"] is None else given["budget_usd"],
        seed=given["seed"],
        frozen=tuple(settings.frozen),
        show_goldens=given["show_goldens"] or settings.show_goldens,
        strategies=given["strategies"],
        tracked=given["tracked"],
    )


def _words(asked: RunOptions, given: Mapping[str, Any]) -> list[str]:
    """Options of the plugin."""
    said = {
        "record": given["record"],
        "model": given["model"],
        "budget-usd": asked.usd,
        "concurrency": given["concurrency"],
    }
    return [f"--{name}={value}" for name, value in said.items() if value is not None]


def _conducted(
    evals: EvalSession,
    refinement: Refinement,
    run: Run,
    perform: Callable[[Run, Callable[[Note], None]], State],
    *,
    as_json: bool,
) -> Mapping[str, Any]:
    """Run, and write down what came of it."""
    if not as_json:
        click.echo(f"run {run.id}", err=True)

    def listen(note: Note) -> None:
        if not as_json:
            echo(f"  {note.event}: {note.text}", style=_STYLES.get(note.event, ""), err=True)

    try:
        state = perform(run, listen)
    finally:
        evals.close()
    today = datetime.now(UTC).date().isoformat()
    result = refinement.finish(run, state, date=today)
    remember_status(run, state)
    return result


def _say_estimate(refinement: Refinement, *, as_json: bool, alone: bool) -> None:
    about = refinement.estimate()
    if as_json:
        if alone:
            click.echo(json.dumps(about.to_json()))
        return

    def cost(calls: int) -> str:
        if about.call_usd is None:
            return "cost unknown (no price declared)"
        return f"about ${calls * about.call_usd:.2f}" if about.call_usd else "free"

    name = refinement.subject.prompt.name
    calls = f"first look {about.first_look} calls, one repair {about.one_repair}"
    echo(f"{name}: {about.train} cases to learn of, {about.holdout} held out", err=not alone)
    echo(f"{calls}, at most {about.most}: {cost(about.most)}", err=not alone)


def _after(
    project: Project,
    result: Mapping[str, Any],
    *,
    apply_it: bool = False,
    interactive: bool = False,
    branch: str | None = None,
    pr: bool = False,
    as_json: bool,
) -> None:
    """Show what came of a run, and do with the proposal what was asked for."""
    run = find_refinement(project, str(result["run"]))
    proposed = result["revision"] is not None
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False, indent=1))
    else:
        if result["found"]:
            # Where nothing was measured, there is nothing to report but why.
            echo(run.markdown.read_text(encoding="utf-8").rstrip())
            echo()
        echo(headline(result), bold=True)
    say: Callable[[str], None] = lambda line: echo(line, err=as_json)  # noqa: E731 - one option
    if proposed:
        wanted = apply_it
        if interactive:
            wanted = reviewed(project, run, result)
        if wanted:
            applied(project, run, say)
        if branch is not None:
            branched(project, run, result, name=branch, pr=pr, say=say)
        if not wanted and branch is None and not as_json:
            say(f"  apply it: regauge refine apply {run.id}")
    _leave(run, str(result["stop"]["reason"]))


def _leave(run: Run, reason: str) -> None:
    if reason == "budget-too-small":
        raise UsageError(
            "the budget does not pay for one repair, so nothing was asked\n"
            "  fix: raise --max-calls; `--estimate` says what it takes"
        )
    if reason in CUT_OFF:
        click.echo(f"  go on: regauge refine resume {run.id}", err=True)
        click.get_current_context().exit(130 if reason == "interrupted" else 3)


def _commands(found: Sequence[click.Command]) -> None:
    for one in found:
        command.add_command(one)


_commands(RUN_COMMANDS)
