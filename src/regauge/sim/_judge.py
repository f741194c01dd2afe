"""The simulated model as a judge: a response in the shape of the request's schema."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from regauge.lexicon import Lexicon
from regauge.sim._evidence import (
    Sheet,
    measure_support,
    nearest_line,
    parse_list,
    read_sheet,
    statements_of,
    text_of,
)
from regauge.sim._instructions import schema_of
from regauge.sim._text import is_list, is_object
from regauge.sim._verdicts import (
    CARRIED,
    Grade,
    Ruling,
    entries,
    find_winner,
    grade,
    judgement_noise,
    make_rulings,
    restore_names,
    steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.providers import CompletionRequest
    from regauge.sim._rules import Dice

_RE: Final = Lexicon("regauge.sim", "judge")

_DEPTH_MAX: Final = 12
_NOTHING: Final = "Nothing to add."
_STRICT: Final = 0.75
_SCALES: Final = tuple(_RE.patterns("scales").values())
_GOOD: Final = _RE.words("good")
_MIDDLING: Final = _RE.words("middling")
_BAD: Final = _RE.words("bad")


def _resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_DEPTH_MAX):
        target: Any = schema.get("$ref") if is_object(schema) else None
        if not isinstance(target, str):
            break
        schema = root
        for step in target.removeprefix("#").strip("/").split("/"):
            schema = schema.get(step, {}) if is_object(schema) else {}
    return schema if is_object(schema) else {}


def _variants(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schema's alternatives, with references resolved; itself without any."""
    schema = _resolve(schema, root)
    for word in ("anyOf", "oneOf", "allOf"):
        part: Any = schema.get(word)
        if is_list(part) and part:
            return [inner for variant in part for inner in _variants(variant, root)]
    kinds: Any = schema.get("type")
    if is_list(kinds):
        return [{**schema, "type": kind} for kind in kinds]
    return [schema]


def listed_values(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    """Return the values that a schema lists, in order; empty if any value is allowed."""
    values: list[Any] = []
    for variant in _variants(schema, root):
        if is_list(variant.get("enum")):
            values += variant["enum"]
        elif "const" in variant:
            values.append(variant["const"])
    return values


def _kind(variant: Mapping[str, Any]) -> str:
    kind = variant.get("type")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in variant else "string"


def _scale(schema: Mapping[str, Any], root: Mapping[str, Any], text: str) -> tuple[float, float]:
    """Return the minimum and maximum score: of the schema, else of the prompt, else 0 and 1."""
    numbers = [value for value in listed_values(schema, root) if isinstance(value, int | float)]
    if len(numbers) > 1:
        return min(numbers), max(numbers)
    for variant in _variants(schema, root):
        low, high = variant.get("minimum"), variant.get("maximum")
        if isinstance(low, int | float) and isinstance(high, int | float):
            return float(low), float(high)
    for pattern in _SCALES:
        match = pattern.search(text)
        if match is not None and float(match["low"]) < float(match["high"]):
            return float(match["low"]), float(match["high"])
    return 0.0, 1.0


def scale_score(
    schema: Mapping[str, Any], root: Mapping[str, Any], score: float, text: str
) -> float:
    """Return a score from 0 to 1 on the requested scale, rounded if it has whole numbers."""
    low, high = _scale(schema, root, text)
    if _RE.either.search(text):
        return high if score >= _STRICT else low
    value = low + (high - low) * score
    numbers = [value for value in listed_values(schema, root) if isinstance(value, int | float)]
    if numbers:
        return min(numbers, key=lambda number: abs(number - value))
    return round(value) if _RE.whole.search(text) else value


def _worth(option: str) -> float | None:
    words = re.findall(r"[a-z]+", option.lower())
    if not words:
        return None
    for words_of_worth, worth in ((_MIDDLING, 0.5), (_BAD, 0.0), (_GOOD, 1.0)):
        if any(word in words_of_worth for word in words):
            return worth
    return None


def _nearest_option(options: list[str], score: float) -> str:
    """Return the option whose wording is nearest to a score; unknown words are best first."""
    last = max(1, len(options) - 1)
    worths = [_worth(option) for option in options]
    has_worths = len({w for w in worths if w is not None}) > 1
    option_scores = [
        w if has_worths and w is not None else 1 - i / last for i, w in enumerate(worths)
    ]
    return options[min(range(len(options)), key=lambda i: abs(option_scores[i] - score))]


def choose_verdict(
    schema: Mapping[str, Any], root: Mapping[str, Any], score: float, text: str
) -> Any:
    """Return the verdict for a score from 0 to 1, in the type of a field."""
    options = listed_values(schema, root)
    if options and all(isinstance(option, bool) for option in options):
        return (score >= 0.5) if len(set(options)) > 1 else options[0]  # noqa: PLR2004 - the middle
    if options:
        return _nearest_option([str(option) for option in options], score)
    for variant in _variants(schema, root):
        if _kind(variant) == "boolean":
            return score >= 0.5  # noqa: PLR2004 - the middle
        if _kind(variant) in ("number", "integer"):
            low, high = _scale(schema, root, "")
            return _number(variant, low + (high - low) * score)
    options_match = _RE.options.search(text)
    choices = (
        (options_match["options"] or options_match["more"]) if options_match is not None else ""
    )
    words = [o.strip(" \"'`[]()") for o in re.split(r",|\bor\b|/", choices)]
    return _nearest_option([word for word in words if word] or ["yes", "no"], score)


def _number(variant: Mapping[str, Any], value: float) -> float | int:
    value = max(value, variant.get("minimum", -math.inf))
    value = min(value, variant.get("maximum", math.inf))
    return round(value) if variant.get("type") == "integer" else round(value, 3)


def _is_allowed(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0
) -> bool:
    """Return whether a schema allows a value, by its kinds, values and fields."""
    return depth < _DEPTH_MAX and any(
        _is_instance(value, variant, root, depth) for variant in _variants(schema, root)
    )


def _is_instance(
    value: Any, variant: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> bool:
    options = listed_values(variant, root)
    if options:
        return value in options
    match _kind(variant):
        case "array":
            entry: Any = variant.get("items") or {}
            return is_list(value) and all(_is_allowed(v, entry, root, depth + 1) for v in value)
        case "object":
            fields: Any = variant.get("properties") or {}
            rest: Any = variant.get("additionalProperties", True)
            inner: Any = rest if is_object(rest) else {}
            return (
                is_object(value)
                and (rest is not False or set(value) <= set(fields))
                and set(variant.get("required") or ()) <= set(value)
                and all(
                    _is_allowed(v, fields.get(k, inner), root, depth + 1) for k, v in value.items()
                )
            )
        case "number" | "integer":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case kind:
            return isinstance(value, {"string": str, "boolean": bool}.get(kind, type(None)))


def fill_schema(
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    name: str,
    find_value: Callable[[str, Mapping[str, Any], Mapping[str, Any]], Any],
    depth: int = 0,
) -> Any:
    """Return a value that the schema allows.

    Args:
        schema: The schema of the value.
        root: The schema that references point into.
        name: The name of the field; empty for the root.
        find_value: Called with a field's name, its schema and the root; returns the value, or None
            if unknown.
        depth: The depth of the field; beyond a limit lists are left empty.
    """
    variants = _variants(schema, root)
    value = find_value(name, schema, root) if name else None
    if value is not None:
        for variant in variants:
            if _kind(variant) in ("number", "integer") and _is_instance(
                value, variant, root, depth
            ):
                return _number(variant, value) if not listed_values(variant, root) else value
            shaped_value = _shape_entries(value, variant, root, find_value, depth)
            if _is_instance(shaped_value, variant, root, depth):
                return shaped_value
    if any(variant.get("type") == "null" for variant in variants):
        return None
    return _make(variants[0], root, find_value, depth)


def _shape_entries(
    value: Any, variant: Mapping[str, Any], root: Mapping[str, Any], find_value: Any, depth: int
) -> Any:
    """Convert plain texts to a list's entries, if these are objects."""
    entry: Any = variant.get("items")
    if not is_list(value) or not is_object(entry) or _kind(variant) != "array":
        return value
    inner = _variants(entry, root)[0]
    if _kind(inner) != "object" or depth > _DEPTH_MAX:
        return value

    def entry_of(text: Any) -> Any:
        def phrase(name: str, below: Any, top: Any) -> Any:
            first = next(iter(inner.get("properties", {"": None})))
            return text if name == first else find_value(name, below, top)

        return text if is_object(text) else fill_schema(inner, root, "", phrase, depth + 1)

    return [entry_of(text) for text in value]


def _make(  # noqa: PLR0911 - one line for each kind of value
    variant: Mapping[str, Any], root: Mapping[str, Any], find_value: Any, depth: int
) -> Any:
    options = listed_values(variant, root)
    if options:
        return options[0]
    is_deep = depth > _DEPTH_MAX
    match _kind(variant):
        case "object":
            properties: Any = {} if is_deep else variant.get("properties") or {}
            return {
                key: fill_schema(inner, root, key, find_value, depth + 1)
                for key, inner in properties.items()
            }
        case "array":
            count = 0 if is_deep else int(variant.get("minItems") or 0)
            entry: Any = variant.get("items") or {}
            return [fill_schema(entry, root, "", find_value, depth + 1) for _ in range(count)]
        case "number" | "integer":
            return _number(variant, 0)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return _NOTHING


_DISTINCT: Final = _RE.words("distinct")
_AROUND: Final = _RE.words("around")
_LISTS: Final = _RE.words("lists")
_REASONS: Final = _RE.words("reasons")
_VERDICTS: Final = _RE.words("verdicts")
_TOPIC: Final = frozenset({"TP", "TN", "FP", "FN"})
_ANSWERS: Final = 0.3
_EDGE_CHARS: Final = 8_000
_SHORT: Final = 3


def _is_verdict_schema(schema: Mapping[str, Any], text: str) -> bool:
    """Return whether an object of this schema is a verdict, or a step towards one."""
    properties: Any = schema.get("properties")
    names = set(properties) if is_object(properties) else set[str]()
    if not names & _DISTINCT or not names <= _DISTINCT | _AROUND:
        return False
    reasoned = bool(names & _VERDICTS) and bool(names & _REASONS)
    return reasoned or _RE.speaks.search(text) is not None


def judge(request: CompletionRequest, dice: Dice) -> str | None:
    """Return the response to a judging prompt, or None if the request is none."""
    schema = schema_of(request.response_format)
    text = text_of(request.messages)
    if schema is None or not _is_verdict_schema(schema, text):
        return None
    sheet = read_sheet(request.messages)
    seed_text = " ".join(
        "\x1f".join((sheet.judged_text, sheet.ground, sheet.text("items"))).split()
    )
    bench = _Judgement(sheet=sheet, dice=dice.with_seed(seed_text), text=text)
    return json.dumps(fill_schema(schema, schema, "", bench.value_of), ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class _Judgement:
    """One judgement; values that several fields use are computed once."""

    sheet: Sheet
    dice: Dice
    text: str

    @cached_property
    def head_and_tail(self) -> str:
        """The parts of a prompt on the format of the response: its beginning and its end."""
        if len(self.text) < 2 * _EDGE_CHARS:
            return self.text
        return f"{self.text[:_EDGE_CHARS]}\n{self.text[-_EDGE_CHARS:]}"

    @cached_property
    def grade(self) -> Grade:
        """The grade of the judged text."""
        return grade(self.sheet, self.dice)

    @cached_property
    def decision(self) -> tuple[float, str]:
        """A single verdict from 0 to 1, and its reason."""
        sheet = self.sheet
        if _RE.forgets.search(self.text) and sheet.text("source"):
            finding = measure_support(sheet.text("answer"), sheet.text("source"))
            return float(finding.contradicted), "It was held against what is known."
        item = " ".join(parse_list(sheet.text("items")))
        if item and sheet.text("source", "answer"):
            finding = measure_support(item, sheet.text("source", "answer"))
            score = finding.score + judgement_noise(self.dice, "claim") / 2
            if finding.contradicted:
                return min(score, 0.2), f"It says otherwise: {finding.passage[:120]!r}."
            missing = ", ".join(finding.missing[:_SHORT]) or "most of it"
            reason = f"It says: {finding.passage[:120]!r}."
            return score, reason if score >= CARRIED else f"There is no word of {missing}."
        return self.grade.score, self._grade_reason()

    def _grade_reason(self) -> str:
        aspects = ", ".join(self.grade.aspects)
        return f"Looked at {aspects}. " + (
            " ".join(self.grade.remarks[:_SHORT]) or "Nothing is amiss."
        )

    @cached_property
    def rulings(self) -> list[Ruling]:
        """A verdict for each entry."""
        head = self.text[: self.text.find("Example")] if "Example" in self.text else self.text
        return make_rulings(self.sheet, self.dice, head)

    def value_of(self, name: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each field that judges are asked for
        """Return the value of one field, or None if its schema alone decides."""
        sheet = self.sheet
        options = [o for o in listed_values(schema, root) if isinstance(o, str)]
        match name:
            case "score":
                return scale_score(schema, root, self.grade.score, self.head_and_tail)
            case "verdict" | "choice" | "supported":
                if frozenset(options) == _TOPIC:
                    return self._topic()
                return choose_verdict(schema, root, self.decision[0], self.head_and_tail)
            case "verdicts":
                return self._verdicts(schema, root)
            case "winner":
                return find_winner(sheet, self.dice, options)[0]
            case "rewritten_reason":
                return restore_names(sheet)
            case "steps":
                return steps(sheet)
            case "answers":
                text = sheet.text("text", "source", "answer")
                scores = [measure_support(q, text).score for q in parse_list(sheet.text("items"))]
                return ["yes" if score >= CARRIED else "no" for score in scores]
            case "answer" | "quote":
                return self._find_answer() or ("not stated" if name == "answer" else "")
            case "qa_pairs":
                return self._pairs()
            case "data":
                statements = statements_of(sheet.text("input"))
                return {f"Fact {i}": fact for i, fact in enumerate(statements, start=1)} or None
            case "task" | "outcome" | "output":
                text = sheet.text("input" if name == "task" else "answer") or sheet.judged_text
                return " ".join(statements_of(text or sheet.ground)[:_SHORT]) or None
            case _ if name in _LISTS:
                return entries(name, sheet)
            case _ if name in _REASONS:
                return self._reason(root)
            case _:
                return None

    def _reason(self, root: Mapping[str, Any]) -> str:
        fields = set(root.get("properties", ()))
        if "winner" in fields:
            names = [
                o for o in listed_values(root["properties"]["winner"], root) if isinstance(o, str)
            ]
            return find_winner(self.sheet, self.dice, names)[1]
        if fields & {"verdict", "choice", "supported"}:
            return self.decision[1]
        if "score" in fields:
            return self._grade_reason()
        findings = parse_list(self.sheet.text("findings"))
        score = self.sheet.text("score").split("\n")[0]
        because = (
            "; ".join(reason.rstrip(".") for reason in findings[:_SHORT])
            or "nothing speaks against it"
        )
        return f"The score is {score or 'as it is'} because {because}."

    def _find_answer(self) -> str:
        """Return the source's text on a question, verbatim; empty without one."""
        question = self.sheet.text("question", "items")
        topic = _RE.asked.sub("", question).rstrip("?")
        finding = measure_support(topic, self.sheet.ground)
        passage = (
            nearest_line(topic, self.sheet.ground)
            if _RE.stated.search(question)
            else finding.passage
        )
        return passage if _RE.stated.search(question) or finding.score >= _ANSWERS else ""

    def _topic(self) -> str:
        sheet = self.sheet
        question, reply = sheet.text("question"), sheet.text("answer")
        on_topic = measure_support(question, sheet.text("topics")).score > 0
        is_refusal = (
            re.search(r"\b(?:cannot|can't|unable|sorry)\b", reply, re.IGNORECASE) is not None
        )
        if on_topic:
            return "FN" if is_refusal else "TP"
        return "TN" if is_refusal else "FP"

    def _pairs(self) -> list[dict[str, str]]:
        turns = [(m["who"].lower(), m["said"]) for m in _RE.turn.finditer(self.sheet.text("talk"))]
        return [
            {"question": text, "response": turns[i + 1][1]}
            for i, (role, text) in enumerate(turns[:-1])
            if role == "user" and turns[i + 1][0] == "assistant"
        ]

    def _verdicts(self, schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
        entry: Any = schema.get("items") or {}
        if "score" in entry.get("properties", {}):  # of several criteria, one grade serves all
            return [
                fill_schema(entry, root, "", partial(self._criterion_value, number))
                for number in range(1, int(schema.get("minItems", 1)) + 1)
            ]
        return [
            fill_schema(entry, root, "", partial(self._entry_value, ruling, number))
            for number, ruling in enumerate(self.rulings, start=1)
        ]

    def _criterion_value(
        self, number: int, name: str, schema: Mapping[str, Any], root: Mapping[str, Any]
    ) -> Any:
        """Return the value of one field of the verdict on one criterion."""
        if name in _REASONS:
            return self._grade_reason()
        return number if name == "number" else self.value_of(name, schema, root)

    def _entry_value(
        self, ruling: Ruling, number: int, name: str, schema: Mapping[str, Any],
        root: Mapping[str, Any],
    ) -> Any:  # fmt: skip
        """Return the value of one field of the verdict on one entry."""
        match name:
            case "verdict" | "supported":
                silent = [o for o in listed_values(schema, root) if _RE.silent.search(str(o))]
                if ruling.borderline and silent:
                    return silent[0]
                doubt = (
                    0.5
                    if ruling.borderline and "borderline" in self.head_and_tail
                    else ruling.score
                )
                return choose_verdict(schema, root, doubt, self.head_and_tail)
            case "statement" | "claim" | "expected_output" | "entry":
                return ruling.entry
            case "number" | "index":
                return number
            case _:
                return ruling.reason if name in _REASONS else None
