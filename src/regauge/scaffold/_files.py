"""Files to write: plans, additions to pyproject.toml, templates."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Literal, cast

from regauge.errors import ConfigError, Diagnostic, UsageError
from regauge.files import read_regular
from regauge.prompts import prompt_files, prompt_name
from regauge.schemas import schema_text

if TYPE_CHECKING:
    from regauge.prompts import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file to create.

    Attributes:
        path: The path below the project's root, with slashes.
        text: The full content.
    """

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """The planned change of one file.

    Attributes:
        path: The file.
        action: `write` a new file, `add` lines to an existing one, or `keep` it.
        text: The full new content; empty for `keep`.
        reason: The reason to keep it, or the added part.
        advice: Problems of pytest's settings, each with its fix.
    """

    path: Path
    action: Literal["write", "add", "keep"]
    text: str = ""
    reason: str = ""
    advice: tuple[str, ...] = ()


def refuse_blocked(root: Path, path: str) -> None:
    """Check that no file has the name of a parent directory.

    Raises:
        UsageError: A file has.
    """
    for parent in Path(path).parents:
        directory = root / parent
        if directory.exists() and not directory.is_dir():
            raise UsageError(
                f"{parent} is a file, and {path} needs a directory of that name; nothing was"
                f" written\n  fix: move or rename {parent}, then run the command again"
            )


def template(name: str) -> str:
    """The text of a template of this package."""
    return files("regauge.scaffold").joinpath("templates", name).read_text(encoding="utf-8")


def fill_template(name: str, /, **values: str) -> str:
    """Fill the `$names` of a template; other `$` stay."""
    return Template(template(name)).safe_substitute(values)


_REGAUGE = """\
[tool.regauge]
# The simulated model: no LLM, no key, no network. Put `openai:gpt-5.4-mini` or another model here.
model = "sim:clerk-1"
"""
_PYTEST = """\
[tool.pytest.ini_options]
# deepeval comes with regauge; its own plugin of pytest takes seconds to load.
addopts = ["-p", "no:deepeval", "--import-mode=importlib"]
"""
# pytest reads only the first of these that has its settings.
_OTHERS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_SECTIONS = (("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]"))
_FIX = "correct it first; nothing was written"


def merge_pyproject(root: Path) -> PlannedFile:
    """Plan pyproject.toml: missing tables are added at its end.

    Raises:
        ConfigError: It is not TOML, so neither pytest nor regauge would read it.
    """
    path = root / "pyproject.toml"
    if not os.path.lexists(path):
        other = _foreign_settings(root)
        tables = [_REGAUGE] if other else [_PYTEST, _REGAUGE]
        return PlannedFile(
            path=path,
            action="write",
            text="\n".join(tables),
            reason=f"pytest has its settings in {other}" if other else "",
            advice=_advice(root) if other else (),
        )
    try:
        text = read_regular(path).decode("utf-8")
        tool = _tool(text)
    except OSError as error:
        raise ConfigError([Diagnostic.unreadable(path, error)]) from error
    except ValueError as error:
        raise ConfigError.at_place(path, f"not TOML: {error}", fix=_FIX) from error
    missing = [_PYTEST] if "pytest" not in tool and not _foreign_settings(root) else []
    advice = () if missing else _advice(root)
    if "regauge" not in tool:
        missing.append(_REGAUGE)
    if not missing:
        return PlannedFile(path=path, action="keep", reason="has its tables", advice=advice)
    names = " and ".join(table.split("\n", 1)[0] for table in missing)
    merged = _append(text, missing)
    try:
        _tool(merged)
    except ValueError:
        reason = f"{names} cannot be added at its end: `tool` is written as one value"
        return PlannedFile(path=path, action="keep", reason=reason, advice=advice)
    return PlannedFile(path=path, action="add", text=merged, reason=names, advice=advice)


def _advice(root: Path) -> tuple[str, ...]:
    return tuple(f"{effect}\n  fix: {fix}" for effect, fix in advise_on_pytest(root))


def advise_on_pytest(root: Path) -> list[tuple[str, str]]:
    """Settings of pytest that slow evals or leave them out: the effect and the fix of each.

    Args:
        root: The project's root.
    """
    path = root / (_foreign_settings(root) or "pyproject.toml")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    advice: list[tuple[str, str]] = []
    if "deepeval" not in text:
        effect = "deepeval's plugin loads in every run of pytest, which takes seconds"
        advice.append((effect, 'add "-p", "no:deepeval" to addopts of pytest'))
    if "python_files" in text and "test_*" not in text:
        advice.append(("pytest leaves out files of evals", "add test_*.py to python_files"))
    return advice


def _tool(text: str) -> dict[str, Any]:
    tool = tomllib.loads(text).get("tool", {})
    if not isinstance(tool, dict):
        raise ValueError("`tool` is not a table")  # noqa: TRY004 - as errors of tomllib
    return cast("dict[str, Any]", tool)


def _foreign_settings(root: Path) -> str:
    """The file with pytest's settings other than pyproject.toml; empty without one."""
    for name, section in (*((name, "") for name in _OTHERS), *_SECTIONS):
        file = root / name
        if file.is_file() and section in file.read_text(encoding="utf-8", errors="replace"):
            return name
    return ""


def _append(text: str, tables: list[str]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    gap = end if text.strip() else ""
    before = text if text.endswith("\n") or not text else text + end
    return before + gap + "\n".join(tables).replace("\n", end)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEMA = "prompts/prompt.schema.json"


def new_prompt(name: str, root: Path, *, is_rubric: bool = False) -> list[NewFile]:
    """A prompt file or a rubric, the prompt of an LLM judge; and its schema if that is missing.

    Raises:
        UsageError: The name is invalid, or a prompt has it.
    """
    _refuse_taken(name, root)
    folder, up = ("prompts/judges", "../") if is_rubric else ("prompts", "")
    line = f"# yaml-language-server: $schema={up}prompt.schema.json\n"
    text = fill_template(f"new_{'judge' if is_rubric else 'prompt'}.yml", title=_title(name))
    files = [NewFile(path=f"{folder}/{name}.prompt.yml", text=line + text)]
    if not (root / _SCHEMA).exists():
        files.append(NewFile(path=_SCHEMA, text=schema_text("prompt")))
    return files


def new_eval(prompt: Prompt) -> NewFile:
    """An eval of a prompt, with judges for its response format."""
    kind = str((prompt.response_format or {}).get("type", "text"))
    return _eval(
        prompt.name,
        f"Tests the prompt `{prompt.name}` on its golden cases.",
        structured=kind in {"json_schema", "json_object"},
    )


def new_target_eval(name: str, target: str) -> NewFile:
    """An eval of an application.

    Args:
        name: The dataset's name.
        target: The `target` of `golden`.

    Raises:
        UsageError: The name is invalid.
    """
    _refuse_name(name)
    heading = f"Test `{target}` on the golden cases of `{name}`."
    return _eval(name, heading, target=f' target="{target}",')


def _eval(name: str, heading: str, *, target: str = "", structured: bool = False) -> NewFile:
    function = re.sub(r"\W+", "_", name).strip("_").lower()
    text = fill_template(
        "new_eval.py.txt",
        name=name,
        function=function,
        heading=heading,
        target=target,
        judges="json_parses" if structured else "min_chars",
        calls='json_parses(kind="object")' if structured else "min_chars(1)",
    )
    return NewFile(path=f"evals/test_{function}.py", text=text)


def _refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        fix = "a-z, A-Z, 0-9 and . _ - only, at most 100, such as alert-severity"
        raise UsageError(f"{name!r} cannot be the name of a prompt or dataset", fix=fix)


def _refuse_taken(name: str, root: Path) -> None:
    _refuse_name(name)
    for path in prompt_files(root / "prompts"):
        if prompt_name(path).lower() == name.lower():
            message = f"there is a prompt {prompt_name(path)!r} already: {path.relative_to(root)}"
            fix = "choose another name: a name identifies one prompt"
            raise UsageError(message, fix=fix)


def _title(name: str) -> str:
    words = re.sub(r"[._-]+", " ", name).strip()
    return words[:1].upper() + words[1:] if not words[:1].isdigit() else f"'{words}'"
