"""JSON Schemas of the files that users write, for editors and for checks without regauge."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

__all__ = ["SCHEMAS", "schema_text"]

SCHEMAS: Final = {
    "prompt": "A prompt file, NAME.prompt.yml, or a rubric.",
    "golden": "A golden dataset in YAML, or one line of a JSONL file.",
    "settings": "A pyproject.toml with the tables of [tool.regauge].",
}


def schema_text(name: str) -> str:
    """The text of a schema, one of `SCHEMAS`."""
    return files("regauge.schemas").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
