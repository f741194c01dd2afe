"""Reads the verdict out of a reply, or says why there is none. Nothing is guessed.

A reply that is one JSON object, fenced or not, is that verdict. In prose, the one verdict that the
judge states as its own counts; two that differ are none, unless one is marked as final. What a
reply merely repeats of the judged texts is no verdict of the judge's.

A statement of a verdict in prose is `Score: 4/5`, `Verdict: pass` or `A is better`. Each comes with
its weight; one that the judge denies, quotes, attributes to someone or makes depend on a condition
is a mention.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, cast

from regauge.judges._output import ATTEMPT_CHARS, FAILED_CHARS_MAX, parse_json
from regauge.judges._types import format_number, quote, quote_list
from regauge.lexicon import Lexicon
from regauge.prompts import RubricSpec
from regauge.strict_json import DuplicateKeyError, InvalidNumberError, refuse_constant, unique, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from regauge.digests import JSON
    from regauge.providers import Completion


_WORDS: Final = Lexicon("regauge.judges", file="data/replies.toml")
_PERCENT: Final = 100


class ReplyFault(ValueError):  # noqa: N818 - a reply is at fault, like a JsonFault
    """The reason why a reply holds no verdict.

    Attributes:
        wrong: What the model is shown of it; never words of the reply.
    """

    wrong: str = "it was not the one JSON object that was asked for"


class TwoVerdictsFault(ReplyFault):
    """A reply states two verdicts."""

    wrong = "it stated more than one verdict, and not the one JSON object that was asked for"


def value_of(stated: JSON, spec: RubricSpec) -> float:
    """A stated score on the scale of a rubric.

    `4/5` is 4 on a scale that ends at 5, and 0.8 on one that ends at 1; a percentage is a share
    of the scale, or itself on one that ends at 100.

    Raises:
        ReplyFault: It is no number, or not on the scale.
    """
    value: float
    if isinstance(stated, bool) or not isinstance(stated, (int, float, str)):
        raise ReplyFault(f"the score is {_kind(stated)}, not a number")
    if isinstance(stated, str):
        value = _written(stated, spec)
    else:
        try:
            value = float(stated)
        except OverflowError:
            value = math.inf
    if not spec.low <= value <= spec.high:  # NaN is on no scale
        stated_text = stated if isinstance(stated, str) else repr(stated)[:40]
        raise ReplyFault(
            f"the score {stated_text} is not on the scale {format_number(spec.low)} to"
            f" {format_number(spec.high)}"
        )
    return value


def share_of(value: float, spec: RubricSpec) -> float:
    """Where a value lies on its scale, from 0 (worst) to 1 (best)."""
    return (value - spec.low) / (spec.high - spec.low)


def _written(text: str, spec: RubricSpec) -> float:
    match = _WORDS.parts.fullmatch(text.strip())
    if match is None:
        raise ReplyFault(f"the score is {quote(text)}, not a number")
    value = float(match["value"])
    if match["percent"]:
        if spec.high == _PERCENT:
            return value
        return spec.low + value / _PERCENT * (spec.high - spec.low)
    if match["of"] is None:
        return value
    whole = float(match["of"])
    if whole == spec.high:
        return value
    if spec.high == 1 and whole > 0:
        return value / whole
    raise ReplyFault(
        f"the score {text.strip()} is of {match['of']}, not of {format_number(spec.high)}"
    )


def _kind(value: JSON) -> str:
    if value is None:
        return "null"
    return "a boolean" if isinstance(value, bool) else "an object or a list"


Weight = Literal["mention", "partial", "plain", "conclusion", "final"]
"""The weight of a statement.

- `mention`: denied, quoted, reported, asked, or true under a condition only
- `partial`: of one aspect, as in `A is better in tone`
- `plain`: the judge's own words
- `conclusion`: the judge's own words after `Therefore` or the like
- `final`: named as final, as in `Final verdict: pass`
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One place of a reply that names a verdict.

    Attributes:
        start: Its first character.
        end: The character after its last one.
        words: The statement as the reply has it.
        value: The label, or the score as it is written.
        formal: Whether it has the form of a verdict (`Verdict: pass`, a line with the label
            alone), not of a remark (`A is better`).
    """

    start: int
    end: int
    words: str
    value: str
    weight: Weight
    formal: bool


# How much text around a statement is read as its sentence, and how many statements are read.
_CONTEXT_CHARS: Final = 600

# A reply with more repeats itself; reading all of them would take quadratic time.
_STATEMENTS_MAX: Final = 200


def statements_of_spec(prose: str, spec: RubricSpec) -> list[Statement]:
    """All statements of a rubric's verdict in a text, in order.

    Raises:
        ReplyFault: There are too many.
    """
    if spec.kind != "graded":
        names = {label: label for label in spec.labels}
        return statements_of_labels(prose, names, (spec.verdict_key, "verdict"))
    if _WORDS.score.fullmatch(prose.strip()):
        at = len(prose) - len(prose.lstrip())
        words = prose.strip()
        return [_statement(prose, at, at + len(words), value=words, weight="plain")]
    named = [
        _weigh(prose, match, match["value"])
        for pattern in (_WORDS.grade, _WORDS.final_grade)
        for match in _matches(pattern, prose)
    ]
    named += [
        _statement(prose, match.start(), match.end(), value=match["value"], weight="mention")
        for match in _matches(_WORDS.loose_grade, prose)
    ]
    strongest = _strongest(named)
    if not any(statement.weight not in {"mention", "partial"} for statement in strongest):
        # `3/5` may count steps: it is a grade only where no score is named.
        strongest += [
            _weigh(prose, match, match["value"]) for match in _matches(_WORDS.bare_grade, prose)
        ]
    return sorted(_strongest(strongest), key=lambda statement: statement.start)


def statements_of_labels(
    text: str, names: Mapping[str, str], keys: tuple[str, ...] = ("winner", "verdict")
) -> list[Statement]:
    """All statements of a label in a text, in order.

    A statement is `winner: NAME`, `NAME is better` (or preferred, the winner, the better one),
    `Therefore, NAME`, or a line with the name alone.

    Args:
        names: By name as the text calls it, in any case: the label it stands for.
        keys: What the verdict is called.

    Raises:
        ReplyFault: There are too many.
    """
    return sorted(_strongest(_of_labels(text, names, keys)), key=lambda statement: statement.start)


def _of_labels(text: str, names: Mapping[str, str], keys: tuple[str, ...]) -> Iterator[Statement]:
    labels = {name.casefold(): label for name, label in names.items()}
    # Longest first, so that a name is never read as another that it begins with.
    name = "|".join(re.escape(name) for name in sorted(labels, key=len, reverse=True))
    key = "|".join(dict.fromkeys(keys))
    for form in ("keyed", "better", "chosen", "concluded", "alone", "near_key", "near_name"):
        for match in _matches(_WORDS.pattern(form, name=name, key=key), text):
            label = labels[match["name"].casefold()]
            if form.startswith("near"):
                yield _statement(text, match.start(), match.end(), value=label, weight="mention")
            else:
                formal = form in {"keyed", "alone"}
                yield _weigh(text, match, label, formal=formal, alone=form == "alone")


def _matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """All matches of a pattern.

    Raises:
        ReplyFault: There are more than any judge writes.
    """
    matches = list(islice(pattern.finditer(text), _STATEMENTS_MAX + 1))
    if len(matches) > _STATEMENTS_MAX:
        raise ReplyFault(f"the reply states a verdict more than {_STATEMENTS_MAX} times")
    return matches


def _strongest(statements: list[Statement] | Iterator[Statement]) -> list[Statement]:
    """One statement of those that overlap: the one that a narrower pattern found."""
    kept: list[Statement] = []
    for statement in statements:  # narrow patterns come first
        if all(
            statement.end <= kept_one.start or kept_one.end <= statement.start for kept_one in kept
        ):
            kept.append(statement)
    return kept


def _statement(
    text: str, start: int, end: int, *, value: str, weight: Weight, formal: bool = True
) -> Statement:
    return Statement(
        start=start, end=end, words=text[start:end], value=value, weight=weight, formal=formal
    )


def _weigh(
    text: str, match: re.Match[str], value: str, *, formal: bool = True, alone: bool = False
) -> Statement:
    start, end = match.span()
    if alone:
        start = match.start("name")
        weight = _weight_alone(text, match)
    else:
        weight = _weight(text, start, end, words=match[0], formal=formal)
    return _statement(text, start, end, value=value, weight=weight, formal=formal)


def _weight(text: str, start: int, end: int, *, words: str, formal: bool) -> Weight:
    before, after = _before(text, start), _after(text, end)
    if not formal:
        before = _WORDS.correction.sub("", before)
    if _is_set_apart(text, start, before) or _WORDS.tentative.match(after) or _asks(text, end):
        return "mention"
    if _is_denied(before) or (formal and not _is_verdict_line(before, after)):
        return "mention"
    if formal and (_WORDS.final_word.search(before) or _WORDS.final_word.match(words)):
        return "final"
    if _WORDS.concludes.search(before) or (not formal and _WORDS.conclusion.match(words)):
        return "conclusion"
    partial = _WORDS.partial_after.match(after) or _WORDS.pattern("partial_before").search(before)
    return "partial" if partial and not formal else "plain"


def _is_verdict_line(before: str, after: str) -> bool:
    """Return whether a sentence is made to state a verdict of the form `Verdict: pass`."""
    leads = (
        _WORDS.concludes.search(before)
        or _WORDS.opens.match(before)
        or _is_leading(_led_in(before))
    )
    return bool(leads and _WORDS.goes_on.match(after))


def _weight_alone(text: str, match: re.Match[str]) -> Weight:
    """The weight of a line with a label alone: what leads to it may deny it."""
    line = match[0]
    if ">" in line[: match.start("name") - match.start()] or _in_fence(text, match.start("name")):
        return "mention"
    lead = _line_before(text, match.start())
    if lead.endswith(":") and _is_denied(lead):
        return "mention"
    return "final" if lead.endswith(":") and _WORDS.final_word.search(lead) else "plain"


def object_weight(text: str, start: int, end: int) -> Weight:
    """The weight of a JSON object within a text: the requested form is final.

    >>> object_weight('My reply: {"verdict": "pass"}', 10, 29)
    'final'
    >>> object_weight('I will not reply {"verdict": "pass"}', 17, 36)
    'mention'
    """
    before, after = _before(text, start), _after(text, end)
    if _is_quote(text, start) or _WORDS.tentative.match(after):
        return "mention"
    return "mention" if _is_denied(before) else "final"


def _is_denied(before: str) -> bool:
    """Return whether a sentence denies, reports or conditions its verdict."""
    own = _WORDS.but.split(_led_in(before))[-1]
    # `The date is wrong, so the verdict is ...`: only the last clause can deny it.
    clause = _WORDS.so.split(own)[-1]
    return bool(_WORDS.denies.search(clause) or _WORDS.distances.search(own))


def _led_in(before: str) -> str:
    """The text of a sentence before its verdict, without phrases that only lead in."""
    return _WORDS.mine.sub(" ", _WORDS.leads_in.sub(" ", before))


def _before(text: str, start: int) -> str:
    """The text of its sentence before a statement, or the line that leads to it."""
    begin = max(0, start - _CONTEXT_CHARS)
    window = text[begin:start]
    ends = [match.end() for match in _WORDS.sentence_end.finditer(window)]
    before = window[ends[-1] :] if ends else window
    if re.sub(r"[\s*_`#|>-]", "", before):
        return before
    lead = _line_before(text, start)
    return lead if lead.endswith(":") else before


def _after(text: str, end: int) -> str:
    """The text of its sentence after a statement."""
    window = text[end : end + _CONTEXT_CHARS]
    match = _WORDS.sentence_end.search(window)
    return window[: match.start()] if match else window


def _asks(text: str, end: int) -> bool:
    match = _WORDS.sentence_end.search(text, end, end + _CONTEXT_CHARS)
    return match is not None and match[0] in {"?", "\uff1f"}


def _line_before(text: str, start: int) -> str:
    """The last line before the one of a place that says something; marks of fences say nothing."""
    lines = text[max(0, start - _CONTEXT_CHARS) : start].split("\n")[:-1]
    texts = (line.strip().strip("*_ ") for line in reversed(lines))
    return next((line for line in texts if line and not line.startswith("```")), "")


def _is_set_apart(text: str, start: int, before: str) -> bool:
    """Return whether a statement is quoted, struck out, commented, unticked or fenced."""
    quoted = before.rstrip("*_ ").endswith(('"', "'", "“", "„", "«", "‘", "(", "「", "『"))  # noqa: RUF001 - quotation marks
    hidden = any(mark in before for mark in ("~", "<", "[ ]"))
    return quoted or hidden or _is_quote(text, start) or _in_fence(text, start)


def _is_quote(text: str, start: int) -> bool:
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return line.lstrip().startswith(">")


def _in_fence(text: str, start: int) -> bool:
    return text.count("```", 0, start) % 2 == 1


def _is_leading(before: str) -> bool:
    """Return whether a sentence says nothing before its verdict that could turn it around."""
    before_mark = _WORDS.list_mark.sub("", before).replace("’", "'")  # noqa: RUF001 - an apostrophe
    words = re.findall(r"[^\W_]+(?:'[a-z]+)?", before_mark.casefold())
    return all(word in _WORDS.words("leading") or word.isdecimal() for word in words)


_HEADING: Final = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_SETTLED_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")


def settled(
    text: str, statements: Sequence[Statement], value_of: Callable[[Statement], float | str]
) -> Statement:
    """The one statement that is the verdict.

    Statements that all name one verdict are that verdict, if one of them is the judge's own. Of
    statements that differ, one is the verdict where it is marked as final, comes after all others,
    and is contradicted by none that is marked as well.

    Args:
        text: The text they are in.
        statements: All of them, in order, at least one.
        value_of: The verdict that a statement names.

    Raises:
        ReplyFault: The judge states none as its own, or takes it back.
        TwoVerdictsFault: Two statements differ.
    """
    own = [statement for statement in statements if statement.weight != "mention"]
    if not own:
        raise ReplyFault("the reply mentions a verdict and states none")
    last = own[-1]
    values = {
        statement.start: value_of(statement)
        for statement in statements
        if statement in own or _reads(statement, value_of)
    }
    if len({values.get(statement.start, statement.value) for statement in statements}) > 1:
        last = _last_word(text, statements, own, values)
    if any(_WORDS.taken_back.match(line) for line in _SETTLED_SENTENCE.split(text[last.end :])):
        raise ReplyFault("the reply takes its verdict back")
    return last


def _last_word(
    text: str,
    statements: Sequence[Statement],
    own: Sequence[Statement],
    values: Mapping[int, float | str],
) -> Statement:
    """The statement that is marked as final, where the statements differ.

    Raises:
        TwoVerdictsFault: None is, or another one contradicts it.
    """
    last = own[-1]
    stated = values[last.start]
    other = [
        statement
        for statement in statements
        if values.get(statement.start, statement.value) != stated
    ]
    section = max((match.start() for match in _HEADING.finditer(text, 0, last.start)), default=0)
    match last.weight:
        case "final":
            # An object ends reasoning; over a verdict in another form it has no precedence.
            rivals = {"final", "conclusion", "plain"} if last.words.startswith("{") else {"final"}
            against = [
                statement for statement in other if statement.formal and statement.weight in rivals
            ]
        case "conclusion":
            # A conclusion of an earlier section is about that section.
            against = [
                statement
                for statement in other
                if statement.weight == "final"
                or (statement.weight != "mention" and statement.formal)
                or (statement.weight == "conclusion" and statement.start >= section)
            ]
        case _:
            against = other
    if against or any(statement.start > last.start for statement in other):
        named = dict.fromkeys(
            str(values.get(statement.start, statement.value)) for statement in statements
        )
        raise TwoVerdictsFault(f"the reply states more than one verdict: {quote_list(list(named))}")
    return last


def _reads(statement: Statement, value_of: Callable[[Statement], float | str]) -> bool:
    try:
        value_of(statement)
    except ReplyFault:
        return False
    return True


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
    """The pattern of remarks on a text as a whole, for a kind of rubric."""
    if spec.kind in {"binary", "graded"}:
        return _WORDS.pattern("passes" if spec.kind == "binary" else "grades")
    labels = sorted(spec.labels, key=len, reverse=True)
    return _WORDS.pattern(f"remark_{spec.kind}", name="|".join(map(re.escape, labels)))


# Shorter words, or a shorter text, stand in a reply by chance (both in characters). Larger numbers
# let more of a repeated text count as the judge's own words.
_WORDS_MIN: Final = 3
_ECHO_MIN: Final = 20


class Repeated:
    """The judged texts, in the form in which repetitions of them are recognised.

    Args:
        texts: The judged texts.
        labels: The words that a verdict may be.
    """

    def __init__(self, texts: Collection[str], *, labels: Collection[str]) -> None:
        self._judged = texts
        self._labels = {_plain(label) for label in labels}

    def blanked(self, reply: str) -> str:
        """A reply with blanks where it repeats a whole text, so that places stay what they are."""
        long = {text.strip() for text in self._judged if len(text.strip()) >= _ECHO_MIN}
        for text in sorted(long, key=len, reverse=True):
            reply = reply.replace(text, " " * len(text))
        return reply

    def holds(self, words: str) -> bool:
        """Return whether words stand in a judged text, however they are spaced, cased or marked."""
        plain = _plain(words)
        if len(plain) < _WORDS_MIN or _bare(words) in self._labels:
            # A lone word occurs in many texts; only a line of its own looks like a verdict.
            return _bare(words) in self._lines
        return any(plain in text for text in self._texts)

    @cached_property
    def _texts(self) -> list[str]:
        return [_plain(text) for text in self._judged]

    @cached_property
    def _lines(self) -> set[str]:
        return {_bare(line) for text in self._judged for line in text.splitlines()}


def _plain(text: str) -> str:
    """The text that a reader sees, without spaces, case and marks."""
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORDS.unseen.sub("", folded).casefold()


def _bare(line: str) -> str:
    return _plain(line).strip(">#-.!\"'")


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
    body = _unfence(_without_thoughts(text).strip().removeprefix("\ufeff").strip())
    if not body:
        raise ReplyFault("the reply has no text")
    offset = text.index(body)
    repeated = Repeated(judged, labels=spec.labels)
    if not isinstance(parse_json(body), dict):
        body = repeated.blanked(body)
    statements = _statements(body, spec, repeated)
    if not statements:
        why = "states none" if body.strip() else "only repeats what was judged"
        raise ReplyFault(f"no {spec.verdict_key}: the reply {why}: {quote(text.strip())}")
    objects = {statement.start: value for statement, value in statements if value is not None}

    def value_of_one(statement: Statement) -> float | str:
        value = objects.get(statement.start)
        stated = statement.value if value is None else value[spec.verdict_key]
        return _value(stated, spec)

    last = settled(body, [statement for statement, _ in statements], value_of_one)
    # `Final verdict: pass` and, of two answers, `Therefore, A` overrule what was remarked before.
    overruled = last.weight == "final" and last.start not in objects
    if not overruled and (last.weight != "conclusion" or spec.kind in {"binary", "graded"}):
        prose = _without(body, [(statement.start, statement.end) for statement, _ in statements])
        _check_remarks(prose, value_of_one(last), spec)
    if last.start not in objects:
        reply = _reply(last.value, spec, reasoning=text.strip())
        _check_sides(reply, _without(body, [(last.start, last.end)]), spec, repeated)
        return reply
    key = re.compile(rf'(?<!\\)"{spec.verdict_key}"\s*:\s*"?')
    places = [match.end() for match in key.finditer(body, last.start, last.end)]
    reply = _from_object(objects[last.start], spec, at=offset + places[-1] if places else None)
    _check_object(reply, objects[last.start], spec, repeated)
    return reply


def _without_thoughts(text: str) -> str:
    """The text with blanks instead of the block in which a model thinks before it replies.

    Raises:
        ReplyFault: The block has no end.
    """
    begins, ends = list(_WORDS.thinks.finditer(text)), list(_WORDS.thought.finditer(text))
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
    """The verdicts that a text states, in order, without repetitions."""
    statements: list[tuple[Statement, Mapping[str, JSON] | None]] = []
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
            statements.append((statement, value))
        elif whole:
            raise ReplyFault(f"the reply only repeats what was judged: {quote(body)}")
    prose = _without(body, [(start, end) for start, end, _ in spans])
    statements += [
        (statement, None)
        for statement in statements_of_spec(prose, spec)
        if not repeated.holds(statement.words)
    ]
    return sorted(statements, key=lambda pair: pair[0].start)


def _check_object(
    reply: Reply, value: Mapping[str, JSON], spec: RubricSpec, repeated: Repeated
) -> None:
    """Refuse an object that states another verdict in its other parts.

    Raises:
        TwoVerdictsFault: It does.
    """
    key = spec.verdict_key
    objects = (cast("Mapping[str, JSON]", p) for p in walk(value) if isinstance(p, Mapping))
    if any(part.get(key, value[key]) != value[key] for part in objects):
        raise TwoVerdictsFault(f"the reply gives {key!r} two values")
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


def _check_sides(reply: Reply, text: str, spec: RubricSpec, repeated: Repeated) -> None:
    """Refuse a score with a verdict that contradicts it, such as `Score: 5/5, verdict: fail`.

    Raises:
        TwoVerdictsFault: One stands for good, the other one for bad.
    """
    if spec.kind == "graded":
        statements = statements_of_labels(text, {"pass": "pass", "fail": "fail"}, ("verdict",))
    elif spec.kind == "binary":
        statements = statements_of_spec(text, _SHARE)
    else:
        return
    sides = {
        _is_good(statement.value)
        for statement in statements
        if statement.weight != "mention"
        and _WORDS.named.match(statement.words)
        and not repeated.holds(statement.words)
    }
    if (reply.score > _HALF and False in sides) or (reply.score < _HALF and True in sides):
        raise TwoVerdictsFault(f"the reply states a score and a verdict that differ: {quote(text)}")


def _is_good(value: str) -> bool | None:
    """Return whether a label or a share such as `4/5` stands for good; None where it is unclear."""
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
    body = _unfence(text.strip().removeprefix("\ufeff").strip())
    spans = list(_objects(body))
    if not spans or spans[0][:2] != (0, len(body)):
        raise ReplyFault(f"the reply is not one JSON object: {quote(body)}")
    return cast("dict[str, JSON]", spans[0][2])


def _unfence(text: str) -> str:
    """The inside of a text that is one fenced block and nothing else."""
    match = _WORDS.fence.fullmatch(text)
    return match["body"].strip() if match and "```" not in match["body"] else text


def _objects(text: str) -> Iterator[tuple[int, int, JSON]]:
    """The JSON objects in a text, outermost ones, each with its place.

    Raises:
        ReplyFault: One gives a key twice, or is never closed.
    """
    at, failed_chars = 0, 0
    while failed_chars < FAILED_CHARS_MAX and (start := text.find("{", at)) >= 0:
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as fault:
            never_closed = fault.msg.startswith("Unterminated") or fault.pos >= len(text)
            if (never_closed or start == 0) and _OBJECT_BEGINS.match(text, start):
                why = "is cut off" if never_closed else f"is not JSON ({fault.msg})"
                raise ReplyFault(f"the reply {why}: {quote(text)}") from None
            failed_chars += fault.pos - start + ATTEMPT_CHARS
            at = start + 1
        except DuplicateKeyError as fault:
            raise ReplyFault(f"the reply gives {fault.key!r} twice") from None
        except InvalidNumberError as fault:
            raise ReplyFault(f"the reply holds {fault.word}, which is no number") from None
        except RecursionError:
            raise ReplyFault("the reply is nested too deeply") from None
        else:
            yield start, end, value
            at = end


def _whole_number(digits: str) -> int | float:
    # Python refuses to read thousands of digits; no scale goes that far.
    return int(digits) if len(digits) < ATTEMPT_CHARS else float(digits)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=refuse_constant, parse_int=_whole_number
)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with blanks instead of some parts, so that places stay what they are."""
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
        raise ReplyFault(
            f"the {spec.verdict_key} is {stated!r}, not one of {quote_list(spec.labels)}"
        )
    folded = stated.strip().casefold()
    label = next((label for label in spec.labels if label.casefold() == folded), None)
    if label is None:
        raise ReplyFault(
            f"the {spec.verdict_key} is {quote(stated)}, not one of {quote_list(spec.labels)}"
        )
    return label


def score_of(label: str, spec: RubricSpec) -> float:
    """The score that a label stands for."""
    fixed = {"pass": 1.0, "fail": 0.0, "first": 1.0, "second": 0.0, "tie": 0.5}
    return spec.choices[label] if spec.kind == "choice" else fixed[label]
