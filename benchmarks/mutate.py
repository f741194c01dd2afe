"""Accuracy and calls of `regauge mutate`, on simulated suites with known truth.

    python benchmarks/mutate.py [--quick] [--families 6] [--seed 0] [--suggest] [--output FILE]

Families are prompts and suites with known truth: each instruction is carried by checks of known
cases, or changes outputs that no check judges, or does nothing, or makes cases fail. Cases pass on
the base as often as in the mixes of the gate's benchmark, and outputs vary as models' do. The rules
are those of `regauge mutate`; only the trials are simulated.

With `--suggest`, golden cases are proposed for the instructions that survive, by rules and by a
simulated model. Half of the instructions without effect matter for inputs that no case has; the
others do nothing, so no case can guard them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._gate_suites import MIXES, draw_suites
from regauge.datasets import GoldenCase
from regauge.digests import digest_of
from regauge.gate import BaseTrials, Count, GatePolicy, TrialFacts
from regauge.judges import Rule, judge_from_spec
from regauge.mutate import (
    Case,
    ClassificationPolicy,
    Draft,
    JudgedTrial,
    MutantClass,
    MutantRow,
    MutationProgress,
    VariantProposer,
    choose_operators,
    find_unguarded,
    measure,
    mutants_of,
    suggest,
)
from regauge.mutate._report import Span
from regauge.prompts import Message, Prompt
from regauge.stats import clopper_pearson

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.mutate import (
        DraftRunner,
        GuardSuggestion,
        MeasuredClasses,
        Mutant,
        UnguardedInstruction,
    )

_INSTRUCTIONS = 24
_BASELINE = 12
_KINDS: Mapping[MutantClass, float] = {
    "killed": 0.60,
    "survived": 0.20,
    "no-effect": 0.12,
    "harmful": 0.08,
}
# Carriers: so many cases, or a share of all of them.
_CARRIERS = (1, 1, 2, 3, 6, 0.1, 0.3)
_CHANGED = (1, 2, 4, 0.1)
# Cases that carry an instruction mostly name its subject; some need it without a word of it.
_NAMED = 0.8
_WHOLLY = 0.75
_LABELS = ("alpha", "beta", "gamma")
# Instructions are carried by cases that pass so often on the base, or by the best of all.
_FIRM = 0.9
_FIRM_LEAST = 8
_GOALS = {"right": 0.95, "killed": 10.0, "rest": 1.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction and what depends on it.

    Attributes:
        subject: The words that only this instruction has.
        kind: The class of its deletion.
        carriers: The cases that depend on it.
        effect: How often a carrier changes without it.
    """

    subject: str
    kind: MutantClass
    carriers: frozenset[int]
    effect: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A prompt and its suite.

    Attributes:
        rates: How often each case passes on the base.
        varied: How often the note of each case is worded in another way.
    """

    seed: int
    prompt: Prompt
    instructions: tuple[Instruction, ...]
    rates: tuple[float, ...]
    varied: tuple[float, ...]
    texts: tuple[str, ...]

    def trial(self, prompt: Prompt | None, case: int, number: int) -> JudgedTrial:
        """One trial of a case, the same for the same prompt, case and number."""
        text = (prompt or self.prompt).messages[0].content
        name = "base" if prompt is None else prompt.digest
        rng = random.Random(digest_of([self.seed, name, case, number]))
        rate, changed = self.rates[case], False
        fixed = False
        for one in self.instructions:
            if case not in one.carriers:
                continue
            missing = one.subject not in text
            if one.kind == "killed" and missing:
                rate = min(rate, 1 - one.effect)
            elif one.kind == "survived" and missing:
                changed = changed or rng.random() < one.effect
            elif one.kind == "harmful":
                fixed = fixed or missing
        if fixed:
            rate = max(rate, 0.98)
        passed = rng.random() < rate
        words = [f"note{case}", "states", "the", "evidence"]
        if rng.random() < self.varied[case]:
            words[1] = rng.choice(("shows", "gives", "names"))
        if changed:
            words[3] = "rest"
        right = _LABELS[case % len(_LABELS)]
        label = right if passed else "delta"
        output = json.dumps({"label": label, "note": " ".join(words)})
        facts = TrialFacts(checks={"label": passed, "note": True}, output_digest=digest_of(output))
        return JudgedTrial(facts=facts, output=output)

    def cases(self) -> list[Case]:
        """The cases with a baseline of their own."""
        found: list[Case] = []
        for number, text in enumerate(self.texts):
            drawn = [self.trial(None, number, 100 + n) for n in range(_BASELINE)]
            passed = sum(one.facts.passed is True for one in drawn)
            count = Count(passed=passed, trials=_BASELINE)
            distinct = len({one.output for one in drawn})
            baseline = BaseTrials(
                checks={"label": count, "note": Count(passed=_BASELINE, trials=_BASELINE)},
                total=count,
                distinct_outputs=distinct,
            )
            found.append(
                Case(
                    key=str(number),
                    text=text,
                    checks=("label", "note"),
                    baseline=baseline,
                    repeats=_BASELINE if distinct == 1 else 0,
                    output_digest=drawn[0].facts.output_digest if distinct == 1 else "",
                )
            )
        return found

    async def run_trials(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> list[JudgedTrial | Exception]:
        """Trials of cases, as `regauge.mutate.Bench` has it."""
        return [self.trial(prompt, int(case), number) for case, number in trials]

    def truth(self, mutant: Mutant) -> MutantClass:
        """The class of a single deletion."""
        return next(one.kind for one in self.instructions if one.subject in mutant.text)


def make_family(seed: int, cases: int, mix: str) -> Family:
    """A family of a size and a mix."""
    rng = random.Random(digest_of([seed, cases, mix]))
    numbers = np.random.default_rng(seed)
    rates = [float(p) for p in draw_suites(numbers, mix, 1, cases)[0]]
    kinds = rng.choices(list(_KINDS), list(_KINDS.values()), k=_INSTRUCTIONS)
    stable = sorted(range(cases), key=lambda case: -rates[case])
    firm = [case for case in stable if rates[case] >= _FIRM]
    if len(firm) < _FIRM_LEAST:
        firm = stable[:_FIRM_LEAST]
    instructions: list[Instruction] = []
    taken: set[int] = set()
    # What makes a case fail comes first: no other instruction is carried by a failing case.
    kinds.sort(key=lambda kind: kind != "harmful")
    for drawn in kinds:
        # The last firm cases are left for what passes.
        kind = "no-effect" if drawn == "harmful" and len(firm) <= _FIRM_LEAST // 2 else drawn
        size = rng.choice(_CARRIERS if kind == "killed" else _CHANGED)
        count = size if isinstance(size, int) else max(1, round(size * cases))
        effect = 1.0
        carriers: frozenset[int] = frozenset()
        if kind == "harmful":
            chosen = rng.sample(firm, k=rng.choice((1, 2)))
            taken |= {*chosen}
            carriers = frozenset(chosen)
            for case in chosen:
                rates[case] = 0.01
            firm = [case for case in firm if case not in taken]
        elif kind != "no-effect":
            carriers = frozenset(rng.sample(firm, k=min(count, len(firm))))
            whole = rng.random() < _WHOLLY
            effect = rng.uniform(0.96, 1.0) if whole or kind == "survived" else 0.65
        subject = f"subject{_word(rng)} {_word(rng)}"
        instructions.append(
            Instruction(subject=subject, kind=kind, carriers=carriers, effect=effect)
        )
    noisy = rng.random() < 0.5
    varied = [rng.uniform(0, 0.5) if noisy else 0.1 * (rng.random() < 0.05) for _ in range(cases)]
    texts: list[str] = []
    for case in range(cases):
        words = [_word(rng) for _ in range(12)]
        named = [one for one in instructions if case in one.carriers and rng.random() < _NAMED]
        words += [one.subject for one in named]
        texts.append(" ".join(words))
    rng.shuffle(instructions)
    return Family(
        seed=seed,
        prompt=_prompt(rng, instructions),
        instructions=tuple(instructions),
        rates=tuple(rates),
        varied=tuple(varied),
        texts=tuple(texts),
    )


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(c) for c in ("bdfgklmnprt", "aeiou", "bdfgklmnprt", "aeiou", "lmnrt"))


def _prompt(rng: random.Random, instructions: Sequence[Instruction]) -> Prompt:
    lines: list[str] = []
    left = list(instructions)
    while left:
        size = min(len(left), rng.choice((2, 3, 5, 8)))
        block, left = left[:size], left[size:]
        if rng.random() < 0.7:
            lines += [f"## {_word(rng).title()}", ""]
            lines += [f"- Handle {one.subject} as the table states." for one in block]
        else:
            lines.append(" ".join(f"Handle {one.subject} as the table states." for one in block))
        lines.append("")
    messages = (
        Message(role="system", content="\n".join(lines)),
        Message(role="user", content="{{input}}"),
    )
    return Prompt(name="family", path=Path("family.prompt.yml"), messages=messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one family."""

    mix: str
    cases: int
    classes: Counter[tuple[str, str]]
    killed: tuple[int, ...]
    rest: tuple[float, ...]
    calls: int
    base_calls: int


def run_family(family: Family, mix: str) -> Row:
    """Measure a family and compare the classes with the truth."""
    cases = family.cases()
    mutants = mutants_of(family.prompt, choose_operators(None))
    policy = ClassificationPolicy(gate=GatePolicy())
    measured: MeasuredClasses = asyncio.run(measure(family.prompt, mutants, cases, family, policy))
    classes: Counter[tuple[str, str]] = Counter()
    killed: list[int] = []
    rest: list[float] = []
    for one in measured.results:
        classes[family.truth(one.mutant), one.outcome.kind] += 1
        if one.outcome.kind == "killed":
            killed.append(one.outcome.calls)
        else:
            rest.append(one.outcome.calls / len(cases))
    return Row(
        mix=mix,
        cases=len(cases),
        classes=classes,
        killed=tuple(killed),
        rest=tuple(rest),
        calls=measured.calls,
        base_calls=measured.base_calls,
    )


def summary(rows: Sequence[Row]) -> Mapping[str, object]:
    """The figures of some families, next to their goals."""
    classes: Counter[tuple[str, str]] = Counter()
    for row in rows:
        classes.update(row.classes)
    right = sum(count for (truth, kind), count in classes.items() if truth == kind)
    total = classes.total()
    interval = clopper_pearson(right, total)
    wrong: dict[str, int] = {
        f"{truth} as {kind}": count for (truth, kind), count in classes.items() if truth != kind
    }
    killed = [calls for row in rows for calls in row.killed]
    rest = [share for row in rows for share in row.rest]
    return {
        "mutants": total,
        "right": round(right / total, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "wrong": wrong,
        "calls_per_killed_median": statistics.median(killed) if killed else None,
        "calls_per_case_of_others": round(statistics.mean(rest), 3) if rest else None,
        "calls": sum(row.calls for row in rows),
        "base_calls": sum(row.base_calls for row in rows),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A family whose prompt also runs on inputs that no case has.

    Attributes:
        dormant: The subjects without an effect on any case that matter for other inputs, and
            whether they change the label; else they change the note.
    """

    family: Family
    dormant: Mapping[str, bool]

    @classmethod
    def of(cls, family: Family) -> World:
        """The world of a family; half of what has no effect on its cases matters elsewhere."""
        rng = random.Random(digest_of(["dormant", family.seed, family.prompt.digest]))
        silent = [one.subject for one in family.instructions if one.kind == "no-effect"]
        chosen = rng.sample(silent, k=(len(silent) + 1) // 2)
        return cls(family=family, dormant={one: rng.random() < 0.5 for one in chosen})

    def right(self, text: str) -> str:
        """The label that an input deserves."""
        return _LABELS[int(digest_of([self.family.seed, text])[:4], 16) % len(_LABELS)]

    def trial(self, prompt: Prompt | None, draft: Draft, number: int) -> JudgedTrial:
        """One trial of a suggested case; an instruction matters where its subject is named."""
        family = self.family
        text = str(draft.inputs["input"])
        written = (prompt or family.prompt).messages[0].content
        name = "base" if prompt is None else prompt.digest
        rng = random.Random(digest_of([family.seed, name, text, number]))
        like = int(draft.like)
        rate, changed = family.rates[like], False
        for one in family.instructions:
            if one.subject not in text or one.subject in written:
                continue
            labels = one.kind == "killed" or self.dormant.get(one.subject) is True
            if labels:
                rate = min(rate, 1 - one.effect)
            elif one.kind == "survived" or one.subject in self.dormant:
                changed = changed or rng.random() < one.effect
        label = self.right(text) if rng.random() < rate else "delta"
        words = ["note", "states", "the", "rest" if changed else "evidence"]
        if rng.random() < family.varied[like]:
            words[1] = rng.choice(("shows", "gives", "names"))
        output = json.dumps({"label": label, "note": " ".join(words)})
        expected = draft.expected
        assert isinstance(expected, dict)
        checks = {"label": label == expected.get("label")}
        for number_of_check, check in enumerate(draft.checks):
            judge = judge_from_spec(check)
            assert isinstance(judge, Rule)
            checks[f"check {number_of_check}"] = judge.check_text(output).outcome == "pass"
        return JudgedTrial(
            facts=TrialFacts(checks=checks, output_digest=digest_of(output)), output=output
        )


@dataclass(frozen=True, slots=True)
class DraftTrials:
    """Draws trials of one draft."""

    world: World
    draft: Draft

    async def run_trials(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> list[JudgedTrial | Exception]:
        """Trials of the draft, as `regauge.mutate.Bench` has it."""
        return [self.world.trial(prompt, self.draft, number) for _, number in trials]


@dataclass(frozen=True, slots=True)
class SimulatedWriter:
    """A simulated model that writes cases: some guard, some are beside the point, some are wrong.

    A draft names the subject of the instruction (85 %), expects the right label (85 %), and has
    the check that sees the difference (60 %), one that sees nothing or one that is met by chance.
    The second reply, which knows the results of the first, is right more often.
    """

    world: World
    calls: list[int]

    async def drafts(
        self, problem: UnguardedInstruction, look: DraftRunner
    ) -> AsyncGenerator[Draft, None]:
        """Two replies of three cases."""
        del look
        rng = random.Random(digest_of([self.world.family.seed, problem.mutant.id]))
        subject = problem.mutant.text.split("Handle ")[-1].split(" as the table")[0]
        keys = list(problem.nearest)
        for number in range(2):
            self.calls.append(1)
            for _ in range(3):
                names = rng.random() < (0.85, 0.95)[number]
                text = " ".join([*(_word(rng) for _ in range(8)), subject if names else "nothing"])
                right = self.world.right(text)
                if rng.random() > (0.85, 0.95)[number]:
                    right = rng.choice([one for one in _LABELS if one != right])
                word = rng.choices(("evidence", "the", "states"), ((6, 2, 2), (8, 1, 1))[number])[0]
                check: JSON = {"contains": {"text": word, "field": "note"}}
                yield Draft(
                    inputs={"input": text},
                    expected={"label": right},
                    checks=(check,),
                    like=rng.choice(keys),
                    proposer="model:simulated",
                )


def suggest_for(family: Family) -> Counter[str]:
    """The cases that are suggested for a family, compared with the truth."""
    world = World.of(family)
    cases = family.cases()
    golden = {
        case.key: GoldenCase(
            id=f"case-{case.key}",
            inputs={"input": case.text},
            expected={"label": _LABELS[int(case.key) % len(_LABELS)]},
            split="train",
        )
        for case in cases
    }
    mutants = mutants_of(family.prompt, choose_operators(None))
    policy = ClassificationPolicy(gate=GatePolicy())
    measured = asyncio.run(measure(family.prompt, mutants, cases, family, policy))
    rows = [
        MutantRow(
            id=one.mutant.id,
            operator=one.mutant.operator,
            line=one.mutant.place.line,
            span=Span(part=one.mutant.place.part, start=0, end=0),
            text=one.mutant.text,
            kind=one.outcome.kind,
            cases=list(one.outcome.cases),
            evidence=dict(one.outcome.evidence),
        )
        for one in measured.results
    ]
    problems = find_unguarded(family.prompt, mutants, rows, cases, golden)
    found: Counter[str] = Counter()
    for name in ("model", "rules"):
        replies: list[int] = []
        proposer = SimulatedWriter(world, replies) if name == "model" else VariantProposer()
        made = asyncio.run(
            suggest(
                problems, [proposer], lambda draft: DraftTrials(world, draft), MutationProgress()
            )
        )
        found[f"{name} replies"] += len(replies)
        for one in made:
            _count(found, name, one, world, problems)
    return found


def _count(
    found: Counter[str],
    name: str,
    one: GuardSuggestion,
    world: World,
    problems: Sequence[UnguardedInstruction],
) -> None:
    mutant = next(problem.mutant for problem in problems if problem.row.id == one.row.id)
    truth = next(x for x in world.family.instructions if x.subject in mutant.text)
    is_dead = truth.kind == "no-effect" and truth.subject not in world.dormant
    found[f"{name} {'dead' if is_dead else 'open'}"] += 1
    found[f"{name} calls"] += one.calls
    if one.draft is None:
        return
    found[f"{name} offered{' dead' if is_dead else ''}"] += 1
    later = range(5_000, 5_000 + _LATER)
    passed = [world.trial(None, one.draft, n).facts.passed is True for n in later]
    failed = [world.trial(mutant.prompt, one.draft, n).facts.passed is not True for n in later]
    found[f"{name} fails on the prompt"] += sum(passed) < _LATER / 2
    found[f"{name} flaky"] += _LATER / 2 <= sum(passed) < 0.9 * _LATER
    found[f"{name} guards"] += sum(failed) > _LATER / 2
    found[f"{name} passed later"] += sum(passed)
    found[f"{name} failed later without"] += sum(failed)


# Trials of a suggested case that decide the truth.
_LATER = 100


def suggestion_summary(found: Counter[str]) -> Mapping[str, object]:
    """The figures of both proposers."""
    document: dict[str, object] = {}
    for name in ("model", "rules"):
        opened, offered = found[f"{name} open"], found[f"{name} offered"]
        every = offered + found[f"{name} offered dead"]
        tried = opened + found[f"{name} dead"]
        interval = clopper_pearson(offered, opened) if opened else None
        document[name] = {
            "open": opened,
            "offered": offered,
            "share": round(offered / opened, 4) if opened else None,
            "low": round(interval.low, 4) if interval else None,
            "high": round(interval.high, 4) if interval else None,
            "guards": found[f"{name} guards"],
            "fails_on_the_prompt": found[f"{name} fails on the prompt"],
            "passes_less_than_90_percent": found[f"{name} flaky"],
            "dead": found[f"{name} dead"],
            "offered_dead": found[f"{name} offered dead"],
            "passed_later": round(found[f"{name} passed later"] / (_LATER * every), 4)
            if every
            else None,
            "failed_later_without": round(
                found[f"{name} failed later without"] / (_LATER * every), 4
            )
            if every
            else None,
            "trials_per_instruction": round(found[f"{name} calls"] / tried, 1) if tried else None,
            "replies": found[f"{name} replies"],
        }
    return document


def measure_suggestions(families: int, seed: int) -> Mapping[str, object]:
    """Suggestions for families of both sizes and all mixes."""
    document: dict[str, object] = {"goals": {"share": 0.8, "fails_on_the_prompt": 0}}
    for cases in (40, 140):
        whole: Counter[str] = Counter()
        for mix in MIXES:
            for number in range(families):
                whole += suggest_for(make_family(seed + number, cases, mix))
        document[str(cases)] = suggestion_summary(whole)
        print(f"{cases:4} {json.dumps(document[str(cases)])}", flush=True)
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two families of each kind")
    parser.add_argument("--families", type=int, default=6, help="of each size and mix")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--suggest", action="store_true", help="suggest cases for survivors")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    count = 2 if options.quick else options.families
    document: dict[str, object] = {"goals": _GOALS}
    if options.suggest:
        document = {**measure_suggestions(count, options.seed)}
    for cases in () if options.suggest else (40, 140):
        by_mix: dict[str, list[Row]] = defaultdict(list)
        for mix in MIXES:
            for number in range(count):
                family = make_family(options.seed + number, cases, mix)
                by_mix[mix].append(run_family(family, mix))
            print(f"{cases:4} {mix:12}", json.dumps(summary(by_mix[mix])), flush=True)
        whole = summary([row for rows in by_mix.values() for row in rows])
        print(f"{cases:4} {'all':12}", json.dumps(whole), flush=True)
        document[str(cases)] = {mix: summary(rows) for mix, rows in by_mix.items()} | {"all": whole}
    if options.output is not None:
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
