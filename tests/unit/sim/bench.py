"""Asking the simulated model, and the repository's own prompts under edits."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from regauge.prompts import Message, Prompt, load_prompt
from regauge.providers import CompletionRequest
from regauge.sim import complete

ROOT = Path(__file__).parents[3]
Edit = Callable[[str], str]


def request(
    *contents: str,
    response_format: Mapping[str, Any] | None = None,
    trial: int = 0,
    **parameters: Any,
) -> CompletionRequest:
    """System and user message, or a user message alone."""
    roles = ("system", "user") if len(contents) == 2 else ("user",)
    messages = tuple(
        Message(role=role, content=text) for role, text in zip(roles, contents, strict=True)
    )
    return CompletionRequest(
        model="clerk-1", provider="sim", messages=messages, parameters={"temperature": 0, **parameters},
        response_format=response_format, trial=trial,
    )  # fmt: skip


def say(*contents: str, **rest: Any) -> str:
    text = complete(request(*contents, **rest)).text
    assert text is not None
    return text


class Bench:
    """One prompt file, and the answers to it under edits of its instructions."""

    def __init__(self, name: str) -> None:
        self.prompt: Prompt = load_prompt(name, root=ROOT)

    def ask(
        self,
        inputs: Mapping[str, Any],
        *,
        edit: Edit = str,
        schema: bool = True,
        trial: int = 0,
        **parameters: Any,
    ) -> str:
        messages = tuple(
            dataclasses.replace(m, content=edit(m.content)) if m.role == "system" else m
            for m in self.prompt.render(inputs)
        )
        text = complete(
            CompletionRequest(
                model="clerk-1", provider="sim", messages=messages, trial=trial,
                parameters={**self.prompt.parameters, **parameters},
                response_format=self.prompt.response_format if schema else None,
            )
        ).text  # fmt: skip
        assert text is not None
        return text


def golden(name: str) -> list[dict[str, Any]]:
    """The golden cases, files read in."""
    cases = []
    fixtures = ROOT / "fixtures"
    for line in (fixtures / "golden" / f"{name}.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        case["inputs"] = {
            key: (fixtures / value["file"]).read_text("utf-8") if isinstance(value, dict) else value
            for key, value in case["inputs"].items()
        }
        cases.append(case)
    return cases


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def inner_json(text: str) -> dict[str, Any]:
    match = re.search(r"\{.*\}", text, re.DOTALL)
    value = parsed(match[0]) if match else None
    return value if isinstance(value, dict) else {}


def share(passed: Iterable[bool]) -> float:
    results = list(passed)
    return sum(results) / len(results)
