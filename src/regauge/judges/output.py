"""`JudgedOutput`: one completion for the rules, parsed at most once."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from regauge.errors import JudgeError, UsageError
from regauge.judges._types import Verdict, failed, quote_list
from regauge.strict_json import is_sequence, refuse_constant, syntax_problem, unique
from regauge.wording import quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.providers import Completion


# The characters of failed attempts; the rest of a text then counts as prose.
FAILED_CHARS_MAX = 1_000_000

# The cost of an attempt in characters, and of one that ends in a RecursionError. Larger numbers end
# the search earlier.
ATTEMPT_CHARS = 50
_TOO_DEEP_CHARS = 50_000


@dataclass(frozen=True, slots=True)
class JsonProblem:
    """The reason why a text is not JSON.

    Attributes:
        message: The problem and its place, on one line.
    """

    message: str


def parse_integer(digits: str) -> float:
    """Parse an integer; one with more digits than Python reads becomes an infinite float."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


decoder: Final = json.JSONDecoder(
    parse_constant=refuse_constant, parse_int=parse_integer, object_pairs_hook=unique
)


def parse_json(text: str) -> JSON | JsonProblem:
    """Parse a text that must be exactly one JSON value.

    `NaN`, infinities, comments, a byte order mark, a second value and a duplicate key are errors.

    >>> parse_json('{"a": 1}')
    {'a': 1}
    """
    try:
        value: JSON = decoder.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        return JsonProblem(f"{syntax_problem(error)} at {place}")
    except RecursionError:
        return JsonProblem("nested too deeply")
    except ValueError as error:
        return JsonProblem(str(error).partition(";")[0])
    return value


def find_json(
    text: str, *, begins: str = "{[", decoder: json.JSONDecoder = decoder
) -> Iterator[JSON]:
    """The outermost JSON objects and arrays in a text, in order.

    Args:
        text: The text.
        begins: The characters that begin a value.
        decoder: The decoder of the values.

    >>> list(find_json('Sure! {"a": [1]} and [2]'))
    [{'a': [1]}, [2]]
    """
    position, failed_chars = 0, 0
    while failed_chars < FAILED_CHARS_MAX:
        places = [place for mark in begins if (place := text.find(mark, position)) >= 0]
        if not places:
            return
        start = min(places)
        try:
            value, position = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            failed_chars += error.pos - start + ATTEMPT_CHARS
            position = start + 1
        except (ValueError, RecursionError):
            failed_chars += _TOO_DEEP_CHARS
            position = start + 1
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


def json_equal(left: JSON, right: JSON) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0, but true is not 1.

    >>> json_equal({"a": 1}, {"a": 1.0}), json_equal(True, 1)
    (True, False)
    """
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            json_equal(left[key], right[key]) for key in left
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


Steps = tuple[str | int, ...]

_STEP = re.compile(r"""(?:^|\.)([^.\[\]"']+)|\[(-?\d+)\]|\[("[^"]*"|'[^']*')\]""")


class MissingValue:
    """The type of `MISSING`, the mark of an absent value, unlike null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "…"


MISSING: Final = MissingValue()


def parse_path(path: str) -> Steps:
    """Parse a path; the empty path is the whole value.

    Raises:
        UsageError: The path is not of the form `a.b[0]["c.d"]`.

    >>> parse_path("steps[0].command")
    ('steps', 0, 'command')
    """
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise UsageError(
                f"not a path into JSON: {path!r}, at {path[position:]!r}\n"
                '  write it like severity, steps[0].command or labels["app.name"]'
            )
        name, index, quoted = step.groups()
        steps.append(name if name is not None else int(index) if index else quoted[1:-1])
        position = step.end()
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
        elif is_sequence(value):
            if not isinstance(step, int) or not -len(value) <= step < len(value):
                return MISSING
            value = value[step]
        else:
            return MISSING
    return value


READING_VERSION = 3
"""The version of output parsing (`normalise`, JSON), in the digest of every rule."""


def normalise(text: str) -> str:
    r"""Normalise a text for comparison: line ends are `\n`, characters are composed (NFC).

    >>> normalise("cafe\u0301\r\n") == "caf\xe9\n"
    True
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def map_leaves(value: object, change: Callable[[object], object]) -> object:
    """Change every value in lists and mappings, at any depth.

    Args:
        value: The value.
        change: Called with each value except lists and mappings, for its replacement.
    """
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {map_leaves(key, change): map_leaves(part, change) for key, part in pairs}
    if isinstance(value, list | tuple):
        parts = [map_leaves(part, change) for part in cast("Sequence[object]", value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    return change(value)


def normalise_value(value: object) -> object:
    """Normalise all texts in a value; one that is nested too deeply stays unchanged."""
    try:
        return map_leaves(value, lambda part: normalise(part) if isinstance(part, str) else part)
    except RecursionError:
        return value


@dataclass(frozen=True, slots=True)
class Expected:
    """A placeholder for the value at `path` of each case's `expected`."""

    path: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.path, str):  # pyright: ignore[reportUnnecessaryIsInstance] - of users
            raise UsageError(f"expected({self.path!r}): a path is a text, such as 'severity'")
        parse_path(self.path)

    def __str__(self) -> str:
        return f"expected.{self.path}" if self.path else "expected"

    def __repr__(self) -> str:
        return f"expected({self.path!r})" if self.path else "expected()"


def expected(path: str = "") -> Expected:
    """Use a value of the case's `expected` as a parameter of a rule.

    Args:
        path: The path within `expected`; empty for all of it.

    Raises:
        UsageError: The path is invalid.
    """
    return Expected(path)


class JudgedOutput:
    """One completion of one case, for rules.

    Judges of one completion share one `JudgedOutput`, so its JSON is parsed once.

    Attributes:
        text: The output, normalised; None if there is none.
        completion: The completion; None if only a text is judged.
        case: The golden case; None if only a text is judged.
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
        self._json: JSON | JsonProblem | MissingValue = MISSING

    @classmethod
    def from_completion(cls, completion: Completion, case: GoldenCase) -> JudgedOutput:
        """The output of a completion of a case."""
        return cls(completion.text, completion=completion, case=case)

    @property
    def json(self) -> JSON | JsonProblem:
        """The text as JSON, parsed on first use, or the reason why it is not JSON."""
        read = self._json
        if isinstance(read, MissingValue):
            text = self.text or ""
            read = parse_json(text)
            # The texts in ASCII without escapes are normalised already.
            if not text.isascii() or "\\" in text:
                read = cast("JSON | JsonProblem", normalise_value(read))
            self._json = read
        return read

    @property
    def inputs(self) -> Mapping[str, JSON]:
        """The inputs of the prompt, normalised."""
        raw_inputs = self.case.inputs if self.case is not None else self._inputs or {}
        return cast("Mapping[str, JSON]", normalise_value(dict(raw_inputs)))

    def expected_at(self, steps: Steps) -> JSON | MissingValue:
        """The case's expected value at a path, normalised."""
        case_expected = self.case.expected if self.case is not None else self._expected
        if isinstance(case_expected, MissingValue):
            return MISSING
        return cast("JSON | MissingValue", normalise_value(value_at(case_expected, steps)))

    def resolve(self, value: JSON | Expected, *, judge: str) -> JSON:
        """Resolve a parameter of a rule: a placeholder becomes the value of the case.

        Raises:
            JudgeError: The case has no such expected value.
        """
        if not isinstance(value, Expected):
            return value
        expected_value = self.expected_at(parse_path(value.path))
        if isinstance(expected_value, MissingValue):
            raise self.missing_error(str(value), judge=judge)
        return expected_value

    def resolve_text(self, value: JSON | Expected, *, judge: str) -> str:
        """Resolve a parameter of a rule that is a text.

        Raises:
            JudgeError: The case has no such value, or it is not a text.
        """
        text = self.resolve(value, judge=judge)
        if text is None:
            raise self.missing_error(str(value), judge=judge)
        if not isinstance(text, str):
            raise JudgeError(f"{judge}: {value} is not a text: {quote(str(text))}", judge=judge)
        return text

    def missing_error(self, value_name: str, *, judge: str) -> JudgeError:
        """The error for a case without a value that a judge needs."""
        if self.case is None:
            return JudgeError(f"{judge}: nothing was given as {value_name}", judge=judge)
        return JudgeError(
            f"{judge}: case {self.case.id!r} has no {value_name} ({self.case.location})\n"
            "  add it to the case, or name another path in the judge",
            judge=judge,
        )

    def no_text_verdict(self) -> Verdict:
        """The verdict on an output without text."""
        completion = self.completion
        if completion is not None and completion.refusal:
            return failed(f"the model refused: {quote(completion.refusal)}", code="refused")
        ending = "" if completion is None else f" (finish_reason {completion.finish_reason})"
        return failed(f"the output has no text{ending}", code="no_text")

    def value_at(self, path: str, steps: Steps) -> JSON | Verdict:
        """The value at a path of the output; a failing verdict if there is none."""
        if self.text is None:
            return self.no_text_verdict()
        document = self.json
        if isinstance(document, JsonProblem):
            return failed(
                f"no field {path!r}, for the output is not JSON: {document.message}",
                code="json_invalid",
                actual=self.text[:200],
            )
        value = value_at(document, steps)
        if isinstance(value, MissingValue):
            keys = (
                f"; the output has {quote_list(sorted(document))}"
                if isinstance(document, dict) and document
                else ""
            )
            return failed(f"no field {path!r}{keys}", code="missing_field", details={"field": path})
        return value

    def part_at(self, path: str, steps: Steps) -> JudgedOutput | Verdict:
        """The part of the output at a path; a failing verdict if there is none."""
        value = self.value_at(path, steps)
        if isinstance(value, Verdict):
            return value
        if isinstance(value, str):
            return self.part(value)
        part = self.part(None if value is None else json.dumps(value, ensure_ascii=False))
        part._json = value  # noqa: SLF001 - a JudgedOutput fills another
        return part

    def part(self, text: str | None) -> JudgedOutput:
        """A part of this output, for the same case."""
        return JudgedOutput(
            text,
            completion=self.completion,
            case=self.case,
            inputs=self._inputs,
            expected=self._expected,
        )
