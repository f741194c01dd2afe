"""The part of a judge: replies to prompts that ask for a verdict, in the shape of their schema.

The replies keep to the schema, as those of endpoints that constrain decoding do; what errs is the
judgement. The rules are published in docs/simulated-model.md.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from regauge.sim.asked import schema_of
from regauge.sim.document import nearest, statements_of, supported
from regauge.sim.judging._lists import Ruling, entries, rulings, steps
from regauge.sim.judging._pairs import renamed, winner
from regauge.sim.judging._reading import Sheet, listed, read_sheet, text_of
from regauge.sim.judging._schema import choose, fill, graded, spread
from regauge.sim.judging._score import CARRIED, Grade, grade, sway
from regauge.sim.text import is_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.providers import CompletionRequest
    from regauge.sim._rules import Dice

__all__ = ["judge"]

_SPEAKS: Final = re.compile(
    r"\b(?:judg\w*|compar\w*|evaluat\w*|assess\w*|verdicts?|criteria|rubric|grade|rate|score|claims?|truths?"
    r"|statements?|opinions?|contradict\w*|support\w*|determin\w*|extract\w*|identify|instructions"
    r"|reason|closed-ended)\b",
    re.IGNORECASE,
)
_DISTINCT: Final = frozenset(
    """verdict verdicts choice score winner claims truths statements opinions questions answers
    answer steps extracted_pii advices misuses role_violations qa_pairs intentions rewritten_reason
    reason task outcome plan output data supported""".split()  # noqa: SIM905 - it reads as a list
)
_AROUND: Final = frozenset(
    """reasoning reason explanation rationale evidence quote""".split()  # noqa: SIM905 - it reads as a list
)
_LISTS: Final = frozenset(
    """claims truths statements opinions questions extracted_pii advices misuses
    role_violations intentions plan""".split()  # noqa: SIM905 - it reads as a list
)
_REASONS: Final = frozenset({"reason", "reasoning", "explanation", "rationale"})
_VERDICTS: Final = frozenset({"verdict", "verdicts", "score", "winner", "choice"})
_FORGETS: Final = re.compile(r"\bforget(?:s|ting)?\b", re.IGNORECASE)
_TOPIC: Final = frozenset({"TP", "TN", "FP", "FN"})
_TURN: Final = re.compile(
    r"^(?P<who>user|assistant)[\"']?:[ \t]*(?P<said>.+)$", re.IGNORECASE | re.MULTILINE
)
_SILENT: Final = re.compile(r"\bnot (?:stated|mentioned|found|given)\b", re.IGNORECASE)
_STATED: Final = re.compile(r"^What does the source state as ", re.IGNORECASE)
_ASKED: Final = re.compile(r"^What does the source (?:say of this:|state as) ", re.IGNORECASE)
_ANSWERS: Final = 0.3
_EDGE_CHARS: Final = 8_000
_SHORT: Final = 3


def _speaks(schema: Mapping[str, Any], text: str) -> bool:
    """Whether an object of this schema is a verdict, or a step on the way to one."""
    properties: Any = schema.get("properties")
    names = set(properties) if is_object(properties) else set[str]()
    if not names & _DISTINCT or not names <= _DISTINCT | _AROUND:
        return False
    reasoned = bool(names & _VERDICTS) and bool(names & _REASONS)
    return reasoned or _SPEAKS.search(text) is not None


def judge(request: CompletionRequest, dice: Dice) -> str | None:
    """The reply to a judging prompt, or None when it is none."""
    schema = schema_of(request.response_format)
    text = text_of(request.messages)
    if schema is None or not _speaks(schema, text):
        return None
    sheet = read_sheet(request.messages)
    told = " ".join("\x1f".join((sheet.judged, sheet.ground, sheet.text("items"))).split())
    identity = hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=12).hexdigest()
    bench = _Bench(sheet=sheet, dice=replace(dice, document=identity), text=text)
    return json.dumps(fill(schema, schema, "", bench.say), ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class _Bench:
    """One judgement; what several fields of the reply rest on is worked out once."""

    sheet: Sheet
    dice: Dice
    text: str

    @cached_property
    def edges(self) -> str:
        """Where a prompt says how to answer: its beginning and its end."""
        return (
            self.text
            if len(self.text) < 2 * _EDGE_CHARS
            else (f"{self.text[:_EDGE_CHARS]}\n{self.text[-_EDGE_CHARS:]}")
        )

    @cached_property
    def grade(self) -> Grade:
        """How good the judged text is."""
        return grade(self.sheet, self.dice)

    @cached_property
    def decision(self) -> tuple[float, str]:
        """A single verdict from 0 to 1, and why."""
        sheet = self.sheet
        if _FORGETS.search(self.text) and sheet.text("source"):
            finding = supported(sheet.text("answer"), sheet.text("source"))
            return float(finding.contradicted), "It was held against what is known."
        item = " ".join(listed(sheet.text("items")))
        if item and sheet.text("source", "answer"):
            finding = supported(item, sheet.text("source", "answer"))
            score = finding.score + sway(self.dice, "claim") / 2
            if finding.contradicted:
                return min(score, 0.2), f"It says otherwise: {finding.passage[:120]!r}."
            lacking = ", ".join(finding.missing[:_SHORT]) or "most of it"
            told = f"It says: {finding.passage[:120]!r}."
            return score, told if score >= CARRIED else f"There is no word of {lacking}."
        return self.grade.score, self._why()

    def _why(self) -> str:
        found = self.grade
        looked = ", ".join(found.looked_at)
        return f"Looked at {looked}. " + (" ".join(found.remarks[:_SHORT]) or "Nothing is amiss.")

    @cached_property
    def rulings(self) -> list[Ruling]:
        """A verdict for each entry."""
        head = self.text[: self.text.find("Example")] if "Example" in self.text else self.text
        return rulings(self.sheet, self.dice, head)

    def say(self, name: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0911, PLR0912 - one line for each field that judges are asked for
        """What stands in one field, or None where its schema alone says."""
        sheet = self.sheet
        options = [o for o in spread(schema, root) if isinstance(o, str)]
        match name:
            case "score":
                return graded(schema, root, self.grade.score, self.edges)
            case "verdict" | "choice" | "supported":
                if frozenset(options) == _TOPIC:
                    return self._topic()
                return choose(schema, root, self.decision[0], self.edges)
            case "verdicts":
                return self._verdicts(schema, root)
            case "winner":
                return winner(sheet, self.dice, options)[0]
            case "rewritten_reason":
                return renamed(sheet)
            case "steps":
                return steps(sheet)
            case "answers":
                text = sheet.text("text", "source", "answer")
                found = [supported(q, text).score for q in listed(sheet.text("items"))]
                return ["yes" if score >= CARRIED else "no" for score in found]
            case "answer" | "quote":
                return self._answer() or ("not stated" if name == "answer" else "")
            case "qa_pairs":
                return self._pairs()
            case "data":
                said = statements_of(sheet.text("input"))
                return {f"Fact {i}": fact for i, fact in enumerate(said, start=1)} or None
            case "task" | "outcome" | "output":
                text = sheet.text("input" if name == "task" else "answer") or sheet.judged
                return " ".join(statements_of(text or sheet.ground)[:_SHORT]) or None
            case _ if name in _LISTS:
                return entries(name, sheet)
            case _ if name in _REASONS:
                return self._reason(root)
            case _:
                return None

    def _reason(self, root: Mapping[str, Any]) -> str:
        asked = set(root.get("properties", ()))
        if "winner" in asked:
            names = [o for o in spread(root["properties"]["winner"], root) if isinstance(o, str)]
            return winner(self.sheet, self.dice, names)[1]
        if asked & {"verdict", "choice", "supported"}:
            return self.decision[1]
        if "score" in asked:
            return self._why()
        said = listed(self.sheet.text("findings"))
        score = self.sheet.text("score").split("\n")[0]
        because = (
            "; ".join(reason.rstrip(".") for reason in said[:_SHORT]) or "nothing speaks against it"
        )
        return f"The score is {score or 'as it is'} because {because}."

    def _answer(self) -> str:
        """What the source says to a question, in its own words; empty where it says nothing."""
        asked = self.sheet.text("question", "items")
        topic = _ASKED.sub("", asked).rstrip("?")
        finding = supported(topic, self.sheet.ground)
        passage = nearest(topic, self.sheet.ground) if _STATED.search(asked) else finding.passage
        return passage if _STATED.search(asked) or finding.score >= _ANSWERS else ""

    def _topic(self) -> str:
        sheet = self.sheet
        question, reply = sheet.text("question"), sheet.text("answer")
        on_topic = supported(question, sheet.text("topics")).score > 0
        refused = re.search(r"\b(?:cannot|can't|unable|sorry)\b", reply, re.IGNORECASE) is not None
        return {(True, False): "TP", (True, True): "FN", (False, False): "FP"}.get(
            (on_topic, refused), "TN"
        )

    def _pairs(self) -> list[dict[str, str]]:
        turns = [(m["who"].lower(), m["said"]) for m in _TURN.finditer(self.sheet.text("talk"))]
        return [
            {"question": said, "response": turns[i + 1][1]}
            for i, (who, said) in enumerate(turns[:-1])
            if who == "user" and turns[i + 1][0] == "assistant"
        ]

    def _verdicts(self, schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
        entry: Any = schema.get("items") or {}
        if "score" in entry.get("properties", {}):  # of several criteria, one grade serves all
            return [
                fill(entry, root, "", partial(self._mark, number))
                for number in range(1, int(schema.get("minItems", 1)) + 1)
            ]
        return [
            fill(entry, root, "", partial(self._rule, ruling, number))
            for number, ruling in enumerate(self.rulings, start=1)
        ]

    def _mark(
        self, number: int, name: str, schema: Mapping[str, Any], root: Mapping[str, Any]
    ) -> Any:
        """What stands in one field of the verdict on one criterion."""
        if name in _REASONS:
            return self._why()
        return number if name == "number" else self.say(name, schema, root)

    def _rule(
        self, ruling: Ruling, number: int, name: str, schema: Mapping[str, Any],
        root: Mapping[str, Any],
    ) -> Any:  # fmt: skip
        """What stands in one field of the verdict on one entry."""
        match name:
            case "verdict" | "supported":
                silent = [o for o in spread(schema, root) if _SILENT.search(str(o))]
                if ruling.borderline and silent:
                    return silent[0]
                doubt = 0.5 if ruling.borderline and "borderline" in self.edges else ruling.score
                return choose(schema, root, doubt, self.edges)
            case "statement" | "claim" | "expected_output" | "entry":
                return ruling.entry
            case "number" | "index":
                return number
            case _:
                return ruling.reason if name in _REASONS else None
