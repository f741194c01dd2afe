"""The refiner's proposals of a whole section, where a prompt's author allows that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from regauge.sim.refining._desk import RULE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.digests import JSON
    from regauge.sim._rules import Dice

__all__ = ["section_anew"]

_ROLE: Final = re.compile(r"^\[(system|developer|user|assistant)\]\n", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^\s*\d+\| ?")
_PLACE: Final = re.compile(r"lines (\d+) to (\d+)")
_FORGETS: Final = 0.3


def section_anew(
    prompt: str,
    sections: Sequence[Mapping[str, Any]],
    useful: Sequence[Mapping[str, JSON]],
    dice: Dice,
) -> dict[str, JSON]:
    """The operation that replaces a section, with what would help in it.

    It is the section that the useful edits are about, else any. At times a rule is forgotten.

    Args:
        prompt: As the refiner is shown it, its lines numbered.
        sections: Those that may be replaced; at least one.
        useful: Operations on single lines.
        dice: For this proposal.
    """
    texts = [_lines(prompt, str(one.get("message")), str(one.get("its text"))) for one in sections]
    homes = [number for number, lines in enumerate(texts) if useful[0]["line"] in lines]
    home = homes[0] if homes else dice.pick("section", len(sections))
    lines = texts[home]
    rules = [line for line in lines if RULE.match(line)]
    if len(rules) > 1 and dice.throw("forgets") < _FORGETS:
        lines.remove(rules[dice.pick("forgets", len(rules))])
    for op in useful:
        line, text = str(op["line"]), str(op["text"])
        if line not in lines:
            lines.append(text)
        elif op["op"] == "insert_after":
            lines.insert(lines.index(line) + 1, text)
        else:
            lines[lines.index(line)] = text
    whole = "\n".join(line for line in lines if line.strip())
    return {"op": "replace_section", "line": sections[home].get("line"), "find": "", "text": whole}


def _lines(prompt: str, role: str, place: str) -> list[str]:
    """The lines of a section; none where it is not there."""
    parts = _ROLE.split(prompt)
    blocks = [text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == role]
    found = _PLACE.fullmatch(place)
    if found is None or not blocks:
        return []
    lines = [_NUMBERED.sub("", line, count=1) for line in blocks[0].rstrip("\n").split("\n")]
    return lines[int(found[1]) - 1 : int(found[2])]
