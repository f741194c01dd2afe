"""`regauge mutate`: find instructions that no golden case guards."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from regauge.cli import Command
from regauge.cli._options import (
    STDOUT,
    apply_option,
    dry_run_option,
    json_option,
    model_option,
    output_option,
    proposers_option,
    record_option,
    refiner_option,
    refuse_options,
    run_options,
    write_and_report,
    write_output,
)
from regauge.cli._terminal import Meter, echo, echo_lines, short_path
from regauge.errors import UnmeasuredError, UsageError
from regauge.maintenance.collection import is_partial, left_out_errors, option_words, with_evals
from regauge.maintenance.mutation import MutationOptions, MutationRun, append_suggestions
from regauge.model_id import is_simulated
from regauge.mutate import (
    MODEL,
    PROVING_TRIALS,
    choose_operators,
    digests_of,
    load_mutants,
    mark_equivalent,
    report_json,
    save_mutants,
    score_of,
    subject_of,
)
from regauge.project import Project
from regauge.refine.subject import prompt_of_target
from regauge.reports import estimated_cost
from regauge.reports.html import coverage_html
from regauge.reports.mutants import mutation_badge, mutation_lines, mutation_markdown
from regauge.wording import cut, encodable, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON
    from regauge.mutate import (
        GuardSuggestion,
        MeasuredClasses,
        Mutant,
        MutantsFile,
        MutationReport,
        MutationSubject,
        Score,
    )
    from regauge.runner import EvalSession


_BADGE = ".badge.json"
_PROPOSERS = ("model", "rules")
_SHOWN_CHARS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class _MutateOptions:
    """The options of the command.

    Attributes:
        run: The choice of mutants and of suggestions.
        apply: Whether to add the proposed cases to their datasets.
        dry_run: Whether only to estimate.
        saves: Whether results are of the model that the project declares, so that they are saved.
        is_partial: Whether results may be of a part of the evals, and are not saved.
    """

    run: MutationOptions
    apply: bool
    dry_run: bool
    saves: bool
    is_partial: bool
    as_json: bool
    output: str | None


@click.command(name="mutate", cls=Command)
@click.argument("prompt", metavar="NAME")
@click.option(
    "--operators", metavar="NAMES", help="Operators, with commas between, or `all`; see the docs."
)
@click.option(
    "--count-model", is_flag=True, help="Count mutants of the operator `model` in the score."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Most items.")
@model_option()
@record_option("none", "missing")
@dry_run_option
@run_options
@click.option(
    "--mark", "marks", multiple=True, metavar="ID", help="Mark a mutant equivalent; no calls."
)
@click.option("--reason", metavar="REASON", help="Why marked mutants are equivalent.")
@click.option(
    "--suggest",
    "suggesting",
    is_flag=True,
    help="Propose golden cases for instructions that no case guards, by `model` and `rules`.",
)
@apply_option
@proposers_option
@refiner_option
@json_option
@output_option()
def command(
    prompt: str,
    *,
    operators: str | None,
    count_model: bool,
    limit: int | None,
    dry_run: bool,
    marks: tuple[str, ...],
    reason: str | None,
    suggesting: bool,
    apply_it: bool,
    proposers: str | None,
    refiner_model: str | None,
    as_json: bool,
    output: str | None,
    path: Path | None,
    **options: Any,
) -> None:
    """Delete the instructions of prompt NAME one by one, and report which deletions fail a case.

    A mutant is killed if the gate's tests find a broken case. Commit fixtures/mutants/NAME.json.
    --suggest offers cases that the prompt passes 5 of 5 times and the mutant fails 5 of 5 times;
    --apply adds them with the tag `review`.

    Examples:
      regauge mutate alert-severity --dry-run
      regauge mutate alert-severity
      regauge mutate alert-severity -o coverage.html
      regauge mutate alert-severity -o guarded.badge.json
      regauge mutate alert-severity --operators negate,move-limit --limit 20
      regauge mutate alert-severity --suggest --apply
      regauge mutate alert-severity --mark delete-entry-4381ef40 --reason "Repeats line 56."

    Exit codes: 0 done, 1 score below `floor` of [tool.regauge.mutate], 2 wrong use or a faulty
    file, 3 unmeasured, 130 Ctrl-C (the same command continues).
    """
    project = Project.find()
    prompt = prompt_of_target(project, prompt, command="regauge mutate")
    operator_list = choose_operators(
        operators or project.settings.mutate.operators,
        warn=lambda text: echo(f"warning: {text}", err=True),
    )
    if not suggesting:
        refused: dict[str, object] = {"--apply": apply_it, "--proposers": proposers}
        if all(operator.name != MODEL for operator in operator_list):
            refused["--refiner-model"] = refiner_model
        refuse_options(refused, "needs --suggest", fix="add --suggest, or leave {option} out")
    mutate_options = _MutateOptions(
        run=MutationOptions(
            operators=operator_list,
            counts_model=count_model,
            limit=limit,
            proposers=_choose_proposers(proposers or "", output) if suggesting else (),
            refiner=refiner_model or "",
        ),
        apply=apply_it,
        dry_run=dry_run,
        saves=options["model"] is None,
        is_partial=is_partial(project, path),
        as_json=as_json,
        output=output,
    )
    if marks or reason is not None:
        _mark(project, prompt, marks, reason)
        return
    _check_output(output, as_json=as_json, dry_run=dry_run)
    if dry_run:
        options["record"] = "none"
    earlier = load_mutants(project, prompt)
    score = with_evals(
        project,
        path,
        lambda evals: _mutate(evals, prompt, mutate_options, earlier),
        prompts=[prompt],
        include_targets=True,
        options=option_words(options),
    )
    floor = project.settings.mutate.floor
    if score is not None and floor is not None and (score.value is None or score.value < floor):
        echo(f"the score is below the floor of {floor:g}", style="red", err=True)
        click.get_current_context().exit(1)


def _choose_proposers(text: str, output: str | None) -> tuple[str, ...]:
    """The proposers of golden cases in `--proposers`, by default all.

    Raises:
        UsageError: A proposer is unknown, or the output is not a JSON file.
    """
    if output is not None and output != STDOUT and not output.endswith(".json"):
        raise UsageError(f"{output}: suggestions are JSON", fix="end the name in .json")
    names = tuple(filter(None, (word.strip() for word in text.split(","))))
    for name in names:
        if name not in _PROPOSERS:
            fix = f"choose from: {', '.join(_PROPOSERS)}"
            raise UsageError(f"there is no proposer {name!r} of golden cases", fix=fix)
    return names or _PROPOSERS


def _mutate(
    evals: EvalSession, prompt: str, options: _MutateOptions, earlier: MutantsFile | None
) -> Score | None:
    """Measure the mutants of a prompt and suggest cases, or only print the estimate.

    Returns:
        The score; None for an estimate.
    """
    suggestions: list[GuardSuggestion] = []
    try:
        subject = subject_of(evals, evals.plan.cases, prompt)
        if options.apply:
            _check_appendable(subject)
        run = MutationRun(
            evals=evals,
            subject=subject,
            options=options.run,
            earlier=earlier,
            print_note=lambda text: echo(f"note: {text}", err=True),
            meter=Meter,
        )
        report = run.report
        if options.dry_run:
            _print_estimate(run, as_json=options.as_json)
            return None
        suggestions = run.suggest()
    finally:
        evals.close()
    is_partial_run = options.is_partial or bool(left_out_errors(evals))
    if is_partial_run:
        echo("note: nothing is saved, as these are not all evals", err=True)
    elif options.saves and any(row.kind != "undecided" for row in report.mutants):
        digests = digests_of(subject)
        file = save_mutants(evals.project, report, subject.key, earlier, digests=digests)
        echo(f"wrote {short_path(file)}", err=True)
    if options.run.proposers:
        _show_suggestions(suggestions, subject, options)
        _deliver_suggestions(evals.project, suggestions, subject, options)
    else:
        _show(report, subject, run.all_mutants, options)
        if len(run.mutants) < len(run.all_mutants):
            count = plural(len(run.all_mutants), "mutant")
            echo(f"measured {len(run.mutants)} of {count} (--limit)", err=True)
    _check_measured(report, run.measured)
    return score_of(run.rows) if options.run.proposers else report.score


def _check_appendable(subject: MutationSubject) -> None:
    """Check, before any call, that cases can be added to the datasets.

    Raises:
        UsageError: A dataset is not a JSONL file.
    """
    for member in subject.members.values():
        path = member.eval.dataset.path
        if path.suffix != ".jsonl":
            fix = "leave --apply out, and add the cases by hand"
            message = f"{short_path(path)} is not a JSONL file, so nothing is added to it"
            raise UsageError(message, fix=fix)


def _mark(project: Project, prompt: str, marks: Sequence[str], reason: str | None) -> None:
    text = " ".join((reason or "").split())
    if not marks or not text:
        fix = (
            f'regauge mutate {quote(prompt)} --mark ID --reason "why its deletion changes nothing"'
        )
        raise UsageError("--mark and --reason go together", fix=fix)
    file = mark_equivalent(project, prompt, marks, text)
    echo(f"marked {plural(len(marks), 'mutant')} in {short_path(file)}")


def _check_output(output: str | None, *, as_json: bool, dry_run: bool) -> None:
    if output is None:
        return
    if dry_run:
        fix = "leave one of them out"
        raise UsageError("--dry-run measures nothing, so --output has nothing to write", fix=fix)
    if output == STDOUT and as_json:
        fix = "name a file, or leave one of them out"
        raise UsageError("--json and --output - both write to standard output", fix=fix)
    if output != STDOUT and Path(output).suffix not in {".html", ".md", ".json"}:
        fix = f"end it in .html, .md, .json or {_BADGE}"
        raise UsageError(f"{output}: the format is unknown", fix=fix)


def _check_measured(report: MutationReport, measured: MeasuredClasses) -> None:
    """Check that all mutants have trials or a committed result."""
    undecided = {row.id for row in report.mutants if row.kind == "undecided"}
    missing = [
        result.outcome.reason
        for result in measured.results
        if result.outcome.unmeasured and result.mutant.id in undecided
    ]
    if missing:
        message = f"{plural(len(missing), 'mutant')} could not be measured: {missing[0]}"
        raise UnmeasuredError(message, fix="run it with a key, and with --record=missing")


def _show(
    report: MutationReport,
    subject: MutationSubject,
    mutants: Sequence[Mutant],
    options: _MutateOptions,
) -> None:
    document = json.dumps(report_json(report), ensure_ascii=False, indent=1)
    output = options.output
    if output is not None:
        if output.endswith(_BADGE):
            text = f"{json.dumps(mutation_badge(report, len(mutants)), indent=1)}\n"
        elif output.endswith(".json"):
            text = f"{document}\n"
        elif output.endswith(".html"):
            judges = [check for case in subject.cases for check in case.checks]
            text = coverage_html(report, subject.prompt, mutants, judges)
        else:
            text = mutation_markdown(report)
        write_and_report(text, output)
    if options.as_json:
        click.echo(encodable(document))
    elif output != STDOUT:
        echo_lines(mutation_lines(report, subject.prompt))


def _print_estimate(run: MutationRun, *, as_json: bool) -> None:
    about = run.estimate()
    if as_json:
        click.echo(json.dumps(asdict(about)))
        return
    echo(
        f"{about.prompt} on {run.subject.model}: {plural(about.mutants, 'mutant')},"
        f" {plural(about.cases, 'case')}; {about.measured_before} measured before"
    )
    cost = estimated_cost(about.cost_usd)
    echo(f"about {plural(about.calls, 'call')}, {cost}; judges that call models come on top")


def _show_suggestions(
    suggestions: Sequence[GuardSuggestion], subject: MutationSubject, options: _MutateOptions
) -> None:
    """Print or write the suggestions."""
    calls = sum(suggestion.calls for suggestion in suggestions)
    document = {
        "schema_version": 1,
        "prompt": subject.prompt.name,
        "digest": subject.prompt.digest,
        "model": subject.model,
        "simulated": is_simulated(subject.model),
        "calls": calls,
        "suggestions": [_row(suggestion) for suggestion in suggestions],
    }
    text = json.dumps(document, ensure_ascii=False, indent=1)
    if options.output is not None:
        write_output(f"{text}\n", options.output)
    if options.as_json:
        click.echo(encodable(text))
    elif options.output != STDOUT:
        for suggestion in suggestions:
            _print_suggestion(suggestion)
        counts = Counter(suggestion.status for suggestion in suggestions)
        echo(
            f"{counts['offered']} of {plural(len(suggestions), 'instruction')} without a guard got"
            f" a case; {counts['none']} without one, {counts['undecided']} undecided;"
            f" {plural(calls, 'trial')}"
            if suggestions
            else "nothing to suggest: no instruction survived or had no effect"
        )


def _row(suggestion: GuardSuggestion) -> dict[str, JSON]:
    draft = suggestion.draft
    trials = PROVING_TRIALS if draft is not None else 0
    added_checks: JSON = None
    if draft is not None and draft.existing:
        added_checks = {"case": draft.existing, "checks": list(draft.checks)}
    return {
        "mutant": suggestion.row.id,
        "line": suggestion.row.line,
        "text": suggestion.row.text,
        "class": suggestion.row.kind,
        "status": suggestion.status,
        "proposer": draft.proposer if draft is not None else "",
        "case": dict(suggestion.case) if suggestion.case is not None else None,
        "added_checks": added_checks,
        "passed": trials,
        "mutant_failed": trials,
        "judges": list(suggestion.judges),
        "output": suggestion.output,
        "mutant_output": suggestion.mutant_output,
        "calls": suggestion.calls,
        "reason": draft.reason if draft is not None else suggestion.reason,
    }


def _print_suggestion(suggestion: GuardSuggestion) -> None:
    echo(f"line {suggestion.row.line}  {suggestion.row.kind}  {suggestion.row.text}", bold=True)
    draft = suggestion.draft
    if draft is None:
        style = "yellow" if suggestion.status == "undecided" else ""
        echo(f"  {suggestion.status}: {suggestion.reason}", style=style)
        return
    if draft.existing:
        checks = json.dumps(list(draft.checks), ensure_ascii=False)
        echo(f"  add to case {draft.existing} by hand: checks: {checks}", style="green")
    elif suggestion.case is not None:
        echo(f"  case {suggestion.case['id']} ({draft.proposer}, like {draft.like})", style="green")
        for name, value in draft.inputs.items():
            echo(f"    {name}: {_shorten(value)}")
        if draft.expected is not None:
            echo(f"    expected: {_shorten(draft.expected)}")
        if draft.checks:
            echo(f"    checks: {_shorten(list(draft.checks))}")
    trials = f"{PROVING_TRIALS} of {PROVING_TRIALS}"
    judges = f" on {', '.join(suggestion.judges)}" if suggestion.judges else ""
    echo(f"  passes {trials} trials; without the text, fails {trials}{judges}")


def _shorten(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(" ".join(text.split()), _SHOWN_CHARS)


def _deliver_suggestions(
    project: Project,
    suggestions: Sequence[GuardSuggestion],
    subject: MutationSubject,
    options: _MutateOptions,
) -> None:
    """With `--apply`, append the cases to their golden datasets; else print that command.

    Raises:
        UsageError: A case cannot be added.
        UnmeasuredError: Trials are missing, for another reason than the budget.
    """
    if options.apply:
        places, errors = append_suggestions(project, suggestions, subject)
        for name, place in places:
            echo(f"added {name} to {place}", style="green", err=options.as_json)
        if places:
            text = "  next: review inputs and expectation, remove the tag `review`, then regauge"
            echo(f"{text} baseline update", err=options.as_json)
        if errors:
            raise UsageError("\n".join(errors))
    elif any(suggestion.case is not None for suggestion in suggestions) and not options.as_json:
        echo(f"next: regauge mutate {quote(subject.prompt.name)} --suggest --apply", err=True)
    missing = [suggestion.reason for suggestion in suggestions if suggestion.unmeasured]
    if missing:
        message = f"{plural(len(missing), 'instruction')} could not be tried: {missing[0]}"
        raise UnmeasuredError(message, fix="run it with a key, and with --record=missing")
