"""The files of `regauge new`: the least that loads, to be filled by its writer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.prompts import prompt_files, prompt_name
from regauge.scaffold._piece import Piece, filled
from regauge.schemas import schema_text

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.prompts import Prompt

__all__ = ["new_eval", "new_judge", "new_prompt"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEMA = "prompts/prompt.schema.json"


def new_prompt(name: str, root: Path) -> list[Piece]:
    """A prompt file, and the schema its first line names where that is not there yet.

    Raises:
        UsageError: The name is none, or a prompt has it.
    """
    _refuse_taken(name, root)
    line = "# yaml-language-server: $schema=prompt.schema.json\n"
    text = line + filled("new_prompt.yml", title=_title(name))
    return [Piece(path=f"prompts/{name}.prompt.yml", text=text), *_schema(root)]


def new_judge(name: str, root: Path) -> list[Piece]:
    """A rubric: the prompt of a judge that asks a model.

    Raises:
        UsageError: The name is none, or a prompt has it.
    """
    _refuse_taken(name, root)
    line = "# yaml-language-server: $schema=../prompt.schema.json\n"
    text = line + filled("new_judge.yml", title=_title(name))
    return [Piece(path=f"prompts/judges/{name}.prompt.yml", text=text), *_schema(root)]


def new_eval(prompt: Prompt) -> Piece:
    """An eval of a prompt, with the judges that its response format suggests."""
    function = re.sub(r"\W+", "_", prompt.name).strip("_").lower()
    kind = str((prompt.response_format or {}).get("type", "text"))
    structured = kind in {"json_schema", "json_object"}
    text = filled(
        "new_eval.py.txt",
        name=prompt.name,
        function=function,
        judges="json_parses" if structured else "min_chars",
        calls='json_parses(kind="object")' if structured else "min_chars(1)",
    )
    return Piece(path=f"evals/test_{function}.py", text=text)


def _refuse_taken(name: str, root: Path) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a prompt\n"
            "  fix: a-z, A-Z, 0-9 and . _ - only, at most 100, such as alert-severity"
        )
    for path in prompt_files(root / "prompts"):
        if prompt_name(path).lower() == name.lower():
            raise UsageError(
                f"there is a prompt {prompt_name(path)!r} already: {path.relative_to(root)}\n"
                "  fix: choose another name: it stands for one prompt everywhere"
            )


def _title(name: str) -> str:
    words = re.sub(r"[._-]+", " ", name).strip()
    return words[:1].upper() + words[1:] if not words[:1].isdigit() else f"'{words}'"


def _schema(root: Path) -> list[Piece]:
    there = (root / _SCHEMA).exists()
    return [] if there else [Piece(path=_SCHEMA, text=schema_text("prompt"))]
