"""Reads the verdict from a judge's response, or raises an error; it does not guess.

A response that is one JSON object, fenced or not, is that verdict. In prose the judge's own verdict
counts; two different verdicts are an error, unless one is marked as final. Text that only repeats
the judged texts is not a verdict.

A statement of a verdict in prose is `Score: 4/5`, `Verdict: pass` or `A is better`. Each has a
weight; a denied, quoted, attributed or conditional statement is a mention.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, cast

from regauge.judges._types import format_number, quote_list
from regauge.judges.output import ATTEMPT_CHARS, FAILED_CHARS_MAX, decoder, parse_json
from regauge.lexicon import Lexicon
from regauge.prompts import RubricSpec
from regauge.strict_json import (
    DuplicateKeyError,
    InvalidNumberError,
    mappings_in,
)
from regauge.wording import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.providers import Completion


_WORDS: Final = Lexicon("regauge.judges", file="data/responses.toml")
_PERCENT: Final = 100


class ResponseError(ValueError):
    """The response has no verdict.

    Attributes:
        wrong: The problem, as sent to the model; without words of the response.
    """

    wrong: str = "it was not the one JSON object that was asked for"


class TwoVerdictsError(ResponseError):
    """The response states two verdicts."""

    wrong = "it stated more than one verdict, and not the one JSON object that was asked for"


def value_of(raw: JSON, spec: RubricSpec) -> float:
    """Parse a stated score on a rubric's scale.

    `4/5` is 4 on a scale up to 5, and 0.8 on one up to 1; a percentage is a share of the scale, or
    itself on one up to 100.

    Raises:
        ResponseError: It is not a number, or outside the scale.
    """
    value: float
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        raise ResponseError(f"the score is {_kind(raw)}, not a number")
    if isinstance(raw, str):
        value = _parse_score(raw, spec)
    else:
        try:
            value = float(raw)
        except OverflowError:
            raw = value = math.inf
    if not spec.low <= value <= spec.high:  # NaN is on no scale
        stated_text = raw if isinstance(raw, str) else repr(raw)[:40]
        raise ResponseError(
            f"the score {stated_text} is not on the scale {format_number(spec.low)} to"
            f" {format_number(spec.high)}"
        )
    return value


def share_of(value: float, spec: RubricSpec) -> float:
    """The position of a value on its scale, from 0 (worst) to 1 (best)."""
    return (value - spec.low) / (spec.high - spec.low)


def _parse_score(text: str, spec: RubricSpec) -> float:
    match = _WORDS.parts.fullmatch(text.strip())
    if match is None:
        raise ResponseError(f"the score is {quote(text)}, not a number")
    value = float(match["value"])
    if match["percent"]:
        if spec.high == _PERCENT:
            return value
        return spec.low + value / _PERCENT * (spec.high - spec.low)
    if match["of"] is None:
        return value
    scale_end = float(match["of"])
    if scale_end == spec.high:
        return value
    if spec.high == 1 and scale_end > 0:
        return value / scale_end
    raise ResponseError(
        f"the score {text.strip()} is of {match['of']}, not of {format_number(spec.high)}"
    )


def _kind(value: JSON) -> str:
    if value is None:
        return "null"
    return "a boolean" if isinstance(value, bool) else "an object or a list"


Weight = Literal["mention", "partial", "plain", "conclusion", "final"]
"""The weight of a statement.

- `mention`: denied, quoted, reported, conditional, or a question
- `partial`: of one aspect, as in `A is better in tone`
- `plain`: the judge's own words
- `conclusion`: the judge's own words after `Therefore` or the like
- `final`: named as final, as in `Final verdict: pass`
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement of a verdict in a response.

    Attributes:
        start: The offset of its first character.
        end: The offset after its last character.
        words: The text of the statement.
        value: The label, or the score as written.
        formal: Whether it is a formal verdict (`Verdict: pass`, a line with the label alone), and
            not a remark (`A is better`).
    """

    start: int
    end: int
    words: str
    value: str
    weight: Weight
    formal: bool


# The text around a statement that is searched for its sentence, in each direction.
_CONTEXT_CHARS: Final = 600

# A response with more statements repeats itself; reading all would take quadratic time.
_STATEMENTS_MAX: Final = 200


def find_statements(prose: str, spec: RubricSpec) -> list[Statement]:
    """Find all statements of a rubric's verdict in a text, in order.

    Raises:
        ResponseError: There are too many.
    """
    if spec.kind != "graded":
        names = {label: label for label in spec.labels}
        return statements_of_labels(prose, names, (spec.verdict_key, "verdict"))
    if _WORDS.score.fullmatch(prose.strip()):
        start = len(prose) - len(prose.lstrip())
        words = prose.strip()
        return [_statement(prose, start, start + len(words), value=words, weight="plain")]
    statements = [
        _weigh(prose, match, _value_on_scale(match))
        for pattern in (_WORDS.grade, _WORDS.final_grade)
        for match in _matches(pattern, prose)
    ]
    statements += [
        _statement(prose, match.start(), match.end(), value=match["value"], weight="mention")
        for match in _matches(_WORDS.loose_grade, prose)
    ]
    strongest = _strongest(statements)
    if not any(statement.weight not in {"mention", "partial"} for statement in strongest):
        # `3/5` may count steps: it is a grade only if no score is named.
        strongest += [
            _weigh(prose, match, match["value"]) for match in _matches(_WORDS.bare_grade, prose)
        ]
    return _strongest(strongest)


def _value_on_scale(match: re.Match[str]) -> str:
    """The value of a grade, with the end of the scale that `Score (1-5): 4` states."""
    value, high = match["value"], match.groupdict().get("high")
    return f"{value}/{high}" if high and value.isdecimal() else value


def statements_of_labels(
    text: str, names: Mapping[str, str], keys: tuple[str, ...] = ("winner", "verdict")
) -> list[Statement]:
    """Find all statements of a label in a text, in order.

    A statement is `winner: NAME`, `NAME is better` (or preferred, the winner, the better one),
    `Therefore, NAME`, or a line with the name alone.

    Args:
        names: Labels by their names in the text, in any letter case.
        keys: The words for the verdict.

    Raises:
        ResponseError: There are too many.
    """
    return _strongest(_find_labels(text, names, keys))


def _find_labels(text: str, names: Mapping[str, str], keys: tuple[str, ...]) -> Iterator[Statement]:
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
        ResponseError: There are too many.
    """
    matches = list(islice(pattern.finditer(text), _STATEMENTS_MAX + 1))
    if len(matches) > _STATEMENTS_MAX:
        raise ResponseError(f"the response states a verdict more than {_STATEMENTS_MAX} times")
    return matches


def _strongest(statements: Iterable[Statement]) -> list[Statement]:
    """The statements without overlap, in order; the first one, of the narrowest pattern, wins."""
    strongest: list[Statement] = []
    for statement in statements:  # narrow patterns come first
        if all(statement.end <= other.start or other.end <= statement.start for other in strongest):
            strongest.append(statement)
    return sorted(strongest, key=lambda statement: statement.start)


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
    before, after = _text_before(text, start), _text_after(text, end)
    if not formal:
        before = _WORDS.correction.sub("", before)
    stop = _WORDS.sentence_end.search(text, end, end + _CONTEXT_CHARS)
    is_question = stop is not None and stop[0] in {"?", "\uff1f"}
    if _is_set_apart(text, start, before) or _WORDS.tentative.match(after) or is_question:
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
    """Return whether a sentence only states a verdict of the form `Verdict: pass`."""
    leads = (
        _WORDS.concludes.search(before)
        or _WORDS.opens.match(before)
        or _is_leading(_strip_lead_in(before))
    )
    return bool(leads and _WORDS.goes_on.match(after))


def _weight_alone(text: str, match: re.Match[str]) -> Weight:
    """The weight of a line with a label alone; the line before may deny it."""
    line = match[0]
    if ">" in line[: match.start("name") - match.start()] or _in_fence(text, match.start("name")):
        return "mention"
    lead = _line_before(text, match.start())
    if lead.endswith(":") and _is_denied(lead):
        return "mention"
    return "final" if lead.endswith(":") and _WORDS.final_word.search(lead) else "plain"


def object_weight(text: str, start: int, end: int) -> Weight:
    """The weight of a JSON object within a text: the requested format is final.

    >>> object_weight('My reply: {"verdict": "pass"}', 10, 29)
    'final'
    >>> object_weight('I will not reply {"verdict": "pass"}', 17, 36)
    'mention'
    """
    before, after = _text_before(text, start), _text_after(text, end)
    if _is_quote(text, start) or _WORDS.tentative.match(after):
        return "mention"
    return "mention" if _is_denied(before) else "final"


def _is_denied(before: str) -> bool:
    """Return whether a sentence denies, reports or qualifies its verdict."""
    own_words = _WORDS.but.split(_strip_lead_in(before))[-1]
    # In `The date is wrong, so the verdict is ...` only the last clause can deny it.
    clause = _WORDS.so.split(own_words)[-1]
    return bool(_WORDS.denies.search(clause) or _WORDS.distances.search(own_words))


def _strip_lead_in(before: str) -> str:
    """The text of a sentence before its verdict, without introductory phrases."""
    return _WORDS.mine.sub(" ", _WORDS.leads_in.sub(" ", before))


def _text_before(text: str, start: int) -> str:
    """The text before a statement in its sentence, or the line that introduces it."""
    begin = max(0, start - _CONTEXT_CHARS)
    window = text[begin:start]
    ends = [match.end() for match in _WORDS.sentence_end.finditer(window)]
    before = window[ends[-1] :] if ends else window
    if re.sub(r"[\s*_`#|>-]", "", before):
        return before
    lead = _line_before(text, start)
    return lead if lead.endswith(":") else before


def _text_after(text: str, end: int) -> str:
    """The text after a statement in its sentence."""
    window = text[end : end + _CONTEXT_CHARS]
    match = _WORDS.sentence_end.search(window)
    return window[: match.start()] if match else window


def _line_before(text: str, start: int) -> str:
    """The last line with text before the line at an offset; fence marks are ignored."""
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
    """Return whether the words before a verdict in its sentence cannot reverse it."""
    before_mark = _WORDS.list_mark.sub("", before).replace("’", "'")  # noqa: RUF001 - an apostrophe
    words = re.findall(r"[^\W_]+(?:'[a-z]+)?", before_mark.casefold())
    return all(word in _WORDS.words("leading") or word.isdecimal() for word in words)


_HEADING: Final = re.compile(r"^#{1,6}[ \t]", re.MULTILINE)
_SENTENCE_BREAK: Final = re.compile(r"(?<=[.!?;])\s+")


def find_verdict(
    text: str, statements: Sequence[Statement], value_of: Callable[[Statement], float | str]
) -> Statement:
    """Find the statement that is the verdict.

    Equal statements are the verdict if one of them is the judge's own. Among different ones, the
    last is the verdict if it is marked as final and no other final statement contradicts it.

    Args:
        text: The text of the statements.
        statements: All statements, in order; at least one.
        value_of: Called with a statement; returns its verdict.

    Raises:
        ResponseError: The judge states no verdict of its own, or retracts it.
        TwoVerdictsError: Two statements differ.
    """
    own_statements = [statement for statement in statements if statement.weight != "mention"]
    if not own_statements:
        raise ResponseError("the response mentions a verdict and states none")
    last = own_statements[-1]
    values: dict[int, float | str] = {}
    for statement in statements:
        try:
            values[statement.start] = value_of(statement)
        except ResponseError:
            if statement in own_statements:
                raise
    if len({values.get(statement.start, statement.value) for statement in statements}) > 1:
        last = _find_final_statement(text, statements, own_statements, values)
    if any(_WORDS.taken_back.match(line) for line in _SENTENCE_BREAK.split(text[last.end :])):
        raise ResponseError("the response takes its verdict back")
    return last


def _find_final_statement(
    text: str,
    statements: Sequence[Statement],
    own_statements: Sequence[Statement],
    values: Mapping[int, float | str],
) -> Statement:
    """The statement marked as final, among different statements.

    Raises:
        TwoVerdictsError: None is marked as final, or another one contradicts it.
    """
    last = own_statements[-1]
    last_value = values[last.start]
    rest = [
        statement
        for statement in statements
        if values.get(statement.start, statement.value) != last_value
    ]
    section = max((match.start() for match in _HEADING.finditer(text, 0, last.start)), default=0)
    match last.weight:
        case "final":
            # An object overrides reasoning, but no verdict in another form.
            rivals = {"final", "conclusion", "plain"} if last.words.startswith("{") else {"final"}
            against = [
                statement for statement in rest if statement.formal and statement.weight in rivals
            ]
        case "conclusion":
            # A conclusion of an earlier section is about that section.
            against = [
                statement
                for statement in rest
                if statement.weight == "final"
                or (statement.weight != "mention" and statement.formal)
                or (statement.weight == "conclusion" and statement.start >= section)
            ]
        case _:
            against = rest
    if against or any(statement.start > last.start for statement in rest):
        distinct = dict.fromkeys(
            str(values.get(statement.start, statement.value)) for statement in statements
        )
        raise TwoVerdictsError(
            f"the response states more than one verdict: {quote_list(list(distinct))}"
        )
    return last


def find_contradiction(text: str, verdict: float | str, spec: RubricSpec) -> str:
    """Find the first remark in a text that contradicts the verdict; empty if none does.

    A remark is a whole sentence about the judged text, such as `It does not pass.` or `The first is
    worse.`. Parts of longer sentences, quotes and conditions are not remarks.

    Args:
        text: The response, or the reasoning in it.
        verdict: The verdict of the response: a label, or a number on the scale.
        spec: The verdict that the rubric requires.

    >>> from regauge.prompts import RubricSpec
    >>> find_contradiction("It does not pass.", "pass", RubricSpec(kind="binary"))
    'It does not pass'
    >>> find_contradiction("It does not pass.", "fail", RubricSpec(kind="binary"))
    ''
    >>> find_contradiction("It passes the first check.", "fail", RubricSpec(kind="binary"))
    ''
    """
    if spec.kind in {"binary", "graded"}:
        pattern = _WORDS.pattern("passes" if spec.kind == "binary" else "grades")
    else:
        labels = sorted(spec.labels, key=len, reverse=True)
        pattern = _WORDS.pattern(f"remark_{spec.kind}", name="|".join(map(re.escape, labels)))
    for match in pattern.finditer(text):
        parts = {name: words for name, words in match.groupdict().items() if words is not None}
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if line.lstrip().startswith((">", "`")) or text.count("```", 0, match.start()) % 2:
            continue
        remark_value: float | str
        if "value" in parts:
            try:
                remark_value = value_of(parts["value"], spec)
            except ResponseError:
                continue
        else:
            label = parts.get("verb") or parts.get("noun") or parts["label"]
            remark_value = next(name for name in spec.labels if name.casefold() == label.casefold())
        denied = bool(parts.keys() & {"not", "nor", "never", "worse"})
        # With two labels, a remark that denies one label names the other.
        if (remark_value == verdict) == denied:
            return match[0].strip(" \t*_#-,\u2022")
    return ""


# Shorter words or texts, in characters, appear in a response by chance. With larger minimums more
# repeated text counts as the judge's own words.
_WORDS_MIN: Final = 3
_ECHO_MIN: Final = 20


class Echoes:
    """Recognises repetitions of the judged texts.

    Args:
        texts: The judged texts.
        labels: The possible labels of a verdict.
    """

    def __init__(self, texts: Collection[str], *, labels: Collection[str]) -> None:
        self._judged_texts = texts
        self._labels = {_visible_text(label) for label in labels}

    def blank_out(self, response: str) -> str:
        """The response with repetitions of whole texts replaced by blanks, at the same offsets."""
        long = {text.strip() for text in self._judged_texts if len(text.strip()) >= _ECHO_MIN}
        for text in sorted(long, key=len, reverse=True):
            response = response.replace(text, " " * len(text))
        return response

    def contains(self, words: str) -> bool:
        """Return whether words occur in a judged text, ignoring spaces, case and marks."""
        plain = _visible_text(words)
        if len(plain) < _WORDS_MIN or _bare_line(words) in self._labels:
            # A single word occurs in many texts; only as a separate line it is a verdict.
            return _bare_line(words) in self._lines
        return any(plain in text for text in self._texts)

    @cached_property
    def _texts(self) -> list[str]:
        return [_visible_text(text) for text in self._judged_texts]

    @cached_property
    def _lines(self) -> set[str]:
        return {_bare_line(line) for text in self._judged_texts for line in text.splitlines()}


def _visible_text(text: str) -> str:
    """The visible text, without spaces, case and marks."""
    normal = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORDS.unseen.sub("", normal).casefold()


def _bare_line(line: str) -> str:
    return _visible_text(line).strip(">#-.!\"'")


_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_HALF: Final = 0.5
_SHARE: Final = RubricSpec(kind="graded")
_OBJECT_BEGINS: Final = re.compile(r"\{\s*\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A verdict from a judge's model.

    Attributes:
        value: The stated number on the rubric's scale, or label.
        score: From 0 (worst) to 1 (best); for a pair 1 if the first wins, 0 if the second wins,
            0.5 for a tie.
        reasoning: The model's reasoning.
        offset: The offset of the value in the response, for log-probabilities; None if unknown.
        criterion: The criterion, if a response judges several.
        parts: The verdicts on all of several criteria; this is the lowest.
    """

    value: float | str
    score: float
    reasoning: str
    offset: int | None = None
    criterion: str = ""
    parts: tuple[Response, ...] = ()


def text_of(completion: Completion) -> str:
    """The text of a complete completion.

    Raises:
        ResponseError: There is no text, or it is truncated.
    """
    if completion.refusal:
        raise ResponseError(f"the judge's model refused: {quote(completion.refusal)}")
    if completion.finish_reason == "content_filter":
        raise ResponseError("the response was withheld by a content filter")
    if completion.finish_reason == "length":
        raise ResponseError("the response is cut off: it reached its limit of tokens")
    if not completion.text or not completion.text.strip():
        raise ResponseError("the response has no text")
    return completion.text


def read_response(text: str, spec: RubricSpec, *, judged_texts: Collection[str] = ()) -> Response:
    """Read the verdict in a text.

    Args:
        text: The text.
        spec: The verdict that the rubric requires.
        judged_texts: The judged texts; repetitions of them are not verdicts.

    Raises:
        ResponseError: The text has no verdict, two different ones, or one in an unreliable form.
    """
    body = _unfence(_without_thoughts(text).strip().removeprefix("\ufeff").strip())
    if not body:
        raise ResponseError("the response has no text")
    offset = text.index(body)
    echoes = Echoes(judged_texts, labels=spec.labels)
    if not isinstance(parse_json(body), dict):
        body = echoes.blank_out(body)
    statements = _statements(body, spec, echoes)
    if not statements:
        problem = "states none" if body.strip() else "only repeats what was judged"
        raise ResponseError(f"no {spec.verdict_key}: the response {problem}: {quote(text.strip())}")
    objects = {statement.start: value for statement, value in statements if value is not None}

    def parse_statement(statement: Statement) -> float | str:
        value = objects.get(statement.start)
        raw = statement.value if value is None else value[spec.verdict_key]
        return _parse_value(raw, spec)

    last = find_verdict(body, [statement for statement, _ in statements], parse_statement)
    # `Final verdict: pass` and, for pairs, `Therefore, A` overrule earlier remarks.
    overruled = last.weight == "final" and last.start not in objects
    if not overruled and (last.weight != "conclusion" or spec.kind in {"binary", "graded"}):
        prose = _blank_spans(
            body, [(statement.start, statement.end) for statement, _ in statements]
        )
        _check_remarks(prose, parse_statement(last), spec)
    if last.start not in objects:
        response = _make_response(last.value, spec, reasoning=text.strip())
        _check_sides(response, _blank_spans(body, [(last.start, last.end)]), spec, echoes)
        return response
    key = re.compile(rf'(?<!\\)"{spec.verdict_key}"\s*:\s*"?')
    places = [match.end() for match in key.finditer(body, last.start, last.end)]
    value = objects[last.start]
    reasoning = value.get("reasoning")
    if not isinstance(reasoning, str):
        problem = "no 'reasoning'" if reasoning is None else "a 'reasoning' that is no text"
        raise ResponseError(f"the response has {problem}: {quote(json.dumps(value))}")
    value_offset = offset + places[-1] if places else None
    response = _make_response(
        value[spec.verdict_key], spec, reasoning=reasoning, offset=value_offset
    )
    _check_object(response, value, spec, echoes)
    return response


def _without_thoughts(text: str) -> str:
    """The text with blanks for the model's block of thoughts at its beginning.

    Raises:
        ResponseError: The block has no end.
    """
    begins, ends = list(_WORDS.thinks.finditer(text)), list(_WORDS.thought.finditer(text))
    has_thoughts = bool(begins) and not text[: begins[0].start()].strip()
    if has_thoughts and not ends:
        raise ResponseError("the response is cut off in the thoughts before it")
    # One block at the beginning; its first tag may be part of the request.
    if len(ends) == 1 and (has_thoughts or not begins):
        return " " * ends[0].end() + text[ends[0].end() :]
    return text


def _statements(
    body: str, spec: RubricSpec, echoes: Echoes
) -> list[tuple[Statement, Mapping[str, JSON] | None]]:
    """The statements of verdicts in a text, in order, without repetitions of judged texts."""
    statements: list[tuple[Statement, Mapping[str, JSON] | None]] = []
    spans = list(_objects(body))
    for start, end, value in spans:
        is_whole = (start, end) == (0, len(body))
        if not isinstance(value, dict) or spec.verdict_key not in value:
            if is_whole:
                raise ResponseError(f"the response has no {spec.verdict_key!r}: {quote(body)}")
        elif not echoes.contains(body[start:end]):
            weight = "final" if is_whole else object_weight(body, start, end)
            label = str(value[spec.verdict_key])
            statements.append((_statement(body, start, end, value=label, weight=weight), value))
        elif is_whole:
            raise ResponseError(f"the response only repeats what was judged: {quote(body)}")
    prose = _blank_spans(body, [(start, end) for start, end, _ in spans])
    statements += [
        (statement, None)
        for statement in find_statements(prose, spec)
        if not echoes.contains(statement.words)
    ]
    return sorted(statements, key=lambda pair: pair[0].start)


def _check_object(
    response: Response, value: Mapping[str, JSON], spec: RubricSpec, echoes: Echoes
) -> None:
    """Check that the other parts of an object do not contradict its verdict.

    Raises:
        TwoVerdictsError: One does.
    """
    key = spec.verdict_key
    if any(part.get(key, value[key]) != value[key] for part in mappings_in(value)):
        raise TwoVerdictsError(f"the response gives {key!r} two values")
    reasoning = response.reasoning.rstrip()
    # Reasoning may consider both sides; its last sentence concludes.
    last = max((match.end() for match in _SENTENCE.finditer(reasoning)), default=0)
    if spec.kind != "pair":  # for a pair, it may end with a claim of one of the texts
        _check_remarks(reasoning[last:], response.value, spec)
    for statement in find_statements(reasoning, spec):
        concludes = statement.weight in {"conclusion", "final"} or (
            spec.kind != "pair"
            and statement.weight == "plain"
            and statement.formal
            and statement.start >= last
        )
        if concludes and not echoes.contains(statement.words):
            try:
                concluded = _parse_value(statement.value, spec)
            except ResponseError:
                continue
            if concluded != response.value:
                raise TwoVerdictsError(
                    f"the reasoning of the response concludes {quote(statement.words)}, and its"
                    f" {spec.verdict_key} is {response.value!r}"
                )
    other = {key: value[key] for key in ("verdict", "score", "rating") if key in value}
    other.pop(spec.verdict_key, None)
    texts = "\n".join(f"{name}: {text}" for name, text in other.items())
    _check_sides(response, texts, spec, echoes)


def _check_remarks(text: str, verdict: float | str, spec: RubricSpec) -> None:
    """Check that no remark, such as `It does not pass.`, contradicts the verdict.

    Raises:
        TwoVerdictsError: One does.
    """
    if remark := find_contradiction(text, verdict, spec):
        raise TwoVerdictsError(
            f"the response states {quote(remark)}, and its {spec.verdict_key} is {verdict!r}"
        )


def _check_sides(response: Response, text: str, spec: RubricSpec, echoes: Echoes) -> None:
    """Check that no verdict contradicts the score, as in `Score: 5/5, verdict: fail`.

    Raises:
        TwoVerdictsError: One is good and the other one bad.
    """
    if spec.kind == "graded":
        statements = statements_of_labels(text, {"pass": "pass", "fail": "fail"}, ("verdict",))
    elif spec.kind == "binary":
        statements = find_statements(text, _SHARE)
    else:
        return
    sides = {
        _is_good(statement.value)
        for statement in statements
        if statement.weight != "mention"
        and _WORDS.named.match(statement.words)
        and not echoes.contains(statement.words)
    }
    if (response.score > _HALF and False in sides) or (response.score < _HALF and True in sides):
        raise TwoVerdictsError(
            f"the response states a score and a verdict that differ: {quote(text)}"
        )


def _is_good(value: str) -> bool | None:
    """Return whether a label or a share such as `4/5` is good; None if unclear."""
    if value in {"pass", "fail"}:
        return value == "pass"
    try:
        share = value_of(value, _SHARE) if re.search(r"/|of|%", value) else _HALF
    except ResponseError:
        return None
    return None if share == _HALF else share > _HALF


def json_object(text: str) -> dict[str, JSON]:
    """Read a response that is one JSON object, fenced or not.

    Raises:
        ResponseError: It is something else, has other text, or repeats a key.
    """
    body = _unfence(text.strip().removeprefix("\ufeff").strip())
    spans = list(_objects(body))
    if not spans or spans[0][:2] != (0, len(body)):
        raise ResponseError(f"the response is not one JSON object: {quote(body)}")
    return cast("dict[str, JSON]", spans[0][2])


def _unfence(text: str) -> str:
    """The content of a text that is one fenced block; any other text unchanged."""
    match = _WORDS.fence.fullmatch(text)
    return match["body"].strip() if match and "```" not in match["body"] else text


def _objects(text: str) -> Iterator[tuple[int, int, JSON]]:
    """Yield the outermost JSON objects in a text, each with its start and end.

    Raises:
        ResponseError: One repeats a key, or has no end.
    """
    position, failed_chars = 0, 0
    while failed_chars < FAILED_CHARS_MAX and (start := text.find("{", position)) >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            never_closed = error.msg.startswith("Unterminated") or error.pos >= len(text)
            if (never_closed or start == 0) and _OBJECT_BEGINS.match(text, start):
                problem = "is cut off" if never_closed else f"is not JSON ({error.msg})"
                raise ResponseError(f"the response {problem}: {quote(text)}") from None
            failed_chars += error.pos - start + ATTEMPT_CHARS
            position = start + 1
        except DuplicateKeyError as error:
            raise ResponseError(f"the response gives {error.key!r} twice") from None
        except InvalidNumberError as error:
            raise ResponseError(f"the response holds {error.word}, which is no number") from None
        except RecursionError:
            raise ResponseError("the response is nested too deeply") from None
        else:
            yield start, end, value
            position = end


def _blank_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with some spans replaced by blanks, at the same offsets."""
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        pieces += [text[position:start], " " * (end - start)]
        position = end
    return "".join([*pieces, text[position:]])


def _make_response(
    raw: JSON, spec: RubricSpec, *, reasoning: str, offset: int | None = None
) -> Response:
    """The response for a stated value."""
    value = _parse_value(raw, spec)
    score = score_of(value, spec) if isinstance(value, str) else share_of(value, spec)
    return Response(value=value, score=score, reasoning=reasoning, offset=offset)


def _parse_value(raw: JSON, spec: RubricSpec) -> float | str:
    """Parse a stated value as a score on the scale, or as a label.

    Raises:
        ResponseError: It is neither.
    """
    if spec.kind == "graded":
        return value_of(raw, spec)
    if not isinstance(raw, str):
        raise ResponseError(
            f"the {spec.verdict_key} is {raw!r}, not one of {quote_list(spec.labels)}"
        )
    name = raw.strip().casefold()
    label = next((label for label in spec.labels if label.casefold() == name), None)
    if label is None:
        raise ResponseError(
            f"the {spec.verdict_key} is {quote(raw)}, not one of {quote_list(spec.labels)}"
        )
    return label


def score_of(label: str, spec: RubricSpec) -> float:
    """The score of a label."""
    fixed = {"pass": 1.0, "fail": 0.0, "first": 1.0, "second": 0.0, "tie": 0.5}
    return spec.choices[label] if spec.kind == "choice" else fixed[label]
