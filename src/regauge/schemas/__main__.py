"""Writes the JSON Schemas of prompts, golden datasets and settings: `python -m regauge.schemas`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from regauge.datasets import Split, Tier
from regauge.project import Settings
from regauge.prompts import Role, RubricKind

if TYPE_CHECKING:
    from regauge.digests import JSON


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
            "checks": _checks(
                "Judges of this case alone, each a name or a name with parameters;"
                " `weight`, `tier` and `metric` may stand next to the name."
            ),
            "pass_at": {
                "type": ["number", "null"],
                "exclusiveMinimum": 0,
                "maximum": 1,
                "description": "The weighted share of the checks that must pass; without it all.",
            },
            "turns": {
                "type": ["array", "null"],
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "user": {
                            "type": ["string", "object", "array"],
                            "description": (
                                'The user\'s message; {"file": "..."} for a long text; or a list of'
                                ' texts and {"image": "..."} or {"pdf": "..."}.'
                            ),
                        },
                        "expected": {"description": "What judges of this turn compare with."},
                        "checks": _checks("Judges of this turn alone."),
                    },
                },
                "description": "The messages of the user, one after the other.",
            },
            "persona": _text("The prompt of the model that plays the user."),
            "max_turns": _limit("The most messages of the persona; 10 by default."),
            "tools": _text("The results of tools: NAME for fixtures/tools/NAME.yml."),
            "max_steps": _limit("The most calls of the model in one turn; 8 by default."),
        },
    }


def _checks(description: str) -> dict[str, JSON]:
    return {
        "type": ["array", "null"],
        "minItems": 1,
        "items": {"type": ["string", "object"]},
        "description": description,
    }


def _limit(description: str) -> dict[str, JSON]:
    return {"type": ["integer", "null"], "minimum": 1, "maximum": 100, "description": description}


def _word(words: tuple[str, ...], description: str) -> dict[str, JSON]:
    return {"enum": [*words, None], "description": description}


def _text(description: str) -> dict[str, JSON]:
    return {"type": ["string", "null"], "description": description}


_VERSION = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$"
_NUMBERS = ("temperature", "topP", "frequencyPenalty", "presencePenalty", "minP")
_INTEGERS = ("maxTokens", "maxCompletionTokens", "seed", "topK", "topLogprobs")
_SNAKE = ("top_p", "frequency_penalty", "presence_penalty", "min_p")
_SNAKE_INTEGERS = ("max_tokens", "max_completion_tokens", "top_k", "top_logprobs")


def prompt_schema() -> dict[str, JSON]:
    """Unknown keys are errors, as they are to the reader; those that start with `x-` are free."""
    return {
        "title": "A prompt of regauge",
        "type": "object",
        "required": ["messages"],
        "properties": {
            "name": _text("What the prompt is, for people; its name is its file's."),
            "description": _text("What it is for."),
            "version": {
                "type": ["string", "null"],
                "pattern": _VERSION,
                "description": "Semantic version; `regauge bump` raises it.",
            },
            "owner": _text("Who looks after it."),
            "model": _text("As `provider:model`; the project's where there is none."),
            "modelParameters": _parameters(),
            "responseFormat": {
                "description": "text, json_object or json_schema.",
                "type": ["string", "object", "null"],
            },
            "jsonSchema": {
                "description": "The form of the answer, with responseFormat: json_schema.",
                "type": ["object", "string", "null"],
            },
            "tools": _tools(),
            "toolChoice": _text("auto, none, required, or the name of the tool to call."),
            "parallelToolCalls": {
                "type": ["boolean", "null"],
                "description": "Whether one answer may call several tools.",
            },
            "inputs": _inputs(),
            "rubric": _rubric(),
            "replaceable": _replaceable(),
            "messages": {
                "type": "array",
                "minItems": 1,
                "items": {"anyOf": [_message(), _history()]},
            },
            "testData": {"type": ["array", "null"], "items": {"type": "object"}},
            "evaluators": {
                "type": ["array", "null"],
                "items": {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 2,
                    "properties": {"name": {"type": "string"}},
                },
            },
            "changelog": _changelog(),
        },
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }


def _message() -> dict[str, JSON]:
    return {
        "type": "object",
        "required": ["role"],
        "additionalProperties": False,
        "properties": {
            "role": {"enum": [*get_args(Role)]},
            "content": {"type": "string", "description": "{{name}} stands for an input."},
            "tool_calls": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "required": ["id"]},
                "description": "Calls of the assistant: id, name and arguments.",
            },
            "tool_call_id": _text("The call that a message of the role tool answers."),
        },
        "anyOf": [
            {"required": ["content"], "properties": {"content": {"minLength": 1}}},
            {"required": ["tool_calls"]},
        ],
    }


def _history() -> dict[str, JSON]:
    return {
        "type": "object",
        "required": ["history"],
        "additionalProperties": False,
        "properties": {
            "history": {
                "type": "string",
                "description": "The input that holds the messages to insert here.",
            }
        },
    }


def _tools() -> dict[str, JSON]:
    file: dict[str, JSON] = {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": {"file": _text("A file with tools, below the folder of the prompt.")},
    }
    tool: dict[str, JSON] = {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            "description": {"type": "string"},
            "parameters": {"type": "object", "description": "A JSON schema."},
            "strict": {"type": "boolean"},
        },
    }
    wire: dict[str, JSON] = {
        "type": "object",
        "required": ["type", "function"],
        "additionalProperties": False,
        "properties": {"type": {"const": "function"}, "function": tool},
    }
    return {
        "description": "Functions that the model may call.",
        "anyOf": [
            {"type": "null"},
            file,
            {"type": "array", "items": {"anyOf": [tool, wire, file]}},
        ],
    }


def _parameters() -> dict[str, JSON]:
    number: JSON = {"type": ["number", "null"]}
    integer: JSON = {"type": ["integer", "null"]}
    return {
        "type": ["object", "null"],
        "description": "Sent with every request; snake_case and camelCase are the same.",
        "properties": {
            **dict.fromkeys((*_NUMBERS, *_SNAKE), number),
            **dict.fromkeys((*_INTEGERS, *_SNAKE_INTEGERS), integer),
        },
    }


def _inputs() -> dict[str, JSON]:
    described: dict[str, JSON] = {
        "description": {"type": "string"},
        "required": {"type": "boolean"},
        "default": {},
    }
    by_name: dict[str, JSON] = {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, **described},
    }
    return {
        "description": "The variables of the messages.",
        "anyOf": [
            {"type": "null"},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, by_name]}},
            {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [
                        {"type": ["string", "null"]},
                        {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": described,
                        },
                    ]
                },
            },
        ],
    }


def _rubric() -> dict[str, JSON]:
    return {
        "type": "object",
        "description": "Makes the prompt a judge.",
        "required": ["kind"],
        "additionalProperties": False,
        "properties": {
            "kind": {"enum": [*get_args(RubricKind)]},
            "scale": {
                "type": "object",
                "required": ["max"],
                "additionalProperties": False,
                "properties": {"min": {"type": "number"}, "max": {"type": "number"}},
            },
            "choices": {
                "type": "object",
                "minProperties": 2,
                "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1},
                "description": "The score of each label, from 0 to 1.",
            },
            "reference": {"type": "boolean"},
            "ties": {"type": "boolean"},
            "pass_at": {"type": "number", "minimum": 0, "maximum": 1},
        },
    }


def _replaceable() -> dict[str, JSON]:
    heading: dict[str, JSON] = {
        "type": "string",
        "minLength": 1,
        "description": "The line that begins it: '## Labels', 'Labels:' or '<labels>'.",
    }
    marked: dict[str, JSON] = {
        "type": "object",
        "required": ["section"],
        "additionalProperties": False,
        "properties": {
            "section": heading,
            "message": {"enum": [*get_args(Role)]},
            "words": {
                "type": "integer",
                "minimum": 1,
                "description": "The most words and marks its text may come to have.",
            },
        },
    }
    return {
        "description": "Sections that `regauge refine` may replace as a whole.",
        "type": ["array", "null"],
        "items": {"anyOf": [heading, marked]},
    }


def _changelog() -> dict[str, JSON]:
    case: dict[str, JSON] = {
        "type": "object",
        "required": ["case", "reason"],
        "additionalProperties": False,
        "properties": {"case": {"type": "string"}, "reason": {"type": "string"}},
    }
    cases: dict[str, JSON] = {"anyOf": [case, {"type": "array", "items": case}]}
    return {
        "type": ["array", "null"],
        "items": {
            "type": "object",
            "required": ["version", "text"],
            "additionalProperties": False,
            "properties": {
                "version": {"type": "string", "pattern": _VERSION},
                "date": {"type": "string"},
                "text": {"type": "string"},
                "accepted": cases,
                "removed": cases,
            },
        },
    }


_ATTRIBUTE = re.compile(r"^(\w+): (.+?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)


def settings_schema() -> dict[str, JSON]:
    """A pyproject.toml; the tables of other tools may hold anything."""
    made: dict[str, Any] = Settings.model_json_schema()
    tables: dict[str, Any] = made.pop("$defs", {})
    for table in (made, *tables.values()):
        _describe(table)
    tables["Settings"] = made
    return {
        "title": "pyproject.toml with the settings of regauge",
        "type": "object",
        "properties": {
            "tool": {"type": "object", "properties": {"regauge": {"$ref": "#/$defs/Settings"}}}
        },
        "$defs": cast("JSON", tables),
    }


def _describe(table: dict[str, Any]) -> None:
    """Move what the docstring says of an attribute to the attribute; titles say nothing more."""
    words: str = table.get("description", "")
    first, _, attributes = words.partition("\n\nAttributes:\n")
    if first:
        table["description"] = " ".join(first.split())
    # pydantic has taken the indent off the docstring, and left that of the list in it.
    lines = "\n".join(line.removeprefix("    ") for line in attributes.splitlines())
    descriptions = {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(lines)}
    for name, value in table.get("properties", {}).items():
        value.pop("title", None)
        if name in descriptions:
            value.setdefault("description", descriptions[name])


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
