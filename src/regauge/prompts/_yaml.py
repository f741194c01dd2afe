"""YAML of prompt files: plain data by the rules of YAML 1.2, with line numbers."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import yaml
from yaml.reader import ReaderError

from regauge.errors import Diagnostic, PromptError
from regauge.wording import did_you_mean
from regauge.yaml_errors import explain_yaml_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from regauge.digests import JSON

# Far above any prompt: a deeper file is an attack or a mistake.
DEPTH_MAX = 100
_STANDARD = "tag:yaml.org,2002:"


# The form of each kind of scalar, and its first characters ("" for an empty one).
_SCALARS = {
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


class _Loader(yaml.SafeLoader):
    """PyYAML with the scalars of YAML 1.2: `no` and `on` are texts, and so are 12:30 and dates."""

    yaml_implicit_resolvers = scalar_resolvers()


def compose(text: str, path: Path) -> yaml.MappingNode:
    """Parse a document to its root mapping, with marks that index `text`.

    Raises:
        PromptError: The text is no YAML, or is not one mapping.
    """
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {chr(int(error.character))!r} is not allowed in YAML"
        raise _error(path, line, problem, "remove it, or write it as an escape") from error
    except yaml.MarkedYAMLError as error:
        mistake_line, problem, fix = explain_yaml_error(error)
        raise _error(path, mistake_line, f"not YAML: {problem}", fix) from error
    except RecursionError as error:
        raise _error(path, None, f"nested deeper than {DEPTH_MAX} levels") from error
    finally:
        if loader is not None:
            loader.dispose()
    if node is None:
        fix = "write at least `messages:` with one message"
        raise _error(path, 1, "the file is empty", fix)
    if not isinstance(node, yaml.MappingNode):
        fix = "start with keys such as `model:` and `messages:`"
        raise _error(path, line_of(node), "a prompt file is a mapping of keys", fix)
    return node


def line_of(node: yaml.Node) -> int:
    """The first line of a node, from 1."""
    return node.start_mark.line + 1


def scalar_tag(node: yaml.Node) -> str:
    r"""The short name of a node's tag: `str`, `int`, `null`, or the full tag if it is none of YAML.

    >>> from pathlib import Path
    >>> [scalar_tag(v) for _, v in compose("a: no\nb: 010\nc: 1e3\nd:", Path("x")).value]
    ['str', 'int', 'float', 'null']
    """
    return node.tag.removeprefix(_STANDARD)


def scalar_value(node: yaml.Node) -> JSON:
    """The value of a scalar.

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


def _error(path: Path, line: int | None, message: str, fix: str = "") -> PromptError:
    return PromptError([Diagnostic(path=path, line=line, message=message, fix=fix)])


# By key: the node of the key and the node of its value.
Entries = dict[str, tuple[yaml.Node, yaml.Node]]

_TEXT_TAGS = frozenset({"str", "int", "float", "bool", "merge"})

# With aliases a small file can have a huge value; no prompt has this many values.
_VALUES_MAX = 100_000


class Reader:
    """Converts nodes of one file to plain values.

    Args:
        path: The path of the file, for errors.
        lenient: Unknown keys are warnings, as for texts of commits.

    Attributes:
        errors: The errors, in order.
        warnings: The warnings, in order.
    """

    def __init__(self, path: Path, *, lenient: bool = False) -> None:
        self.path = path
        self._lenient = lenient
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self._values_left = _VALUES_MAX
        self._refused_size = False

    def add_error(self, node: yaml.Node, message: str, fix: str = "") -> None:
        """Add an error about a node."""
        self.add_error_at(line_of(node), message, fix)

    def add_error_at(self, line: int, message: str, fix: str = "") -> None:
        """Add an error about a line."""
        self.errors.append(Diagnostic(path=self.path, line=line, message=message, fix=fix))

    def add_warning(self, line: int, message: str, fix: str = "") -> None:
        """Add a warning about a line."""
        self.warnings.append(Diagnostic(path=self.path, line=line, message=message, fix=fix))

    def entries(self, node: yaml.MappingNode, subject: str) -> Entries:
        """The entries of a mapping, with merged ones (`<<`); a duplicate key is an error."""
        self._refuse_tag(node, "map", subject)
        direct: Entries = {}
        merged: Entries = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.add_error(key, f"a key of {subject} must be a text")
            elif scalar_tag(key) == "merge":
                merged = self._merge(value, subject) | merged
            elif key.value in direct:
                first = line_of(direct[key.value][0])
                self.add_error(key, f"{subject} gives {key.value!r} twice, first on line {first}")
            else:
                direct[key.value] = (key, value)
        return merged | direct

    def mapping(self, node: yaml.Node, subject: str, fix: str = "") -> Entries | None:
        """The entries of a mapping; None, with an error, for another node."""
        if isinstance(node, yaml.MappingNode):
            return self.entries(node, subject)
        self.add_error(node, f"{subject} must be a mapping of keys, not {kind_of(node)}", fix)
        return None

    def items(self, node: yaml.Node, subject: str, fix: str = "") -> list[yaml.Node]:
        """The items of a list; null is an empty list, another node an error."""
        if isinstance(node, yaml.SequenceNode):
            self._refuse_tag(node, "seq", subject)
            return list(node.value)
        if scalar_tag(node) != "null":
            self.add_error(node, f"{subject} must be a list, not {kind_of(node)}", fix)
        return []

    def text(self, node: yaml.Node, subject: str, fix: str = "") -> str | None:
        """The text of a scalar as written, even of a number; None, with an error, otherwise."""
        if isinstance(node, yaml.ScalarNode) and scalar_tag(node) in _TEXT_TAGS:
            return str(node.value)
        self.add_error(node, f"{subject} must be a text, not {kind_of(node)}", fix)
        return None

    def word(
        self, node: yaml.Node, subject: str, words: Sequence[str], *, noun: str, fix: str = ""
    ) -> str | None:
        """A text that is one of some words; None, with an error, for another node.

        Args:
            node: The node.
            subject: Its name in errors.
            words: The allowed words.
            noun: The noun in the error for an unknown word.
            fix: The fix in errors; by default the list of words.
        """
        text = self.text(node, subject, fix)
        if text is None or text in words:
            return text
        fix = did_you_mean(text, words) or fix or f"write one of {', '.join(words)}"
        self.add_error(node, f"{noun} {text!r} is unknown", fix)
        return None

    def flag(self, node: yaml.Node, subject: str) -> bool | None:
        """A boolean; None, with an error, for another node."""
        value = self.json(node, subject)
        if isinstance(value, bool):
            return value
        self.add_error(node, f"{subject} must be true or false")
        return None

    def json(self, node: yaml.Node, subject: str, above: tuple[int, ...] = ()) -> JSON:
        """The JSON value of a node; None, with an error, for a value that is no JSON.

        Args:
            node: The node.
            subject: Its name in errors.
            above: The ids of the enclosing nodes.
        """
        self._values_left -= 1
        if id(node) in above:
            self.add_error(node, f"{subject} contains itself through an alias")
            return None
        if len(above) > DEPTH_MAX:
            self.add_error(node, f"{subject} is nested deeper than {DEPTH_MAX} levels")
            return None
        if self._values_left <= 0:
            self._refuse_size(node, subject)
            return None
        below = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            entries = self.entries(node, subject)
            return {key: self.json(value, subject, below) for key, (_, value) in entries.items()}
        if isinstance(node, yaml.SequenceNode):
            self._refuse_tag(node, "seq", subject)
            return [self.json(item, subject, below) for item in node.value]
        return self._scalar(node, subject)

    def unknown(self, entries: Entries, names: Iterable[str], subject: str) -> None:
        """Add an error for each unknown key."""
        names = tuple(names)
        for name, (key, _) in entries.items():
            if name not in names:
                message = f"{subject} has no key {name!r}"
                fix = did_you_mean(name, names) or f"known keys: {', '.join(names)}"
                if self._lenient:
                    self.add_warning(line_of(key), f"{message}; it is ignored", fix)
                else:
                    self.add_error(key, message, fix)

    def _merge(self, node: yaml.Node, subject: str) -> Entries:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: Entries = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self.add_error(node, "`<<` merges a mapping or a list of mappings")
            elif any(scalar_tag(key) == "merge" for key, _ in source.value):
                self.add_error(node, "`<<` may not merge a mapping that itself uses `<<`")
            else:
                self._values_left -= len(source.value)
                if self._values_left <= 0:
                    self._refuse_size(node, subject)
                    break
                merged = self.entries(source, subject) | merged
        return merged

    def _refuse_size(self, node: yaml.Node, subject: str) -> None:
        if not self._refused_size:
            self._refused_size = True
            self.add_error(
                node, f"{subject}: the file holds over {_VALUES_MAX:,} values, aliases resolved"
            )

    def _scalar(self, node: yaml.Node, subject: str) -> JSON:
        try:
            return scalar_value(node)
        except ValueError:
            value, tag = str(node.value), scalar_tag(node)
        if tag in {"bool", "int", "float"}:
            self.add_error(node, f"{subject}: {value[:40]!r} is no number or word that JSON knows")
        else:
            self._refuse_tag(node, "str", subject)
        return None

    def _refuse_tag(self, node: yaml.Node, usual: str, subject: str) -> None:
        tag = scalar_tag(node)
        if tag != usual:
            self.add_error(node, f"{subject}: the tag {tag!r} is not supported", "remove the tag")


def kind_of(node: yaml.Node) -> str:
    """The kind of a node, for error messages."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    names = {"str": "a text", "int": "a number", "float": "a number", "bool": "a boolean"}
    return (
        "nothing" if scalar_tag(node) == "null" else names.get(scalar_tag(node), "a tagged value")
    )
