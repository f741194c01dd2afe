"""`Judge` and `Verdict`, and how a reason quotes text and values: short, on one line, escaped."""

from __future__ import annotations

import json
import math
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, cast

from regauge.digests import JSON
from regauge.errors import JudgeError

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.providers import Completion


_QUOTE_CHARS = 80
_SHOWN_CHARS = 2_000


def quote(text: str, limit: int = _QUOTE_CHARS) -> str:
    r"""Text in quotes; long text loses its middle, control characters become escapes.

    >>> quote("one\ntwo")
    "'one\\ntwo'"
    """
    if len(text) > limit:
        head = limit * 2 // 3
        text = f"{text[:head]} … {text[head - limit :]}"
    return repr(text)


def around(text: str, start: int, end: int, margin: int = 20) -> str:
    """The part of a text that decided, quoted with what stands around it."""
    begin, stop = max(0, start - margin), min(len(text), max(end, start) + margin)
    before, after = ("…" if begin else ""), ("…" if stop < len(text) else "")
    return quote(f"{before}{text[begin:stop]}{after}", 120)


def shown(value: JSON) -> JSON:
    """A value as a verdict may carry it: cut where it is long, and always writable as JSON."""
    if isinstance(value, str):
        return value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "…"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (Mapping, Sequence)):
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return "a value that JSON cannot hold"
        return value if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
    return value


def number(value: float) -> str:
    """A number without a tail of zeros.

    >>> number(0.5), number(3.0)
    ('0.5', '3')
    """
    return f"{value:.4f}".rstrip("0").rstrip(".")


def listed(values: Sequence[JSON], limit: int = 6) -> str:
    """Values in quotes with commas, the rest counted."""
    head = ", ".join(
        quote(value) if isinstance(value, str) else quote(json.dumps(value, default=str))[1:-1]
        for value in values[:limit]
    )
    return head + (f" and {len(values) - limit} more" if len(values) > limit else "")


def value_text(value: JSON) -> str:
    """A value as a reason quotes it: a text as it is, anything else as JSON.

    >>> value_text("info"), value_text([1, None])
    ("'info'", "'[1, null]'")
    """
    return quote(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


Outcome = Literal["pass", "fail", "abstain"]

NO_ANSWER = frozenset({"no_text", "refused", "threw", "no_result"})
"""Codes of failures without an opinion on the output; a negation leaves such a verdict as it is."""

_OUTCOMES = frozenset({"pass", "fail", "abstain"})
_NOTHING: Mapping[str, JSON] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of one judge on one completion.

    Attributes:
        outcome: An `abstain` counts nowhere.
        score: Between 0 (worst) and 1 (best).
        reason: One line, with the evidence quoted.
        expected: The wanted value, if it can be shown.
        actual: The value that was judged.
        cost_usd: In US dollars; 0 for rules.
        details: For programs. Rules state `code`: `ok`, or a stable failure code such as
            `too_long`.
    """

    outcome: Outcome
    score: float
    reason: str
    expected: JSON = None
    actual: JSON = None
    cost_usd: float = 0.0
    details: Mapping[str, JSON] = field(default_factory=dict[str, JSON])

    def __post_init__(self) -> None:
        """Refuse values that cannot be counted or written.

        Raises:
            ValueError: One of them.
        """
        # Callers without types may give anything.
        score, cost, reason = cast("tuple[object, ...]", (self.score, self.cost_usd, self.reason))
        if self.outcome not in _OUTCOMES:
            problem = f"the outcome is {self.outcome!r}, not 'pass', 'fail' or 'abstain'"
        elif not isinstance(score, int | float) or not 0 <= score <= 1:  # NaN is not
            problem = f"the score is {self.score!r}, not a number from 0 to 1"
        elif not isinstance(reason, str):
            problem = f"the reason is {self.reason!r}, not a text"
        elif not isinstance(cost, int | float) or not 0 <= cost < math.inf:
            problem = f"the cost is {self.cost_usd!r}, not an amount in US dollars"
        else:
            return
        raise ValueError(problem)

    @property
    def code(self) -> str:
        """The `code` of `details`; empty without one."""
        code = self.details.get("code", "")
        return code if isinstance(code, str) else ""

    def __str__(self) -> str:
        share = f" ({self.score:.2f})" if 0 < self.score < 1 else ""
        return f"{self.outcome}{share}: {self.reason}"


class Judge(Protocol):
    """Anything that can judge a completion; implement it, do not subclass it."""

    @property
    def name(self) -> str:
        """The name for users: short, unique among the judges of one eval."""
        ...

    @property
    def digest(self) -> str:
        """Changes whenever the judge may judge differently."""
        ...

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge one completion of one case.

        Raises:
            JudgeError: No verdict could be reached; that is neither a pass nor a fail.
        """
        ...


_OK: Mapping[str, JSON] = MappingProxyType({"code": "ok"})


def passed(
    reason: str, *, score: float = 1.0, expected: JSON = None, actual: JSON = None
) -> Verdict:
    """A verdict that passes."""
    return Verdict(
        outcome="pass",
        score=score,
        reason=reason,
        expected=shown(expected),
        actual=shown(actual),
        details=_OK,
    )


def failed(
    reason: str,
    *,
    code: str,
    score: float = 0.0,
    expected: JSON = None,
    actual: JSON = None,
    details: Mapping[str, JSON] = _NOTHING,
) -> Verdict:
    """A verdict that fails, for the stable reason `code`."""
    return Verdict(
        outcome="fail",
        score=score,
        reason=reason,
        expected=shown(expected),
        actual=shown(actual),
        details={"code": code, **details},
    )


def graded(
    score: float,
    *,
    at_least: float,
    reason: str,
    code: str,
    expected: JSON = None,
    actual: JSON = None,
) -> Verdict:
    """A verdict that passes when a score, held within [0, 1], reaches a threshold."""
    held = min(1.0, max(0.0, score))
    if held >= at_least:
        return passed(reason, score=held, expected=expected, actual=actual)
    return failed(reason, code=code, score=held, expected=expected, actual=actual)


def abstained(reason: str, *, code: str) -> Verdict:
    """A verdict without an opinion."""
    return Verdict(outcome="abstain", score=0.0, reason=reason, details={"code": code})


# They raise for the code of a user: `pytest.skip`, a bad `Verdict`, the `__init__` of a dataclass.
_ELSEWHERE = (
    str(Path("_pytest", "outcomes.py")),
    str(Path("regauge", "judges", "_types.py")),
    "<string>",
)
_OURS = str(Path(__file__).parents[1])


def broken_judge(text: str, error: BaseException, *, judge: str) -> JudgeError:
    """The error of a judge that raised, with its line and its traceback.

    Args:
        text: What raised, in a line.
        error: What it raised.
        judge: The name of the judge.
    """
    raised = traceback.extract_tb(error.__traceback__)
    # The frames of regauge are above those of the judge.
    first = next((n for n, one in enumerate(raised) if not one.filename.startswith(_OURS)), 0)
    frames = raised[first:]
    own = [frame for frame in frames if not frame.filename.endswith(_ELSEWHERE)] or frames
    libraries = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
    place = ([one for one in own if not one.filename.startswith(libraries)] or own)[-1:]
    at = "".join(f"\n  at {one.filename}:{one.lineno}: {one.line}".rstrip(" :") for one in place)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    lines += traceback.format_exception_only(error)
    return JudgeError(f"{text}{at}", judge=judge, traceback="".join(lines).rstrip())
