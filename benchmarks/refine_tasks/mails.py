# ruff: noqa: E501 - a prompt and its faults, one to a line
"""Mails to a shop, sorted by examples: what a check watches is mostly one example."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from benchmarks.refine_tasks._written import Drop, Rule, Say, Swap, WrittenTask, rate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["TASK"]


def _example(mail: str, **fields: object) -> str:
    return f"Mail: {mail}\nAnswer: {json.dumps(fields, ensure_ascii=False)}"


_RETURN = ("The shoes from order 7715 are too small, can I send them back?", "return", 7715)
_BROKEN = ("The lamp in parcel 3120 arrived in pieces.", "damage", 3120)
_LATE = ("Where is order 9042? It was due on Monday.", "delivery", 9042)
_BILL = ("You charged me twice for order 5568.", "billing", 5568)
_CANCEL = ("Please stop order 6401, I ordered it by mistake.", "cancel", 6401)
_STOCK = ("Will the green kettle come back into stock?", "stock", None)
_PRAISE = ("Thanks, order 2277 was packed so nicely!", "praise", 2277)
_JOB = ("Do you have a summer job for a student?", "other", None)


def _of(row: tuple[str, str, int | None], **changed: object) -> str:
    mail, kind, order = row
    return _example(mail, **{"kind": kind, "order": order, "reply": kind != "praise"} | changed)


_FREE = [
    _of(_STOCK), _of(_PRAISE), _of(_JOB),
]  # fmt: skip
_WATCHED = [_of(_RETURN), _of(_BROKEN), _of(_LATE), _of(_BILL), _of(_CANCEL)]
TEXT = "\n\n".join(
    (
        "You sort the mails that an online shop receives. Another program reads what you write.",
        "Write one JSON object and nothing else.\nUse null for a key that the mail says nothing about.\nThe shop sells shoes, lamps and kitchen things.\nMails may be in German or in English.",
        _WATCHED[0], _FREE[0], _WATCHED[1], _FREE[1], _WATCHED[2], _WATCHED[3], _FREE[2], _WATCHED[4],
        "Give `order` as a number, never as a text.\nIf a mail has two matters, sort it by the first.\nA mail without text is sorted by its subject line.\nSpam is not answered.",
        "Mail: {{mail}}\nAnswer:",
    )
)  # fmt: skip


def _taught(mark: str, kind: str) -> Callable[[Rule, str, Sequence[str]], float]:
    """A kind is followed as the examples show it: those of its own words, right or wrong."""

    def rate(rule: Rule, prompt: str, units: Sequence[str]) -> float:
        del rule, units
        shown: list[bool] = []
        for mail, answer in re.findall(r"^Mail: (.*)\nAnswer: ?(.+)$", prompt, re.MULTILINE):
            if re.search(mark, mail):
                shown.append(f'"kind": "{kind}"' in answer and answer.lstrip().startswith("{"))
        if re.search(rf"^[^M{{\n]*\b{mark}\b.*`?{kind}`?", prompt, re.MULTILINE):
            shown.append(True)
        if not shown:
            return 0.35
        return 0.97 if all(shown) else 0.5 if any(shown) else 0.1

    return rate


def _numbers(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    """Examples teach the type of `order`, and the instruction says it."""
    found = rate_of(rule, units, r"\b(if possible|usually)\b")
    quoted = len(re.findall(r'"order": "', prompt))
    return min(found, 0.97 - 0.3 * min(quoted, 3))


def _objects(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    found = rate_of(rule, units, r"\b(if possible|usually)\b")
    prose = len(re.findall(r"^Answer: [^{\n]", prompt, re.MULTILINE))
    return min(found, 0.97 - 0.3 * min(prose, 3))


def _label(name: str, row: tuple[str, str, int | None], mark: str, wrong: str, other: tuple[str, str, int | None]) -> Rule:  # fmt: skip
    return Rule(
        name=name, line=_of(row), absent=0.35, reason=f"kind is not {row[1]!r}", rate=_taught(mark, row[1]),
        faults={
            "drop": Drop(),
            "wrong-example": Say(_of(row, kind=wrong), _of(row)),
            "swapped": Swap(json.dumps({"kind": row[1], "order": row[2], "reply": True}), json.dumps({"kind": other[1], "order": other[2], "reply": True})),
        },
    )  # fmt: skip


RULES = (
    Rule(
        name="object",
        line="Write one JSON object and nothing else.",
        needs=(r"\bJSON object\b", r"nothing else"),
        against=(r"(?:do not write|write no) JSON|in prose",),
        absent=0.45,
        reason="the answer is not one JSON object",
        advice="Write one JSON object and nothing else.",
        rate=_objects,
        faults={
            "drop": Drop(),
            "negate": Say("Write no JSON object, answer in prose and nothing else."),
            "format": Say(
                _example(_LATE[0]).replace("{}", "The mail is about the delivery of order 9042."),
                _of(_LATE),
            ),
            "soften": Say("If possible, write one JSON object and nothing else."),
        },
    ),
    _label("returns", _RETURN, r"send them back|sent? back|return", "damage", _BROKEN),
    _label("damage", _BROKEN, r"in pieces|broken|damage", "return", _LATE),
    _label("late", _LATE, r"was due|late|where is", "stock", _BILL),
    _label("billing", _BILL, r"charged|invoice|billing", "cancel", _CANCEL),
    _label("cancel", _CANCEL, r"stop order|cancel", "return", _RETURN),
    Rule(
        name="number",
        line="Give `order` as a number, never as a text.",
        needs=(r"`order`", r"as a number"),
        against=(r"never as a number|order` as a text",),
        absent=0.4,
        reason="`order` is not a number",
        advice="Give `order` as a number, never as a text.",
        rate=_numbers,
        faults={
            "drop": Drop(),
            "negate": Say("Give `order` as a text, never as a number."),
            "type": Say(_of(_BILL, order="5568"), _of(_BILL)),
        },
    ),
    Rule(
        name="null",
        line="Use null for a key that the mail says nothing about.",
        needs=(r"\bnull\b", r"says nothing about"),
        against=(r"never use null|guess a value",),
        absent=0.35,
        reason="a key that the mail says nothing about is not null",
        advice="Use null for a key that the mail says nothing about.",
        faults={
            "drop": Drop(),
            "negate": Say("Guess a value for a key that the mail says nothing about."),
            "soften": Say("Usually use null for a key that the mail says nothing about."),
        },
    ),
)

TASK = WrittenTask(
    name="mails",
    text=TEXT,
    rules=RULES,
    hedges=r"\b(if possible|usually|where it suits)\b",
    units=r"\n\s*\n|\n(?!Answer:)",
    closing=("Mail: {{mail}}",),
    golden=lambda number, _, token: (
        f'{{"kind": "return", "order": {4100 + 37 * number}, "reply": "{token}"}}'
    ),
    text_of=lambda case, _, token: f"mail {case} about parcel {token}",
)
