"""`regauge migrate`: gate every prompt on its own model against another one."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from regauge.cli import Command
from regauge.cli._options import (
    apply_option,
    budget_options,
    concurrency_option,
    dry_run_option,
    evals_option,
    json_option,
    record_option,
)
from regauge.cli._proposals import ProposalBranch
from regauge.cli._terminal import Meter, echo, echo_json
from regauge.cli.gate import run_gate
from regauge.cli.refine import refine_for_model
from regauge.git import commit_files
from regauge.maintenance.collection import option_words
from regauge.maintenance.migration import (
    MigrationGates,
    migrated_files,
    migration_markdown,
    plan_migration,
    prices_text,
    write_together,
)
from regauge.model_id import parse_model_id
from regauge.project import Project
from regauge.prompts import Repository, find_prompt
from regauge.pytest_gate import GateRequest
from regauge.runner import check_model
from regauge.wording import first_of, plural, table_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from regauge.maintenance.migration import MigrationPlan, MigrationResult, Outcome
    from regauge.providers import ModelId
    from regauge.reports import DecisionDocument, RunRecord


_EXIT_CODES: dict[Outcome, int] = {"broke": 1, "unmeasured": 3, "undecided": 4, "safe": 0}
_STYLES: dict[Outcome, str] = {"safe": "green", "broke": "red"}
_NAMES_MAX = 5


@click.command(name="migrate", cls=Command)
@click.argument("prompts", nargs=-1, metavar="[NAME]...")
@click.option(
    "--to", "target_model", required=True, metavar="MODEL", help="The new model, provider:model."
)
@click.option("--refine", is_flag=True, help="Refine what broke on the new model, and gate again.")
@apply_option
@click.option("--pr", is_flag=True, help="Open a pull request with the safe prompt files.")
@record_option()
@dry_run_option
@concurrency_option
@budget_options
@evals_option
@json_option
def command(
    prompts: tuple[str, ...],
    *,
    target_model: str,
    dry_run: bool,
    refine: bool,
    apply_it: bool,
    pr: bool,
    path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Gate prompts on their own model against MODEL: each is safe, broke or undecided.

    Each NAME, or every prompt with an eval, is compared as by `regauge gate HEAD --model MODEL`.
    Commit the prompt files first. --apply writes `model: MODEL` and the next version into safe
    ones.

    Examples:
      regauge migrate --to openai:gpt-5.4-mini --dry-run     calls and prices of both models
      regauge migrate --to openai:gpt-5.4-mini               every prompt that has an eval
      regauge migrate --to openai:gpt-5.4-mini triage --refine --apply
      regauge migrate --to openai:gpt-5.4-mini --refine --pr

    Exit codes: 0 every prompt is safe, 1 a prompt broke, 2 wrong use or a faulty file, 3
    unmeasured, 4 undecided, 130 Ctrl-C (the same command continues).
    """
    project = Project.find()
    model = parse_model_id(target_model, location="--to")
    check_model(project.settings, model)
    plans = plan_migration(project, path, prompts, model, note=partial(click.echo, err=True))
    if dry_run:
        _print_plan(plans, model, as_json=as_json)
        return
    proposal = None
    if pr:
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in str(model))
        paths = [find_prompt(plan.prompt, root=project.root) for plan in plans]
        proposal = ProposalBranch.prepare(
            project, paths, lambda base: f"migrate/{name}-on-{base}", partial(echo, err=True)
        )
    left = {name: options.pop(f"budget_{name}") for name in ("usd", "calls", "tokens")}
    gates = MigrationGates(
        project=project,
        model=model,
        gate=partial(_gate, project, path),
        refine=partial(refine_for_model, project, path, model=str(model)),
        words=option_words(options),
        left=left,
    )
    results: list[MigrationResult] = []
    contents: dict[str, str] = {}
    for plan in plans:
        result = gates.migrate(plan)
        if refine and result.outcome == "broke":
            result, files_revised = gates.migrate_refined(plan, result)
            contents |= files_revised
        results.append(result)
        echo(f"{plan.prompt}: {result.outcome}", style=_STYLES.get(result.outcome, ""), err=True)
    if not as_json:
        _print(results, model, hint=not (apply_it or pr))
    done: dict[str, Any] = {}
    safe = [result.plan.prompt for result in results if result.outcome == "safe"]
    files = migrated_files(project, safe, contents, model)
    try:
        if apply_it:
            write_together(files)
            done["wrote"] = [project.relative(file).as_posix() for file in files]
            for name in done["wrote"]:
                echo(f"wrote {name}", err=as_json)
        if proposal is not None and files:
            title = f"Move {plural(len(safe), 'prompt')} to {model}"
            repository = Repository.open(project.root)
            branch = commit_files(
                proposal.path,
                repository.commit("HEAD"),
                {repository.inside(path): data for path, data in files.items()},
                name=proposal.name,
                message=f"{title}\n\n{', '.join(safe)}\n",
                renew=True,
            )
            body = migration_markdown(results, model)
            done["pull_request"] = proposal.open(branch, title=title, body=body)
    finally:
        if as_json:
            document = {"to": str(model), "prompts": [*map(asdict, results)], "done": done}
            echo_json(document)
    outcomes = {result.outcome for result in results}
    code = next((code for outcome, code in _EXIT_CODES.items() if outcome in outcomes), 0)
    click.get_current_context().exit(code)


def _gate(
    project: Project, path: Path | None, prompt: str, words: Sequence[str]
) -> tuple[DecisionDocument, RunRecord]:
    """Gate one prompt against HEAD, with a line of progress."""
    meter = Meter()
    command = ["regauge", *sys.argv[1:]]
    request = GateRequest(
        ref="HEAD", is_partial=True, rerun_command=command, print_line=meter.update
    )
    with meter:
        decided = run_gate(project, request, path, prompts=(prompt,), words=words, as_json=True)
    assert decided is not None, "only an estimate decides nothing"
    return decided[:2]


def _print_plan(plans: Sequence[MigrationPlan], model: ModelId, *, as_json: bool) -> None:
    if as_json:
        document = {"to": str(model), "prompts": [asdict(plan) for plan in plans]}
        echo_json(document)
        return
    rows = [["prompt", "model", "cases", "cost per 1000 calls"]]
    rows += [
        [plan.prompt, f"{plan.model} -> {model}", str(plan.cases), prices_text(plan)]
        for plan in plans
    ]
    for line in table_lines(rows):
        echo(line)


def _print(results: Sequence[MigrationResult], model: ModelId, *, hint: bool) -> None:
    rows = [["prompt", "result", "model", "pass rate", "cost per 1000 calls"]]
    rows += [
        [
            result.plan.prompt,
            result.outcome,
            f"{result.plan.model} -> {model}",
            result.pass_rate,
            prices_text(result.plan),
        ]
        for result in results
    ]
    styles = ["", *(_STYLES.get(result.outcome, "") for result in results)]
    for line, style in zip(table_lines(rows), styles, strict=True):
        echo(line, style=style)
    for row in results:
        if row.outcome != "safe":
            echo(f"\n{row.plan.prompt}: {row.outcome}", bold=True)
            for reason in row.reasons:
                echo(f"  {reason}")
            if row.broken:
                echo(f"  broken: {first_of(row.broken, _NAMES_MAX)}")
            echo(f"  details: regauge report {row.run}")
            if row.outcome == "broke" and not row.refinement:
                echo(f"  next: regauge migrate --to {model} {row.plan.prompt} --refine")
        elif row.refinement:
            echo(f"\n{row.plan.prompt}: safe with the revision of {row.refinement}", bold=True)
            echo(f"  why: regauge refine show {row.refinement}")
    if hint and any(result.outcome == "safe" for result in results):
        echo("\nno file changed; --apply writes the model into the safe prompts, --pr proposes it")
