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

from regauge.judges._types import listed, number, quote
from regauge.prompts import RubricSpec
from regauge.strict_json import NoNumberError, TwiceError, no_constant, unique

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = [
    "SCORE",
    "Repeated",
    "Reply",
    "ReplyFault",
    "contradicting_remark",
    "json_object",
    "read_completion",
    "read_reply",
    "settled",
    "share_of",
    "stated_label",
    "statements_of_labels",
    "value_of",
]

_NUMBER = r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?"

SCORE: Final = rf"{_NUMBER}(?:[ \t]*(?:/|out[ \t]of)[ \t]*{_NUMBER}|[ \t]*%)?"
"""A pattern of what `value_of` reads."""

_PARTS: Final = re.compile(
    rf"(?P<value>{_NUMBER})[ \t]*(?:(?:/|out[ \t]of)[ \t]*(?P<of>{_NUMBER})|(?P<percent>%))?"
)

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
        shown = stated if isinstance(stated, str) else repr(stated)[:40]
        raise ReplyFault(
            f"the score {shown} is not on the scale {number(spec.low)} to {number(spec.high)}"
        )
    return value


def share_of(value: float, spec: RubricSpec) -> float:
    """Where a value lies on its scale, from 0 (worst) to 1 (best)."""
    return (value - spec.low) / (spec.high - spec.low)


def _written(text: str, spec: RubricSpec) -> float:
    found = _PARTS.fullmatch(text.strip())
    if found is None:
        raise ReplyFault(f"the score is {quote(text)}, not a number")
    value = float(found["value"])
    if found["percent"]:
        if spec.high == _PERCENT:
            return value
        return spec.low + value / _PERCENT * (spec.high - spec.low)
    if found["of"] is None:
        return value
    whole = float(found["of"])
    if whole == spec.high:
        return value
    if spec.high == 1 and whole > 0:
        return value / whole
    raise ReplyFault(f"the score {text.strip()} is of {found['of']}, not of {number(spec.high)}")


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


_QUOTES: Final = r"\"'“”\u2018\u2019"

_MARKS: Final = rf"[*_`{_QUOTES} \t]{{0,6}}"

_LINK: Final = r"(?:is|of|:|=)"

_EQUALS: Final = r"(?:is[ \t]*:?|:|=)"

# Up to three words between a key and a value that still speak of this value.
_LOOSE: Final = (
    r"(?:[ \t]*(?:is|of|as|to|be|been|was|were|a|an|the|should|would|could|must|might|can|will|"
    r"shall|not|isn['’]t|never|only|remains?|becomes?|[:=]|->|→)[*_`\"'“”‘’ \t]{0,6}){0,4}"  # noqa: RUF001 - quotation marks of replies
)

_FINAL_WORD: Final = re.compile(r"\bfinal(?:ly)?\b|\boverall\b", re.IGNORECASE)

_CONCLUDES: Final = re.compile(
    r"\b(?:therefore|thus|hence|consequently|accordingly|overall|ultimately|finally|final|"
    r"in conclusion|to conclude|i conclude|i have concluded|my conclusion|come to the conclusion|"
    r"in summary|to summari[sz]e|to sum up|in sum|all in all|on balance|in the end|as a result|"
    r"for (?:this|these|that) reasons?)\b|(?:^|[,;] )so\b",
    re.IGNORECASE,
)

_CONCLUSION: Final = re.compile(r"(?:therefore|thus|hence|so)\b", re.IGNORECASE)

_MINE: Final = re.compile(
    r"\bi(?:['’]d| would| must| have to| will)? (?:give|rate|assign|award|score|say|judge|call|"  # noqa: RUF001 - as above
    r"conclude|choose|pick|state|set|put)\b",
    re.IGNORECASE,
)

_DENIES: Final = re.compile(
    r"\b(?:not|never|no|none|neither|nor|cannot|without|hardly|barely|wrong|false|untrue|"
    r"incorrect|doubt\w*|unclear|unsure|refus\w*|reject\w*|deny|denies|denied|declin\w*|"
    r"disagree\w*|persua\w*|resist\w*|ignor\w*|far from|anything but|instead of|rather than|"
    r"less than|more than|lower than|higher than|at least|at most|almost|nearly|between|below|"
    r"above)\b|n['’]t\b",  # noqa: RUF001 - as above
    re.IGNORECASE,
)

_DISTANCES: Final = re.compile(
    # conditional or tentative
    r"\b(?:if|unless|were|had|would|could|should|might|may|suppos\w*|imagin\w*|hypothetical\w*|"
    r"whether|assuming|provided|otherwise|until|initial\w*|originally|seemingly|seems?|"
    r"appears?|looks?|impression|glance|at first|thought|tempt\w*|example|e\.g|such as)\b"
    # reported
    r"|\b(?:claim\w*|says?|said|saying|states?|stated|stating|writes?|wrote|written|asks?|asked|"
    r"asking|demand\w*|request\w*|wants?|wanted|begs?|begged|insist\w*|tells?|told|argu\w*|"
    r"contend\w*|assert\w*|suggest\w*|pretend\w*|tries|tried|tries|quot\w*|contain\w*|ends?|"
    r"instructs|instructed|instructing|orders?|ordered|inject\w*|forge\w*|fake\w*|declares?|declared|evaluates|"
    r"believes|thinks|considers|maintains|concludes|according|repeat\w*|includes?|reads?|plead\w*|"
    r"hopes?|urge\w*|reply with|respond with|answer with)\b"
    # the same in other languages
    r"|\b(?:nicht|kein\w*|niemals|nie|wenn|falls|wäre|hätte|würde|behauptet|sagt|verlangt|fordert|"
    r"pas|jamais|si|serait|demande|dit|prétend|nunca|fuera|sería|dice|pide|non|mai|sarebbe|chiede|"
    r"não|seria|niet|nooit|als|zou|zegt|не|нет|если|бы)\b|[不没非若]|如果|要求|ない|なら|求め|아니|만약",
    re.IGNORECASE,
)

# A correction opens with it: `No: A is better.`
_CORRECTION: Final = re.compile(r"^\W*no\b[,:.]", re.IGNORECASE)

_TENTATIVE: Final = re.compile(
    r"^[\s,;:(–—-]*(?:at first|initially|if|unless|provided|assuming|only|or|when|once|until|"  # noqa: RUF001 - dashes
    r"would|could|should|might|may|was|were|had|says?|claims?|writes?|wants?|demands?|asks?|"
    r"is(?![ \t]+(?:the[ \t]+)?(?:better|best|preferred|winner|superior)\b)|"
    r"insists?|according|not|to [0-9]|and [0-9]|[?])(?![\w])|^[\s*_\"'”)]*\?",
    re.IGNORECASE,
)

_GOES_ON: Final = re.compile(
    r"^[*_`\"'“”‘’]*(?:\s*$|\s*[.,;:!)(\]}|–—-]|\s*(?:because|since|as|for|given|due|and|with|"  # noqa: RUF001 - as above
    r"in|is|on|here|overall|while|although|though|however|but|points?|stars?|based|considering)\b)",
    re.IGNORECASE,
)

_PARTIAL_AFTER: Final = re.compile(
    r"^[ \t]*(?:in terms of|in|regarding|with respect to|on|concerning)\b"
    r"(?! (?:conclusion|general|fact|every|all|my|this|the end|balance|the whole))",
    re.IGNORECASE,
)

_PARTIAL_BEFORE: Final = re.compile(
    r"\b(?:in terms of|regarding|with respect to|as for|as far as|concerning|for conciseness|"
    r"while|although|though)\b",
    re.IGNORECASE,
)

# A phrase that leads in says what the verdict rests on: its words deny nothing.
_LEADS_IN: Final = re.compile(
    r"\b(?:based on|considering|given|taking into account|after|weighing|in (?:light|view) of|"
    r"due to|because|since)\b.*,(?=[^,]*$)",
    re.IGNORECASE | re.DOTALL,
)

_BUT: Final = re.compile(r"[,;][ \t]*(?:but|yet|however)\b", re.IGNORECASE)

_SO: Final = re.compile(r"[,;][ \t]*(?:and[ \t]+)?(?:so|therefore|thus|hence)\b", re.IGNORECASE)

# What may stand before a verdict of the form `Verdict: pass` in its sentence.
_LEADING_WORDS: Final = """
a after again all also am an and answer answers as assessment award awarded based be below between
candidate case choice conclude conclusion considered considering decide decided decision deserves
earns evaluation explanation final finally find following for from further get gets give given gives
giving grade graded hence here here's his i i'd i'll i'm in is it it's its judge judged judgement
judgment must my note now of ok okay on one our out output overall points rate rated rating
reasoning receives reply response result resulting scale score scored so step sum summary take taken
text that that's the their thereby therefore these thing this thus to total up verdict we well whole
will winner with would x yes
"""

_LEADING: Final = frozenset(_LEADING_WORDS.split())

_OPENS: Final = re.compile(
    r"^\W*(?:after|considering|based|given|taking|weighing|having|because|since|as|due|"
    r"all things|on balance|in (?:light|view|summary|conclusion|the end|short)|overall|to)\b",
    re.IGNORECASE,
)

_GRADE_KEYS: Final = r"(?:score|rating|grade)"

_NO_RANGE: Final = r"(?![\w/%]|\.[0-9])(?![ \t]*(?:to|and|-|\u2013)[ \t]*[0-9])"

_GRADE: Final = re.compile(
    rf"\b{_GRADE_KEYS}\b{_MARKS}{_LINK}?{_MARKS}:?{_MARKS}"
    # `a score of 1 to 5` names the scale.
    rf"(?P<value>{SCORE}){_NO_RANGE}",
    re.IGNORECASE,
)

_LOOSE_GRADE: Final = re.compile(
    rf"\b{_GRADE_KEYS}\b{_LOOSE}{_MARKS}(?P<value>{SCORE}){_NO_RANGE}", re.IGNORECASE
)

_FINAL_GRADE: Final = re.compile(
    rf"\bfinal (?:answer|decision|verdict|result|assessment|judge?ment)\b{_MARKS}{_LINK}{_MARKS}"
    rf"(?P<value>{SCORE}){_NO_RANGE}",
    re.IGNORECASE,
)

_BARE_GRADE: Final = re.compile(
    r"(?<![\w./-])(?P<value>[0-9]+(?:\.[0-9]+)?[ \t]*(?:/|out[ \t]of)[ \t]*[0-9]+)"
    r"(?![\w/%]|\.[0-9]|[ \t]*of\b)"
)

_SENTENCE_END: Final = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)[.!?;\u3002\uff01\uff1f](?=\s|$)|\n"
)

_LIST_MARK: Final = re.compile(r"^[ \t]*(?:[-*+•][ \t]+)?(?:[0-9]+[.)][ \t]+)?(?:\[[xX]\][ \t]+)?")

# How much text around a statement is read as its sentence, and how many statements are read.
_CONTEXT_CHARS: Final = 600

_STATEMENTS_MAX: Final = 200


def statements_of_spec(prose: str, spec: RubricSpec) -> list[Statement]:
    """All statements of a rubric's verdict in a text, in order.

    Raises:
        ReplyFault: There are too many.
    """
    if spec.kind != "graded":
        names = {label: label for label in spec.labels}
        return statements_of_labels(prose, names, (spec.verdict_key, "verdict"))
    if re.fullmatch(SCORE, prose.strip()):
        at = len(prose) - len(prose.lstrip())
        words = prose.strip()
        return [_statement(prose, at, at + len(words), value=words, weight="plain")]
    named = [
        _weighed(prose, match, match["value"])
        for pattern in (_GRADE, _FINAL_GRADE)
        for match in _found(pattern, prose)
    ]
    named += [
        _statement(prose, match.start(), match.end(), value=match["value"], weight="mention")
        for match in _found(_LOOSE_GRADE, prose)
    ]
    found = _strongest(named)
    if not any(statement.weight not in {"mention", "partial"} for statement in found):
        # `3/5` may count steps: it is a grade only where no score is named.
        found += [_weighed(prose, match, match["value"]) for match in _found(_BARE_GRADE, prose)]
    return sorted(_strongest(found), key=lambda statement: statement.start)


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
    return sorted(_strongest(_of_labels(text, names, keys)), key=lambda found: found.start)


def _of_labels(text: str, names: Mapping[str, str], keys: tuple[str, ...]) -> Iterator[Statement]:
    labels = {name.casefold(): label for name, label in names.items()}
    # Longest first, so that a name is never read as another that it begins with.
    one_of = "|".join(re.escape(name) for name in sorted(labels, key=len, reverse=True))
    name = rf"(?<!\w)(?P<name>{one_of})(?!\w)"
    key = "|".join(dict.fromkeys(keys))
    final = r"final[ \t]+(?:answer|decision|choice|result|conclusion|judge?ment|assessment)"
    no_list = rf"(?!{_MARKS}(?:/|\||or\b))"
    flags = re.IGNORECASE | re.MULTILINE
    keyed = rf"\b(?:{key}|{final})\b{_MARKS}{_EQUALS}{_MARKS}{name}{no_list}"
    for match in _found(re.compile(keyed, flags), text):
        yield _weighed(text, match, labels[match["name"].casefold()])
    better = rf"{name}{_MARKS}is{_MARKS}(?:the[ \t]+)?(?:better|best|preferred|winner|superior)\b"
    for match in _found(re.compile(better, flags), text):
        yield _weighed(text, match, labels[match["name"].casefold()], formal=False)
    chosen = rf"\bI[ \t]+(?:choose|pick|prefer|select)[ \t]+(?:the[ \t]+)?{_MARKS}{name}"
    for match in _found(re.compile(chosen, flags), text):
        yield _weighed(text, match, labels[match["name"].casefold()], formal=False)
    concluded = (
        rf"\b(?:therefore|thus|hence|so)[,:]?[ \t]+(?:the[ \t]+)?{_MARKS}{name}{_MARKS}[.!]?[ \t]*$"
    )
    for match in _found(re.compile(concluded, flags), text):
        yield _weighed(text, match, labels[match["name"].casefold()], formal=False)
    alone = rf"^[ \t>#-]*{_MARKS}{name}{_MARKS}[.!]?(?:[ \t]*\([^()\n]*\)[.!]?)?[ \t]*$"
    for match in _found(re.compile(alone, flags), text):
        yield _weighed(text, match, labels[match["name"].casefold()], alone=True)
    loose = (
        rf"\b(?:{key})\b{_LOOSE}{_MARKS}{name}{no_list}",
        rf"{name}{_MARKS}(?:{key})\b",
    )
    for pattern in loose:
        for match in _found(re.compile(pattern, flags), text):
            label = labels[match["name"].casefold()]
            yield _statement(text, match.start(), match.end(), value=label, weight="mention")


def _found(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """All matches of a pattern.

    Raises:
        ReplyFault: There are more than any judge writes.
    """
    matches = list(islice(pattern.finditer(text), _STATEMENTS_MAX + 1))
    if len(matches) > _STATEMENTS_MAX:
        raise ReplyFault(f"the reply states a verdict more than {_STATEMENTS_MAX} times")
    return matches


def _strongest(found: list[Statement] | Iterator[Statement]) -> list[Statement]:
    """One statement of those that overlap: the one that a narrower pattern found."""
    kept: list[Statement] = []
    for statement in found:  # narrow patterns come first
        if all(statement.end <= one.start or one.end <= statement.start for one in kept):
            kept.append(statement)
    return kept


def _statement(
    text: str, start: int, end: int, *, value: str, weight: Weight, formal: bool = True
) -> Statement:
    return Statement(
        start=start, end=end, words=text[start:end], value=value, weight=weight, formal=formal
    )


def _weighed(
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
        before = _CORRECTION.sub("", before)
    if _is_set_apart(text, start, before) or _TENTATIVE.match(after) or _asks(text, end):
        return "mention"
    if _is_denied(before) or (formal and not _is_verdict_line(before, after)):
        return "mention"
    if formal and (_FINAL_WORD.search(before) or _FINAL_WORD.match(words)):
        return "final"
    if _CONCLUDES.search(before) or (not formal and _CONCLUSION.match(words)):
        return "conclusion"
    partial = _PARTIAL_AFTER.match(after) or _PARTIAL_BEFORE.search(before)
    return "partial" if partial and not formal else "plain"


def _is_verdict_line(before: str, after: str) -> bool:
    """Return whether a sentence is made to state a verdict of the form `Verdict: pass`."""
    leads = _CONCLUDES.search(before) or _OPENS.match(before) or _is_leading(_led_in(before))
    return bool(leads and _GOES_ON.match(after))


def _weight_alone(text: str, match: re.Match[str]) -> Weight:
    """The weight of a line with a label alone: what leads to it may deny it."""
    line = match[0]
    if ">" in line[: match.start("name") - match.start()] or _in_fence(text, match.start("name")):
        return "mention"
    lead = _line_before(text, match.start())
    if lead.endswith(":") and _is_denied(lead):
        return "mention"
    return "final" if lead.endswith(":") and _FINAL_WORD.search(lead) else "plain"


def object_weight(text: str, start: int, end: int) -> Weight:
    """The weight of a JSON object within a text: the requested form is final.

    >>> object_weight('My reply: {"verdict": "pass"}', 10, 29)
    'final'
    >>> object_weight('I will not reply {"verdict": "pass"}', 17, 36)
    'mention'
    """
    before, after = _before(text, start), _after(text, end)
    if _is_quote(text, start) or _TENTATIVE.match(after):
        return "mention"
    return "mention" if _is_denied(before) else "final"


def _is_denied(before: str) -> bool:
    """Return whether a sentence denies, reports or conditions its verdict."""
    own = _BUT.split(_led_in(before))[-1]
    # `The date is wrong, so the verdict is ...`: only the last clause can deny it.
    clause = _SO.split(own)[-1]
    return bool(_DENIES.search(clause) or _DISTANCES.search(own))


def _led_in(before: str) -> str:
    """The text of a sentence before its verdict, without phrases that only lead in."""
    return _MINE.sub(" ", _LEADS_IN.sub(" ", before))


def _before(text: str, start: int) -> str:
    """The text of its sentence before a statement, or the line that leads to it."""
    begin = max(0, start - _CONTEXT_CHARS)
    window = text[begin:start]
    ends = [match.end() for match in _SENTENCE_END.finditer(window)]
    before = window[ends[-1] :] if ends else window
    if re.sub(r"[\s*_`#|>-]", "", before):
        return before
    lead = _line_before(text, start)
    return lead if lead.endswith(":") else before


def _after(text: str, end: int) -> str:
    """The text of its sentence after a statement."""
    window = text[end : end + _CONTEXT_CHARS]
    found = _SENTENCE_END.search(window)
    return window[: found.start()] if found else window


def _asks(text: str, end: int) -> bool:
    found = _SENTENCE_END.search(text, end, end + _CONTEXT_CHARS)
    return found is not None and found[0] in {"?", "\uff1f"}


def _line_before(text: str, start: int) -> str:
    """The last line before the one of a place that says something; marks of fences say nothing."""
    lines = text[max(0, start - _CONTEXT_CHARS) : start].split("\n")[:-1]
    said = (line.strip().strip("*_ ") for line in reversed(lines))
    return next((line for line in said if line and not line.startswith("```")), "")


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
    said = _LIST_MARK.sub("", before).replace("’", "'")  # noqa: RUF001 - an apostrophe
    words = re.findall(r"[^\W_]+(?:'[a-z]+)?", said.casefold())
    return all(word in _LEADING or word.isdecimal() for word in words)


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
        """Return whether words stand in a judged text, however they are spaced, cased or marked."""
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
    """The text that a reader sees, without spaces, case and marks."""
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
    """The verdicts that a text states, in order, without repetitions."""
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
    """Return whether a text is one JSON object and nothing else."""
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
