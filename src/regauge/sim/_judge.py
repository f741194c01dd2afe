"""The simulated model as a judge: grades, verdicts on a list's entries, the better of two texts.

The response has the shape of the request's schema.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.lexicon import Lexicon
from regauge.sim._evidence import (
    Sheet,
    figures,
    join_list,
    measure_support,
    nearest_line,
    overlap,
    parse_list,
    read_sheet,
    sections_of,
    similarity,
    statements_of,
    text_of,
    without_figures,
    words_of,
)
from regauge.sim._instructions import schema_of
from regauge.sim._text import (
    count_words,
    is_list,
    is_object,
    read_document,
    read_json,
    sentences,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.providers import CompletionRequest
    from regauge.sim._rules import Dice

_RE: Final = Lexicon("regauge.sim", "judge")

_DEPTH_MAX: Final = 12
_STRICT: Final = 0.75
_MIDDLE: Final = 0.5
_SCALES: Final = tuple(_RE.patterns("scales").values())
# Words for a verdict, the middling ones first, with what they are worth.
_WORTHS: Final = ((_RE.words("middling"), 0.5), (_RE.words("bad"), 0.0), (_RE.words("good"), 1.0))


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON schema, or a part of one.

    Attributes:
        document: It may be a reference, or malformed.
        root: The schema that references point into.
    """

    document: Any
    root: Mapping[str, Any]

    def part(self, document: Any) -> Schema:
        """Return a part of the schema."""
        return Schema(document, self.root)

    @property
    def variants(self) -> list[Schema]:
        """The alternatives, with references resolved; the schema itself without any."""
        table: Any = self.document
        for _ in range(_DEPTH_MAX):
            target: Any = table.get("$ref") if is_object(table) else None
            if not isinstance(target, str):
                break
            table = self.root
            for step in target.removeprefix("#").strip("/").split("/"):
                table = table.get(step, {}) if is_object(table) else {}
        table = table_of(table)
        for word in ("anyOf", "oneOf", "allOf"):
            options: Any = table.get(word)
            if is_list(options) and options:
                return [variant for option in options for variant in self.part(option).variants]
        kinds: Any = table.get("type")
        if is_list(kinds):
            return [self.part({**table, "type": kind}) for kind in kinds]
        return [self.part(table)]

    @property
    def values(self) -> list[Any]:
        """The listed values, in order; empty if any value is allowed."""
        values: list[Any] = []
        for variant in self.variants:
            if is_list(variant.document.get("enum")):
                values += variant.document["enum"]
            elif "const" in variant.document:
                values.append(variant.document["const"])
        return values

    @property
    def numbers(self) -> list[float]:
        """The listed values that are numbers."""
        return [value for value in self.values if isinstance(value, int | float)]

    @property
    def names(self) -> list[str]:
        """The listed values that are texts."""
        return [value for value in self.values if isinstance(value, str)]

    @property
    def kind(self) -> str:
        """The type of a variant."""
        kind = self.document.get("type")
        if isinstance(kind, str):
            return kind
        return "object" if "properties" in self.document else "string"


def _scale(schema: Schema, text: str) -> tuple[float, float]:
    """Return the minimum and maximum score: of the schema, else of the prompt, else 0 and 1."""
    numbers = schema.numbers
    if len(numbers) > 1:
        return min(numbers), max(numbers)
    for variant in schema.variants:
        low, high = variant.document.get("minimum"), variant.document.get("maximum")
        if isinstance(low, int | float) and isinstance(high, int | float):
            return float(low), float(high)
    for pattern in _SCALES:
        match = pattern.search(text)
        if match is not None and float(match["low"]) < float(match["high"]):
            return float(match["low"]), float(match["high"])
    return 0.0, 1.0


def scale_score(schema: Schema, score: float, text: str) -> float:
    """Return a score from 0 to 1 on the requested scale, rounded if it has whole numbers."""
    low, high = _scale(schema, text)
    if _RE.either.search(text):
        return high if score >= _STRICT else low
    value = low + (high - low) * score
    if numbers := schema.numbers:
        return min(numbers, key=lambda number: abs(number - value))
    return round(value) if _RE.whole.search(text) else value


def _nearest_option(options: list[str], score: float) -> str:
    """Return the option whose wording is nearest to a score; unknown words are best first."""
    option_words = [set(re.findall(r"[a-z]+", option.lower())) for option in options]
    worths = [
        next((worth for worth_words, worth in _WORTHS if words & worth_words), None)
        for words in option_words
    ]
    last = max(1, len(options) - 1)
    if len({worth for worth in worths if worth is not None}) < 2:  # noqa: PLR2004 - they differ
        worths = [None for _ in options]
    scores = [1 - i / last if worth is None else worth for i, worth in enumerate(worths)]
    return options[min(range(len(options)), key=lambda i: abs(scores[i] - score))]


def choose_verdict(schema: Schema, score: float, text: str) -> Any:
    """Return the verdict for a score from 0 to 1, in the type of a field."""
    options = schema.values
    if options:
        return _nearest_option([str(option) for option in options], score)
    for variant in schema.variants:
        if variant.kind == "boolean":
            return score >= _MIDDLE
        if variant.kind in ("number", "integer"):
            low, high = _scale(schema, "")
            return _number(variant, low + (high - low) * score)
    match = _RE.options.search(text)
    choices = (match["options"] or match["more"]) if match is not None else ""
    words = [o.strip(" \"'`[]()") for o in re.split(r",|\bor\b|/", choices)]
    return _nearest_option([word for word in words if word] or ["yes", "no"], score)


def _number(variant: Schema, value: float) -> float | int:
    table = variant.document
    value = min(max(value, table.get("minimum", -math.inf)), table.get("maximum", math.inf))
    return round(value) if table.get("type") == "integer" else round(value, 3)


def _is_allowed(value: Any, schema: Schema, depth: int) -> bool:
    """Return whether a schema allows a value, by its kinds, values and fields."""
    return depth < _DEPTH_MAX and any(_is_of(v, value, depth) for v in schema.variants)


def _is_of(variant: Schema, value: Any, depth: int) -> bool:
    if options := variant.values:
        return value in options
    table = variant.document
    match variant.kind:
        case "array":
            entry = variant.part(table.get("items") or {})
            return is_list(value) and all(_is_allowed(v, entry, depth + 1) for v in value)
        case "object":
            fields: Any = table.get("properties") or {}
            rest: Any = table.get("additionalProperties", True)
            inner: Any = rest if is_object(rest) else {}
            return (
                is_object(value)
                and (rest is not False or set(value) <= set(fields))
                and set(table.get("required") or ()) <= set(value)
                and all(
                    _is_allowed(v, variant.part(fields.get(k, inner)), depth + 1)
                    for k, v in value.items()
                )
            )
        case "number" | "integer":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case kind:
            return isinstance(value, {"string": str, "boolean": bool}.get(kind, type(None)))


def fill_schema(
    schema: Schema, name: str, find_value: Callable[[str, Schema], Any], depth: int = 0
) -> Any:
    """Return a value that the schema allows.

    Args:
        schema: The schema of the value.
        name: The name of the field; empty for the root.
        find_value: Called with a field's name and its schema; returns the value, or None if
            unknown.
        depth: The depth of the field; beyond a limit lists are left empty.
    """
    variants = schema.variants
    value: Any = find_value(name, schema) if name else None
    if value is not None:
        for variant in variants:
            if variant.kind in ("number", "integer") and _is_of(variant, value, depth):
                return value if variant.values else _number(variant, value)
            if _is_of(variant, value, depth):
                return value
    if any(variant.document.get("type") == "null" for variant in variants):
        return None
    return _make(variants[0], find_value, depth)


def _make(variant: Schema, find_value: Any, depth: int) -> Any:
    if options := variant.values:
        return options[0]
    table: Any = variant.document if depth <= _DEPTH_MAX else {}
    match variant.kind:
        case "object":
            fields: Any = table.get("properties") or {}
            return {
                key: fill_schema(variant.part(inner), key, find_value, depth + 1)
                for key, inner in fields.items()
            }
        case "array":
            entry = variant.part(table.get("items") or {})
            count = range(int(table.get("minItems") or 0))
            return [fill_schema(entry, "", find_value, depth + 1) for _ in count]
        case "number" | "integer":
            return _number(variant, 0)
        case "boolean":
            return False
        case _:
            return "Nothing to add."


Aspect = Literal["support", "figures", "reference", "coverage", "brevity", "clarity", "relevance"]

# Numbers of this module without another source were chosen by hand, so that `tests/unit/sim`
# passes. A change moves verdicts of the simulated judge and makes its recordings stale.

# The support from which a source carries a statement. Higher fails more of them; tests fail at 0.5
# and 0.7.
_CARRIED: Final = 0.6
_LISTENS: Final[dict[Aspect, re.Pattern[str]]] = _RE.patterns("aspects")
_FACET_ASKED: Final = _RE.patterns("facet_asked")
_FACET_STEMS: Final = {name: words_of(words) for name, words in _RE.entry("facets").items()}
_COMMON: Final = words_of(_RE.entry("common"))
# Shorter sections and lines are not compared. Tests fail at 3 and pass at 5.
_SECTION_WORDS: Final = 4
# The limit of brevity without a stated one, and the length from which a text gains score. Tests
# fail at 90 and 160.
_LENGTH_WORDS: Final = 120
# The overlap with a line that covers it fully. Higher lowers coverage; tests fail at 0.6 and 0.9.
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

    @property
    def reason(self) -> str:
        """The grade in words."""
        remarks = " ".join(self.remarks[:3]) or "Nothing is amiss."
        return f"Looked at {', '.join(self.aspects)}. {remarks}"


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


def _support(answer: str, source: str, criteria: str) -> tuple[float, list[str]]:
    # Without a request for figures they are ignored.
    with_figures = _LISTENS["figures"].search(criteria) is not None
    scores: list[float] = []
    remarks: list[str] = []
    for statement in statements_of(answer):
        finding = measure_support(statement if with_figures else without_figures(statement), source)
        score = min(finding.score, 0.3) if finding.contradicted else finding.score
        if score >= _CARRIED:
            scores.append(min(1.0, score / 0.85))
            continue
        scores.append(min(score, 0.35))
        missing = f" (not found: {', '.join(finding.missing[:3])})" if finding.missing else ""
        remarks.append(f"The source does not carry {statement[:90]!r}{missing}.")
    if not scores:
        return 0.0, ["It states nothing that could be looked up."]
    mean, further = sum(scores) / len(scores), max(0, len(remarks) - 1)
    return max(0.0, 0.4 * mean + 0.6 * min(scores) - 0.1 * further), remarks


def _figures(answer: str, ground: str) -> tuple[float, list[str]]:
    answer_figures = figures(answer)
    foreign_figures = sorted(answer_figures - figures(ground))
    if not foreign_figures:
        return 1.0, []
    score = max(0.0, 0.5 - len(foreign_figures) / (2 * len(answer_figures)))
    return score, [f"Figures that the source lacks: {', '.join(foreign_figures[:4])}."]


def _reference(answer: str, reference: str, criteria: str) -> tuple[float, list[str]]:
    """Return the likeness to the reference, by section if the criteria name its sections."""
    answer_sections, reference_sections = sections_of(answer), sections_of(reference)
    pairs = [
        (name, answer_sections.get(name, ""), text)
        for name, text in reference_sections.items()
        if name in criteria.lower() and len(words_of(text) - _COMMON) >= _SECTION_WORDS
    ]
    scores: list[float] = []
    remarks: list[str] = []
    for name, text, other in pairs or [("text", answer, reference)]:
        other_words, own_words = words_of(other) - _COMMON, words_of(text) - _COMMON
        scores.append(min(1.0, similarity(other_words, own_words) / 0.25))
        if scores[-1] < _CARRIED:
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
    answer_words = [words_of(s) for s in statements_of(answer)]
    scores: list[float] = []
    remarks: list[str] = []
    for facet, pattern in _FACET_ASKED.items():
        lines_there = _statements_on(facet, ground) if pattern.search(criteria) else ()
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


def _grade_aspect(  # noqa: PLR0911 - one line for each aspect
    aspect: Aspect, sheet: Sheet
) -> tuple[float, list[str]]:
    answer, criteria = sheet.judged_text, sheet.criteria
    ground = sheet.ground or sheet.text("expected")
    reference = sheet.text("expected") or ground
    match aspect:
        case "support":
            return _support(answer, ground, criteria)
        case "figures":
            return _figures(answer, ground)
        case "reference":
            return _reference(answer, reference, criteria)
        case "coverage":
            return _coverage(answer, reference, criteria)
        case "brevity":
            limit = _RE.limit.search(criteria)
            words, words_max = count_words(answer), int(limit[1]) if limit else _LENGTH_WORDS
            over = max(0.0, words / words_max - 1)
            return max(0.0, 1 - 2 * over), [f"It has {words} words."] if over else []
        case "clarity":
            statements = statements_of(answer)
            full_sentences = [s for s in statements if s[-1:] in ".!?" and len(s.split()) > 4]  # noqa: PLR2004 - shorter ones are labels
            share = len(full_sentences) / len(statements) if statements else 0.0
            remarks = [] if share > _CARRIED else ["Much of it is no whole sentence."]
            return 0.4 + 0.6 * share, remarks
        case "relevance":
            request = sheet.text("input", "question", "task") or ground
            share = overlap(words_of(request), words_of(answer))
            remarks = [] if share else ["It takes up nothing of what was asked."]
            return min(1.0, 0.3 + 2 * share), remarks


def _judgement_noise(dice: Dice, kind: str, *, vague: bool = False) -> float:
    """Return the error of one judgement: chance, more of it when hot, vague or drifted."""
    width = 0.10 + 0.25 * min(dice.temperature, 1.0) + 0.35 * dice.rules.drift
    width *= 2.0 if vague else 1.0
    throw = dice.throw(f"judge {kind}") + dice.throw(f"judge too {kind}") - 1
    return width * throw


def grade_text(sheet: Sheet, dice: Dice) -> Grade:
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
    score += 0.04 * longer + _judgement_noise(dice, "score", vague=is_vague)
    return Grade(score=min(1.0, max(0.0, score)), aspects=tuple(aspects), remarks=tuple(remarks))


# The first text gets a little more, as with LLM judges. Tests fail at 0.01 and 0.06.
_POSITION_BIAS: Final = 0.03
# Scores of a pair that are nearer are a tie, if ties are allowed. Tests fail at 0.01 and 0.04.
_TIE: Final = 0.02


def find_winner(sheet: Sheet, dice: Dice, options: list[str]) -> tuple[str, str]:
    """Return the name of the best text, and the reason."""

    def score(text: str, *, name: str) -> float:
        # The name of a text seeds the chance of this judgement.
        of_text = replace(sheet, parts={**sheet.parts, "answer": text})
        return grade_text(of_text, replace(dice, document=f"{dice.document} {name}")).score

    if sheet.text("first") and sheet.text("second"):
        first = score(sheet.text("first"), name="first") + _POSITION_BIAS
        second = score(sheet.text("second"), name="second")
        ties = [o for o in options if o.lower() in ("tie", "draw", "equal", "both", "neither")]
        if ties and abs(first - second) < _TIE:
            return ties[0], "Neither of the two is better by what was asked."
        sides = [o for o in options if o not in ties] or ["a", "b"]
        best = sides[0] if first >= second else sides[1]
        return best, f"{best} does better by what was asked."
    text = sheet.text("contestants")
    value = read_json(text)
    if is_object(value):
        # The contestants may be nested, next to the question.
        value = next((part for part in value.values() if is_object(part)), value)
        texts = {str(name): str(text) for name, text in value.items()}
    else:
        texts = {m[1]: m[2] for m in re.finditer(r"[\"'](\w+)[\"']: (.*)", text)}
    if not texts:
        return options[0] if options else "A", "It does best by what was asked."
    scores = {name: score(text, name=text) for name, text in texts.items()}
    scores[next(iter(texts))] += _POSITION_BIAS
    best, *losers = sorted(texts, key=lambda name: -scores[name])
    rest = ", ".join(f"${name}$" for name in losers)
    return best, f"${best}$ follows the evaluation steps further than {rest or 'any'}."


_FINDERS: Final = _RE.patterns("finders")
_PER_KIND: Final = [(pattern, _FINDERS[kind]) for kind, pattern in _RE.patterns("per_kind").items()]
# From here to `_CARRIED` a ruling is borderline. Tests pass at 0.2 and fail at 0.4.
_DOUBTFUL: Final = 0.3
# The share of common words of a relevant entry. Tests pass at 0.05 and 0.12.
_RELEVANT: Final = 0.08
# A statement with less support and a missing figure opposes the text. Tests pass at 0.1 and 0.2.
_FOREIGN: Final = 0.15
# A claim `key: value` with a longer key is a sentence. Tests pass at 3 and 5.
_KEY_WORDS: Final = 4


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
        statements = statements_of(text)[: _count(sheet.criteria, 5)]
        return [f"Does the text say that {s.rstrip('.')}?" for s in statements]
    if key == "truths":
        text = sheet.text("source", "text") or text
    if key == "intentions":
        text = sheet.text("talk") or text
    finder = _FINDERS.get(key)
    return [s for s in statements_of(text) if finder is None or finder.search(s)]


def _question(claim: str) -> str:
    """Return the question about a claim: its words, without its figures."""
    key, _, value = claim.partition(": ")
    if value and len(key.split()) <= _KEY_WORDS and key == key.lower() and figures(value):
        return f"What does the source state as {key.strip()}?"
    topic = " ".join(word for word in claim.rstrip(".").split() if not figures(word))
    return f"What does the source say of this: {topic}?"


def _judge_support(entry: str, ground: str, dice: Dice, number: int) -> Ruling:
    finding = measure_support(entry, join_list(ground))
    score = finding.score + _judgement_noise(dice, f"entry {number}") / 2
    if finding.contradicted:
        score = min(score, _DOUBTFUL / 2)
        reason = f"The source says otherwise: {finding.passage[:120]!r}."
    elif score < _CARRIED:
        lacking = ", ".join(finding.missing[:3])
        reason = f"The source does not mention {lacking or 'most of it'}."
    else:
        reason = f"The source says: {finding.passage[:120]!r}."
    borderline = _DOUBTFUL <= score < _CARRIED and not finding.contradicted
    return Ruling(entry=entry, score=float(score >= _CARRIED), borderline=borderline, reason=reason)


def _judge_claim(finding: dict[str, Any], dice: Dice, number: int) -> Ruling:
    """Return the verdict on a claim, by a quote of the source for a question about it."""
    claim = str(finding["claim"])
    finding_text = f"{finding.get('quote', '')}\n{finding.get('answer', '')}"
    if not finding.get("quote") and "not state" in finding_text.lower():
        reason = "The source does not speak of it."
        return Ruling(entry=claim, score=0.0, borderline=True, reason=reason)
    return _judge_support(claim, finding_text, dice, number)


def _judge_relation(entry: str, subject: str, dice: Dice, number: int) -> Ruling:
    words, subject_words = words_of(entry), words_of(subject)
    share = max(overlap(subject_words, words), overlap(words, subject_words))
    near = share + _judgement_noise(dice, f"entry {number}") / 4 >= _RELEVANT
    reason = "It takes up words of what was asked." if near else "It has no word of what was asked."
    return Ruling(entry=entry, score=float(near), borderline=not near and share > 0, reason=reason)


def _judge_instruction(instruction: str, answer: str) -> Ruling:
    low = instruction.lower()
    limit = re.search(r"(\d+) words", low)
    is_followed = True
    if "upper case" in low or "uppercase" in low or "capital letters" in low:
        is_followed = answer == answer.upper()
    elif "json" in low:
        is_followed = answer.strip().startswith(("{", "["))
    elif limit is not None:
        is_followed = len(answer.split()) <= int(limit[1])
    omission = f"The answer does not follow {instruction[:80]!r}."
    reason = "It was followed." if is_followed else omission
    return Ruling(entry=instruction, score=float(is_followed), reason=reason)


def _judge_flag(entry: str, finder: re.Pattern[str]) -> Ruling:
    match = finder.search(entry)
    reason = f"It says {match[0]!r}." if match is not None else "Nothing in it is of that kind."
    return Ruling(entry=entry, score=float(match is not None), reason=reason)


def _judge_agreement(node: str, statements: tuple[str, ...]) -> Ruling:
    findings = ((statement, measure_support(statement, node)) for statement in statements)
    against = next(
        (s for s, f in findings if f.contradicted or (f.score < _FOREIGN and f.missing)), ""
    )
    reason = f"The context says otherwise than {against[:90]!r}." if against else "They agree."
    return Ruling(entry=node, score=float(not against), reason=reason)


def make_rulings(sheet: Sheet, dice: Dice, head: str) -> list[Ruling]:
    """Return a verdict for each entry of the prompt's list, or for each of its texts.

    Args:
        sheet: The parts of the prompt.
        dice: The chance of this judgement.
        head: The part of the prompt with the question.
    """
    items = parse_list(sheet.text("items"))[:1_000]
    answer, source = sheet.text("answer"), sheet.text("source")
    if not items:
        return _judge_texts(sheet, dice, head)
    # A claim may begin like an object.
    findings = [table_of(read_json(entry)) if entry.startswith("{") else {} for entry in items]
    if all("claim" in finding for finding in findings):
        return [_judge_claim(finding, dice, i) for i, finding in enumerate(findings, start=1)]
    for pattern, finder in _PER_KIND:
        if pattern.search(head):
            return [_judge_flag(entry, finder) for entry in items]
    if "prompt instructions" in head.lower():
        return [_judge_instruction(entry, answer) for entry in items]
    if source:
        return [_judge_support(entry, source, dice, i) for i, entry in enumerate(items)]
    request = sheet.text("input", "question") or answer
    return [_judge_relation(entry, request, dice, i) for i, entry in enumerate(items)]


def _judge_texts(sheet: Sheet, dice: Dice, head: str) -> list[Ruling]:
    """Return verdicts on the nodes of a source, or on an expected output compared with them."""
    answer, source = sheet.text("answer"), sheet.text("source")
    subject = f"{sheet.text('input')} {sheet.text('expected')}"
    nodes = parse_list(source) if source.lstrip().startswith("[") else [source]
    if not source:
        nodes, subject = list(statements_of(answer or sheet.judged_text)), sheet.ground
    elif "attributed" in head and (expected := sheet.text("expected", "answer")):
        statements = enumerate(statements_of(expected))
        return [_judge_support(entry, source, dice, i) for i, entry in statements]
    elif answer:
        nodes += nodes[-1:] * max(0, _count(head, 0) - len(nodes))
        return [_judge_agreement(node, statements_of(answer)) for node in nodes]
    elif len(nodes) == 1 and not sheet.text("expected"):
        nodes = list(statements_of(source))
    return [_judge_relation(node, subject, dice, i) for i, node in enumerate(nodes)]


_REASONS: Final = _RE.words("reasons")
# The support from which a passage is the reply to a question. Tests pass at 0.2 and 0.4.
_ANSWERS: Final = 0.3
# Formats are stated at the beginning or the end; patterns over a whole long prompt are slow.
_EDGE_CHARS: Final = 8_000


def judge(request: CompletionRequest, dice: Dice) -> str | None:
    """Return the response to a judging prompt, or None if the request is none."""
    document = schema_of(request.response_format)
    properties: Any = document.get("properties") if document is not None else None
    names = set(properties) if is_object(properties) else set[str]()
    distinct = _RE.words("distinct")
    if document is None or not names & distinct or not names <= distinct | _RE.words("around"):
        return None
    text = text_of(request.messages)
    if not (names & _RE.words("verdicts") and names & _REASONS) and not _RE.speaks.search(text):
        return None
    sheet = read_sheet(request.messages)
    texts = (sheet.judged_text, sheet.ground, sheet.text("items"))
    dice = dice.with_seed(" ".join("\x1f".join(texts).split()))
    bench = _Judgement(sheet=sheet, dice=dice, text=text, root=Schema(document, document))
    return json.dumps(fill_schema(bench.root, "", bench.value_of), ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class _Judgement:
    """One judgement; values that several fields use are computed once."""

    sheet: Sheet
    dice: Dice
    text: str
    root: Schema

    @cached_property
    def head_and_tail(self) -> str:
        """The parts of a prompt on the format of the response: its beginning and its end."""
        if len(self.text) < 2 * _EDGE_CHARS:
            return self.text
        return f"{self.text[:_EDGE_CHARS]}\n{self.text[-_EDGE_CHARS:]}"

    @cached_property
    def grade(self) -> Grade:
        """The grade of the judged text."""
        return grade_text(self.sheet, self.dice)

    @cached_property
    def decision(self) -> tuple[float, str]:
        """A single verdict from 0 to 1, and its reason."""
        sheet = self.sheet
        if _RE.forgets.search(self.text) and sheet.text("source"):
            finding = measure_support(sheet.text("answer"), sheet.text("source"))
            return float(finding.contradicted), "It was held against what is known."
        return self.grade.score, self.grade.reason

    @cached_property
    def rulings(self) -> list[Ruling]:
        """A verdict for each entry."""
        return make_rulings(self.sheet, self.dice, self.text.partition("Example")[0])

    def value_of(self, name: str, schema: Schema) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each field that judges are asked for
        """Return the value of one field, or None if its schema alone decides."""
        sheet = self.sheet
        match name:
            case "score":
                return scale_score(schema, self.grade.score, self.head_and_tail)
            case "verdict" | "choice" | "supported":
                return choose_verdict(schema, self.decision[0], self.head_and_tail)
            case "verdicts":
                return self._verdicts(schema)
            case "winner":
                return find_winner(sheet, self.dice, schema.names)[0]
            case "rewritten_reason":
                # The dummy names of contestants are replaced by their own.
                mapping = _RE.mapping.finditer(sheet.text("mapping"))
                names = {m["from"].strip(): m["to"].strip() for m in mapping}
                return _RE.named.sub(
                    lambda m: names.get(m["name"], m["name"]), sheet.text("findings")
                )
            case "steps":
                criteria = (s for line in sheet.criteria.split("\n") for s in sentences(line))
                checks = [f"Check this: {s}" for s in criteria if count_words(s) > 2]  # noqa: PLR2004 - shorter ones say nothing
                return [*checks[:3], "Weigh what was found and give a score."]
            case "answers":
                text = sheet.text("text", "source", "answer")
                scores = [measure_support(q, text).score for q in parse_list(sheet.text("items"))]
                return ["yes" if score >= _CARRIED else "no" for score in scores]
            case "answer" | "quote":
                return self._find_answer() or ("not stated" if name == "answer" else "")
            case "qa_pairs":
                talk = sheet.text("talk")
                turns = [(m["who"].lower(), m["said"]) for m in _RE.turn.finditer(talk)]
                return [
                    {"question": text, "response": response}
                    for (role, text), (next_role, response) in pairwise(turns)
                    if role == "user" and next_role == "assistant"
                ]
            case "data":
                statements = statements_of(sheet.text("input"))
                return {f"Fact {i}": fact for i, fact in enumerate(statements, start=1)} or None
            case "task" | "outcome" | "output":
                text = sheet.text("input" if name == "task" else "answer") or sheet.judged_text
                return " ".join(statements_of(text or sheet.ground)[:3]) or None
            case _ if name in _RE.words("lists"):
                return entries(name, sheet)
            case _ if name in _REASONS:
                return self._reason()
            case _:
                return None

    def _reason(self) -> str:
        fields: Any = self.root.document.get("properties", {})
        if "winner" in fields:
            return find_winner(self.sheet, self.dice, self.root.part(fields["winner"]).names)[1]
        if fields.keys() & {"verdict", "choice", "supported"}:
            return self.decision[1]
        if "score" in fields:
            return self.grade.reason
        findings = [reason.rstrip(".") for reason in parse_list(self.sheet.text("findings"))[:3]]
        score = self.sheet.text("score").split("\n")[0]
        because = "; ".join(findings) or "nothing speaks against it"
        return f"The score is {score or 'as it is'} because {because}."

    def _find_answer(self) -> str:
        """Return the source's text on a question, verbatim; empty without one."""
        question, ground = self.sheet.text("question", "items"), self.sheet.ground
        topic = _RE.asked.sub("", question).rstrip("?")
        if _RE.stated.search(question):
            return nearest_line(topic, ground)
        finding = measure_support(topic, ground)
        return finding.passage if finding.score >= _ANSWERS else ""

    def _verdicts(self, schema: Schema) -> list[Any]:
        entry: Any = schema.document.get("items") or {}
        if "score" not in entry.get("properties", {}):
            return [
                fill_schema(schema.part(entry), "", partial(self._entry_value, ruling, number))
                for number, ruling in enumerate(self.rulings, start=1)
            ]
        count = int(schema.document.get("minItems", 1))
        return [
            fill_schema(schema.part(entry), "", partial(self._criterion_value, number))
            for number in range(1, count + 1)
        ]

    def _criterion_value(self, number: int, name: str, schema: Schema) -> Any:
        """Return the value of one field of the verdict on one criterion; one grade serves all."""
        if name in _REASONS:
            return self.grade.reason
        return number if name == "number" else self.value_of(name, schema)

    def _entry_value(self, ruling: Ruling, number: int, name: str, schema: Schema) -> Any:
        """Return the value of one field of the verdict on one entry."""
        match name:
            case "verdict" | "supported":
                silent = [o for o in schema.values if _RE.silent.search(str(o))]
                if ruling.borderline and silent:
                    return silent[0]
                in_doubt = ruling.borderline and "borderline" in self.head_and_tail
                score = _MIDDLE if in_doubt else ruling.score
                return choose_verdict(schema, score, self.head_and_tail)
            case "statement" | "claim" | "expected_output" | "entry":
                return ruling.entry
            case "number" | "index":
                return number
            case _:
                return ruling.reason if name in _REASONS else None
