"""`regauge gate`: accept or reject a change of prompts on evidence."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import pytest

from regauge.cli._evals import with_evals
from regauge.cli._terminal import echo
from regauge.errors import RegaugeError, UsageError
from regauge.gate import estimate, policy_of, with_more_trials
from regauge.gate.baselines import load_baseline
from regauge.project import Project
from regauge.pytest_gate import GateRequest, request_key
from regauge.reports import (
    decision_lines,
    decision_markdown,
    find_run,
    gate_annotations,
    in_github_actions,
    money,
    quantity,
    read_record,
    read_rows,
    write_job_summary,
)
from regauge.reports.decide_again import decide_again, policy_of_decision

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from regauge.gate import Baseline, Bill, Comparison, GatePolicy
    from regauge.reports import DecisionDocument, Line, RunRecord
    from regauge.runner import EvalSession

__all__ = ["command"]

_EPILOG = """\
\b
Exit codes: 0 accept, 1 reject, 2 wrong use or not comparable, 3 unmeasured, 4 undecided,
130 Ctrl-C (the same command goes on).

\b
Examples:
  regauge gate                              against origin/main, or what the project says
  regauge gate main --prompt alert-severity
  regauge gate --dry-run                    what it would ask for, and what that costs
  regauge gate --model openai:gpt-5-mini    the same prompts on another model
  regauge gate --suggest                    and what small revision would repair what broke
  regauge gate --from latest --case-flips net    decide again, with other settings, for free
"""
_STYLES = {"plain": "", "quiet": "", "good": "green", "bad": "red"}
BlockOrWarn = Literal["block", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Overrides:
    """What the command line says of the policy, in place of the project."""

    case_flips: Literal["block", "net", "warn"] | None
    on_undecided: BlockOrWarn | None
    on_drifted: BlockOrWarn | None
    more: int

    def applied(self, policy: GatePolicy) -> GatePolicy:
        """The policy with what was said."""
        said: dict[str, Any] = {
            name: value
            for name in ("case_flips", "on_undecided", "on_drifted")
            if (value := getattr(self, name)) is not None
        }
        return with_more_trials(replace(policy, **said), self.more)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """Where the decision goes."""

    as_json: bool
    markdown: Path | None
    annotations: bool
    root: Path

    def write(self, document: DecisionDocument, record: RunRecord) -> None:
        """Write the decision of a run everywhere it was asked for."""
        if self.as_json:
            click.echo(document.model_dump_json(indent=1))
        else:
            for line in [*decision_lines(document), *_suggested(record)]:
                echo(line.text, style=_STYLES[line.tone])
        if self.annotations or in_github_actions(os.environ):
            for command_ in gate_annotations(document, self.root, os.environ):
                # A workflow reads both; JSON is to be read by itself.
                click.echo(command_, err=self.as_json)
        if self.markdown is not None:
            text = decision_markdown(document, suites=record.suites, suggestions=record.suggestions)
            try:
                self.markdown.write_text(text, encoding="utf-8")
            except OSError as error:
                raise UsageError(
                    f"{self.markdown} cannot be written: {error.strerror or error}\n"
                    "  fix: name a file in an existing directory that you may write to"
                ) from error


@dataclass(slots=True, kw_only=True, eq=False)
class _GatePlugin:
    """Has a pytest run gate, and takes what it comes to."""

    request: GateRequest
    decision: DecisionDocument | None = None
    record: RunRecord | None = None
    compared: tuple[Comparison, GatePolicy] | None = None
    error: BaseException | None = field(default=None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Say what to gate."""
        config.stash[request_key] = self.request

    def pytest_regauge_compared(self, comparison: Comparison, policy: GatePolicy) -> None:
        """Remember what would be compared."""
        self.compared = comparison, policy

    def pytest_regauge_decided(self, decision: DecisionDocument) -> None:
        """Remember the decision."""
        self.decision = decision

    def pytest_regauge_recorded(self, record: RunRecord) -> None:
        """Remember what answers cost, how long they took, and what was suggested."""
        self.record = record

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Keep what keeps the change from being compared."""
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


@click.command(name="gate", epilog=_EPILOG)
@click.argument("ref", required=False)
@click.option("--prompt", "prompts", multiple=True, metavar="NAME", help="Only evals of it.")
@click.option("--model", metavar="ID", help="Compare main's model with provider:model.")
@click.option("--dry-run", is_flag=True, help="Say what it would ask for and cost; ask nobody.")
@click.option("--more", type=click.IntRange(min=0), default=0, help="N more trials of suspects.")
@click.option("--record", type=click.Choice(["none", "missing", "all"]), help="As for pytest.")
@click.option("--concurrency", metavar="N|auto", help="Requests in flight at once.")
@click.option("--budget-usd", type=click.FloatRange(min=0), help="What it may cost.")
@click.option("--budget-tokens", type=click.IntRange(min=0), help="Tokens it may use.")
@click.option("--budget-calls", type=click.IntRange(min=0), help="Calls it may make.")
@click.option("--case-flips", type=click.Choice(["block", "net", "warn"]), help="Broken cases.")
@click.option("--on-undecided", type=click.Choice(["block", "warn"]), help="Undecided cases.")
@click.option("--on-drifted", type=click.Choice(["block", "warn"]), help="Drifted cases.")
@click.option(
    "--judge-change-accepted",
    metavar="REASON",
    help="Why judges may change, where no prompt does; it stands in the decision.",
)
@click.option("--from", "run", metavar="RUN", help="Decide again from a run; ask nobody.")
@click.option(
    "--baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Main's history, in place of the committed one.",
)
@click.option("--suggest", is_flag=True, help="Look for a revision that repairs what broke.")
@click.option("--json", "as_json", is_flag=True, help="The whole decision as JSON.")
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the decision there, for a comment or a job summary.",
)
@click.option("--annotations", is_flag=True, help="Mark lines of prompt files on GitHub.")
@click.option(
    "--evals",
    "path",
    type=click.Path(path_type=Path),
    help="Where evals are; `evals` of the project by default.",
)
def command(
    ref: str | None,
    *,
    prompts: tuple[str, ...],
    dry_run: bool,
    run: str | None,
    baseline: Path | None,
    case_flips: Literal["block", "net", "warn"] | None,
    on_undecided: BlockOrWarn | None,
    on_drifted: BlockOrWarn | None,
    more: int,
    judge_change_accepted: str | None,
    suggest: bool,
    as_json: bool,
    markdown: Path | None,
    annotations: bool,
    path: Path | None,
    **options: object,
) -> None:
    """Compare prompts with their base version at REF, case by case, and accept or reject.

    Only what changed is asked. Cases that fail are drawn again until evidence decides, and main
    is drawn beside them before a change is blamed. Assertions in the bodies of evals are not
    run: `pytest evals --gate REF` runs them too.
    """
    project = Project.find()
    _check_directory(markdown)
    overrides = _Overrides(
        case_flips=case_flips, on_undecided=on_undecided, on_drifted=on_drifted, more=more
    )
    output = _Output(as_json=as_json, markdown=markdown, annotations=annotations, root=project.root)
    stored = _baseline(project, baseline)
    if run is not None:
        options.update(judge_change_accepted=judge_change_accepted, suggest=suggest or None)
        _refuse_with_from(ref, dry_run=dry_run, prompts=prompts, options=options)
        decided = _again(project, run, overrides, stored)
    else:
        request = GateRequest(
            ref=ref or project.settings.gate.ref,
            policy=overrides.applied(policy_of(project.settings.gate)),
            baseline=stored,
            judge_change_accepted=_reason(judge_change_accepted),
            narrowed=bool(prompts),
            dry_run=dry_run,
            again=_words(sys.argv[1:]),
            say=lambda line: click.echo(line, err=True),
        )
        found = _gate(
            project,
            request,
            path,
            prompts=prompts,
            words=[*_options(options), *(["--suggest"] if suggest else [])],
            as_json=as_json,
        )
        if found is None:
            return
        decided = found
    document, record = decided
    output.write(document, record)
    click.get_current_context().exit(document.exit_code)


def _gate(
    project: Project,
    request: GateRequest,
    path: Path | None,
    *,
    prompts: tuple[str, ...],
    words: Sequence[str],
    as_json: bool,
) -> tuple[DecisionDocument, RunRecord] | None:
    """Run the gate; None when it was only to say what it would do."""
    plugin = _GatePlugin(request=request)

    def act(evals: EvalSession) -> None:
        if plugin.compared is not None:
            _say_estimate(evals, *plugin.compared, as_json=as_json)

    with_evals(
        project,
        path or project.root / "evals",
        act,
        prompts=prompts,
        options=[f"--gate={request.ref}", *words],
        plugins=[plugin],
    )
    if isinstance(plugin.error, RegaugeError):
        raise plugin.error
    if plugin.error is not None:
        raise UsageError(str(plugin.error))
    if plugin.decision is None:
        return None
    assert plugin.record is not None, "a run that has decided is recorded"
    return plugin.decision, plugin.record


def _options(given: Mapping[str, object]) -> list[str]:
    """Options of the plugin, as pytest takes them."""
    return [
        f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None
    ]


def _suggested(record: RunRecord) -> list[Line]:
    if not record.suggestions:
        return []
    from regauge.pytest_suggest import suggestion_lines

    return suggestion_lines(record.suggestions)


def _say_estimate(
    evals: EvalSession, comparison: Comparison, policy: GatePolicy, *, as_json: bool
) -> None:
    about = estimate(evals, comparison, policy)
    if as_json:
        click.echo(json.dumps(asdict(about)))
        return
    cases = "1 case" if about.cases == 1 else f"{about.cases} cases"
    echo(f"{cases} to compare with {comparison.at.ref}, all others are unchanged")
    echo(f"first wave: {_bill(about.first)}; {about.recorded} recorded")
    if about.likely is None:
        echo("likely: unknown, main has no history of these cases")
    else:
        echo(f"likely: {_bill(about.likely)}, if nothing got worse")
    echo(f"worst: {_bill(about.worst)}, every case drawn to its cap and main beside it")
    for note in comparison.notes:
        echo(f"note: {note}")


def _bill(bill: Bill) -> str:
    judges = f" + about {bill.judge_calls} of judges" if bill.judge_calls else ""
    cost = "cost unknown (no price declared)" if bill.cost_usd is None else money(bill.cost_usd)
    trials = "1 trial" if bill.trials == 1 else f"{bill.trials} trials"
    return f"{trials}, {bill.calls} calls{judges}, about {quantity(bill.tokens)} tokens, {cost}"


def _again(
    project: Project, run: str, overrides: _Overrides, baseline: Baseline | None
) -> tuple[DecisionDocument, RunRecord]:
    directory = find_run(project, run)
    record = read_record(directory)
    if record.decision is None:
        raise UsageError(
            f"run {record.id} did not gate, so there is nothing to decide again\n"
            "  fix: name a run of `regauge gate` or `pytest evals --gate`; `regauge runs` lists all"
        )
    document = decide_again(
        record.decision,
        read_rows(directory),
        overrides.applied(policy_of_decision(record.decision)),
        baseline=baseline,
        again=" ".join(_words(sys.argv[1:])),
    )
    decided = record.model_copy(update={"decision": document})
    trouble = write_job_summary(decided, (), os.environ)
    if trouble:
        click.echo(trouble, err=True)
    return document, decided


def _baseline(project: Project, path: Path | None) -> Baseline | None:
    return load_baseline(path, shown=project.relative(path)) if path is not None else None


def _check_directory(markdown: Path | None) -> None:
    """Refuse before anything is asked what could not be written in the end."""
    if markdown is not None and not markdown.absolute().parent.is_dir():
        raise UsageError(
            f"{markdown} cannot be written: there is no {markdown.parent}\n"
            "  fix: name a file in an existing directory"
        )


def _reason(given: str | None) -> str:
    """What an author says, on one line."""
    said = " ".join((given or "").split())
    if given is not None and not said:
        raise UsageError(
            "--judge-change-accepted says nothing\n  fix: say why the judges may change"
        )
    return said


def _refuse_with_from(
    ref: str | None, *, dry_run: bool, prompts: tuple[str, ...], options: Mapping[str, object]
) -> None:
    """What says which trials to make has no place where all are made."""
    given = [name for name, value in options.items() if value is not None]
    given += [
        name for name, value in (("REF", ref), ("dry-run", dry_run), ("prompt", prompts)) if value
    ]
    if given:
        raise UsageError(
            f"--from decides again from trials that are there; it takes no {given[0]}\n"
            "  fix: leave it out, or leave out --from"
        )


def _words(arguments: list[str]) -> list[str]:
    return ["regauge", *arguments] if arguments[:1] == ["gate"] else ["regauge", "gate"]
