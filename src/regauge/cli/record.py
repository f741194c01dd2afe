"""`regauge record`: record missing completions, without judging them."""

from __future__ import annotations

import shlex
import sys
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from regauge.cli import Command
from regauge.cli._options import (
    batch_options,
    dry_run_option,
    json_option,
    judge_model_option,
    model_option,
    prune_option,
    refuse_options,
    run_options,
    trials_option,
)
from regauge.cli._terminal import Meter, echo_json
from regauge.errors import BudgetError, RegaugeError, UnmeasuredError, UsageError
from regauge.maintenance.batches import (
    BatchOptions,
    ProjectBatches,
    calls_under_way,
    request_trials,
)
from regauge.maintenance.collection import is_partial, left_out_errors, option_words, with_evals
from regauge.maintenance.stale import prune_files
from regauge.project import TRIALS_MAX, Project
from regauge.recordings import check_file_sizes
from regauge.reports import missing_judgement_lines, missing_lines, progress_line, recorded_noun
from regauge.runner import Plan
from regauge.stop_signals import run_stoppable
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.runner import EvalSession, MissingJudgements, PlannedTrial, RunProgress


_NAMED_MAX = 5
_BUDGET_REACHED = "the budget is reached; a larger --budget-usd continues where this run stopped"


@dataclass(slots=True, kw_only=True)
class _RecordOutput:
    """The output of the command: lines, or one JSON document at its end."""

    as_json: bool
    document: dict[str, JSON] = field(default_factory=dict[str, "JSON"])
    _warnings: list[str] = field(default_factory=list[str], init=False)

    def line(self, text: str) -> None:
        """Print a line, unless the output is JSON."""
        if not self.as_json:
            click.echo(text)

    def warn(self, texts: Iterable[str]) -> None:
        """Print warnings."""
        for text in texts:
            self.line(f"warning: {text}")
            self._warnings.append(text)

    def end(self) -> None:
        """Print the JSON document."""
        if self._warnings:
            self.document["warnings"] = [*self._warnings]
        if self.as_json:
            echo_json(self.document)


@click.command(name="record", cls=Command)
@click.argument("prompts", nargs=-1, metavar="[PROMPT|FILE]...")
@click.option("--refresh", is_flag=True, help="Record every case again.")
@prune_option
@batch_options
@model_option(multiple=True)
@judge_model_option
@trials_option(1, TRIALS_MAX)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Call models from the workers of a Dask scheduler, or `local` for this machine.",
)
@dry_run_option
@run_options
@json_option
def command(
    prompts: tuple[str, ...],
    *,
    refresh: bool,
    prune: bool,
    batch: bool,
    collect: bool,
    no_submit: bool,
    models: tuple[str, ...],
    dry_run: bool,
    path: Path | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Record missing completions, judge calls and embeddings of PROMPTs, or of all prompts.

    --model is repeatable; the default is `models` of the settings, or the prompts' own. After an
    interruption, the same command continues.

    Examples:
      regauge record --dry-run            print missing completions and their cost
      regauge record alert-severity
      regauge record --prune --json
      regauge record --batch              submit what is missing; run it again for the next step
      regauge record --collect            take the available results
      regauge record --cluster local      call models from a process per processor

    Exit codes: 0 done, 2 wrong use or a faulty file, 3 completions are missing or in a batch.
    """
    project = Project.find()
    if prune:
        fix = "run one after the other"
        refuse_options({"--refresh": refresh}, "does not go with --prune", fix=fix)
        # What is stale is decided by all evals, as the settings have them.
        partial = {"--evals": is_partial(project, path), "--judge-model": arguments["judge_model"]}
        reason = "would remove recordings that others use"
        refuse_options(partial, reason, fix="leave {option} out of --prune")
    if batch or collect:
        reason = "does not go with --batch and --collect"
        refused = {"--refresh": refresh, "--prune": prune}
        fix = "run {option} alone; a batch records missing completions"
        refuse_options(refused, reason, fix=fix)
        fix = "leave out {option}; the provider runs a batch"
        refuse_options({"--cluster": arguments["cluster"]}, reason, fix=fix)
    words = ["regauge", "record", *(f"--model={model}" for model in models)]
    words += option_words({name: arguments.get(name) for name in ("judge_model", "trials")})
    batches, prompts = BatchOptions.of_command(
        shlex.join(words), prompts, batch=batch, collect=collect, no_submit=no_submit
    )
    mode = "none" if dry_run or prune else "all" if refresh else "missing"
    options = option_words({"record": mode, **arguments})
    options += [f"--model={model}" for model in models or project.settings.models]
    failures: list[str] = []
    pending: list[str] = []
    output = _RecordOutput(as_json=as_json)
    progress: RunProgress | None = None

    def act(evals: EvalSession) -> None:
        nonlocal progress
        progress = evals.progress
        if prune:
            _prune(evals, prompts, output, dry_run=dry_run)
            return
        if dry_run:
            failures.extend(_estimate(evals, output, refresh=refresh))
        elif batches is not None:
            failures.extend(_batch(evals, output, batches, pending))
        else:
            failures.extend(_draw(evals, output))

    with_evals(
        project,
        path,
        act,
        prompts=prompts,
        options=options,
        prefetch=batches is None or dry_run,
        one_item_per_eval=True,
        interrupt_message=lambda: _resume_hint(progress),
        warn=lambda text: None if prune else output.warn([text]),  # errors for pruning
    )
    output.warn(progress.notes if progress else ())  # the last process may add notes at its end
    output.document["failures"] = [*failures]
    if pending:
        output.document["pending"] = [*pending]
    output.end()
    if failures:
        raise UnmeasuredError("\n".join(failures))
    if pending:
        click.get_current_context().exit(UnmeasuredError.exit_code)


def _resume_hint(progress: RunProgress | None) -> str:
    """The count of recordings at an interruption, and the command that continues."""
    recorded, total = (0, 0) if progress is None else (progress.completed, progress.total)
    count = f"{recorded} of {total}" if total else str(recorded)
    return f"{count} completions recorded; continue: {shlex.join(['regauge', *sys.argv[1:]])}"


def _count_invalid_cases(evals: EvalSession) -> Counter[str]:
    """Count errors that prevent calls, such as a missing input."""
    return Counter(str(case.error) for case in evals.plan.cases if case.error is not None)


def _estimate(evals: EvalSession, output: _RecordOutput, *, refresh: bool) -> list[str]:
    """Print what is missing; return errors of cases that cannot run."""
    cases = [case for case in evals.plan.cases if case.error is None]
    draws = Plan(cases=cases).planned_trials() if refresh else evals.plan.missing
    missing = evals.missing_completions(draws := [*draws])
    judgements = _judgements(evals, draws)
    for line in (*missing_lines(missing), *missing_judgement_lines(judgements)):
        output.line(line.text)
    unembedded = _embed(evals)
    for words in unembedded:
        output.line(words)
    output.document["missing_completions"] = [asdict(group) for group in missing]
    output.document["missing_judgements"] = [asdict(judgement) for judgement in judgements]
    output.document["missing_vectors"] = [*unembedded]
    failures = _count_invalid_cases(evals)
    store_counts: dict[str, int] = {}
    if not refresh:
        evals.note_stored()
        store_counts = _paths(evals.project, evals.finish(complete=True).stored_counts)
    output.document["from_local_store"] = {**store_counts}
    for name, count in store_counts.items():
        output.line(f"would write {name}{_origin(name, count)}")
    gaps = (missing, judgements, unembedded, store_counts, failures, left_out_errors(evals))
    if not any(gaps):
        output.line("nothing is missing")
    counts = failures.items()
    return [f"{plural(count, 'case')} cannot run: {message}" for message, count in counts]


def _judgements(evals: EvalSession, draws: Sequence[PlannedTrial]) -> list[MissingJudgements]:
    """The missing judgements: of trials without completion, and of others."""
    missing = {draw.id for draw in draws}
    for draw in evals.plan.model_trials:
        if draw.id not in missing:
            evals.take(draw, waiting=lambda _: None)
    return evals.missing_judgements(draws, misses=evals.misses)


def _draw(evals: EvalSession, output: _RecordOutput) -> list[str]:
    """Record missing completions and judge calls; return failures with their counts."""
    draws = evals.plan.model_trials
    missing = {draw.id for draw in evals.plan.missing}
    failures = _count_invalid_cases(evals)
    unjudged: Counter[str] = Counter()
    names: defaultdict[str, dict[str, None]] = defaultdict(dict)
    recorded = 0
    budget: BudgetError | None = None
    if missing and (waiting := calls_under_way(evals.project)):
        output.line(
            f"note: batches with {plural(waiting, 'call')} are under way; live calls are paid as"
            " well; regauge record --collect takes their results"
        )

    with Meter(lambda: progress_line(evals.progress, evals.budget)):
        for draw in draws:
            name = f"{draw.planned_case.eval.prompt.name}/{draw.planned_case.case.id}"
            try:
                trial = evals.take(draw, waiting=lambda _: None)
                recorded += draw.id in missing
                if isinstance(trial.failure, BudgetError):  # its amounts differ by case
                    unjudged[_BUDGET_REACHED] += 1
                elif trial.failure is not None:
                    unjudged[str(trial.failure)] += 1
                    names[str(trial.failure)][name] = None
            except BudgetError as error:  # the amounts in its message differ by case
                budget = budget or error
                failures[str(budget)] += 1
            except UnmeasuredError as error:
                failures[str(error)] += 1
                names[str(error)][name] = None
    total = recorded + failures.total()
    counts = recorded, total
    return _publish(
        evals, output, counts, failures, unjudged=unjudged, names=names, idle=not missing
    )


def _batch(
    evals: EvalSession, output: _RecordOutput, options: BatchOptions, pending: list[str]
) -> list[str]:
    """Record results of batches, and submit what is missing; return failures with their counts.

    Args:
        pending: Gets lines about open batches, and the next command.
    """
    batches = ProjectBatches(evals, options)
    failures = _count_invalid_cases(evals)
    invalid_count = failures.total()
    with batches.open():
        plan = evals.prepare(evals.plan.cases)
        evals.progress.start(len(plan.missing))
        with Meter(lambda: progress_line(evals.progress, evals.budget)):
            run_stoppable(request_trials(evals, plan.model_trials, failures))
        troubles = batches.start()
        batches.tidy()
    done = evals.progress.completed
    total = len(plan.missing) + invalid_count
    idle = not (done or troubles or batches.has_open_calls)
    counts, embeds = (done, total), options.upload
    left = _publish(evals, output, counts, failures, idle=idle, embeds=embeds)
    pending += batches.sentences()
    for line in (*batches.warnings(), *pending):
        output.line(line)
    if batches.has_open_calls and not pending:
        pending.append("some calls do not come in batches")
    output.document["batches"] = batches.to_json()
    return [*left, *troubles]


def _publish(
    evals: EvalSession,
    output: _RecordOutput,
    counts: tuple[int, int],
    failures: Counter[str],
    *,
    unjudged: Counter[str] | None = None,
    names: Mapping[str, Iterable[str]] = MappingProxyType({}),
    idle: bool,
    embeds: bool = True,
) -> list[str]:
    """Write recordings, and report them; return failures with their counts.

    Args:
        counts: The number of recorded completions, and of all missing ones.
        failures: Reasons of missing completions, with their counts.
        unjudged: Reasons of missing judgements, with their counts.
        names: The cases of a reason, as `prompt/case`.
        idle: Whether no completion was missing.
        embeds: Whether embeddings may be requested.
    """
    recorded, total = counts
    unembedded = _embed(evals) if embeds else []
    evals.note_stored()
    # Write before reporting, since writing may fail.
    published = evals.finish(complete=True)
    if recorded or failures:
        output.line(f"{recorded} of {total} completions recorded")
    calls = evals.progress.judge_calls
    gaps = (failures, calls, unjudged, unembedded, published.changed_lines)
    if calls:
        output.line(f"{plural(calls, 'judge call')} recorded")
    if evals.embeddings.requested_texts:
        output.line(f"{plural(evals.embeddings.requested_texts, 'vector')} recorded")
    elif idle and not any(gaps) and not left_out_errors(evals):
        output.line("nothing is missing")
    store_counts = _paths(evals.project, published.stored_counts)
    written_counts = _paths(evals.project, published.changed_lines)
    indent = "  " if recorded or failures or calls or evals.embeddings.requested_texts else ""
    for name in written_counts:
        output.line(f"{indent}wrote {name}{_origin(name, store_counts.get(name, 0))}: commit it")
    output.document["written"] = [*written_counts]
    output.document["from_local_store"] = {**store_counts}
    output.document["warnings"] = []
    output.warn(map(str, check_file_sizes(evals.project, published.changed_lines)))
    output.document["completions_recorded"] = recorded
    output.document["judge_calls_recorded"] = calls
    output.document["vectors_recorded"] = evals.embeddings.requested_texts
    missing = [
        f"{plural(count, noun)} missing: {message}"
        + (f"\n  cases: {first_of(names[message], _NAMED_MAX)}" if message in names else "")
        for noun, reasons in (("completion", failures), ("judgement", unjudged or Counter[str]()))
        for message, count in reasons.most_common()
    ]
    return [*missing, *unembedded]


def _paths(project: Project, counts: Mapping[Path, int]) -> dict[str, int]:
    return {project.relative(path).as_posix(): count for path, count in counts.items()}


def _origin(path: str, count: int) -> str:
    """The number of lines of a recordings file from the local store, in parentheses."""
    return f" ({plural(count, recorded_noun(path))} from the local store)" if count else ""


def _embed(evals: EvalSession) -> list[str]:
    """Record the embeddings of all completions; return failures with their counts."""
    failures: Counter[str] = Counter()
    for draw in evals.plan.planned_trials():
        try:
            evals.embed(draw)
        except RegaugeError as error:
            failures[str(error)] += 1
    counts = failures.most_common()
    return [f"{plural(count, 'completion')} without vectors: {words}" for words, count in counts]


def _prune(
    evals: EvalSession, prompts: tuple[str, ...], output: _RecordOutput, *, dry_run: bool
) -> None:
    """Remove recordings that no eval needs, and report them.

    Raises:
        UsageError: Evals leave out cases, whose recordings are needed.
    """
    if left_out := left_out_errors(evals):
        raise UsageError("\n".join(map(str, left_out)))
    verb = "would remove" if dry_run else "removed"
    done: list[JSON] = []
    for row in prune_files(evals, prompts, dry_run=dry_run):
        output.line(f"{row['path']}: {verb} {row['removed']} of {row['of']} {row['noun']}")
        done.append(row)
    output.document["pruned"] = done
