"""The next version of a prompt: its file's new text and the lock's new line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.prompts._edit import set_version
from regauge.prompts._parse import parse_prompt
from regauge.prompts._semver import Semver
from regauge.prompts._types import ChangelogEntry

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.prompts._lock import PromptLock
    from regauge.prompts._prompt import Prompt
    from regauge.prompts._semver import Part

__all__ = ["Bump", "bump"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bump:
    """A version that is ready to be released.

    Attributes:
        before: The version that the file stated; None where it stated none.
        prompt: The prompt with its new version; its `source` is the new text of the file.
        lock: The lock with the new version in it.
    """

    before: Semver | None
    prompt: Prompt
    lock: PromptLock


def bump(
    text: str,
    part: Part | None,
    *,
    path: Path,
    lock: PromptLock,
    note: str = "",
    date: str = "",
    allow_unchanged: bool = False,
) -> Bump:
    """Work out the next version; nothing is written.

    Args:
        text: The prompt file as it is.
        part: Which number goes up; None releases the version that the file states already.
        note: What changed, for the changelog; empty adds no entry.
        date: The day of the entry, such as `2025-06-30`.
        allow_unchanged: Release a version even if nothing changed since the last one.

    Raises:
        PromptError: The file is faulty or cannot be edited.
        UsageError: Nothing changed, or the contract changed and the version is no new major one.
    """
    prompt = parse_prompt(text, path=path)
    released = lock.of(prompt.name)
    version = _next(prompt, part, released[-1].version if released else None)
    if part is None and lock.get(prompt.name, version) is not None:
        raise UsageError(
            f"{prompt.name}@{version} is released already\n"
            f"  fix: say which part goes up: regauge bump {prompt.name} major|minor|patch"
        )
    last = released[-1] if released else None
    unchanged = last is not None and (last.digest, last.contract_digest) == (
        prompt.digest,
        prompt.contract_digest,
    )
    if unchanged and last is not None and not allow_unchanged:
        raise UsageError(
            f"{prompt.name} does what {last.version} did: messages, model, parameters, response"
            " format and inputs are the same\n  fix: --allow-unchanged releases it all the same"
        )
    broken = lock.needs_major(replace(prompt, version=version))
    if broken is not None:
        raise UsageError(
            f"the contract of {prompt.name} (jsonSchema, inputs) changed since {broken.version},"
            f" so {version} would break its callers\n  fix: regauge bump {prompt.name} major"
        )
    note = " ".join(note.split())
    entry = ChangelogEntry(version=str(version), text=note, date=date) if note else None
    edited = set_version(text, version, entry, path=path)
    after = parse_prompt(edited, path=path)
    return Bump(before=prompt.version, prompt=after, lock=lock.add(after))


def _next(prompt: Prompt, part: Part | None, released: Semver | None) -> Semver:
    if part is not None:
        stated = prompt.version or Semver(0, 0, 0)
        return max(stated, released or stated).bump(part)
    if prompt.version is None:
        raise UsageError(
            f"{prompt.path} states no version\n"
            f"  fix: regauge bump {prompt.name} major starts it at 1.0.0"
        )
    if released is not None and prompt.version < released:
        raise UsageError(
            f"{prompt.path} states version {prompt.version}, older than {released}, which is"
            f" released\n  fix: regauge bump {prompt.name} major|minor|patch"
        )
    return prompt.version
