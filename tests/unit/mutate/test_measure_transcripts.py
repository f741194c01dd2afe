"""The classes of mutants with all their evidence, and the numbers that outputs are told apart by."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.mutate import make_family, run_family
from regauge.errors import BudgetError, ProviderError
from regauge.gate import BaseTrials, Count
from regauge.mutate import estimate_calls
from regauge.mutate._outputs import Outputs, differences, fields_of
from tests.transcripts import assert_as_written
from tests.unit.mutate.test_measure import World, measured, prompt

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.mutate import Case, JudgedTrial, MeasuredClasses
    from regauge.prompts import Prompt


class Noisy(World):
    """Outputs vary, cases fail now and then, and mutants fail some cases more often."""

    rate = 0.5

    def trial(self, mutant: Prompt | None, number: int) -> JudgedTrial:
        made = super().trial(mutant, number)
        dice = random.Random(f"{number} {len(self.drawn)}")
        words = f"note {dice.randrange(4)} of {number}"
        checks = dict(made.facts.checks)
        if not checks["right"] and mutant is not None:
            checks["right"] = dice.random() < self.rate
        output = json.dumps({**json.loads(made.output), "words": words})
        return replace(
            made, facts=replace(made.facts, checks=checks, output_digest=words), output=output
        )


def some(world: World, **changes: Callable[[Case, int], object]) -> list[Case]:
    """Cases of a world, changed by their number."""
    return [
        replace(case, **{name: how(case, number) for name, how in changes.items()})  # type: ignore[arg-type]
        for number, case in enumerate(world.cases())
    ]


def history_of(passed: int, trials: int) -> BaseTrials:
    count = Count(passed=passed, trials=trials)
    return BaseTrials(checks={"right": count}, total=count)


WORLDS: dict[str, Callable[[], MeasuredClasses]] = {
    "steady": lambda: measured(World()),
    "all operators": lambda: measured(World(cases=10), operators="all"),
    "without baseline": lambda: measured(
        World(), World().cases(baseline=None, repeats=0, output_digest="")
    ),
    "noisy": lambda: measured(Noisy(), World().cases(repeats=0, output_digest="")),
    "noisy, no baseline": lambda: measured(
        Noisy(), World().cases(baseline=None, repeats=0, output_digest="")
    ),
    "critical": lambda: measured(World(), World().cases(tier="critical")),
    "strict": lambda: measured(World(), World().cases(tier="critical", strict=True)),
    "tracked": lambda: measured(World(), World().cases(tier="tracked", blocks=False)),
    "of many tiers": lambda: measured(
        Noisy(),
        some(
            Noisy(),
            tier=lambda _, number: ("critical", "required", "tracked")[number % 3],
            blocks=lambda _, number: number % 3 < 2,
            repeats=lambda _, number: 12 * (number % 2),
        ),
    ),
    "short records": lambda: measured(
        Noisy(),
        some(Noisy(), baseline=lambda case, _: history_of(3 * ("epsilon" not in case.text), 3)),
    ),
    "flaky records": lambda: measured(
        Noisy(), some(Noisy(), baseline=lambda _, number: history_of(9 + number % 4, 12))
    ),
    "no budget": lambda: measured(World(fails=BudgetError("no more"), after=30)),
    "an outage": lambda: measured(World(fails=ProviderError("down", kind="server"), after=30)),
    "no key": lambda: measured(World(fails=ProviderError("401", kind="authentication"), after=9)),
    "a broken judge": lambda: measured(World(fails=ValueError("odd\nlines"), after=50)),
}


@pytest.mark.parametrize("name", WORLDS)
def test_mutants_are_classed_as_it_was_written_down(name: str):
    found = WORLDS[name]()
    lines = [f"calls {found.calls}, of base {found.base_calls}"]
    for one in found.results:
        outcome = {
            field: sorted(value) if isinstance(value, frozenset) else value
            for field, value in asdict(one.outcome).items()
            if value
        }
        lines.append(f"{one.mutant.id} {one.mutant.text!r}: {json.dumps(outcome, default=str)}")
    mutants = [one.mutant for one in found.results]
    lines += [
        f"estimated {estimate_calls(prompt(), mutants, World().cases(), known)}"
        for known in ({}, {one.mutant.id: one.outcome.kind for one in found.results})
    ]
    assert_as_written("\n".join([*lines, ""]), f"classes/{name}")


@pytest.mark.parametrize("mix", ["typical", "flaky"])
def test_a_family_is_measured_as_it_was_written_down(mix: str):
    row = run_family(make_family(3, 24, mix), mix)
    assert_as_written(f"{asdict(row)}\n", f"classes/family {mix}")


OUTPUTS = [
    '{"a": 1, "b": "x"}', '{"b": "x y", "a": 1.5}', '{"a": [1, {"c": null}], "d": {}}', "[]",
    '```json\n{"a": 1}\n```', "The disk, it is full!", "the disk is not full", '"one"',
    '"two words"', "3", '{"a": "The disk is full.", "b": "red"}', '{"a": "Disk is full.", "b": "Red"}', "",
]  # fmt: skip


def test_outputs_are_told_apart_as_it_was_written_down():
    made, lines = Outputs(), [f"{output!r}: {fields_of(output)}" for output in OUTPUTS]
    noise = made.noise([OUTPUTS[:3], OUTPUTS[5:7], OUTPUTS[3:4] * 3, OUTPUTS[10:12]])
    lines.append(f"noise { ({name: round(noise[name], 6) for name in sorted(noise)}) }")
    for first in OUTPUTS:
        for other in OUTPUTS:
            apart = differences(fields_of(first), fields_of(other))
            shares = {name: round(apart[name], 6) for name in sorted(apart)}
            far = f"{made.distance(first, other):.6g}, with noise {made.distance(first, other, noise):.6g}"
            lines.append(f"{first!r} {other!r}: {shares} {far} {made.is_novel(first, [other, ''])}")
    varied = [([*OUTPUTS[5:7], *OUTPUTS[10:12]], OUTPUTS[10:12]), (OUTPUTS[:3], OUTPUTS[1:2])]
    for cases in (varied, varied[:1], [(["a"] * 12, ["b"] * 4)], [(["a"], [])], []):
        p_value = made.difference_p_value(cases, noise=noise, seed=2)
        one_each = [(base, new[0], number > 0) for number, (base, new) in enumerate(cases) if new]
        first_p = made.first_trials_p_value(one_each, noise=noise, seed=2)
        lines.append(f"p {p_value:.6g}, of first trials {first_p:.6g}")
    assert_as_written("\n".join([*lines, ""]), "classes/outputs")
