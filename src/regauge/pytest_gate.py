"""The gate inside a pytest run: it compares, draws and decides before the items report."""

from __future__ import annotations

import math
import os
import shlex
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import pytest

from regauge.errors import MissingRecordingError, RegaugeError, UnmeasuredError, UsageError
from regauge.gate import (
    EVALS_COPIES,
    EXIT_CODES,
    GatedChange,
    PolicyOptions,
    compare,
    decide,
    draw_part,
    is_base_unavailable,
    operating_line_of,
    policy_of,
)
from regauge.model_id import is_simulated
from regauge.mutate import changed_guards
from regauge.recordings import map_texts
from regauge.refine.delivery import evidence_lines, headline
from regauge.refine.refinement import Refinement, RefineOptions
from regauge.refine.runs import begin_run, only_one, remember_status
from regauge.refine.subject import declared_goals
from regauge.reports import (
    StyledLine,
    Suggestion,
    decision_lines,
    gate_progress_line,
    output_diff,
    verdict_words,
)
from regauge.reports.decisions import decision_document
from regauge.runner import EvalResult, EvalSession, PlannedCase
from regauge.wording import printable
from regauge.workflow_commands import break_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.errors import Fault
    from regauge.gate import Baseline, GateProgress, GateResult, GateRun
    from regauge.mutate import ChangedGuards
    from regauge.reports import CaseDocument, DecisionDocument, RunWriter
    from regauge.runner import Eval, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """The gate that a run requests.

    Attributes:
        ref: What to compare with.
        options: What replaces the base's policy.
        more_trials: Further trials of each undecided case, for a comparison that is continued.
        baseline: Taken instead of the one that is committed.
        accept_judge_change: Why judges may change, where no prompt does.
        narrowed: Whether only some of the evals were asked for, next to pytest's own options.
        dry_run: Whether to stop before anything is drawn.
        again: The words of the command that decides again.
        say: Shows a line while models answer; None leaves that to pytest's terminal.
    """

    ref: str
    options: PolicyOptions = field(default_factory=PolicyOptions)
    more_trials: int = 0
    baseline: Baseline | None = None
    accept_judge_change: str = ""
    narrowed: bool = False
    dry_run: bool = False
    again: Sequence[str] = ()
    say: Callable[[str], None] | None = None


request_key: pytest.StashKey[GateRequest] = pytest.StashKey()


class GateFailed(AssertionError):  # noqa: N818 - it says what happened; it is not an error
    """A case that keeps a change from being accepted; the message is what a reader needs."""

    regauge_words = True

    def __init__(self, document: CaseDocument, *, where: str) -> None:
        self.document = document
        self.where = where
        super().__init__(document.message)

    def __str__(self) -> str:
        again = f"  again: regauge gate --prompt {shlex.quote(self.document.prompt)}"
        diff = [f"    {line}" for line in output_diff(self.document)]
        return printable("\n".join([self.document.message, *diff, again]))

    @property
    def short(self) -> str:
        """One line, for lists."""
        return printable(self.document.message)


@dataclass(slots=True, kw_only=True, eq=False)
class GatedResult(EvalResult):
    """The candidate's trials of one case, and what the gate says of them.

    Attributes:
        gated: The verdict; it decides instead of the single trials.
        outcome: `failed` when the case keeps the change from being accepted.
    """

    gated: CaseDocument

    def __post_init__(self) -> None:
        outcomes = [trial.outcome for trial in self.trials]
        self.passed = outcomes.count("passed")
        if self.gated.verdict == "unmeasured":
            self.outcome = "unmeasured"
        else:
            self.outcome = "failed" if self.breaks else "passed"

    @property
    def verdict(self) -> str:
        """The verdict on the case."""
        return self.gated.verdict

    @property
    def breaks(self) -> bool:
        """Return whether the case is worse, and blocks."""
        return self.gated.blocks and self.gated.verdict in {"broken", "new"}

    def check(self) -> None:
        """Apply the gate's verdict.

        Raises:
            GateFailed: The change broke the case.
            UnmeasuredError: Trials have no answer or no verdict.
        """
        __tracebackhide__ = True
        if self.gated.verdict == "unmeasured":
            raise self.error or UnmeasuredError(self.gated.message)
        if self.breaks:
            raise GateFailed(self.gated, where=self.where)


@dataclass(slots=True, kw_only=True, eq=False)
class PartResult(EvalResult):
    """The trials of one case in a shard of a gate, which decides nothing.

    Attributes:
        base: The trials of the base.
        outcome: `unmeasured` where a trial of either is, else `passed`, whatever judges found. A
            replay is measured by the trials that are recorded.
    """

    base: tuple[Trial, ...] = ()
    verdict: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.passed = [trial.outcome for trial in self.trials].count("passed")
        self.outcome = "unmeasured" if self.error is not None else "passed"

    @property
    def error(self) -> UnmeasuredError | None:
        """The first error that leaves the case unmeasured."""
        measured = any(trial.error is None for trial in self.trials)
        for trial in (*self.trials, *self.base):
            if trial.error is None or is_base_unavailable(trial.error):
                continue
            if not (measured and isinstance(trial.error, MissingRecordingError)):
                return trial.error
        return None

    def check(self) -> None:
        """Hold that the case is measured.

        Raises:
            UnmeasuredError: Trials have no answer or no verdict.
        """
        if self.error is not None:
            raise self.error


# Trials of a suspect for each step of an undecided gate.
_MORE = 8


def missing_trials(decided: GateResult, again: Sequence[str], session: EvalSession) -> list[str]:
    """The command that makes missing trials or gathers more evidence; empty when decided."""
    if decided.decision in {"accept", "refused"}:
        return []
    match decided.unmeasured_cause:
        case "recordings":
            return [*_without(again, "--record"), "--record=missing"]
        case "budget":
            limit = session.budget.limit_usd
            more = f"--budget-usd={math.ceil(200 * (limit or 0)) / 100:g}"
            return [*_without(again, "--budget-usd"), more] if limit else list(again)
        case "answers":
            return list(again)
        case _:
            if decided.decision != "undecided":
                return []
            return [*_without(again, "--more-trials"), f"--more-trials={_MORE}"]


def _without(words: Sequence[str], option: str) -> list[str]:
    """A command without one of its options.

    >>> _without(["gate", "--record", "none", "--record=all", "main"], "--record")
    ['gate', 'main']
    """
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word != option and not word.startswith(f"{option}="):
            kept.append(word)
        skip = word == option
    return kept


# CI systems show lines one by one; more often would bury the decision.
_PROGRESS_EVERY_S = 10.0
# Outcomes that pytest has no word for: the letter of their dots, and their colour.
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
        config: Of pytest.
        session: Finds and draws answers.
        writer: Of the run record.

    Attributes:
        document: What it came to, once it has.
        cut_off: Whether a user interrupted it before it decided.
        base_commit: In a shard, what its trials compare with; empty elsewhere.
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
        self._results: dict[int, GatedResult] = {}
        self._parts: dict[int, PartResult] = {}
        self._left_alone: set[int] = set()
        self.document: DecisionDocument | None = None
        self.cut_off = False
        self.base_commit = ""

    def run(
        self,
        nodes: Mapping[int, str],
        *,
        owed: Sequence[Fault],
        narrowed: bool,
        say: Callable[[str], None],
    ) -> None:
        """Compare, draw, decide, and write every trial to the run record.

        Args:
            nodes: The pytest item of each planned case, by the case's identity.
            owed: What the run leaves out without a word of the user.
            narrowed: Whether the user selected some of the evals on the command line.
            say: Shows a line while models answer.

        Raises:
            pytest.UsageError: The change cannot be compared.
        """
        try:
            comparison = compare(
                self._session,
                self._request.ref,
                baseline=self._request.baseline,
                accept_judge_change=self._request.accept_judge_change,
                omissions=() if self._request.narrowed else owed,
                is_filtered=self._request.narrowed or narrowed,
            )
            # The base's, or a change would set its own.
            base = policy_of(comparison.base_commit.newest.settings.gate)
            policy = self._request.options.apply_to(base)
            if self._request.dry_run:
                if comparison.refusals:
                    raise UsageError("\n".join(map(str, comparison.refusals)))
                self._config.hook.pytest_regauge_compared(
                    config=self._config, comparison=comparison, policy=policy
                )
                return
            saying = self._saying(say)

            def waiting(progress: GateProgress) -> None:
                saying(gate_progress_line(progress))

            if self._session.options.shard is not None:
                run = draw_part(self._session, comparison, policy, on_progress=waiting)
                self._keep_part(run, nodes)
                self.base_commit = comparison.base_commit.commit
                return
            decided = decide(
                self._session,
                comparison,
                policy,
                on_progress=waiting,
                # A refinement begins with the trials that failed.
                copies_per_case=EVALS_COPIES if self._config.getoption("--suggest") else 1,
                more_trials=self._request.more_trials,
                change=GatedChange.current(self._session.project.root, os.environ),
            )
            guards = changed_guards(self._session, decided, on_progress=saying)
        except RegaugeError as error:
            words = self._session.answers.redact(str(error))
            # pytest prints it past its terminal.
            raise pytest.UsageError(break_commands(printable(words))) from error
        except KeyboardInterrupt:
            self.cut_off = True
            raise
        self.document = self._decision_document(
            decided, nodes, loosened=self._request.options.looser_options(base), guards=guards
        )
        self._keep(decided, nodes)
        self._config.hook.pytest_regauge_decided(config=self._config, decision=self.document)

    @property
    def results(self) -> list[GatedResult]:
        """Of all cases that were drawn, once it has decided."""
        return [*self._results.values()]

    def result(self, planned: PlannedCase, *, where: str) -> GatedResult | PartResult:
        """The item's case; a case without a trial is skipped if nothing is recorded."""
        kept = self._results.get(id(planned)) or self._parts.get(id(planned))
        if kept is not None:
            return kept
        document = self._cases.get(id(planned))
        if document is None:
            self._left_alone.add(id(planned))
            pytest.skip("not run: the decision needs no trial")
        made = self._session.result(planned, where=where, waiting=lambda _: None)
        if made.outcome == "unmeasured":
            self._left_alone.add(id(planned))
            pytest.skip(document.message)
        return GatedResult(
            suite=made.suite, case=made.case, trials=made.trials, where=where, gated=document
        )

    def leaves_alone(self, planned: PlannedCase) -> bool:
        """Return whether `result` skipped the item of a case that the gate had no reason to run."""
        return id(planned) in self._left_alone

    def failed(self, error: BaseException) -> TypeGuard[GateFailed]:
        """Return whether an error is the gate's own."""
        return isinstance(error, GateFailed)

    def amend(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Let the report of an item that passed say what the gate says of its case."""
        result = getattr(item, "funcargs", {}).get("result")
        passed = report.when == "call" and report.outcome == "passed"
        if not isinstance(result, GatedResult) or not passed or hasattr(report, "wasxfail"):
            return
        verdict = result.gated.verdict
        if verdict == "known-failing":
            report.outcome = "skipped"
            report.wasxfail = result.gated.message
        elif verdict in _STATUSES:
            letter, tone = _STATUSES[verdict]
            words = verdict_words(verdict)
            vars(report)["regauge_status"] = words, letter, (words.upper(), {tone: True})
            report.sections.append(("gate", printable(result.gated.message)))

    def lines(self) -> list[StyledLine]:
        """The decision, for the summary."""
        return decision_lines(self.document) if self.document is not None else []

    @property
    def exit_status(self) -> int:
        """Of a pytest run in which every item passed: 2 where the change is refused."""
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
        loosened: Sequence[str],
        guards: Sequence[ChangedGuards],
    ) -> DecisionDocument:
        line = operating_line_of(decided.outcome)
        again = list(self._request.again) or ["pytest", *self._config.invocation_params.args]
        missing = missing_trials(decided, again, self._session)
        if any(guard.below == "open" for guard in guards):
            missing = missing or [*_without(again, "--record"), "--record=missing"]
        document = decision_document(
            decided,
            nodes=nodes,
            rerun_command=shlex.join(again),
            missing=shlex.join(missing),
            operating_line=str(line) if line is not None else "",
            looser_options=loosened,
            guards=guards,
        )
        # It quotes prompts, answers and errors of providers, and goes to log, comment and record.
        # Its cells hold counts alone, of each check of each case.
        words = document.model_copy(update={"cells": []})
        clean = map_texts(words, self._session.answers.redact)
        return clean.model_copy(update={"cells": document.cells})

    def _keep(self, decided: GateResult, nodes: Mapping[int, str]) -> None:
        """Write the trials of both sides, and keep those of the candidate for the items."""
        assert self.document is not None
        for compared, case in zip(decided.compared_cases, self.document.cases, strict=True):
            planned = compared.candidate
            if planned is None:
                continue
            self._cases[id(planned)] = case
            node = nodes.get(id(planned), "")
            if trials := decided.trials.get((case.prompt, case.case, "candidate")):
                result = self._results[id(planned)] = GatedResult(
                    suite=planned.suite,
                    case=planned.case,
                    trials=tuple(trials),
                    where=node,
                    gated=case,
                )
                self._writer.add(result, side="candidate")
            of_base = decided.trials.get((case.prompt, case.case, "base"), ())
            self._add_base(compared.base, tuple(of_base), node)

    def _keep_part(self, run: GateRun, nodes: Mapping[int, str]) -> None:
        """Write the trials of a shard, and keep them for the items."""
        for compared in run.compared_cases:
            planned, prompt, case = compared.candidate, compared.case.prompt, compared.case.case
            trials, base = (
                tuple(run.trials.get((prompt, case, side), ())) for side in ("candidate", "base")
            )
            if planned is None or not trials:
                continue
            node = nodes.get(id(planned), "")
            result = self._parts[id(planned)] = PartResult(
                suite=planned.suite, case=planned.case, trials=trials, where=node, base=base
            )
            self._writer.add(result, side="candidate")
            self._add_base(compared.base, base, node)

    def _add_base(self, base: PlannedCase | None, trials: tuple[Trial, ...], node: str) -> None:
        if base is not None and trials:
            result = EvalResult(suite=base.suite, case=base.case, trials=trials, where=node)
            self._writer.add(result, side="base")

    def _saying(self, say: Callable[[str], None]) -> Callable[[str], None]:
        """Shows a line of progress: each one where the request wants them, else now and then."""
        said_s = time.monotonic()

        def saying(line: str) -> None:
            nonlocal said_s
            if self._request.say is not None:
                self._request.say(line)
            elif time.monotonic() - said_s >= _PROGRESS_EVERY_S:
                said_s = time.monotonic()
                say(line)

        return saying


# A suggestion comes at the end of a test run: a fix or two, with a diff that one screen holds.
CYCLES = 2
_DIFF_LINES_MAX = 40


@dataclass(slots=True, kw_only=True, eq=False)
class RefinementSearch:
    """Looks for repairs of the prompts that failed, one after the other, within what is left.

    Attributes:
        session: Of the run; it is over by the time anything is looked for.
        cycles: Rounds of edit and test for each prompt.
        again: Makes the suite of an eval again, for another session.
    """

    session: EvalSession
    cycles: int
    again: Callable[[EvalSession, Eval], Eval]
    _failed: dict[str, Eval] = field(default_factory=dict[str, "Eval"])

    def note(self, result: EvalResult) -> None:
        """Remember a prompt whose case failed; tracked cases do not count."""
        if result.outcome == "failed" and result.case.tier != "tracked":
            self._failed.setdefault(result.suite.prompt.name, result.suite)

    def made(self, say: Callable[[str], None]) -> list[Suggestion]:
        """A suggestion for every prompt that failed; a reason is printed where none can be made."""
        spent = self.session.budget.spent_usd
        made: list[Suggestion] = []
        for name, suite in sorted(self._failed.items()):
            say(f"{name}: looking for a small revision that fixes it")
            try:
                made.append(self._suggestion(name, suite, spent))
            except RegaugeError as error:
                made.append(Suggestion(prompt=name, headline=f"{name}: {error}", stop="error"))
            spent += made[-1].usd
        return made

    def _suggestion(self, name: str, suite: Eval, spent: float) -> Suggestion:
        options, project = self.session.options, self.session.project
        if options.record == "none" and not is_simulated(str(suite.model)):
            return Suggestion(
                prompt=name,
                stop="record-none",
                headline=f"{name}: no suggestion, as --record=none asks no model"
                f" (regauge refine {name} would)",
            )
        left = None if options.budget_usd is None else max(0.0, options.budget_usd - spent)
        own_options = replace(options, record="missing", budget_usd=left)
        evals = EvalSession(project, own_options, environ=os.environ)
        try:
            again = self.again(evals, suite)
            refinement = Refinement(
                evals,
                [PlannedCase(again, case) for case in again.dataset],
                _options(evals, name, self.cycles, left),
                recalls=True,
            )
            refinement.check_calls()
            facts: dict[str, Any] = {
                "command": ["pytest", "--suggest"],
                "evals": "",
                "words": ["--record=missing"],
                "file": str(project.relative(refinement.subject.prompt.path)),
                "options": refinement.options.to_json(),
            }
            with only_one(project, name, "pytest --suggest"):
                run = begin_run(project, name, facts)
                state = refinement.run(run, lambda _: None)
                today = datetime.now(UTC).date().isoformat()
                result = refinement.finish(run, state, date=today)
                remember_status(run, state)
        finally:
            evals.close()
        return _suggestion(result, run.markdown.read_text(encoding="utf-8"))


def suggestion_lines(suggestions: list[Suggestion]) -> list[StyledLine]:
    """The lines of the summary on suggestions."""
    lines: list[StyledLine] = []
    for suggestion in suggestions:
        lines.append(
            StyledLine(f"suggestion: {suggestion.headline}", "good" if suggestion.diff else "plain")
        )
        diff = suggestion.diff.splitlines()
        lines += [StyledLine(f"  {line}", _tone(line)) for line in diff[:_DIFF_LINES_MAX]]
        if len(diff) > _DIFF_LINES_MAX:
            lines.append(StyledLine(f"  ... {len(diff) - _DIFF_LINES_MAX} more lines", "quiet"))
        lines += [StyledLine(f"  {text}") for text in suggestion.evidence]
        if suggestion.run:
            simulated = " (simulated)" if suggestion.simulated else ""
            do = "apply" if suggestion.diff else "show"
            lines += [
                StyledLine(
                    f"  {suggestion.calls} calls{simulated}, ${suggestion.usd:.4f}", "quiet"
                ),
                StyledLine(f"  regauge refine {do} {suggestion.run}", "quiet"),
            ]
    return lines


def _tone(line: str) -> Any:
    return {"+": "good", "-": "bad"}.get(line[:1], "quiet")


def _options(evals: EvalSession, prompt: str, cycles: int, usd: float | None) -> RefineOptions:
    """The cheapest proposer alone, and few cycles."""
    settings = evals.project.settings.refine
    return RefineOptions(
        proposers=("rules",),
        cycles=cycles,
        calls=settings.budget_calls,
        usd=usd,
        frozen=tuple(settings.frozen),
        goals=declared_goals(evals.project, prompt),
    )


def _suggestion(result: Mapping[str, Any], markdown: str) -> Suggestion:
    revision = result["revision"]
    return Suggestion(
        prompt=result["prompt"],
        run=result["run"],
        stop=result["stop"]["reason"],
        headline=headline(result),
        diff=revision["diff"] if revision is not None else "",
        evidence=evidence_lines(result),
        markdown=markdown,
        calls=result["spent"]["calls"],
        usd=result["spent"]["usd"],
        simulated=result["simulated"],
    )
