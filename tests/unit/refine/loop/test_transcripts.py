"""Whole runs, step by step: what each phase costs, what the trail says, and how it ends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from regauge.refine._policy import GuardPolicy, RefinePolicy, RunLimits
from regauge.refine.analysis import CheckOutcome, Outcome
from regauge.refine.edits import PromptText
from regauge.refine.guards import Guard
from regauge.refine.loop._plan import calls_left, calls_wanted, can_confirm, underpowered_text
from regauge.refine.loop._state import (
    Critique,
    CritiqueResult,
    Interrupted,
    Release,
    RevisionDecision,
    Spending,
)
from regauge.refine.loop._verification import (
    describe_sides,
    generalisation_ratio,
    split_cases,
)
from regauge.refine.refinement import removals_of
from tests.transcripts import assert_as_written
from tests.unit.refine.loop.test_loop import ENDINGS
from tests.unit.refine.loop.test_loop_goals import utc_fails_often
from tests.unit.refine.loop.test_loop_properties import wild_world
from tests.unit.refine.loop.test_more_calls import stingy, to_the_end
from tests.unit.refine.loop.test_stack import ALL, REFUSALS, refusing
from tests.unit.refine.loop.test_steadying import STEADY, WORSE, flaky
from tests.unit.refine.world import (
    HEALTHY,
    HOLDOUT,
    JSON,
    LINES,
    TRAIN,
    adding,
    goal,
    passes,
    without,
    world,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.refine.loop._state import LoopState, Note
    from tests.unit.refine.world import World

JUDGED = {"json": 1.0, "utc": 0.4}


def noisy(share: float, *, base: tuple[str, ...] = ("json",), seed: int = 5) -> World:
    """Whatever stands in the prompt, a share of all verdicts is a failure."""
    dice = random.Random(seed)
    return world(
        without(*base),
        passes=lambda text, case, check: dice.random() > share and passes(text, case, check),
    )


def released(*texts: str, base: PromptText | None = None, **more: Any) -> World:
    """A world with earlier releases, the newest first."""
    known = tuple(
        Release(
            name=f"version {number}",
            text=PromptText.from_contents(text),
            command=f"git checkout v{number}",
        )
        for number, text in enumerate(texts)
    )
    return world(base or without("json"), releases=known, **more)


def half_helping(text: str, case: str, check: str) -> bool:
    """An edit for JSON helps every second case, held-out ones too."""
    return passes(text, case, check) and (check != "json" or int(case[-1]) % 2 == 0)


def decision(outcome: Any, outcomes: tuple[Outcome, ...]) -> RevisionDecision:
    return RevisionDecision(
        decision=outcome, reasons=(), outcomes=outcomes, spending=Spending(calls=len(outcomes))
    )


def worse_by_a_judge() -> World:
    """The gate accepts a text although a judge's check fails in its trials of most cases."""

    def accepted(state: LoopState) -> RevisionDecision:
        outcomes = tuple(
            Outcome(
                text=state.text.digest,
                case=case,
                trial=7,
                checks=tuple(
                    CheckOutcome(check=check, passed=check != "utc", code="") for check in LINES
                ),
                output=case,
            )
            for case in state.config.cases
        )
        return decision("accept", outcomes)

    return world(without("json"), judging=JUDGED, says=accepted)


def removing(frozen: Sequence[str] = (), **more: Any) -> World:
    """A removal of a line and of its list, which are without effect."""
    text = PromptText.from_contents(f"{HEALTHY.full_text}\n\nManners:\n\n- Be kind.\n- Greet.")
    root = text.trees[0].root
    places = {
        (0, node.start, node.end)
        for node in root.walk()
        if text.trees[0].text_of(node).startswith(("- Be kind.", "Be kind."))
    }
    removals = removals_of(text, sorted(places, reverse=True))
    return world(
        text, removals=removals, guard=Guard(text, [], (), GuardPolicy(), frozen=frozen), **more
    )


RUNS: dict[str, Callable[[], World]] = {
    **ENDINGS,
    **{
        f"refused: {name}": lambda bad=bad: world(ALL, refuses=refusing(bad))
        for name, (bad, _, _) in REFUSALS.items()
    },
    **{
        f"wild {seed}": lambda seed=seed: wild_world(
            seed, RefinePolicy(limits=RunLimits(calls=260)), variance=seed % 2 == 0
        )
        for seed in range(14)
    },
    **{f"noise {share}": lambda share=share: noisy(share) for share in (0.02, 0.05, 0.1, 0.2, 0.4)},
    "steadied": lambda: flaky(3, STEADY),
    "not steadied": lambda: flaky(3, WORSE),
    "steadied, rarely": lambda: flaky(5, STEADY, rate=0.8),
    "judged by models": lambda: world(without("json", "utc"), judging=JUDGED),
    "few calls, judged by models": lambda: world(
        without("json"), RefinePolicy(limits=RunLimits(calls=150)), judging=JUDGED
    ),
    "the better of two": lambda: world(
        without("json"),
        propose=lambda *_: [adding("- Answer in jason."), adding(JSON), adding("- Answer in XML.")],
        passes=lambda text, case, check: (
            passes(text, case, check)
            or (check == "json" and "jason" in text and case[-1] in "01234")
            or (check == "json" and "XML" in text and case[-1] in "0123")
        ),
    ),
    "the better of two in part": lambda: world(
        without("json"),
        propose=lambda *_: [adding("- Answer in jason."), adding("- Answer in XML.")],
        passes=lambda text, case, check: (
            passes(text, case, check)
            or (check == "json" and "jason" in text and case[-1] in "01234")
            or (check == "json" and "XML" in text and case[-1] in "0123456")
        ),
    ),
    "a release": lambda: released(HEALTHY.full_text),
    "the third release": lambda: released(
        without("json", "utc").full_text,
        without("json").full_text,
        HEALTHY.full_text.replace("You help.", "You help people.\n\nAnd you are kind."),
    ),
    "a release for two": lambda: released(
        HEALTHY.full_text,
        base=PromptText.from_contents(
            "You help.\n# Rules\n- Be short.\n- Say hello.\n\n# More\n- Sign it.\n{{input}}"
        ),
    ),
    "a release that helps half": lambda: released(
        HEALTHY.full_text, passes=half_helping, propose=lambda *_: []
    ),
    "a release, few calls": lambda: released(
        HEALTHY.full_text,
        policy=RefinePolicy(limits=RunLimits(calls=96)),
        propose=lambda *_: [],
    ),
    "no release helps": lambda: released(without("json", "short").full_text),
    "people": lambda: world(without("json"), feedback="2 labels of people say it fails"),
    "criticised": lambda: world(
        without("json"),
        critics=frozenset({"rules"}),
        critique=lambda _: CritiqueResult(
            critique=Critique(kind="missing", hypothesis="no line says it", author="critic"),
            spending=Spending(model_calls=1, usd=0.02),
            refused="a first reply was odd",
        ),
    ),
    "few calls": lambda: stingy(98),
    "more calls": lambda: stingy(120),
    "helps half": lambda: world(without("json"), passes=half_helping),
    "without holdout": lambda: world(without("json", "short"), holdout=()),
    "goal, settled by more trials": lambda: world(without("json"), goals=(goal("json", 0.9),)),
    "goals, three": lambda: world(
        without("json", "utc"), goals=(goal("json", 0.9), goal("utc", 0.9), goal("utc", 0.99))
    ),
    "goal, lax": lambda: world(HEALTHY, goals=(goal("utc", 0.5),), passes=utc_fails_often(0.25)),
    "goal, strict": lambda: world(HEALTHY, goals=(goal("utc", 0.9),), passes=utc_fails_often(0.25)),
    "goal of few cases": lambda: world(
        without("utc"), goals=(goal("utc", 0.8, (*TRAIN[:4], *HOLDOUT)),)
    ),
    "unmeasured by the gate": lambda: world(
        without("json"), says=lambda _: decision("unmeasured", ())
    ),
    "worse by a judge": worse_by_a_judge,
    "interrupted in the gate": lambda: world(
        without("json"), told={6: Interrupted(reason="interrupted", text="Ctrl-C")}
    ),
    "no verdict on a held-out case": lambda: world(
        without("json"), says_of=lambda case, _: case != HOLDOUT[0]
    ),
    "text removed": lambda: removing(refuses=lambda _: False),
    "removal refused by the gate": lambda: removing(refuses=lambda _: True),
    "removal of frozen text": lambda: removing(frozen=["- Be kind."]),
    "overfit": lambda: world(
        without("json", "utc"),
        passes=lambda text, case, check: (
            passes(text, case, check) and not (check == "utc" and case in HOLDOUT)
        ),
    ),
}


def note_line(note: Note) -> str:
    numbers = ", ".join(f"{name} {shown(number)}" for name, number in note.numbers.items())
    return f"{note.event}: {note.text}" + (f" [{numbers}]" if numbers else "")


def shown(value: object) -> str:
    """A value without the digits that another machine may compute otherwise."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def asides(here: World, step: LoopState) -> Iterator[str]:
    """What the steps of a phase rest on, whatever they decide."""
    if step.phase == "propose" and not step.accepted:
        for mode in step.open_modes:
            yield f"    can be confirmed: {can_confirm(step, mode)}"
            yield f"    {underpowered_text(step, mode)}"
    if step.phase in {"propose", "confirm", "holdout", "suite", "fresh"}:
        more = calls_wanted(step)
        yield f"    {more} calls more would do, of {calls_left(step)} left"
    if step.phase == "fresh":
        for edit in step.accepted:
            seen, unseen = split_cases(step, edit)
            odds = generalisation_ratio(step, edit, seen, unseen)
            yield f"    odds {odds:.4g}: {describe_sides(step, edit, seen, unseen)}"


def transcript(here: World, state: LoopState) -> str:
    """Each step with its phase and calls so far, and the end."""
    lines: list[str] = []
    for step in here.states:
        cases = f", {len(step.pending_cases)} wait" if step.pending_cases else ""
        lines.append(f"{step.phase} after {step.spending.total} calls{cases}")
        lines += [f"    {note_line(note)}" for note in step.notes]
        lines += asides(here, step)
    assert state.stop is not None
    lines.append(f"cycles {state.cycle}, tested {state.tested}, idle {state.idle}")
    lines += [f"tried: {entry.result}, {entry.detail}" for entry in state.memory.attempts]
    for edit in state.accepted:
        found = edit.mode
        lines.append(
            f"accepted: {edit.edit.strategy} for {found.key}, {found.failures} of {found.trials},"
            f" p {found.p_flaky:.4g}, again {found.p_again:.4g}, {found.unsteady}"
        )
        lines += [f"    cases {' '.join(found.cases)}", f"    failing {' '.join(found.failing)}"]
    return "\n".join([*lines, *state.text.full_text.splitlines(), ""])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_as_it_was_written_down(name: str):
    here = RUNS[name]()
    state = here.run()
    assert_as_written(transcript(here, state), f"refine/{name}")


def test_a_run_with_too_few_calls_says_what_more_it_takes():
    here = stingy(95)
    state, _ = to_the_end(here, here.run())
    assert_as_written(transcript(here, state), "refine/calls given on top")


def test_dollars_are_told_as_calls_are():
    here = world(without("json"), RefinePolicy(limits=RunLimits(usd=0.6)), usd=0.01)
    assert_as_written(transcript(here, here.run()), "refine/dollars")
