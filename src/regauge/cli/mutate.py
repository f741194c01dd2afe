"""`regauge mutate`: find instructions that no golden case guards."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
from regauge.cli._terminal import Meter, echo, short_path
from regauge.errors import DatasetError, MissingRecordingError, UnmeasuredError, UsageError
from regauge.gate import REVISION_FIRST, policy_of
from regauge.judges.model._response import ResponseError
from regauge.maintenance.collection import is_partial, option_words, with_evals
from regauge.model_id import is_simulated
from regauge.mutate import (
    MODEL,
    PROVING_TRIALS,
    ClassificationPolicy,
    DraftBenches,
    EvalBench,
    ModelCaseProposer,
    MutationProgress,
    UnmeasuredMutants,
    VariantProposer,
    add_cases,
    choose_operators,
    digests_of,
    estimate_calls,
    find_unguarded,
    is_open,
    load_mutants,
    mark_equivalent,
    measure,
    model_changes,
    mutants_of,
    report_json,
    report_of,
    save_mutants,
    score_of,
    subject_of,
    suggest,
    suite_facts,
)
from regauge.project import Project
from regauge.providers import parse_model_id
from regauge.refine.proposers._model import ProposerCalls
from regauge.refine.subject import prompt_of_target
from regauge.reports import money
from regauge.reports.html import coverage_html
from regauge.reports.mutants import mutation_badge, mutation_lines, mutation_markdown
from regauge.runner import CaseRequest, PlannedTrial
from regauge.scaffold._files import append_case, redact_case
from regauge.stop_signals import run_stoppable
from regauge.wording import cut, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON
    from regauge.mutate import (
        GuardSuggestion,
        MeasuredClasses,
        Mutant,
        MutantRow,
        MutantsFile,
        Mutation,
        MutationReport,
        MutationSubject,
        Operator,
        Score,
        UnguardedInstruction,
    )
    from regauge.prompts import Prompt
    from regauge.providers import Completion, CompletionRequest
    from regauge.runner import EvalSession, TrialRunner

__all__ = ["command"]

_EPILOG = """\
\b
Exit codes: 0 done, 1 score below `floor` of [tool.regauge.mutate], 2 wrong use or a faulty file,
3 unmeasured, 130 Ctrl-C (the same command continues).

\b
Examples:
  regauge mutate alert-severity --dry-run
  regauge mutate alert-severity
  regauge mutate alert-severity -o coverage.html
  regauge mutate alert-severity -o guarded.badge.json
  regauge mutate alert-severity --operators negate,move-limit --limit 20
  regauge mutate alert-severity --suggest --apply
  regauge mutate alert-severity --mark delete-entry-4381ef40 --reason "Repeats line 56."
"""
_SUFFIXES = {".html", ".md", ".json"}
_BADGE = ".badge.json"
# Calls per suggestion, measured on simulated suites; see the reference.
_CALLS = 60
# The share of single deletions of this repository's prompts that no case guards.
_OPEN_SHARE = 0.3
_PROPOSERS = ("model", "rules")
_SHOWN_CHARS = 240
_STYLES = {"plain": "", "quiet": "", "good": "green", "bad": "red", "warn": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _MutateOptions:
    """The options of the command.

    Attributes:
        counts_model: Whether mutants of the operator `model` count in the score.
        proposers: Proposers of golden cases; empty without `--suggest`.
        apply: Whether to add the proposed cases to their datasets.
        refiner: The refiner model; empty for that of `regauge refine`.
        saves: Whether results are of all evals and of the model that the project declares, so that
            they are saved.
    """

    operators: Sequence[Operator]
    counts_model: bool
    limit: int | None
    proposers: tuple[str, ...]
    apply: bool
    refiner: str
    dry_run: bool
    saves: bool
    as_json: bool
    output: str | None


@click.command(name="mutate", epilog=_EPILOG)
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
@click.option("--reason", metavar="TEXT", help="Why marked mutants are equivalent.")
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
        operators=operator_list,
        counts_model=count_model,
        limit=limit,
        proposers=_choose_proposers(proposers or "", output) if suggesting else (),
        apply=apply_it,
        refiner=refiner_model or "",
        dry_run=dry_run,
        saves=options["model"] is None and not is_partial(project, path),
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
        UsageError: A proposer is unknown, or the output is no JSON file.
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
    problems: list[UnguardedInstruction] = []
    suggestions: list[GuardSuggestion] = []
    try:
        subject = subject_of(evals, evals.plan.cases, prompt)
        if options.apply:
            _check_appendable(subject)
        earlier_rows = _decided_rows(earlier, subject) if options.proposers else {}
        all_mutants = mutants_of(subject.prompt, _active_operators(evals, subject, options))
        if not all_mutants:
            message = f"{prompt} has no text that these operators can edit"
            raise UsageError(message, fix="name others with --operators")
        mutants = _sample(
            [mutant for mutant in all_mutants if is_open(earlier_rows.get(mutant.id))],
            options.limit,
        )
        _note_baseline(subject)
        unknown = [mutant for mutant in mutants if mutant.id not in earlier_rows]
        measured = _measure(evals, subject, unknown, earlier)
        report = report_of(subject, measured, earlier=earlier)
        report = _with_missing(report, evals, subject, mutants, earlier)
        rows = [*earlier_rows.values(), *report.mutants]
        if options.proposers:
            golden = {key: member.case for key, member in subject.members.items()}
            problems = find_unguarded(subject.prompt, mutants, rows, subject.cases, golden)
            if not options.dry_run:
                candidates = _search(evals, subject, problems, options)
                ids = {x.id for member in subject.members.values() for x in member.suite.dataset}
                suggestions = add_cases(candidates, golden, ids)
    finally:
        evals.close()
    if options.dry_run:
        extra = len(problems) + _OPEN_SHARE * len(unknown) if options.proposers else 0
        _print_estimate(
            evals,
            subject,
            unknown,
            measured,
            earlier,
            extra_calls=round(_CALLS * extra),
            as_json=options.as_json,
        )
        return None
    if options.saves and any(row.kind != "undecided" for row in report.mutants):
        digests = digests_of(subject)
        file = save_mutants(evals.project, report, subject.key, earlier, digests=digests)
        echo(f"wrote {short_path(file)}", err=True)
    if options.proposers:
        _show_suggestions(suggestions, subject, options)
        _deliver_suggestions(evals.project, suggestions, subject, options)
    else:
        _show(report, subject, all_mutants, options)
        if len(mutants) < len(all_mutants):
            count = plural(len(all_mutants), "mutant")
            echo(f"measured {len(mutants)} of {count} (--limit)", err=True)
    _check_measured(report, measured)
    return score_of(rows) if options.proposers else report.score


def _check_appendable(subject: MutationSubject) -> None:
    """Check, before any call, that cases can be added to the datasets.

    Raises:
        UsageError: A dataset is no JSONL file.
    """
    for member in subject.members.values():
        path = member.suite.dataset.path
        if path.suffix != ".jsonl":
            fix = "leave --apply out, and add the cases by hand"
            message = f"{short_path(path)} is no JSONL file, so nothing is added to it"
            raise UsageError(message, fix=fix)


def _decided_rows(earlier: MutantsFile | None, subject: MutationSubject) -> dict[str, MutantRow]:
    """Committed results that are still valid, by the id of the mutant."""
    if earlier is None or not earlier.holds_for(subject.prompt.digest, subject.key, subject.model):
        return {}
    return {row.id: row for row in earlier.mutants if row.kind != "undecided"}


def _mark(project: Project, prompt: str, marks: Sequence[str], reason: str | None) -> None:
    text = " ".join((reason or "").split())
    if not marks or not text:
        fix = f'regauge mutate {prompt} --mark ID --reason "why its deletion changes nothing"'
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
    if output != STDOUT and Path(output).suffix not in _SUFFIXES:
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


def _sample(mutants: Sequence[Mutant], limit: int | None) -> list[Mutant]:
    """Select at most `limit` mutants, spread over the prompt."""
    if limit is None or limit >= len(mutants):
        return list(mutants)
    return [mutants[number * len(mutants) // limit] for number in range(limit)]


def _note_baseline(subject: MutationSubject) -> None:
    unknown = sum(case.baseline is None for case in subject.cases)
    if unknown:
        echo(
            f"note: {plural(unknown, 'case')} without a baseline for these judges, so trials of the"
            " base run too\n  fix: regauge baseline update",
            err=True,
        )


def _measure(
    evals: EvalSession,
    subject: MutationSubject,
    mutants: Sequence[Mutant],
    earlier: MutantsFile | None,
) -> MeasuredClasses:
    progress = MutationProgress()
    rows = earlier.mutants if earlier is not None else []
    first = {row.id: row.cases for row in rows if row.kind == "killed"}
    marks = {row.id: row.reason for row in rows if row.kind == "equivalent"}
    # A broken case kills a mutant even if the project only warns about it.
    policy = ClassificationPolicy(
        gate=replace(policy_of(evals.project.settings.gate), on_broken="block")
    )

    async def run() -> MeasuredClasses:
        async with evals.open_trials() as trials:
            with closing(EvalBench(subject, trials)) as bench:
                suite = subject.prompt, mutants, subject.cases, bench, policy
                return await measure(*suite, first=first, marks=marks, progress=progress)

    with Meter(lambda: _progress_text(progress, "mutant", evals)):
        return run_stoppable(run())


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
        click.echo(document)
    elif output != STDOUT:
        for text, tone in mutation_lines(report, subject.prompt):
            echo(text, style=_STYLES[tone])


def _with_missing(
    report: MutationReport,
    evals: EvalSession,
    subject: MutationSubject,
    mutants: Sequence[Mutant],
    earlier: MutantsFile | None,
) -> MutationReport:
    """Add an estimate for mutants without trials to a report."""
    left = {row.id for row in report.mutants if not row.measured}
    if not left:
        return report
    unmeasured = [mutant for mutant in mutants if mutant.id in left]
    calls, usd = _estimate(evals, subject, unmeasured, earlier)
    missing = UnmeasuredMutants(
        mutants=len(left), calls=calls, cost_usd=usd, suite=suite_facts(subject.cases)
    )
    return report.model_copy(update={"missing": missing})


def _estimate(
    evals: EvalSession,
    subject: MutationSubject,
    mutants: Sequence[Mutant],
    earlier: MutantsFile | None,
    *,
    stored_calls: int = 0,
    extra_calls: int = 0,
) -> tuple[int, float | None]:
    """Estimate the calls of mutants, and their cost; None if a price is unknown."""
    # Results of an earlier prompt or suite are the best guess: ids depend on the text only.
    kinds = {row.id: row.kind for row in earlier.mutants} if earlier is not None else {}
    calls = extra_calls + estimate_calls(
        subject.prompt, mutants, subject.cases, kinds, recorded_calls=stored_calls
    )
    members = subject.members.values()
    draws = [PlannedTrial(member, REVISION_FIRST) for member in members if member.plan()]
    costs = [answer.cost_usd for answer in evals.missing_completions(draws)]
    priced = [cost for cost in costs if cost is not None]
    return calls, calls * sum(priced) / len(draws) if draws and len(priced) == len(costs) else None


def _print_estimate(
    evals: EvalSession,
    subject: MutationSubject,
    mutants: Sequence[Mutant],
    measured: MeasuredClasses,
    earlier: MutantsFile | None,
    *,
    extra_calls: int,
    as_json: bool,
) -> None:
    """Print the calls of mutants with missing trials.

    Args:
        extra_calls: Calls for suggestions.
    """
    left = {result.mutant.id for result in measured.results if result.outcome.unmeasured}
    missing = [mutant for mutant in mutants if mutant.id in left]
    calls, usd = _estimate(
        evals, subject, missing, earlier, stored_calls=measured.base_calls, extra_calls=extra_calls
    )
    if as_json:
        document = {
            "prompt": subject.prompt.name,
            "mutants": len(mutants),
            "cases": len(subject.cases),
            "stored": len(mutants) - len(missing),
            "calls": calls,
            "cost_usd": usd,
        }
        click.echo(json.dumps(document))
        return
    echo(
        f"{subject.prompt.name} on {subject.model}: {plural(len(mutants), 'mutant')},"
        f" {plural(len(subject.cases), 'case')}; {len(mutants) - len(missing)} measured before"
    )
    cost = "cost unknown (no price declared)" if usd is None else money(usd)
    echo(f"about {plural(calls, 'call')}, {cost}; judges that call models come on top")


def _progress_text(progress: MutationProgress, noun: str, evals: EvalSession) -> str:
    """The state of a search on one line."""
    done = f"{progress.done} of {plural(progress.mutants, noun)}"
    cost = money(evals.budget.spent_usd)
    return f"regauge: {done}, {plural(progress.calls, 'trial')}, {cost}"


def _refiner(evals: EvalSession, subject: MutationSubject, name: str) -> str:
    """The refiner model; empty if only a target runs the prompt, and no setting names a model."""
    settings = evals.project.settings
    has_target = any(member.suite.target is not None for member in subject.members.values())
    default = subject.prompt.model or settings.model or "" if has_target else subject.model
    return name or settings.refine.model or default


def _active_operators(
    evals: EvalSession, subject: MutationSubject, options: _MutateOptions
) -> list[Operator]:
    """The operators; the operator `model` gets changes from the refiner model."""
    operators = list(options.operators)
    if all(operator.name != MODEL for operator in operators):
        return operators
    refiner = _refiner(evals, subject, options.refiner)
    if not refiner or is_simulated(refiner):
        reason = f"{refiner} is simulated and" if refiner else "no model is named, which"
        echo(f"note: {reason} proposes no mutants", err=True)
        return operators

    async def propose() -> list[Mutation]:
        async with evals.open_trials() as trials:
            model_id = parse_model_id(refiner, location="--refiner-model")
            return await model_changes(subject.prompt, model_id, _calls(trials, subject))

    changes: list[Mutation] = []
    try:
        changes = run_stoppable(propose())
    except MissingRecordingError:
        echo(f"note: {refiner} was not called yet, so its mutants are unknown", err=True)
    except ResponseError as error:
        echo(f"note: the response of {refiner} cannot be read: {error}", err=True)

    def proposed(prompt: Prompt) -> Sequence[Mutation]:
        del prompt
        return changes

    return [
        replace(operator, mutate=proposed, scored=options.counts_model)
        if operator.name == MODEL
        else operator
        for operator in operators
    ]


def _calls(trials: TrialRunner, subject: MutationSubject) -> ProposerCalls:
    def question(request: CompletionRequest) -> CaseRequest:
        return CaseRequest.of_refiner(request, prompt=subject.prompt, command="mutate")

    async def send(request: CompletionRequest) -> Completion:
        return (await trials.complete(question(request))).completion

    return ProposerCalls(send, sys.maxsize, lambda request: trials.forget(question(request)))


def _search(
    evals: EvalSession,
    subject: MutationSubject,
    problems: Sequence[UnguardedInstruction],
    options: _MutateOptions,
) -> list[GuardSuggestion]:
    """Search for cases that guard instructions; completions in the local store are used first."""
    names = options.proposers
    model = _refiner(evals, subject, options.refiner)
    if "model" in names and (not model or is_simulated(model)):
        reason = f"{model} is simulated and writes no cases" if model else "no model is named"
        echo(f"note: {reason}; rules vary cases", err=True)
        names = ("rules",)
    progress = MutationProgress()
    judges = dict.fromkeys(check for case in subject.cases for check in case.checks)
    unread: list[str] = []

    async def search() -> list[GuardSuggestion]:
        async with evals.open_trials() as trials:
            proposers = [
                ModelCaseProposer(
                    model=parse_model_id(model, location="--refiner-model"),
                    call_model=_calls(trials, subject),
                    judges=list(judges),
                    unreadable=unread,
                )
                if name == "model"
                else VariantProposer()
                for name in names
            ]
            with closing(DraftBenches(evals, subject, trials)) as benches:
                return await suggest(problems, proposers, benches, progress)

    with Meter(lambda: _progress_text(progress, "instruction", evals)):
        suggestions = run_stoppable(search())
    if unread:
        count = plural(len(unread), "response")
        echo(f"note: {count} of {model} cannot be read: {unread[0]}", err=True)
    return suggestions


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
        click.echo(text)
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
            echo(f"    {name}: {_short(value)}")
        if draft.expected is not None:
            echo(f"    expected: {_short(draft.expected)}")
        if draft.checks:
            echo(f"    checks: {_short(list(draft.checks))}")
    trials = f"{PROVING_TRIALS} of {PROVING_TRIALS}"
    judges = f" on {', '.join(suggestion.judges)}" if suggestion.judges else ""
    echo(f"  passes {trials} trials; without the text, fails {trials}{judges}")


def _short(value: JSON) -> str:
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
        _append_cases(project, suggestions, subject, as_json=options.as_json)
    elif any(suggestion.case is not None for suggestion in suggestions) and not options.as_json:
        echo(f"next: regauge mutate {subject.prompt.name} --suggest --apply", err=True)
    missing = [suggestion.reason for suggestion in suggestions if suggestion.unmeasured]
    if missing:
        message = f"{plural(len(missing), 'instruction')} could not be tried: {missing[0]}"
        raise UnmeasuredError(message, fix="run it with a key, and with --record=missing")


def _append_cases(
    project: Project,
    suggestions: Sequence[GuardSuggestion],
    subject: MutationSubject,
    *,
    as_json: bool,
) -> None:
    added_ids: set[str] = set()
    diagnostics: list[str] = []
    for suggestion in suggestions:
        case, draft = suggestion.case, suggestion.draft
        if case is None or draft is None or str(case["id"]) in added_ids:
            continue
        dataset = subject.members[draft.like].suite.dataset.name
        document = redact_case(project, dict(case))
        try:
            path, line = append_case(project, subject.prompt.name, document, dataset=dataset)
        except (UsageError, DatasetError) as error:
            diagnostics.append(f"{document['id']}: {error}")
            continue
        added_ids.add(str(case["id"]))
        place = project.relative(path).as_posix()
        echo(f"added {document['id']} to {place}:{line}", style="green", err=as_json)
    if added_ids:
        echo(
            "  next: review inputs and expectation, remove the tag `review`, then"
            " regauge baseline update",
            err=as_json,
        )
    if diagnostics:
        raise UsageError("\n".join(diagnostics))
