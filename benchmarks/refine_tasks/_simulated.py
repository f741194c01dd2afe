"""A simulated task: how well a model follows a prompt is a function of the prompt's text.

A family is a list of requirements, a layout of the prompt and a way to detect what a text asks
for. Whatever edits text can be tried on it, and the true quality of a text is known exactly.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from benchmarks.refine_tasks._statements import statements

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["LEAKS", "Case", "Proposals", "Requirement", "SimulatedTask", "Style", "garbled"]

Style = Literal[
    "line",  # a requirement is met by any one line that says it; a contradiction halves it
    "section",  # it counts in full only under its own heading
    "last-wins",  # of lines for and against it, the last one is followed
]

_FOLLOWED, _FLOUTED = 0.97, 0.08
# What is only hedged is followed as ever in most cases, and in every fourth by chance.
_HEDGED, _TOSSED = 0.85, 0.5
_HEDGE = "- Where it suits: "
_SLOWED_BY_SIZE = 0.06
# How lines begin that give a case away.
LEAKS = ("- Example: for ", "- A typical value is ", "- Mind ")
FLUFF = (
    "- Be as careful as you can.",
    "- Take your time and think before you write.",
    "- This matters a great deal to the people who read it.",
    "- Check your work once more for quality.",
    "- Keep a clear and professional tone.",
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that answers are checked for.

    Attributes:
        section: The heading it belongs under.
        line: The instruction for it.
        needs: Patterns that one line must all match to say it.
        against: A line that says the opposite, and `against_pattern` which finds that.
        absent: How often answers meet it when nothing is said.
    """

    name: str
    section: str
    line: str
    needs: tuple[str, ...]
    against: str
    against_pattern: str
    absent: float
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """A golden case.

    Attributes:
        group: What it is about; edits may help one group alone.
        ease: Added to the log odds of every requirement; 0 for all where cases are alike.
    """

    id: str
    reqs: tuple[str, ...]
    input: str
    golden: str
    group: str
    ease: float = 0.0


@dataclass(frozen=True, slots=True)
class Proposals:
    """How the simulated reflection model behaves: the chances of what it does to a prompt.

    Attributes:
        p_fix: It adds or repairs the instruction for one reported failure.
        p_leak: It copies an expected answer into the prompt, in the form `leak`.
        p_drop: It loses a line.
        p_fluff: It adds lines of no use.
        p_narrow: Its repair speaks of the groups of the cases it was shown, and of no others.
        neutral: It only rephrases.
    """

    p_fix: float = 0.60
    p_leak: float = 0.10
    p_drop: float = 0.10
    p_fluff: float = 0.40
    neutral: bool = False
    p_narrow: float = 0.0
    leak: Literal["verbatim", "number", "paraphrase", "spelled"] = "verbatim"


@dataclass(kw_only=True)
class SimulatedTask:
    """One family of simulated tasks.

    Attributes:
        groups: What cases are about; train cases are drawn from the first of them more often.
        spread: Standard deviation of the ease of cases, in log odds.
        near: The share of train cases from the first three groups, and of other cases from others.
        golden: Makes the expected answer of a case from its id and a token of its own.
        units: What stands between two texts that instructions are looked for in, one by one.
        unwatched: Statements that no check watches, by section.
        unfixable: Requirements that no prompt can raise, and how often they are met.
        flips: The share of judgements that come out the wrong way.
    """

    name: str
    requirements: tuple[Requirement, ...]
    sections: tuple[str, ...]
    opening: tuple[str, ...]
    closing: tuple[str, ...]
    golden: Callable[[int, str, str], str]
    text_of: Callable[[str, str, str], str]
    style: Style = "line"
    groups: tuple[str, ...] = ("all",)
    spread: float = 0.0
    near: float = 0.5
    units: str = r"\n"
    unwatched: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    unfixable: dict[str, float] = field(default_factory=dict)
    flips: float = 0.0

    def __post_init__(self) -> None:
        self._by = {r.name: r for r in self.requirements}
        self._sizes: dict[str, int] = {}
        self._known: dict[str, dict[str, tuple[float, frozenset[str] | None]]] = {}
        self._population = self.cases(400, 99, "pop")
        self._size = size_of(self.healthy_prompt())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The faults that `seed_fault` can make."""
        return ("delete", "contradict", "garble")

    @property
    def faults(self) -> tuple[tuple[str, str], ...]:
        """Kinds of faults and requirements that go together; none here means that all do."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all requirements."""
        return tuple(self._by)

    def healthy_prompt(self) -> str:
        """The prompt with every instruction in its place."""
        lines = [*self.opening]
        for section in self.sections:
            rules = [r.line for r in self.requirements if r.section == section]
            pairs = zip_longest(rules, self.unwatched.get(section, ()))
            lines += [section, *(line for pair in pairs for line in pair if line)]
        return "\n".join([*lines, *self.closing])

    def seed_fault(
        self, kind: str, name: str, rng: random.Random, prompt: str | None = None
    ) -> str:
        """A prompt with one instruction spoilt."""
        prompt = self.healthy_prompt() if prompt is None else prompt
        line = self._by[name].line
        match kind:
            case "delete":
                return prompt.replace(line + "\n", "")
            case "contradict":
                return prompt.replace(line, self._by[name].against)
            case "garble":
                return prompt.replace(line, garbled(line, rng))
            case "hedge":
                return prompt.replace(line, _HEDGE + line.removeprefix("- "))
            case _:
                raise ValueError(kind)

    def cases(self, n: int, seed: int, tag: str) -> list[Case]:
        """Golden cases with ids `<tag>0`, `<tag>1`, ...; each requirement is in some of them."""
        least = 2 if n >= 20 else 1
        rng = random.Random(f"{self.name}{seed}{tag}")
        while True:
            made = self._cases(n, rng, f"{seed}", tag)
            if all(sum(name in case.reqs for case in made) >= least for name in self.names):
                return made

    def _cases(self, n: int, rng: random.Random, seed: str, tag: str) -> list[Case]:
        made: list[Case] = []
        for number in range(n):
            first, *rest = self.names
            reqs = (first, *rng.sample(rest, rng.choice([1, 2, 2, 3])))
            is_near = rng.random() < (self.near if tag == "tr" else 1 - self.near)
            group = rng.choice(self.groups[:3] if is_near else self.groups[3:] or self.groups)
            token = hashlib.sha256(f"{self.name}{tag}{seed}{number}".encode()).hexdigest()[:8]
            made.append(
                Case(
                    id=f"{tag}{number}",
                    reqs=reqs,
                    input=self.text_of(f"{tag}{number}", group, token),
                    golden=self.golden(number, group, token),
                    group=group,
                    ease=rng.gauss(0, self.spread),
                )
            )
        return made

    def said(self, prompt: str) -> dict[str, tuple[float, frozenset[str] | None]]:
        """For every requirement how well the text asks for it, and for which groups (None: all)."""
        if prompt in self._known:
            return self._known[prompt]
        lines = re.split(self.units, prompt)
        section = ""
        placed: list[tuple[str, str]] = []
        for line in lines:
            if line.strip() in self.sections:
                section = line.strip()
            placed.append((section, line))
        self._known[prompt] = {r.name: self._rate(r, placed) for r in self.requirements}
        return self._known[prompt]

    def chance(self, prompt: str, case: Case) -> dict[str, float]:
        """How likely an answer to a case meets each of its requirements."""
        if case.golden in prompt:
            return dict.fromkeys(case.reqs, 0.99)
        said = self.said(prompt)
        bloat = max(0.0, self._sized(prompt) / self._size - 1)
        chances: dict[str, float] = {}
        for name in case.reqs:
            rate, groups = said[name]
            if groups is not None and case.group not in groups:
                rate = self._by[name].absent
            if rate == _HEDGED:
                doubts = hashlib.sha256(f"{name}{case.id}".encode()).digest()[0] % 4 == 0
                rate = _TOSSED if doubts else _FOLLOWED
            rate = self.unfixable.get(name) or (
                rate * max(0.6, 1 - _SLOWED_BY_SIZE * bloat) if rate == _FOLLOWED else rate
            )
            chances[name] = _shifted(rate, case.ease)
        return chances

    def true_quality(self, prompt: str, cases: Sequence[Case] | None = None) -> float:
        """The mean share of requirements that answers meet, over cases nobody saw."""
        cases = self._population if cases is None else cases
        shares = (
            sum(chances.values()) / len(chances)
            for case in cases
            if (chances := self.chance(prompt, case))
        )
        return sum(shares) / len(cases)

    def failed(self, prompt: str, case: Case, rng: random.Random) -> list[str]:
        """Draw one answer and say which requirements it fails."""
        chances = self.chance(prompt, case)
        return [
            name
            for name in case.reqs
            if (rng.random() >= chances[name]) != (rng.random() < self.flips)
        ]

    def statements(self, text: str) -> Counter[str]:
        """What a text says, statement by statement."""
        return statements(text)

    def advice(self, name: str) -> str:
        """The instruction that a prompt should hold for a requirement."""
        return self._by[name].line

    def reason(self, name: str) -> str:
        """What the judge of a requirement says when it fails."""
        return self._by[name].reason

    def proposal(
        self, prompt: str, shown: Mapping[str, Case], failing: str, how: Proposals, seed: int
    ) -> str:
        """What the simulated reflection model makes of a prompt.

        Args:
            prompt: The prompt as it is.
            shown: The cases whose failures it is shown, by id, with their expected answers.
            failing: The requirement they fail.
            how: Its habits.
            seed: The same one gives the same proposal.
        """
        rng = random.Random(seed)
        need = self._by[failing]
        if how.neutral:
            return _inserted(prompt, rng.choice(FLUFF), self.closing[0])
        if rng.random() < how.p_narrow:
            groups = sorted({case.group for case in shown.values()})
            line = f"- For {', '.join(groups)} cases only: {need.line.removeprefix('- ')}"
            return self._repaired(prompt, need, line, rng)
        if rng.random() < how.p_fix and (need.line not in prompt or need.against in prompt):
            prompt = self._repaired(prompt, need, need.line, rng)
        if shown and rng.random() < how.p_leak:
            case = shown[rng.choice(sorted(shown))]
            prompt = _inserted(prompt, leaked(case, how.leak, rng), self.closing[0])
        if rng.random() < how.p_fluff:
            for _ in range(rng.choice([1, 2])):
                prompt = _inserted(prompt, rng.choice(FLUFF), self.closing[0])
        if rng.random() < how.p_drop:
            rules = [line for line in prompt.splitlines() if line.startswith("- ")]
            if rules:
                prompt = prompt.replace(rng.choice(rules) + "\n", "", 1)
        return prompt

    def _sized(self, prompt: str) -> int:
        if prompt not in self._sizes:
            self._sizes[prompt] = size_of(prompt)
        return self._sizes[prompt]

    def _repaired(self, prompt: str, need: Requirement, line: str, rng: random.Random) -> str:
        if need.against in prompt and rng.random() < 0.7:
            return prompt.replace(need.against, line)
        after = self.sections.index(need.section) + 1
        below = self.sections[after] if after < len(self.sections) else self.closing[0]
        return _inserted(prompt, line, below if rng.random() < 0.7 else self.closing[0])

    def _rate(
        self, need: Requirement, placed: Sequence[tuple[str, str]]
    ) -> tuple[float, frozenset[str] | None]:
        saying: list[tuple[int, str, str]] = []
        against: list[int] = []
        for number, (section, line) in enumerate(placed):
            if re.search(need.against_pattern, line, re.IGNORECASE):
                against.append(number)
            elif all(re.search(pattern, line, re.IGNORECASE) for pattern in need.needs):
                saying.append((number, section, line))
        if not saying:
            return (_FLOUTED if against else need.absent), None
        meant = [entry for entry in saying if not entry[2].startswith(_HEDGE)]
        number, section, line = (meant or saying)[-1]
        narrow = re.match(r"- For (.+) cases only: ", line)
        groups = frozenset(narrow[1].split(", ")) if narrow else None
        match self.style:
            case "line":
                rate = 0.5 if against else _FOLLOWED
            case "section":
                rate = _FOLLOWED if section == need.section else (_FOLLOWED + need.absent) / 2
                rate = 0.5 if against else rate
            case "last-wins":
                rate = _FLOUTED if against and against[-1] > number else _FOLLOWED
        return (rate if meant else min(rate, _HEDGED)), groups


def size_of(prompt: str) -> int:
    """Words and marks."""
    return len(re.findall(r"\w+|[^\w\s]", prompt))


def garbled(line: str, rng: random.Random) -> str:
    """A line with the letters of every word in another order."""
    head, _, rest = line.partition(" ")
    words = ["".join(rng.sample(word, len(word))) for word in rest.split()]
    return " ".join([head, *words])


def leaked(case: Case, form: str, rng: random.Random) -> str:
    """A line that gives a case away, in one of several forms."""
    numbers = re.findall(r"\b\d{2,}\b", case.golden)
    match form:
        case "verbatim":
            return f"- Example: for {case.input} the answer is {case.golden}"
        case "number":
            return f"- A typical value is {rng.choice(numbers)}."
        case "spelled":
            names = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
            digits = " ".join(names[int(digit)] for digit in rng.choice(numbers))
            return f"- A typical value is {digits}."
        case "paraphrase":
            words = re.findall(r"[A-Za-z]{4,}", case.golden)
            rng.shuffle(words)
            return f"- Mind {' and '.join(words[:6])}."
        case _:
            raise ValueError(form)


def _inserted(prompt: str, line: str, before: str) -> str:
    return prompt.replace(before, f"{line}\n{before}", 1)


def _shifted(rate: float, ease: float) -> float:
    if not ease:
        return rate
    return 1 / (1 + math.exp(-(math.log(rate / (1 - rate)) + ease)))
