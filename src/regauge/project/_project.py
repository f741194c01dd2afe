"""A project: its root, its files, and its settings with line numbers in errors."""

from __future__ import annotations

import os
import re
import tomllib
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from regauge.errors import ConfigError, Diagnostic, UsageError
from regauge.files import read_regular
from regauge.project._settings import ANY_NAME, TARGET_KINDS, Settings, tables_of
from regauge.wording import closest, cut, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails


# The header of a table, or a key with its equals sign.
_NAMED_LINE = re.compile(r"""\s*(\[\[?)?\s*((?:"[^"]*"|'[^']*'|[\w.-])+)\s*(?(1)\]|=)""")
_PART = re.compile(r"""("[^"]*"|'[^']*'|[^.\s]+)""")


def line_of(text: str, setting: Sequence[int | str]) -> int | None:
    r"""The line of a setting's key, else of the innermost table around it; None without both.

    Args:
        text: The file.
        setting: The setting's path below `[tool.regauge]`; a number is a place in a list of tables.

    >>> goals = "[[refine.goals]]\ntag = 1\n[[refine.goals]]\njudge = 2\ntag = 3"
    >>> line_of(goals, ("refine", "goals", 1, "tag"))
    5
    >>> line_of(goals, ("refine", "goals", 0, "judge"))
    1
    >>> a, b = "[tool.regauge.providers.a]", "[tool.regauge.providers.b]"
    >>> inline = f"{a}\nmax = 1\n{b}\nprices = {{m = {{}}}}"
    >>> line_of(inline, ("providers", "b", "prices", "m", "input"))
    4
    >>> line_of(inline, ("providers", "b", "max"))
    3
    """
    longest, line = 0, None
    table: tuple[int | str, ...] = ()
    counts = Counter[tuple[int | str, ...]]()
    for number, row in enumerate(text.splitlines(), 1):
        match = _NAMED_LINE.match(row)
        if match is None:
            continue
        path: tuple[int | str, ...] = tuple(part.strip("\"'") for part in _PART.findall(match[2]))
        if not match[1]:
            path = (*table, *path)
        else:
            if path[:2] == ("tool", "regauge"):
                path = path[2:]
            if match[1] == "[[":
                counts[path] += 1
                path = (*path, counts[path] - 1)
            table = path
        pairs = zip(path, setting, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if common > longest:
            longest, line = common, number
    return line


_BOUNDS = {
    "greater_than": ("gt", "a number above {}"),
    "greater_than_equal": ("ge", "a number of {} or more"),
    "less_than": ("lt", "a number below {}"),
    "less_than_equal": ("le", "a number of {} or less"),
    "too_short": ("min_length", "a list of length {} or more"),
}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text in quotes",
    "dict": "a table",
    "model": "a table",
    "list": "a list",
}


def setting_problems(
    error: ValidationError, table: Mapping[str, Any]
) -> dict[tuple[int | str, ...], str]:
    """The invalid settings by path, each with its problem and fix.

    Args:
        error: The validation error.
        table: The table `[tool.regauge]`.
    """
    items: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    for item in error.errors():
        items.setdefault(_path(item, table), []).append(item)
    return {setting: _problem(setting, alternatives) for setting, alternatives in items.items()}


def _path(item: ErrorDetails, table: object) -> tuple[int | str, ...]:
    """The path of a setting in the file, without the names of a union's alternatives."""
    setting: list[int | str] = []
    for part in item["loc"]:
        if isinstance(table, dict):
            settings = cast("dict[int | str, object]", table)
            if part not in settings and part == settings.get("kind"):
                continue  # the alternative of a union of targets
            if part in settings:
                table = settings[part]
                setting.append(part)
                continue
        if isinstance(table, list) and isinstance(part, int):
            table = cast("list[object]", table)[part]
        elif item["type"] != "missing":
            break
        setting.append(part)
    if item["type"].startswith("union_tag_"):
        setting.append("kind")
    return tuple(setting)


def _problem(setting: tuple[int | str, ...], items: list[ErrorDetails]) -> str:
    item = items[0]
    value: object = item["input"]
    key = next(str(part) for part in reversed(setting) if isinstance(part, str))
    kind = item["type"]
    if kind == "union_tag_invalid":  # the kind of a target
        value = item["input"]["kind"]
    header, quoted = _header(setting), _quote(value)
    match kind.partition("_")[0]:
        case "missing":
            return f"it is missing\n  fix: write it: {setting[-1]} = ..."
        case "value" | "extra":
            return item["msg"]
        case "list" if isinstance(value, dict) and header.startswith("[["):
            return f"must be a list of tables\n  fix: two brackets on each side: {header}"
        case "list":
            problem, fix = "a list", f"{key} = [...]"
        case "dict" | "model":
            problem, fix = "a table", f"write it below a line {header}"
        case _ if kind == "union_tag_not_found":
            expected = ", ".join(TARGET_KINDS)
            return f"it is missing\n  fix: write it: kind = ..., which is one of {expected}"
        case _:
            problem = " or ".join(_describe_expected(item) for item in items)
            names = re.findall(r"'([^']*)'", problem)
            entry = key if setting[-1] == key else f"each entry of {key}"
            near = did_you_mean(value, names) if isinstance(value, str) else ""
            fix = near or f"set {entry} to {problem}"
    return f"must be {problem}, not {quoted}\n  fix: {fix}"


def _quote(value: object) -> str:
    """A value of TOML on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | time):
        return str(value)
    return cut(repr(value), 60)


def _is_path(path: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether names lead to a table of the settings, or to one around it."""
    pairs = zip(path, names, strict=False)
    return len(path) >= len(names) and all(part in {name, ANY_NAME} for part, name in pairs)


def _header(setting: Sequence[int | str]) -> str:
    """The first line of a table of the settings.

    >>> _header(("targets",)), _header(("refine", "goals", 0))
    ('[tool.regauge.targets.NAME]', '[[tool.regauge.refine.goals]]')
    """
    names = [part for part in setting if isinstance(part, str)]
    table = next((table for table in tables_of() if _is_path(table.path, names)), None)
    path = ".".join(("tool", "regauge", *names, *(table.path[len(names) :] if table else ())))
    return f"[[{path}]]" if table and table.header.startswith("[[") else f"[{path}]"


def _describe_expected(item: ErrorDetails) -> str:
    """Describe the valid values of a setting."""
    kind, context = item["type"], item.get("ctx", {})
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return words.format(f"{context[name]:g}")
    if kind in {"literal_error", "union_tag_invalid"}:
        return str(context.get("expected") or f"one of {context['expected_tags']}")
    return _TYPES.get(kind.partition("_")[0], item["msg"])


CALIBRATION_SUFFIX = ".calibration.json"
"""The end of the names of calibration records, next to the labels."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """A directory with prompts, fixtures and evals in it."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The nearest directory, from `start` upwards, with a `[tool.regauge]` or a `prompts/`.

        Without one, the directory of the git repository, or `start` itself (by default the working
        directory).
        """
        origin = (start or Path.cwd()).resolve()
        for directory in (origin, *origin.parents):
            project = cls(root=directory)
            if project.exists or (directory / ".git").exists():
                return project
        return cls(root=origin)

    @property
    def exists(self) -> bool:
        """Return whether the directory has a `[tool.regauge]` or a `prompts/`."""
        try:
            return self.prompts_dir.is_dir() or b"[tool.regauge" in read_regular(self.pyproject)
        except OSError:  # the settings report a file that cannot be read
            return False

    @property
    def prompts_dir(self) -> Path:
        """The directory of prompt files and `prompts.lock`."""
        return self.root / "prompts"

    @property
    def fixtures_dir(self) -> Path:
        """The directory of golden datasets, recordings, baselines and the lock of long inputs."""
        return self.root / "fixtures"

    @property
    def golden_dir(self) -> Path:
        """The directory of golden datasets."""
        return self.fixtures_dir / "golden"

    @property
    def recordings_dir(self) -> Path:
        """The directory of committed recordings."""
        return self.fixtures_dir / "recordings"

    def recordings_path(self, name: str) -> Path:
        """The recordings file of a prompt or judge."""
        return self.recordings_dir / f"{name}.jsonl"

    def baseline_path(self, prompt: str) -> Path:
        """The baseline file of a prompt."""
        return self.fixtures_dir / "baselines" / f"{prompt}.json"

    @property
    def labels_dir(self) -> Path:
        """The directory of human labels and calibration records."""
        return self.fixtures_dir / "labels"

    @property
    def state_dir(self) -> Path:
        """The directory of runs and the local store; never committed."""
        return self.root / ".regauge"

    def prepare_state_dir(self, below: str = "") -> None:
        """Create `.regauge/`, which git ignores, and a directory below it.

        Raises:
            UsageError: A file has its name, or the directory cannot be created or written.
        """
        directory = self.state_dir / below
        try:
            directory.mkdir(parents=True, exist_ok=True)
            ignore = self.state_dir / ".gitignore"
            if not ignore.exists():
                ignore.write_text("# Runs and the local store belong to this machine.\n*\n")
        except OSError as error:
            raise self._no_state_dir(directory, error.strerror or str(error)) from error
        if not os.access(directory, os.W_OK | os.X_OK):
            raise self._no_state_dir(directory, "no permission to write")

    def _no_state_dir(self, directory: Path, reason: str) -> UsageError:
        """The error for a directory that cannot be written."""
        for path in (self.state_dir, directory):
            if not path.is_dir() and os.path.lexists(path):
                name = quote(str(path))
                message = f"{path} is a file, and runs are kept in a directory of this name"
                return UsageError(message, fix=f"move it away: mv {name} {name}.moved")
        above = next((path for path in (directory, *directory.parents) if path.is_dir()), self.root)
        return UsageError(
            f"{directory} cannot be written: {reason}; every run writes its record there, a replay "
            f"too\n  fix: give write permission for {above}, or run in a copy that can be written"
        )

    @property
    def run_command(self) -> str:
        """The command that runs the evals; pytest finds those that are not in `evals`."""
        return "pytest evals" if (self.root / "evals").exists() else "pytest"

    @property
    def pyproject(self) -> Path:
        """The path of pyproject.toml, which may not exist."""
        return self.root / "pyproject.toml"

    def relative(self, path: Path) -> Path:
        """A path for users: relative to the root if below it."""
        return path.relative_to(self.root) if path.is_relative_to(self.root) else path

    def shorten(self, text: str) -> str:
        """Make paths in a message relative to the root."""
        return text.replace(f"{self.root}{os.sep}", "")

    @cached_property
    def settings(self) -> Settings:
        """The settings in `[tool.regauge]`, or the defaults.

        Raises:
            ConfigError: The file does not parse, or a setting is unknown or out of range.
        """
        if not os.path.lexists(self.pyproject):
            return Settings()
        try:
            text = read_regular(self.pyproject).decode("utf-8")
            table: dict[str, Any] = tomllib.loads(text)
        except OSError as error:
            raise ConfigError([Diagnostic.unreadable(self.pyproject, error)]) from error
        except (ValueError, RecursionError) as error:
            place = re.search(r"\(at line (\d+), ", str(error))
            line = int(place[1]) if place else None
            words = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            fix = "correct the syntax; pytest and other tools read this file too"
            if read_regular(self.pyproject).startswith(BOM_UTF8):
                words, fix = "it begins with a byte order mark", "save it as UTF-8 without one"
            raise ConfigError.at_place(
                self.pyproject, f"not TOML: {words}", fix, line=line
            ) from error
        self._refuse_misspelt_table(table, text)
        for name in ("tool", "regauge"):
            content: object = table.get(name, {})
            if not isinstance(content, dict):
                match = re.search(rf"^[ \t]*(\[.*\b{name}\b.*\]|{name}\s*=)", text, re.MULTILINE)
                line = text.count("\n", 0, match.start()) + 1 if match is not None else None
                fix = "write settings below a line [tool.regauge]"
                message = f"{name!r} must be a table, not {content!r}"[:200]
                raise ConfigError.at_place(self.pyproject, message, fix, line=line)
            table = cast("dict[str, Any]", content)
        try:
            return Settings.model_validate(table)
        except ValidationError as error:
            problems = setting_problems(error, table)
            diagnostics = [
                _setting_error(self.pyproject, text, setting, problem)
                for setting, problem in problems.items()
            ]
            raise ConfigError(
                sorted(diagnostics, key=lambda diagnostic: diagnostic.line or 0)
            ) from error

    def _refuse_misspelt_table(self, document: Mapping[str, Any], text: str) -> None:
        """Refuse a name like `[tool.regauge]`, whose settings would have no effect."""
        tools = document.get("tool")
        tables_of_tools = cast("dict[str, object]", tools) if isinstance(tools, dict) else {}
        # A package that extends regauge may have a table `regauge-NAME`, and the name of the test
        # runner Gauge is less similar.
        tables = [name for name, value in Settings() if isinstance(value, dict | BaseModel)]
        fixes = {f"regauge{sign}{name}": f"regauge.{name}" for name in tables for sign in "-_"}
        for name in tables_of_tools:
            if get_close_matches("regauge", [name], cutoff=0.85):
                fixes[name] = "regauge"
        wrong: list[tuple[str, ...]] = [
            ("tool", name) for name in tables_of_tools if name in fixes and name != "regauge"
        ]
        if "regauge" in document and "regauge" not in tables_of_tools:
            wrong.append(("regauge",))
        if wrong:
            raise ConfigError(
                [
                    Diagnostic(
                        path=self.pyproject,
                        line=line_of(text, table),
                        message=f"[{'.'.join(table)}] has no effect",
                        fix=f"write [tool.{fixes.get(table[-1], 'regauge')}]",
                    )
                    for table in wrong
                ]
            )

    def setting_error(
        self, setting: Sequence[int | str], message: str, *, fix: str = ""
    ) -> Diagnostic:
        """The error of a setting that only shows in use, with its line.

        Args:
            setting: Its path below `[tool.regauge]`, such as `("refine", "goals", 0, "judge")`.
            message: The problem.
            fix: The fix.
        """
        try:
            text = self.pyproject.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        problem = f"{message}\n  fix: {fix}" if fix else message
        return _setting_error(self.pyproject, text, setting, problem)


def _setting_error(path: Path, text: str, setting: Sequence[int | str], problem: str) -> Diagnostic:
    """The error of a setting, with the line of its key if it is found."""
    problem, _, fix = problem.removeprefix("Value error, ").partition("\n  fix: ")
    if problem == "Extra inputs are not permitted":
        problem, fix = "no such setting", _fix_unknown(setting)
    name = ".".join(str(part) for part in ("tool", "regauge", *setting))
    return Diagnostic(path=path, line=line_of(text, setting), message=f"{name}: {problem}", fix=fix)


def _fix_unknown(setting: Sequence[int | str]) -> str:
    """The fix of an unknown setting: a similar one of its table, else the tables that have it."""
    *own_path, key = (part for part in setting if isinstance(part, str))
    own_names: dict[str, None] = {}
    headers: dict[str, None] = {}
    similar_fix = ""
    own_tables = 0  # several for a target, one for each kind
    kinds_by_name: dict[str, list[str]] = {}
    for path, kind, header, names in tables_of():
        longer = [name for name in names if name.startswith(f"{key}_") or name.endswith(f"_{key}")]
        near = longer[0] if len(longer) == 1 else closest(key, names)
        if len(path) == len(own_path) and _is_path(path, own_path):
            own_tables += 1
            own_names.update(dict.fromkeys(names))
            if near:
                kinds_by_name.setdefault(near, []).append(kind)
        elif key in names:
            headers[header] = None
        elif near:
            similar_fix = similar_fix or f"did you mean {near!r} of {header}?"
    for name, kinds in kinds_by_name.items():
        if len(kinds) == own_tables:
            return f"did you mean {name!r}?"
        similar_fix = f"{name!r} is a setting of targets of kind {', '.join(map(repr, kinds))}"
    exact_fix = f"move it to {' or '.join(headers)}" if headers else ""
    return exact_fix or similar_fix or f"remove it, or use one of {', '.join(own_names)}"
