"""Prompts: files, rendering, digests, versions."""

from __future__ import annotations

from regauge.prompts._bump import Bump, bump
from regauge.prompts._files import find_prompt, load_prompt, prompt_files
from regauge.prompts._lock import LOCK_NAME, LockEntry, PromptLock, lock_of
from regauge.prompts._parse import parse_prompt, prompt_name
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
    "LOCK_NAME",
    "Bump",
    "ChangelogEntry",
    "Evaluator",
    "InputSpec",
    "LockEntry",
    "Message",
    "Part",
    "Prompt",
    "PromptLock",
    "PromptVersion",
    "Role",
    "Semver",
    "bump",
    "find_prompt",
    "load_prompt",
    "lock_of",
    "parse_prompt",
    "prompt_files",
    "prompt_name",
]
