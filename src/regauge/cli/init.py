"""Write files that work together: `regauge init`; or those of another tool: `regauge import`."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regauge.cli import Command
from regauge.cli._options import (
    STDOUT,
    dry_run_option,
    install_option,
    json_option,
    output_option,
    write_output,
)
from regauge.cli._terminal import echo, echo_json
from regauge.errors import UsageError
from regauge.gate import Count, policy_of, sensitivity_line
from regauge.importers import count_text, load_importer, plan_files, write_files
from regauge.project import Project
from regauge.prompts import lock_of, prompt_name
from regauge.scaffold import (
    find_importable_files,
    find_install,
    find_models,
    find_user_prompts,
    parse_install,
    plan_working_set,
    workflow_notes,
    write_plans,
)
from regauge.wording import plural, snake_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from regauge.scaffold import Install, ModelUse, PlannedFile


_WORDS = {"write": "wrote", "add": "added to", "keep": "left alone"}
_NO_INSTALL = """\
note: no workflows: `pip install regauge` would install whatever has that name on the day
  fix: pin regauge in a lock file or a requirements file with hashes, then run this command again;
       or regauge init --install "python -m pip install --require-hashes -r requirements.txt"\
"""
_WORKFLOWS = {
    "evals": ", which replays evals and gates pull requests",
    "comment": ", which comments the decision",
}
_PLANS = {"write": "write", "add": "add to", "keep": "leave alone"}


@click.command(name="init", cls=Command)
@click.option("-y", "--yes", is_flag=True, help="Write all files without prompts.")
@install_option
@dry_run_option
@json_option
def init_command(*, yes: bool, dry_run: bool, install: str | None, as_json: bool) -> None:
    """Set up regauge here: a prompt, ten golden cases, an eval, workflows and settings.

    Existing files stay. Prompt, cases and eval are an example for the simulated model, for projects
    without prompts or a model. Confirm each workflow and promptfoo configuration, except with
    --json. Workflows are only written if the project pins regauge, or with --install.

    Examples:
      regauge init
      regauge init --yes             without prompts
      regauge init --dry-run --json  print what would be written
      regauge init --install "python -m pip install --require-hashes -r requirements.txt"

    Exit codes: 0 done, 1 declined, 2 a file cannot be written.
    """
    root = Path.cwd()
    source = parse_install(install) if install is not None else find_install(root)
    plans = plan_working_set(root, source)
    has_changes = any(plan.action != "keep" for plan in plans)
    models = find_models(root)
    for line in () if as_json else _model_lines(models):
        echo(line)
    if has_changes and not (yes or dry_run or as_json):
        plans = _confirm(root, plans)
    done = plans if dry_run else write_plans(root, plans)
    if as_json:
        document = {
            "root": str(root),
            "dry_run": dry_run,
            "files": [
                {"path": _display_path(root, file), "action": file.action, "reason": file.reason}
                for file in done
            ],
            "advice": [text for file in done for text in file.advice],
            "models": [asdict(model) for model in models],
        }
        echo_json(document)
        return
    for file in done:
        words = _PLANS if dry_run else _WORDS
        echo(_planned_line(root, file, words), style="" if file.action == "keep" else "green")
    for text in (text for file in done for text in file.advice):
        echo(f"note: {text}", style="yellow")
    if source is None:
        echo(_NO_INSTALL, style="yellow")
    elif install is None:
        echo(f"workflows install regauge from {source.source}")
    if not dry_run:
        if has_changes and not yes:
            _offer_imports(root)
        _print_gate(root, done)
        _print_next(root, source, has_changes=has_changes)


def _model_lines(models: Sequence[ModelUse]) -> Iterator[str]:
    """Lines for the models in files of the project, with their keys."""
    for model in models:
        key = ""
        if model.key_env is not None:
            key = f"; {model.key_env} is {'set' if os.environ.get(model.key_env) else 'not set'}"
        yield f"found       {model.model} in {model.path}{key}"


def _offer_imports(root: Path) -> None:
    """Offer to import each promptfoo configuration that is not imported yet."""
    for path in _suites(root):
        if _is_confirmed(f"Import {path}?"):
            import_command.main(["promptfoo", path], standalone_mode=False)


def _confirm(root: Path, plans: Sequence[PlannedFile]) -> list[PlannedFile]:
    """Let the user confirm the files and each workflow.

    Raises:
        SystemExit: The user declined.
    """
    for plan in plans:
        echo(_planned_line(root, plan, _PLANS))
    if not _is_confirmed("Write these files?"):
        raise SystemExit(1)
    return [_choose(root, plan) for plan in plans]


def _choose(root: Path, plan: PlannedFile) -> PlannedFile:
    """Let the user confirm a file if it is a workflow."""
    place = _display_path(root, plan)
    if not place.startswith(".github/workflows/") or plan.action != "write":
        return plan
    about = _WORKFLOWS.get(plan.path.stem, "")
    if _is_confirmed(f"Write {place}{about}?"):
        return plan
    return replace(plan, action="keep", reason="not written: declined")


def _is_confirmed(question: str) -> bool:
    try:
        return click.confirm(question, default=True)
    except click.Abort as error:
        # click raises the same for Ctrl-C.
        if isinstance(error.__context__, EOFError):
            click.echo(err=True)
            message = "standard input ended at the prompt; the directory is unchanged"
            fix = "regauge init --yes writes the files, --dry-run only lists them"
            raise UsageError(message, fix=fix) from error
        raise


def _print_gate(root: Path, done: Sequence[PlannedFile]) -> None:
    """Print the gate's sensitivity with the golden cases, and that of more first trials."""
    datasets = [file.path for file in done if file.path.suffix == ".jsonl" and file.path.is_file()]
    cases = sum(len(path.read_bytes().splitlines()) for path in datasets)
    if not cases:
        return
    policy = policy_of(Project(root=root).settings.gate)
    trials = policy.baseline_trials_of(cases)
    # Without a baseline, assume that all its trials passed.
    line = sensitivity_line(
        [Count(passed=trials, trials=trials)] * cases, policy, drops=(0.05, 0.1)
    )
    echo()
    echo(f"gate:  {cases} cases, {policy.first_trials_of(cases)} trials of each at first")
    for words in str(line).splitlines():
        echo(f"       {words}")


def _print_next(root: Path, source: Install | None, *, has_changes: bool) -> None:
    echo()
    if not has_changes:
        echo("nothing to do: all files exist")
    above = Project.find(root).root
    if above != root:
        echo(f"note: commands run here use the project in {above}", style="yellow")
    for note in workflow_notes(root, source):
        echo(f"note: {note}", style="yellow")
    steps = [*_own_steps(root)] or ["pytest evals          completions go to fixtures/recordings"]
    steps += ["git add -A && git commit", "regauge doctor        checks what is still missing"]
    for number, step in enumerate(steps):
        echo(f"{'' if number else 'next:':<7}{step}")


def _suites(root: Path) -> Iterator[str]:
    """The promptfoo configurations that IMPORT.md does not name."""
    report = root / "IMPORT.md"
    imported = report.read_text(encoding="utf-8", errors="replace") if report.is_file() else ""
    for path in find_importable_files(root):
        if not path.endswith((".prompt.yml", ".prompt.yaml")) and path not in imported:
            yield path


def _own_steps(root: Path) -> Iterator[str]:
    """The next commands in a project with its own prompts or suites."""
    for path in _suites(root):
        yield f"regauge import promptfoo {shlex.quote(path)}"
    for path in find_importable_files(root):
        if path.endswith((".prompt.yml", ".prompt.yaml")):
            yield f"git mv {shlex.quote(path)} prompts/"
    for path in find_user_prompts(root):
        file = root / path
        name = prompt_name(file)
        quoted = shlex.quote(name)
        if not lock_of(file).entries_of(name):
            versioned = re.search(rb"^version:", file.read_bytes(), re.MULTILINE)
            yield f"regauge bump {quoted}{'' if versioned else ' major'}"
        if not any(Path("evals", f"test_{stem}.py").exists() for stem in (name, snake_case(name))):
            yield f"regauge new case {quoted} ID -i INPUT=VALUE --expected JSON"
            yield f"regauge new eval {quoted}"


def _planned_line(root: Path, plan: PlannedFile, words: dict[str, str]) -> str:
    reason = f" ({plan.reason})" if plan.reason else ""
    return f"{words[plan.action]:11} {_display_path(root, plan)}{reason}"


def _display_path(root: Path, plan: PlannedFile) -> str:
    return plan.path.relative_to(root).as_posix()


@click.command(name="import", cls=Command)
@click.argument("format_name", metavar="FORMAT")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Print the report only; write no other file.")
@click.option("--name", metavar="NAME", default="", help="Stem of the names of written files.")
@output_option()
@json_option
def import_command(
    format_name: str, path: Path, *, check: bool, name: str, output: str | None, as_json: bool
) -> None:
    """Import a suite of another tool.

    Formats: braintrust, deepeval, dotprompt, inspect, langsmith, openai-evals, promptfoo, prompty.
    Packages add more by the entry point group regauge.importers.

    Writes prompts, golden cases, evals, settings and IMPORT.md, a report of lines that were
    changed, dropped or need you. It runs no code of the source and overwrites nothing.

    Examples:
      regauge import promptfoo promptfooconfig.yaml
      regauge import promptfoo evals --check
      regauge import deepeval tests/evals --name bot

    Exit codes: 0 written, 1 --check found lines that need manual work, 2 refused.
    """
    if output is not None and not check:
        raise UsageError("-o needs --check", fix="an import writes its report to IMPORT.md")
    importer = load_importer(format_name)
    if not path.exists():
        fix = f"name a file or a directory: regauge import {format_name} PATH"
        raise UsageError(f"{path} does not exist", fix=fix)
    root = Project.find().root
    imported = importer(path, root=root, name=name)
    plan = plan_files(format_name, imported, root, check=check)
    if as_json:
        notes = [
            {"kind": note.kind, "place": str(note.place), "text": note.text}
            for note in imported.notes
        ]
        document = {
            "format": format_name,
            "written": [] if check else plan.paths,
            "evals": len(imported.evals),
            "cases": sum(map(len, imported.datasets.values())),
            "assertions": imported.assertions,
            "unmeasured": imported.unmeasured,
            "notes": notes,
        }
        echo_json(document)
    if check:
        if output is not None or not as_json:
            write_output(plan.report, output or STDOUT)
        raise SystemExit(1 if imported.needs_manual_work else 0)
    write_files(plan, root)
    if as_json:
        return
    for path_written in plan.paths:
        echo(f"wrote {path_written}", style="green")
    # The report joins all places of a text on one line.
    manual_lines = len({note.text for note in imported.notes if note.kind == "manual"})
    echo(count_text(imported))
    if manual_lines:
        verb = "needs" if manual_lines == 1 else "need"
        count = plural(manual_lines, "line")
        echo(f"{count} of {plan.paths[-1]} {verb} manual work", style="yellow")
    if imported.evals:
        echo(f"next: read {plan.paths[-1]}, then pytest evals")
