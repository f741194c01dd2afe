"""How good a judged text is, as a number from 0 to 1, by what the criteria ask to look at."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, assert_never

from regauge.sim.document import (
    figures,
    likeness,
    overlap,
    read_document,
    sections_of,
    statements_of,
    supported,
    without_figures,
    words_of,
)
from regauge.sim.text import count_words, sentences

if TYPE_CHECKING:
    from regauge.sim._rules import Dice
    from regauge.sim.judging._reading import Sheet

__all__ = ["CARRIED", "Grade", "grade", "sway"]

Aspect = Literal["support", "figures", "reference", "coverage", "brevity", "clarity", "relevance"]

CARRIED: Final = 0.6
_ASPECTS: Final[dict[Aspect, str]] = {
    "reference": r"reference|expected output|same (?:condition|diagnosis|mitigation|causes?)"
    r"|equivalen|same thing|first runbook|experienced engineer|other runbook",
    "figures": r"\b(?:numbers?|times?|dates?|durations?|figures?|timestamps?)\b",
    "support": r"support|stated\b|states\b|faithful|ground|invent|hallucinat|fabricat|made up"
    r"|contradict|not mention|does not give|nobody took|only what|true to",
    "coverage": r"\bcomplete|cover|includ|mention(?:s|ed)? (?:what|why|how|the)|omit|missing"
    r"|leaves? out|left out|says? (?:what|why|how)|tells? .{0,40}(?:what|why|how)|explains?",
    "brevity": r"\bshort\b|concise|brief|\d words\b|length",
    "clarity": r"\bclear|readab|understand|fluen|coheren|well.written|grammar|whole sentence",
    "relevance": r"relevan|on.topic|address|answers? the|helpful|useful|to the point",
}
_LISTENS: Final[dict[Aspect, re.Pattern[str]]] = {
    aspect: re.compile(pattern, re.IGNORECASE) for aspect, pattern in _ASPECTS.items()
}
_BLOCKS: Final = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*•]|\d+[.)])[ \t])")
_NOT_ASKED: Final = re.compile(
    r"\b(?:do not|don't|never) (?:judge|lower|count|consider|penali[sz]e)\b|\bdoes not count\b"
    r"|\bregardless of\b|\b(?:is|are|makes?) no difference\b",
    re.IGNORECASE,
)
_FACETS: Final = {
    "cause": "because due caused cause reason root led triggered",
    "impact": "impact affected unable unavailable outage users down lost degraded",
    "resolution": "resolution resolved restored fixed repaired recovered rollback reverted",
    "detection": "identified detected alerted reported noticed pingdom alarm",
}
_FACET_ASKED: Final = {
    "cause": r"\bcaus|\bwhy\b|root",
    "impact": r"\bimpact|affected|consequence",
    "resolution": r"resol|repair|\bfix|how it (?:was|ended)|mitigat",
    "detection": r"detect|notic|identif",
}
_FACET_STEMS: Final = {name: words_of(words) for name, words in _FACETS.items()}
_LIMIT: Final = re.compile(
    r"\b(?:at most|under|within|no more than|up to)\s+(\d+)\s+words", re.IGNORECASE
)
_COMMON: Final = words_of(
    "alert runbook check look run see make use cluster service instance problem issue team number "
    "time case cause way need following example list get show state status section"
)
_WELL_CARRIED: Final = 0.85
_DENIED: Final = 0.3
_UNCARRIED: Final = 0.35
_FURTHER: Final = 0.1
_LIKE: Final = 0.25
_SECTION_WORDS: Final = 4
_HARM: Final = re.compile(
    r"rm -rf|\b(?:delete|destroy|wipe|erase|format|drop)\b[^.\n]{0,30}\b(?:all|key|authority"
    r"|cluster|data|deployment|database|volume)\b|\bto zero\b",
    re.IGNORECASE,
)
_SAFETY: Final = re.compile(r"\b(?:un)?safe(?:ty)?\b|\bharm|\bworse\b|\bdangerous", re.IGNORECASE)
_SPREAD: Final = 0.35
_NOISE_COLD: Final = 0.10
_NOISE_HOT: Final = 0.25
_NOISE_VAGUE: Final = 2.0
_LENGTH_BIAS: Final = 0.04
_LENGTH_WORDS: Final = 120
_HALF_OF: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What was found.

    Attributes:
        score: From 0 to 1, chance and biases included.
        looked_at: The aspects that the criteria named.
        remarks: What spoke against the text, in sentences.
    """

    score: float
    looked_at: tuple[Aspect, ...]
    remarks: tuple[str, ...]


def _aspects(criteria: str) -> dict[Aspect, float]:
    """How often each aspect is asked for; lines that rule something out ask for nothing."""
    asked: dict[Aspect, float] = {}
    for block in _BLOCKS.split(criteria):
        for sentence in sentences(block):
            if _NOT_ASKED.search(sentence):
                continue
            for aspect, pattern in _LISTENS.items():
                if pattern.search(sentence):
                    asked[aspect] = asked.get(aspect, 0.0) + 1.0
    if "support" in asked:
        # Whoever looks up statements looks up their figures; see `_support`.
        asked["support"] += asked.pop("figures", 0.0)
    return {aspect: math.sqrt(count) for aspect, count in asked.items()}


def _support(answer: str, source: str, *, with_figures: bool) -> tuple[float, list[str]]:
    # Whoever is not told to look at figures reads over them.
    found = [
        (s, supported(s if with_figures else without_figures(s), source))
        for s in statements_of(answer)
    ]
    if not found:
        return 0.0, ["It states nothing that could be looked up."]
    scores: list[float] = []
    remarks: list[str] = []
    for statement, finding in found:
        score = finding.score
        score = min(score, _DENIED) if finding.contradicted else score
        scores.append(min(1.0, score / _WELL_CARRIED))
        if score < CARRIED:
            scores[-1] = min(score, _UNCARRIED)
            missing = f" (not found: {', '.join(finding.missing[:3])})" if finding.missing else ""
            remarks.append(f"The source does not carry {statement[:90]!r}{missing}.")
    mean = sum(scores) / len(scores)
    further = max(0, len(remarks) - 1)
    return max(0.0, 0.4 * mean + 0.6 * min(scores) - _FURTHER * further), remarks


def _figures(answer: str, ground: str) -> tuple[float, list[str]]:
    said = figures(answer)
    foreign = sorted(said - figures(ground))
    if not foreign:
        return 1.0, []
    return (
        max(0.0, 0.5 - len(foreign) / (2 * len(said))),
        [f"Figures that the source lacks: {', '.join(foreign[:4])}."],
    )


def _reference(answer: str, reference: str, criteria: str) -> tuple[float, list[str]]:
    """How like the reference, section by section where the criteria name its sections."""
    ours, theirs = sections_of(answer), sections_of(reference)
    named = [name for name in theirs if name in criteria.lower()]
    pairs = [(name, ours.get(name, ""), theirs[name]) for name in named]
    pairs = [pair for pair in pairs if len(words_of(pair[2]) - _COMMON) >= _SECTION_WORDS]
    if not pairs:
        pairs = [("text", answer, reference)]
    scores: list[float] = []
    remarks: list[str] = []
    for name, mine, other in pairs:
        wanted, given = words_of(other) - _COMMON, words_of(mine) - _COMMON
        scores.append(min(1.0, likeness(wanted, given) / _LIKE))
        if scores[-1] < CARRIED:
            lacking = sorted(wanted - given, key=lambda w: (-other.lower().count(w), w))
            remarks.append(f"{name.capitalize()}: nothing of {', '.join(lacking[:4])}.")
    score = sum(scores) / len(scores)
    harm = _HARM.search(answer)
    if harm is not None and _SAFETY.search(criteria) and not _HARM.search(reference):
        score -= 0.5
        remarks.insert(0, f"{harm[0]!r} does harm.")
    return max(0.0, score), remarks


def _told_of(facet: str, ground: str) -> list[frozenset[str]]:
    """The sentences of a source on one facet: below a label of that name, else by their words."""
    marks = _FACET_STEMS[facet]
    labelled = [f.value for f in read_document(ground).fields if words_of(f.key) & marks]
    told = [words_of(s) for text in labelled for s in statements_of(text)]
    told = told or [words_of(s) for s in statements_of(ground) if words_of(s) & marks]
    # A line that only says when something happened tells nothing of it.
    return [words for words in told if len(words - marks) >= _SECTION_WORDS]


def _coverage(answer: str, ground: str, criteria: str) -> tuple[float, list[str]]:
    facets = [f for f, p in _FACET_ASKED.items() if re.search(p, criteria, re.IGNORECASE)]
    given, scores, remarks = (
        [words_of(s) for s in statements_of(answer)],
        list[float](),
        list[str](),
    )
    for facet in facets:
        told = _told_of(facet, ground)
        if told:
            best = max((overlap(t, g) for t in told for g in given), default=0.0)
            scores.append(min(1.0, best / _HALF_OF))
            if scores[-1] < _HALF_OF:
                remarks.append(f"It hardly tells of the {facet}.")
    if not scores:
        wanted = words_of(ground)
        share = overlap(wanted, words_of(answer))
        return min(1.0, share * (1 + math.log1p(len(wanted) / 25))), remarks
    return 0.5 * sum(scores) / len(scores) + 0.5 * min(scores), remarks


def _clarity(answer: str) -> tuple[float, list[str]]:
    told = statements_of(answer)
    whole = [s for s in told if s[-1:] in ".!?" and len(s.split()) > 4]  # noqa: PLR2004 - shorter ones are labels
    share = len(whole) / len(told) if told else 0.0
    return 0.4 + 0.6 * share, [] if share > CARRIED else ["Much of it is no whole sentence."]


def _brevity(answer: str, criteria: str) -> tuple[float, list[str]]:
    limit = _LIMIT.search(criteria)
    most = int(limit[1]) if limit is not None else _LENGTH_WORDS
    words = count_words(answer)
    over = max(0.0, words / most - 1)
    return max(0.0, 1 - 2 * over), [f"It has {words} words."] if over else []


def _relevance(answer: str, asked: str) -> tuple[float, list[str]]:
    share = overlap(words_of(asked), words_of(answer))
    remarks = [] if share else ["It takes up nothing of what was asked."]
    return min(1.0, 0.3 + 2 * share), remarks


def _look(aspect: Aspect, sheet: Sheet) -> tuple[float, list[str]]:
    answer, ground = sheet.judged, sheet.ground or sheet.text("expected")
    reference = sheet.text("expected") or ground
    match aspect:
        case "support":
            with_figures = _LISTENS["figures"].search(sheet.criteria) is not None
            found = _support(answer, ground, with_figures=with_figures)
        case "figures":
            found = _figures(answer, ground)
        case "reference":
            found = _reference(answer, reference, sheet.criteria)
        case "coverage":
            found = _coverage(answer, reference, sheet.criteria)
        case "brevity":
            found = _brevity(answer, sheet.criteria)
        case "clarity":
            found = _clarity(answer)
        case "relevance":
            found = _relevance(answer, sheet.text("input", "question", "task") or ground)
        case _:
            assert_never(aspect)
    return found


def sway(dice: Dice, kind: str, *, vague: bool = False) -> float:
    """The error of one judgement: chance, more of it when hot, vague or drifted."""
    width = _NOISE_COLD + _NOISE_HOT * min(dice.temperature, 1.0) + _SPREAD * dice.rules.drift
    width *= _NOISE_VAGUE if vague else 1.0
    throw = dice.throw(f"judge {kind}") + dice.throw(f"judge too {kind}") - 1
    return width * throw


def grade(sheet: Sheet, dice: Dice) -> Grade:
    """Grade what is judged by the criteria of its sheet."""
    asked = _aspects(sheet.criteria)
    if not sheet.text("expected"):
        asked.pop("reference", None)
    if not (sheet.ground or sheet.text("expected")):
        for aspect in ("support", "figures", "coverage", "relevance"):
            asked.pop(aspect, None)
    vague = not asked
    looked: dict[Aspect, float] = asked or {"relevance": 1.0}
    total, weights, remarks = 0.0, 0.0, list[str]()
    for aspect, weight in looked.items():
        score, found = _look(aspect, sheet)
        total += weight * score
        weights += weight
        remarks += found
    score = total / weights
    if vague:
        score = 0.5 + 0.4 * (score - 0.5)
    longer = math.tanh(count_words(sheet.judged) / _LENGTH_WORDS - 1)
    score += _LENGTH_BIAS * longer + sway(dice, "score", vague=vague)
    return Grade(score=min(1.0, max(0.0, score)), looked_at=tuple(looked), remarks=tuple(remarks))
