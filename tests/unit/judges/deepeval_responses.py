"""A judge model for tests: replies made by the schema asked for, or by a function of the prompt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regauge.datasets import GoldenCase
from regauge.judges import JudgeContext
from regauge.providers import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.judges import Verdict
    from regauge.providers import CompletionRequest


def instance(schema: Mapping[str, Any], defs: Mapping[str, Any] | None = None) -> Any:  # noqa: PLR0911 - one per type
    """The simplest value that a schema allows."""
    defs = schema.get("$defs", {}) if defs is None else defs
    if "$ref" in schema:
        return instance(defs[schema["$ref"].rsplit("/", 1)[1]], defs)
    if "anyOf" in schema:
        return instance(schema["anyOf"][0], defs)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {})
            return {name: instance(part, defs) for name, part in parts.items()}
        case "array":
            return [instance(schema["items"], defs)]
        case "number" | "integer":
            return 1
        case "boolean":
            return True
        case _:
            return "a text"


class Calls:
    """The model calls of one judgement, answered here.

    Attributes:
        asked: The requests, in their order.
    """

    def __init__(
        self, reply: Callable[[str, CompletionRequest], Any] | None = None, *, trial: int = 0
    ) -> None:
        self.trial = trial
        self.asked: list[CompletionRequest] = []
        self._reply = reply

    @property
    def schemas(self) -> list[str]:
        return [schema_of(request) for request in self.asked]

    async def complete(self, request: CompletionRequest) -> Completion:
        self.asked.append(request)
        await asyncio.sleep(0)
        said = self._reply(schema_of(request), request) if self._reply else ...
        if said is ...:
            form = request.response_format
            said = instance(form["json_schema"]["schema"]) if form else "a text"  # type: ignore[index,call-overload]  # it is a schema
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Completion) else completion(said)


def schema_of(request: CompletionRequest) -> str:
    form: Any = request.response_format
    return form["json_schema"]["name"] if form else ""


def prompt_of(request: CompletionRequest) -> str:
    return request.messages[-1].content


def completion(text: Any, **more: Any) -> Completion:
    if not (text is None or isinstance(text, str)):
        text = json.dumps(text)
    parts: dict[str, Any] = {"finish_reason": "stop"} | more
    return Completion(text=text, usage=Usage(), model="m", provider="local", latency_s=0.0, **parts)


def case(expected: Any = None, **inputs: Any) -> GoldenCase:
    given = inputs or {"report": "The disk was full at 10:00."}
    return GoldenCase(
        id="disk", inputs=given, expected=expected, split="train", location="golden:1"
    )


class Project:
    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path()


def bound(declared: Any, *, root: Path | None = None, model: str | None = "local:judge") -> Any:
    project: Any = Project(root)
    return declared.bind(JudgeContext(project=project, model=model))


def judge(
    declared: Any, calls: Calls, *, answer: Any = "The disk was full.", of: GoldenCase | None = None
) -> Verdict:
    """The verdict of a declared judge on one answer."""
    given = answer if isinstance(answer, Completion) else completion(answer)
    return asyncio.run(bound(declared).judge_with(given, of or case(), calls))
