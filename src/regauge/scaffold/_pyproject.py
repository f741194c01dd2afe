"""Adds what regauge needs to a pyproject.toml; what stands in it stays byte for byte."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import ConfigError, Fault
from regauge.regular_file import read_regular
from regauge.scaffold._piece import Planned

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["merge_pyproject"]

_REGAUGE = """\
[tool.regauge]
# The simulated model: no LLM, no key, no network. Put `openai:gpt-5-mini` or another model here.
model = "sim:clerk-1"
"""
_PYTEST = """\
[tool.pytest.ini_options]
# deepeval comes with regauge, and its plugin takes seconds to load.
addopts = ["-p", "no:deepeval", "--import-mode=importlib"]
"""
# pytest reads the first of these that is meant for it, and no other.
_OTHERS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SECTIONS = (("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]"))
_ADDOPTS = 'add "-p", "no:deepeval" to addopts of pytest: its plugin takes seconds to load'
_FIX = "mend it first; nothing was written"


def merge_pyproject(root: Path) -> Planned:
    """What pyproject.toml becomes: the tables that are absent come at its end.

    Raises:
        ConfigError: It is no TOML, so neither pytest nor regauge would read it.
    """
    path = root / "pyproject.toml"
    if not os.path.lexists(path):
        tables = [_REGAUGE] if _elsewhere(root) else [_PYTEST, _REGAUGE]
        reason = f"{_elsewhere(root)}: {_ADDOPTS}" if _elsewhere(root) else ""
        return Planned(path=path, action="write", text="\n".join(tables), reason=reason)
    try:
        text = read_regular(path).decode("utf-8")
        tool = _tool(text)
    except OSError as error:
        raise ConfigError([Fault.unreadable(path, error)]) from error
    except ValueError as error:
        fault = Fault(path=path, line=None, message=f"not TOML: {error}", fix=_FIX)
        raise ConfigError([fault]) from error
    missing: list[str] = []
    notes: list[str] = []
    if "pytest" not in tool and not _elsewhere(root):
        missing.append(_PYTEST)
    elif "no:deepeval" not in text:
        notes.append(_ADDOPTS)
    if "regauge" not in tool:
        missing.append(_REGAUGE)
    if not missing:
        return Planned(path=path, action="keep", reason="; ".join(["has its tables", *notes]))
    names = " and ".join(table.split("\n", 1)[0] for table in missing)
    merged = _appended(text, missing)
    try:
        _tool(merged)
    except ValueError:
        reason = f"{names} cannot be added at its end: `tool` is written as one value"
        return Planned(path=path, action="keep", reason=reason)
    return Planned(path=path, action="add", text=merged, reason="; ".join([names, *notes]))


def _tool(text: str) -> dict[str, Any]:
    tool = tomllib.loads(text).get("tool", {})
    if not isinstance(tool, dict):
        raise ValueError("`tool` is no table")  # noqa: TRY004 - as tomllib's own faults
    return cast("dict[str, Any]", tool)


def _elsewhere(root: Path) -> str:
    """The file other than pyproject.toml that pytest takes its settings from, if one does."""
    for name in _OTHERS:
        if (root / name).is_file():
            return name
    for name, section in _SECTIONS:
        file = root / name
        if file.is_file() and section in file.read_text(encoding="utf-8", errors="replace"):
            return name
    return ""


def _appended(text: str, tables: list[str]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    gap = end if text.strip() else ""
    before = text if text.endswith("\n") or not text else text + end
    return before + gap + "\n".join(tables).replace("\n", end)
