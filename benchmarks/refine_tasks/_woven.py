"""Simulated tasks whose instructions do not stand one to a line: a dense paragraph, terse lists."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from benchmarks.refine_tasks._simulated import FLUFF, Proposals, SimulatedTask, garbled, leaked
from benchmarks.refine_tasks._statements import statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.refine_tasks._simulated import Case, Requirement

__all__ = ["WovenTask"]

_IN_PLACE = 0.7


@dataclass(kw_only=True)
class WovenTask(SimulatedTask):
    """A family whose prompt joins the instructions of each section.

    Attributes:
        layout: `paragraph` makes one sentence of each section and one line of all sentences;
            `lists` makes one line of each section, which begins with its name.
        misjudged: The share of judgements that come out the wrong way in every scenario.
        together: How often the checks of one answer share their luck.
        at_best: How often some requirements are met at the most, whatever a prompt says.
        clumsy: The reflection model never behaves better than this.
    """

    layout: Literal["paragraph", "lists"]
    misjudged: float = 0.0
    together: float = 0.0
    at_best: Mapping[str, float] = field(default_factory=dict[str, float])
    clumsy: Proposals = field(
        default_factory=lambda: Proposals(p_fix=1.0, p_leak=0.0, p_drop=0.0, p_fluff=0.0)
    )

    def healthy_prompt(self) -> str:
        """The prompt with every instruction in its place."""
        return self._woven({r.name: self._part(r, r.line) for r in self.requirements})

    def seed_fault(
        self, kind: str, name: str, rng: random.Random, prompt: str | None = None
    ) -> str:
        """The healthy prompt with one instruction spoilt."""
        if prompt is not None:
            raise ValueError("faults are seeded in the healthy prompt")
        need = self._by[name]
        parts = {r.name: self._part(r, r.line) for r in self.requirements}
        match kind:
            case "delete":
                del parts[name]
            case "contradict":
                parts[name] = self._part(need, need.against)
            case "garble":
                parts[name] = garbled(f"- {parts[name]}", rng).removeprefix("- ")
            case _:
                raise ValueError(kind)
        return self._woven(parts)

    def failed(self, prompt: str, case: Case, rng: random.Random) -> list[str]:
        """Draw one answer and say which requirements it fails."""
        chances = self.chance(prompt, case)
        shared = rng.random()
        failed: list[str] = []
        for name in case.reqs:
            luck = shared if rng.random() < self.together else rng.random()
            wrong = rng.random() < max(self.misjudged, self.flips)
            if (luck >= chances[name]) != wrong:
                failed.append(name)
        return failed

    def chance(self, prompt: str, case: Case) -> dict[str, float]:
        """How likely an answer to a case meets each of its requirements."""
        chances = super().chance(prompt, case)
        return {name: min(rate, self.at_best.get(name, 1.0)) for name, rate in chances.items()}

    def proposal(
        self, prompt: str, shown: Mapping[str, Case], failing: str, how: Proposals, seed: int
    ) -> str:
        """What the simulated reflection model makes of a prompt: as its base, woven in."""
        rng = random.Random(seed)
        fluff = [line.removeprefix("- ") for line in FLUFF]
        if how.neutral:
            return self._with(prompt, rng.choice(fluff))
        how = self._at_best(how)
        need = self._by[failing]
        if rng.random() < how.p_fix:
            prompt = self._cured(prompt, need, rng)
        if shown and rng.random() < how.p_leak:
            case = shown[rng.choice(sorted(shown))]
            prompt = self._with(prompt, leaked(case, how.leak, rng).removeprefix("- "))
        if rng.random() < how.p_fluff:
            prompt = self._with(prompt, rng.choice(fluff))
        if rng.random() < how.p_drop:
            free = [one for part in self.unwatched.values() for one in part]
            lost = rng.choice([*self.requirements, *free])
            if isinstance(lost, str):
                return prompt.replace(f", {lost}", "", 1).replace(f" {lost}", "", 1)
            prompt = self._without(prompt, lost)
        return prompt

    def statements(self, text: str) -> Counter[str]:
        """Entries with the name of their list, or the clauses of every sentence."""
        if self.layout == "paragraph":
            return statements(text.replace(", and ", ". "))
        lines = [line.partition(": ") for line in text.splitlines()]
        return Counter(
            f"{name}: {entry.strip()}".casefold()
            for name, _, entries in lines
            for entry in entries.split(", ")
            if entry.strip()
        )

    def _at_best(self, how: Proposals) -> Proposals:
        worst = self.clumsy
        return replace(
            how,
            p_fix=how.p_fix * worst.p_fix,
            p_leak=max(how.p_leak, worst.p_leak),
            p_drop=max(how.p_drop, worst.p_drop),
            p_fluff=max(how.p_fluff, worst.p_fluff),
        )

    def _woven(self, parts: Mapping[str, str]) -> str:
        said = {
            section: [
                parts[need.name]
                for need in self.requirements
                if need.section == section and need.name in parts
            ]
            for section in self.sections
        }
        free = {section: list(self.unwatched.get(section, ())) for section in self.sections}
        if self.layout == "lists":
            lines = [
                f"{section}: {', '.join(all_)}"
                for section, parts_ in said.items()
                if (all_ := [*parts_, *free[section]])
            ]
            return "\n".join([*self.opening, *lines, *self.closing])
        sentences = [
            one
            for section, all_ in said.items()
            for one in ([_sentence(all_)] if all_ else []) + free[section]
        ]
        return "\n".join([" ".join([*self.opening, *sentences]), "", *self.closing])

    def _part(self, need: Requirement, line: str) -> str:
        """An instruction as the healthy prompt words it among others."""
        if self.layout == "lists":
            return line.removeprefix(f"{need.section}: ")
        return line.removesuffix(".")

    def _with(self, prompt: str, line: str) -> str:
        """Said last: at the end of the paragraph, or below the lists."""
        first = self.closing[0]
        if self.layout == "lists":
            return prompt.replace(first, f"{line}\n{first}", 1)
        return prompt.replace(f"\n\n{first}", f" {line}\n\n{first}", 1)

    def _cured(self, prompt: str, need: Requirement, rng: random.Random) -> str:
        against, line = self._part(need, need.against), self._part(need, need.line)
        for old, new in ((against, line), (_lower(against), _lower(line))):
            if old in prompt and rng.random() < _IN_PLACE:
                return prompt.replace(old, new, 1)
        return prompt if need.line in prompt else self._with(prompt, need.line)

    def _without(self, prompt: str, need: Requirement) -> str:
        part = self._part(need, need.line)
        for joined in (f", and {_lower(part)}", f"{part}, and ", f", {part}", f"{part}, "):
            if joined in prompt:
                return prompt.replace(joined, "", 1)
        return prompt


def _sentence(parts: Sequence[str]) -> str:
    first, *others = parts
    return "".join([first, *(f", and {_lower(other)}" for other in others), "."])


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
