"""Writes the schemas anew after what they describe has changed: `python -m regauge.schemas`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.schemas._golden import golden_schema
from regauge.schemas._prompt import prompt_schema
from regauge.schemas._settings import settings_schema

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["built"]


def built() -> dict[str, str]:
    """The text of every schema by its name, as the code has it now."""
    made: dict[str, dict[str, JSON]] = {
        "prompt": prompt_schema(),
        "golden": golden_schema(),
        "settings": settings_schema(),
    }
    head: dict[str, JSON] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {
        name: json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in made.items()
    }


if __name__ == "__main__":
    for name, text in built().items():
        (Path(__file__).parent / f"{name}.schema.json").write_text(text, encoding="utf-8")
