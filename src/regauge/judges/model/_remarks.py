"""Remarks about the judged text that contradict the verdict of a reply, such as `It fails`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from regauge.judges.model._numbers import SCORE, ReplyFault, value_of

if TYPE_CHECKING:
    from regauge.prompts import RubricSpec

__all__ = ["contradicting_remark"]

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
