"""What lies before a refiner: the texts of its request, and what can be read in them."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.sim.text import is_list, is_object, stems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.sim._rules import Dice

__all__ = ["RULE", "Desk", "json_list"]

_NUMBERED: Final = re.compile(r"^\s*\d+\| ?", re.MULTILINE)
RULE: Final = re.compile(r"\s*(?:[-*+•]|\d+[.)])\s+\S")


@dataclass(frozen=True)
class Desk:
    """What lies before the refiner."""

    texts: Mapping[str, str]
    dice: Dice

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the prompt, without numbers and roles."""
        text = re.sub(
            r"^\[(?:system|developer|user|assistant)\]\n",
            "",
            self.texts.get("prompt", ""),
            flags=re.MULTILINE,
        )
        return [_NUMBERED.sub("", line, count=1) for line in text.split("\n")]

    @cached_property
    def rules(self) -> list[str]:
        """Those that are rules, each once."""
        counted = Counter(self.lines)
        return [line for line in self.lines if RULE.match(line) and counted[line] == 1]

    def check(self, key: str) -> str:
        """A line of what is said of the check."""
        found = re.search(rf"^{re.escape(key)}: (.*)$", self.texts.get("check", ""), re.MULTILINE)
        return found[1].strip() if found else ""

    @cached_property
    def about(self) -> frozenset[str]:
        """The words of the check."""
        keys = ("name", "what it looks at", "what a prompt should say for it")
        return frozenset(stems(" ".join(self.check(key).replace("_", " ") for key in keys)))

    @cached_property
    def inputs(self) -> list[str]:
        """The inputs of failing cases, as texts."""
        return [
            str(value)
            for case in json_list(self.texts.get("failing") or self.texts.get("cases", ""))
            for value in _values(case.get("inputs", case))
        ]

    @cached_property
    def people(self) -> list[str]:
        """What people said of answers."""
        return [str(one.get("says", "")) for one in json_list(self.texts.get("people", ""))]

    @property
    def advice(self) -> str:
        """What its author says a prompt should say for the check."""
        return self.check("what a prompt should say for it")

    def near(self, text: str) -> str | None:
        """The rule that shares most words with a text; None where none shares any."""
        words = set(stems(text))
        ranked = [(len(words & set(stems(rule))), -n, rule) for n, rule in enumerate(self.rules)]
        best = max(ranked, default=(0, 0, ""))
        return best[2] if best[0] else None


def json_list(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [entry for entry in found if is_object(entry)] if is_list(found) else []


def _values(given: object) -> list[object]:
    return list(cast("dict[str, object]", given).values()) if isinstance(given, dict) else []
