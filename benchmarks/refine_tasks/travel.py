# ruff: noqa: E501 - a prompt and its faults, one to a line
"""A travel desk's agent: sections and tools in XML, with the tools described in the text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.refine_tasks._written import Add, Drop, Move, Rule, Say, Swap, WrittenTask, rate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["TASK"]

TEXT = """\
<role>
You are the assistant of a company's travel desk. You book for employees and never for guests.
Most requests come by chat and are short.
</role>

<tools>
  <tool name="find_trains">Lists trains between two cities. Arguments: from, to, date as YYYY-MM-DD.</tool>
  <tool name="find_hotels">Lists hotels in a city with prices per night. Arguments: city, nights.</tool>
  <tool name="hold_booking">Holds an offer for 24 hours without paying. Arguments: offer_id.</tool>
  <tool name="ask_manager">Asks the manager for consent. Arguments: reason, amount in euros.</tool>
  <tool name="list_offices">Lists the company's offices with their addresses. Arguments: country.</tool>
  <tool name="read_policy">Returns a chapter of the travel handbook. Arguments: chapter.</tool>
</tools>

<policy>
  <rule>Call ask_manager before any booking above 400 euros.</rule>
  <rule>Prefer trains to flights for trips below 500 kilometres.</rule>
  <rule>Breakfast is booked with the hotel where it is offered.</rule>
  <rule>Call one tool at a time and wait for its result.</rule>
  <rule>Hotels near an office are listed first.</rule>
  <rule>Never state a price that no tool has returned.</rule>
  <rule>Employees with a travel card pay the reduced fare.</rule>
</policy>

<background>
The desk is staffed on weekdays. Offices close between Christmas and New Year.
Most employees travel twice a month.
</background>

<output>
Answer with exactly one JSON object inside <action> tags.
Give `tool` and `arguments` as its only keys.
If a city is missing, use the tool "none" and ask one question in `arguments.question`.
Write dates as YYYY-MM-DD.
Times are local times of the place of departure.
Comments for the desk are welcome in `arguments.note`.
</output>

<request>{{request}}</request>
"""
_HEDGES = r"\b(if possible|where it suits|usually|try to|perhaps)\b"


def _inside(section: str) -> Callable[[Rule, str, Sequence[str]], float]:
    """It counts in full only between the tags of its section."""

    def rate(rule: Rule, prompt: str, units: Sequence[str]) -> float:
        found = rate_of(rule, units, _HEDGES)
        inner = re.search(rf"^<{section}>\n(.*?)^</{section}>", prompt, re.DOTALL | re.MULTILINE)
        held = re.split(r"\n|(?<=\.)\s", inner[1]) if inner else []
        return min(found, max(0.4, rate_of(rule, held, _HEDGES)) if found > 0.4 else found)

    return rate


def _described(name: str, mark: str) -> Callable[[Rule, str, Sequence[str]], float]:
    """A tool is used rightly if its own element describes it."""

    def rate(rule: Rule, prompt: str, units: Sequence[str]) -> float:
        del units
        tools = dict(re.findall(r'<tool name="(\w+)">(.*?)</tool>', prompt))
        if name not in tools:
            return rule.absent
        return (
            0.97 if all(re.search(p, tools[name], re.IGNORECASE) for p in mark.split("&")) else 0.2
        )

    return rate


_TRAINS = '<tool name="find_trains">Lists trains between two cities. Arguments: from, to, date as YYYY-MM-DD.</tool>'
_HOTELS = '<tool name="find_hotels">Lists hotels in a city with prices per night. Arguments: city, nights.</tool>'
_HOLD = '<tool name="hold_booking">Holds an offer for 24 hours without paying. Arguments: offer_id.</tool>'
_ASK = "<rule>Call ask_manager before any booking above 400 euros.</rule>"
_RAIL = "<rule>Prefer trains to flights for trips below 500 kilometres.</rule>"
_SINGLE = "<rule>Call one tool at a time and wait for its result.</rule>"
_PRICE = "<rule>Never state a price that no tool has returned.</rule>"
_JSON = "Answer with exactly one JSON object inside <action> tags."
_KEYS = "Give `tool` and `arguments` as its only keys."
_CITY = 'If a city is missing, use the tool "none" and ask one question in `arguments.question`.'
_SPOILER = "Anything the desk may want to know belongs next to `tool` as a key of its own."

RULES = (
    Rule(
        name="trains",
        line=_TRAINS,
        absent=0.25,
        reason="find_trains was not called as described",
        rate=_described("find_trains", r"trains between&from, to, date"),
        faults={
            "drop": Drop(),
            "swapped": Swap(
                "Lists trains between two cities. Arguments: from, to, date as YYYY-MM-DD.",
                "Lists hotels in a city with prices per night. Arguments: city, nights.",
            ),
            "renamed": Say(_TRAINS.replace("from, to, date", "origin, target, day")),
        },
    ),
    Rule(
        name="hotels",
        line=_HOTELS,
        absent=0.25,
        reason="find_hotels was not called as described",
        rate=_described("find_hotels", r"hotels in a city&city, nights"),
        faults={"drop": Drop(), "renamed": Say(_HOTELS.replace("city, nights", "place, days"))},
    ),
    Rule(
        name="hold",
        line=_HOLD,
        absent=0.3,
        reason="hold_booking was not called as described",
        rate=_described("hold_booking", r"without paying&offer_id"),
        faults={
            "drop": Drop(),
            "negate": Say(
                _HOLD.replace(
                    "Holds an offer for 24 hours without paying", "Pays for an offer at once"
                )
            ),
        },
    ),
    Rule(
        name="consent",
        line=_ASK,
        needs=(r"ask_manager", r"above 400 euros"),
        against=(r"without ask_manager|above (?!400)\d+ euros",),
        absent=0.2,
        reason="a booking above 400 euros was made without consent",
        advice="Call ask_manager before any booking above 400 euros.",
        rate=_inside("policy"),
        faults={
            "drop": Drop(),
            "number": Say(_ASK.replace("400", "4000")),
            "move": Move("Most employees travel twice a month."),
            "soften": Say(_ASK.replace("Call", "Perhaps call")),
        },
    ),
    Rule(
        name="rail",
        line=_RAIL,
        needs=(r"prefer trains", r"500 kilomet"),
        against=(r"prefer flights|below (?!500)\d+ kilomet",),
        absent=0.35,
        reason="a flight was chosen for a short trip",
        advice="Prefer trains to flights for trips below 500 kilometres.",
        rate=_inside("policy"),
        faults={
            "drop": Drop(),
            "negate": Say("<rule>Prefer flights to trains for trips below 500 kilometres.</rule>"),
            "number": Say(_RAIL.replace("500", "50")),
        },
    ),
    Rule(
        name="single",
        line=_SINGLE,
        needs=(r"one tool at a time",),
        against=(r"several tools at (?:a time|once)",),
        absent=0.3,
        reason="several tools were called at once",
        advice="Call one tool at a time and wait for its result.",
        rate=_inside("policy"),
        faults={
            "drop": Drop(),
            "negate": Say("<rule>Call several tools at a time to save waiting.</rule>"),
            "soften": Say(_SINGLE.replace("Call", "Try to call")),
        },
    ),
    Rule(
        name="price",
        line=_PRICE,
        needs=(r"never state a price",),
        against=(r"(?:estimate|guess) a price",),
        absent=0.25,
        reason="a price was stated that no tool returned",
        advice="Never state a price that no tool has returned.",
        rate=_inside("policy"),
        faults={
            "drop": Drop(),
            "negate": Say("<rule>Estimate a price if no tool has returned one.</rule>"),
            "move": Move("Most requests come by chat and are short."),
        },
    ),
    Rule(
        name="json",
        line=_JSON,
        needs=(r"one JSON object", r"<action>"),
        against=(r"(?:no|without) JSON|in plain words",),
        absent=0.2,
        reason="the answer is not one JSON object inside <action> tags",
        advice=_JSON,
        rate=_inside("output"),
        faults={
            "drop": Drop(),
            "negate": Say("Answer in plain words inside <action> tags."),
            "tag": Say("</background>\n\n", "</background>\n\n<output>\n"),
        },
    ),
    Rule(
        name="keys",
        line=_KEYS,
        needs=(r"`tool`", r"`arguments`", r"only keys"),
        against=(r"any keys you like",),
        absent=0.3,
        reason="the object has other keys than `tool` and `arguments`",
        advice=_KEYS,
        rate=lambda rule, prompt, units: min(
            rate_of(rule, units, _HEDGES),
            0.35 if _SPOILER in prompt and "`arguments.note`" in prompt else 1.0,
        ),
        faults={
            "drop": Drop(),
            "renamed": Say("Give `call` and `arguments` as its only keys."),
            "interact": Add(_SPOILER, "Times are local times of the place of departure."),
        },
    ),
    Rule(
        name="question",
        line=_CITY,
        needs=(r"city is missing", r"`arguments\.question`"),
        against=(r"guess (?:it|the city)",),
        absent=0.15,
        reason="a missing city was not asked for",
        advice=_CITY,
        rate=_inside("output"),
        faults={
            "drop": Drop(),
            "negate": Say("If a city is missing, guess it from the context."),
            "soften": Say(
                'If a city is missing, usually use the tool "none" and ask one question in `arguments.question`.'
            ),
        },
    ),
)

TASK = WrittenTask(
    name="travel",
    text=TEXT,
    rules=RULES,
    hedges=_HEDGES,
    units=r"\n|(?<=\.)\s(?![Aa]rguments)",
    closing=("<request>{{request}}</request>",),
    golden=lambda number, _, token: (
        f'<action>{{"tool": "hold_booking", "arguments": {{"offer_id": "{token}-{number}"}}}}</action>'
    ),
    text_of=lambda case, _, token: f"request {case} of employee {token}",
)
