"""Trials of a case, the result that a test function receives, and the text of its failure."""

from __future__ import annotations

import json
import math
import shlex
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import UnmeasuredError
from regauge.providers import limit_reached, shown_messages, shown_output, sum_if_known
from regauge.strict_json import read_json
from regauge.wording import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges import Verdict
    from regauge.project import Criterion
    from regauge.prompts import Prompt
    from regauge.providers import Completion
    from regauge.runner._eval import Eval


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The usage of the model calls of one or more judgements.

    Attributes:
        calls: The number of calls; a call that judgements share counts once.
        live: The number of calls that this run paid for.
        retries: The number of failed attempts.
        cost_usd: The cost in US dollars at recorded prices; None if one is unknown.
        spent_usd: The part of the cost that this run paid; None if unknown.
        latency_s: The sum of latencies in seconds; None if one is unknown.
    """

    calls: int = 0
    live: int = 0
    retries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    spent_usd: float | None = 0.0
    latency_s: float | None = 0.0

    def plus(self, completion: Completion, *, live: bool) -> CallTotals:
        """The totals with one more call; `live` if this run pays for it."""
        cost_usd = completion.cost_usd
        return CallTotals(
            calls=self.calls + 1,
            live=self.live + live,
            retries=self.retries + (completion.attempts - 1 if live else 0),
            input_tokens=self.input_tokens + completion.usage.input_tokens,
            output_tokens=self.output_tokens + completion.usage.output_tokens,
            cost_usd=_sum(self.cost_usd, cost_usd),
            spent_usd=_sum(self.spent_usd, cost_usd) if live else self.spent_usd,
            latency_s=_sum(self.latency_s, completion.latency_s),
        )

    def to_json(self) -> dict[str, JSON]:
        """The fields that a replay needs, as JSON."""
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "latency_s": self.latency_s,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> CallTotals:
        """The totals that `to_json` wrote; a missing or invalid number is 0."""

        def number(name: str) -> float:
            value = document.get(name)
            return value if isinstance(value, (int, float)) else 0

        cost_usd, latency_s = document.get("cost_usd", 0.0), document.get("latency_s", 0.0)
        return cls(
            calls=int(number("calls")),
            input_tokens=int(number("input_tokens")),
            output_tokens=int(number("output_tokens")),
            cost_usd=cost_usd if isinstance(cost_usd, (int, float)) else None,
            latency_s=latency_s if isinstance(latency_s, (int, float)) else None,
        )


def _sum(first: float | None, other: float | None) -> float | None:
    total = sum_if_known((first, other))
    return None if total is None else round(total, 9)


CompletionSource: TypeAlias = Literal["recording", "store", "live"]
TrialOutcome: TypeAlias = Literal["passed", "failed", "unmeasured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedCompletion:
    """A completion and its source: a recording, the local store, or the model."""

    completion: Completion
    source: CompletionSource


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedVerdict:
    """A verdict, with the judge that gave it.

    Attributes:
        blocking: Whether it can fail a trial; otherwise it is advisory.
        status_reason: The reason for this; empty for rules.
        criterion: The kind of quality it judges.
        calls: The usage of its model calls; None for a rule.
        labels: Whether the judge compares labels, so that `expected` and `actual` are labels.
    """

    judge: str
    judge_digest: str
    verdict: Verdict
    criterion: Criterion = "correctness"
    blocking: bool = True
    status_reason: str = ""
    calls: CallTotals | None = None
    labels: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingVerdict:
    """The reason why an LLM judge gave no verdict, and the usage of its calls."""

    error: UnmeasuredError
    calls: CallTotals = CallTotals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One completion of a case, judged.

    Attributes:
        number: From 0.
        request_digest: Empty if the case could not be rendered.
        sourced_completion: The completion; None if there is none.
        verdicts: In the order of the eval's judges.
        error: The reason why the trial is unmeasured.
        lost_calls: The usage of judges' calls that ended without a verdict.
    """

    number: int
    request_digest: str
    sourced_completion: SourcedCompletion | None
    verdicts: tuple[JudgedVerdict, ...] = ()
    error: UnmeasuredError | None = None
    lost_calls: tuple[CallTotals, ...] = ()

    @property
    def outcome(self) -> TrialOutcome:
        """`failed` if a blocking judge failed it, `passed` if one passed it and none failed."""
        if self.error is not None or self.sourced_completion is None:
            return "unmeasured"
        outcomes = {
            judged_verdict.verdict.outcome
            for judged_verdict in self.verdicts
            if judged_verdict.blocking
        }
        if "fail" in outcomes:
            return "failed"
        return "passed" if "pass" in outcomes else "unmeasured"

    @property
    def failures(self) -> tuple[JudgedVerdict, ...]:
        """The failing verdicts of blocking judges."""
        return tuple(
            judged_verdict
            for judged_verdict in self.verdicts
            if judged_verdict.blocking and judged_verdict.verdict.outcome == "fail"
        )


# A failure stays on one screen of a terminal, a conversation on two; the HTML report has all.
_OUTPUT_CHARS_MAX = 1200
_CONVERSATION_CHARS_MAX = 4000
_VALUE_CHARS_MAX = 300


def describe_failure(result: EvalResult, *, node: str) -> str:
    """The report of a failed case: judges, expected and actual output, command to re-run `node`."""
    prompt = result.prompt
    lines = [f"{prompt.id} · case {result.case.id} · {_count(result)} · {result.case.location}"]
    first_failed: Trial | None = None
    for judge, failed in _by_judge(result).items():
        trial, judged_verdict = failed[0]
        first_failed = first_failed or trial
        times = (
            f" in {len(failed)} of {len(result.trials)} trials" if len(result.trials) > 1 else ""
        )
        lines.append(
            f"  ✗ {judge}{times}: {one_line(judged_verdict.verdict.reason, _VALUE_CHARS_MAX)}"
        )
        if judged_verdict.verdict.expected is not None:
            lines.append(f"      expected: {_value(judged_verdict.verdict.expected)}")
        if judged_verdict.verdict.actual is not None:
            lines.append(f"      actual:   {_value(judged_verdict.verdict.actual)}")
    passed = {
        judged_verdict.judge
        for trial in result.trials
        for judged_verdict in trial.verdicts
        if judged_verdict.blocking and judged_verdict.verdict.outcome == "pass"
    } - set(_by_judge(result))
    if passed:
        lines.append(f"  ✓ {', '.join(sorted(passed))}")
    lines.extend(_advisory_lines(result))
    if first_failed is not None and first_failed.sourced_completion is not None:
        completion = first_failed.sourced_completion.completion
        label = f"trial {first_failed.number}, " if len(result.trials) > 1 else ""
        noun = "conversation" if completion.messages else "output"
        lines.append(
            f"  {noun} ({label}{completion.model}, {first_failed.sourced_completion.source}):"
        )
        messages = shown_messages(completion)
        text = shown_output(completion.text, completion.refusal, messages) or ""
        shorten = _shorten_middle if messages else _shorten
        lines.extend(f"    {line}" for line in shorten(text).splitlines() or ["(empty)"])
        limit = limit_reached(completion, result.prompt.parameters)
        if limit or completion.finish_reason not in {"stop", "unknown"}:
            cut = f", cut off at {limit}" if limit else ""
            lines.append(f"  finish reason: {completion.finish_reason}{cut}")
    lines.append(f"  again: pytest {shlex.quote(node)}")
    return printable("\n".join(lines))


def one_line(text: str, limit: int = _VALUE_CHARS_MAX) -> str:
    """The text on one line of at most `limit` characters, with an ellipsis if cut."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _count(result: EvalResult) -> str:
    if len(result.trials) == 1:
        return "failed"
    return f"passed {result.passed} of {len(result.trials)} trials, {result.required_passes} needed"


def _advisory_lines(result: EvalResult) -> list[str]:
    """The reasons of advisory judges on their first trial, one line each."""
    verdicts: dict[str, JudgedVerdict] = {}
    for trial in result.trials:
        for judged_verdict in trial.verdicts:
            if not judged_verdict.blocking:
                verdicts.setdefault(judged_verdict.judge, judged_verdict)
    return [
        f"  · {name} (advisory): {judged_verdict.verdict.outcome}"
        f" ({judged_verdict.verdict.score:.2f}): {one_line(judged_verdict.verdict.reason)}"
        for name, judged_verdict in verdicts.items()
    ]


def _by_judge(result: EvalResult) -> dict[str, list[tuple[Trial, JudgedVerdict]]]:
    failed: dict[str, list[tuple[Trial, JudgedVerdict]]] = defaultdict(list)
    for trial in result.trials:
        for judged_verdict in trial.failures:
            failed[judged_verdict.judge].append((trial, judged_verdict))
    return failed


def _value(value: JSON) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text)


def _shorten_middle(text: str) -> str:
    """The beginning and the end of a conversation."""
    limit = _CONVERSATION_CHARS_MAX
    if len(text) <= limit:
        return text
    begin, (cut, _, lines) = text[: limit // 4], text[-(limit * 3 // 4) :].partition("\n")
    end = lines or cut
    omitted = len(text) - len(begin) - len(end)
    return f"{begin}\n… {omitted} more characters\n{end}"


def _shorten(text: str) -> str:
    if len(text) <= _OUTPUT_CHARS_MAX:
        return text
    return f"{text[:_OUTPUT_CHARS_MAX]}\n… {len(text) - _OUTPUT_CHARS_MAX} more characters"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvalResult:
    """The judged trials of one case.

    Attributes:
        trials: The trials in order, at least one.
        node_id: The id of the pytest item, for commands in messages; empty outside pytest.
        not_blocking: The reason why a failure does not fail the run; empty without one.
    """

    eval: Eval
    case: GoldenCase
    trials: tuple[Trial, ...]
    node_id: str = ""
    not_blocking: str = ""

    @property
    def passed(self) -> int:
        """The number of passed trials."""
        return [trial.outcome for trial in self.trials].count("passed")

    @property
    def outcome(self) -> TrialOutcome:
        """`unmeasured` only if unmeasured trials could change it."""
        outcomes = [trial.outcome for trial in self.trials]
        unmeasured = outcomes.count("unmeasured")
        if outcomes.count("passed") + unmeasured < self.required_passes:
            return "failed"
        return "unmeasured" if unmeasured else "passed"

    @property
    def prompt(self) -> Prompt:
        """The prompt that was evaluated."""
        return self.eval.prompt

    @property
    def completion(self) -> Completion:
        """The completion of the first trial.

        Raises:
            UnmeasuredError: There is none.
        """
        first = self.trials[0]
        if first.sourced_completion is None:
            raise first.error or UnmeasuredError("there is no completion")
        return first.sourced_completion.completion

    @property
    def output(self) -> str:
        """The output of the first trial; empty without one."""
        return self.completion.text or ""

    def json(self) -> JSON:
        """The output of the first trial, parsed.

        Raises:
            ValueError: The output is not JSON.
        """
        parsed: JSON = read_json(self.output)
        return parsed

    @property
    def required_passes(self) -> int:
        """The number of trials that must pass: the eval's `pass_rate`, rounded up."""
        return max(1, math.ceil(self.eval.pass_rate * len(self.trials) - 1e-9))

    @property
    def error(self) -> UnmeasuredError | None:
        """The reason why the case is unmeasured: the first error of a trial."""
        return next((trial.error for trial in self.trials if trial.error is not None), None)

    def check(self) -> None:
        """Apply the judges' verdicts.

        Raises:
            CaseFailed: Fewer trials passed than `pass_rate` requires.
            UnmeasuredError: A trial has no completion or no verdict.
        """
        __tracebackhide__ = True
        match self.outcome:
            case "passed":
                return
            case "failed":
                raise CaseFailed(self)
            case "unmeasured":
                raise self.error or UnmeasuredError("nothing was measured")


class CaseFailed(AssertionError):  # noqa: N818 - a failure, not an error
    """A case failed its judges; the message is the report of `describe_failure`."""

    regauge_words = True

    def __init__(self, result: EvalResult) -> None:
        self.result = result
        self._node = result.node_id
        super().__init__(result)

    def show_node(self, node: str) -> None:
        """Name the item as the user's working directory requires, in the command to re-run it."""
        self._node = node

    def __str__(self) -> str:
        return describe_failure(self.result, node=self._node)

    def __repr__(self) -> str:
        # pytest calls repr for each assertion error; a repr of all trials takes milliseconds.
        return f"CaseFailed({self.result.case.id!r})"

    @property
    def short(self) -> str:
        """The first failing judge and its reason, on one line."""
        first = next(
            judged_verdict for trial in self.result.trials for judged_verdict in trial.failures
        )
        return one_line(f"{first.judge}: {first.verdict.reason}")
