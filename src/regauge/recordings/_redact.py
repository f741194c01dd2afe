"""Redaction of keys and other secrets in all written data."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args, get_origin
from urllib.parse import unquote

from pydantic import BaseModel

from regauge.project import CommandTarget, HttpTarget
from regauge.providers import Completion
from regauge.recordings._find_secrets import decoded_texts, find_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.project import Settings
    from regauge.recordings._file import Recording

_Value = TypeVar("_Value")

REDACTED: Final = "[redacted by regauge]"
# Secrets are longer; most texts of a response are shorter and skip the search. The cache holds
# the texts that the trials of a case repeat.
_SHORTEST: Final = 4
_TEXTS_MAX: Final = 512

_WITHOUT_TEXT: Final = frozenset({bool, int, float, type(None)})

# Names of variables that hold secrets; `PWD` alone is a directory.
_SECRET_NAME: Final = re.compile(
    r"(?:\A|_|-)(?:API_?KEY|KEY|TOKEN|SECRET|PAT|AUTH|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?"
    r"|CONNECTION_?STRING|CONN_?STR|WEBHOOK|WEBHOOK_URL|COOKIE|JWT|SIGNATURE|PRIVATE_KEY)S?\Z"
    r"|_PWD\Z|(?:KEY|TOKEN|SECRET|PASSWORD)\Z",
    re.IGNORECASE,
)
_URL_NAME: Final = re.compile(r"(?:URL|URI|DSN|CONNECTION|PROXY)\Z", re.IGNORECASE)
_URL_PASSWORD: Final = re.compile(r"\A[\w.+-]+://[^\s/@]*:(?P<password>[^\s/@]+)@")
# Shorter values of variables with such names may be words of outputs.
_GUESSED_MIN: Final = 8
_LONG_MIN: Final = 16
_NAMED_MIN: Final = 6
_PATH: Final = re.compile(r"\A(?:[A-Za-z]:\\|~?/|\./|https?://[^\s@]*\Z)")


class Redactor:
    """Replaces secrets with `[redacted by regauge]`.

    Secrets are matches of the patterns, keys in well-known forms, and values labelled as passwords
    and the like. Values of the named variables are secrets, too, and those of variables whose name
    suggests a secret, except for short values and words. Each is also found in escapes of JSON,
    URLs and HTML, and values of variables in base64.

    Args:
        patterns: Regular expressions of further secrets.
        environ: The environment with the values.
        names: Variables that hold keys, whatever their names.
    """

    def __init__(
        self,
        patterns: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        *,
        names: Iterable[str] = (),
    ) -> None:
        secret_names = set(names)
        values = [
            secret
            for name, value in (environ or {}).items()
            for secret in _secrets_of(name, value, secret_names)
        ]
        self._literals = sorted({form for value in values for form in _forms(value)})
        # Not joined: numbered groups and flags of one pattern must not change others.
        self._patterns = [re.compile(pattern) for pattern in patterns]

        # Texts of reports repeat: names of judges, verdicts, outputs of the previous case.
        self._cached = lru_cache(maxsize=_TEXTS_MAX)(self._redact)

    def redact(self, text: str) -> str:
        """Return `text` without secrets. Redacted parts stay as they are."""
        if len(text) < _SHORTEST:
            return text
        if REDACTED not in text:
            return self._cached(text)
        return REDACTED.join(map(self._cached, text.split(REDACTED)))

    def _redact(self, text: str) -> str:
        spans = self._spans(text)
        for decoded, origin in decoded_texts(text):
            spans += [(origin(start), origin(end)) for start, end in self._spans(decoded)]
        if not spans:
            return text
        parts: list[str] = []
        done = 0
        for start, end in _merge(spans):
            parts += (text[done:start], REDACTED)
            done = end
        return "".join([*parts, text[done:]])

    def _spans(self, text: str) -> list[tuple[int, int]]:
        spans = [(secret.start, secret.end) for secret in find_secrets(text)]
        for literal in self._literals:
            start = text.find(literal)
            while start >= 0:
                spans.append((start, start + len(literal)))
                start = text.find(literal, start + len(literal))
        for pattern in self._patterns:
            spans += [match.span() for match in pattern.finditer(text) if match[0]]
        return spans

    def redact_recording(self, recording: Recording) -> Recording:
        """Return `recording` without secrets in the request and in every field from a provider.

        If its text held one, the tokens are dropped, since together they spell it.
        """
        completion = recording.completion
        document = completion.to_json()
        clean = map_texts(document, self.redact)
        request = map_texts(recording.request, self.redact)
        if clean is document and request is recording.request:
            return recording
        redacted = Completion.from_json(clean)
        if redacted.text != completion.text:
            redacted = replace(redacted, logprobs=())
        return replace(recording, completion=redacted, request=request)


def redactor_for(settings: Settings, environ: Mapping[str, str]) -> Redactor:
    """Return the redactor of a project: its own patterns, and the variables with its keys."""
    names = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
    for endpoint in settings.providers.values():
        names.update(endpoint.headers_env.values())
        if endpoint.api_key_env is not None:
            names.add(endpoint.api_key_env)
    for target in settings.targets.values():
        if isinstance(target, HttpTarget):
            names.update(target.headers_env.values())
        elif isinstance(target, CommandTarget):
            names.update(target.env)
    return Redactor(settings.redact, environ, names=names)


def map_texts(value: _Value, change: Callable[[str], str]) -> _Value:
    """Return `value` with every text in it changed; names of objects and fields stay.

    Documents of pydantic are changed field by field. A value without a changed text is returned
    itself, not a copy.

    >>> map_texts({"a": ["b", 1]}, str.upper)
    {'a': ['B', 1]}
    """
    mapped: Any = value
    if isinstance(value, str):
        text = change(value)
        mapped = value if text == value else text
    elif isinstance(value, (list, tuple)):
        sequence = cast("Sequence[Any]", value)
        if changed := _change_fields(enumerate(sequence), change):
            mapped = [changed.get(place, item) for place, item in enumerate(sequence)]
    elif isinstance(value, BaseModel):
        names = _fields_with_text(type(value))
        if changed := _change_fields([(name, getattr(value, name)) for name in names], change):
            mapped = value.model_copy(update=changed)
    elif hasattr(value, "items"):
        table = cast("Mapping[str, Any]", value)
        if changed := _change_fields(table.items(), change):
            mapped = {**table, **changed}
    return cast("_Value", mapped)


@cache
def _fields_with_text(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields of a document whose values may hold text other than fixed words."""
    fields = model.model_fields.items()
    return tuple(name for name, field in fields if _may_hold_text(field.annotation))


def _may_hold_text(annotation: Any) -> bool:
    if annotation in _WITHOUT_TEXT or get_origin(annotation) is Literal:
        return False
    if parts := get_args(annotation):
        return any(_may_hold_text(part) for part in parts)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return bool(_fields_with_text(annotation))
    return True


def _change_fields(
    fields: Iterable[tuple[Any, Any]], change: Callable[[str], str]
) -> dict[Any, Any]:
    """Return the changed values of fields, by name or index."""
    changed: dict[Any, Any] = {}
    for name, before in fields:
        # Most values of reports are numbers, and a call for each would take half of the time.
        if type(before) in _WITHOUT_TEXT:
            continue
        after = map_texts(before, change)
        if after is not before:
            changed[name] = after
    return changed


def _merge(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge spans that touch or overlap, in order."""
    remaining = sorted(spans)
    start, end = remaining[0]
    for next_start, next_end in remaining[1:]:
        if next_start > end:
            yield start, end
            start, end = next_start, next_end
        end = max(end, next_end)
    yield start, end


def _secrets_of(name: str, value: str, names: set[str]) -> Iterator[str]:
    """Yield the secret parts of a variable's value."""
    value = value.strip()
    if name in names:
        if len(value) >= _NAMED_MIN:
            yield value
        return
    if _URL_NAME.search(name) is not None:
        match = _URL_PASSWORD.match(value)
        if match is not None:
            yield value
            if _is_guess(match["password"]):
                yield match["password"]
                yield unquote(match["password"])
    elif _SECRET_NAME.search(name) is not None and _is_guess(value):
        yield value


def _is_guess(value: str) -> bool:
    """Return whether a value that may be a secret is neither short, nor a word, nor a path."""
    if len(value) < _GUESSED_MIN or _PATH.match(value):
        return False
    digits = sum(char.isdigit() for char in value)
    if 0 < digits < len(value):
        return True
    return len(value) >= _LONG_MIN and (digits > 0 or not _WORDS.fullmatch(value))


# `production-like-word`; long runs of letters are not words.
_WORDS: Final = re.compile(r"[A-Za-z]{1,15}(?:[-_ .][A-Za-z]{1,15})*")


def _forms(value: str) -> set[str]:
    """Return the forms of a value in a text: itself, and its base64 at any offset."""
    forms = {value}
    raw = value.encode("utf-8", "surrogateescape")
    for before in range(3):
        # Characters at the edges also hold bits of the neighbouring bytes.
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        core = base64.b64encode(bytes(before) + raw + bytes(2))[first:last].decode()
        if len(core) >= _LONG_MIN:
            forms |= {core, core.replace("+", "-").replace("/", "_")}
    return forms
