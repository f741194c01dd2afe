"""The schema of golden datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from regauge.datasets import Split, Tier

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["golden_schema"]


def golden_schema() -> dict[str, JSON]:
    """A dataset in YAML or JSON is a list of cases; one line of a JSONL file is one case."""
    return {
        "title": "Golden cases of regauge",
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/$defs/case"}},
            {"$ref": "#/$defs/case"},
        ],
        "$defs": {"case": _case()},
    }


def _case() -> dict[str, JSON]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["id", "inputs"],
        "properties": {
            "id": {
                "type": "string",
                "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,199}$",
                "not": {"enum": ["and", "or", "not"]},
                "description": "Unique in its dataset and stable: recordings and -k go by it.",
            },
            "inputs": {
                "type": "object",
                "description": 'By variable of the prompt; {"file": "..."} for a long text.',
            },
            "expected": {"description": "What judges compare with; any JSON."},
            "tags": {
                "type": ["array", "null"],
                "items": {"type": "string", "pattern": r"^[^;\s]([^;]*[^;\s])?$"},
                "description": "Words to select and group cases by.",
            },
            "tier": _word(get_args(Tier), "How much a failure weighs; required by default."),
            "split": _word(get_args(Split), "By default the id decides."),
            "source": _text("Where the material comes from."),
            "licence": _text("The licence of that material."),
            "note": _text("Why the tier is what it is, or anything a reader should know."),
            "checks": {
                "type": ["array", "null"],
                "minItems": 1,
                "items": {"type": ["string", "object"]},
                "description": "Judges of this case alone, each a name or a name with parameters;"
                " `weight`, `tier` and `metric` may stand next to the name.",
            },
            "pass_at": {
                "type": ["number", "null"],
                "exclusiveMinimum": 0,
                "maximum": 1,
                "description": "The weighted share of the checks that must pass; without it all.",
            },
        },
    }


def _word(words: tuple[str, ...], description: str) -> dict[str, JSON]:
    return {"enum": [*words, None], "description": description}


def _text(description: str) -> dict[str, JSON]:
    return {"type": ["string", "null"], "description": description}
