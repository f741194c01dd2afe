"""`regauge gate`: accept or reject a change of prompts on evidence."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal

import click
import pytest

from regauge.cli import Command
from regauge.cli._options import (
    STDOUT,
    baseline_option,
    dry_run_option,
    json_option,
    model_option,
    output_option,
    prompt_option,
    record_option,
    run_options,
    write_and_report,
)
from regauge.cli._terminal import Meter, echo, echo_lines
from regauge.errors import RegaugeError, UnmeasuredError, UsageError
from regauge.gate import (
    Bill,
    Comparison,
    GatePolicy,
    PolicyOptions,
    base_branch,
    estimate,
)
from regauge.gate.baselines import load_baseline
from regauge.maintenance.collection import NoEvalsError, option_words, with_evals
from regauge.mutate import estimate_guards
from regauge.project import Project
from regauge.pytest_gate import GateRequest, request_key
from regauge.pytest_suggest import suggestion_lines
from regauge.reports import (
    decide_again,
    decision_lines,
    estimated_cost,
    failed_test_notes,
    find_run,
    gate_annotations,
    git_state,
    quantity,
    read_record,
    read_rows,
    record_markdown,
    recorded_lines,
    with_failed_tests,
    write_job_summary,
)
from regauge.wording import plural
from regauge.workflow_commands import in_github_actions, print_command

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from regauge.gate import Baseline, OnBroken
    from regauge.reports import DecisionDocument, RunRecord
    from regauge.runner import EvalSession


BlockOrWarn = Literal["block", "warn"]


def _write(
    project: Project,
    decided: tuple[DecisionDocument, RunRecord, Mapping[str, int]],
    file: str | None,
    *,
    as_json: bool,
) -> None:
    """Write the decision of a run to all requested outputs."""
    document, record, line_counts = decided
    if as_json:
        click.echo(document.model_dump_json(indent=1))
    else:
        recorded = recorded_lines(project, line_counts)
        suggested = suggestion_lines(record.suggestions) if record.suggestions else []
        decision = decision_lines(document, record.failed_tests)
        tests = failed_test_notes(record.failed_tests)
        echo_lines([*decision, *recorded, *suggested, *tests], err=file == STDOUT)
    if in_github_actions(os.environ):
        # A workflow reads both streams; standard output is for the document.
        stream = sys.stderr if as_json or file == STDOUT else sys.stdout
        for command_ in gate_annotations(document, project.root, os.environ):
            print_command(command_, stream)
    if file is not None and Path(file).suffix.lower() == ".json":
        write_and_report(document.model_dump_json(indent=1) + "\n", file)
    elif file is not None:
        write_and_report(record_markdown(record, ()), file)


@click.command(name="gate", cls=Command)
@click.argument("ref", required=False)
@prompt_option(multiple=True)
@model_option()
@click.option(
    "--more-trials",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Continue an undecided comparison: up to N more trials of each undecided case.",
)
@click.option("--on-broken", type=click.Choice(["net", "block", "warn"]), help="Broken cases.")
@click.option("--on-undecided", type=click.Choice(["block", "warn"]), help="Undecided cases.")
@click.option("--on-drifted", type=click.Choice(["block", "warn"]), help="Drifted cases.")
@click.option(
    "--accept-judge-change",
    metavar="REASON",
    help="Accept changed judges or a lowered bar; the report shows REASON.",
)
@click.option(
    "--from",
    "run",
    metavar="RUN",
    help="Decide again from a run, without calls; with REF, from merged shards, whose suspicious "
    "cases run again.",
)
@baseline_option
@click.option("--suggest", is_flag=True, help="Propose a fix of what broke.")
@record_option()
@dry_run_option
@run_options
@output_option()
@json_option
def command(
    ref: str | None,
    *,
    prompts: tuple[str, ...],
    dry_run: bool,
    run: str | None,
    baseline: Path | None,
    on_broken: OnBroken | None,
    on_undecided: BlockOrWarn | None,
    on_drifted: BlockOrWarn | None,
    more_trials: int,
    accept_judge_change: str | None,
    suggest: bool,
    as_json: bool,
    output: str | None,
    path: Path | None,
    **options: object,
) -> None:
    """Compare prompts with the base at REF, case by case; accept or reject.

    Only changed cases run. Suspicious ones run again, next to the base, until the evidence decides.
    With --model, only the candidate runs on that model.

    Examples:
      regauge gate                              against origin/main, or `ref` of the settings
      regauge gate main --prompt alert-severity
      regauge gate --dry-run                    planned calls and cost
      regauge gate --model openai:gpt-5.4-mini    the same prompts on another model
      regauge gate --suggest                    and propose a fix of what broke
      regauge gate --from latest --on-broken block    decide again, with other settings, for free
      regauge gate main --from latest --record missing    decide from merged shards

    Exit codes: 0 accept, 1 reject, 2 refused or wrong use, 3 unmeasured, 4 undecided, 130 Ctrl-C
    (the same command continues).
    """
    project = Project.find()
    _check_outputs(output, dry_run=dry_run, as_json=as_json)
    policy = PolicyOptions(on_broken=on_broken, on_undecided=on_undecided, on_drifted=on_drifted)
    given_baseline = load_baseline(baseline, place=project.relative(baseline)) if baseline else None
    if run is not None and ref is not None:
        _refuse_unmerged(project, run)
    if run is not None and ref is None:
        options |= {"accept_judge_change": accept_judge_change, "suggest": suggest or None}
        options |= {"more-trials": more_trials or None, "dry-run": dry_run or None}
        for name, value in {**options, "prompt": prompts or None}.items():
            if value is not None:
                message = f"--from decides again from existing trials; it takes no {name}"
                raise UsageError(message, fix="leave it out, or leave out --from")
        decided = _decide_again(project, run, policy, given_baseline)
    else:
        meter = Meter()
        merged = read_record(find_run(project, run)) if run else None
        branch = base_branch(os.environ)
        request = GateRequest(
            # By default the base branch of the job, since a change could rewrite the setting.
            ref=ref or (f"origin/{branch}" if branch else project.settings.gate.ref),
            options=policy,
            baseline=given_baseline,
            more_trials=more_trials,
            accept_judge_change=_reason(accept_judge_change),
            is_partial=bool(prompts),
            dry_run=dry_run,
            rerun_command=_rerun_words(sys.argv[1:], merged),
            failed_tests=merged.failed_tests if merged else {},
            print_line=meter.update,
        )
        with meter:
            outcome = run_gate(
                project,
                request,
                path,
                prompts=prompts,
                words=[*option_words(options), *(["--suggest"] if suggest else [])],
                as_json=as_json,
            )
        if outcome is None:
            return
        decided = outcome
    _write(project, decided, output, as_json=as_json)
    document, record, _ = decided
    click.get_current_context().exit(document.exit_code or int(bool(record.failed_tests)))


def _decide_again(
    project: Project, run: str, options: PolicyOptions, baseline: Baseline | None
) -> tuple[DecisionDocument, RunRecord, Mapping[str, int]]:
    directory = find_run(project, run)
    record = read_record(directory)
    if record.decision is not None and record.decision.decision == "refused":
        message = f"run {record.id} was refused, so it has no trials to decide from"
        raise UsageError(message, fix=record.decision.next.text)
    _refuse_shard(record)
    if record.decision is None and record.merged is not None and record.merged.base:
        fix = (
            f"add REF: regauge gate {record.merged.base[:12]} --from {quote(run)} --record missing"
        )
        raise UsageError(f"run {record.id} of merged shards has no decision yet", fix=fix)
    if record.decision is None:
        message = f"run {record.id} did not gate, so there is nothing to decide again"
        fix = "name a run of `regauge gate` or `pytest evals --gate`; regauge runs list"
        raise UsageError(message, fix=fix)
    before = record.decision.policy
    document = decide_again(
        record.decision,
        read_rows(directory),
        options.apply_to(before),
        looser_options=options.looser_options(before),
        baseline=baseline,
        rerun_command=" ".join(_rerun_words(sys.argv[1:], record)),
    )
    document = with_failed_tests(document, record.failed_tests)
    if other_commits := _other_commits(project, record):
        document = document.model_copy(update={"notes": [*document.notes, other_commits]})
    decided = record.model_copy(update={"decision": document})
    trouble = write_job_summary(decided, directory, os.environ)
    if trouble:
        click.echo(trouble, err=True)
    return document, decided, {}


def _other_commits(project: Project, record: RunRecord) -> str:
    """The commits of a run and of this checkout, in words; empty if they are the same."""
    git = git_state(project.root, output_dir=project.recordings_dir)
    if git is None or record.git is None or git.commit == record.git.commit:
        return ""
    commit, commit_now = (state.commit[:12] for state in (record.git, git))
    return f"run {record.id} is of commit {commit}, and this checkout is {commit_now}"


def _refuse_shard(record: RunRecord) -> None:
    if (part := record.shard) is not None:
        fix = "regauge runs merge DIR..., then regauge gate REF --from latest"
        message = f"run {record.id} is shard {part.number} of {part.count}, which decides nothing"
        raise UsageError(message, fix=fix)


def _refuse_unmerged(project: Project, run: str) -> None:
    """Check that a run is merged from all shards of a gate of this commit.

    Raises:
        UsageError: It is another run.
        UnmeasuredError: Shards or cases are missing.
    """
    record = read_record(find_run(project, run))
    _refuse_shard(record)
    if record.merged is None or not record.merged.base:
        fix = "leave out REF to decide again from its trials, or --from to gate from scratch"
        raise UsageError(f"run {record.id} is not merged from shards of a gate", fix=fix)
    if other_commits := _other_commits(project, record):
        raise UsageError(other_commits, fix="run and merge the shards of this commit")
    if record.status != "finished":
        missing = ", ".join(map(str, record.merged.missing))
        missing_part = f"shard {missing} of {record.merged.count}" if missing else "cases of shards"
        fix = "run the missing part, and merge again"
        raise UnmeasuredError(f"run {record.id} is without {missing_part}", fix=fix)


def _check_outputs(output: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Refuse, before any call, outputs that would be empty or hold two documents."""
    if dry_run and output is not None:
        message = f"--dry-run makes no decision, so --output {output} has nothing to show"
        fix = "leave one of them out; --dry-run --json prints the estimate"
        raise UsageError(message, fix=fix)
    if as_json and output == STDOUT:
        fix = "name a file for --output, or leave out --json"
        raise UsageError("--json and --output - both write to standard output", fix=fix)
    suffix = "" if output in {None, STDOUT} else Path(str(output)).suffix.lower()
    if suffix not in {"", ".md", ".markdown", ".json"}:
        fix = "end the name with .md or .json; for a page of the run: regauge report -o report.html"
        raise UsageError(f"{output}: a decision has no format with the suffix {suffix}", fix=fix)


def _reason(reason: str | None) -> str:
    """The reason of an author, on one line."""
    text = " ".join((reason or "").split())
    if reason is not None and not text:
        fix = "state why the judges may change"
        raise UsageError("--accept-judge-change has no reason", fix=fix)
    return text


def _rerun_words(arguments: list[str], record: RunRecord | None = None) -> list[str]:
    if arguments[:1] != ["gate"]:
        return ["regauge", "gate"]
    # This gate becomes the latest run.
    run = "latest" if record is None else record.id
    texts = {"--from latest": run, "--from=latest": f"--from={run}"}
    words = pairwise(["", *arguments])
    return [
        "regauge",
        *(texts.get(f"{before} {word}") or texts.get(word, word) for before, word in words),
    ]


@dataclass(slots=True, kw_only=True, eq=False)
class _GatePlugin:
    """A pytest plugin that starts a gate in a run, and stores its results."""

    request: GateRequest
    decision: DecisionDocument | None = None
    record: RunRecord | None = None
    line_counts: Mapping[str, int] = field(default_factory=dict[str, int])
    comparison: tuple[Comparison, GatePolicy] | None = None
    error: BaseException | None = field(default=None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Request the gate."""
        config.stash[request_key] = self.request

    def pytest_regauge_compared(self, comparison: Comparison, policy: GatePolicy) -> None:
        """Store the planned comparison."""
        self.comparison = comparison, policy

    def pytest_regauge_decided(self, decision: DecisionDocument) -> None:
        """Store the decision."""
        self.decision = decision

    @pytest.hookimpl(tryfirst=True)
    def pytest_regauge_recorded(self, record: RunRecord, line_counts: Mapping[str, int]) -> None:
        """Store the run record, and the number of lines of changed recordings."""
        self.record = record
        self.line_counts = line_counts

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Store an error that prevents the comparison."""
        try:
            return (yield)
        except pytest.UsageError as error:
            self.error = error.__cause__ or error
            return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Leave the exit code to the command."""
        yield
        if self.decision is not None or self.error is not None:
            session.exitstatus = pytest.ExitCode.OK


def run_gate(
    project: Project,
    request: GateRequest,
    path: Path | None,
    *,
    prompts: tuple[str, ...],
    words: Sequence[str],
    as_json: bool,
) -> tuple[DecisionDocument, RunRecord, Mapping[str, int]] | None:
    """Run the gate.

    Returns:
        The decision, the run record, and the number of lines of changed recordings; None for an
        estimate.
    """
    plugin = _GatePlugin(request=request)

    def act(evals: EvalSession) -> None:
        if plugin.comparison is not None:
            _print_estimate(evals, *plugin.comparison, as_json=as_json)

    evals = path or project.root / "evals"
    if path is None and not evals.exists():
        raise UnmeasuredError(
            f"there is no directory {str(project.relative(evals))!r}, so nothing is measured\n"
            "  fix: restore the evals, or write one: regauge new eval NAME; or name their directory"
            " with --evals"
        )
    try:
        with_evals(
            project,
            evals,
            act,
            prompts=prompts,
            options=[f"--gate={request.ref}", *words],
            prefetch=True,
            plugins=[plugin],
            one_item_per_eval=True,
            warn=None,
        )
    except NoEvalsError:  # the gate has reported it
        if plugin.decision is None and plugin.error is None:
            raise
    if isinstance(plugin.error, RegaugeError):
        raise plugin.error
    if plugin.error is not None:
        raise UsageError(str(plugin.error))
    if plugin.decision is None:
        return None
    assert plugin.record is not None, "a run that has decided is recorded"
    return plugin.record.decision or plugin.decision, plugin.record, plugin.line_counts


def _print_estimate(
    evals: EvalSession, comparison: Comparison, policy: GatePolicy, *, as_json: bool
) -> None:
    about = estimate(evals, comparison, policy)
    guards = estimate_guards(evals, comparison)
    if as_json:
        click.echo(json.dumps(asdict(about) | {"mutants": [asdict(guard) for guard in guards]}))
        return
    for reason in about.rejected:
        echo(f"rejected without any trial: {reason}", style="red")
    cases = plural(about.cases, "case")
    echo(f"{cases} to compare with {comparison.base_commit.ref}, all others are unchanged")
    echo(f"first round: {_bill(about.first)}; {about.recorded} recorded")
    likely = "unknown, base has no baseline of these cases"
    if about.likely is not None:
        likely = f"{_bill(about.likely)}, if nothing got worse"
    echo(f"likely: {likely}")
    echo(f"worst: {_bill(about.worst)}, every case at its cap, on the change and on the base")
    for guard in guards:
        mutants = f"{plural(guard.mutants, 'mutant')} of {guard.prompt}"
        echo(f"then, if accepted: {mutants}, about {_bill(guard.bill)}")
    for note in comparison.notes:
        echo(f"note: {note}")


def _bill(bill: Bill) -> str:
    judges = f" + about {bill.judge_calls} of judges" if bill.judge_calls else ""
    cost = estimated_cost(bill.cost_usd)
    calls = f"{plural(bill.trials, 'trial')}, {plural(bill.calls, 'call')}{judges}"
    return f"{calls}, about {quantity(bill.tokens)} tokens, {cost}"
