"""Reads the verdict out of a reply, or says why there is none. Nothing is guessed.

A reply that is one JSON object, fenced or not, is that verdict. Around prose, the last stated
verdict counts. What a reply merely repeats of the judged texts is no verdict of the judge's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from regauge.judges._evidence import listed, quote
from regauge.judges.model._numbers import ReplyFault, share_of, value_of
from regauge.judges.model._prose import stated_in
from regauge.judges.model._repeated import Repeated
from regauge.strict_json import NoNumberError, TwiceError, no_constant, unique

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from regauge.digests import JSON
    from regauge.prompts import RubricSpec
    from regauge.providers import Completion

__all__ = ["Reply", "ReplyFault", "json_object", "read_completion", "read_reply"]

# How many characters of failed attempts at JSON are read before what is left counts as prose.
_FAILED_CHARS_MAX: Final = 1_000_000
_ATTEMPT_CHARS: Final = 50
_FENCE: Final = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_OBJECT_BEGINS: Final = re.compile(r"\{\s*\"")


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
    offset = text.index(body)
    repeated = Repeated(judged, labels=spec.labels)
    if not _is_object(body):
        body = repeated.blanked(body)
    found = _verdicts_in(body, spec, repeated)
    if not found:
        why = "states none" if body.strip() else "only repeats what was judged"
        raise ReplyFault(f"no {spec.verdict_key}: the reply {why}: {quote(text.strip())}")
    start, end, last = max(found, key=lambda item: item[0])
    if not isinstance(last, dict):
        return _reply(last, spec, reasoning=text.strip())
    places = [match.end() for match in _key(spec).finditer(body, start, end)]
    return _from_object(last, spec, at=offset + places[-1] if places else None)


def _verdicts_in(body: str, spec: RubricSpec, repeated: Repeated) -> list[tuple[int, int, JSON]]:
    """What a text states as verdicts, with the place of each; repetitions are left out."""
    found: list[tuple[int, int, JSON]] = []
    spans = list(_objects(body))
    for start, end, value in spans:
        if not isinstance(value, dict) or spec.verdict_key not in value:
            if (start, end) == (0, len(body)):
                raise ReplyFault(f"the reply has no {spec.verdict_key!r}: {quote(body)}")
        elif not repeated.holds(body[start:end]):
            found.append((start, end, value))
        elif (start, end) == (0, len(body)):
            raise ReplyFault(f"the reply only repeats what was judged: {quote(body)}")
    prose = _without(body, [(start, end) for start, end, _ in spans])
    for start, words, stated in stated_in(prose, spec):
        if not repeated.holds(words):
            found.append((start, start + len(words), stated))
    return found


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


def _unfenced(text: str) -> str:
    """The inside of a text that is one fenced block and nothing else."""
    found = _FENCE.fullmatch(text)
    return found["body"].strip() if found and "```" not in found["body"] else text


def _is_object(text: str) -> bool:
    """Whether a text is one JSON object and nothing else."""
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and end == len(text)


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
        except TwiceError as fault:
            raise ReplyFault(f"the reply gives {fault.key!r} twice") from None
        except NoNumberError as fault:
            raise ReplyFault(f"the reply holds {fault.word}, which is no number") from None
        except RecursionError:
            raise ReplyFault("the reply is nested too deeply") from None
        else:
            yield start, end, value
            at = end


def _whole_number(digits: str) -> int | float:
    # Python refuses to read thousands of digits; no scale goes that far.
    return int(digits) if len(digits) < _ATTEMPT_CHARS else float(digits)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=no_constant, parse_int=_whole_number
)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with blanks in place of some parts, so that places stay what they are."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*pieces, text[at:]])


def _from_object(value: Mapping[str, JSON], spec: RubricSpec, *, at: int | None) -> Reply:
    reasoning = value.get("reasoning")
    if not isinstance(reasoning, str):
        problem = "no 'reasoning'" if reasoning is None else "a 'reasoning' that is no text"
        raise ReplyFault(f"the reply has {problem}: {quote(json.dumps(value))}")
    return _reply(value[spec.verdict_key], spec, reasoning=reasoning, at=at)


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
