"""Reads the verdict out of a reply, or says why there is none. Nothing is guessed.

A reply that is one JSON object, fenced or not, is that verdict. In prose, the one verdict that the
judge states as its own counts; two that differ are none, unless one is marked as final. What a
reply merely repeats of the judged texts is no verdict of the judge's.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from regauge.judges._evidence import listed, quote
from regauge.judges.model._prose import (
    SCORE,
    ReplyFault,
    Statement,
    TwoVerdictsFault,
    object_weight,
    share_of,
    statements_of_labels,
    statements_of_spec,
    value_of,
)
from regauge.prompts import RubricSpec
from regauge.strict_json import NoNumberError, TwiceError, no_constant, unique

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = [
    "Repeated",
    "Reply",
    "ReplyFault",
    "contradicting_remark",
    "json_object",
    "read_completion",
    "read_reply",
    "settled",
    "stated_label",
]

_HEADING: Final = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_TAKEN_BACK: Final = re.compile(
    r"^\W*(?:(?:no|oh|hmm|hm|but|well)\b\W*)?"
    r"(?:wait\b|actually\b|correction\b|scratch that|strike that|on second thoughts?|"
    r"on reflection|i take (?:that|it|this) back|i was (?:wrong|mistaken)|i am wrong|"
    r"i misread|i made a mistake|rather\b|or rather|disregard (?:that|this|my)|"
    r"ignore (?:that|my)|let me (?:correct|reconsider|revise)|i (?:retract|withdraw|revise|"
    r"reconsider)|make that)",
    re.IGNORECASE | re.MULTILINE,
)
_SETTLED_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")


def settled(
    text: str, found: Sequence[Statement], value_of: Callable[[Statement], float | str]
) -> Statement:
    """The one statement that is the verdict.

    Statements that all name one verdict are that verdict, if one of them is the judge's own. Of
    statements that differ, one is the verdict where it is marked as final, comes after all others,
    and is contradicted by none that is marked as well.

    Args:
        text: The text they are in.
        found: All statements, in order, at least one.
        value_of: The verdict that a statement names.

    Raises:
        ReplyFault: The judge states none as its own, or takes it back.
        TwoVerdictsFault: Two statements differ.
    """
    own = [one for one in found if one.weight != "mention"]
    if not own:
        raise ReplyFault("the reply mentions a verdict and states none")
    last = own[-1]
    values = {one.start: value_of(one) for one in found if one in own or _reads(one, value_of)}
    if len({values.get(one.start, one.value) for one in found}) > 1:
        last = _last_word(text, found, own, values)
    if any(_TAKEN_BACK.match(line) for line in _SETTLED_SENTENCE.split(text[last.end :])):
        raise ReplyFault("the reply takes its verdict back")
    return last


def _last_word(
    text: str,
    found: Sequence[Statement],
    own: Sequence[Statement],
    values: Mapping[int, float | str],
) -> Statement:
    """The statement that is marked as final, where the statements differ.

    Raises:
        TwoVerdictsFault: None is, or another one contradicts it.
    """
    last = own[-1]
    stated = values[last.start]
    other = [one for one in found if values.get(one.start, one.value) != stated]
    section = max((match.start() for match in _HEADING.finditer(text, 0, last.start)), default=0)
    match last.weight:
        case "final":
            # An object ends reasoning; over a verdict in another form it has no precedence.
            rivals = {"final", "conclusion", "plain"} if last.words.startswith("{") else {"final"}
            against = [one for one in other if one.formal and one.weight in rivals]
        case "conclusion":
            # A conclusion of an earlier section is about that section.
            against = [
                one
                for one in other
                if one.weight == "final"
                or (one.weight != "mention" and one.formal)
                or (one.weight == "conclusion" and one.start >= section)
            ]
        case _:
            against = other
    if against or any(one.start > last.start for one in other):
        named = dict.fromkeys(str(values.get(one.start, one.value)) for one in found)
        raise TwoVerdictsFault(f"the reply states more than one verdict: {listed(list(named))}")
    return last


def _reads(one: Statement, value_of: Callable[[Statement], float | str]) -> bool:
    try:
        value_of(one)
    except ReplyFault:
        return False
    return True


def stated_label(text: str, names: Mapping[str, str]) -> tuple[str, int] | None:
    """The verdict that a text states in words, with its place: the better one of `names`.

    Args:
        names: By name as the text calls it, in any case: the label it stands for.

    >>> names = {"A": "first", "B": "second"}
    >>> stated_label("B is better at first glance. Therefore, A is better.", names)
    ('first', 40)
    >>> stated_label("B is better. A is better.", names) is None
    True
    """
    try:
        found = statements_of_labels(text, names)
        if not found:
            return None
        one = settled(text, found, lambda statement: statement.value)
    except ReplyFault:
        return None
    return one.value, one.start


_APOSTROPHE: Final = "['\u2019]"
_LEADS: Final = (
    r"(?:^[ \t*_#\u2022-]*|(?<=[.!?;])[ \t*_]+"
    r"|(?<=,)[ \t]+(?=(?:and|so|but|therefore|thus|hence)\b))"
    r"(?:(?:and|so|but|yet|therefore|thus|hence|overall|however|still|clearly|"
    r"in (?:short|sum|conclusion|my (?:view|opinion))|as (?:such|a result|it is|it stands)|"
    r"for (?:this|that|these|those) reasons?|"
    r"i (?:would |must |will )?(?:say|find|think|judge|believe|conclude)(?: that)?),?[ \t]+)*"
)
_TEXT: Final = (
    r"(?:it|this|that|they|both|the two|(?:the|this|that|these|those)[ \t]+(?:\w+[ \t]+)?"
    r"(?:answer|response|output|reply|text|candidate|submission|completion|result|summary|"
    r"translation|note|work)s?)"
)
_NOT: Final = rf"(?P<{{}}>[ \t]*(?:(?<=can)not\b|\b(?:not|never)\b|n{_APOSTROPHE}t\b))?"
_DOES: Final = (
    r"(?:[ \t]+(?:does|do|did|has|have|should|must|ought|can|could|would|will|shall|may))?"
    rf"{_NOT}(?:[ \t]+(?:\w+ly|to|still|just|also|even))?[ \t]+"
)
_IS: Final = (
    rf"(?:{_APOSTROPHE}s|{_APOSTROPHE}re|[ \t]+(?:is|are|was|were|remains?|counts? as)){_NOT}[ \t]+"
    r"(?:(?:a|an|the|all|really|quite|clear|clearly|definite|plain)[ \t]+)*"
)
_ENDS: Final = (
    r"(?:[ \t]+(?:muster|at all|here|overall|(?:the|this|that|your|my)[ \t]+"
    r"(?:rubric|bar|criteri(?:on|a)|check|test|requirement|standard|evaluation|review)s?))?"
    r"[*_ \t]*(?=[.!;:\u2013\u2014]|$|,?[ \t]+(?:because|since|as|due|given|for)\b)"
)
_FLAGS: Final = re.IGNORECASE | re.MULTILINE
_PASSES: Final = re.compile(
    rf"{_LEADS}(?:{_TEXT}{_DOES.format('not')}(?P<verb>pass|fail)(?:e?[sd])?"
    rf"|(?:{_TEXT}{_IS.format('nor')}|(?P<never>not)[ \t]+(?:a[ \t]+)?)(?P<noun>pass|fail)(?:ure)?)"
    rf"{_ENDS}",
    _FLAGS,
)
_GRADES: Final = re.compile(
    rf"{_LEADS}(?:{_TEXT}(?:{_DOES.format('not')}"
    rf"(?:deserve|earn|get|merit|receive|score|rate)s?[ \t]+"
    rf"|{_IS.format('nor')})"
    rf"|i(?:{_APOSTROPHE}d|[ \t]+(?:would|must|will|do|can))?{_NOT.format('never')}[ \t]+"
    rf"(?:give|rate|score|award)[ \t]+{_TEXT}[ \t]+)(?:worth[ \t]+)?(?:(?:a|an)[ \t]+)?"
    rf"(?:score[ \t]+of[ \t]+)?(?P<value>{SCORE})(?:[ \t]+of[ \t]+[0-9]+|[ \t]+(?:point|star)s?)?"
    rf"{_ENDS}",
    _FLAGS,
)


def contradicting_remark(text: str, stated: float | str, spec: RubricSpec) -> str:
    """The first remark in a text that contradicts the verdict, or "".

    A remark is a sentence of the judge about the judged text as a whole, such as `It does not
    pass.`, `The answer deserves a 2.` or `The first is worse.`; a part of a longer sentence, and
    what is quoted or conditional, is none.

    Args:
        text: The reply, or the reasoning in it.
        stated: The verdict of the reply: a label, or a number on the scale.
        spec: What the rubric asks for.

    >>> from regauge.prompts import RubricSpec
    >>> contradicting_remark("It does not pass.", "pass", RubricSpec(kind="binary"))
    'It does not pass'
    >>> contradicting_remark("It does not pass.", "fail", RubricSpec(kind="binary"))
    ''
    >>> contradicting_remark("It passes the first check.", "fail", RubricSpec(kind="binary"))
    ''
    """
    for match in _pattern(spec).finditer(text):
        parts = {name: words for name, words in match.groupdict().items() if words is not None}
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if line.lstrip().startswith((">", "`")) or text.count("```", 0, match.start()) % 2:
            continue
        named: float | str
        if "value" in parts:
            try:
                named = value_of(parts["value"], spec)
            except ReplyFault:
                continue
        else:
            label = parts.get("verb") or parts.get("noun") or parts["label"]
            named = next(each for each in spec.labels if each.casefold() == label.casefold())
        denied = bool(parts.keys() & {"not", "nor", "never", "worse"})
        # Without the label that a remark denies, a verdict of two labels is the other one.
        if (named == stated) == denied:
            return match[0].strip(" \t*_#-,\u2022")
    return ""


def _pattern(spec: RubricSpec) -> re.Pattern[str]:
    match spec.kind:
        case "binary":
            return _PASSES
        case "graded":
            return _GRADES
        case "choice" | "pair":
            labels = "|".join(
                re.escape(label) for label in sorted(spec.labels, key=len, reverse=True)
            )
            one = rf"(?:the[ \t]+)?(?P<label>{labels})(?!\w)"
            if spec.kind == "choice":
                return re.compile(rf"{_LEADS}{_TEXT}{_IS.format('not')}{one}{_ENDS}", _FLAGS)
            noun = r"(?:[ \t]+(?:one|answer|response|output|reply|text))?"
            return re.compile(
                rf"{_LEADS}{one}{noun}(?:[ \t]+wins?|{_IS.format('not')}"
                rf"(?:(?:better|best|preferred|superior)|(?P<worse>worse|worst|inferior))"
                rf"{noun}){_ENDS}",
                _FLAGS,
            )


_WORDS_MIN: Final = 3
# A shorter text stands in a reply by chance.
_ECHO_MIN: Final = 20
# Spaces, marks of Markdown, and the characters of Unicode that format and are not seen.
_UNSEEN: Final = re.compile(
    r"[\s*_`\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u180b-\u180e\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e01ef]+"
)


class Repeated:
    """The judged texts, in the form in which repetitions of them are recognised.

    Args:
        texts: The judged texts.
        labels: The words that a verdict may be.
    """

    def __init__(self, texts: Collection[str], *, labels: Collection[str]) -> None:
        self._given = texts
        self._labels = {_plain(label) for label in labels}

    def blanked(self, reply: str) -> str:
        """A reply with blanks where it repeats a whole text, so that places stay what they are."""
        long = {text.strip() for text in self._given if len(text.strip()) >= _ECHO_MIN}
        for text in sorted(long, key=len, reverse=True):
            reply = reply.replace(text, " " * len(text))
        return reply

    def holds(self, words: str) -> bool:
        """Whether words stand in a judged text, however they are spaced, cased or marked."""
        plain = _plain(words)
        if len(plain) < _WORDS_MIN or _bare(words) in self._labels:
            # A lone word occurs in many texts; only a line of its own looks like a verdict.
            return _bare(words) in self._lines
        return any(plain in text for text in self._texts)

    @cached_property
    def _texts(self) -> list[str]:
        return [_plain(text) for text in self._given]

    @cached_property
    def _lines(self) -> set[str]:
        return {_bare(line) for text in self._given for line in text.splitlines()}


def _plain(text: str) -> str:
    """What a reader sees of a text, less its spaces, its case and its marks."""
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _UNSEEN.sub("", folded).casefold()


def _bare(line: str) -> str:
    return _plain(line).strip(">#-.!\"'")


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
