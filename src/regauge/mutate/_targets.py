"""Targets under mutated prompts: a process of its own loads each text from a file."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import yaml

from regauge.errors import UsageError
from regauge.prompts import parse_prompt

if TYPE_CHECKING:
    from regauge.prompts import Prompt
    from regauge.runner import Trials
    from regauge.targets import Target

# More than are measured at once, so that no process ends that is still in use.
_PROCESSES_MAX = 16


class CandidateTargets:
    """The targets of a prompt under its mutants, with the processes that run them."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._made: dict[tuple[str, str], Target] = {}
        self._running: dict[str, Target] = {}
        self._directories = ExitStack()

    def close(self) -> None:
        """Remove the texts that were written."""
        self._directories.close()

    def under(self, target: Target, prompt: Prompt) -> Target:
        """A target that loads another text of its prompt.

        Raises:
            UsageError: The text cannot be written as a prompt file.
        """
        key = (prompt.digest, target.name)
        if key not in self._made:
            made = TemporaryDirectory(prefix="regauge-mutant-")
            directory = Path(self._directories.enter_context(made))
            edited = replace(prompt, source=prompt_file(prompt))
            self._made[key] = target.with_candidate(edited, directory)
        return self._made[key]

    async def use(self, target: Target) -> None:
        """Note a call of a target, and end the process that was idle for the longest time.

        Raises:
            UsageError: The target did not load the text.
        """
        key = target.digest
        known = self._running.pop(key, None)
        self._running[key] = target
        if known is None:
            target.check_candidate_loaded()
            if len(self._running) > _PROCESSES_MAX:
                await self._trials.end_target(self._running.pop(next(iter(self._running))))


def prompt_file(prompt: Prompt) -> str:
    """The text of a file with the messages, format and tools of a mutant.

    Raises:
        UsageError: The file would be another prompt.
    """
    document: dict[str, Any] = yaml.safe_load(prompt.source)
    for message, wanted in zip(document["messages"], prompt.messages, strict=False):
        if isinstance(message.get("content"), str):
            message["content"] = wanted.content
    for key in ("responseFormat", "jsonSchema"):
        document.pop(key, None)
    if prompt.response_format is not None:
        document["responseFormat"] = prompt.response_format["type"]
        if "json_schema" in prompt.response_format:
            document["jsonSchema"] = prompt.response_format["json_schema"]
    document.pop("tools", None)
    if prompt.tools:
        document["tools"] = [*prompt.tools]
    text = json.dumps(document, ensure_ascii=False, default=str)
    if parse_prompt(text, path=prompt.path).digest != prompt.digest:
        raise UsageError(f"a mutant of {prompt.name} cannot be written as a prompt file")
    return text
