"""The schema of prompt files: what other tools know, and what regauge adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from regauge.prompts import Role, RubricKind

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["prompt_schema"]

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


def _text(description: str) -> dict[str, JSON]:
    return {"type": ["string", "null"], "description": description}


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
