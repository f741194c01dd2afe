"""Files of a source: read only below its repository, with line numbers."""

from __future__ import annotations

import csv
import glob
import io
import itertools
import json
import os
import re
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

from regauge.errors import Diagnostic, InvalidFileError
from regauge.files import read_regular
from regauge.importers._description import SourcePlace
from regauge.strict_json import is_list, is_mapping, refuse_constant
from regauge.yaml_document import (
    StrictReader,
    YamlError,
    compose_document,
    line_of,
    scalar_resolvers,
    scalar_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Files to import are untrusted: these bounds stop a file, a bundle, nested or aliased values and
# patterns before they fill the memory. Real suites are far below them.
_BYTES_MAX: Final = 16 * 1024 * 1024
_ALL_BYTES_MAX: Final = 256 * 1024 * 1024
_NAME_MAX: Final = 255
_MESSAGE_MAX: Final = 300
_SHOWN: Final = 100
_GLOB_MAX: Final = 2_000
_MARKERS: Final = (
    "package.json", "pyproject.toml", "LICENSE*", "LICENCE*", "README*", "go.mod", "Cargo.toml",
    ".gitignore",
)  # fmt: skip
_GLOB_PART: Final = re.compile(r"(?<=[^/])\*\*+|\*\*+(?=[^/])")
_GAP: Final = re.compile(r"[\s,]*")
_AGAIN: Final = "correct the file, or export it again"


class SourceError(Exception):
    """A part of a source that cannot be read; the rest can.

    Args:
        message: One line; a long one, such as a text that is not a path, is cut.
    """

    def __init__(self, message: str) -> None:
        text = " ".join(message.split())
        cut = len(text) > _MESSAGE_MAX
        super().__init__(f"{text[:_SHOWN]} ... {text[-_SHOWN:]}" if cut else text)


class Table(dict[str, Any]):
    """A mapping of a file, with the line of each key.

    Attributes:
        place: The line where it begins.
        lines: By key; without one, the value has the place of the mapping.
    """

    def __init__(self, place: SourcePlace, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.place = place
        self.lines: dict[str, int] = {}


class Items(list[Any]):
    """A list of a file, with the line of each item; without any, items have the list's place."""

    def __init__(self, place: SourcePlace, values: Iterable[Any] = ()) -> None:
        super().__init__(values)
        self.place = place
        self.lines: list[int] = []


def place_of(
    container: object, key: str | int | None = None, *, otherwise: SourcePlace
) -> SourcePlace:
    """The line of a value in its file.

    Args:
        container: A `Table` or `Items`; any other value has the place of `otherwise`.
        key: The key or the number of the item.
    """
    if isinstance(container, Table):
        line = container.lines.get(str(key)) if key is not None else None
        return SourcePlace(path=container.place.path, line=line) if line else container.place
    if isinstance(container, Items):
        if isinstance(key, int) and key < len(container.lines):
            return SourcePlace(path=container.place.path, line=container.lines[key])
        return container.place
    return otherwise


def placed(items: Sequence[Any], otherwise: SourcePlace) -> Iterator[tuple[Any, SourcePlace]]:
    """The items of a list, each with its place."""
    for number, item in enumerate(items):
        yield item, place_of(items, number, otherwise=otherwise)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader for the scalars of YAML 1.2, as other tools read them."""

    yaml_implicit_resolvers = scalar_resolvers()


class SourceTree:
    """The files below one directory; nothing outside of it is read, and no link is followed.

    Args:
        root: The directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._bytes_left = _ALL_BYTES_MAX

    @classmethod
    def containing(cls, path: Path, *, project: Path) -> SourceTree:
        """The repository of a file: that of git, the project, or the nearest directory like one.

        Args:
            path: A file or directory.
            project: The root of the project that imports.
        """
        start = path.resolve() if path.is_dir() else path.resolve().parent
        above = [start, *start.parents]
        for directory in above:
            if (directory / ".git").exists():
                return cls(directory)
        if start.is_relative_to(project.resolve()):
            return cls(project)
        home = Path.home()
        for directory in above[:-1]:
            if directory == home:
                break
            if any(next(directory.glob(marker), None) for marker in _MARKERS):
                return cls(directory)
        return cls(start)

    def relative(self, path: Path) -> str:
        """A path below the root, with slashes."""
        return path.relative_to(self.root).as_posix()

    def resolve(self, reference: str, base: Path) -> Path:
        """The path of a reference such as `file://../data.csv`; it may not exist.

        Args:
            base: The directory that it is relative to; the root, where it exists only there.

        Raises:
            SourceError: It leads out of the repository, or over a link.
        """
        text = reference.removeprefix("file://")
        if "\0" in text:
            raise SourceError("the name of the file has a zero byte")
        if any(len(part.encode()) > _NAME_MAX for part in re.split(r"[\\/]", text)):
            raise SourceError(f"{reference} is not a name of a file")
        if re.match(r"[A-Za-z]:[\\/]|\\\\", text) or text.startswith("~"):
            raise SourceError(f"{reference} is outside of the repository")
        if "\\" in text:
            text = PureWindowsPath(text).as_posix()
        # `resolve` would follow links.
        path, below_root = (
            Path(os.path.normpath(directory / text)) for directory in (base, self.root)
        )
        if not path.exists() and below_root.exists():
            path = below_root
        if not path.is_relative_to(self.root):
            raise SourceError(f"{reference} is outside of the repository")
        self._refuse_links(path, reference)
        return path

    def find(self, reference: str, base: Path) -> list[Path]:
        """The files of a reference, which may be a pattern with `*`, in their order by name.

        Raises:
            SourceError: As for `resolve`; or no file matches.
        """
        if not glob.has_magic(reference.removeprefix("file://")):
            path = self.resolve(reference, base)
            if not path.exists():
                raise SourceError(f"{self.relative(path)} does not exist")
            return [path]
        paths = [self.resolve(reference, place) for place in (base, self.root)]
        patterns = [_GLOB_PART.sub("*", self.relative(path)) for path in paths]
        for pattern in patterns:
            try:
                matches = (path for path in self.root.glob(pattern) if path.is_file())
                matched = [*itertools.islice(matches, _GLOB_MAX + 1)]
            except (ValueError, NotImplementedError, OSError) as error:
                raise SourceError(f"{pattern} is not a pattern: {error}") from error
            if len(matched) > _GLOB_MAX:
                raise SourceError(f"{pattern} matches more than {_GLOB_MAX:,} files")
            if plain := [path for path in matched if not self._is_linked(path)]:
                return sorted(plain)
        raise SourceError(f"{patterns[0]} matches no file")

    def read_text(self, path: Path) -> str:
        """The text of a file below the root.

        Raises:
            SourceError: It cannot be read, is too large or is not UTF-8.
        """
        name, data = self.relative(path), self.read_bytes(path)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise SourceError(f"{name}:{line} is not UTF-8") from error
        return text.replace("\r\n", "\n")

    def read_bytes(self, path: Path, *, bytes_max: int = _BYTES_MAX) -> bytes:
        """The content of a file below the root.

        Raises:
            SourceError: It cannot be read, or is too large.
        """
        name = self.relative(path)
        self._refuse_links(path, name)
        try:
            data = read_regular(path, bytes_max=min(bytes_max, self._bytes_left))
        except FileNotFoundError:
            raise SourceError(f"{name} does not exist") from None
        except OSError as error:
            raise SourceError(f"{name} cannot be read: {error.strerror or error}") from error
        self._bytes_left -= len(data)
        return data

    def read_data(self, path: Path) -> Any:
        """The document of a CSV, JSON Lines or JSON file, by its suffix.

        Raises:
            InvalidFileError: It is none, at its line.
            SourceError: It cannot be read.
        """
        if path.suffix == ".csv":
            return self.read_csv(path)
        return self.read_json_lines(path) if path.suffix == ".jsonl" else self.read_json(path)

    def read_yaml(self, path: Path, text: str | None = None) -> Any:
        """The document of a YAML or JSON file, with lines.

        Raises:
            InvalidFileError: It is not YAML, at its line.
            SourceError: It cannot be read.
        """
        text = self.read_text(path) if text is None else text
        if path.suffix == ".json":
            text = _as_yaml(text)
        name = self.relative(path)
        try:
            try:
                node = compose_document(text, _Loader)
            except YamlError:  # the loader in Python explains errors better
                node = compose_document(text)
            return None if node is None else _TableReader(name).json(node, "the file")
        except YamlError as error:
            raise _faulty(name, error.line, str(error), error.fix or "correct the file") from error

    def read_json(self, path: Path) -> Any:
        """The document of a JSON file, with the lines of the entries of a list.

        Raises:
            InvalidFileError: It is not JSON, at its line.
            SourceError: It cannot be read.
        """
        name, text = self.relative(path), self.read_text(path)
        try:
            value: object = json.loads(text, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            line = error.lineno if isinstance(error, json.JSONDecodeError) else None
            raise _faulty(name, line, f"not JSON: {error}", _AGAIN) from error
        located = _locate(value, name, 1)
        if isinstance(located, Items):
            decoder, position, line = json.JSONDecoder(), text.index("[") + 1, 1
            line += text.count("\n", 0, position)
            for number, part in enumerate(cast("list[object]", value)):
                gap = _GAP.match(text, position)
                start = gap.end() if gap else position
                line += text.count("\n", position, start)
                located[number] = _locate(part, name, line)
                located.lines.append(line)
                position = decoder.raw_decode(text, start)[1]
                line += text.count("\n", start, position)
        return located

    def read_csv(self, path: Path) -> Items:
        """The rows of a CSV file by the names in its first line, with lines.

        Raises:
            InvalidFileError: It is not CSV, or a row is longer than the first line.
            SourceError: It cannot be read.
        """
        name = self.relative(path)
        rows = Items(SourcePlace(path=name))
        reader = csv.DictReader(io.StringIO(self.read_text(path), newline=""), strict=True)
        line = 1
        try:
            for row in reader:
                if None in row:
                    raise _faulty(
                        name, line + 1, "the row has more cells than the first line", _AGAIN
                    )
                values = {key: value for key, value in row.items() if value is not None}
                rows.append(_locate(values, name, line + 1))
                rows.lines.append(line + 1)
                line = reader.line_num
        except csv.Error as error:
            raise _faulty(name, reader.line_num, f"not CSV: {error}", _AGAIN) from error
        return rows

    def read_json_lines(self, path: Path) -> Items:
        """The documents of a JSON Lines file, with lines.

        Raises:
            InvalidFileError: A line is not JSON.
            SourceError: It cannot be read.
        """
        name = self.relative(path)
        items = Items(SourcePlace(path=name))
        for number, line in enumerate(self.read_text(path).split("\n"), start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line, parse_constant=refuse_constant)
            except (ValueError, RecursionError) as error:
                raise _faulty(name, number, f"not JSON: {error}", _AGAIN) from error
            items.append(_locate(value, name, number))
            items.lines.append(number)
        return items

    def _is_linked(self, path: Path) -> bool:
        return any(
            part.is_symlink()
            for part in (path, *path.parents)
            if part.is_relative_to(self.root) and part != self.root
        )

    def _refuse_links(self, path: Path, reference: str) -> None:
        if self._is_linked(path):
            raise SourceError(f"{reference} leads over a link, which is not followed")


def _as_yaml(text: str) -> str:
    """Convert JSON to text that YAML reads: no escapes beyond 16 bits, and no tabs."""
    text = re.sub(
        r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}",
        lambda pair: str(json.loads(f'"{pair[0]}"')),
        text,
    )
    return text.replace("\t", " ")


def _locate(value: object, path: str, line: int) -> Any:
    """Give all containers of a JSON value the same line."""
    place = SourcePlace(path=path, line=line)
    if is_mapping(value):
        return Table(place, {key: _locate(part, path, line) for key, part in value.items()})
    if is_list(value):
        return Items(place, (_locate(part, path, line) for part in value))
    return value


def _faulty(path: str, line: int | None, message: str, fix: str = "") -> InvalidFileError:
    return InvalidFileError([Diagnostic(path=Path(path), line=line, message=message, fix=fix)])


class _TableReader(StrictReader):
    """Reads the values of one YAML file, each mapping and list with its lines; tags are ignored."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def json(self, node: yaml.Node, subject: str, above: tuple[int, ...] = ()) -> Any:
        """The value of a node."""
        value: Any = super().json(node, subject, above)
        if not isinstance(node, yaml.CollectionNode):
            return value
        place = SourcePlace(path=self._name, line=line_of(node))
        if is_mapping(value):
            table = Table(place, value)
            table.lines = {key.value: line_of(key) for key, _ in node.value}
            return table
        items = Items(place, value)
        items.lines = [line_of(item) for item in node.value]
        return items

    def scalar(self, node: yaml.Node, subject: str) -> Any:
        """The value of a scalar; its text if it is not JSON."""
        del subject
        try:
            return scalar_value(node)
        except ValueError:
            return str(node.value)

    def refuse_tag(self, node: yaml.Node, usual: str, subject: str) -> None:
        """Ignore a tag."""
