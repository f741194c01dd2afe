"""What a completion took: time, money, tokens; how it ended; which tools it called."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from regauge.digests import JSON
from regauge.errors import JudgeError, UsageError
from regauge.judges._evidence import listed, number, quote
from regauge.judges._json_text import JsonFault, parse_json
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, abstained, failed, graded, passed
from regauge.judges.rules._counts import bounds
from regauge.judges.rules._likeness import share
from regauge.judges.rules._schema import schema_validator, schema_verdict
from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.judges._answer import Answer
    from regauge.judges._rule import Check
    from regauge.providers import Completion, ToolCall

__all__ = [
    "completion_of",
    "finish_reason_is",
    "max_cost_usd",
    "max_latency_s",
    "max_tokens",
    "never_calls",
    "perplexity",
    "tool_call_count",
    "tool_calls_match",
    "tools_called",
]


def completion_of(answer: Answer, kind: str) -> Completion:
    """The completion that a rule judges.

    Raises:
        JudgeError: Only a text was given.
    """
    if answer.completion is None:
        raise JudgeError(f"{kind}: judges a completion; only a text was given", judge=kind)
    return answer.completion


def _limit(kind: str, limit: float) -> None:
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 <= limit < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance] - from YAML
        raise UsageError(f"{kind}: a limit is a number from 0 up, not {limit!r}")


def _at_most(found: float, limit: float, unit: str, code: str) -> Verdict:
    reason = f"{number(found)} {unit}, at most {number(limit)} wanted"
    if found <= limit:
        return passed(reason, actual=found)
    return failed(reason, code=code, score=limit / found, expected=limit, actual=found)


@rule(codes=("too_slow",))
def max_latency_s(limit: float, *, gates: bool = False) -> Check:
    """The answer came within so many seconds.

    A slow machine is no fault of a prompt, so this informs and abstains unless told to gate.

    Args:
        limit: The most that passes, in seconds.
        gates: Pass and fail; otherwise abstain and say the time.

    >>> max_latency_s(2.5).name
    'max_latency_s(2.5)'
    """
    _limit("max_latency_s", limit)

    def check(answer: Answer) -> Verdict:
        found = completion_of(answer, "max_latency_s").latency_s
        verdict = _at_most(found, limit, "s", "too_slow")
        return verdict if gates else abstained(verdict.reason, code="informs")

    return check


@rule(codes=("too_expensive",))
def max_cost_usd(limit: float) -> Check:
    """The answer cost at most so many US dollars; abstains when the price is not known.

    Args:
        limit: The most that passes, in US dollars.

    >>> max_cost_usd(0.01).name
    'max_cost_usd(0.01)'
    """
    _limit("max_cost_usd", limit)

    def check(answer: Answer) -> Verdict:
        found = completion_of(answer, "max_cost_usd").cost_usd
        if found is None:
            return abstained("the price of the model is not known", code="no_price")
        reason = f"{found:.10g} USD, at most {limit:.10g} wanted"
        if found <= limit:
            return passed(reason, actual=found)
        return failed(
            reason, code="too_expensive", score=limit / found, expected=limit, actual=found
        )

    return check


@rule(codes=("too_many",))
def max_tokens(n: int, *, of: Literal["input", "output", "all"] = "output") -> Check:
    """The completion took at most so many tokens.

    Args:
        n: The most that passes.
        of: Which tokens count: of the `output` (reasoning included), the `input`, or `all`.

    >>> max_tokens(500, of="all").name
    'max_tokens(500, of=all)'
    """
    _limit("max_tokens", n)
    if of not in {"input", "output", "all"}:
        raise UsageError(f"max_tokens: of is input, output or all, not {of!r}")

    def check(answer: Answer) -> Verdict:
        usage = completion_of(answer, "max_tokens").usage
        counts = {"input": usage.input_tokens, "output": usage.output_tokens}
        found = counts.get(of, usage.input_tokens + usage.output_tokens)
        return _at_most(found, n, "tokens", "too_many")

    return check


@rule(codes=("wrong_finish_reason",))
def finish_reason_is(*reasons: str) -> Check:
    """The completion ended for one of these reasons.

    Args:
        reasons: `stop`, `length`, `content_filter`, `tool_calls` or `unknown`; `stop` by default.

    >>> finish_reason_is("stop", "tool_calls").name
    'finish_reason_is(stop, tool_calls)'
    """
    wanted = tuple(reason.lower() for reason in reasons) or ("stop",)
    known = {"stop", "length", "content_filter", "tool_calls", "unknown"}
    if not known.issuperset(wanted):
        raise UsageError(f"finish_reason_is: there are {', '.join(sorted(known))}, not {reasons!r}")

    def check(answer: Answer) -> Verdict:
        found = completion_of(answer, "finish_reason_is").finish_reason
        if found in wanted:
            return passed(f"finish_reason is {quote(found)}")
        return failed(
            f"finish_reason is {quote(found)}, not {listed(wanted)}",
            code="wrong_finish_reason",
            expected=wanted,
            actual=found,
        )

    return check


@rule(codes=("too_surprising",))
def perplexity(at_most: float) -> Check:
    """The perplexity of the completion by its own model is low: exp of the mean of -log p.

    A completion that is certain has a perplexity of 1. The prompt has to request log-probabilities,
    with `logprobs: true` among its `modelParameters`; without them, the case is unmeasured.

    Args:
        at_most: The largest perplexity that passes, from 1 up.

    >>> perplexity(3.5).name
    'perplexity(3.5)'
    """
    _limit("perplexity", at_most)
    if at_most < 1:
        raise UsageError(f"perplexity: a perplexity is 1 or more, so at most {at_most!r} never is")

    def check(answer: Answer) -> Verdict:
        tokens = completion_of(answer, "perplexity").logprobs
        if not tokens:
            raise JudgeError(
                "perplexity: the completion has no log-probabilities\n"
                "  fix: set `logprobs: true` in the modelParameters of the prompt and record again",
                judge=f"perplexity({number(at_most)})",
            )
        surprise = -sum(token.logprob for token in tokens) / len(tokens)
        found = math.exp(min(surprise, 700.0))
        reason = f"perplexity {number(found)}, at most {number(at_most)} wanted"
        if found <= at_most:
            return passed(reason, actual=found)
        return failed(
            reason, code="too_surprising", score=at_most / found, expected=at_most, actual=found
        )

    return check


@rule(codes=("too_few", "too_many"))
def tool_call_count(
    *, at_least: int | None = None, at_most: int | None = None, exactly: int | None = None
) -> Check:
    """The model called so many tools.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.

    >>> tool_call_count(exactly=1).name
    'tool_call_count(exactly=1)'
    """
    low, high, wish = bounds("tool_call_count", at_least=at_least, at_most=at_most, exactly=exactly)

    def check(answer: Answer) -> Verdict:
        found = len(completion_of(answer, "tool_call_count").tool_calls)
        reason = f"{plural(found, 'tool call')}, {wish} wanted"
        if low is not None and found < low:
            return failed(reason, code="too_few", score=found / low, actual=found)
        if high is not None and found > high:
            return failed(reason, code="too_many", score=high / found, actual=found)
        return passed(reason, actual=found)

    return check


@rule(codes=("forbidden_tool",))
def never_calls(*names: str) -> Check:
    """The model called none of these tools.

    Args:
        names: The tools that it must not call.

    >>> never_calls("delete", "drop").name
    'never_calls(delete, drop)'
    """
    if not names:
        raise UsageError("never_calls: name at least one tool")

    def check(answer: Answer) -> Verdict:
        called = [call.name for call in completion_of(answer, "never_calls").tool_calls]
        forbidden = sorted({name for name in called if name in names})
        if forbidden:
            return failed(f"called {listed(forbidden)}", code="forbidden_tool", actual=called)
        return passed(f"called {listed(sorted(set(called))) or 'no tool'}", actual=called)

    return check


@rule(
    codes=("wrong_tools",),
    version=2,
    opposite="use `never_calls` for tools that must not be called",
)
def tools_called(*names: str, at_least: float = 1.0) -> Check:
    """The model called these tools and no others, in any order, however often.

    The score is F1 of the names: 2 c / (a + b), with c tools wanted and called, a called and b
    wanted. It has no negation: {ref}`never_calls <judge-never_calls>` forbids tools.

    Args:
        names: The tools that should be called.
        at_least: The least score that passes, from 0 to 1.

    >>> tools_called("search", "fetch").name
    'tools_called(search, fetch)'
    """
    if not names:
        raise UsageError("tools_called: name at least one tool")
    share("tools_called", at_least)
    wanted = set(names)

    def check(answer: Answer) -> Verdict:
        called = {call.name for call in completion_of(answer, "tools_called").tool_calls}
        score = 2 * len(called & wanted) / (len(called) + len(wanted))
        return graded(
            score,
            at_least=at_least,
            reason=f"called {listed(sorted(called)) or 'no tool'}, {listed(sorted(wanted))} wanted",
            code="wrong_tools",
            expected=sorted(wanted),
            actual=sorted(called),
        )

    return check


@rule(codes=("no_tool_call", "unknown_tool", "json_invalid", "schema"), version=2)
def tool_calls_match(tools: Sequence[Mapping[str, JSON]]) -> Check:
    """The model called tools, each of them known, with arguments that satisfy its schema.

    Args:
        tools: The tools as they go to the model: `{"type": "function", "function": {"name": ...,
            "parameters": {...}}}`.

    >>> weather = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    >>> tool_calls_match([weather]).name
    'tool_calls_match([{…}])'
    """
    validators: dict[str, Any] = {}
    for tool in tools:
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str):
            raise UsageError(f"tool_calls_match: a tool without a name: {json.dumps(tool)[:200]}")
        parameters: JSON = function.get("parameters") or dict[str, JSON]()
        validators[name] = schema_validator(parameters, formats=True, kind="tool_calls_match")

    def check(answer: Answer) -> Verdict:
        calls = completion_of(answer, "tool_calls_match").tool_calls
        if not calls:
            return failed("no tool was called", code="no_tool_call")
        for call in calls:
            verdict = _call(call, validators)
            if verdict.outcome != "pass":
                return verdict
        return passed(f"{plural(len(calls), 'tool call')} as their schemas want them")

    return check


def _call(call: ToolCall, validators: Mapping[str, Any]) -> Verdict:
    if call.name not in validators:
        known = listed(sorted(validators)) or "none"
        return failed(f"no tool {quote(call.name)}; there are {known}", code="unknown_tool")
    arguments = parse_json(call.arguments)
    if isinstance(arguments, JsonFault):
        return failed(
            f"the arguments of {call.name} are not JSON: {arguments.message}", code="json_invalid"
        )
    verdict = schema_verdict(validators[call.name], arguments)
    if verdict.outcome == "pass":
        return verdict
    return failed(f"{call.name}: {verdict.reason}", code="schema", actual=verdict.actual)
