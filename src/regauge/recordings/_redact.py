"""Keeping keys and other secrets out of everything that is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from regauge.providers import Completion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from regauge.digests import JSON
    from regauge.project import Settings
    from regauge.recordings._recording import Recording

__all__ = ["REDACTED", "Redactor", "map_texts", "redactor_for"]

REDACTED: Final = "[redacted by regauge]"

# Forms that are keys and nothing else; a form that may also be prose would damage answers. Before
# each stands what a text must hold to match it: to look for that first takes a hundredth of the
# time, and hardly any text holds it.
_FORMS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("sk-",), r"\bsk-(?:proj-|svcacct-|admin-|ant-|or-)?[A-Za-z0-9_-]{20,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    (("AIza",), r"\bAIza[A-Za-z0-9_-]{35}"),
    (("xox",), r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    (("hf_",), r"\bhf_[A-Za-z0-9]{30,}"),
    (
        ("PRIVATE KEY-----",),
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
)
_SECRET_NAME: Final = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
# Shorter values of variables that only look like secrets are words that answers may hold.
_GUESSED_MIN: Final = 16
_NAMED_MIN: Final = 6


class Redactor:
    """Replaces secrets by `[redacted by regauge]`.

    Secrets are: what the patterns match; the values of the variables named; the values, from 16
    characters with a digit among them, of variables whose names end in `API_KEY`, `TOKEN`,
    `SECRET` or `PASSWORD`; and the well-known forms of keys.

    Args:
        patterns: Regular expressions of further secrets.
        environ: Where values are looked up.
        names: The variables that hold keys, whatever they are called.
    """

    def __init__(
        self,
        patterns: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        *,
        names: Iterable[str] = (),
    ) -> None:
        given = environ or {}
        named = set(names)
        values = {value for name, value in given.items() if _is_secret(name, value, named)}
        # Longest first: a key may begin with another one.
        literals = sorted(values, key=lambda value: (-len(value), value))
        # Each pattern stands alone: numbered groups and flags of one may not meddle with others.
        self._secrets = [_Secret((), re.compile(pattern)) for pattern in patterns]
        self._secrets += [_Secret(marks, re.compile(f"(?s:{form})")) for marks, form in _FORMS]
        if literals:
            either = re.compile("|".join(map(re.escape, literals)))
            self._secrets.insert(0, _Secret(tuple(literals), either))

    def redact(self, text: str) -> str:
        """`text` without secrets. What was redacted before stays as it is."""
        for secret in self._secrets:
            if secret.occurs_in(text):
                text = REDACTED.join(
                    secret.pattern.sub(_replacement, part) for part in text.split(REDACTED)
                )
        return text

    def recording(self, recording: Recording) -> Recording:
        """`recording` without secrets, in every field that comes from a provider, and the request.

        The tokens of a text that held one are dropped, since together they spell it.
        """
        completion = recording.completion
        document = completion.to_json()
        clean = cast("dict[str, JSON]", map_texts(document, self.redact))
        request = cast("Mapping[str, JSON]", map_texts(recording.request, self.redact))
        if clean == document and request == recording.request:
            return recording
        answer = Completion.from_json(clean)
        if answer.text != completion.text:
            answer = replace(answer, logprobs=())
        return replace(recording, completion=answer, request=request)


def redactor_for(settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """The redactor of a project: its own patterns, and the variables that hold its keys."""
    names = {"OPENAI_API_KEY"}
    for endpoint in settings.providers.values():
        names.update(endpoint.headers_env.values())
        if endpoint.api_key_env is not None:
            names.add(endpoint.api_key_env)
    return Redactor(settings.redact, environ, names=names)


def map_texts(value: JSON, change: Callable[[str], str]) -> JSON:
    """`value` with every text in it changed by itself; names of objects stay.

    >>> map_texts({"a": ["b", 1]}, str.upper)
    {'a': ['B', 1]}
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [map_texts(item, change) for item in value]
    if hasattr(value, "items"):
        table = cast("Mapping[str, JSON]", value)
        return {name: map_texts(item, change) for name, item in table.items()}
    return value


@dataclass(frozen=True, slots=True)
class _Secret:
    """A pattern, and words of which every text that matches it holds one; none: not known."""

    marks: tuple[str, ...]
    pattern: re.Pattern[str]

    def occurs_in(self, text: str) -> bool:
        for mark in self.marks:  # a loop: `any` takes thrice the time, for every line written
            if mark in text:
                break
        else:
            if self.marks:
                return False
        return self.pattern.search(text) is not None


def _replacement(match: re.Match[str]) -> str:
    return REDACTED if match[0] else ""


def _is_secret(name: str, value: str, named: set[str]) -> bool:
    if name in named:
        return len(value) >= _NAMED_MIN
    guessed = _SECRET_NAME.search(name) is not None
    return guessed and len(value) >= _GUESSED_MIN and any(c.isdigit() for c in value)
