"""Files that a change edits and a reader should look at: recordings, baselines, code of evals."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.evidence import NONE_DRAWN
from regauge.gate.baselines import BaselineError
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.gate.base._commit import BaseCommit
    from regauge.gate.baselines import StoredHistory
    from regauge.runner import Suite

__all__ = ["code_of_evals", "edited_code", "edited_notes", "files_of_judges"]

_SHOWN: Final = 5
# By these a line of recordings is known; what it recorded stands under the others.
_KEYS: Final = ("digest", "key", "trial")
_RECORDED: Final = ("completion", "measurement", "float32")
# Files that set how pytest collects and runs evals.
_PYTEST_FILES: Final = frozenset(
    {"pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg"}
)


def edited_notes(at: BaseCommit, suites: Sequence[Suite], *, prompt_changed: bool) -> Iterator[str]:
    """Sentences on what a change edits besides prompts and could decide with.

    Recordings of the base that hold something else now are named by case: a gate without a key
    reads them. A baseline with fewer passes is named: later gates compare with it. Next to a
    changed prompt, so is code that runs in the gate, as the change has it.
    """
    recordings = at.repository.inside(at.project.recordings_dir)
    baselines = at.repository.inside(at.project.fixtures_dir / "baselines")
    for name in sorted(at.changed - {*at.renamed.values()}):
        if name.startswith(f"{recordings}/") and name.endswith(".jsonl"):
            replaced = _replaced(at, name)
            if replaced:
                # A vector is of a text, which may be of many cases.
                cases = sorted({case for case in replaced if case})
                named = first_of(cases, _SHOWN) if cases else plural(len(replaced), "vector")
                yield f"{name} replaces what was recorded for requests of the base: {named}"
        elif name.startswith(f"{baselines}/") and name.endswith(".json"):
            yield from _baseline_notes(at, name)
    if prompt_changed and (code := edited_code(at, suites)):
        files = first_of(code, _SHOWN)
        yield f"the change also edits code that runs in this gate or its workflow: {files}"


def edited_code(at: BaseCommit, suites: Iterable[Suite]) -> list[str]:
    """The changed files that run in this gate or its workflow, or set how it runs."""
    evals = code_of_evals(at).union(*(files_of_judges(at, suite) for suite in suites))
    return [name for name in sorted(at.changed) if name in evals or _is_set_up(at, name)]


def code_of_evals(at: BaseCommit) -> frozenset[str]:
    """The changed files that are code of evals, or imported by it."""
    top = f"{at.repository.top}/"
    loaded = {str(vars(module).get("__file__")) for module in [*sys.modules.values()]}
    evals = at.repository.inside(at.project.root / "evals")
    return frozenset(
        name
        for name in at.changed
        if name.endswith(".py")
        and (
            top + name in loaded
            or name.startswith(f"{evals}/")
            or PurePosixPath(name).name == "conftest.py"
        )
    )


def files_of_judges(at: BaseCommit, suite: Suite) -> frozenset[str]:
    """Files of the project that judges are made of, such as the program of a command."""
    names: set[str] = set()
    for judge in suite.judges:
        names |= {*cast("Mapping[str, str]", getattr(judge, "files", {}))}
    return frozenset(at.repository.inside(at.project.root / name) for name in names)


def _is_set_up(at: BaseCommit, name: str) -> bool:
    """Return whether a file is part of a workflow, or sets how pytest runs."""
    path = PurePosixPath(name)
    if path.name == "pyproject.toml":
        now = at.repository.top / name
        head = now.read_bytes() if now.is_file() else None
        return _pytest_settings(head) != _pytest_settings(at.repository.read(at.commit, name))
    return path.parts[0] == ".github" or path.name in _PYTEST_FILES


def _pytest_settings(data: bytes | None) -> object:
    try:
        tool = tomllib.loads((data or b"").decode("utf-8", "replace")).get("tool")
    except tomllib.TOMLDecodeError:
        return None
    return cast("dict[str, Any]", tool).get("pytest") if isinstance(tool, dict) else None


def _baseline_notes(at: BaseCommit, name: str) -> Iterator[str]:
    """Notes on losses of the base's record; `regauge baseline update` only adds trials."""
    path = at.repository.top / name
    try:
        data = at.repository.read(at.commit, name)
        base = at.baseline(data, shown=Path(name)) if data is not None else None
        head = at.baseline(path.read_bytes(), shown=Path(name)) if path.is_file() else None
    except BaselineError:
        return  # reported where the baseline is used
    for before in base.histories if base is not None else ():
        now = head.find(before.key) if head is not None else None
        record = f"{name}: the record of {before.version or 'the base'}"
        if now is None:
            yield f"{record} is gone; later gates compare without it"
        elif _has_fewer_passes(before, now):
            yield (
                f"{record} was edited: {_whole(before)} trials passed on the base, {_whole(now)}"
                " now; later gates compare with it"
            )


def _has_fewer_passes(before: StoredHistory, now: StoredHistory) -> bool:
    """Return whether any case has fewer trials or fewer passes than before."""
    pairs = (
        (case.whole, now.cases[case_id].whole if case_id in now.cases else NONE_DRAWN)
        for case_id, case in before.cases.items()
    )
    return any(new.passed < old.passed or new.failed < old.failed for old, new in pairs)


def _whole(history: StoredHistory) -> str:
    counts = [case.whole for case in history.cases.values()]
    return f"{sum(count.passed for count in counts)} of {sum(count.trials for count in counts)}"


def _replaced(at: BaseCommit, name: str) -> list[str]:
    """The case of each recorded line that differs from that of the base under the same key."""
    path = at.repository.top / name
    data = at.repository.read(at.commit, name)
    try:
        now = path.read_bytes()
    except OSError:  # what reads it for its answers reports that
        return []
    if data is None:
        return []
    before = _recorded(data)
    return [
        str(line.get("case", ""))
        for key, line in _recorded(now).items()
        if key in before and _content(before[key]) != _content(line)
    ]


def _recorded(data: bytes) -> dict[tuple[Any, ...], dict[str, Any]]:
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for raw in data.splitlines():
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue  # the loader of recordings reports it
        if isinstance(line, dict):
            known = cast("dict[str, Any]", line)
            lines[tuple(str(known.get(key)) for key in _KEYS)] = known
    return lines


def _content(line: dict[str, Any]) -> list[Any]:
    found = [line.get(name) for name in _RECORDED]
    if isinstance(found[0], dict):
        # Latency and price are no part of the content.
        completion = cast("dict[str, Any]", found[0])
        found[0] = [completion.get(name) for name in ("text", "tool_calls", "refusal")]
    return found
