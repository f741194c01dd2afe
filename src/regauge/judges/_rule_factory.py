"""`@rule`: turns a function into a kind of rule.

The function takes the rule's parameters, refuses invalid ones, and returns the check. The decorator
adds the name, the digest and the negation.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
import sys
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import KW_ONLY, dataclass
from inspect import get_annotations
from pathlib import PurePath
from typing import (
    TYPE_CHECKING,
    Final,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypedDict,
    Unpack,
    cast,
    get_args,
    get_origin,
)

from regauge.digests import digest_of
from regauge.errors import JudgeError, UsageError
from regauge.judges._function import as_rule
from regauge.judges._rule import AdviceTemplate, Rule, first_sentence
from regauge.judges._types import is_number
from regauge.judges.output import (
    READING_VERSION,
    Expected,
    JudgedOutput,
    MissingValue,
    map_leaves,
    normalise_value,
)
from regauge.on_demand import require
from regauge.strict_json import walk
from regauge.wording import did_you_mean, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.digests import JSON
    from regauge.judges._rule import Check, Compose
    from regauge.judges._types import Verdict
    from regauge.project import Criterion


def form_of(signature: inspect.Signature) -> str:
    """A signature without types."""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))


def parameter_json(value: object, *, of: str) -> JSON:  # noqa: PLR0911 - one per type
    """Convert a parameter to JSON, for digests and reports.

    Args:
        value: The parameter.
        of: The kind of rule, for errors.

    Raises:
        UsageError: The parameter is of a type that no rule takes.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Expected():
            return {"expected": value.path}
        case MissingValue():
            return {"default": True}
        case Rule():
            return value.reference
        case PurePath():
            return value.as_posix()
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            if any(isinstance(key, Rule) for key, _ in pairs):
                return [
                    {"of": parameter_json(key, of=of), "is": parameter_json(part, of=of)}
                    for key, part in pairs
                ]
            return {str(key): parameter_json(part, of=of) for key, part in pairs}
        case list() | tuple():
            return [parameter_json(part, of=of) for part in cast("Sequence[object]", value)]
        case set() | frozenset():
            parts = cast("AbstractSet[object]", value)
            return sorted((parameter_json(part, of=of) for part in parts), key=str)
        case _:
            raise UsageError(f"{of}: a parameter cannot be a {type(value).__name__}: {value!r}")


def rule_name(kind: str, bound: inspect.BoundArguments) -> str:
    words: list[str] = []
    for key, value in bound.arguments.items():
        parameter = bound.signature.parameters[key]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            words.extend(_word(part) for part in value)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            words.extend(f"{name}={_word(part)}" for name, part in value.items())
        elif value != parameter.default or isinstance(value, bool) != isinstance(
            parameter.default, bool
        ):
            keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            words.append(f"{key}={_word(value)}" if keyword else _word(value))
    return f"{kind}({', '.join(words)})" if words else kind


def _word(value: object) -> str:  # noqa: PLR0911 - one per type
    match value:
        case Rule():
            return value.name
        case str() if value.replace("_", "").replace("-", "").replace(".", "").isalnum():
            return value if len(value) <= 40 else quote(value, 40)  # noqa: PLR2004 - a line's share
        case str():
            return quote(value, 40)
        case Mapping():
            return "{…}" if value else "{}"
        case list() | tuple():
            parts = cast("Sequence[object]", value)
            listed_parts = ", ".join(_word(part) for part in parts[:3])
            return f"[{listed_parts}{', …' if len(parts) > 3 else ''}]"  # noqa: PLR2004
        case PurePath():
            return value.name
        case _:
            return str(value)


_SECTION = re.compile(r"\n+(Fails as|Advice|Negated): (.*(?:\n {4}.*)*)")


def split_sections(doc: str) -> tuple[str, dict[str, str]]:
    r"""Split a docstring into its description and the texts of its last sections, by title.

    >>> split_sections("Counts.\n\nFails as: too_few\nAdvice: Write\n    more.")
    ('Counts.', {'Fails as': 'too_few', 'Advice': 'Write more.'})
    """
    sections = {match[1]: " ".join(match[2].split()) for match in _SECTION.finditer(doc)}
    return _SECTION.sub("", doc), sections


Share: TypeAlias = float
Amount: TypeAlias = float
Whole: TypeAlias = int
Place: TypeAlias = int
Name: TypeAlias = str
Names: TypeAlias = "Sequence[str]"


class Range(NamedTuple):
    """The range of a number, text or list parameter, or a switch.

    Attributes:
        kind: `int`, `float` for any number, `str`, `bool`, or `list`; a text is not such a list.
        minimum: The least number, or length of a text, also of each in a list.
        words: The range in words, for errors.
        entries: The types of the entries of a list.
    """

    kind: type[object]
    minimum: int
    maximum: float
    words: str
    entries: tuple[type, ...] = ()

    def contains(self, value: object) -> bool:
        """Return whether a value is in the range; NaN and infinity are not."""
        if self.kind is list:
            return isinstance(value, list | tuple | set | frozenset) and all(
                isinstance(part, self.entries) and (self.minimum == 0 or part != "")
                for part in cast("Sequence[object]", value)
            )
        if self.kind is str:
            return isinstance(value, str) and len(value.strip()) >= self.minimum
        if self.kind is bool:
            return isinstance(value, bool)
        if not is_number(value) or not isinstance(value, int | self.kind):
            return False
        return self.minimum <= value <= self.maximum


def _lists(words: str, *entries: type, minimum: int = 0) -> Range:
    return Range(list, minimum, math.inf, words, (*entries, Expected))


RANGES: Final[Mapping[str, Range]] = {
    "Share": Range(float, 0, 1, "a number from 0 to 1"),
    "Amount": Range(float, 0, sys.float_info.max, "a number from 0 up"),
    "Whole": Range(int, 0, math.inf, "a whole number from 0 up"),
    "Place": Range(int, 1, math.inf, "a whole number from 1 up"),
    "Name": Range(str, 1, math.inf, "a text that is not empty"),
    "Names": _lists("a list of texts that are not empty", str, minimum=1),
    "str": Range(str, 0, math.inf, "a text"),
    "str | Expected": Range(str, 0, math.inf, "a text"),
    "int": Range(int, -sys.maxsize, math.inf, "a whole number"),
    "float": Range(float, -sys.maxsize, sys.float_info.max, "a number"),
    "bool": Range(bool, 0, 1, "true or false"),
    "Sequence[str]": _lists("a list of texts", str),
    "Sequence[float]": _lists("a list of numbers", int, float),
    "Sequence[str | Mapping[str, JSON]]": _lists("a list of calls", object),
    "Sequence[JSON] | Expected": _lists("a list", object),
    "Sequence[Mapping[str, JSON]]": _lists("a list of mappings", Mapping),
}
"""The ranges of the annotations above; the factory checks parameters against them."""

P = ParamSpec("P")

Contents: TypeAlias = "Callable[[Mapping[str, object]], JSON]"
"""Called with the parameters, for the content of the files that they name; None for no file."""


def rule_digest(kind: str, params: Mapping[str, JSON], *, version: int, reading: int) -> str:
    """The digest of a rule.

    Args:
        kind: The kind of rule.
        params: The parameters, as JSON.
        version: The version of the rule.
        reading: The version of output parsing.
    """
    return digest_of({"kind": kind, "version": version, "reading": reading, "params": dict(params)})


@dataclass(eq=False)
class RuleFactory(Generic[P]):
    """A kind of rule; call it with the parameters to make a rule.

    Attributes:
        build: The function that takes the parameters and returns the check.
        version: Raised when the rule may judge an output differently than before.
        opposite: The fix in the error for a negation; empty if the rule has a negation.
        about: The criterion of the rule; None for that of its parts.
        compose: The builder of advice that no template can express.
        required_module: A module of the extra that the rule needs; empty for none.
        contents: The reader of files that parameters name, for the digest; None for no files.
        kind: The name of the rule.
        codes: The codes of its failures, from the docstring.
        template: The criterion and the instructions for a prompt, from the docstring.
    """

    build: Callable[P, Check]
    _: KW_ONLY
    version: int = 1
    opposite: str = ""
    about: Criterion | None = None
    compose: Compose | None = None
    required_module: str = ""
    contents: Contents | None = None

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.build)
        self.kind = self.build.__name__.rstrip("_")
        _, sections = split_sections(inspect.cleandoc(self.build.__doc__ or ""))
        self.codes = tuple(filter(None, sections.get("Fails as", "").split(", ")))
        self.template = AdviceTemplate(sections.get("Advice", ""), sections.get("Negated", ""))

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters, with those of an unpacked TypedDict as the first keywords."""
        build_signature = inspect.signature(self.build)
        parameters: list[inspect.Parameter] = []
        for part in build_signature.parameters.values():
            unpacked = str(part.annotation).removeprefix("Unpack[").removesuffix("]")
            if part.kind is not part.VAR_KEYWORD or unpacked == part.annotation:
                parameters.append(part)
                continue
            names = get_annotations(self.build.__globals__[unpacked])
            position = sum(parameter.kind is not part.KEYWORD_ONLY for parameter in parameters)
            parameters[position:position] = [
                inspect.Parameter(name, part.KEYWORD_ONLY, default=None) for name in names
            ]
        return build_signature.replace(parameters=parameters)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Rule:
        """Make a rule.

        Raises:
            UsageError: A parameter is invalid, or the extra of the rule is not installed.
        """
        if self.required_module:
            require(self.required_module, use=self.kind)
        try:
            bound = self.signature.bind(
                *(normalise_value(value) for value in args),
                **{key: normalise_value(value) for key, value in kwargs.items()},
            )
        except TypeError as error:
            parameters = self.signature.parameters.values()
            is_list = any(part.kind is part.VAR_POSITIONAL for part in parameters)
            usage = f"{self.kind}{self.form}" + f"; in YAML {self.kind}: [...]" * is_list
            # Newer Pythons add what the form shows.
            problem = str(error).replace("required keyword-only argument", "required argument")
            unknown = next((key for key in kwargs if problem.endswith(f"argument '{key}'")), "")
            hint = did_you_mean(unknown, self.signature.parameters) if unknown else ""
            problem += f"; {hint}" if hint else ""
            raise UsageError(f"{self.kind}: {problem}\n  it takes {usage}") from None
        try:
            for key, value in bound.arguments.items():
                bound.arguments[key] = map_leaves(
                    value, lambda part: as_rule(part) if inspect.isroutine(part) else part
                )
            self._check(bound)
            examine = self._build_check(bound)
        except RecursionError:
            raise UsageError(f"{self.kind}: a parameter is nested too deeply") from None
        except (TypeError, AttributeError) as error:
            reason = "a parameter is of a type that it does not take"
            raise UsageError(f"{self.kind}: {reason}\n  it takes {self.kind}{self.form}") from error
        name = rule_name(self.kind, bound)
        bound.apply_defaults()
        params: dict[str, JSON] = {
            key: parameter_json(value, of=self.kind) for key, value in bound.arguments.items()
        }
        contents = self.contents(bound.arguments) if self.contents else None
        if contents is not None:
            params["contents"] = contents
        try:
            digest = rule_digest(self.kind, params, version=self.version, reading=READING_VERSION)
        except ValueError as error:
            raise UsageError(f"{self.kind}: a parameter is not a JSON value: {error}") from None
        parts = tuple(part for part in walk(bound.arguments) if isinstance(part, Rule))
        return Rule(
            kind=self.kind,
            params=params,
            name=name,
            digest=digest,
            examine=examine,
            description=first_sentence(self.build.__doc__),
            parts=parts,
            opposite=self.opposite,
            about=self.about,
            template=self.template,
            compose=self.compose,
            is_builtin=self.build.__module__.startswith("regauge.")
            and contents is None
            and all(part.is_builtin for part in parts),
        )

    @functools.cached_property
    def _choices(self) -> Mapping[str, tuple[object, ...]]:
        """The allowed values of `Literal` parameters, by name."""
        names = inspect.unwrap(self.build).__globals__
        choices: dict[str, tuple[object, ...]] = {}
        for key, parameter in self.signature.parameters.items():
            annotation = str(parameter.annotation).removesuffix(" | None")
            kind = names.get(annotation)
            if annotation.startswith("Literal["):
                choices[key] = ast.literal_eval(f"({annotation[8:-1]},)")
            elif get_origin(kind) is Literal:
                choices[key] = get_args(kind)
        return choices

    def _check(self, bound: inspect.BoundArguments) -> None:
        """Check parameters against their annotations.

        Raises:
            UsageError: A value is not allowed.
        """
        for key, value in bound.arguments.items():
            parameter = bound.signature.parameters[key]
            several = parameter.kind is parameter.VAR_POSITIONAL
            parts = cast("tuple[object, ...]", value) if several else (value,)
            allowed = self._choices.get(key, ())
            annotation = str(parameter.annotation)
            range_of = RANGES.get(annotation.removesuffix(" | None"))
            for part in parts:
                optional = annotation.endswith(" | None") or not (allowed or range_of)
                if isinstance(part, Expected) or (part is None and optional):
                    continue
                if allowed and part not in allowed:
                    allowed_text = ", ".join(map(repr, allowed))
                    raise UsageError(f"{self.kind}: {key} is one of {allowed_text}, not {part!r}")
                if range_of and not range_of.contains(part):
                    raise UsageError(f"{self.kind}: {key} is {range_of.words}, not {part!r}")

    def _build_check(self, bound: inspect.BoundArguments) -> Check:
        """Build the check; with values of the case, one check for each combination of values."""
        build: Callable[..., Check] = self.build
        of_case = [
            key
            for key, value in bound.arguments.items()
            if any(isinstance(part, Expected) for part in walk(value))
            and not (
                isinstance(value, Expected)
                and "Expected" in str(bound.signature.parameters[key].annotation)
            )
        ]
        if not of_case:
            return build(*bound.args, **bound.kwargs)
        checks: dict[str, Check] = {}

        def examine(output: JudgedOutput) -> Verdict:
            arguments = inspect.BoundArguments(
                bound.signature,
                {**bound.arguments, **{key: self._value(bound, key, output) for key in of_case}},
            )
            key = repr([arguments.arguments[key] for key in of_case])
            if key not in checks:
                try:
                    self._check(arguments)
                    checks[key] = build(*arguments.args, **arguments.kwargs)
                except UsageError as error:
                    location = f" of case {output.case.id!r}" if output.case else ""
                    raise JudgeError(f"expected{location}: {error}", judge=self.kind) from error
            return checks[key](output)

        return examine

    def _value(self, bound: inspect.BoundArguments, key: str, output: JudgedOutput) -> object:
        """A parameter for one case; a list fills a parameter that takes any number of values."""
        value = resolve_in(bound.arguments[key], output, self.kind)
        if value is None and "None" not in str(bound.signature.parameters[key].annotation):
            raise output.missing_error(str(bound.arguments[key]), judge=self.kind)
        if bound.signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL:
            parts = cast("tuple[object, ...]", value)
            if len(parts) == 1 and isinstance(parts[0], list):
                return tuple(cast("list[object]", parts[0]))
        return value

    @functools.cached_property
    def form(self) -> str:
        """The parameters, without types."""
        return form_of(self.signature)


def resolve_in(value: object, output: JudgedOutput, kind: str) -> object:
    """Replace `expected(...)` in a parameter by the values of the case.

    Raises:
        JudgeError: The case has no such value.
    """
    return map_leaves(
        value, lambda part: output.resolve(part, judge=kind) if isinstance(part, Expected) else part
    )


class RuleOptions(TypedDict, total=False):
    """The options of `rule`."""

    version: int
    opposite: str
    about: Criterion | None
    compose: Compose | None
    required_module: str
    contents: Contents | None


def rule(**options: Unpack[RuleOptions]) -> Callable[[Callable[P, Check]], RuleFactory[P]]:
    """Turn a function from parameters to a check into a kind of rule.

    Three sections can end its docstring. `Fails as: ` lists the codes of its failures, without
    those of a missing text or field. `Advice: ` is the instruction for a prompt, in the form of
    `AdviceTemplate`; `Negated: ` is the instruction for the negation.

    Args:
        version: Raised when the rule may judge an output differently than before.
        opposite: The fix in the error for a negation, for a rule without one.
        about: The criterion of the rule.
        compose: The builder of advice that no template can express.
        required_module: A module of the extra that the rule needs.
        contents: The reader of files that parameters name, for the digest.
    """
    return lambda build: RuleFactory(build, **options)
