"""Version rules of a changed prompt."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import Diagnostic

if TYPE_CHECKING:
    from regauge.prompts import Prompt, PromptLock, Semver


Rule: TypeAlias = Literal[
    "not-bumped", "no-version", "reused", "older", "contract", "not-released", "lock"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBreach:
    """One version rule that a change breaks; each rejects the change.

    Attributes:
        error: Location, message, and the command that fixes it.
    """

    rule: Rule
    error: Diagnostic

    def __str__(self) -> str:
        return str(self.error)


def version_breaches(
    head: Prompt, base: Prompt | None, *, head_lock: PromptLock, base_lock: PromptLock
) -> tuple[RuleBreach, ...]:
    """The first version rule that a prompt breaks against its base and both locks.

    A prompt with the behaviour, contract and version of the base breaks none.

    Args:
        head: The prompt now.
        base: The prompt in the base version; None if it is new.
        head_lock: `prompts.lock` now.
        base_lock: `prompts.lock` of the base version.
    """
    if base is not None and _state(head) == _state(base):
        return ()
    if head.version is None:
        return (_no_version(head, base, head_lock=head_lock, base_lock=base_lock),)
    breach = (
        _not_bumped(head, base)
        or _reused_version(head, head.version, base_lock)
        or _reused_version(head, head.version, head_lock)
        or _older(head, head.version, base)
        or _contract(head, head.version, base, base_lock)
        or _not_released(head, head.version, head_lock)
    )
    return (breach,) if breach is not None else ()


def lock_breaches(
    head_lock: PromptLock, base_lock: PromptLock, *, ref: str
) -> tuple[RuleBreach, ...]:
    """Releases of the base version that the lock lost or changed: it is append-only."""
    return tuple(
        RuleBreach(rule="lock", error=error) for error in head_lock.check_against(base_lock, ref)
    )


def behaviour(prompt: Prompt) -> tuple[str, str]:
    """The digests of the behaviour and the contract of a prompt."""
    return prompt.digest, prompt.contract_digest


def _state(prompt: Prompt) -> tuple[str, str, Semver | None]:
    return *behaviour(prompt), prompt.version


def _no_version(
    head: Prompt, base: Prompt | None, *, head_lock: PromptLock, base_lock: PromptLock
) -> RuleBreach:
    locks = (head_lock, base_lock)
    released = {entry.version for lock in locks for entry in lock.entries_of(head.name)}
    if base is not None and base.version is not None:
        released.add(base.version)
    if not released:
        message = "it has no version that results could belong to"
        return _breach("no-version", head, message, f"regauge bump {quote(head.name)} major")
    message = "it has no version any more"
    fix = f"write `version: {max(released)}` back, then: {_bump(head, base)}"
    return _breach("no-version", head, message, fix)


def _not_bumped(head: Prompt, base: Prompt | None) -> RuleBreach | None:
    if base is None or base.version != head.version:
        return None
    contract = head.contract_digest != base.contract_digest
    subject = "its contract (jsonSchema, inputs, tools)" if contract else "its content"
    message = f"{subject} changed, but its version is still {head.version}"
    return _breach("not-bumped", head, message, _bump(head, base))


def _reused_version(head: Prompt, version: Semver, lock: PromptLock) -> RuleBreach | None:
    entry = lock.get(head.name, version)
    if entry is None or (entry.digest, entry.contract_digest) == behaviour(head):
        return None
    message = f"version {version} was released with other content ({entry.digest[:12]})"
    return _breach(
        "reused", head, message, f"regauge bump {quote(head.name)} patch -m 'WHAT CHANGED'"
    )


def _older(head: Prompt, version: Semver, base: Prompt | None) -> RuleBreach | None:
    if base is None or base.version is None or version > base.version:
        return None
    message = f"version {version} is older than {base.version} of the base version"
    fix = f"write `version: {base.version}`, then: {_bump(head, base)}"
    return _breach("older", head, message, fix)


def _contract(
    head: Prompt, version: Semver, base: Prompt | None, base_lock: PromptLock
) -> RuleBreach | None:
    """A contract that changed without a new major version, against the base or its releases."""
    if base is None or base.contract_digest == head.contract_digest:
        return None
    before = base.version
    if before is None or before.prerelease:
        # Prereleases have no stable contract, so the release before them counts.
        broken = base_lock.needs_major(head)
        before = broken.version if broken is not None else None
    if before is None or version.major > before.major:
        return None
    message = (
        f"its contract (jsonSchema, inputs, tools) changed since {before},"
        f" but {version} is not a new major version"
    )
    return _breach(
        "contract", head, message, f"regauge bump {quote(head.name)} major -m 'WHAT CHANGED'"
    )


def _not_released(head: Prompt, version: Semver, lock: PromptLock) -> RuleBreach | None:
    if lock.get(head.name, version) is not None:
        return None
    message = f"version {version} is not in {lock.path.name}"
    return _breach("not-released", head, message, f"regauge bump {quote(head.name)}")


def _bump(head: Prompt, base: Prompt | None) -> str:
    contract = base is not None and base.contract_digest != head.contract_digest
    return f"regauge bump {quote(head.name)} {'major' if contract else 'minor'} -m 'WHAT CHANGED'"


def _breach(rule: Rule, head: Prompt, message: str, fix: str) -> RuleBreach:
    line = head.lines.get("version", 1)
    error = Diagnostic(path=head.path, line=line, message=message, fix=fix)
    return RuleBreach(rule=rule, error=error)
