"""The cost, steps, finish reason and tool calls of a completion or a conversation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._rule_factory import Amount, Name, Place, Share, Whole, rule
from regauge.judges._types import (
    Verdict,
    abstained,
    failed,
    format_number,
    graded,
    passed,
    quote_list,
    truncate_value,
)
from regauge.judges.output import JsonProblem, parse_json
from regauge.judges.rules._counts import CountLimits, parse_limits, verdict_on_count
from regauge.judges.rules._json import JsonComparison, match_pairs
from regauge.judges.rules._schema import schema_validator, schema_verdict
from regauge.strict_json import mapping_of
from regauge.wording import plural, quote

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.judges._rule import Check
    from regauge.judges.output import JudgedOutput
    from regauge.providers import Completion, ToolCall

__all__ = [
    "calls",
    "calls_exactly",
    "calls_in_order",
    "finish_reason_is",
    "max_cost_usd",
    "max_latency_s",
    "max_steps",
    "max_tokens",
    "never_calls",
    "perplexity",
    "tool_call_count",
    "tool_calls_match",
    "tools_called",
]


def completion_of(output: JudgedOutput, kind: str) -> Completion:
    """The completion that a rule judges.

    Raises:
        JudgeError: Only a text was given.
    """
    if output.completion is None:
        raise JudgeError(f"{kind}: judges a completion; only a text was given", judge=kind)
    return output.completion


def _at_most(value: float, limit: float, reason: str, code: str) -> Verdict:
    if value <= limit:
        return passed(reason, actual=value)
    return failed(reason, code=code, score=limit / value, expected=limit, actual=value)


@rule(about="format")
def max_latency_s(limit: Amount, *, blocking: bool = False) -> Check:
    """The completion took at most this many seconds.

    Advisory by default, because a slow machine does not depend on the prompt.

    Args:
        limit: The most that passes.
        blocking: Pass and fail, instead of abstaining with the time.

    Fails as: too_slow

    >>> max_latency_s(2.5).name
    'max_latency_s(2.5)'
    """

    def check(output: JudgedOutput) -> Verdict:
        latency_s = completion_of(output, "max_latency_s").latency_s
        if latency_s is None:
            return abstained("the latency is unknown: a batch, or a text alone", code="no_latency")
        verdict = _at_most(
            latency_s,
            limit,
            f"{format_number(latency_s)} s, at most {format_number(limit)} wanted",
            "too_slow",
        )
        return verdict if blocking else abstained(verdict.reason, code="advisory")

    return check


@rule(about="format")
def max_cost_usd(limit: Amount) -> Check:
    """The completion cost at most this many US dollars; abstains if the price is unknown.

    Args:
        limit: The most that passes.

    Fails as: too_expensive

    >>> max_cost_usd(0.01).name
    'max_cost_usd(0.01)'
    """

    def check(output: JudgedOutput) -> Verdict:
        cost_usd = completion_of(output, "max_cost_usd").cost_usd
        if cost_usd is None:
            return abstained("the price of the model is not known", code="no_price")
        reason = f"{cost_usd:.10g} USD, at most {limit:.10g} wanted"
        return _at_most(cost_usd, limit, reason, "too_expensive")

    return check


@rule(version=2, about="format")
def max_tokens(n: Amount, *, of: Literal["input", "output", "all"] = "output") -> Check:
    """At most `n` tokens; abstains if unknown.

    Args:
        n: The most that passes.
        of: Tokens of the `output` (reasoning included), the `input`, or `all`.

    Fails as: too_many
    Advice: Keep the answer short: at most {n} tokens.
    Negated: Write more than {n} tokens.

    >>> max_tokens(500, of="all").name
    'max_tokens(500, of=all)'
    """

    def check(output: JudgedOutput) -> Verdict:
        usage = completion_of(output, "max_tokens").usage
        if not usage.input_tokens + usage.output_tokens:
            return abstained("the number of tokens is unknown", code="no_usage")
        counts = {"input": usage.input_tokens, "output": usage.output_tokens}
        tokens = counts.get(of, usage.input_tokens + usage.output_tokens)
        return _at_most(
            tokens,
            n,
            f"{format_number(tokens)} tokens, at most {format_number(n)} wanted",
            "too_many",
        )

    return check


@rule(about="format")
def finish_reason_is(*reasons: str) -> Check:
    """The completion ended for one of these reasons.

    Args:
        reasons: `stop`, `length`, `content_filter`, `tool_calls` or `unknown`; `stop` by default.

    Fails as: wrong_finish_reason

    >>> finish_reason_is("stop", "tool_calls").name
    'finish_reason_is(stop, tool_calls)'
    """
    accepted = tuple(reason.lower() for reason in reasons) or ("stop",)
    usual = {"stop", "length", "content_filter", "tool_calls", "unknown"}
    if not usual.issuperset(accepted):
        raise UsageError(f"finish_reason_is: there are {', '.join(sorted(usual))}, not {reasons!r}")

    def check(output: JudgedOutput) -> Verdict:
        reason = completion_of(output, "finish_reason_is").finish_reason
        if reason in accepted:
            return passed(f"finish_reason is {quote(reason)}")
        return failed(
            f"finish_reason is {quote(reason)}, not {quote_list(accepted)}",
            code="wrong_finish_reason",
            expected=accepted,
            actual=reason,
        )

    return check


@rule(about="format")
def perplexity(at_most: Amount) -> Check:
    """The perplexity of the completion by its own model is low: exp of the mean of -log p.

    A certain completion has 1. Set `logprobs: true` in `modelParameters`; without log-probabilities
    the case is unmeasured.

    Args:
        at_most: The most that passes.

    Fails as: too_surprising

    >>> perplexity(3.5).name
    'perplexity(3.5)'
    """
    if at_most < 1:
        raise UsageError(f"perplexity: a perplexity is 1 or more, so at most {at_most!r} never is")

    def check(output: JudgedOutput) -> Verdict:
        tokens = completion_of(output, "perplexity").logprobs
        if not tokens:
            raise JudgeError(
                "perplexity: the completion has no log-probabilities\n"
                "  fix: set `logprobs: true` in the modelParameters of the prompt and record again",
                judge=f"perplexity({format_number(at_most)})",
            )
        surprise = -sum(token.logprob for token in tokens) / len(tokens)
        perplexity = math.exp(min(surprise, 700.0))
        reason = f"perplexity {format_number(perplexity)}, at most {format_number(at_most)} wanted"
        return _at_most(perplexity, at_most, reason, "too_surprising")

    return check


@rule(about="format")
def tool_call_count(**limits: Unpack[CountLimits]) -> Check:
    """The number of tool calls.

    Args:
        at_least: The least that passes.
        at_most: The most that passes.
        exactly: The only count that passes.

    Fails as: too_few, too_many
    Advice: Make {bounds} tool calls.
    Negated: Make {unbounded} tool calls.

    >>> tool_call_count(exactly=1).name
    'tool_call_count(exactly=1)'
    """
    low, high, wish = parse_limits("tool_call_count", **limits)

    def check(output: JudgedOutput) -> Verdict:
        count = len(completion_of(output, "tool_call_count").tool_calls)
        return verdict_on_count(count, low, high, f"{plural(count, 'tool call')}, {wish} wanted")

    return check


@rule(about="format")
def never_calls(*names: Name) -> Check:
    """The model called none of these tools.

    Args:
        names: The tools.

    Fails as: forbidden_tool
    Advice: Never call the tool{names:s} {names:code}.
    Negated: Call the tool {names:or}.

    >>> never_calls("delete", "drop").name
    'never_calls(delete, drop)'
    """
    if not names:
        raise UsageError("never_calls: name at least one tool")

    def check(output: JudgedOutput) -> Verdict:
        called_names = [call.name for call in completion_of(output, "never_calls").tool_calls]
        forbidden = sorted({name for name in called_names if name in names})
        if forbidden:
            return failed(
                f"called {quote_list(forbidden)}", code="forbidden_tool", actual=called_names
            )
        return passed(
            f"called {quote_list(sorted(set(called_names))) or 'no tool'}", actual=called_names
        )

    return check


@rule(version=2, opposite="use `never_calls` for tools that must not be called", about="format")
def tools_called(*names: Name, at_least: Share = 1.0) -> Check:
    """The model called these tools and no others, in any order and number.

    The score is F1 of the names. To forbid tools, use `never_calls`; this rule has no negation.

    Args:
        names: The tools.
        at_least: The least that passes.

    Fails as: wrong_tools
    Advice: Call the tool{names:s} {names:code} and no others.

    >>> tools_called("search", "fetch").name
    'tools_called(search, fetch)'
    """
    if not names:
        raise UsageError("tools_called: name at least one tool")
    expected_names = set(names)

    def check(output: JudgedOutput) -> Verdict:
        called_names = {call.name for call in completion_of(output, "tools_called").tool_calls}
        score = 2 * len(called_names & expected_names) / (len(called_names) + len(expected_names))
        return graded(
            score,
            at_least=at_least,
            reason=f"called {quote_list(sorted(called_names)) or 'no tool'},"
            f" {quote_list(sorted(expected_names))} wanted",
            code="wrong_tools",
            expected=sorted(expected_names),
            actual=sorted(called_names),
        )

    return check


@rule(version=3, about="format")
def tool_calls_match(tools: Sequence[Mapping[str, JSON]]) -> Check:
    """The model called known tools, with arguments that satisfy their schemas.

    Args:
        tools: The tools, as sent to the model.

    Fails as: no_tool_call, unknown_tool, json_invalid, schema
    Advice: Call a tool, only those you are given, with arguments that satisfy their schemas.

    >>> weather = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    >>> tool_calls_match([weather]).name
    'tool_calls_match([{…}])'
    """
    if not tools:
        fix = "for a completion without calls, use tool_call_count(exactly=0)"
        raise UsageError("tool_calls_match: name at least one tool", fix=fix)
    validators: dict[str, Any] = {}
    for tool in tools:
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str):
            raise UsageError(f"tool_calls_match: a tool without a name: {json.dumps(tool)[:200]}")
        schemas = (function.get(key) for key in ("parameters", "input_schema", "inputSchema"))
        parameters = cast("JSON", next(filter(None, schemas), dict[str, object]()))
        validators[name] = schema_validator(parameters, formats=True, kind="tool_calls_match")

    def check(output: JudgedOutput) -> Verdict:
        calls = completion_of(output, "tool_calls_match").tool_calls
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
        names = quote_list(sorted(validators)) or "none"
        return failed(f"no tool {quote(call.name)}; there are {names}", code="unknown_tool")
    arguments = parse_json(call.arguments)
    if isinstance(arguments, JsonProblem):
        return failed(
            f"the arguments of {call.name} are not JSON: {arguments.message}", code="json_invalid"
        )
    verdict = schema_verdict(validators[call.name], arguments)
    if verdict.outcome == "pass":
        return verdict
    return failed(f"{call.name}: {verdict.reason}", code="schema", actual=verdict.actual)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A tool call that a rule expects.

    Attributes:
        args: The required arguments; None for any.
        exact: Other arguments are forbidden.
    """

    name: str
    args: Mapping[str, JSON] | None
    exact: bool = False

    def mismatch(self, call: ToolCall) -> str:
        """The difference of a call; empty for a match."""
        if call.name != self.name:
            return f"is {quote(call.name)}"
        if self.args is None:
            return ""
        arguments = parse_json(call.arguments or "{}")
        if isinstance(arguments, JsonProblem):
            return f"has arguments that are not JSON: {arguments.message}"
        parts = JsonComparison(extra="none" if self.exact else "keys").parts(self.args, arguments)
        problems = [f"{part.path} {part.problem}" for part in parts if part.problem]
        return "; ".join(problems[:3])

    def __str__(self) -> str:
        if self.args is None:
            return self.name
        return f"{self.name}({quote(json.dumps(self.args, ensure_ascii=False))[1:-1]})"


def _expected_call(kind: str, value: object) -> ExpectedCall:
    """Parse a declared call: a name, or a mapping with `name`, `args` and `exact`.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(value, str) and value:
        return ExpectedCall(name=value, args=None)
    table = mapping_of(value)
    name, args, exact = table.get("name"), table.get("args"), table.get("exact", False)
    sound = table.keys() <= {"name", "args", "exact"} and isinstance(args, Mapping | None)
    if not sound or not isinstance(name, str) or not name or not isinstance(exact, bool):
        raise UsageError(
            f"{kind}: a call is the name of a tool, or a mapping with name, args and exact,"
            f" not {value!r}"
        )
    if exact and args is None:
        raise UsageError(f"{kind}: `exact` without args\n  fix: add `args`")
    return ExpectedCall(name=name, args=args, exact=exact)


def _describe_calls(calls: Sequence[ToolCall]) -> str:
    return quote_list([call.name for call in calls]) or "no tool"


def _evidence(calls: Sequence[ToolCall]) -> JSON:
    return truncate_value([{"name": call.name, "arguments": call.arguments} for call in calls[:20]])


@rule(about="format")
def calls(
    name: Name,
    args: Mapping[str, JSON] | None = None,
    *,
    at_least: Whole = 1,
    at_most: Whole | None = None,
    exact: bool = False,
) -> Check:
    """The model called a tool, with these arguments.

    In a conversation, the calls of all turns count.

    Args:
        name: The tool.
        args: Arguments that the call must have; further ones are allowed, in objects too.
        at_least: The least that passes.
        at_most: The most that passes.
        exact: The arguments must be equal, without further ones.

    Fails as: too_few, too_many
    Advice: Call the tool {name:code}. | In its arguments, {args:args}.

    >>> calls("get_weather", args={"city": "Berlin"}, at_most=2).name
    'calls(get_weather, {…}, at_most=2)'
    """
    expected = _expected_call("calls", {"name": name, "args": args, "exact": exact})
    if at_most == 0:
        fix = f"use never_calls({name!r}), or ~calls(...) with args"
        raise UsageError("calls: at most 0 calls", fix=fix)
    low, high, wish = parse_limits("calls", at_least=at_least, at_most=at_most)

    def check(output: JudgedOutput) -> Verdict:
        tool_calls = completion_of(output, "calls").tool_calls
        mismatches = [(call, expected.mismatch(call)) for call in tool_calls]
        count = sum(1 for _, mismatch in mismatches if not mismatch)
        reason = f"{plural(count, f'call of {expected}', f'calls of {expected}')}, {wish} wanted"
        if low is not None and count < low:
            near = [problem for call, problem in mismatches if problem and call.name == name]
            detail = f": {near[-1]}" if near else f": called {_describe_calls(tool_calls)}"
            return failed(
                reason + detail, code="too_few", score=count / low, actual=_evidence(tool_calls)
            )
        if high is not None and count > high:
            return failed(reason, code="too_many", score=high / count, actual=_evidence(tool_calls))
        return passed(reason, actual=count)

    return check


@rule(about="format")
def calls_in_order(*calls: str | Mapping[str, JSON]) -> Check:
    """The model made these calls in this order; others may come between them.

    Args:
        calls: A tool's name, or a mapping with `name`, `args` and `exact`.

    Fails as: missing_call, wrong_order
    Advice: Make these tool calls in this order: {calls:calls}.
    Negated: Do not make these tool calls in this order: {calls:calls}.

    >>> calls_in_order("search", {"name": "refund", "args": {"id": 7}}).name
    'calls_in_order(search, {…})'
    """
    expected = [_expected_call("calls_in_order", call) for call in calls]
    if not expected:
        raise UsageError("calls_in_order: name at least one call")

    def check(output: JudgedOutput) -> Verdict:
        tool_calls = completion_of(output, "calls_in_order").tool_calls
        place = 0
        for call in tool_calls:
            if place < len(expected) and not expected[place].mismatch(call):
                place += 1
        if place == len(expected):
            return passed(f"called {_describe_calls(tool_calls)}")
        missing = expected[place]
        elsewhere = any(not missing.mismatch(call) for call in tool_calls)
        after = f" after {expected[place - 1]}" if place else ""
        return failed(
            f"no call of {missing}{after}; called {_describe_calls(tool_calls)}",
            code="wrong_order" if elsewhere else "missing_call",
            score=place / len(expected),
            expected=[str(call) for call in expected],
            actual=_evidence(tool_calls),
        )

    return check


@rule(about="format")
def calls_exactly(calls: Sequence[str | Mapping[str, JSON]], *, ordered: bool = True) -> Check:
    """The model made these calls and no others, each as often as listed.

    Args:
        calls: The calls, as in `calls_in_order`; an empty list means no calls.
        ordered: They must come in this order.

    Fails as: missing_call, unexpected_call, wrong_order
    Advice: Make these tool calls and no others: {calls:calls}.
    Negated: Do not make exactly these tool calls: {calls:calls}.

    >>> calls_exactly(["search", "search", "refund"]).name
    'calls_exactly([search, search, refund])'
    """
    if isinstance(calls, (str, Mapping)):
        raise UsageError(f"calls_exactly: name the calls as a list, not {calls!r}")
    expected = [_expected_call("calls_exactly", call) for call in calls]

    def check(output: JudgedOutput) -> Verdict:
        tool_calls = completion_of(output, "calls_exactly").tool_calls
        matches = [
            [not expected_call.mismatch(call) for call in tool_calls] for expected_call in expected
        ]
        pairs = match_pairs(matches)
        missing = [
            expected_call for place, expected_call in enumerate(expected) if place not in pairs
        ]
        matched = set(pairs.values())
        further = [call for place, call in enumerate(tool_calls) if place not in matched]
        score = (
            2 * len(pairs) / (len(expected) + len(tool_calls)) if expected or tool_calls else 1.0
        )
        in_order = len(tool_calls) == len(expected) and all(
            matches[place][place] for place in range(len(expected))
        )
        if not missing and not further and (in_order or not ordered):
            return passed(f"called {_describe_calls(tool_calls)}")
        if missing:
            near = [missing[0].mismatch(call) for call in further if call.name == missing[0].name]
            code, reason = "missing_call", f"no call of {missing[0]}"
            reason += f": {near[0]}" if near else ""
        elif further:
            code, reason = "unexpected_call", f"{quote(further[0].name)} was not expected"
        else:
            code, reason = "wrong_order", "the order differs"
            score = sum(matches[n][n] for n in range(len(expected))) / len(expected)
        return failed(
            f"{reason}; called {_describe_calls(tool_calls)}",
            code=code,
            score=score,
            expected=[str(call) for call in expected],
            actual=_evidence(tool_calls),
        )

    return check


@rule(about="format")
def max_steps(n: Place) -> Check:
    """The conversation took at most n steps: messages of the model, with or without calls.

    Args:
        n: The largest number that passes.

    Fails as: too_many
    Advice: Finish within {n} steps.
    Negated: Take more than {n} steps.

    >>> max_steps(6).name
    'max_steps(6)'
    """

    def check(output: JudgedOutput) -> Verdict:
        from regauge.providers import Conversation

        steps = Conversation(completion_of(output, "max_steps")).steps
        return _at_most(steps, n, f"{plural(steps, 'step')}, at most {n} wanted", "too_many")

    return check
