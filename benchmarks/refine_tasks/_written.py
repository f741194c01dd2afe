"""Simulated tasks whose prompt is written as a whole, in any layout and language.

Every check watches one statement: a sentence, a step, an example, an element. As many statements
are watched by no check. A fault is what a person does to a text, and can be undone.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Protocol

from benchmarks.refine_tasks._simulated import FLUFF, SimulatedTask, leaked
from benchmarks.refine_tasks._statements import statements

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.refine_tasks._simulated import Case, Proposals

__all__ = ["Add", "Drop", "Move", "Rule", "Say", "Swap", "WrittenTask"]

_FOLLOWED, _HEDGED, _BOTH, _FLOUTED = 0.97, 0.55, 0.5, 0.08
_IN_PLACE = 0.8
_STEP = re.compile(r"^(\d+)(?=[.)、]\s*)", re.MULTILINE)


class Fault(Protocol):
    """What a person does to the statement `line` of a text."""

    def done(self, text: str, line: str, task: WrittenTask) -> str: ...
    def undone(self, text: str, line: str, task: WrittenTask) -> str: ...


@dataclass(frozen=True, slots=True)
class Say:
    """Put other words in its place: softened, negated, another number, another example."""

    new: str
    old: str = ""

    def done(self, text: str, line: str, task: WrittenTask) -> str:
        del task
        return text.replace(self.old or line, self.new, 1)

    def undone(self, text: str, line: str, task: WrittenTask) -> str:
        del task
        return text.replace(self.new, self.old or line, 1)


@dataclass(frozen=True, slots=True)
class Drop:
    """Leave it out; what was numbered is renumbered."""

    def done(self, text: str, line: str, task: WrittenTask) -> str:
        return task.without(text, line)

    def undone(self, text: str, line: str, task: WrittenTask) -> str:
        return text if line in text else task.restored(text, line)


@dataclass(frozen=True, slots=True)
class Move:
    """Put it right behind another statement."""

    behind: str

    def done(self, text: str, line: str, task: WrittenTask) -> str:
        return task.placed(task.without(text, line), line, self.behind)

    def undone(self, text: str, line: str, task: WrittenTask) -> str:
        return task.restored(task.without(text, line), line) if line in text else text


@dataclass(frozen=True, slots=True)
class Swap:
    """Exchange two texts, each of which stands once."""

    one: str
    other: str

    def done(self, text: str, line: str, task: WrittenTask) -> str:
        del line, task
        return text.replace(self.one, "\0").replace(self.other, self.one).replace("\0", self.other)

    def undone(self, text: str, line: str, task: WrittenTask) -> str:
        healthy = task.healthy_prompt()
        usual = healthy.index(self.one) < healthy.index(self.other)
        both = self.one in text and self.other in text
        swapped = both and (text.index(self.one) < text.index(self.other)) != usual
        return self.done(text, line, task) if swapped else text


@dataclass(frozen=True, slots=True)
class Add:
    """Add a statement that spoils it."""

    new: str
    behind: str

    def done(self, text: str, line: str, task: WrittenTask) -> str:
        del line
        return task.placed(text, self.new, self.behind)

    def undone(self, text: str, line: str, task: WrittenTask) -> str:
        del line
        return task.without(text, self.new) if self.new in text else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A watched statement.

    Attributes:
        line: The statement as the healthy prompt words it, without its number or bullet.
        needs: Patterns that one unit of a text must match to say it.
        against: Patterns of which any says the contrary.
        rate: How well a text asks for it, where that is more than a matter of one unit.
        advice: What the check's author says in words; "" where an example alone teaches it.
    """

    name: str
    line: str
    absent: float
    reason: str
    faults: Mapping[str, Fault]
    needs: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    rate: Callable[[Rule, str, Sequence[str]], float] | None = None
    advice: str = ""
    section: str = ""


def rate_of(rule: Rule, units: Sequence[str], hedges: str) -> float:
    """How well some units of a text ask for what a rule says."""
    against = [u for u in units if any(re.search(p, u, re.IGNORECASE) for p in rule.against)]
    saying = [
        u
        for u in units
        if u not in against and all(re.search(p, u, re.IGNORECASE) for p in rule.needs)
    ]
    if not saying:
        return _FLOUTED if against else rule.absent
    if against:
        return _BOTH
    return _FOLLOWED if any(not re.search(hedges, u, re.IGNORECASE) for u in saying) else _HEDGED


@dataclass(kw_only=True)
class WrittenTask(SimulatedTask):
    """A family whose healthy prompt is given as a text.

    Attributes:
        text: The healthy prompt.
        rules: Its watched statements.
        hedges: Words that make an instruction one that may be left out.
        refers: How the text refers to a number of its own: what stands before the number.
    """

    text: str
    rules: tuple[Rule, ...]
    hedges: str
    refers: str = r"(?!)"
    fluff: tuple[str, ...] = FLUFF
    requirements: tuple[Rule, ...] = ()  # type: ignore[assignment]
    sections: tuple[str, ...] = ()
    opening: tuple[str, ...] = ()
    units: str = r"\n"
    _said: dict[str, dict[str, tuple[float, frozenset[str] | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.requirements = self.rules
        super().__post_init__()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind of fault that some rule can have."""
        return tuple(dict.fromkeys(kind for rule in self.rules for kind in rule.faults))

    def healthy_prompt(self) -> str:
        return self.text

    def advice(self, name: str) -> str:
        return self._by[name].advice

    def statements(self, text: str) -> Counter[str]:
        return statements(text)

    def watched(self, name: str) -> str:
        return self._by[name].line

    def seed_fault(
        self, kind: str, name: str, rng: random.Random, prompt: str | None = None
    ) -> str:
        """The prompt with one fault; a kind that a rule cannot have is one of its own instead."""
        rule = self._by[name]
        fault = rule.faults.get(kind) or rule.faults[rng.choice(sorted(rule.faults))]
        return fault.done(self.text if prompt is None else prompt, rule.line, self)

    def seed_faults(self, faults: Sequence[tuple[str, str]], rng: random.Random) -> str:
        """The prompt with several faults, one after the other."""
        prompt = self.text
        for kind, name in faults:
            prompt = self.seed_fault(kind, name, rng, prompt)
        return prompt

    @property
    def faults(self) -> tuple[tuple[str, str], ...]:
        """Every kind of fault with the rule that can have it; neighbours differ in their rule."""
        most = max(len(rule.faults) for rule in self.rules)
        return tuple(
            (list(rule.faults)[n], rule.name)
            for n in range(most)
            for rule in self.rules
            if n < len(rule.faults)
        )

    def said(self, prompt: str) -> dict[str, tuple[float, frozenset[str] | None]]:
        if prompt not in self._said:
            units = [unit.strip() for unit in re.split(self.units, prompt) if unit.strip()]
            self._said[prompt] = {
                rule.name: (
                    rule.rate(rule, prompt, units)
                    if rule.rate is not None
                    else rate_of(rule, units, self.hedges),
                    None,
                )
                for rule in self.rules
            }
        return self._said[prompt]

    def proposal(
        self, prompt: str, shown: Mapping[str, Case], failing: str, how: Proposals, seed: int
    ) -> str:
        """What the simulated reflection model makes of a prompt."""
        rng = random.Random(seed)
        if how.neutral:
            return self._at_end(prompt, rng.choice(self.fluff))
        if rng.random() < how.p_fix:
            prompt = self._fixed(prompt, self._by[failing], rng)
        if shown and rng.random() < how.p_leak:
            case = shown[rng.choice(sorted(shown))]
            prompt = self._at_end(prompt, leaked(case, how.leak, rng))
        if rng.random() < how.p_fluff:
            for _ in range(rng.choice([1, 2])):
                prompt = self._at_end(prompt, rng.choice(self.fluff))
        if rng.random() < how.p_drop:
            held = [one for one in self.all_statements if one in prompt]
            if held:
                prompt = self.without(prompt, rng.choice(held))
        return prompt

    @property
    def all_statements(self) -> tuple[str, ...]:
        """The healthy prompt's, as they are worded."""
        units = (unit.strip() for unit in re.split(self.units, self.text))
        held = (re.sub(r"^(?:[-*・]|\d+[.)、])\s*", "", unit) for unit in units)
        return tuple(one for one in held if len(one) > 8 and "{{" not in one)

    def _fixed(self, prompt: str, rule: Rule, rng: random.Random) -> str:
        texts = {fault.undone(prompt, rule.line, self) for fault in rule.faults.values()}
        best = max(sorted(texts), key=lambda text: (self._total(text), -len(text)))
        helps = self.said(best)[rule.name][0] > self.said(prompt)[rule.name][0]
        if helps and (rng.random() < _IN_PLACE or not rule.advice):
            return best
        if rule.advice and rule.line not in prompt:
            return self._at_end(prompt, rule.advice)
        return prompt

    def _total(self, text: str) -> float:
        return round(sum(rate for rate, _ in self.said(text).values()), 6)

    def _at_end(self, prompt: str, line: str) -> str:
        return prompt.replace(self.closing[0], f"{line}\n{self.closing[0]}", 1)

    def without(self, text: str, line: str) -> str:
        """A text without a statement: its line, where it has one of its own."""
        start = text.find(line)
        if start < 0:
            return text
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", start + len(line))
        last = len(text) if last < 0 else last
        if re.fullmatch(r"\s*(?:[-*・]|\d+[.)、])?\s*", text[first:start]) and not (
            text[start + len(line) : last].strip()
        ):
            return self._renumbered(re.sub(r"\n{3,}", "\n\n", text[:first] + text[last + 1 :]))
        before, after = text[:start], text[start + len(line) :]
        if after.startswith(" "):
            return before + after[1:]
        return before.removesuffix(" ") + after

    def placed(self, text: str, line: str, behind: str) -> str:
        """A text with a statement right behind another one, in its manner."""
        start = text.find(behind)
        if start < 0:
            return self._at_end(text, line)
        first = text.rfind("\n", 0, start) + 1
        end = start + len(behind)
        last = text.find("\n", end)
        last = len(text) if last < 0 else last
        head = re.fullmatch(r"\s*(?:[-*・]\s*|\d+[.)、]\s*)?", text[first:start])
        if head is not None and not text[end:last].strip():
            mark = _STEP.sub("0", head[0])
            return self._renumbered(f"{text[:last]}\n{mark}{line}{text[last:]}")
        space = "" if behind.endswith("。") else " "
        return f"{text[:end]}{space}{line}{text[end:]}"

    def restored(self, text: str, line: str) -> str:
        """A text with a statement where the healthy one has it."""
        if self._has_own_line(line):
            return self._with_lines(text, line)
        at = self.text.index(line)
        held = [one for one in self.all_statements if one in text and one != line]
        before = [one for one in held if self.text.index(one) + len(one) <= at]
        nearest = max(before, key=lambda one: self.text.index(one) + len(one), default="")
        if nearest and "\n" not in self.text[self.text.index(nearest) : at]:
            return self.placed(text, line, nearest)
        own = self._line_of(line)
        following = [one for one in held if one in own and self.text.index(one) > at]
        if following:
            space = "" if line.endswith("。") else " "
            return text.replace(following[0], f"{line}{space}{following[0]}", 1)
        return self._at_end(text, line)

    def _has_own_line(self, line: str) -> bool:
        return bool(
            re.fullmatch(rf"\s*(?:[-*・]|\d+[.)、])?\s*{re.escape(line)}", self._line_of(line))
        )

    def _with_lines(self, text: str, line: str) -> str:
        healthy, held = self.text.split("\n"), text.split("\n")
        first = self.text.count("\n", 0, self.text.index(line))
        own = range(first, first + line.count("\n") + 1)
        keys = [[_STEP.sub("", one).strip() for one in lines] for lines in (held, healthy)]
        for _, at, _, begin, end in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
            if begin <= own.start < end:
                low, high = own.start, own.stop
                if line.count("\n"):  # a block brings the empty line that parts it from others
                    low = low - 1 if low > begin and not healthy[low - 1] else low
                    high = high + 1 if low == own.start and high < end else high
                added = [_STEP.sub("0", one) for one in healthy[low:high]]
                lines = "\n".join([*held[:at], *added, *held[at:]])
                return self._referring(self._renumbered(lines))
        return text

    def _line_of(self, line: str) -> str:
        at = self.text.index(line)
        end = self.text.find("\n", at + len(line))
        return self.text[self.text.rfind("\n", 0, at) + 1 : end if end >= 0 else None]

    def _renumbered(self, text: str) -> str:
        """Steps counted from 1 again, and what refers to them."""
        new: dict[str, str] = {}
        lines, count = text.split("\n"), 0
        for n, line in enumerate(lines):
            found = _STEP.match(line)
            count = count + 1 if found else 0
            if found:
                new[found[1]] = str(count)
                lines[n] = f"{count}{line[found.end() :]}"
        return re.sub(
            rf"({self.refers})(\d+)",
            lambda found: found[1] + new.get(found[2], found[2]),
            "\n".join(lines),
        )

    def _referring(self, text: str) -> str:
        """A text whose steps refer to what they refer to in the healthy one."""
        refers = re.compile(rf"(?<={self.refers})\d+")
        steps = {one[: one.index(".")]: one.partition(" ")[2] for one in self._steps(self.text)}
        now = {one.partition(" ")[2]: one[: one.index(".")] for one in self._steps(text)}
        meant = {
            refers.sub("#", one.partition(" ")[2]): now.get(steps.get(found[0], ""), found[0])
            for one in self._steps(self.text)
            if (found := refers.search(one))
        }
        lines = text.split("\n")
        for n, line in enumerate(lines):
            number = meant.get(refers.sub("#", line.partition(" ")[2]))
            if number and refers.search(line):
                lines[n] = refers.sub(number, line)
        return "\n".join(lines)

    @staticmethod
    def _steps(text: str) -> list[str]:
        return re.findall(r"^\d+\. .*$", text, re.MULTILINE)
