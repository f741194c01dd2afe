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

__all__ = ["advise_on_pytest", "merge_pyproject"]

_REGAUGE = """\
[tool.regauge]
# The simulated model: no LLM, no key, no network. Put `openai:gpt-5.4-mini` or another model here.
model = "sim:clerk-1"
"""
_PYTEST = """\
[tool.pytest.ini_options]
# deepeval comes with regauge and brings plugins: its own takes seconds to load, and pytest-asyncio
# warns unless its setting is there.
addopts = ["-p", "no:deepeval", "--import-mode=importlib"]
asyncio_default_fixture_loop_scope = "function"
"""
# pytest reads the first of these that is meant for it, and no other.
_OTHERS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SECTIONS = (("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]"))
# A word that settings of pytest contain once a plugin is dealt with, and the advice.
_ADVICE = (
    (
        "deepeval",
        'add "-p", "no:deepeval" to addopts of pytest: its plugin takes seconds to load',
    ),
    (
        "asyncio",
        'set asyncio_default_fixture_loop_scope = "function": without it, pytest-asyncio warns',
    ),
)
_FIX = "correct it first; nothing was written"


def merge_pyproject(root: Path) -> Planned:
    """What pyproject.toml becomes: the tables that are absent come at its end.

    Raises:
        ConfigError: It is no TOML, so neither pytest nor regauge would read it.
    """
    path = root / "pyproject.toml"
    if not os.path.lexists(path):
        other = _elsewhere(root)
        tables = [_REGAUGE] if other else [_PYTEST, _REGAUGE]
        advice = advise_on_pytest(root) if other else ""
        reason = f"{other}: {advice}" if advice else ""
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
    advice = ""
    if "pytest" not in tool and not _elsewhere(root):
        missing.append(_PYTEST)
    else:
        advice = advise_on_pytest(root)
    notes = [advice] if advice else []
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


def advise_on_pytest(root: Path) -> str:
    """The settings of pytest that keep plugins of deepeval quiet and are absent; empty for none.

    Args:
        root: Of the project.
    """
    path = root / (_elsewhere(root) or "pyproject.toml")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return "; ".join(advice for word, advice in _ADVICE if word not in text)


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
