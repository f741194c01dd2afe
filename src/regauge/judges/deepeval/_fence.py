"""Fences around everything that a metric's prompt takes from a case or from an earlier response.

A metric fills a template with texts to judge, with texts that a model took out of them, and with
its own declaration. All but the declaration stands between tags that no text can close, as in
rubrics. Only the request has them: the metric and its test case keep the plain texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, cast

from regauge.judges.model._delimited import nonce_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["Fenced", "fence_arguments", "fence_prompt", "texts_in"]

_TRUSTED_NAMES: Final = """
_additional_context advice_types advice_types_str content_or content_type content_type_plural
context_type contexts_count criteria document_count_str domain dummy_to_real_names
empty_context_instruction evaluation_steps example_verdict_option expected_role expected_schema
extraction_instructions instructions is_valid_json limit limit_description multimodal
multimodal_instruction multimodal_note n name node_instruction options parameters
prompt_instructions relevant_topics rubric score_range statement_or_image strict
"""
_TRUSTED: Final = frozenset(_TRUSTED_NAMES.split())
"""The variables of deepeval's templates that hold the declaration of a metric, never a case."""

_IN_PARTS: Final = frozenset({"test_case_content", "text"})
"""The variables that hold several fields, each below its heading."""

_HEADINGS: Final = re.compile(r"\s*(?:[A-Z][A-Za-z ]{0,40}:\n)?\s*")
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?%?")
# In a prompt without variables, text of this length is recognised wherever it is; shorter text
# only where it fills a line or a pair of quotes.
_SHINGLE: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """What was fenced.

    Attributes:
        value: The arguments of a template, or a prompt.
        nonce: The mark of the tags; None where nothing had to be fenced.
    """

    value: Any
    nonce: str | None


def fence_arguments(arguments: Mapping[str, Any], known: Mapping[str, str]) -> Fenced:
    """The arguments of a template, with fences around all that is not the metric's declaration.

    Args:
        arguments: By the name of the variable.
        known: The fields of the test case, as prompts show them.
    """
    texts = {
        name: str(value)
        for name, value in arguments.items()
        if name not in _TRUSTED and not _is_harmless(value)
    }
    if not texts:
        return Fenced(value=dict(arguments), nonce=None)
    nonce = nonce_of(texts)
    made = {
        name: _fenced_value(name, value, nonce, known) if name in texts else value
        for name, value in arguments.items()
    }
    return Fenced(value=made, nonce=nonce)


def fence_prompt(prompt: str, texts: Collection[str]) -> Fenced:
    """A prompt that a metric wrote itself, with fences around what it has of these texts."""
    covered = bytearray(len(prompt))
    for text in texts:
        for form in _forms(text):
            if len(form) < _SHINGLE:
                for match in _alone(form).finditer(prompt):
                    covered[match.start() : match.end()] = b"\x01" * len(match[0])
            elif form in prompt:
                for match in re.finditer(re.escape(form), prompt):
                    covered[match.start() : match.end()] = b"\x01" * len(form)
    _cover_shingles(prompt, texts, covered)
    runs = [(match.start(), match.end()) for match in re.finditer(b"\x01+", bytes(covered))]
    if not runs:
        return Fenced(value=prompt, nonce=None)
    nonce = nonce_of({"prompt": prompt, **{str(i): text for i, text in enumerate(texts)}})
    pieces: list[str] = []
    at = 0
    for start, end in runs:
        pieces += [prompt[at:start], _fence("text", prompt[start:end], nonce)]
        at = end
    return Fenced(value="".join([*pieces, prompt[at:]]), nonce=nonce)


def texts_in(value: object) -> Iterator[str]:
    """All texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in cast("Mapping[object, object]", value).items():
            yield from texts_in(key)
            yield from texts_in(part)
    elif isinstance(value, Sequence):
        for part in cast("Sequence[object]", value):
            yield from texts_in(part)


def _is_harmless(value: object) -> bool:
    if value is None or isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, str):
        return not value.strip() or _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, (list, tuple, dict)) and not value


def _fence(name: str, text: str, nonce: str) -> str:
    return f"<field.{name}-{nonce}>\n{text}\n</field.{name}-{nonce}>"


def _fenced_value(name: str, value: Any, nonce: str, known: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        parts = _in_parts(value, nonce, known) if name in _IN_PARTS else None
        return parts or _fence(name, value, nonce)
    if isinstance(value, (list, tuple)):
        entries = [
            entry if _is_harmless(entry) else _fenced_value(name, entry, nonce, known)
            for entry in cast("Sequence[Any]", value)
        ]
        return _List(entries, whole=_fence(name, str(cast("object", value)), nonce))
    return _Object(value, name=name, nonce=nonce)


def _in_parts(text: str, nonce: str, known: Mapping[str, str]) -> str | None:
    """A text of several fields with a fence around each; None where something else is in it."""
    names = {field: name for name, field in known.items() if field.strip()}
    if not names:
        return None
    longest = sorted(names, key=len, reverse=True)
    pieces: list[str] = []
    at = 0
    for match in re.finditer("|".join(map(re.escape, longest)), text):
        pieces += [text[at : match.start()], _fence(names[match[0]], match[0], nonce)]
        at = match.end()
    pieces.append(text[at:])
    return "".join(pieces) if all(map(_HEADINGS.fullmatch, pieces[::2])) else None


class _List(list[Any]):
    """A list that prints itself in a fence and whose entries have fences of their own."""

    def __init__(self, entries: Sequence[Any], *, whole: str) -> None:
        super().__init__(entries)
        self._whole = whole

    def __str__(self) -> str:
        return self._whole

    def __repr__(self) -> str:
        return self._whole

    def __format__(self, spec: str, /) -> str:
        return self._whole

    def __getitem__(self, place: SupportsIndex | slice, /) -> Any:
        return super().__getitem__(place)


class _Object:
    """An object that prints itself and its attributes in a fence."""

    def __init__(self, value: Any, *, name: str, nonce: str) -> None:
        self._value = value
        self._name = name
        self._nonce = nonce

    def __str__(self) -> str:
        return _fence(self._name, str(self._value), self._nonce)

    __repr__ = __str__

    def __format__(self, spec: str, /) -> str:
        return str(self)

    def __getattr__(self, name: str) -> Any:
        return self._part(name, getattr(self._value, name))

    def __getitem__(self, key: Any) -> Any:
        return self._part(str(key), self._value[key])

    def __iter__(self) -> Iterator[Any]:
        return (self._part(self._name, part) for part in self._value)

    def __len__(self) -> int:
        return len(self._value)

    def _part(self, name: str, value: Any) -> Any:
        if _is_harmless(value) or callable(value):
            return value
        return _fenced_value(name, value, self._nonce, {})


def _forms(text: str) -> list[str]:
    """How a prompt may show a text: as it is, stripped, in JSON or in a Python literal."""
    bare = text.strip()
    forms = (text, bare, json.dumps(bare)[1:-1], json.dumps(bare, ensure_ascii=False)[1:-1])
    return [form for form in dict.fromkeys((*forms, repr(bare)[1:-1])) if form.strip()]


def _alone(form: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?<=[\n\"'`>])|(?<=: )|(?<![\s\S])){re.escape(form)}(?=[ \t]*(?:\n|$)|[\"'`<])"
    )


def _cover_shingles(prompt: str, texts: Collection[str], covered: bytearray) -> None:
    """Cover every part of a prompt that is a part of a text, at least as long as a shingle."""
    shingles = {
        form[at : at + _SHINGLE]
        for text in texts
        for form in _forms(text)
        for at in range(len(form) - _SHINGLE + 1)
    }
    if not shingles:
        return
    for at in range(len(prompt) - _SHINGLE + 1):
        if prompt[at : at + _SHINGLE] in shingles:
            covered[at : at + _SHINGLE] = b"\x01" * _SHINGLE
