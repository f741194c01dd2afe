"""YAML documents: JSON values of their nodes with line numbers, and errors with line and fix.

The keys of a mapping are declared once, as the fields of a dataclass, for readers and JSON Schemas.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import yaml
from yaml.reader import ReaderError

from regauge.lexicon import Lexicon

if TYPE_CHECKING:
    from regauge.digests import JSON

# Far above any document: a deeper one is an attack or a mistake.
DEPTH_MAX: Final = 100
_TOO_DEEP: Final = f"nested deeper than {DEPTH_MAX} levels"
_FLATTEN: Final = "nest it less deeply"
_WRITE_OUT: Final = "write the value out instead of the alias"
# The lines that git leaves in a file with a merge conflict.
CONFLICT: Final = re.compile(r"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)
UNRESOLVED: Final = "a merge conflict is not resolved"
RESOLVE: Final = "keep one side, and remove the lines with <<<<<<<, ======= and >>>>>>>"
_STANDARD: Final = "tag:yaml.org,2002:"
# The form of each kind of scalar, and its first characters ("" for an empty one).
_SCALARS: Final = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"~|null|Null|NULL|", "~nN"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        (
            r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
        ),
        "-+.0123456789",
    ),
    "merge": (r"<<", "<"),
}


def scalar_resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """The scalars of YAML 1.2 for a PyYAML loader, by their first character."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, (pattern, first) in _SCALARS.items():
        entry = (_STANDARD + tag, re.compile(rf"(?:{pattern})\Z"))
        for character in (*first, *([""] if tag == "null" else [])):
            table.setdefault(character, []).append(entry)
    return table


class Yaml12Loader(yaml.SafeLoader):
    """PyYAML with the scalars of YAML 1.2: `no` and `on` are texts, and so are 12:30 and dates."""

    yaml_implicit_resolvers = scalar_resolvers()


class YamlError(ValueError):
    """A text that is not a single YAML document.

    Attributes:
        line: The line, from 1; None for the text as a whole.
        fix: The fix; empty for none.
    """

    def __init__(self, line: int | None, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.fix = fix


def compose_document(text: str, loader_class: Any = Yaml12Loader) -> yaml.Node | None:
    """Parse a document to its root node, with marks that index `text`; None for an empty one.

    Args:
        text: The text.
        loader_class: A loader of PyYAML, whose resolvers decide the tags of scalars.

    Raises:
        YamlError: The text is not YAML, or more than one document.
    """
    loader: Any = None
    try:
        loader = loader_class(text)
        node: yaml.Node | None = loader.get_single_node()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {chr(int(error.character))!r} is not allowed in YAML"
        raise YamlError(line, problem, "remove it, or write it as an escape") from error
    except yaml.MarkedYAMLError as error:
        if conflict := CONFLICT.search(text):
            line = text.count("\n", 0, conflict.start()) + 1
            raise YamlError(line, UNRESOLVED, RESOLVE) from error
        raise _explain(error) from error
    except RecursionError as error:
        raise YamlError(None, _TOO_DEEP, _FLATTEN) from error
    finally:
        if loader is not None:
            loader.dispose()
    return node


def line_of(node: yaml.Node) -> int:
    """The first line of a node, from 1."""
    return node.start_mark.line + 1


def key_of(node: yaml.Node, name: str) -> yaml.Node:
    """The node of a key of a mapping, for errors; the mapping itself if the key is merged."""
    keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
    return next((key for key in keys if key.value == name), node)


def scalar_tag(node: yaml.Node) -> str:
    r"""The short name of a node's tag: `str`, `int`, `null`, or the full tag if it is none of YAML.

    >>> [scalar_tag(v) for _, v in compose_document("a: no\nb: 010\nc: 1e3\nd:").value]
    ['str', 'int', 'float', 'null']
    """
    return node.tag.removeprefix(_STANDARD)


def scalar_value(node: yaml.Node) -> JSON:
    """The value of a scalar by the rules of YAML 1.2.

    Raises:
        ValueError: The value has no JSON form, or its tag is none of YAML.
    """
    text = str(node.value)
    match scalar_tag(node):
        case "str" | "merge":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 0 if text[:2] in {"0o", "0x"} else 10)
        case "float":
            number = float(text.replace(".inf", "inf").replace(".nan", "nan"))
            if math.isfinite(number):
                return number
        case _:
            pass
    raise ValueError(f"{text!r} has no JSON value")


# By key: the node of the key and the node of its value.
Entries: TypeAlias = "dict[str, tuple[yaml.Node, yaml.Node]]"


class NodeReader:
    """Converts the nodes of one document to JSON values; a subclass decides what an error does.

    Attributes:
        values_max: The most values, with aliases resolved: a small file can hold a huge value.
    """

    values_max: ClassVar[int] = 1_000_000

    def __init__(self) -> None:
        self._values_left = self.values_max
        self._refused_size = False
        self._merging: set[int] = set()

    @abstractmethod
    def add_error(self, node: yaml.Node, message: str, fix: str = "") -> None:
        """Add an error about a node, or raise it."""

    def entries(self, node: yaml.MappingNode, subject: str) -> Entries:
        """The entries of a mapping, with merged ones (`<<`); a duplicate key is an error."""
        self.refuse_tag(node, "map", subject)
        direct: Entries = {}
        merged: Entries = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.add_error(key, f"a key of {subject} must be a text", "write a text as the key")
            elif scalar_tag(key) == "merge":
                merged = self._merge(value, subject) | merged
            elif key.value in direct:
                first = line_of(direct[key.value][0])
                message = f"{subject} gives {key.value!r} twice, first on line {first}"
                self.add_error(key, message, "keep one of them")
            else:
                direct[key.value] = (key, value)
        return merged | direct

    def json(self, node: yaml.Node, subject: str, above: tuple[int, ...] = ()) -> JSON:
        """The JSON value of a node; None, with an error, for a value that is not JSON.

        Args:
            node: The node.
            subject: Its name in errors.
            above: The ids of the enclosing nodes.
        """
        if id(node) in above:
            self.add_error(node, f"{subject} contains itself through an alias", _WRITE_OUT)
            return None
        if len(above) >= DEPTH_MAX:
            self.add_error(node, f"{subject} is {_TOO_DEEP}", _FLATTEN)
            return None
        if not self._count_values(1, node, subject):
            return None
        below = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            entries = self.entries(node, subject)
            return {key: self.json(value, subject, below) for key, (_, value) in entries.items()}
        if isinstance(node, yaml.SequenceNode):
            self.refuse_tag(node, "seq", subject)
            return [self.json(item, subject, below) for item in node.value]
        return self.scalar(node, subject)

    def scalar(self, node: yaml.Node, subject: str) -> JSON:
        """The value of a scalar; None, with an error, for one that is not JSON."""
        try:
            return scalar_value(node)
        except ValueError:
            value, tag = str(node.value), scalar_tag(node)
        if tag in {"bool", "int", "float"}:
            message = f"{subject}: {value[:40]!r} is not a number or word that JSON knows"
            self.add_error(node, message, "write a finite number, or put it in quotes")
        else:
            self.refuse_tag(node, "str", subject)
        return None

    def refuse_tag(self, node: yaml.Node, usual: str, subject: str) -> None:
        """Add an error for a tag other than the usual one."""
        tag = scalar_tag(node)
        if tag != usual:
            self.add_error(node, f"{subject}: the tag {tag!r} is not supported", "remove the tag")

    def _merge(self, node: yaml.Node, subject: str) -> Entries:
        merged: Entries = {}
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                fix = "put an alias of a mapping, such as `*defaults`, behind `<<:`"
                self.add_error(node, "`<<` merges a mapping or a list of mappings", fix)
            elif id(source) in self._merging:
                self.add_error(node, "`<<` merges a mapping into itself", _WRITE_OUT)
            elif self._count_values(len(source.value) + 1, node, subject):
                self._merging.add(id(source))
                merged = self.entries(source, subject) | merged
                self._merging.discard(id(source))
        return merged

    def _count_values(self, count: int, node: yaml.Node, subject: str) -> bool:
        """Return whether there may be more values; add one error if not."""
        self._values_left -= count
        if self._values_left > 0:
            return True
        if not self._refused_size:
            self._refused_size = True
            limit = f"{self.values_max:,}"
            message = f"{subject}: the file holds over {limit} values, aliases resolved"
            self.add_error(node, message, "use fewer aliases, or split the file")
        return False


class StrictReader(NodeReader):
    """A reader that raises the first error as `YamlError`."""

    def add_error(self, node: yaml.Node, message: str, fix: str = "") -> None:
        """Raise the error."""
        raise YamlError(line_of(node), message, fix)


def read_yaml(text: str) -> JSON:
    """The value of a YAML 1.2 document; None for an empty one.

    Raises:
        YamlError: It is not YAML, or holds a value that JSON does not have.

    >>> read_yaml("a: [1, no]")
    {'a': [1, 'no']}
    """
    node = compose_document(text)
    return None if node is None else StrictReader().json(node, "the document")


@dataclass(frozen=True, slots=True, eq=False)
class Keywords:
    """Keywords of JSON Schema for a value, besides those of its type."""

    schema: dict[str, Any]

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """The schema of the type with the keywords; called by pydantic."""
        return handler(core_schema) | self.schema  # type: ignore[no-any-return]


class KeyType(NamedTuple):
    """The type of the values of a key.

    Attributes:
        kind: The type, without None.
        low: The least number.
        high: The largest number.
        required: The key must be there.
    """

    kind: Any
    low: float = -math.inf
    high: float = math.inf
    required: bool = False

    def problem(self, value: JSON) -> str:
        """The kind of number or text that a value has to be; empty if it is one.

        >>> KeyType(int, low=1).problem(0), KeyType(float).problem(1)
        ('a whole number from 1 on', '')
        """
        if self.kind not in {int, float}:
            texts = {str: "a text", str | list[str]: "a text or a list of texts"}.get(self.kind, "")
            items = value if isinstance(value, list) and self.kind is not str else [value]
            return texts if any(not isinstance(item, str) for item in items) else ""
        kind, noun = (int, "a whole number") if self.kind is int else (int | float, "a number")
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if is_number and self.low <= cast("float", value) <= self.high:
            return ""
        if self.low == -math.inf:
            return noun
        return f"{noun} from {self.low:g} " + (
            "on" if self.high == math.inf else f"to {self.high:g}"
        )


@cache
def types_of(keys: type) -> dict[str, KeyType]:
    """The keys of a mapping, in order; a field without a default is a required key.

    >>> @dataclass
    ... class Keys:
    ...     name: str
    ...     pass_at: Annotated[float, Keywords({"minimum": 0, "maximum": 1})] | None = None
    >>> types_of(Keys)["pass_at"]
    KeyType(kind=<class 'float'>, low=0, high=1, required=False)
    """
    hints = get_type_hints(keys, include_extras=True)
    return {
        field.name: type_of(hints[field.name])._replace(required=field.default is MISSING)
        for field in fields(keys)
    }


def type_of(hint: Any) -> KeyType:
    """The type that an annotation declares."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    if get_origin(hint) in {Union, UnionType}:
        return type_of(parts[0]) if len(parts) == 1 else KeyType(Union[tuple(parts)])  # noqa: UP007
    if get_origin(hint) is not Annotated:
        return KeyType(hint)
    schema = parts[1].schema
    return KeyType(parts[0], schema.get("minimum", -math.inf), schema.get("maximum", math.inf))


# Characters that PyYAML takes for line ends, and editors do not.
_BREAKS: Final = "\x85\u2028\u2029"
_LEXICON: Final = Lexicon("regauge", file="yaml_mistakes.toml")


def _explain(error: yaml.MarkedYAMLError) -> YamlError:
    r"""The line, the problem and the fix of a syntax error.

    >>> def explain(text):
    ...     try:
    ...         compose_document(text)
    ...     except YamlError as error:
    ...         return error.line, str(error), error.fix
    >>> explain('a: [1, 2\nb: 3')
    (1, 'not YAML: the `[` of this line is not closed', 'close it, or remove it')
    >>> explain('a: b\n  c: d')[0::2]
    (2, 'quote a text that holds `: `, or indent a key below the one that it belongs to')
    >>> explain('a: [1,\n\n')[0]
    1
    >>> explain('- a\nb: 1')[1]
    'not YAML: this line does not fit the lines above it'
    """
    explanation = " | ".join(filter(None, (error.context, error.problem)))
    mistakes = _LEXICON.entry("mistake")
    mistake = next(row for row in mistakes if re.search(row["pattern"], explanation))
    start = error.context_mark if mistake.get("at_start") else None
    mark = start or error.problem_mark or error.context_mark
    problem = mistake.get("problem") or error.problem or error.context or "cannot be parsed"
    line = None if mark is None else _line_of(mark)
    if mark is not None and mark.buffer and mark.buffer[mark.pointer - mark.column - 1] in _BREAKS:
        code = f"U+{ord(mark.buffer[mark.pointer - mark.column - 1]):04X}"
        problem = f"the character {code} before this text begins a new line"
        return YamlError(line, f"not YAML: {problem}", "replace it with a space or a line end")
    return YamlError(line, f"not YAML: {problem}", mistake["fix"])


def _line_of(mark: yaml.Mark) -> int:
    """The line of a mark, from 1; at the end of a text, its last line that is not blank."""
    line = mark.line + 1
    if mark.buffer is None or mark.buffer[mark.pointer :].strip("\0\r\n\t "):
        return line
    before = mark.buffer[: mark.pointer].replace("\r\n", "\n")
    return max(1, line - before[len(before.rstrip()) :].count("\n"))
