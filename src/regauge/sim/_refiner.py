"""The simulated refiner: critiques and edits from the texts of a request."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.lexicon import Lexicon
from regauge.sim._instructions import schema_of
from regauge.sim._text import is_list, is_object, read_json, stems, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.digests import JSON
    from regauge.providers import CompletionRequest
    from regauge.sim._rules import Dice

_RE: Final = Lexicon("regauge.sim", "refiner")


@dataclass(frozen=True)
class RefinerInputs:
    """The inputs of the refiner."""

    texts: Mapping[str, str]
    dice: Dice

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the prompt, without numbers and roles."""
        role = r"(?m)^\[(?:system|developer|user|assistant)\]\n"
        text = re.sub(role, "", self.texts.get("prompt", ""))
        return [_RE.numbered.sub("", line, count=1) for line in text.split("\n")]

    @cached_property
    def rules(self) -> list[str]:
        """The lines that are rules and occur once."""
        line_counts = Counter(self.lines)
        return [line for line in self.lines if _RE.rule.match(line) and line_counts[line] == 1]

    def read_check_line(self, key: str) -> str:
        """Return a line of the check's description."""
        match = re.search(rf"^{re.escape(key)}: (.*)$", self.texts.get("check", ""), re.MULTILINE)
        return match[1].strip() if match else ""

    @cached_property
    def check_words(self) -> frozenset[str]:
        """The words of the check."""
        keys = ("name", "what it looks at", "what a prompt should say for it")
        return frozenset(
            stems(" ".join(self.read_check_line(key).replace("_", " ") for key in keys))
        )

    @cached_property
    def inputs(self) -> list[str]:
        """The inputs of failing cases, as texts."""
        return [
            str(value)
            for case in json_list(self.texts.get("failing") or self.texts.get("cases", ""))
            for value in table_of(case.get("inputs", case)).values()
        ]

    @cached_property
    def remarks(self) -> list[str]:
        """The remarks of users on outputs."""
        return [str(remark.get("says", "")) for remark in json_list(self.texts.get("people", ""))]

    @property
    def advice(self) -> str:
        """The advice of a check's author for the prompt."""
        return self.read_check_line("what a prompt should say for it")

    def find_nearest(self, text: str) -> str | None:
        """Return the rule that shares most words with a text; None if no rule shares any."""
        words = set(stems(text))
        best = max(self.rules, key=lambda rule: len(words & set(stems(rule))), default="")
        return best if words & set(stems(best)) else None


def json_list(text: str) -> list[dict[str, Any]]:
    entries = read_json(text)
    return [entry for entry in entries if is_object(entry)] if is_list(entries) else []


def _apply_to_section(desk: RefinerInputs, useful: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Return a helpful edit; sometimes a rewritten section, if that is allowed.

    It is the section of the useful edits, else any. At times a rule is forgotten.
    """
    dice, sections = desk.dice, json_list(desk.texts.get("sections", ""))
    if not sections or not dice.happens("section", 0.3):
        return useful
    texts = [_lines_of_section(desk.texts.get("prompt", ""), section) for section in sections]
    homes = [number for number, lines in enumerate(texts) if useful[0]["line"] in lines]
    home = homes[0] if homes else dice.pick("section", len(sections))
    lines = texts[home]
    rules = [line for line in lines if _RE.rule.match(line)]
    if len(rules) > 1 and dice.happens("forgets", 0.3):
        lines.remove(rules[dice.pick("forgets", len(rules))])
    for op in useful:
        line, text = str(op["line"]), str(op["text"])
        if line not in lines:
            lines.append(text)
        elif op["op"] == "insert_after":
            lines.insert(lines.index(line) + 1, text)
        else:
            lines[lines.index(line)] = text
    text_of_section = "\n".join(line for line in lines if line.strip())
    return [_operation("replace_section", sections[home].get("line"), text_of_section)]


def _lines_of_section(prompt: str, section: Mapping[str, Any]) -> list[str]:
    """Return the lines of a section, such as `lines 3 to 7` of a message."""
    parts = _RE.role.split(prompt)
    block = parts[parts.index(str(section["message"])) + 1]
    first, last = map(int, _RE.number.findall(str(section["its text"])))
    lines = [_RE.numbered.sub("", line, count=1) for line in block.rstrip("\n").split("\n")]
    return lines[first - 1 : last]


_FLUFF: Final[list[str]] = _RE.entry("fluff")
# The kind of a proposal, by the upper bound of the random number.
_UNREADABLE, _DONE, _REWRITE, _LEAK, _DROP, _IDLE = 0.04, 0.06, 0.12, 0.20, 0.26, 0.46
_RIVAL: Final = 0.25
_NOTHING: Final = (
    "DONE. The prompt is as good as it can be.",
    "I would suggest to make the instructions clearer in general.",
)
_NEAR: Final = 0.3
_SAME_LETTERS: Final = 0.85


def refine(request: CompletionRequest, dice: Dice) -> str | None:
    """Return the response of a refiner, or None if the request is not for one."""
    schema = schema_of(request.response_format) or {}
    part = _PARTS.get(frozenset(table_of(schema.get("properties"))))
    if part is None:
        return None
    full_text = "\n\n".join(message.content for message in request.messages)
    texts = {match["name"]: match["text"] for match in _RE.text.finditer(full_text)}
    # Counts differ between runs and are not part of the task.
    check = _RE.counts.sub("", texts.get("check", ""))
    seed_text = "\x1f".join((texts.get("prompt", ""), check, "", texts.get("lessons", "")))
    reply = part(RefinerInputs(texts=texts, dice=dice.with_seed(seed_text)))
    return reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)


def _criticise(desk: RefinerInputs) -> JSON:
    advice = desk.advice or desk.read_check_line("what it looks at")
    near = desk.find_nearest(advice)
    shared = set(stems(near or "")) & set(stems(advice))
    if near is None or len(shared) < _NEAR * len(set(stems(advice))):
        reason = f"No line of the prompt asks for it: {advice}"
        return {"hypothesis": reason, "kind": "missing", "quotes": []}
    clash = _clash(near, advice)
    kind = "contradicted" if clash else "ambiguous"
    reason = "A line says something else on it." if clash else "A line on it is not plain enough."
    return {"hypothesis": reason, "kind": kind, "quotes": [near]}


def _propose(desk: RefinerInputs) -> JSON | str:  # noqa: PLR0911 - one line for each kind of edit
    dice = desk.dice
    sources = (*desk.inputs, *desk.remarks)
    orders = [match[0].strip() for text in sources for match in _RE.order.finditer(text)]
    if orders and dice.happens("obeys", 0.5):
        return _edit("Somebody asks for it.", _add_line(desk, f"- {orders[0]}"))
    throw = dice.throw("proposal")
    useful = _useful_edits(desk)
    if throw < _DONE:
        return _NOTHING[throw < _UNREADABLE]
    if throw < _REWRITE:
        return _rewrite(desk, useful)
    if throw < _LEAK and desk.inputs:  # a rule that leaks a case
        words = desk.inputs[dice.pick("leak", len(desk.inputs))].split()[:10]
        rule = f"- Mind inputs such as: {' '.join(words)}"
        return _edit("It helps with this one.", _add_line(desk, rule))
    if _LEAK <= throw < _DROP and desk.rules:  # a useful edit that also drops a rule
        dropped_rule = desk.rules[dice.pick("drop", len(desk.rules))]
        return _edit("Shorter is clearer.", _operation("delete", dropped_rule), *useful)
    if throw < _IDLE or not useful:
        return _edit("It sets the tone.", _add_line(desk, _FLUFF[dice.pick("fluff", len(_FLUFF))]))
    return _edit("It says what the check looks at.", *_apply_to_section(desk, useful))


def _useful_edits(desk: RefinerInputs) -> list[dict[str, JSON]]:
    """Return a helpful text: an earlier version's, else the advice instead of its rival."""
    places = json_list(desk.texts.get("earlier", ""))
    if places:
        shared = [len(desk.check_words & set(stems(json.dumps(place)))) for place in places]
        best = shared.index(max(shared))
        if not desk.dice.happens("place", 0.7):
            best = desk.dice.pick("place", len(places))
        if ops := _restore(places[best]):
            return ops
    description = desk.read_check_line("what it looks at")
    advice = desk.advice or (f"Make sure of this: {description}" if description else "")
    if not advice:
        return []
    new = advice if _RE.rule.match(advice) else f"- {advice}"
    garbled = next((rule for rule in desk.rules if _has_same_letters(rule, new)), None)
    near = garbled or desk.find_nearest(advice)
    words = set(stems(near or ""))
    # A rule that is about the requested subject, or against it.
    is_about = len(words & set(stems(advice))) >= _RIVAL * max(1, len(words))
    rival = near is not None and (garbled is not None or is_about or _clash(near, advice))
    if near is not None and rival and desk.dice.happens("rival", 0.6):
        return [_operation("replace", near, new)]
    return [_add_line(desk, new, below=near)]


def _restore(place: Mapping[str, Any]) -> list[dict[str, JSON]]:
    statement, below = place.get("it said"), str(place.get("below the line", ""))
    now: Any = place.get("the prompt says")
    text = "\n".join(map(str, statement)) if is_list(statement) else ""
    if is_list(now) and now:
        return [_operation("replace" if text else "delete", str(now[0]), text)]
    return [_operation("insert_after", below, text)] if below and text else []


def _rewrite(desk: RefinerInputs, useful: list[dict[str, JSON]]) -> str:
    """Return the rewritten prompt: with the useful edits, but without one overlooked rule."""
    lines = list(desk.lines)
    for op in useful:
        if op["op"] == "insert_after" and op["line"] in lines:
            lines.insert(lines.index(str(op["line"])) + 1, str(op["text"]))
    if desk.rules:
        dropped_rule = desk.rules[desk.dice.pick("overlooked", len(desk.rules))]
        if dropped_rule in lines:
            lines.remove(dropped_rule)
    return "\n".join(lines)


_PARTS: Final[Mapping[frozenset[str], Callable[[RefinerInputs], JSON | str]]] = {
    frozenset({"hypothesis", "kind", "quotes"}): _criticise,
    frozenset({"rationale", "ops"}): _propose,
}


def _clash(rule: str, advice: str) -> bool:
    """Return whether a rule has other numbers than the advice, or forbids it."""
    if _RE.number.findall(rule) != _RE.number.findall(advice):
        return True
    return bool(_RE.negated.search(rule)) != bool(_RE.negated.search(advice))


def _add_line(desk: RefinerInputs, rule: str, *, below: str | None = None) -> dict[str, JSON]:
    """Return the operation that adds a rule below another one, by default below the last."""
    own_lines = [
        line for line in desk.lines if line.strip() and "{{" not in line and "<" not in line
    ]
    line = below or (desk.rules[-1] if desk.rules else own_lines[-1] if own_lines else "")
    indent = line[: len(line) - len(line.lstrip())]
    return _operation("insert_after", line, indent + rule)


def _operation(op: str, line: JSON, text: str = "") -> dict[str, JSON]:
    return {"op": op, "line": line, "find": "", "text": text}


def _edit(rationale: str, *ops: Mapping[str, JSON]) -> JSON:
    return {"rationale": rationale, "ops": cast("JSON", list(ops[:3]))}


def _has_same_letters(line: str, other: str) -> bool:
    """Return whether two lines have nearly the same letters, in other words."""
    if set(stems(line)) & set(stems(other)):
        return False
    letters, other_letters = (Counter(re.sub(r"\W", "", text).casefold()) for text in (line, other))
    total = max(1, letters.total() + other_letters.total())
    return 2 * (letters & other_letters).total() >= _SAME_LETTERS * total
