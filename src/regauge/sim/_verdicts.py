"""Verdicts of the simulated judge: grades, rulings on the entries of a list, the better text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.lexicon import Lexicon
from regauge.sim._evidence import (
    figures,
    join_list,
    measure_support,
    overlap,
    parse_list,
    sections_of,
    similarity,
    statements_of,
    without_figures,
    words_of,
)
from regauge.sim._text import count_words, is_object, read_document, read_json, sentences

if TYPE_CHECKING:
    from regauge.sim._evidence import Sheet
    from regauge.sim._rules import Dice

_RE: Final = Lexicon("regauge.sim", "verdicts")


Aspect = Literal["support", "figures", "reference", "coverage", "brevity", "clarity", "relevance"]

CARRIED: Final = 0.6
_LISTENS: Final[dict[Aspect, re.Pattern[str]]] = _RE.patterns("aspects")
_FACET_ASKED: Final = _RE.patterns("facet_asked")
_FACET_STEMS: Final = {name: words_of(words) for name, words in _RE.entry("facets").items()}
_COMMON: Final = words_of(_RE.entry("common"))
_WELL_CARRIED: Final = 0.85
_DENIED: Final = 0.3
_UNCARRIED: Final = 0.35
_FURTHER: Final = 0.1
_LIKE: Final = 0.25
_SECTION_WORDS: Final = 4
_SPREAD: Final = 0.35
_NOISE_COLD: Final = 0.10
_NOISE_HOT: Final = 0.25
_NOISE_VAGUE: Final = 2.0
_LENGTH_BIAS: Final = 0.04
_LENGTH_WORDS: Final = 120
_HALF_OF: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The support and grade of one text.

    Attributes:
        score: From 0 to 1, including chance and biases.
        aspects: The aspects that the criteria named.
        remarks: The reasons against the text, in sentences.
    """

    score: float
    aspects: tuple[Aspect, ...]
    remarks: tuple[str, ...]


def _aspects(criteria: str) -> dict[Aspect, float]:
    """Count the requests for each aspect; lines that exclude something request nothing."""
    counts: dict[Aspect, float] = {}
    for block in _RE.blocks.split(criteria):
        for sentence in sentences(block):
            if _RE.not_asked.search(sentence):
                continue
            for aspect, pattern in _LISTENS.items():
                if pattern.search(sentence):
                    counts[aspect] = counts.get(aspect, 0.0) + 1.0
    if "support" in counts:
        # Looking up statements includes their figures; see `_support`.
        counts["support"] += counts.pop("figures", 0.0)
    return {aspect: math.sqrt(count) for aspect, count in counts.items()}


def _support(answer: str, source: str, *, with_figures: bool) -> tuple[float, list[str]]:
    scores: list[float] = []
    remarks: list[str] = []
    for statement in statements_of(answer):
        # Without a request for figures they are ignored.
        finding = measure_support(statement if with_figures else without_figures(statement), source)
        score = min(finding.score, _DENIED) if finding.contradicted else finding.score
        if score >= CARRIED:
            scores.append(min(1.0, score / _WELL_CARRIED))
            continue
        scores.append(min(score, _UNCARRIED))
        missing = f" (not found: {', '.join(finding.missing[:3])})" if finding.missing else ""
        remarks.append(f"The source does not carry {statement[:90]!r}{missing}.")
    if not scores:
        return 0.0, ["It states nothing that could be looked up."]
    mean = sum(scores) / len(scores)
    further = max(0, len(remarks) - 1)
    return max(0.0, 0.4 * mean + 0.6 * min(scores) - _FURTHER * further), remarks


def _figures(answer: str, ground: str) -> tuple[float, list[str]]:
    answer_figures = figures(answer)
    foreign_figures = sorted(answer_figures - figures(ground))
    if not foreign_figures:
        return 1.0, []
    return (
        max(0.0, 0.5 - len(foreign_figures) / (2 * len(answer_figures))),
        [f"Figures that the source lacks: {', '.join(foreign_figures[:4])}."],
    )


def _reference(answer: str, reference: str, criteria: str) -> tuple[float, list[str]]:
    """Return the likeness to the reference, by section if the criteria name its sections."""
    answer_sections, reference_sections = sections_of(answer), sections_of(reference)
    section_names = [name for name in reference_sections if name in criteria.lower()]
    pairs = [
        (name, answer_sections.get(name, ""), reference_sections[name]) for name in section_names
    ]
    pairs = [pair for pair in pairs if len(words_of(pair[2]) - _COMMON) >= _SECTION_WORDS]
    if not pairs:
        pairs = [("text", answer, reference)]
    scores: list[float] = []
    remarks: list[str] = []
    for name, text, other in pairs:
        other_words, own_words = words_of(other) - _COMMON, words_of(text) - _COMMON
        scores.append(min(1.0, similarity(other_words, own_words) / _LIKE))
        if scores[-1] < CARRIED:
            lacking = sorted(other_words - own_words, key=lambda w: (-other.lower().count(w), w))
            remarks.append(f"{name.capitalize()}: nothing of {', '.join(lacking[:4])}.")
    score = sum(scores) / len(scores)
    harm = _RE.harm.search(answer)
    if harm is not None and _RE.safety.search(criteria) and not _RE.harm.search(reference):
        score -= 0.5
        remarks.insert(0, f"{harm[0]!r} does harm.")
    return max(0.0, score), remarks


def _statements_on(facet: str, ground: str) -> list[frozenset[str]]:
    """Return a source's sentences on one facet: below a label with its name, else by words."""
    marks = _FACET_STEMS[facet]
    labelled = [f.value for f in read_document(ground).fields if words_of(f.key) & marks]
    below = [words_of(s) for text in labelled for s in statements_of(text)]
    about = below or [words for s in statements_of(ground) if (words := words_of(s)) & marks]
    # A line with only a time is no statement on it.
    return [words for words in about if len(words - marks) >= _SECTION_WORDS]


def _coverage(answer: str, ground: str, criteria: str) -> tuple[float, list[str]]:
    facets = [f for f, p in _FACET_ASKED.items() if p.search(criteria)]
    answer_words = [words_of(s) for s in statements_of(answer)]
    scores: list[float] = []
    remarks: list[str] = []
    for facet in facets:
        lines_there = _statements_on(facet, ground)
        if lines_there:
            best = max((overlap(t, g) for t in lines_there for g in answer_words), default=0.0)
            scores.append(min(1.0, best / _HALF_OF))
            if scores[-1] < _HALF_OF:
                remarks.append(f"It hardly tells of the {facet}.")
    if not scores:
        ground_words = words_of(ground)
        share = overlap(ground_words, words_of(answer))
        return min(1.0, share * (1 + math.log1p(len(ground_words) / 25))), remarks
    return 0.5 * sum(scores) / len(scores) + 0.5 * min(scores), remarks


def _clarity(answer: str) -> tuple[float, list[str]]:
    statements = statements_of(answer)
    full_sentences = [s for s in statements if s[-1:] in ".!?" and len(s.split()) > 4]  # noqa: PLR2004 - shorter ones are labels
    share = len(full_sentences) / len(statements) if statements else 0.0
    return 0.4 + 0.6 * share, [] if share > CARRIED else ["Much of it is no whole sentence."]


def _brevity(answer: str, criteria: str) -> tuple[float, list[str]]:
    limit = _RE.limit.search(criteria)
    words_max = int(limit[1]) if limit is not None else _LENGTH_WORDS
    words = count_words(answer)
    over = max(0.0, words / words_max - 1)
    return max(0.0, 1 - 2 * over), [f"It has {words} words."] if over else []


def _relevance(answer: str, request: str) -> tuple[float, list[str]]:
    share = overlap(words_of(request), words_of(answer))
    remarks = [] if share else ["It takes up nothing of what was asked."]
    return min(1.0, 0.3 + 2 * share), remarks


def _grade_aspect(  # noqa: PLR0911 - one line for each aspect
    aspect: Aspect, sheet: Sheet
) -> tuple[float, list[str]]:
    answer, ground = sheet.judged_text, sheet.ground or sheet.text("expected")
    reference = sheet.text("expected") or ground
    match aspect:
        case "support":
            with_figures = _LISTENS["figures"].search(sheet.criteria) is not None
            return _support(answer, ground, with_figures=with_figures)
        case "figures":
            return _figures(answer, ground)
        case "reference":
            return _reference(answer, reference, sheet.criteria)
        case "coverage":
            return _coverage(answer, reference, sheet.criteria)
        case "brevity":
            return _brevity(answer, sheet.criteria)
        case "clarity":
            return _clarity(answer)
        case "relevance":
            return _relevance(answer, sheet.text("input", "question", "task") or ground)


def judgement_noise(dice: Dice, kind: str, *, vague: bool = False) -> float:
    """Return the error of one judgement: chance, more of it when hot, vague or drifted."""
    width = _NOISE_COLD + _NOISE_HOT * min(dice.temperature, 1.0) + _SPREAD * dice.rules.drift
    width *= _NOISE_VAGUE if vague else 1.0
    throw = dice.throw(f"judge {kind}") + dice.throw(f"judge too {kind}") - 1
    return width * throw


def grade(sheet: Sheet, dice: Dice) -> Grade:
    """Grade the judged text by the criteria of its sheet."""
    weights_by_aspect = _aspects(sheet.criteria)
    if not sheet.text("expected"):
        weights_by_aspect.pop("reference", None)
    if not (sheet.ground or sheet.text("expected")):
        for aspect in ("support", "figures", "coverage", "relevance"):
            weights_by_aspect.pop(aspect, None)
    is_vague = not weights_by_aspect
    aspects: dict[Aspect, float] = weights_by_aspect or {"relevance": 1.0}
    total, weights, remarks = 0.0, 0.0, list[str]()
    for aspect, weight in aspects.items():
        score, aspect_remarks = _grade_aspect(aspect, sheet)
        total += weight * score
        weights += weight
        remarks += aspect_remarks
    score = total / weights
    if is_vague:
        score = 0.5 + 0.4 * (score - 0.5)
    longer = math.tanh(count_words(sheet.judged_text) / _LENGTH_WORDS - 1)
    score += _LENGTH_BIAS * longer + judgement_noise(dice, "score", vague=is_vague)
    return Grade(score=min(1.0, max(0.0, score)), aspects=tuple(aspects), remarks=tuple(remarks))


_POSITION_BIAS: Final = 0.03
_TIE: Final = 0.02


def _score(sheet: Sheet, dice: Dice, text: str, *, name: str) -> float:
    """Return the score of one of several texts; its name seeds the chance of this judgement."""
    sheet = replace(sheet, parts={**sheet.parts, "answer": text})
    return grade(sheet, replace(dice, document=f"{dice.document} {name}")).score


def _contestants(sheet: Sheet) -> dict[str, str]:
    text = sheet.text("contestants")
    value = read_json(text)
    if is_object(value):
        # The contestants may be nested, next to the question.
        value = next((part for part in value.values() if is_object(part)), value)
        return {str(name): str(text) for name, text in value.items()}
    return {m[1]: m[2] for m in re.finditer(r"[\"'](\w+)[\"']: (.*)", text)}


def find_winner(sheet: Sheet, dice: Dice, options: list[str]) -> tuple[str, str]:
    """Return the name of the best text, and the reason."""
    if sheet.text("first") and sheet.text("second"):
        # The first text gets a little more, as with LLM judges.
        first = _score(sheet, dice, sheet.text("first"), name="first") + _POSITION_BIAS
        second = _score(sheet, dice, sheet.text("second"), name="second")
        ties = [o for o in options if o.lower() in ("tie", "draw", "equal", "both", "neither")]
        if ties and abs(first - second) < _TIE:
            return ties[0], "Neither of the two is better by what was asked."
        sides = [o for o in options if o not in ties] or ["a", "b"]
        best = sides[0] if first >= second else sides[1]
        return best, f"{best} does better by what was asked."
    names = _contestants(sheet)
    if not names:
        name = options[0] if options else "A"
        return name, "It does best by what was asked."
    scores = {name: _score(sheet, dice, text, name=text) for name, text in names.items()}
    scores[next(iter(names))] += _POSITION_BIAS
    ranking = sorted(names, key=lambda name: -scores[name])
    rest = ", ".join(f"${name}$" for name in ranking[1:])
    return ranking[0], f"${ranking[0]}$ follows the evaluation steps further than {rest or 'any'}."


def restore_names(sheet: Sheet) -> str:
    """Replace the dummy names of contestants in a reason by their own."""
    names = {
        m["from"].strip(): m["to"].strip() for m in _RE.mapping.finditer(sheet.text("mapping"))
    }
    return _RE.named.sub(lambda m: names.get(m["name"], m["name"]), sheet.text("findings"))


_FINDERS: Final = _RE.patterns("finders")
_PER_KIND: Final = [(pattern, _FINDERS[kind]) for kind, pattern in _RE.patterns("per_kind").items()]
_RELEVANT: Final = 0.08
_DOUBTFUL: Final = 0.3
_FOREIGN: Final = 0.15
_KEY_WORDS: Final = 4
_ENTRIES_MAX: Final = 1_000
_STEPS_MAX: Final = 4
_QUESTIONS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A verdict on one entry.

    Attributes:
        entry: The entry.
        score: From 0 (no) to 1 (yes).
        borderline: Neither, if the scale has a word for that.
        reason: The reason, in one sentence.
    """

    entry: str
    score: float
    reason: str
    borderline: bool = False


def _count(criteria: str, default: int) -> int:
    match = _RE.count.search(criteria)
    return int(match[1] or match[2]) if match is not None else default


def entries(key: str, sheet: Sheet) -> list[str]:
    """Return the entries of the list that is requested under this key."""
    text = sheet.judged_text or sheet.ground
    if key == "questions" and sheet.text("items"):
        return [_question(claim) for claim in parse_list(sheet.text("items"))]
    if key == "questions":
        return [
            f"Does the text say that {s.rstrip('.')}?"
            for s in statements_of(text)[: _count(sheet.criteria, _QUESTIONS)]
        ]
    if key == "truths":
        text = sheet.text("source", "text") or text
    if key == "intentions":
        text = sheet.text("talk") or text
    statements = list(statements_of(text))
    finder = _FINDERS.get(key)
    return [s for s in statements if finder.search(s)] if finder is not None else statements


def _question(claim: str) -> str:
    """Return the question about a claim: its words, without its figures."""
    key, _, value = claim.partition(": ")
    if value and len(key.split()) <= _KEY_WORDS and key == key.lower() and figures(value):
        return f"What does the source state as {key.strip()}?"
    topic = " ".join(word for word in claim.rstrip(".").split() if not figures(word))
    return f"What does the source say of this: {topic}?"


def steps(sheet: Sheet) -> list[str]:
    """Return three or four steps that follow criteria."""
    criteria = (s for line in sheet.criteria.split("\n") for s in sentences(line))
    checks = [f"Check this: {s}" for s in criteria if count_words(s) > 2]  # noqa: PLR2004 - shorter ones say nothing
    return [*checks[: _STEPS_MAX - 1], "Weigh what was found and give a score."]


def _judge_support(entry: str, ground: str, dice: Dice, number: int) -> Ruling:
    finding = measure_support(entry, join_list(ground))
    score = finding.score + judgement_noise(dice, f"entry {number}") / 2
    if finding.contradicted:
        score = min(score, _DOUBTFUL / 2)
        reason = f"The source says otherwise: {finding.passage[:120]!r}."
    elif score < CARRIED:
        lacking = ", ".join(finding.missing[:3])
        reason = f"The source does not mention {lacking or 'most of it'}."
    else:
        reason = f"The source says: {finding.passage[:120]!r}."
    return Ruling(
        entry=entry,
        score=1.0 if score >= CARRIED else 0.0,
        borderline=_DOUBTFUL <= score < CARRIED and not finding.contradicted,
        reason=reason,
    )


def _finding(entry: str) -> dict[str, Any]:
    value = read_json(entry)  # a claim may begin like an object
    return value if is_object(value) else {}


def _judge_claim(finding: dict[str, Any], dice: Dice, number: int) -> Ruling:
    """Return the verdict on a claim, by a quote of the source for a question about it."""
    claim = str(finding["claim"])
    finding_text = f"{finding.get('quote', '')}\n{finding.get('answer', '')}"
    if not finding.get("quote") and "not state" in finding_text.lower():
        reason = "The source does not speak of it."
        return Ruling(entry=claim, score=0.0, borderline=True, reason=reason)
    return _judge_support(claim, finding_text, dice, number)


def _judge_relation(entry: str, subject: str, dice: Dice, number: int) -> Ruling:
    share = max(
        overlap(words_of(subject), words_of(entry)), overlap(words_of(entry), words_of(subject))
    )
    near = share + judgement_noise(dice, f"entry {number}") / 4 >= _RELEVANT
    reason = "It takes up words of what was asked." if near else "It has no word of what was asked."
    return Ruling(entry=entry, score=float(near), borderline=not near and share > 0, reason=reason)


def _judge_instruction(instruction: str, answer: str, dice: Dice, number: int) -> Ruling:
    low = instruction.lower()
    limit = re.search(r"(\d+) words", low)
    is_followed = True
    if "upper case" in low or "uppercase" in low or "capital letters" in low:
        is_followed = answer == answer.upper()
    elif "lower case" in low or "lowercase" in low:
        is_followed = answer == answer.lower()
    elif "json" in low:
        is_followed = answer.strip().startswith(("{", "["))
    elif limit is not None:
        is_followed = len(answer.split()) <= int(limit[1])
    elif judgement_noise(dice, f"entry {number}") < -0.15:  # noqa: PLR2004 - it is hard to please now and then
        is_followed = bool(words_of(instruction) & words_of(answer))
    reason = (
        "It was followed." if is_followed else f"The answer does not follow {instruction[:80]!r}."
    )
    return Ruling(entry=instruction, score=float(is_followed), reason=reason)


def _judge_flag(entry: str, finder: re.Pattern[str]) -> Ruling:
    match = finder.search(entry)
    reason = f"It says {match[0]!r}." if match is not None else "Nothing in it is of that kind."
    return Ruling(entry=entry, score=float(match is not None), reason=reason)


def make_rulings(  # noqa: PLR0911 - one line for each kind of list
    sheet: Sheet, dice: Dice, head: str
) -> list[Ruling]:
    """Return a verdict for each entry of the prompt's list, or for each of its texts.

    Args:
        sheet: The parts of the prompt.
        dice: The chance of this judgement.
        head: The part of the prompt with the question.
    """
    items = parse_list(sheet.text("items"))[:_ENTRIES_MAX]
    answer = sheet.text("answer")
    findings = [_finding(entry) for entry in items if entry.startswith("{")]
    if findings and len(findings) == len(items) and all("claim" in finding for finding in findings):
        return [_judge_claim(finding, dice, i) for i, finding in enumerate(findings, start=1)]
    for pattern, finder in _PER_KIND:
        if items and pattern.search(head):
            return [_judge_flag(entry, finder) for entry in items]
    if items and "prompt instructions" in head.lower():
        return [_judge_instruction(entry, answer, dice, i) for i, entry in enumerate(items)]
    source = sheet.text("source")
    if items and source:
        return [_judge_support(entry, source, dice, i) for i, entry in enumerate(items)]
    if items:
        request = sheet.text("input") or sheet.text("question") or answer
        return [_judge_relation(entry, request, dice, i) for i, entry in enumerate(items)]
    if source:
        return _judge_nodes(sheet, source, dice, head)
    statements = statements_of(answer or sheet.judged_text)
    return [_judge_relation(entry, sheet.ground, dice, i) for i, entry in enumerate(statements)]


def _judge_agreement(node: str, statements: tuple[str, ...]) -> Ruling:
    findings = ((statement, measure_support(statement, node)) for statement in statements)
    against = next(
        (s for s, f in findings if f.contradicted or (f.score < _FOREIGN and f.missing)), ""
    )
    reason = f"The context says otherwise than {against[:90]!r}." if against else "They agree."
    return Ruling(entry=node, score=float(not against), reason=reason)


def _judge_nodes(sheet: Sheet, source: str, dice: Dice, head: str) -> list[Ruling]:
    """Return verdicts on the nodes of a source, or on an expected output compared with them."""
    nodes = parse_list(source) if source.lstrip().startswith("[") else [source]
    expected = sheet.text("expected", "answer")
    if "attributed" in head and expected:
        return [
            _judge_support(entry, source, dice, i)
            for i, entry in enumerate(statements_of(expected))
        ]
    if sheet.text("answer"):
        nodes += nodes[-1:] * max(0, _count(head, 0) - len(nodes))
        statements = statements_of(sheet.text("answer"))
        return [_judge_agreement(node, statements) for node in nodes]
    if len(nodes) == 1 and not sheet.text("expected"):
        nodes = list(statements_of(source))
    ground_text = f"{sheet.text('input')} {sheet.text('expected')}"
    return [_judge_relation(node, ground_text, dice, i) for i, node in enumerate(nodes)]
