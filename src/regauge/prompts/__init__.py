"""Prompts: files, rendering, digests, versions."""

from __future__ import annotations

from regauge.prompts._prompt import Prompt
from regauge.prompts._semver import Part, Semver
from regauge.prompts._types import (
    ChangelogEntry,
    Evaluator,
    InputSpec,
    Message,
    PromptVersion,
    Role,
)

__all__ = [
    "ChangelogEntry",
    "Evaluator",
    "InputSpec",
    "Message",
    "Part",
    "Prompt",
    "PromptVersion",
    "Role",
    "Semver",
]
