"""Reads the verdict out of a reply, or says why there is none. Nothing is guessed.

A reply that is one JSON object, fenced or not, is that verdict. In prose, the one verdict that the
judge states as its own counts; two that differ are none, unless one is marked as final. What a
reply merely repeats of the judged texts is no verdict of the judge's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from regauge.judges._evidence import listed, quote
from regauge.judges.model._numbers import ReplyFault, TwoVerdictsFault, share_of, value_of
from regauge.judges.model._prose import (
    Statement,
    object_weight,
    statements_of_labels,
    statements_of_spec,
)
from regauge.judges.model._remarks import contradicting_remark
from regauge.judges.model._repeated import Repeated
from regauge.judges.model._settled import settled
from regauge.prompts import RubricSpec
from regauge.strict_json import NoNumberError, TwiceError, no_constant, unique

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = ["Reply", "ReplyFault", "json_object", "read_completion", "read_reply"]

# How many characters of failed attempts at JSON are read before what is left counts as prose.
_FAILED_CHARS_MAX: Final = 1_000_000
_ATTEMPT_CHARS: Final = 50
_FENCE: Final = re.compile(r"```[A-Za-z0-9_-]*[ \t]*\n(?P<body>.*?)\n?[ \t]*```", re.DOTALL)
_THINKS: Final = re.compile(r"<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_NAMED: Final = re.compile(r"(?:final[ \t]+)?(?:verdict|score|rating|grade)\b", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_HALF: Final = 0.5
_SHARE: Final = RubricSpec(kind="graded")
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
        criterion: What the verdict is about, where a reply is about several criteria.
        parts: The verdicts on each of several criteria, of which this is the lowest.
    """

    value: float | str
    score: float
    reasoning: str
    at: int | None = None
    criterion: str = ""
    parts: tuple[Reply, ...] = ()


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
        ReplyFault: It holds none, holds two that differ, or one in a form that cannot be trusted.
    """
    body = _unfenced(_without_thoughts(text).strip().removeprefix("\ufeff").strip())
    if not body:
        raise ReplyFault("the reply has no text")
    offset = text.index(body)
    repeated = Repeated(judged, labels=spec.labels)
    if not _is_object(body):
        body = repeated.blanked(body)
    found = _statements(body, spec, repeated)
    if not found:
        why = "states none" if body.strip() else "only repeats what was judged"
        raise ReplyFault(f"no {spec.verdict_key}: the reply {why}: {quote(text.strip())}")
    objects = {statement.start: value for statement, value in found if value is not None}

    def value_of_one(statement: Statement) -> float | str:
        value = objects.get(statement.start)
        stated = statement.value if value is None else value[spec.verdict_key]
        return _value(stated, spec)

    last = settled(body, [statement for statement, _ in found], value_of_one)
    # `Final verdict: pass` and, of two answers, `Therefore, A` overrule what was remarked before.
    overruled = last.weight == "final" and last.start not in objects
    if not overruled and (last.weight != "conclusion" or spec.kind in {"binary", "graded"}):
        prose = _without(body, [(one.start, one.end) for one, _ in found])
        _check_remarks(prose, value_of_one(last), spec)
    if last.start not in objects:
        reply = _reply(last.value, spec, reasoning=text.strip())
        _check_sides(reply, _without(body, [(last.start, last.end)]), spec, repeated)
        return reply
    places = [match.end() for match in _key(spec).finditer(body, last.start, last.end)]
    reply = _from_object(objects[last.start], spec, at=offset + places[-1] if places else None)
    _check_object(reply, objects[last.start], spec, repeated)
    return reply


def _without_thoughts(text: str) -> str:
    """The text with blanks in place of the block in which a model thinks before it replies.

    Raises:
        ReplyFault: The block has no end.
    """
    begins, ends = list(_THINKS.finditer(text)), list(_THOUGHT.finditer(text))
    opened = bool(begins) and not text[: begins[0].start()].strip()
    if opened and not ends:
        raise ReplyFault("the reply is cut off in the thoughts before it")
    # One block at the beginning; its first tag may be part of what the model was sent.
    if len(ends) == 1 and (opened or not begins):
        return " " * ends[0].end() + text[ends[0].end() :]
    return text


def _statements(
    body: str, spec: RubricSpec, repeated: Repeated
) -> list[tuple[Statement, Mapping[str, JSON] | None]]:
    """What a text states as verdicts, in order; repetitions are left out."""
    found: list[tuple[Statement, Mapping[str, JSON] | None]] = []
    spans = list(_objects(body))
    for start, end, value in spans:
        whole = (start, end) == (0, len(body))
        if not isinstance(value, dict) or spec.verdict_key not in value:
            if whole:
                raise ReplyFault(f"the reply has no {spec.verdict_key!r}: {quote(body)}")
        elif not repeated.holds(body[start:end]):
            statement = Statement(
                start=start,
                end=end,
                words=body[start:end],
                value=str(value[spec.verdict_key]),
                weight="final" if whole else object_weight(body, start, end),
                formal=True,
            )
            found.append((statement, value))
        elif whole:
            raise ReplyFault(f"the reply only repeats what was judged: {quote(body)}")
    prose = _without(body, [(start, end) for start, end, _ in spans])
    found += [
        (statement, None)
        for statement in statements_of_spec(prose, spec)
        if not repeated.holds(statement.words)
    ]
    return sorted(found, key=lambda pair: pair[0].start)


def _check_object(
    reply: Reply, value: Mapping[str, JSON], spec: RubricSpec, repeated: Repeated
) -> None:
    """Refuse an object that states another verdict in its other parts.

    Raises:
        TwoVerdictsFault: It does.
    """
    for nested in _nested(value, spec.verdict_key):
        if nested is not value[spec.verdict_key] and nested != value[spec.verdict_key]:
            raise TwoVerdictsFault(f"the reply gives {spec.verdict_key!r} two values")
    reasoning = reply.reasoning.rstrip()
    # Reasoning may weigh both sides; its last sentence concludes.
    last = max((match.end() for match in _SENTENCE.finditer(reasoning)), default=0)
    if spec.kind != "pair":  # of a pair, it may well end with what one of the texts claims
        _check_remarks(reasoning[last:], reply.value, spec)
    for statement in statements_of_spec(reasoning, spec):
        concludes = statement.weight in {"conclusion", "final"} or (
            spec.kind != "pair"
            and statement.weight == "plain"
            and statement.formal
            and statement.start >= last
        )
        if concludes and not repeated.holds(statement.words):
            try:
                concluded = _value(statement.value, spec)
            except ReplyFault:
                continue
            if concluded != reply.value:
                raise TwoVerdictsFault(
                    f"the reasoning of the reply concludes {quote(statement.words)}, and its"
                    f" {spec.verdict_key} is {reply.value!r}"
                )
    other = {key: value[key] for key in ("verdict", "score", "rating") if key in value}
    other.pop(spec.verdict_key, None)
    _check_sides(
        reply, "\n".join(f"{key}: {stated}" for key, stated in other.items()), spec, repeated
    )


def _check_remarks(text: str, stated: float | str, spec: RubricSpec) -> None:
    """Refuse a verdict that a remark such as `It does not pass.` contradicts.

    Raises:
        TwoVerdictsFault: One does.
    """
    if remark := contradicting_remark(text, stated, spec):
        raise TwoVerdictsFault(
            f"the reply states {quote(remark)}, and its {spec.verdict_key} is {stated!r}"
        )


def _nested(value: JSON, key: str) -> Iterator[JSON]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name == key:
                yield part
            yield from _nested(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _nested(part, key)


def _check_sides(reply: Reply, text: str, spec: RubricSpec, repeated: Repeated) -> None:
    """Refuse a score with a verdict that contradicts it, such as `Score: 5/5, verdict: fail`.

    Raises:
        TwoVerdictsFault: One stands for good, the other one for bad.
    """
    if spec.kind == "graded":
        found = statements_of_labels(text, {"pass": "pass", "fail": "fail"}, ("verdict",))
    elif spec.kind == "binary":
        found = statements_of_spec(text, _SHARE)
    else:
        return
    sides = {
        _is_good(one.value)
        for one in found
        if one.weight != "mention" and _NAMED.match(one.words) and not repeated.holds(one.words)
    }
    if (reply.score > _HALF and False in sides) or (reply.score < _HALF and True in sides):
        raise TwoVerdictsFault(f"the reply states a score and a verdict that differ: {quote(text)}")


def _is_good(value: str) -> bool | None:
    """Whether a label or a share such as `4/5` stands for good; None where it is unclear."""
    if value in {"pass", "fail"}:
        return value == "pass"
    try:
        share = value_of(value, _SHARE) if re.search(r"/|of|%", value) else _HALF
    except ReplyFault:
        return None
    return None if share == _HALF else share > _HALF


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
        except ValueError:
            raise ReplyFault("the reply holds a number with too many digits") from None
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
    value = _value(stated, spec)
    score = score_of(value, spec) if isinstance(value, str) else share_of(value, spec)
    return Reply(value=value, score=score, reasoning=reasoning, at=at)


def _value(stated: JSON, spec: RubricSpec) -> float | str:
    """A stated value as a score on the scale, or as a label.

    Raises:
        ReplyFault: It is neither.
    """
    if spec.kind == "graded":
        return value_of(stated, spec)
    if not isinstance(stated, str):
        raise ReplyFault(f"the {spec.verdict_key} is {stated!r}, not one of {listed(spec.labels)}")
    folded = stated.strip().casefold()
    label = next((label for label in spec.labels if label.casefold() == folded), None)
    if label is None:
        raise ReplyFault(
            f"the {spec.verdict_key} is {quote(stated)}, not one of {listed(spec.labels)}"
        )
    return label


def score_of(label: str, spec: RubricSpec) -> float:
    """The score that a label stands for."""
    fixed = {"pass": 1.0, "fail": 0.0, "first": 1.0, "second": 0.0, "tie": 0.5}
    return spec.choices[label] if spec.kind == "choice" else fixed[label]
