"""`regauge new`: a prompt, case, eval, rubric or workflow from a template."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, cast

import click

from regauge.cli import Group
from regauge.cli._options import (
    dataset_option,
    dry_run_option,
    from_run_option,
    input_option,
    install_option,
    json_option,
    number_option,
    output_option,
    parse_inputs,
    refuse_options,
    tier_option,
)
from regauge.cli._terminal import echo, short_path
from regauge.datasets import find_dataset, load_dataset
from regauge.errors import DatasetError, UsageError
from regauge.files import write_whole
from regauge.maintenance.spans import candidate_cases, read_spans, write_candidates
from regauge.project import Project
from regauge.prompts import find_prompt, load_prompt
from regauge.scaffold import (
    WORKFLOWS,
    WorkflowContext,
    append_case,
    case_from_run,
    find_install,
    find_models,
    merge_pyproject,
    new_eval,
    new_prompt,
    new_target_eval,
    parse_install,
    redact_case,
    refuse_blocked,
    workflow,
    workflow_notes,
)
from regauge.strict_json import read_json
from regauge.targets import inputs_of_target
from regauge.wording import encodable, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON
    from regauge.scaffold import NewFile, PlannedFile


# GitHub runs no larger matrix.
_SHARDS_MAX = 256
_AFTER_EVALS = ("comment", "refine")


@click.group(name="new", cls=Group)
def command() -> None:
    """Create a prompt, case, eval, rubric or workflow from a template.

    Examples:
      regauge new prompt alert-severity
      regauge new eval alert-severity
      regauge new eval support --target app.pipeline:reply
      regauge new case ticket-kind slow-page -i ticket=@mail.txt --expected '{"kind": "bug"}'
      regauge new case ticket-kind wrong-price-2 --from-run latest --case wrong-price --edit
      regauge new case ticket-kind --from-spans spans.json
      regauge new rubric tone
      regauge new workflow evals
      regauge new workflow evals --shards 4

    Exit codes: 0 written, 2 wrong use, or the file exists.
    """


@command.command(name="prompt")
@click.argument("name")
@dry_run_option
@json_option
def prompt_command(name: str, *, dry_run: bool, as_json: bool) -> None:
    """Write prompts/NAME.prompt.yml.

    Examples:
      regauge new prompt alert-severity

    Exit codes: 0 written, 2 wrong use, or the file exists.
    """
    project = Project.find()
    _write(project, new_prompt(name, project.root), as_json=as_json, dry_run=dry_run)
    if not (as_json or dry_run):
        echo(f"  next: write the prompt, then regauge bump {name} and regauge new eval {name}")


@command.command(name="rubric")
@click.argument("name")
@dry_run_option
@json_option
def rubric_command(name: str, *, dry_run: bool, as_json: bool) -> None:
    """Write prompts/judges/NAME.prompt.yml, a rubric for an LLM judge.

    Examples:
      regauge new rubric tone

    Exit codes: 0 written, 2 wrong use, or the file exists.
    """
    project = Project.find()
    files = new_prompt(name, project.root, is_rubric=True)
    _write(project, files, as_json=as_json, dry_run=dry_run)
    if not (as_json or dry_run):
        echo(f'  next: write the criteria, then regauge bump {name}; in an eval: rubric("{name}")')


@command.command(name="eval")
@click.argument("name")
@click.option(
    "--target",
    metavar="TARGET",
    help="Test an application: a Python function, `module:function`, or a target of the settings.",
)
@dry_run_option
@json_option
def eval_command(name: str, *, target: str | None, dry_run: bool, as_json: bool) -> None:
    """Write evals/test_NAME.py, an eval of prompt NAME or of a target.

    With --target, NAME is the dataset. Settings of pytest and regauge are added where there are
    none. The function is not run.

    Examples:
      regauge new eval alert-severity
      regauge new eval support --target app.pipeline:reply

    Exit codes: 0 written, 2 wrong use, or the file exists.
    """
    project = Project.find()
    if target is None:
        files = [new_eval(load_prompt(find_prompt(name)))]
        _write(project, files, as_json=as_json, dry_run=dry_run)
    else:
        settings = merge_pyproject(project.root)
        inputs = inputs_of_target(target, project)
        files = [new_target_eval(name, target)]
        changed_files = [settings] if settings.action != "keep" else []
        _write(project, files, as_json=as_json, dry_run=dry_run, changed_files=changed_files)
        if not (as_json or dry_run or _has_cases(project, name)):
            values = "".join(f" -i {input_}=TEXT" for input_ in inputs or ("INPUT",))
            echo(f"  next: regauge new case {name} first{values} --expected TEXT")
            echo("  then: choose judges (regauge judges list), and run pytest evals")
            return
    if not (as_json or dry_run):
        echo("  next: choose judges (regauge judges list), then pytest evals")


def _has_cases(project: Project, name: str) -> bool:
    with suppress(DatasetError):
        return bool(find_dataset(name, fixtures_dir=project.fixtures_dir))
    return False


@command.command(name="workflow")
@click.argument("name", type=click.Choice(WORKFLOWS))
@number_option(
    "--shards",
    click.IntRange(2, _SHARDS_MAX),
    "For evals: deal the cases to N jobs, and join them in one check.",
)
@install_option
@dry_run_option
@json_option
def workflow_command(
    name: str, *, shards: int | None, install: str | None, dry_run: bool, as_json: bool
) -> None:
    """Create a workflow of GitHub Actions.

    evals: replay and gate. comment: comment the decision. baseline: update baselines nightly.
    refine: propose fixes as pull requests.

    Examples:
      regauge new workflow evals
      regauge new workflow evals --shards 4

    Exit codes: 0 written, 2 wrong use, or the file exists.
    """
    if shards is not None and name != "evals":
        raise UsageError(f"--shards is for the workflow evals, not {name}\n  fix: leave it out")
    project = Project.find()
    source = parse_install(install) if install is not None else find_install(project.root)
    if source is None:
        raise UsageError(
            "nothing in this project pins regauge, so the workflow would install whatever has"
            " that name on the day\n"
            "  fix: add regauge to a lock file or to a requirements file with hashes, or name the"
            f" command: regauge new workflow {name} --install"
            ' "python -m pip install --require-hashes -r requirements.txt"'
        )
    context = WorkflowContext.of_project(project, source, find_models(project.root))
    file = workflow(name, context, shards=shards or 1)
    _write(project, [file], as_json=as_json, dry_run=dry_run, fix="move it away, or edit it")
    notes = workflow_notes(project.root, source)
    if name in _AFTER_EVALS and not (project.root / file.path).with_name("evals.yml").exists():
        notes.append(
            "it waits for a workflow `evals`, and there is none: regauge new workflow evals"
        )
    for note in notes:
        click.secho(f"note: {note}", fg="yellow", err=True)
    if as_json or dry_run:
        return
    if install is None:
        echo(f"  it installs regauge from {source.source}")
    if name in ("baseline", "refine"):
        echo("  next: in the settings of the repository, let Actions create pull requests")
    if shards is not None:
        echo("  next: in the rules of the branch, require the check `Evals` alone")
    if name != "comment" and context.keys:
        echo(f"  next: add secrets to the repository: {', '.join(context.keys)}")


@command.command(name="case")
@click.argument("name")
@click.argument("case_id", metavar="ID", required=False)
@input_option
@click.option("--expected", metavar="JSON", help="The expected value: JSON, or text.")
@tier_option
@dataset_option
@from_run_option
@click.option("--case", metavar="CASE", help="--from-run: the case to copy; by default ID.")
@number_option("--trial", click.IntRange(min=0), "--from-run: the trial to use.")
@click.option(
    "--expected-from-output", is_flag=True, help="--from-run: use the output as the expected value."
)
@click.option("--edit", is_flag=True, help="Edit the case before it is added.")
@click.option(
    "--from-spans",
    "spans",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Write candidates for review, from OpenTelemetry spans of model calls.",
)
@output_option()
@dry_run_option
@json_option
def case_command(
    name: str,
    case_id: str | None,
    *,
    inputs: tuple[str, ...],
    expected: str | None,
    tier: str | None,
    dataset: str | None,
    from_run: str | None,
    case: str | None,
    trial: int | None,
    expected_from_output: bool,
    edit: bool,
    spans: Path | None,
    output: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add case ID to the golden dataset of prompt NAME.

    Keys and other secrets are left out.
    --from-run takes a failed trial if there is one; inputs and --expected replace the run's.
    The case goes to the dataset that it has in the run, or to --dataset.
    --from-spans writes candidates to fixtures/candidates/NAME.jsonl or --output, with personal data
    and secrets masked: review them, add `expected`, and move them to the golden dataset.

    Examples:
      regauge new case ticket-kind slow-page -i ticket=@mail.txt --expected '{"kind": "bug"}'
      regauge new case ticket-kind wrong-price-2 --from-run latest --case wrong-price --edit
      regauge new case ticket-kind --from-spans spans.json

    Exit codes: 0 written, 2 wrong use, or the file exists.
    """
    project = Project.find()
    if spans is not None:
        texts = (case_id, expected, tier, dataset, from_run, case)
        case_options = (*texts, inputs, expected_from_output, edit)
        if any(value not in {None, (), False} for value in case_options) or trial is not None:
            raise UsageError("--from-spans creates the cases", fix="leave out ID and options")
        _from_spans(project, name, spans, output, dry_run=dry_run, as_json=as_json)
        return
    of_runs: dict[str, object] = {
        "--case": case,
        "--trial": trial is not None,
        "--expected-from-output": expected_from_output,
    }
    of_runs = of_runs if from_run is None else {}
    fix = "add --from-{}, or leave it out"
    refuse_options({"--output": output}, "needs --from-spans", fix=fix.format("spans"))
    refuse_options(of_runs, "needs --from-run", fix=fix.format("run"))
    if case_id is None:
        raise UsageError("the case has no id", fix=f"regauge new case {quote(name)} ID")
    values = parse_inputs(inputs)
    document: dict[str, JSON] = {"id": case_id, "inputs": values}
    if from_run is not None:
        run_case, run_dataset = case_from_run(
            project,
            from_run,
            case or case_id,
            trial,
            prompt=name,
            expected_from_output=expected_from_output,
        )
        dataset = dataset or run_dataset
        document = run_case | {
            "id": case_id,
            "inputs": {**cast("dict[str, JSON]", run_case["inputs"]), **values},
        }
    if expected is not None:
        document["expected"] = _expected(expected)
    if tier is not None:
        document["tier"] = tier
    document = redact_case(project, document)
    if edit:
        document = _edit(document)
    if dry_run:
        click.echo(
            encodable(json.dumps(document, indent=2 if as_json else None, ensure_ascii=False))
        )
        return
    path, line = append_case(project, name, document, dataset=dataset or "")
    place = project.relative(path).as_posix()
    if as_json:
        text = json.dumps({"path": place, "line": line, "case": document}, ensure_ascii=False)
        click.echo(encodable(text))
    else:
        echo(f"added {document['id']} to {place}:{line}", style="green")
        echo(f"  see it: {project.run_command} -k {document['id']}")


def _expected(text: str) -> JSON:
    """The value of `--expected`: JSON, or a text."""
    try:
        return cast("JSON", read_json(text))
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            fix = f"correct it; for a text, write {json.dumps(text)}"
            raise UsageError(f"--expected is not JSON: {error}", fix=fix) from error
        return text


def _from_spans(
    project: Project, name: str, spans: Path, output: str | None, *, dry_run: bool, as_json: bool
) -> None:
    """Write candidate cases from a file of spans."""
    is_prompt = name not in project.settings.targets
    prompt = load_prompt(find_prompt(name)) if is_prompt else None
    calls = read_spans(spans)
    fixtures = project.fixtures_dir
    existing: Sequence[Mapping[str, JSON]] = ()
    if _has_cases(project, name):
        dataset = load_dataset(find_dataset(name, fixtures_dir=fixtures), fixtures_dir=fixtures)
        existing = [case.inputs for case in dataset]
    candidates = candidate_cases(calls, prompt, project.settings, existing)
    if not candidates.calls:
        raise UsageError(
            f"{short_path(spans)} has no model call",
            fix="export spans with the messages of requests, which instrumentations leave out by"
            " default",
        )
    path = Path(output) if output else project.fixtures_dir / "candidates" / f"{name}.jsonl"
    added_count = len(candidates.documents) if dry_run else write_candidates(path, candidates)
    summary: dict[str, JSON] = {
        "path": str(path),
        "calls": candidates.calls,
        "candidates": len(candidates.documents),
        "added": added_count,
        "joined": candidates.duplicates,
        "unmatched": list(candidates.unmatched),
        "masked": candidates.masked,
    }
    if as_json:
        document = {**summary, "cases": list(candidates.documents)}
        click.echo(encodable(json.dumps(document, ensure_ascii=False)))
        return
    if dry_run:
        for document in candidates.documents:
            click.echo(encodable(json.dumps(document, ensure_ascii=False)))
    verb = "would add" if dry_run else "added"
    echo(f"{verb} {plural(added_count, 'candidate')} to {short_path(path)}", style="green")
    echo(
        f"  {plural(candidates.calls, 'model call')}: {candidates.duplicates} joined or known,"
        f" {len(candidates.unmatched)} of other prompts, {plural(candidates.masked, 'text')} masked"
    )
    if added_count:
        echo("  next: review them, add `expected`, move them to the golden dataset")


def _write(
    project: Project,
    files: Sequence[NewFile],
    *,
    as_json: bool,
    dry_run: bool,
    fix: str = "choose another name",
    changed_files: Sequence[PlannedFile] = (),
) -> None:
    for new_file in files:
        path = project.root / new_file.path
        if path.exists() or path.is_symlink():
            raise UsageError(f"{short_path(path)} is there already\n  fix: {fix}")
        refuse_blocked(project.root, new_file.path)
    if dry_run:
        for new_file in files:
            echo(f"would write {new_file.path}\n{new_file.text}")
        for file in changed_files:
            echo(f"would {file.action} {short_path(file.path)}")
        return
    texts = {project.root / new_file.path: new_file.text for new_file in files}
    texts |= {file.path: file.text for file in changed_files}
    for path, text in texts.items():
        write_whole(path, text.encode())
        if not as_json:
            echo(f"wrote {short_path(path)}", style="green")
    if as_json:
        paths_written = [project.relative(path).as_posix() for path in texts]
        click.echo(json.dumps({"written": paths_written}, indent=2))


def _edit(document: dict[str, JSON]) -> dict[str, JSON]:
    content = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        text = click.edit(content, extension=".json")
    except click.ClickException as error:
        fix = "name an editor that waits in $VISUAL or $EDITOR"
        raise UsageError(f"the editor failed: {error.message}", fix=fix) from error
    if text is None:
        raise UsageError("the case was not saved in the editor, so nothing was added")
    try:
        value = read_json(text)
    except ValueError as error:
        raise UsageError(f"what the editor left is not JSON: {error}") from error
    if not isinstance(value, dict) or not {"id", "inputs"} <= value.keys():
        raise UsageError("what the editor left has no `id` and `inputs`, so nothing was added")
    return cast("dict[str, JSON]", value)
