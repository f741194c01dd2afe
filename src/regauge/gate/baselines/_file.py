"""`fixtures/baselines/<prompt>.json`: read with a line for every fault, written in one step."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from pydantic import ValidationError

from regauge.atomic import write_whole
from regauge.errors import Fault, FaultyFileError
from regauge.gate.baselines._document import BaselineDocument
from regauge.gate.baselines._text import SCHEMA_VERSION, baseline_text
from regauge.regular_file import read_regular
from regauge.strict_json import TwiceError, read_json, unique

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from regauge.digests import JSON
    from regauge.gate.baselines._baseline import Baseline
    from regauge.project import Project

__all__ = [
    "BaselineError",
    "baseline_faults",
    "baseline_path",
    "load_baseline",
    "parse_baseline",
    "save_baseline",
]

# The lists of histories behind the first one.
_LATER_LISTS = frozenset({"previous", "anchors"})
_KEY = re.compile(r'^\s*(?:\{\s*)?("(?:[^"\\]|\\.)*")\s*:')


def _rebuild(path: Path) -> str:
    """What mends every baseline, also where main's copy is broken as well."""
    return (
        "take the last copy that was whole from git, or delete the file; then run:"
        f" regauge baseline update {path.stem}"
    )


class BaselineError(FaultyFileError):
    """A baseline that cannot be read; nothing is compared with half of it."""


def baseline_path(project: Project, prompt: str) -> Path:
    """Where the baseline of a prompt is."""
    return project.baseline_path(prompt)


def parse_baseline(data: bytes, *, shown: Path) -> Baseline:
    """Read the content of a baseline.

    Args:
        data: What the file holds, now or in a commit.
        shown: The file, as people write it.

    Raises:
        BaselineError: It is no baseline; every fault is listed with its line.
    """
    document, text = _document(data, shown)
    given = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(given, int) and given != SCHEMA_VERSION:
        newer = given > SCHEMA_VERSION
        fix = "use the regauge that wrote it, or a newer one" if newer else _rebuild(shown)
        message = f"schema version {given}; this regauge reads version {SCHEMA_VERSION}"
        raise BaselineError([Fault(path=shown, line=None, message=message, fix=fix)])
    try:
        return BaselineDocument.model_validate(document).value()
    except ValidationError as error:
        places = _Places(text)
        faults = [
            Fault(
                path=shown,
                line=places.line((*item["loc"], *_shown_key(item))),
                message=f"{_dotted(item['loc'])}: {item['msg'].removeprefix('Value error, ')}",
            )
            for item in error.errors()
        ]
        *others, last = sorted(faults, key=lambda fault: fault.line or 0)
        raise BaselineError([*others, replace(last, fix=_rebuild(shown))]) from error


class Parse(Protocol):
    """Reads the content of a baseline, as `parse_baseline` does."""

    def __call__(self, data: bytes, *, shown: Path) -> Baseline: ...


def load_baseline(path: Path, *, shown: Path, parse: Parse = parse_baseline) -> Baseline | None:
    """Read a baseline; None where there is no such file.

    Raises:
        BaselineError: It cannot be read; every fault is listed with its line.
    """
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError([Fault.unreadable(shown, error)]) from error
    return parse(data, shown=shown)


def baseline_faults(project: Project) -> list[Fault]:
    """What is wrong with the baselines of a project, whoever uses them."""
    faults: list[Fault] = []
    for path in sorted((project.fixtures_dir / "baselines").glob("[!.]*.json")):
        try:
            load_baseline(path, shown=project.relative(path))
        except BaselineError as error:
            faults.extend(error.faults)
    return faults


def save_baseline(path: Path, baseline: Baseline) -> bool:
    """Write a baseline in one step; returns whether the file differs from what was there.

    Raises:
        BaselineError: It cannot be written.
    """
    content = baseline_text(baseline).encode()
    try:
        if path.is_file() and path.read_bytes() == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}"
        raise BaselineError([Fault(path=path, line=None, message=message)]) from error
    return True


def _document(data: bytes, shown: Path) -> tuple[JSON, str]:
    """The JSON of a baseline, and its text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _broken(shown, None, f"not UTF-8: {error.reason}") from error
    try:
        return cast("JSON", read_json(text, object_pairs_hook=unique)), text
    except json.JSONDecodeError as error:
        conflict = re.search(r"^(<{7}|={7}|>{7})", text, re.MULTILINE)
        line = text[: conflict.start()].count("\n") + 1 if conflict else error.lineno
        message = "a merge conflict was left here" if conflict else f"not JSON: {error.msg}"
        raise _broken(shown, line, message) from error
    except TwiceError as error:
        named = [n for n, line in enumerate(text.splitlines(), 1) if _key_of(line) == error.key]
        raise _broken(shown, named[-1] if named else None, f"{error.key!r} stands twice") from error
    except ValueError as error:
        raise _broken(shown, None, f"not JSON: {error}") from error


def _broken(path: Path, line: int | None, message: str) -> BaselineError:
    return BaselineError([Fault(path=path, line=line, message=message, fix=_rebuild(path))])


def _shown_key(item: ErrorDetails) -> tuple[str, ...]:
    key = item.get("ctx", {}).get("key")
    return (key,) if isinstance(key, str) else ()


def _dotted(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place) or "the file"


def _key_of(line: str) -> str | None:
    match = _KEY.match(line)
    return cast("str", json.loads(match[1])) if match else None


class _Places:
    """On which lines the keys of a baseline stand."""

    def __init__(self, text: str) -> None:
        self._keys: list[tuple[int, int, str]] = []
        self._starts: dict[str, int] = {}
        history = -1
        for number, line in enumerate(text.splitlines(), 1):
            key = _key_of(line)
            if key is None:
                continue
            if key == "prompt_digest":
                history += 1
            elif key in _LATER_LISTS:
                self._starts[key] = history + 1
            self._keys.append((history, number, key))

    def line(self, place: tuple[int | str, ...]) -> int | None:
        """The line of the innermost key of a place that begins a line."""
        wanted = [part for part in place if isinstance(part, str)]
        index = next((part for part in place if isinstance(part, int)), None)
        if index is not None:
            index += self._starts.get(wanted[0], 0)
        for name in reversed(wanted):
            for history, number, key in self._keys:
                if key == name and index in {None, history}:
                    return number
        return None
