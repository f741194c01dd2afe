"""`JudgedOutput`: one completion as the rules see it, parsed at most once."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._types import Verdict, failed, listed, quote
from regauge.strict_json import refuse_constant, unique

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.providers import Completion


# How many characters of failed attempts are read before what is left counts as prose.
FAILED_CHARS_MAX = 1_000_000

# An attempt costs as much as reading this many characters, whatever its length; one that ends in a
# RecursionError costs as much as this many. Larger numbers end the search earlier.
ATTEMPT_CHARS = 50
_TOO_DEEP_CHARS = 50_000


class JsonFault:
    """The reason why a text is not JSON.

    Attributes:
        message: What is wrong and where, on one line.
    """

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message


def parse_integer(digits: str) -> float:
    """An integer; one of more digits than Python reads is beyond the range of a float, too."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_decoder = json.JSONDecoder(
    parse_constant=refuse_constant, parse_int=parse_integer, object_pairs_hook=unique
)


def parse_json(text: str) -> JSON | JsonFault:
    """Parse a text that must be one JSON value and nothing else.

    `NaN`, infinities, comments, a byte order mark, a second value and a key that is given twice are
    errors.

    >>> parse_json('{"a": 1}')
    {'a': 1}
    """
    try:
        value: JSON = _decoder.decode(text)
    except json.JSONDecodeError as fault:
        return JsonFault(f"{fault.msg} at line {fault.lineno}, column {fault.colno}")
    except RecursionError:
        return JsonFault("nested too deeply")
    except ValueError as fault:
        return JsonFault(str(fault).partition(";")[0])
    return value


def find_json(text: str) -> Iterator[JSON]:
    """The objects and arrays that stand in a text, outermost ones, in order.

    >>> list(find_json('Sure! {"a": [1]} and [2]'))
    [{'a': [1]}, [2]]
    """
    at, failed_chars = 0, 0
    while failed_chars < FAILED_CHARS_MAX:
        begins = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
        if not begins:
            return
        start = min(begins)
        try:
            value, at = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as fault:
            failed_chars += fault.pos - start + ATTEMPT_CHARS
            at = start + 1
        except (ValueError, RecursionError):
            failed_chars += _TOO_DEEP_CHARS
            at = start + 1
        else:
            yield value


def kind_of(value: JSON) -> str:
    """The JSON type of a value, as JSON Schema names it.

    >>> kind_of(True), kind_of(1.5), kind_of(None)
    ('boolean', 'number', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def same(left: JSON, right: JSON) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0, but true is not 1.

    >>> same({"a": 1}, {"a": 1.0}), same(True, 1)
    (True, False)
    """
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


Steps = tuple[str | int, ...]

_STEP = re.compile(r"""(?:^|\.)([^.\[\]"']+)|\[(-?\d+)\]|\[("[^"]*"|'[^']*')\]""")


class MissingValue:
    """The type of `MISSING`: there is no such value, which is not the same as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "…"


MISSING: Final = MissingValue()


def parse_path(path: str) -> Steps:
    """Read a path; the empty path is the whole value.

    Raises:
        UsageError: The path is not of the form `a.b[0]["c.d"]`.

    >>> parse_path("steps[0].command")
    ('steps', 0, 'command')
    """
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise UsageError(
                f"not a path into JSON: {path!r}, at {path[at:]!r}\n"
                '  write it like severity, steps[0].command or labels["app.name"]'
            )
        name, index, quoted = step.groups()
        steps.append(name if name is not None else int(index) if index else quoted[1:-1])
        at = step.end()
    return tuple(steps)


def value_at(value: JSON, steps: Steps) -> JSON | MissingValue:
    """The value at a path, or `MISSING`.

    >>> value_at({"a": [{"b": 1}]}, parse_path("a[0].b"))
    1
    """
    for step in steps:
        if isinstance(value, Mapping):
            if step not in value:
                return MISSING
            value = value[str(step)]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if not isinstance(step, int) or not -len(value) <= step < len(value):
                return MISSING
            value = value[step]
        else:
            return MISSING
    return value


READING = 3
"""Version of how outputs are read (`normalise`, JSON), in the digest of every rule."""


def normalise(text: str) -> str:
    r"""A text as rules compare it: line ends are `\n`, characters are composed (NFC).

    >>> normalise("cafe\u0301\r\n") == "caf\xe9\n"
    True
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def map_leaves(value: object, change: Callable[[object], object]) -> object:
    """A value of the same form, with every value in it that is no list and no mapping changed."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {map_leaves(key, change): map_leaves(part, change) for key, part in pairs}
    if isinstance(value, list | tuple):
        parts = [map_leaves(part, change) for part in cast("Sequence[object]", value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    return change(value)


def normalise_value(value: object) -> object:
    """A value with all its texts normalised; one that is nested too deeply stays as it is."""
    try:
        return map_leaves(value, lambda part: normalise(part) if isinstance(part, str) else part)
    except RecursionError:
        return value


@dataclass(frozen=True, slots=True)
class Expected:
    """A value that each golden case brings itself, at `path` of its `expected`."""

    path: str = ""

    def __post_init__(self) -> None:
        parse_path(self.path)

    def __str__(self) -> str:
        return f"expected.{self.path}" if self.path else "expected"

    def __repr__(self) -> str:
        return f"expected({self.path!r})" if self.path else "expected()"


def expected(path: str = "") -> Expected:
    """Stand in for a value of the case's `expected`, in any rule that compares with a value.

    Args:
        path: Which part of `expected`; empty for the whole of it.

    Raises:
        UsageError: The path cannot be read.
    """
    return Expected(path)


class JudgedOutput:
    """One completion of one case, as rules see it.

    Judges of one completion share one `JudgedOutput`, so its JSON is parsed once.

    Attributes:
        text: The output, normalised; None when there is none.
        completion: The whole completion; None when only a text is judged.
        case: The golden case; None when only a text is judged.
    """

    __slots__ = ("_expected", "_inputs", "_json", "case", "completion", "text")

    def __init__(
        self,
        text: str | None,
        *,
        completion: Completion | None = None,
        case: GoldenCase | None = None,
        inputs: Mapping[str, JSON] | None = None,
        expected: JSON | MissingValue = MISSING,
    ) -> None:
        self.text = None if text is None else normalise(text)
        self.completion = completion
        self.case = case
        self._inputs = inputs
        self._expected = expected
        self._json: JSON | JsonFault | MissingValue = MISSING

    @classmethod
    def from_completion(cls, completion: Completion, case: GoldenCase) -> JudgedOutput:
        """The answer a completion gives to a case."""
        return cls(completion.text, completion=completion, case=case)

    @property
    def json(self) -> JSON | JsonFault:
        """The text as JSON, or why it is none; parsed on first use."""
        read = self._json
        if isinstance(read, MissingValue):
            text = self.text or ""
            read = parse_json(text)
            # Without escapes, a normalised text of ASCII holds no text that is to be normalised.
            if not text.isascii() or "\\" in text:
                read = cast("JSON | JsonFault", normalise_value(read))
            self._json = read
        return read

    @property
    def inputs(self) -> Mapping[str, JSON]:
        """The inputs of the prompt, normalised."""
        known_inputs = self.case.inputs if self.case is not None else self._inputs or {}
        return cast("Mapping[str, JSON]", normalise_value(dict(known_inputs)))

    def expected_at(self, steps: Steps) -> JSON | MissingValue:
        """The case's expected value at a path."""
        whole = self.case.expected if self.case is not None else self._expected
        if isinstance(whole, MissingValue):
            return MISSING
        return cast("JSON | MissingValue", normalise_value(value_at(whole, steps)))

    def resolve(self, value: JSON | Expected, *, judge: str) -> JSON:
        """A parameter of a rule, looked up in the case where it says so.

        Raises:
            JudgeError: The case has no such expected value.
        """
        if not isinstance(value, Expected):
            return value
        value_there = self.expected_at(parse_path(value.path))
        if isinstance(value_there, MissingValue):
            raise self.lacks(str(value), judge=judge)
        return value_there

    def resolve_text(self, value: JSON | Expected, *, judge: str) -> str:
        """A parameter of a rule that is a text, looked up in the case where it says so.

        Raises:
            JudgeError: The case has none, or it is not a text.
        """
        text = self.resolve(value, judge=judge)
        if text is None:
            raise self.lacks(str(value), judge=judge)
        if not isinstance(text, str):
            raise JudgeError(f"{judge}: {value} is not a text: {quote(str(text))}", judge=judge)
        return text

    def lacks(self, what: str, *, judge: str) -> JudgeError:
        """The error of a case that does not say what a judge needs to know."""
        if self.case is None:
            return JudgeError(f"{judge}: nothing was given as {what}", judge=judge)
        return JudgeError(
            f"{judge}: case {self.case.id!r} has no {what} ({self.case.location})\n"
            "  add it to the case, or name another path in the judge",
            judge=judge,
        )

    def nothing(self) -> Verdict:
        """The verdict on an answer without text."""
        completion = self.completion
        if completion is not None and completion.refusal:
            return failed(f"the model refused: {quote(completion.refusal)}", code="refused")
        why = "" if completion is None else f" (finish_reason {completion.finish_reason})"
        return failed(f"the answer has no text{why}", code="no_text")

    def value_at(self, path: str, steps: Steps) -> JSON | Verdict:
        """The value at a path of the answer, or why there is none."""
        if self.text is None:
            return self.nothing()
        whole = self.json
        if isinstance(whole, JsonFault):
            return failed(
                f"no field {path!r}, for the answer is not JSON: {whole.message}",
                code="json_invalid",
                actual=self.text[:200],
            )
        value = value_at(whole, steps)
        if isinstance(value, MissingValue):
            keys = f"; the answer has {listed(sorted(whole))}" if isinstance(whole, dict) else ""
            return failed(f"no field {path!r}{keys}", code="missing_field", details={"field": path})
        return value

    def at(self, path: str, steps: Steps) -> JudgedOutput | Verdict:
        """The part of the answer at a path, as an answer of its own, or why there is none."""
        value = self.value_at(path, steps)
        if isinstance(value, Verdict):
            return value
        if isinstance(value, str):
            return self.part(value)
        part = self.part(None if value is None else json.dumps(value, ensure_ascii=False))
        part._json = value  # noqa: SLF001 - a JudgedOutput fills another
        return part

    def part(self, text: str | None) -> JudgedOutput:
        """A part of this answer, as an answer of its own to the same case."""
        return JudgedOutput(
            text,
            completion=self.completion,
            case=self.case,
            inputs=self._inputs,
            expected=self._expected,
        )
