"""Reads the verdict out of a reply, or says why there is none. Nothing is guessed.

A reply that is one JSON object, fenced or not, is that verdict. Around prose, the last stated
verdict counts. What a reply merely repeats of the judged texts is no verdict of the judge's.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from regauge.judges._evidence import listed, quote
from regauge.judges.model._numbers import SCORE, ReplyFault, share_of, value_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from regauge.digests import JSON
    from regauge.prompts import RubricSpec
    from regauge.providers import Completion

__all__ = ["Reply", "ReplyFault", "json_object", "read_completion", "read_reply", "stated_label"]

# How many characters of failed attempts at JSON are read before what is left counts as prose.
_FAILED_CHARS_MAX: Final = 1_000_000
_ATTEMPT_CHARS: Final = 50
_FENCE: Final = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_OBJECT_BEGINS: Final = re.compile(r"\{\s*\"")
_MARKS: Final = r"[*_`\"' \t]{0,6}"
_GRADE: Final = re.compile(
    rf"\b(?:score|rating|grade)\b{_MARKS}(?:is|of|:|=)?{_MARKS}:?{_MARKS}(?P<value>{SCORE})(?![\w/%])",
    re.IGNORECASE,
)
_BARE_GRADE: Final = re.compile(
    r"(?<![\w./-])(?P<value>[0-9]+(?:\.[0-9]+)?[ \t]*(?:/|out[ \t]of)[ \t]*[0-9]+)"
    r"(?![\w/%]|\.[0-9])"
)
_QUOTED_MIN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One verdict of a judge's model.

    Attributes:
        value: What it stated: a number on the rubric's scale, or a label.
        score: From 0 (worst) to 1 (best); for a pair 1 where the first wins, 0 the second, 0.5
            neither.
        reasoning: Why, in the model's words.
        at: Where the value stands in the reply, for log-probabilities; None where unknown.
    """

    value: float | str
    score: float
    reasoning: str
    at: int | None = None


def read_completion(
    completion: Completion, spec: RubricSpec, *, judged: Collection[str] = ()
) -> Reply:
    """The verdict in a completion.

    Args:
        judged: The texts that were judged; repeating them is stating nothing.

    Raises:
        ReplyFault: There is no text, it is cut off, or it holds no verdict.
    """
    return read_reply(text_of(completion), spec, judged=judged)


def text_of(completion: Completion) -> str:
    """The text of a completion that is whole.

    Raises:
        ReplyFault: There is none, or it is cut off.
    """
    if completion.refusal:
        raise ReplyFault(f"the judge's model refused: {quote(completion.refusal)}")
    if completion.finish_reason == "content_filter":
        raise ReplyFault("the reply was withheld by a content filter")
    if completion.finish_reason == "length":
        raise ReplyFault("the reply is cut off: it reached its limit of tokens")
    if not completion.text or not completion.text.strip():
        raise ReplyFault("the reply has no text")
    return completion.text


def read_reply(text: str, spec: RubricSpec, *, judged: Collection[str] = ()) -> Reply:
    """The verdict in a text.

    Raises:
        ReplyFault: It holds none, or holds it in a form that cannot be trusted.
    """
    body = _unfenced(text.strip().removeprefix("\ufeff").strip())
    if not body:
        raise ReplyFault("the reply has no text")
    quoted = _Quoted(judged, labels=spec.labels)
    found: list[tuple[int, str, Any]] = []
    spans = list(_objects(body))
    for start, end, value in spans:
        if (
            isinstance(value, dict)
            and spec.verdict_key in value
            and not quoted.holds(body[start:end])
        ):
            found.append((start, body[start:end], value))
    if spans and spans[0][:2] == (0, len(body)):
        if not found:
            _refuse_whole(spans[0][2], spec)
        return _from_object(found[-1][2], spec, text, body)
    prose = _without(body, [(start, end) for start, end, _ in spans])
    found += [
        (at, shown, value) for at, shown, value in _stated(prose, spec) if not quoted.holds(shown)
    ]
    if not found:
        raise ReplyFault(f"the reply states no {spec.verdict_key}: {quote(body)}")
    _, _, last = max(found, key=lambda item: item[0])
    if isinstance(last, dict):
        return _from_object(cast("dict[str, JSON]", last), spec, text, body)
    return _reply(last, spec, reasoning=body)


def stated_label(text: str, names: Mapping[str, str]) -> tuple[str, int] | None:
    """The last verdict that a text states in words, with its place: the better one of `names`.

    A verdict is `NAME is better` (or preferred, the winner, the better one), `winner: NAME`,
    or a line with the name and nothing else.

    Args:
        names: By name as the text calls it, in any case: the label it stands for.

    >>> stated_label("B is better at first. No: A is better.", {"A": "first", "B": "second"})
    ('first', 22)
    """
    found = [(at, label) for at, _, label in _labels_in(text, names, ("winner", "verdict"))]
    at, label = max(found, default=(-1, ""))
    return (label, at) if at >= 0 else None


def json_object(text: str) -> dict[str, JSON]:
    """The JSON object that a reply is, fenced or not.

    Raises:
        ReplyFault: It is none, it is more than that, or it gives a key twice.
    """
    body = _unfenced(text.strip().removeprefix("\ufeff").strip())
    spans = list(_objects(body))
    if not spans or spans[0][:2] != (0, len(body)):
        raise ReplyFault(f"the reply is not one JSON object: {quote(body)}")
    return cast("dict[str, JSON]", spans[0][2])


def _refuse_whole(value: JSON, spec: RubricSpec) -> NoReturn:
    keys = listed(sorted(value)) if isinstance(value, dict) else ""
    if isinstance(value, dict) and spec.verdict_key in value:
        raise ReplyFault("the reply repeats what was judged and states nothing of its own")
    raise ReplyFault(f"the reply has no {spec.verdict_key!r}; it has {keys or 'no keys'}")


def _unfenced(text: str) -> str:
    """The inside of a text that is one fenced block and nothing else."""
    found = _FENCE.fullmatch(text)
    return found["body"].strip() if found and "```" not in found["body"] else text


def _objects(text: str) -> Iterator[tuple[int, int, JSON]]:
    """The JSON objects in a text, outermost ones, each with its place.

    Raises:
        ReplyFault: One gives a key twice, or is never closed.
    """
    at, failed_chars = 0, 0
    while failed_chars < _FAILED_CHARS_MAX and (start := text.find("{", at)) >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as fault:
            never_closed = fault.msg.startswith("Unterminated") or fault.pos >= len(text)
            if (never_closed or start == 0) and _OBJECT_BEGINS.match(text, start):
                why = "is cut off" if never_closed else f"is not JSON ({fault.msg})"
                raise ReplyFault(f"the reply {why}: {quote(text)}") from None
            failed_chars += fault.pos - start + _ATTEMPT_CHARS
            at = start + 1
        except RecursionError:
            raise ReplyFault("the reply is nested too deeply") from None
        else:
            yield start, end, value
            at = end


def _once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    made: dict[str, JSON] = {}
    for name, value in pairs:
        if name in made:
            raise ReplyFault(f"the reply gives {name!r} twice")
        made[name] = value
    return made


def _no_constant(word: str) -> NoReturn:
    raise ReplyFault(f"the reply holds {word}, which is no number")


def _whole_number(digits: str) -> int | float:
    # Python refuses to read thousands of digits; no scale goes that far.
    return int(digits) if len(digits) < _ATTEMPT_CHARS else float(digits)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_whole_number
)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with blanks in place of some parts, so that places stay what they are."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*pieces, text[at:]])


def _from_object(value: Mapping[str, JSON], spec: RubricSpec, text: str, body: str) -> Reply:
    reasoning = value.get("reasoning")
    if not isinstance(reasoning, str):
        problem = "no 'reasoning'" if reasoning is None else "a 'reasoning' that is no text"
        raise ReplyFault(f"the reply has {problem}: {quote(body)}")
    stated = value[spec.verdict_key]
    places = [match.end() for match in _key(spec).finditer(text)]
    return _reply(stated, spec, reasoning=reasoning, at=places[-1] if places else None)


def _key(spec: RubricSpec) -> re.Pattern[str]:
    return re.compile(rf'(?<!\\)"{spec.verdict_key}"\s*:\s*"?')


def _reply(stated: JSON, spec: RubricSpec, *, reasoning: str, at: int | None = None) -> Reply:
    """The reply that a stated value makes."""
    if spec.kind == "graded":
        value = value_of(stated, spec)
        return Reply(value=value, score=share_of(value, spec), reasoning=reasoning, at=at)
    if not isinstance(stated, str):
        raise ReplyFault(f"the {spec.verdict_key} is {stated!r}, not one of {listed(spec.labels)}")
    folded = stated.strip().casefold()
    label = next((label for label in spec.labels if label.casefold() == folded), None)
    if label is None:
        raise ReplyFault(
            f"the {spec.verdict_key} is {quote(stated)}, not one of {listed(spec.labels)}"
        )
    return Reply(value=label, score=score_of(label, spec), reasoning=reasoning, at=at)


def score_of(label: str, spec: RubricSpec) -> float:
    """The score that a label stands for."""
    fixed = {"pass": 1.0, "fail": 0.0, "first": 1.0, "second": 0.0, "tie": 0.5}
    return spec.choices[label] if spec.kind == "choice" else fixed[label]


def _stated(prose: str, spec: RubricSpec) -> Iterator[tuple[int, str, str]]:
    """What prose states as verdicts: the place, the words, and the value."""
    if spec.kind != "graded":
        keys = (spec.verdict_key, "verdict")
        yield from _labels_in(prose, {label: label for label in spec.labels}, keys)
        return
    if re.fullmatch(SCORE, prose.strip()):
        yield 0, prose.strip(), prose.strip()
        return
    named = [(m.start(), m[0], m["value"]) for m in _GRADE.finditer(prose)]
    if named:
        yield from named
        return
    bare = [(m.start(), m[0], m["value"]) for m in _BARE_GRADE.finditer(prose)]
    # `3/5` may count steps; only where nothing else of the kind is said does it grade.
    if len({value.replace(" ", "") for _, _, value in bare}) == 1:
        yield bare[-1]


def _labels_in(
    text: str, names: Mapping[str, str], keys: tuple[str, ...]
) -> Iterator[tuple[int, str, str]]:
    labels = {name.casefold(): label for name, label in names.items()}
    # Longest first, so that no name is read as another that it begins with.
    one_of = "|".join(re.escape(name) for name in sorted(labels, key=len, reverse=True))
    name = rf"(?<!\w)(?P<name>{one_of})(?!\w)"
    patterns = (
        rf"\b(?:{'|'.join(keys)})\b{_MARKS}(?:is|:|=)?{_MARKS}{name}(?!{_MARKS}(?:/|\||or\b))",
        rf"{name}{_MARKS}is{_MARKS}(?:the[ \t]+)?(?:better|best|preferred|winner|superior)\b",
        rf"^[ \t>#-]*{_MARKS}{name}{_MARKS}[.!]?[ \t]*$",
    )
    for pattern in patterns:
        for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE):
            yield match.start("name"), match[0], labels[match["name"].casefold()]


class _Quoted:
    """The judged texts, in the form in which repetitions of them are recognised."""

    __slots__ = ("_labels", "_lines", "_texts")

    def __init__(self, texts: Collection[str], *, labels: Collection[str]) -> None:
        self._texts = [_plain(text) for text in texts]
        self._labels = {_plain(label) for label in labels}
        self._lines = {_bare(line) for text in texts for line in text.splitlines()}

    def holds(self, words: str) -> bool:
        """Whether words stand in a judged text, however they are spaced, cased or marked."""
        plain = _plain(words)
        if _bare(words) in self._labels:
            # A lone word occurs in many texts; only a line of its own looks like a verdict.
            return _bare(words) in self._lines
        return len(plain) >= _QUOTED_MIN and any(plain in text for text in self._texts)


def _bare(line: str) -> str:
    return _plain(line).strip(">#-.!\"'")


def _plain(text: str) -> str:
    """Letters, digits and signs alone: no spaces, marks, invisible characters or forms."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(
        char
        for char in folded
        if not char.isspace() and char not in "*_`" and unicodedata.category(char) != "Cf"
    )
