"""A judge's model that says what a test wants, and notes what it was asked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regauge.datasets import GoldenCase
from regauge.judges import JudgeContext
from regauge.project import Project
from regauge.providers import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from regauge.providers import CompletionRequest

__all__ = ["Asked", "case", "completion", "context", "verdict_reply"]

GRADED = """\
version: 1.0.0
modelParameters: {temperature: 0}
rubric:
  kind: graded
  scale: {min: 1, max: 5}
  pass_at: 0.75
messages:
  - role: system
    content: Grade the answer against the report.
  - role: user
    content: |
      {{report}}
      {{answer}}
"""


@dataclass
class Asked:
    """The protocol JudgeCalls.

    Attributes:
        say: The reply to a request: a text, a completion, or an error to raise.
        requests: What was asked, in order.
    """

    say: Callable[[CompletionRequest], str | Completion | Exception]
    trial: int = 0
    requests: list[CompletionRequest] = field(default_factory=list)

    async def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        said = self.say(request)
        if isinstance(said, Exception):
            raise said
        return completion(said) if isinstance(said, str) else said


def completion(text: str | None, **more: Any) -> Completion:
    given: dict[str, Any] = {
        "finish_reason": "stop",
        "usage": Usage(),
        "model": "judge",
        "provider": "local",
        "latency_s": 0.0,
    }
    return Completion(text=text, **{**given, **more})


def verdict_reply(**keys: Any) -> str:
    return json.dumps({"reasoning": "because", **keys})


def case(**more: Any) -> GoldenCase:
    given: dict[str, Any] = {
        "id": "disk",
        "inputs": {"report": "The disk was full."},
        "expected": {"reference": "It was the disk."},
        "split": "train",
        "location": "fixtures/golden/x.jsonl:1",
    }
    return GoldenCase(**{**given, **more})


def context(root: Path, *, model: str | None = "local:judge", **rubrics: str) -> JudgeContext:
    """A project with rubrics, each the text of its file."""
    folder = root / "prompts" / "judges"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in rubrics.items():
        (folder / f"{name.replace('_', '-')}.prompt.yml").write_text(text, encoding="utf-8")
    return JudgeContext(project=Project(root=root), model=model)
