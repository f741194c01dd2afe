# ruff: noqa: E501 - a prompt and its faults, one to a line
"""Letters to a housing association, digested: paragraphs of prose that refer to each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.refine_tasks._written import Add, Drop, Rule, Say, WrittenTask, rate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["TASK"]

TEXT = """\
You read letters that tenants of a housing association send to its office. Colleagues at the desk use your digest while the caller is on the line. They know the houses and the people, so leave introductions out.

Begin the digest with the address of the flat. Write the digest in at most 60 words. Use whole sentences, since bullet points are hard to read out. Mention every date that the tenant names. Quote the tenant's own words where they describe damage. A letter may hold several matters; the first one counts as its subject.

Rate the urgency as described in the fourth paragraph. Put the rating on a line of its own that starts with "Urgency:". If a letter repeats an earlier one, rate it one level higher. The desk sorts its queue by this line every morning.

The urgency is high if water, gas or electricity is involved. The urgency is low if the tenant only asks for a document. Everything else is medium. Noise at night belongs to the caretaker and is never high. These levels were agreed with the tenants' council in spring.

Never promise that a repair will be paid for. Replace the names of neighbours by the word "neighbour". Say which trade is needed, such as plumber or painter. Thank nobody on behalf of the office. Letters in other languages are digested in English. Handwritten notes in the margin are part of the letter.

The letter: {{letter}}
"""

_WORDS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "sixth": 5}


def _by_reference(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    """It is followed if the paragraph that it names is the one that defines the levels."""
    rate = rate_of(rule, units, _HEDGES)
    named = re.search(r"urgency as described in the (\w+) paragraph", prompt)
    if named is None:
        return rate
    paragraphs = [one for one in prompt.split("\n\n") if one.strip()]
    place = _WORDS.get(named[1], 99)
    meant = paragraphs[place] if place < len(paragraphs) else ""
    return rate if re.search(r"urgency is (?:high|low) if", meant) else min(rate, 0.4)


def _beside(spoiler: str, partner: str) -> Callable[[Rule, str, Sequence[str]], float]:
    """It is spoilt by a sentence that does harm only where another one stands."""

    def rate(rule: Rule, prompt: str, units: Sequence[str]) -> float:
        found = rate_of(rule, units, _HEDGES)
        return min(found, 0.35) if spoiler in prompt and partner in prompt else found

    return rate


_HEDGES = r"\b(if possible|where it suits|perhaps|you may|try to|ideally)\b"
_PARTNER = "They know the houses and the people, so leave introductions out."
_SPOILER = "What the desk knows already is not repeated anywhere."
_PAID = "Never promise that a repair will be paid for."

RULES = (
    Rule(
        name="address",
        line="Begin the digest with the address of the flat.",
        needs=(r"begin the digest", r"address"),
        against=(r"(?:do not|never) begin|without the address",),
        absent=0.25,
        reason="the digest does not begin with the address",
        advice="Begin the digest with the address of the flat.",
        rate=_beside(_SPOILER, _PARTNER),
        faults={
            "drop": Drop(),
            "soften": Say("If possible, begin the digest with the address of the flat."),
            "negate": Say("Do not begin the digest with the address of the flat."),
            "interact": Add(_SPOILER, _PARTNER),
        },
    ),
    Rule(
        name="length",
        line="Write the digest in at most 60 words.",
        needs=(r"at most 60 words",),
        against=(r"at (?:most|least) (?!60\b)\d+ (?:words|sentences)|60 sentences",),
        absent=0.3,
        reason="the digest has more than 60 words",
        advice="Write the digest in at most 60 words.",
        faults={
            "drop": Drop(),
            "number": Say("Write the digest in at most 160 words."),
            "unit": Say("Write the digest in at most 60 sentences."),
            "soften": Say("Ideally, write the digest in at most 60 words."),
        },
    ),
    Rule(
        name="dates",
        line="Mention every date that the tenant names.",
        needs=(r"mention every date",),
        against=(r"mention no date|leave dates out",),
        absent=0.35,
        reason="a date that the tenant names is missing",
        advice="Mention every date that the tenant names.",
        faults={
            "drop": Drop(),
            "negate": Say("Mention no date that the tenant names."),
            "soften": Say("Perhaps mention every date that the tenant names."),
        },
    ),
    Rule(
        name="quotes",
        line="Quote the tenant's own words where they describe damage.",
        needs=(r"quote", r"own words"),
        against=(r"never quote|in your own words",),
        absent=0.2,
        reason="damage is not described in the tenant's own words",
        advice="Quote the tenant's own words where they describe damage.",
        faults={"drop": Drop(), "negate": Say("Describe damage in your own words.")},
    ),
    Rule(
        name="urgency",
        line="Rate the urgency as described in the fourth paragraph.",
        needs=(r"rate the urgency",),
        absent=0.2,
        reason="the urgency does not follow the agreed levels",
        advice="Rate the urgency as described in the fourth paragraph.",
        rate=_by_reference,
        faults={
            "drop": Drop(),
            "crossref": Say("Rate the urgency as described in the second paragraph."),
        },
    ),
    Rule(
        name="line",
        line='Put the rating on a line of its own that starts with "Urgency:".',
        needs=(r"line of its own", r"Urgency:"),
        against=(r"into the last sentence",),
        absent=0.15,
        reason='no line starts with "Urgency:"',
        advice='Put the rating on a line of its own that starts with "Urgency:".',
        faults={"drop": Drop(), "negate": Say("Put the rating into the last sentence.")},
    ),
    Rule(
        name="high",
        line="The urgency is high if water, gas or electricity is involved.",
        needs=(r"urgency is high if", r"water"),
        against=(r"urgency is low if water|high if the tenant only",),
        absent=0.3,
        reason="water, gas or electricity is not rated high",
        advice="The urgency is high if water, gas or electricity is involved.",
        faults={
            "drop": Drop(),
            "negate": Say("The urgency is low if water, gas or electricity is involved."),
        },
    ),
    Rule(
        name="paid",
        line=_PAID,
        needs=(r"never promise", r"paid"),
        against=(r"(?:^|\W)(?:always|feel free to) promise",),
        absent=0.4,
        reason="the digest promises that a repair will be paid for",
        advice=_PAID,
        faults={
            "drop": Drop(),
            "negate": Say("Always promise that a repair will be paid for."),
            "replaced": Say("Never promise anything in the digest's first line.", _PAID),
        },
    ),
    Rule(
        name="neighbours",
        line='Replace the names of neighbours by the word "neighbour".',
        needs=(r"replace", r"names of neighbours"),
        against=(r"keep the names of neighbours",),
        absent=0.2,
        reason="a neighbour is named",
        advice='Replace the names of neighbours by the word "neighbour".',
        faults={
            "drop": Drop(),
            "negate": Say("Keep the names of neighbours as they are."),
            "soften": Say('Try to replace the names of neighbours by the word "neighbour".'),
        },
    ),
    Rule(
        name="trade",
        line="Say which trade is needed, such as plumber or painter.",
        needs=(r"say which trade",),
        against=(r"(?:never|do not) say which trade",),
        absent=0.25,
        reason="the trade that is needed is missing",
        advice="Say which trade is needed, such as plumber or painter.",
        faults={
            "drop": Drop(),
            "negate": Say("Never say which trade is needed."),
            "soften": Say("You may say which trade is needed, such as plumber or painter."),
        },
    ),
)

TASK = WrittenTask(
    name="letters",
    text=TEXT,
    rules=RULES,
    hedges=_HEDGES,
    units=r"(?<=[.;])\s+|\n",
    closing=("The letter: {{letter}}",),
    golden=lambda number, _, token: (
        f"Lindenhof {number + 3}, flat {token[:4]}: plumber, Urgency: high"
    ),
    text_of=lambda case, _, token: f"letter {case} from flat {token}",
)
