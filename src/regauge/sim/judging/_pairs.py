"""Which of several texts is the best, with the weakness of judges for the one they saw first."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from regauge.sim.judging._score import grade
from regauge.sim.text import is_object

if TYPE_CHECKING:
    from regauge.sim._rules import Dice
    from regauge.sim.judging._reading import Sheet

__all__ = ["compared", "renamed", "winner"]

_POSITION_BIAS: Final = 0.03
_TIE: Final = 0.02
_NAMED: Final = re.compile(r"\$(?P<name>[^$\n]{1,60})\$")
_MAPPING: Final = re.compile(r"[\"']?(?P<from>[\w .-]+)[\"']?\s*[:=]\s*[\"']?(?P<to>[\w .-]+)")


def compared(sheet: Sheet, dice: Dice) -> tuple[float, float]:
    """The scores of the first and of the second text; the first gets a little more."""
    scores = [
        grade(
            replace(sheet, parts={**sheet.parts, "answer": sheet.text(which)}),
            replace(dice, document=f"{dice.document} {which}"),
        ).score
        for which in ("first", "second")
    ]
    return scores[0] + _POSITION_BIAS, scores[1]


def _contestants(sheet: Sheet) -> dict[str, str]:
    text = sheet.text("contestants")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if is_object(value):
        # The contestants may stand inside, next to what they were asked.
        value = next((part for part in value.values() if is_object(part)), value)
        return {str(name): str(told) for name, told in value.items()}
    return {m[1]: m[2] for m in re.finditer(r"[\"'](\w+)[\"']: (.*)", text)}


def winner(sheet: Sheet, dice: Dice, options: list[str]) -> tuple[str, str]:
    """The name of the best text, and why."""
    if sheet.text("first") and sheet.text("second"):
        one, other = compared(sheet, dice)
        ties = [o for o in options if o.lower() in ("tie", "draw", "equal", "both", "neither")]
        if ties and abs(one - other) < _TIE:
            return ties[0], "Neither of the two is better by what was asked."
        sides = [o for o in options if o not in ties] or ["a", "b"]
        best = sides[0] if one >= other else sides[1]
        return best, f"{best} does better by what was asked."
    names = _contestants(sheet)
    if not names:
        name = options[0] if options else "A"
        return name, "It does best by what was asked."
    ranked = sorted(
        names,
        key=lambda name: (
            -grade(
                replace(sheet, parts={**sheet.parts, "answer": names[name]}),
                replace(dice, document=f"{dice.document} {names[name]}"),
            ).score
            - _POSITION_BIAS * (name == next(iter(names)))
        ),
    )
    rest = ", ".join(f"${name}$" for name in ranked[1:])
    return ranked[0], f"${ranked[0]}$ follows the evaluation steps further than {rest or 'any'}."


def renamed(sheet: Sheet) -> str:
    """A reason with the dummy names of its contestants put back to their own."""
    names = {m["from"].strip(): m["to"].strip() for m in _MAPPING.finditer(sheet.text("mapping"))}
    return _NAMED.sub(lambda m: names.get(m["name"], m["name"]), sheet.text("findings"))
