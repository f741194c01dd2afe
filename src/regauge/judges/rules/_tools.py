"""The tools that the model called, with their arguments and in their order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from regauge.errors import UsageError
from regauge.judges._evidence import listed, quote, shown
from regauge.judges._json_text import JsonFault, parse_json
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._counts import bounds
from regauge.judges.rules._facts import completion_of
from regauge.judges.rules._json_like import Comparison, match_pairs
from regauge.wording import plural

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.judges._answer import Answer
    from regauge.judges._rule import Check
    from regauge.providers import ToolCall

__all__ = ["calls", "calls_exactly", "calls_in_order"]

_ARGUMENTS = Comparison()


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCall:
    """A call that a rule looks for.

    Attributes:
        args: Arguments that it must have; None for any.
    """

    name: str
    args: Mapping[str, JSON] | None

    def mismatch(self, call: ToolCall) -> str:
        """The difference of a call; empty for one that fits."""
        if call.name != self.name:
            return f"is {quote(call.name)}"
        if self.args is None:
            return ""
        arguments = parse_json(call.arguments or "{}")
        if isinstance(arguments, JsonFault):
            return f"has arguments that are not JSON: {arguments.message}"
        problems = [
            f"{part.path} {part.problem}"
            for part in _ARGUMENTS.parts(self.args, arguments)
            if part.problem
        ]
        return "; ".join(problems[:3])

    def __str__(self) -> str:
        if self.args is None:
            return self.name
        return f"{self.name}({quote(json.dumps(self.args, ensure_ascii=False))[1:-1]})"


def _wanted_call(kind: str, value: object) -> WantedCall:
    """A call as an author declares it: a name, or a mapping with `name` and `args`.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(value, str) and value:
        return WantedCall(name=value, args=None)
    if isinstance(value, Mapping):
        given = cast("Mapping[str, object]", value)
        name, args = given.get("name"), given.get("args")
        known = set(given) <= {"name", "args"}
        if known and isinstance(name, str) and name and (args is None or isinstance(args, Mapping)):
            return WantedCall(name=name, args=cast("Mapping[str, JSON] | None", args))
    raise UsageError(
        f"{kind}: a call is the name of a tool, or a mapping with name and args, not {value!r}"
    )


def _called(calls: Sequence[ToolCall]) -> str:
    return listed([call.name for call in calls]) or "no tool"


def _evidence(calls: Sequence[ToolCall]) -> JSON:
    return shown([{"name": call.name, "arguments": call.arguments} for call in calls[:20]])


@rule(codes=("too_few", "too_many"))
def calls(
    name: str,
    args: Mapping[str, JSON] | None = None,
    *,
    at_least: int = 1,
    at_most: int | None = None,
) -> Check:
    """The model called a tool, with these arguments.

    Args:
        name: The tool.
        args: Arguments that the call must have; it may have others, and so may objects in them.
        at_least: The least number of such calls.
        at_most: The largest number of such calls; unlimited by default.

    >>> calls("get_weather", args={"city": "Berlin"}, at_most=2).name
    'calls(get_weather, {…}, at_most=2)'
    """
    wanted = _wanted_call("calls", {"name": name, "args": args})
    if at_most == 0:
        raise UsageError(
            f"calls: at most 0 calls\n  fix: use never_calls({name!r}), or ~calls(...) with args"
        )
    low, high, wish = bounds("calls", at_least=at_least, at_most=at_most, exactly=None)

    def check(answer: Answer) -> Verdict:
        made = completion_of(answer, "calls").tool_calls
        mismatches = [(call, wanted.mismatch(call)) for call in made]
        count = sum(1 for _, mismatch in mismatches if not mismatch)
        reason = f"{plural(count, f'call of {wanted}', f'calls of {wanted}')}, {wish} wanted"
        if low is not None and count < low:
            near = [problem for call, problem in mismatches if problem and call.name == name]
            why = f": {near[-1]}" if near else f": called {_called(made)}"
            return failed(reason + why, code="too_few", score=count / low, actual=_evidence(made))
        if high is not None and count > high:
            return failed(reason, code="too_many", score=high / count, actual=_evidence(made))
        return passed(reason, actual=count)

    return check


@rule(codes=("missing_call", "wrong_order"))
def calls_in_order(*calls: str | Mapping[str, JSON]) -> Check:
    """The model made these calls in this order; other calls may come between them.

    Args:
        calls: Each is the name of a tool, or a mapping with `name` and `args`, as in
            {ref}`calls <judge-calls>`.

    >>> calls_in_order("search", {"name": "refund", "args": {"id": 7}}).name
    'calls_in_order(search, {…})'
    """
    wanted = [_wanted_call("calls_in_order", call) for call in calls]
    if not wanted:
        raise UsageError("calls_in_order: name at least one call")

    def check(answer: Answer) -> Verdict:
        made = completion_of(answer, "calls_in_order").tool_calls
        place = 0
        for call in made:
            if place < len(wanted) and not wanted[place].mismatch(call):
                place += 1
        if place == len(wanted):
            return passed(f"called {_called(made)}")
        missing = wanted[place]
        elsewhere = any(not missing.mismatch(call) for call in made)
        after = f" after {wanted[place - 1]}" if place else ""
        return failed(
            f"no call of {missing}{after}; called {_called(made)}",
            code="wrong_order" if elsewhere else "missing_call",
            score=place / len(wanted),
            expected=[str(call) for call in wanted],
            actual=_evidence(made),
        )

    return check


@rule(codes=("missing_call", "unexpected_call", "wrong_order"))
def calls_exactly(calls: Sequence[str | Mapping[str, JSON]], *, ordered: bool = True) -> Check:
    """The model made these calls and no others, each as often as it is listed.

    Args:
        calls: Each is the name of a tool, or a mapping with `name` and `args`, as in
            {ref}`calls <judge-calls>`. An empty list stands for no call at all.
        ordered: They must come in this order.

    >>> calls_exactly(["search", "search", "refund"]).name
    'calls_exactly([search, search, refund])'
    """
    if isinstance(calls, (str, Mapping)):
        raise UsageError(f"calls_exactly: name the calls as a list, not {calls!r}")
    wanted = [_wanted_call("calls_exactly", call) for call in calls]

    def check(answer: Answer) -> Verdict:
        made = completion_of(answer, "calls_exactly").tool_calls
        fits = [[not want.mismatch(call) for call in made] for want in wanted]
        pairs = match_pairs(fits)
        missing = [want for place, want in enumerate(wanted) if place not in pairs]
        taken = set(pairs.values())
        further = [call for place, call in enumerate(made) if place not in taken]
        score = 2 * len(pairs) / (len(wanted) + len(made)) if wanted or made else 1.0
        in_order = len(made) == len(wanted) and all(
            fits[place][place] for place in range(len(wanted))
        )
        if not missing and not further and (in_order or not ordered):
            return passed(f"called {_called(made)}")
        if missing:
            near = [missing[0].mismatch(call) for call in further if call.name == missing[0].name]
            code, reason = "missing_call", f"no call of {missing[0]}"
            reason += f": {near[0]}" if near else ""
        elif further:
            code, reason = "unexpected_call", f"{quote(further[0].name)} was not expected"
        else:
            code, reason = "wrong_order", "the order differs"
            score = sum(fits[n][n] for n in range(len(wanted))) / len(wanted)
        return failed(
            f"{reason}; called {_called(made)}",
            code=code,
            score=score,
            expected=[str(call) for call in wanted],
            actual=_evidence(made),
        )

    return check
