"""The gate inside a pytest run: it runs trials and decides before the items report."""

from __future__ import annotations

import math
import os
import shlex
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeGuard

import pytest

from regauge.errors import MissingRecordingError, RegaugeError, UnmeasuredError, UsageError
from regauge.gate import (
    EVALS_COPIES,
    EXIT_CODES,
    GatedChange,
    PolicyOptions,
    compare,
    decide,
    is_base_unavailable,
    policy_of,
    run_part,
)
from regauge.mutate import changed_guards
from regauge.recordings import map_texts
from regauge.reports import (
    StyledLine,
    decision_lines,
    gate_progress_line,
    output_diff,
    prompt_of_eval,
    status_words,
    with_failed_tests,
)
from regauge.reports.decisions import decision_document
from regauge.runner import EvalResult, EvalSession, PlannedCase
from regauge.wording import printable
from regauge.workflow_commands import break_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.errors import Diagnostic
    from regauge.gate import (
        Baseline,
        CaseComparison,
        Comparison,
        GateResult,
        Side,
    )
    from regauge.mutate import ChangedGuards
    from regauge.reports import CaseDocument, DecisionDocument, RunWriter
    from regauge.runner import RunProgress, Trial, TrialOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """The options of a gate.

    Attributes:
        ref: The commit, branch or tag to compare with.
        options: The options that replace parts of the base's policy.
        more_trials: Further trials of each undecided case in a continued comparison.
        baseline: The baseline to use instead of the committed one; None for the committed one.
        accept_judge_change: The reason to accept changed judges; empty without one.
        is_partial: Whether the command selects some of the evals, next to pytest's own options.
        dry_run: Whether to stop before the first trial.
        rerun_command: The words of the command that decides again.
        failed_tests: Tests of merged shards that failed apart from their judges.
        print_line: Called with each line of progress; None for pytest's terminal.
    """

    ref: str
    options: PolicyOptions = field(default_factory=PolicyOptions)
    more_trials: int = 0
    baseline: Baseline | None = None
    accept_judge_change: str = ""
    is_partial: bool = False
    dry_run: bool = False
    rerun_command: Sequence[str] = ()
    failed_tests: Mapping[str, str] = field(default_factory=dict[str, str])
    print_line: Callable[[str], None] | None = None


request_key: pytest.StashKey[GateRequest] = pytest.StashKey()


class GateFailed(AssertionError):  # noqa: N818 - a failure, not an error
    """A case that blocks a change; the message explains it to the user."""

    regauge_words = True

    def __init__(self, document: CaseDocument) -> None:
        self.document = document
        super().__init__(document.message)

    def __str__(self) -> str:
        prompt = prompt_of_eval(self.document.prompt)
        rerun_line = f"  again: regauge gate --prompt {shlex.quote(prompt)}"
        diff = [f"    {line}" for line in output_diff(self.document)]
        return printable("\n".join([self.document.message, *diff, rerun_line]))

    @property
    def short(self) -> str:
        """One line, for lists."""
        return printable(self.document.message)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatedResult(EvalResult):
    """The candidate's trials of one case, with its status in the gate.

    Attributes:
        gated: The status, which decides instead of the single trials.
    """

    gated: CaseDocument

    @property
    def outcome(self) -> TrialOutcome:
        """`failed` if the case blocks the change."""
        if self.gated.status == "unmeasured":
            return "unmeasured"
        return "failed" if self.breaks else "passed"

    @property
    def status(self) -> str:
        """The status of the case."""
        return self.gated.status

    @property
    def breaks(self) -> bool:
        """Return whether the case is worse, and blocks."""
        return self.gated.blocks and self.gated.status in {"broken", "new"}

    def check(self) -> None:
        """Apply the status of the case.

        Raises:
            GateFailed: The change broke the case.
            UnmeasuredError: Trials have no completion or no verdict.
        """
        __tracebackhide__ = True
        if self.gated.status == "unmeasured":
            raise self.error or UnmeasuredError(self.gated.message)
        if self.breaks:
            raise GateFailed(self.gated)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartResult(EvalResult):
    """The trials of one case in a shard of a gate, without a decision.

    Attributes:
        base: The trials of the base.
    """

    base: tuple[Trial, ...] = ()
    status: ClassVar[str] = ""

    @property
    def outcome(self) -> TrialOutcome:
        """`unmeasured` if a trial of either side is, else `passed`, even if judges failed it.

        In a replay, missing recordings of further trials do not count.
        """
        return "unmeasured" if self.error is not None else "passed"

    @property
    def error(self) -> UnmeasuredError | None:
        """The first error that makes the case unmeasured."""
        measured = any(trial.error is None for trial in self.trials)
        for trial in (*self.trials, *self.base):
            if trial.error is None or is_base_unavailable(trial.error):
                continue
            if not (measured and isinstance(trial.error, MissingRecordingError)):
                return trial.error
        return None

    def check(self) -> None:
        """Check that the case is measured.

        Raises:
            UnmeasuredError: Trials have no completion or no verdict.
        """
        if self.error is not None:
            raise self.error


def _result_of(
    planned_case: PlannedCase,
    trials: tuple[Trial, ...],
    node_id: str,
    document: CaseDocument | None,
    base: tuple[Trial, ...] = (),
) -> GatedResult | PartResult:
    """The result of a case; without a document, in a shard."""
    eval_, case = planned_case.eval, planned_case.case
    if document is None:
        return PartResult(eval=eval_, case=case, trials=trials, node_id=node_id, base=base)
    return GatedResult(eval=eval_, case=case, trials=trials, node_id=node_id, gated=document)


_SIDES: tuple[Side, ...] = ("candidate", "base")
# Further trials of a suspicious case for an undecided gate.
_MORE = 8


def missing_trials(
    decided: GateResult, rerun_command: Sequence[str], session: EvalSession
) -> list[str]:
    """The command that runs missing or further trials; empty if the gate decided."""
    if decided.decision in {"accept", "refused"}:
        return []
    match decided.unmeasured_cause:
        case "recordings":
            return [*_drop_option(rerun_command, "--record"), "--record=missing"]
        case "budget":
            limit = session.budget.limit_usd
            larger_budget = f"--budget-usd={math.ceil(200 * (limit or 0)) / 100:g}"
            return (
                [*_drop_option(rerun_command, "--budget-usd"), larger_budget]
                if limit
                else list(rerun_command)
            )
        case "completions":
            return list(rerun_command)
        case _:
            if decided.decision != "undecided":
                return []
            return [*_drop_option(rerun_command, "--more-trials"), f"--more-trials={_MORE}"]


def _drop_option(words: Sequence[str], option: str) -> list[str]:
    """A command without one of its options.

    >>> _drop_option(["gate", "--record", "none", "--record=all", "v1"], "--record")
    ['gate', 'v1']
    """
    remaining_words: list[str] = []
    skip = False
    for word in words:
        if not skip and word != option and not word.startswith(f"{option}="):
            remaining_words.append(word)
        skip = word == option
    return remaining_words


# CI systems show lines one by one; more often would bury the decision.
_PROGRESS_EVERY_S = 10.0
# Outcomes that pytest does not have: their letter and colour.
_STATUSES: Mapping[str, tuple[str, str]] = {
    "broken": ("b", "yellow"),
    "undecided": ("?", "yellow"),
    "drifted": ("d", "yellow"),
    "fixed": ("+", "green"),
    "flaky": ("~", "yellow"),
    "mixed": ("~", "yellow"),
    "new": ("n", "green"),
    "unchanged": ("=", "green"),
}


class PytestGate:
    """One gate in one pytest run.

    Args:
        config: The configuration of pytest.
        session: The session that runs trials.
        writer: The writer of the run record.

    Attributes:
        document: The decision; None before it is made.
        cut_off: Whether the user interrupted the gate before its decision.
        base_commit: The base commit of a shard; empty without a shard.
    """

    def __init__(self, config: pytest.Config, session: EvalSession, *, writer: RunWriter) -> None:
        self._config = config
        self._session = session
        self._request = config.stash.get(request_key, None) or GateRequest(
            ref=str(config.getoption("--gate")),
            more_trials=config.getoption("--more-trials") or 0,
            accept_judge_change=" ".join((config.getoption("--accept-judge-change") or "").split()),
        )
        self._writer = writer
        self._cases: dict[int, CaseDocument] = {}
        self._results: dict[int, GatedResult | PartResult] = {}
        self._left_alone: set[int] = set()
        self.document: DecisionDocument | None = None
        self.cut_off = False
        self.base_commit = ""

    def run(
        self,
        nodes: Mapping[int, str],
        *,
        omissions: Sequence[Diagnostic],
        is_partial: bool,
        not_run: Sequence[str],
        print_line: Callable[[str], None],
    ) -> None:
        """Run trials, decide, and write every trial to the run record.

        Args:
            nodes: The id of each planned case's pytest item, by `id` of the case.
            omissions: Evals and cases that the run omits without a selection of the user.
            is_partial: Whether the user selected some of the evals on the command line.
            not_run: The places of evals whose assertions do not run.
            print_line: Called with lines of progress.

        Raises:
            pytest.UsageError: The change cannot be compared.
        """
        try:
            comparison = compare(
                self._session,
                self._request.ref,
                baseline=self._request.baseline,
                accept_judge_change=self._request.accept_judge_change,
                omissions=() if self._request.is_partial else omissions,
                is_filtered=self._request.is_partial or is_partial,
            )
            if not_run:
                note = (
                    f"this command does not run assertions and fixtures of {', '.join(not_run)}:"
                    f" {self._session.project.run_command} --gate {self._request.ref} runs them"
                )
                comparison = replace(comparison, notes=[*comparison.notes, note])
            with comparison.base_commit.checkout:
                self._run(comparison, nodes, self._throttle(print_line))
        except RegaugeError as error:
            words = self._session.completions.redact(str(error))
            # pytest prints it without its terminal writer.
            raise pytest.UsageError(break_commands(printable(words))) from error
        except KeyboardInterrupt:
            self.cut_off = self.document is None
            raise

    def _run(
        self,
        comparison: Comparison,
        nodes: Mapping[int, str],
        print_progress: Callable[[str], None],
    ) -> None:
        """Run the trials of a comparison, and decide unless they are a part."""
        # The policy of the base, so that a change cannot alter it.
        base = policy_of(comparison.base_commit.newest.settings.gate)
        policy = self._request.options.apply_to(base)
        if self._request.dry_run:
            if comparison.refusals:
                raise UsageError("\n".join(map(str, comparison.refusals)))
            self._config.hook.pytest_regauge_compared(
                config=self._config, comparison=comparison, policy=policy
            )
            return

        def waiting(round_number: int, progress: RunProgress) -> None:
            print_progress(gate_progress_line(round_number, progress, self._session.budget))

        if self._session.options.shard is not None:
            run = run_part(self._session, comparison, policy, on_progress=waiting)
            self._keep(run.compared_cases, run.trials, nodes)
            self.base_commit = comparison.base_commit.commit
            return
        decided = decide(
            self._session,
            comparison,
            policy,
            on_progress=waiting,
            # A refinement starts with the failed trials.
            copies_per_case=EVALS_COPIES if self._config.getoption("--suggest") else 1,
            more_trials=self._request.more_trials,
            change=GatedChange.current(self._session.project.root, os.environ),
        )
        guards = changed_guards(self._session, decided, on_progress=print_progress)
        self.document = self._decision_document(
            decided, nodes, looser_options=self._request.options.looser_options(base), guards=guards
        )
        self._keep(decided.compared_cases, decided.trials, nodes)
        self._config.hook.pytest_regauge_decided(config=self._config, decision=self.document)

    @property
    def results(self) -> list[GatedResult | PartResult]:
        """The results of all cases with trials."""
        return [*self._results.values()]

    def result(self, planned_case: PlannedCase, *, node_id: str) -> GatedResult | PartResult:
        """The result of an item; a case that the gate did not run is replayed, or else skipped."""
        if (result := self._results.get(id(planned_case))) is not None:
            return result
        document = self._cases.get(id(planned_case))
        message = "not run: the decision needs no trial" if document is None else document.message
        if document is None and self._session.options.shard is None:
            self._left_alone.add(id(planned_case))
            pytest.skip(message)
        replayed_result = self._session.result(
            planned_case, node_id=node_id, waiting=lambda _: None
        )
        if replayed_result.outcome == "unmeasured":
            self._left_alone.add(id(planned_case))
            pytest.skip(message)
        return _result_of(planned_case, replayed_result.trials, node_id, document)

    def leaves_alone(self, planned_case: PlannedCase) -> bool:
        """Return whether `result` skipped the case as the decision needs no trial of it."""
        return id(planned_case) in self._left_alone

    def failed(self, error: BaseException) -> TypeGuard[GateFailed]:
        """Return whether an error is a failure of the gate."""
        return isinstance(error, GateFailed)

    def amend(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Show the status of the case in the report of an item that passed."""
        result = getattr(item, "funcargs", {}).get("result")
        passed = report.when == "call" and report.outcome == "passed"
        if isinstance(result, PartResult) and passed:
            vars(report)["regauge_status"] = "measured", ".", ("MEASURED", {"yellow": True})
        if not isinstance(result, GatedResult) or not passed or hasattr(report, "wasxfail"):
            return
        status = result.gated.status
        if status == "known-failing":
            report.outcome = "skipped"
            report.wasxfail = result.gated.message
        elif status in _STATUSES:
            letter, tone = _STATUSES[status]
            words = status_words(status)
            vars(report)["regauge_status"] = words, letter, (words.upper(), {tone: True})

    def note_failed_tests(self, tests: Mapping[str, str]) -> dict[str, str]:
        """Take tests that failed apart from their judges into the next step; return all of them."""
        all_tests = {**self._request.failed_tests, **tests}
        if self.document is not None:
            self.document = with_failed_tests(self.document, all_tests)
        return all_tests

    def lines(self, failed_tests: Mapping[str, str]) -> list[StyledLine]:
        """The lines of the summary on the decision, with the number of failed tests."""
        return decision_lines(self.document, failed_tests) if self.document is not None else []

    @property
    def exit_status(self) -> int:
        """The exit status if every item passed: 2 if the change is refused."""
        if self._request.dry_run or self._session.options.shard is not None:
            return pytest.ExitCode.OK
        decision = self.document.decision if self.document is not None else None
        if decision == "refused":
            return EXIT_CODES["refused"]
        return pytest.ExitCode.OK if decision == "accept" else pytest.ExitCode.TESTS_FAILED

    def _decision_document(
        self,
        decided: GateResult,
        nodes: Mapping[int, str],
        *,
        looser_options: Sequence[str],
        guards: Sequence[ChangedGuards],
    ) -> DecisionDocument:
        rerun_command = list(self._request.rerun_command) or [
            "pytest",
            *self._config.invocation_params.args,
        ]
        missing = missing_trials(decided, rerun_command, self._session)
        if any(guard.below == "open" for guard in guards):
            missing = missing or [*_drop_option(rerun_command, "--record"), "--record=missing"]
        document = decision_document(
            decided,
            nodes=nodes,
            rerun_command=shlex.join(rerun_command),
            missing=shlex.join(missing),
            looser_options=looser_options,
            guards=guards,
        )
        # It quotes prompts, completions and errors of providers, in log, comment and run record.
        # Dataclasses in it hold only counts and names, and stay as they are.
        return map_texts(document, self._session.completions.redact)

    def _keep(
        self,
        compared_cases: Sequence[CaseComparison],
        all_trials: Mapping[tuple[str, str, Side], Sequence[Trial]],
        nodes: Mapping[int, str],
    ) -> None:
        """Write the trials of both sides, and keep the candidate's for the items."""
        documents: Sequence[CaseDocument | None] = [None] * len(compared_cases)
        if self.document is not None:
            documents = self.document.cases
        for comparison, document in zip(compared_cases, documents, strict=True):
            planned_case, base = comparison.candidate, comparison.base
            if planned_case is None:
                continue
            if document is not None:
                self._cases[id(planned_case)] = document
            node = nodes.get(id(planned_case), "")
            trials, of_base = (
                tuple(all_trials.get((*comparison.case.key, side), ())) for side in _SIDES
            )
            if trials:
                result = _result_of(planned_case, trials, node, document, of_base)
                self._results[id(planned_case)] = result
                self._writer.add(result, side="candidate")
            if base is not None and of_base:
                base_result = EvalResult(
                    eval=base.eval, case=base.case, trials=of_base, node_id=node
                )
                self._writer.add(base_result, side="base")

    def _throttle(self, print_line: Callable[[str], None]) -> Callable[[str], None]:
        """Return a printer of progress: each line with `GateRequest.print_line`, else at times."""
        printed_s = time.monotonic()

        def print_progress(line: str) -> None:
            nonlocal printed_s
            if self._request.print_line is not None:
                self._request.print_line(line)
            elif time.monotonic() - printed_s >= _PROGRESS_EVERY_S:
                printed_s = time.monotonic()
                print_line(line)

        return print_progress
