"""YAML of prompt files: plain data by the rules of YAML 1.2, with the line of everything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeGuard

import yaml
from yaml.reader import ReaderError

from regauge.errors import Fault, PromptError
from regauge.regular_file import read_regular

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "BYTES_MAX",
    "DEPTH_MAX",
    "compose",
    "is_scalar",
    "line_of",
    "read_text",
    "scalar_resolvers",
    "scalar_tag",
]

BYTES_MAX = 1024 * 1024
DEPTH_MAX = 100
_STANDARD = "tag:yaml.org,2002:"


# Per kind of scalar: what it looks like, and the characters it can start with ("" when empty).
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
    """The scalars of YAML 1.2, by their first character: what a PyYAML loader resolves."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, (pattern, first) in _SCALARS.items():
        entry = (_STANDARD + tag, re.compile(rf"(?:{pattern})\Z"))
        for character in (*first, *([""] if tag == "null" else [])):
            table.setdefault(character, []).append(entry)
    return table


class _Loader(yaml.SafeLoader):
    """PyYAML with the scalars of YAML 1.2: `no` and `on` are texts, and so are 12:30 and dates."""

    yaml_implicit_resolvers = scalar_resolvers()


def read_text(path: Path) -> str:
    """The text of a prompt file, line ends and byte order mark included.

    Raises:
        PromptError: The file cannot be read, is larger than 1 MiB or is not UTF-8.
    """
    try:
        size = path.stat().st_size
        data = read_regular(path) if size <= BYTES_MAX else b""
    except FileNotFoundError as error:
        raise _error(path, None, "there is no such prompt file") from error
    except OSError as error:
        raise PromptError([Fault.unreadable(path, error)]) from error
    if size > BYTES_MAX:
        fix = "keep long inputs in fixtures and give them as inputs"
        raise _error(
            path,
            None,
            f"{size / BYTES_MAX:.1f} MiB is more than a prompt file may have (1 MiB)",
            fix,
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        raise _error(path, line, problem, "save the file as UTF-8") from error


def compose(text: str, path: Path) -> yaml.MappingNode:
    """The root of the document, a mapping, with marks that index `text`.

    Raises:
        PromptError: The text is no YAML, or is something else than one mapping.
    """
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {chr(int(error.character))!r} may not stand in YAML"
        raise _error(path, line, problem, "remove it, or write it as an escape") from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from error
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
    """The line that a node starts on, counted from 1."""
    return node.start_mark.line + 1


def is_scalar(node: yaml.Node) -> TypeGuard[yaml.ScalarNode]:
    """Whether a node is a single value: a text, a number, a boolean or null."""
    return isinstance(node, yaml.ScalarNode)


def scalar_tag(node: yaml.Node) -> str:
    r"""The short name of a node's tag: `str`, `int`, `null`, or the tag itself where it is odd.

    >>> from pathlib import Path
    >>> [scalar_tag(v) for _, v in compose("a: no\nb: 010\nc: 1e3\nd:", Path("x")).value]
    ['str', 'int', 'float', 'null']
    """
    return node.tag.removeprefix(_STANDARD)


def _syntax_error(path: Path, error: yaml.MarkedYAMLError) -> PromptError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else None
    problem = error.problem or error.context or "cannot be parsed"
    fix = ""
    if "'\\t'" in problem:
        fix = "indent with spaces: YAML allows no tab there"
    elif "single document" in (error.context or ""):
        problem, fix = "a second document starts here", "keep one prompt in one file"
    elif "undefined alias" in problem:
        fix = "define it with `&name` above, or quote the text that starts with `*`"
    elif "simple key" in (error.context or "") and error.context_mark is not None:
        line = error.context_mark.line + 1
        problem = "this line is neither `key: value` nor part of the text above"
        fix = "indent it as far as the text it belongs to"
    elif error.context and error.context_mark is not None:
        problem = f"{problem} ({error.context} that starts on line {error.context_mark.line + 1})"
    return _error(path, line, f"not YAML: {problem}", fix)


def _error(path: Path, line: int | None, message: str, fix: str = "") -> PromptError:
    return PromptError([Fault(path=path, line=line, message=message, fix=fix)])
