"""Files next to a changed prompt that a reader should look at: recordings, evals, workflows."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.gate.base._commit import BaseCommit

__all__ = ["edited_notes"]

_SHOWN: Final = 5
# By these a line of recordings is known; what it recorded stands under the others.
_KEYS: Final = ("digest", "key", "trial")
_RECORDED: Final = ("completion", "measurement", "float32")


def edited_notes(at: BaseCommit) -> Iterator[str]:
    """Sentences on what a change edits besides prompts and could decide with.

    Recordings of the base that hold something else now are named by case: a gate without a key
    reads them. Code of evals, `conftest.py` and workflows run as the change has them.
    """
    recordings = at.repository.inside(at.project.recordings_dir)
    code: list[str] = []
    for name in sorted(at.changed):
        if name.startswith(f"{recordings}/") and name.endswith(".jsonl"):
            replaced = _replaced(at, name)
            if replaced:
                # A vector is of a text, which may be of many cases.
                cases = sorted({case for case in replaced if case})
                named = _first(cases) if cases else plural(len(replaced), "vector")
                yield f"{name} replaces what was recorded for requests of the base: {named}"
        elif _runs(name, evals=at.repository.inside(at.project.root / "evals")):
            code.append(name)
    if code:
        yield f"the change also edits code that runs in this gate or its workflow: {_first(code)}"


def _runs(name: str, *, evals: str) -> bool:
    path = PurePosixPath(name)
    in_evals = name.startswith(f"{evals}/") and path.suffix == ".py"
    return path.name == "conftest.py" or path.parts[0] == ".github" or in_evals


def _replaced(at: BaseCommit, name: str) -> list[str]:
    """The case of each recorded line that differs from that of the base under the same key."""
    path = at.repository.top / name
    data = at.repository.read(at.commit, name)
    if data is None or not path.is_file():
        return []
    before = _recorded(data)
    return [
        str(line.get("case", ""))
        for key, line in _recorded(path.read_bytes()).items()
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


def _first(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    )
