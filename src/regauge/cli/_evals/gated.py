"""Runs the gate over the evals of a project, and takes what it comes to."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import click
import pytest

from regauge.cli._evals.collected import NoEvalsError, with_evals
from regauge.cli._terminal.text import echo
from regauge.errors import RegaugeError, UnmeasuredError, UsageError
from regauge.gate import estimate
from regauge.pytest_gate import request_key
from regauge.reports import money, quantity
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from regauge.gate import Bill, Comparison, GatePolicy
    from regauge.project import Project
    from regauge.pytest_gate import GateRequest
    from regauge.reports import DecisionDocument, RunRecord
    from regauge.runner import EvalSession

__all__ = ["gated"]


@dataclass(slots=True, kw_only=True, eq=False)
class _GatePlugin:
    """Has a pytest run gate, and takes what it comes to."""

    request: GateRequest
    decision: DecisionDocument | None = None
    record: RunRecord | None = None
    written: Mapping[str, int] = field(default_factory=dict[str, int])
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

    def pytest_regauge_recorded(self, record: RunRecord, written: Mapping[str, int]) -> None:
        """Remember the run record, and which recordings the run wrote."""
        self.record = record
        self.written = written

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


def gated(
    project: Project,
    request: GateRequest,
    path: Path | None,
    *,
    prompts: tuple[str, ...],
    words: Sequence[str],
    as_json: bool,
) -> tuple[DecisionDocument, RunRecord, Mapping[str, int]] | None:
    """Run the gate: its decision, its record, and how many lines of which recordings it wrote.

    None where it only estimates.
    """
    plugin = _GatePlugin(request=request)

    def act(evals: EvalSession) -> None:
        if plugin.compared is not None:
            _say_estimate(evals, *plugin.compared, as_json=as_json)

    evals = path or project.root / "evals"
    if path is None and not evals.exists():
        raise UnmeasuredError(
            f"there is no directory {str(project.relative(evals))!r}, so nothing is measured\n"
            "  fix: put the evals back, or write one: regauge new eval NAME; --evals says where"
            " others are"
        )
    try:
        with_evals(
            project,
            evals,
            act,
            prompts=prompts,
            options=[f"--gate={request.ref}", *words],
            plugins=[plugin],
        )
    except NoEvalsError:  # the gate has said so, with what it would have compared
        if plugin.decision is None and plugin.error is None:
            raise
    if isinstance(plugin.error, RegaugeError):
        raise plugin.error
    if plugin.error is not None:
        raise UsageError(str(plugin.error))
    if plugin.decision is None:
        return None
    assert plugin.record is not None, "a run that has decided is recorded"
    return plugin.decision, plugin.record, plugin.written


def _say_estimate(
    evals: EvalSession, comparison: Comparison, policy: GatePolicy, *, as_json: bool
) -> None:
    about = estimate(evals, comparison, policy)
    if as_json:
        click.echo(json.dumps(asdict(about)))
        return
    for why in about.rejected:
        echo(f"rejected without any trial: {why}", style="red")
    cases = plural(about.cases, "case")
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
    calls = f"{plural(bill.trials, 'trial')}, {plural(bill.calls, 'call')}{judges}"
    return f"{calls}, about {quantity(bill.tokens)} tokens, {cost}"
