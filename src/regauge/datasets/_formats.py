"""Text formats of datasets, read strictly and with the line of every key: JSON Lines and YAML."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, cast

import yaml

from regauge.datasets._case import Record, Source, decode_lines
from regauge.strict_json import NoNumberError, TwiceError, no_constant, read_json, unique

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.digests import JSON

__all__ = ["parse_json", "read_jsonl", "read_yaml"]


class _NotJSONError(ValueError):
    """What is wrong with a text that is to be JSON, and what to do about it.

    Attributes:
        fix: Empty where only the line as a whole can be said to be wrong.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(message)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NotJSONError(f"{digits} is too large a number", "write it as a text")
    return number


_decoder = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=no_constant, parse_float=_finite
)


def parse_json(text: str) -> object:
    """Read one JSON text.

    Raises:
        ValueError: It is not JSON, a key is given twice, or a number is NaN or infinite; the
            message says which, with the column where that is known.
    """
    try:
        value: object = _decoder.decode(text)
        if "\\u" in text:
            # An escape can spell half a surrogate pair, which nothing can send or store as UTF-8.
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _NotJSONError(f"not JSON: {error.msg.lower()} at column {error.colno}") from error
    except UnicodeEncodeError as error:
        raise _NotJSONError(
            "a \\u escape spells half a character (a lone surrogate)", "write the character itself"
        ) from error
    except RecursionError as error:
        raise _NotJSONError("nested too deeply", "give it as a text") from error
    except TwiceError as error:
        raise _NotJSONError(str(error), "keep one of the two") from error
    except NoNumberError as error:
        raise _NotJSONError(str(error), "write a number, or null for none") from error
    except _NotJSONError:
        raise
    except ValueError as error:
        raise _NotJSONError("a number has too many digits", "write it as a text") from error
    return value


def read_jsonl(source: Source) -> list[Record]:
    """The records of a JSON Lines file; blank lines count but hold none."""
    text = decode_lines(source)
    if text is None:
        return []
    if text.lstrip().startswith("["):
        source.fault(
            1,
            "this is a JSON array, not JSON Lines",
            "write one object per line, without brackets around them and commas between them",
        )
        return []
    records: list[Record] = []
    # Only \n ends a line here: str.splitlines would also cut at characters that JSON allows inside
    # its strings, such as U+2028.
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.isspace():
            continue
        try:
            value = parse_json(line)
        except _NotJSONError as error:
            source.fault(number, str(error), error.fix or _whole_line(source))
            try:
                # Python reads more than JSON has, so the rest of such a case can be checked too.
                value = read_json(line)
            except (ValueError, RecursionError):
                continue
        if isinstance(value, dict):
            records.append(Record(line=number, values=cast("dict[str, object]", value)))
        else:
            message = f"{source.holds} is a JSON object, not {json.dumps(value)[:40]}"
            source.fault(number, message, _whole_line(source))
    return records


def _whole_line(source: Source) -> str:
    """What a line is to be; said once for a file, however many of its lines are otherwise."""
    fix = f'write {source.holds} as one {{"key": "value"}} object on a line of its own'
    return "" if any(fault.fix == fix for fault in source.faults) else fix


_NODES_MAX = 1_000_000
# Plain words that YAML 1.1 turns into something else than they look like: no, on, 0755, 11:45.
_SURPRISES = {
    "tag:yaml.org,2002:bool": re.compile(r"(?!(?i:true|false)$)"),
    "tag:yaml.org,2002:int": re.compile(r"[-+]?0[0-9_]|.*[:_]"),
    "tag:yaml.org,2002:float": re.compile(r".*[:_]"),
}
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MERGE = "tag:yaml.org,2002:merge"


class _Reader:
    """Turns nodes into JSON values and notes what JSON has no word for."""

    def __init__(self, source: Source, loader: yaml.SafeLoader) -> None:
        self._source = source
        self._loader = loader
        self._open: set[int] = set()
        self._count = 0

    def value(self, node: yaml.Node) -> JSON:
        """The JSON value of a node; None where it has none, after a fault was noted."""
        self._count += 1
        if self._count > _NODES_MAX:
            raise yaml.YAMLError(f"aliases expand to more than {_NODES_MAX:,} values")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._fault(node, "an alias contains itself")
            return None
        self._open.add(id(node))
        try:
            if node.tag not in _COLLECTIONS:
                self._fault(node, f"the tag {node.tag} has no JSON value")
            elif isinstance(node, yaml.MappingNode):
                return {key: self.value(item) for key, item in self.pairs(node)}
            elif isinstance(node, yaml.SequenceNode):
                return [self.value(item) for item in node.value]
        finally:
            self._open.discard(id(node))
        return None

    def pairs(self, node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
        """The keys and values of a mapping, merged ones first, each own key once."""
        own: set[str] = set()
        merges = False
        for key, _ in node.value:
            if key.tag == _MERGE:
                merges = True
            elif key.tag != "tag:yaml.org,2002:str":
                shown = key.value if isinstance(key, yaml.ScalarNode) else "this key"
                self._fault(key, f"the key {shown!r} is not text", "put it in quotes")
            elif key.value in own:
                self._fault(key, f"the key {key.value!r} is given twice")
            else:
                own.add(key.value)
        if merges:
            self._loader.flatten_mapping(node)
        return [(key.value, item) for key, item in node.value if isinstance(key.value, str)]

    def _scalar(self, node: yaml.ScalarNode) -> JSON:
        text: str = node.value
        if node.tag == "tag:yaml.org,2002:timestamp":
            self._fault(node, f"{text} reads as a date in YAML", "put it in quotes")
            return None
        try:
            value = self._construct(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError):
            # What yaml raises depends on how a value does not fit its tag.
            self._fault(node, f"{text!r} with the tag {node.tag} has no JSON value")
            return None
        surprise = _SURPRISES.get(node.tag)
        if surprise and surprise.match(text):
            self._fault(node, f"{text} reads as {json.dumps(value)} in YAML", "put it in quotes")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._fault(node, f"{text} is no JSON number")
            return None
        if value is None or isinstance(value, bool | int | float | str):
            return value
        self._fault(node, f"{text!r} with the tag {node.tag} has no JSON value")
        return None

    def _construct(self, node: yaml.ScalarNode) -> object:
        # The stubs of yaml leave the type of this method half unknown.
        construct = cast("Callable[[yaml.Node], object]", self._loader.construct_object)  # pyright: ignore[reportUnknownMemberType]
        return construct(node)

    def _fault(self, node: yaml.Node, message: str, fix: str = "") -> None:
        self._source.fault(node.start_mark.line + 1, message, fix)


def read_yaml(source: Source) -> list[Record]:
    """The records of a YAML file: one list of mappings."""
    text = decode_lines(source)
    if text is None:
        return []
    try:
        return _records(source, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        source.fault(mark.line + 1 if mark else None, f"not YAML: {problem}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        source.fault(line, f"not YAML: the character {chr(error.character)!r} is not allowed")
    except yaml.YAMLError as error:
        source.fault(None, str(error))
    except RecursionError:
        source.fault(None, "nested too deeply")
    return []


def _records(source: Source, text: str) -> list[Record]:
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return []
        if not isinstance(root, yaml.SequenceNode):
            source.fault(
                root.start_mark.line + 1,
                "a dataset in YAML is a list of cases",
                "start each case with `- id: ...`",
            )
            return []
        reader = _Reader(source, loader)
        records: list[Record] = []
        for node in root.value:
            line: int = node.start_mark.line + 1
            if not isinstance(node, yaml.MappingNode):
                source.fault(line, "a case is a mapping with `id` and `inputs`")
                continue
            lines = {
                key.value: key.start_mark.line + 1
                for key, _ in node.value
                if isinstance(key.value, str)
            }
            values: dict[str, object] = {
                key: reader.value(item) for key, item in reader.pairs(node)
            }
            records.append(Record(line=line, values=values, lines=lines))
        return records
    finally:
        loader.dispose()
