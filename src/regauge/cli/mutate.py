"""`regauge mutate`: find instructions that no golden case guards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._options import (
    STDOUT,
    dry_run_option,
    json_option,
    model_option,
    output_option,
    record_option,
    run_options,
    write_and_report,
)
from regauge.cli._suggestions import (
    GuardSearch,
    SuggestOptions,
    progress_text,
    with_model_mutants,
)
from regauge.cli._terminal import Meter, echo, short_path
from regauge.errors import UnmeasuredError, UsageError
from regauge.gate import REVISION_FIRST, policy_of
from regauge.maintenance.collection import option_words, with_evals
from regauge.mutate import (
    MODEL,
    ClassificationPolicy,
    EvalBench,
    MeasuredClasses,
    MutantsFile,
    MutationProgress,
    MutationReport,
    MutationSubject,
    Score,
    UnmeasuredMutants,
    choose_operators,
    digests_of,
    estimate_calls,
    is_open,
    load_mutants,
    mark_equivalent,
    measure,
    mutants_of,
    report_json,
    report_of,
    save_mutants,
    score_of,
    subject_of,
    suite_facts,
)
from regauge.project import Project
from regauge.refine.subject import prompt_of_target
from regauge.reports import money
from regauge.reports.html import coverage_html
from regauge.reports.mutants import mutation_badge, mutation_lines, mutation_markdown
from regauge.runner import PlannedTrial
from regauge.stop_signals import run_stoppable
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.mutate import Mutant, Operator
    from regauge.runner import EvalSession

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
_STYLES = {"plain": "", "quiet": "", "good": "green", "bad": "red", "warn": "yellow"}


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
@click.option("--apply", is_flag=True, help="Write the proposal to its files.")
@click.option("--proposers", metavar="A,B", help="Proposers, cheapest first.")
@click.option("--refiner-model", metavar="ID", help="Model for critiques and edits.")
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
    operator_list = choose_operators(operators or project.settings.mutate.operators)
    refiner = options["refiner_model"] or ""
    has_model = any(operator.name == MODEL for operator in operator_list)
    suggesting = SuggestOptions.from_options(options, output, has_model=has_model)
    if marks or reason is not None:
        _mark(project, prompt, marks, reason)
        return
    _check_output(output, as_json=as_json, dry_run=dry_run)
    if dry_run:
        options["record"] = "none"
    earlier = load_mutants(project, prompt)
    done: list[Score] = []

    def act(evals: EvalSession) -> None:
        try:
            subject = subject_of(evals, evals.plan.cases, prompt)
            earlier_rows = (
                suggesting.decided_rows(earlier, subject) if suggesting is not None else {}
            )
            all_mutants = _mutants(
                subject,
                with_model_mutants(
                    evals, subject, operator_list, model=refiner, is_counted=count_model
                ),
            )
            mutants = _sample(
                [mutant for mutant in all_mutants if is_open(earlier_rows.get(mutant.id))], limit
            )
            _note_baseline(subject)
            unknown = [mutant for mutant in mutants if mutant.id not in earlier_rows]
            measured = _measure(evals, subject, unknown, earlier)
            report = report_of(subject, measured, earlier=earlier)
            report = _with_missing(report, evals, subject, mutants, earlier)
            rows = [*earlier_rows.values(), *report.mutants]
            search = None
            if suggesting is not None:
                search = GuardSearch(evals, subject, mutants, rows, suggesting)
                if not dry_run:
                    search.run()
        finally:
            evals.close()
        if dry_run:
            suggestion_calls = search.estimate(len(unknown)) if search is not None else 0
            _print_estimate(
                evals,
                subject,
                unknown,
                measured,
                earlier,
                extra_calls=suggestion_calls,
                as_json=as_json,
            )
            return
        if options["model"] is None and any(row.kind != "undecided" for row in report.mutants):
            file = save_mutants(project, report, subject.key, earlier, digests=digests_of(subject))
            echo(f"wrote {short_path(file)}", err=True)
        if search is not None:
            search.show(as_json=as_json, output=output)
        else:
            _show(report, subject, all_mutants, as_json=as_json, output=output)
            _note_sample(mutants, all_mutants)
        _check_measured(report, measured)
        done.append(report.score if search is None else score_of(rows))

    with_evals(
        project,
        path or project.root / "evals",
        act,
        prompts=[prompt],
        include_targets=True,
        options=option_words(options),
        prefetch=False,
    )
    for score in done:
        _check_floor(project, score)


def _note_sample(mutants: Sequence[Mutant], all_mutants: Sequence[Mutant]) -> None:
    if len(mutants) < len(all_mutants):
        echo(f"measured {len(mutants)} of {plural(len(all_mutants), 'mutant')} (--limit)", err=True)


def _check_floor(project: Project, score: Score) -> None:
    floor = project.settings.mutate.floor
    if floor is not None and (score.value is None or score.value < floor):
        echo(f"the score is below the floor of {floor:g}", style="red", err=True)
        click.get_current_context().exit(1)


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


def _mutants(subject: MutationSubject, operators: Sequence[Operator]) -> tuple[Mutant, ...]:
    mutants = mutants_of(subject.prompt, operators)
    if not mutants:
        message = f"{subject.prompt.name} has no text that these operators can edit"
        raise UsageError(message, fix="name others with --operators")
    return mutants


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
            with EvalBench(subject, trials) as bench:
                suite = subject.prompt, mutants, subject.cases, bench, policy
                return await measure(*suite, first=first, marks=marks, progress=progress)

    with Meter(lambda: progress_text(progress, "mutant", evals)):
        return run_stoppable(run())


def _show(
    report: MutationReport,
    subject: MutationSubject,
    mutants: Sequence[Mutant],
    *,
    as_json: bool,
    output: str | None,
) -> None:
    document = json.dumps(report_json(report), ensure_ascii=False, indent=1)
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
    if as_json:
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
