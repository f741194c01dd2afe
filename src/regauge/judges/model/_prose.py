"""Statements of a verdict in prose: `Score: 4/5`, `Verdict: pass`, `A is better`.

Each statement comes with its weight. A verdict that the judge denies, quotes, attributes to someone
or makes depend on a condition is a mention. What counts as the verdict is decided in `_settled`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from regauge.judges._evidence import number, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.digests import JSON
    from regauge.prompts import RubricSpec

__all__ = [
    "SCORE",
    "ReplyFault",
    "Statement",
    "TwoVerdictsFault",
    "Weight",
    "object_weight",
    "share_of",
    "statements_of_labels",
    "statements_of_spec",
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
    """Why a reply holds no verdict.

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
"""How much a statement counts for.

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

_IS: Final = r"(?:is[ \t]*:?|:|=)"

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
    keyed = rf"\b(?:{key}|{final})\b{_MARKS}{_IS}{_MARKS}{name}{no_list}"
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
    """Whether a sentence is made to state a verdict of the form `Verdict: pass`."""
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
    """How much a JSON object within a text counts for: the form that was asked for is final.

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
    """Whether a sentence denies its verdict, reports it, or makes it depend on a condition."""
    own = _BUT.split(_led_in(before))[-1]
    # `The date is wrong, so the verdict is ...`: only the last clause can deny it.
    clause = _SO.split(own)[-1]
    return bool(_DENIES.search(clause) or _DISTANCES.search(own))


def _led_in(before: str) -> str:
    """What a sentence says before its verdict, less the phrases that only lead in."""
    return _MINE.sub(" ", _LEADS_IN.sub(" ", before))


def _before(text: str, start: int) -> str:
    """What its sentence says before a statement, or the line that leads to it."""
    begin = max(0, start - _CONTEXT_CHARS)
    window = text[begin:start]
    ends = [match.end() for match in _SENTENCE_END.finditer(window)]
    before = window[ends[-1] :] if ends else window
    if re.sub(r"[\s*_`#|>-]", "", before):
        return before
    lead = _line_before(text, start)
    return lead if lead.endswith(":") else before


def _after(text: str, end: int) -> str:
    """What its sentence says after a statement."""
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
    """Whether a statement is quoted, struck through, commented out, unticked or in a fence."""
    quoted = before.rstrip("*_ ").endswith(('"', "'", "“", "„", "«", "‘", "(", "「", "『"))  # noqa: RUF001 - quotation marks
    hidden = any(mark in before for mark in ("~", "<", "[ ]"))
    return quoted or hidden or _is_quote(text, start) or _in_fence(text, start)


def _is_quote(text: str, start: int) -> bool:
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return line.lstrip().startswith(">")


def _in_fence(text: str, start: int) -> bool:
    return text.count("```", 0, start) % 2 == 1


def _is_leading(before: str) -> bool:
    """Whether a sentence says nothing before its verdict that could turn it around."""
    said = _LIST_MARK.sub("", before).replace("’", "'")  # noqa: RUF001 - an apostrophe
    words = re.findall(r"[^\W_]+(?:'[a-z]+)?", said.casefold())
    return all(word in _LEADING or word.isdecimal() for word in words)
