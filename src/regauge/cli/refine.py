"""`regauge refine`: propose a small revision that fixes failing cases."""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.cli import Command
from regauge.cli._options import (
    apply_option,
    branch_option,
    budget_options,
    dry_run_option,
    json_option,
    model_option,
    number_option,
    pr_option,
    proposers_option,
    record_option,
    refiner_option,
    run_options,
    seed_option,
)
from regauge.cli._proposals import Delivery
from regauge.cli._refine_runs import RUN_COMMANDS, NamedRun, as_text, evals_of
from regauge.cli._terminal import Meter, echo
from regauge.errors import GitHubError, PromptError, ProviderError, UsageError
from regauge.git import remote_address
from regauge.github import GitHub, GitHubAccess, repo_of_remote
from regauge.maintenance.collection import option_words, with_evals
from regauge.project import Project
from regauge.prompts import find_prompt, load_prompt
from regauge.refine.delivery import evidence_lines, headline
from regauge.refine.feedback import Feedback, describe_feedback, feedback_on_pull, read_notes
from regauge.refine.refinement import BY_SIGNAL, Refinement, RefineOptions
from regauge.refine.runs import (
    RESUMABLE_STOPS,
    begin_run,
    find_refinement,
    lock_prompt,
    reject_edits,
)
from regauge.refine.subject import goals_for, prompt_of_target
from regauge.reports import money
from regauge.wording import did_you_mean, encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.refine.document import RefinementResult
    from regauge.refine.loop import LoopState, Note
    from regauge.refine.refinement import Removal
    from regauge.refine.runs import Run
    from regauge.runner import EvalSession


def read_feedback(
    project: Project,
    prompt: str,
    *,
    pull: int | None,
    file: Path | None,
    print_line: Callable[[str], None],
) -> Feedback:
    """Read feedback from a pull request and from a file of notes, before any call.

    Args:
        project: The project; its settings list the trusted authors.
        prompt: The name of the prompt.
        pull: The number of the pull request; None for none.
        file: The file of notes; None for none.
        print_line: Called with each line of progress.

    Raises:
        UsageError: The file cannot be used, or the token or the repository is missing.
        GitHubError: GitHub cannot be reached, or has no such pull request.
    """
    feedback = Feedback() if file is None else read_notes(file)
    if pull is None:
        return feedback
    file_of_prompt = find_prompt(prompt, root=project.root)
    repo = os.environ.get("GITHUB_REPOSITORY") or repo_of_remote(remote_address(file_of_prompt))
    if not repo:
        message = "--feedback-pr: the repository on GitHub is unknown"
        fix = "set GITHUB_REPOSITORY=OWNER/NAME, or add its address as the remote 'origin'"
        raise UsageError(message, fix=fix)
    try:
        access = GitHubAccess.from_environ(os.environ, repo=repo)
        with GitHub(access, on_wait=print_line) as github:
            remarks, bots = github.remarks(pull)
    except UsageError as error:
        text = f"--feedback-pr: {error}; or write the comments to a file: --feedback FILE"
        raise error.reworded(text) from error
    except GitHubError as error:
        raise error.reworded(f"--feedback-pr: {error}") from error
    trusted = project.settings.refine.feedback_from
    remarks_read = feedback_on_pull(remarks, bots, trusted=trusted, prompt=prompt)
    print_line(f"pull request {pull}: {describe_feedback(remarks_read) or 'no comments'}")
    return feedback + remarks_read


def review_edits(project: Project, run: Run, result: RefinementResult) -> list[int]:
    """Let the user confirm each proposed edit.

    Returns:
        The numbers of rejected edits, from 0; later runs do not propose them again.
    """
    changes = result.changes
    proofs = evidence_lines(result)
    refused: list[int] = []
    for number, change in enumerate(changes):
        echo(err=True)
        echo(
            f"edit {number + 1} of {len(changes)}: {change.strategy} by {change.proposer},"
            f" for {change.check}",
            bold=True,
            err=True,
        )
        echo(f"  {change.rationale or 'no reason given'}", err=True)
        for sign, text, style in (
            ("-", change.removed_text, "red"),
            ("+", change.added_text, "green"),
        ):
            for line in text.splitlines():
                echo(f"  {sign} {line}", style=style, err=True)
        echo(f"  {proofs[number]}", err=True)
        if not click.confirm("accept it?", err=True):
            refused.append(number)
    if refused:
        reject_edits(project, run, refused)
    return refused


# Labels of events in the lines of a run; other events are labelled by name.
_LABELS = {
    "preflight": "note",
    "diagnosed": "failing",
    "localised": "sentence",
    "unsteady": "flaky",
    "criticised": "critique",
    "screened": "edit",
    "guarded": "refused",
    "unreadable": "no edit",
    "accepted": "VERIFIED",
    "fewer": "gate",
    **{f"suite-{decision}": "gate" for decision in ("accept", "reject", "undecided", "unmeasured")},
}
_STYLES = {"accepted": "green", "confirmed": "green", "rolled-back": "red", "refuted": "red"}


def run_to_end(
    evals: EvalSession,
    refinement: Refinement,
    run: Run,
    perform: Callable[[Run, Callable[[Note], None]], LoopState],
    *,
    as_json: bool,
) -> RefinementResult:
    """Run to the end, and write the result."""
    if not as_json:
        click.echo(f"run {run.id}", err=True)

    last_line = ""
    groups = count(1)

    def listen(note: Note) -> None:
        nonlocal last_line
        line = f"{_LABELS.get(note.event, note.event):10} {note.text}"
        # Trials for goals may repeat a line; a signal is reported at the end of the command.
        is_repeated = line == last_line or (
            note.event == "stopped" and last_line.startswith("VERIFIED")
        )
        if as_json or is_repeated or BY_SIGNAL in note.text:
            return
        last_line = line
        number = f"[{next(groups)}]" if note.event == "diagnosed" else ""
        line = f"{number:3} {line}"
        with meter.aside():
            echo(line, style=_STYLES.get(note.event, ""), err=True)

    def progress() -> str:
        calls = evals.progress.judge_calls
        return (
            f"regauge refine: {evals.progress.completed} new completions"
            f"{f', {calls} judge calls' if calls else ''}, {money(evals.budget.cost_usd)},"
            f" {evals.progress.elapsed_s:.0f} s so far"
        )

    evals.progress.start(0)  # the number of completions is unknown
    try:
        with Meter(progress) as meter:
            state = perform(run, listen)
    finally:
        evals.close()
    return refinement.finish(run, state)


def resume_hint(run: Run | None) -> str:
    """The command that continues after Ctrl-C or another signal."""
    if run is None or not run.trail.is_file():
        return "nothing was decided yet, the same command begins again"
    if run.facts()["status"] in {"running", "interrupted", "not-verified"}:
        return f"progress saved; continue: regauge refine resume {run.id}"
    return f"the run is over; its result: regauge refine show {run.id}"


def finish_run(
    project: Project,
    result: RefinementResult,
    delivery: Delivery,
    *,
    already_shown: bool,
    as_json: bool,
) -> None:
    """Show the result of a run unless it was shown, and deliver the proposal."""
    run = find_refinement(project, result.run)
    done: dict[str, JSON] = {}
    if BY_SIGNAL in result.stop.text and not as_json:
        raise KeyboardInterrupt(resume_hint(run))
    try:
        if not already_shown or result.revision is None:
            show_run(project, result, as_json=as_json)
        if result.revision is not None:
            done = delivery.deliver(run, result)
            is_delivered = delivery.write or delivery.branch is not None
            if not (is_delivered or already_shown or as_json):
                echo(f"next: regauge refine apply {run.id}   why: regauge refine show latest")
        elif result.next and not as_json:
            echo(f"next: {result.next}")
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(resume_hint(run)) from stop
    finally:
        if as_json:
            document = {**result.model_dump(mode="json"), "done": done}
            click.echo(encodable(json.dumps(document, ensure_ascii=False, indent=1)))
    _leave(result)


def show_run(project: Project, result: RefinementResult, *, as_json: bool) -> Run:
    """Show the rationale of a run, unless the output is JSON."""
    run = find_refinement(project, result.run)
    if not as_json:
        if result.diagnosis:
            # Without measurements, the headline is the report.
            echo(as_text(run.markdown.read_text(encoding="utf-8")))
            echo()
        echo(headline(result), bold=True)
    return run


# Reasons to stop without a result, unless there is a proposal.
_UNFINISHED = RESUMABLE_STOPS | {
    "unmeasured", "underpowered", "unreadable", "model-calls", "holdout-looks",
}  # fmt: skip


def _leave(result: RefinementResult) -> None:
    reason = result.stop.reason
    if reason in _UNFINISHED and result.revision is None:
        code = {"interrupted": 130, "holdout-looks": 2}.get(reason, 3)
        click.get_current_context().exit(code)


_PLUGIN_OPTIONS = ("record", "model", "budget_usd", "budget_tokens", "concurrency")
RUN = ""
"""The name of the command that `regauge refine NAME` runs: the group takes its options."""
_FEEDBACK_PR = "Pass this pull request's comments to the refiner model."
_FEEDBACK = "Pass the paragraphs of a file to the refiner model as notes."
_REMOVE_UNUSED = "Fix nothing; remove text that `regauge mutate` found without effect."


class _RunContext(click.Context):
    @property
    def command_path(self) -> str:
        """The words before the arguments; this command adds none."""
        return super().command_path.rstrip()


class _RunCommand(Command):
    context_class = _RunContext


@click.command(name=RUN, cls=_RunCommand)
@click.argument("prompt", metavar="NAME")
@number_option("--max-cycles", click.IntRange(min=1), "Rounds of edit and test.")
@number_option("--budget-refiner-calls", click.IntRange(min=0), "Calls of the refiner model.")
@click.option("--fix-flaky", is_flag=True, help="Also fix flaky checks, once nothing else fails.")
@click.option("--remove-unused", is_flag=True, help=_REMOVE_UNUSED)
@refiner_option
@proposers_option
@number_option("--feedback-pr", click.IntRange(min=1), _FEEDBACK_PR, metavar="NUMBER")
@click.option("--feedback", metavar="FILE", type=click.Path(path_type=Path), help=_FEEDBACK)
@click.option(
    "--show-expected",
    is_flag=True,
    help="Show proposers the expected values of training cases. They are masked unless the prompt"
    " lists them, so a task whose output is text, such as SQL, may need this.",
)
@click.option("--include-tracked", is_flag=True, help="Include tracked cases.")
@click.option("--ignore-attempts", is_flag=True, help="Ignore the results of earlier runs.")
@apply_option
@click.option("--interactive", is_flag=True, help="Confirm each edit, then write the file.")
@branch_option
@pr_option
@model_option()
@seed_option
@record_option("none", "missing", default="missing")
@dry_run_option
@run_options
@json_option
def run_command(
    prompt: str,
    *,
    path: Path | None,
    apply_it: bool,
    interactive: bool,
    branch: str | None,
    pr: bool,
    dry_run: bool,
    ignore_attempts: bool,
    as_json: bool,
    feedback: Path | None,
    feedback_pr: int | None,
    **options: Any,
) -> None:
    """Refine the prompt NAME, on its evals and on those of targets that load it.

    Examples:
      regauge refine alert-severity            propose; leave the prompt file as it is
      regauge refine alert-severity --dry-run
      regauge refine alert-severity --apply    write the file, its version and prompts.lock
      regauge refine alert-severity --branch   commit the proposal on a separate branch
      regauge refine alert-severity --pr       push the branch and open or update its pull request
      regauge refine show latest

    RUN is an id from `regauge refine list`, the beginning of one, `latest`, or the name of a
    prompt for its newest run. `show`, `diff` and `verify` default to `latest`.

    Exit codes: 0 a revision or "no change proposed", 2 wrong use or an error in a file, 3 it could
    not continue (a provider, a key, the budget, a model with unreadable responses), 130 Ctrl-C.
    `regauge refine resume RUN` continues an interrupted run.
    """
    project = Project.find()
    prompt = prompt_of_target(project, prompt, command="regauge refine")
    refine_options: RefineOptions = _options(project, prompt, options)
    if interactive and not sys.stdin.isatty():
        message = "--interactive confirms every edit, and stdin is not a terminal"
        fix = "run it in a terminal; or use --branch, and review its commit"
        raise UsageError(message, fix=fix)
    print_line = partial(echo, err=as_json or dry_run)
    delivery = Delivery.prepare(
        project,
        prompt,
        write=apply_it or (interactive and branch is None and not pr),
        branch=branch,
        pr=pr,
        print_line=print_line,
    )
    feedback_read = read_feedback(
        project, prompt, pull=feedback_pr, file=feedback, print_line=print_line
    )
    begin = partial(_begin, project, prompt, path, options, as_json=as_json, feedback=feedback_read)
    result = begin(refine_options, ignore_attempts=ignore_attempts, dry_run=dry_run)
    while interactive and result is not None and result.revision is not None:
        run = show_run(project, result, as_json=as_json)
        refused = review_edits(project, run, result)
        if not refused:
            break
        if len(refused) == len(result.changes):
            delivery = replace(delivery, write=False, branch=None)
            click.echo("rejected; the next run tries other edits", err=True)
            break
        click.echo("verifying the accepted edits without the rejected ones", err=True)
        if refine_options.usd is not None:
            refine_options = replace(
                refine_options, usd=max(0.0, refine_options.usd - result.usage.usd)
            )
        result = begin(refine_options, ignore_attempts=False)
    if result is not None:
        finish_run(project, result, delivery, already_shown=interactive, as_json=as_json)


def refine_for_model(
    project: Project, path: Path | None, prompt: str, words: Sequence[str], *, model: str
) -> RefinementResult:
    """Refine a prompt on another model; its file stays as it is.

    Args:
        path: The directory or file of evals; None for `evals`.
        words: Further options of `regauge refine`.
        model: The model, as `provider:model`.
    """
    options = run_command.make_context("refine", [prompt, f"--model={model}", *words]).params
    refine_options = _options(project, prompt, options)
    result = _begin(project, prompt, path, options, refine_options)
    assert result is not None, "only an estimate has no result"
    return result


def _begin(
    project: Project,
    prompt: str,
    path: Path | None,
    options: Mapping[str, Any],
    refine_options: RefineOptions,
    *,
    ignore_attempts: bool = False,
    as_json: bool = False,
    dry_run: bool = False,
    feedback: Feedback | None = None,
) -> RefinementResult | None:
    """Start a run and return its result; or only print the estimate and return None."""
    runs: list[Run] = []
    settings = {**options, "budget_usd": refine_options.usd}
    words = option_words({name: settings[name] for name in _PLUGIN_OPTIONS})

    def act(evals: EvalSession) -> RefinementResult | None:
        refinement = Refinement(
            evals,
            evals.plan.cases,
            refine_options,
            use_attempts=not ignore_attempts,
            name=prompt,
            feedback=feedback,
        )
        with suppress(ProviderError) if dry_run else nullcontext():
            refinement.check_key(os.environ)  # an estimate needs a provider, but no key
        _print_estimate(refinement, as_json=as_json, alone=dry_run)
        refinement.check_calls()
        if dry_run:
            evals.close()
            return None
        facts: dict[str, Any] = {
            "command": ["regauge", *sys.argv[1:]],
            "evals": str(path or ""),
            "words": words,
            "file": str(project.relative(refinement.subject.prompt.path)),
            "options": refine_options.to_json(),
        }
        run = begin_run(project, prompt, facts)
        runs.append(run)
        return run_to_end(evals, refinement, run, refinement.run, as_json=as_json)

    with nullcontext() if dry_run else lock_prompt(project, prompt, ""):
        return with_evals(
            project,
            path,
            act,
            prompts=[prompt],
            options=words,
            include_targets=True,
            interrupt_message=lambda: resume_hint(runs[0] if runs else None),
        )


def _options(project: Project, prompt: str, values: Mapping[str, Any]) -> RefineOptions:
    """The options from the command line, else from the settings."""
    settings = project.settings.refine
    names = values["proposers"].split(",") if values["proposers"] else settings.proposers

    def option(name: str) -> Any:
        return getattr(settings, name) if values[name] is None else values[name]

    return RefineOptions(
        proposers=tuple(name.strip() for name in names if name.strip()),
        model=values["refiner_model"] or settings.model or "",
        cycles=option("max_cycles"),
        removals=_unused_text(project, prompt) if values["remove_unused"] else (),
        calls=option("budget_calls"),
        model_calls=option("budget_refiner_calls"),
        fix_flaky=values["fix_flaky"] or settings.fix_flaky,
        usd=option("budget_usd"),
        seed=values["seed"],
        frozen=tuple(settings.frozen),
        show_expected=values["show_expected"] or settings.show_expected,
        include_tracked=values["include_tracked"],
        goals=goals_for(project, prompt),
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        context_tokens=settings.context_tokens,
    )


def _unused_text(project: Project, name: str) -> tuple[Removal, ...]:
    """The instructions without effect, or with a harmful one, in the committed file of mutants.

    Raises:
        UsageError: The file is missing, of another text of the prompt, or has none.
    """
    from regauge.mutate import load_mutants

    measure = f"regauge mutate {shlex.quote(name)}"
    file = load_mutants(project, name)
    if file is None:
        raise UsageError(f"{name} has no mutants yet", fix=measure)
    if file.digest != load_prompt(find_prompt(name, root=project.root)).digest:
        raise UsageError(f"the mutants of {name} are of another text of the prompt", fix=measure)
    places = {
        (int(row.span.part[len("messages[") : -1]), row.span.start, row.span.end)
        for row in file.mutants
        if row.kind in {"no-effect", "harmful"}
        and row.operator.startswith("delete-")
        and row.span.part.startswith("messages[")
    }
    if not places:
        raise UsageError(f"{name} has no text without effect", fix="nothing to remove")
    # From the end, so that each place is valid until its turn.
    return tuple(sorted(places, reverse=True))


def _print_estimate(refinement: Refinement, *, as_json: bool, alone: bool) -> None:
    about = refinement.estimate()
    if as_json:
        if alone:
            click.echo(json.dumps(asdict(about)))
        return

    def cost(calls: int) -> str:
        if about.call_usd is None:
            return "cost unknown (no price declared)"
        return f"about ${calls * about.call_usd:.2f}" if about.call_usd else "free"

    name = refinement.subject.prompt.name
    judges = " with LLM judges" if about.has_llm_judges else ""
    fix_calls = about.one_repair_calls
    calls = f"first look {about.first_look_calls} calls{judges}, one fix about {fix_calls}"
    echo(f"{name}: {about.train} training cases, {about.holdout} held out", err=not alone)
    costs = cost(about.calls_max)
    if about.call_usd:
        costs = f"one fix {cost(fix_calls)}, at most {costs}"
    echo(f"{calls}, at most {about.calls_max}: {costs}", err=not alone)


@click.command(name="resume", epilog=run_command.epilog)
@click.argument("run", metavar="RUN", cls=NamedRun)
@budget_options
@json_option
def resume_command(run: Run, *, budget_calls: int | None, as_json: bool, **limits: Any) -> None:
    """Continue a run that was interrupted or out of calls.

    Earlier calls are not paid again; budgets are for further calls.
    """
    project = Project.find()
    facts = run.facts()
    prompt = run.prompt
    words = [str(word) for word in facts["words"]]
    options = option_words(limits)
    overridden = tuple(f"{option.partition('=')[0]}=" for option in options)
    words = [word for word in words if not word.startswith(overridden)] + options

    def act(evals: EvalSession) -> RefinementResult:
        options = RefineOptions.from_json(facts["options"])
        if limits["budget_usd"] is not None:
            options = replace(options, usd=None)  # the plugin's option limits the further cost
        refinement = Refinement(evals, evals.plan.cases, options, name=prompt, interrupted_run=run)
        refinement.check_key(os.environ)
        resume = partial(refinement.resume, more_calls=budget_calls)
        return run_to_end(evals, refinement, run, resume, as_json=as_json)

    with lock_prompt(project, prompt, run.id):
        result = with_evals(
            project,
            evals_of(facts),
            act,
            prompts=[prompt],
            options=words,
            include_targets=True,
            interrupt_message=lambda: resume_hint(run),
        )
    print_line = partial(echo, err=as_json)
    delivery = Delivery(
        project=project, prompt=prompt, write=False, branch=None, print_line=print_line
    )
    finish_run(project, result, delivery, already_shown=False, as_json=as_json)


class _RefineGroup(click.Group):
    """A group that runs the loop for a prompt's name instead of a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self._subcommands(), "-h", "--help"}:
            self._check_misspelling(args[0])
            args = [RUN, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(self._subcommands())

    def _subcommands(self) -> set[str]:
        return self.commands.keys() - {RUN}

    def _check_misspelling(self, name: str) -> None:
        """Check that a name is not a misspelt command.

        Raises:
            UsageError: It is close to a command, and no prompt or target has this name.
        """
        near = did_you_mean(name, self._subcommands())
        if name.startswith("-") or not near or name in Project.find().settings.targets:
            return
        try:
            find_prompt(name)
        except PromptError as error:
            (diagnostic,) = error.diagnostics
            suggestion = near.replace("'", "`").replace("`", "`regauge refine ", 1)
            raise UsageError(
                f"{diagnostic.message}: {suggestion}\n  fix: {diagnostic.fix}"
            ) from error

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "NAME [OPTIONS] | COMMAND RUN")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.commands[RUN].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(
    name="refine",
    cls=_RefineGroup,
    commands=[run_command, resume_command, *RUN_COMMANDS],
    epilog=run_command.epilog,
)
def command() -> None:
    """Propose a small revision that fixes failing cases and breaks none.

    It finds reproducible failures, tests small edits on independent trials, and gates the result on
    all cases. If the evidence justifies no edit, it proposes none.
    """
