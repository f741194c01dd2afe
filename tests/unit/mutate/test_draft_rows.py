"""The drafts that rules make for an instruction, and what a search finds, case by case."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import GoldenCase
from regauge.digests import digest_of
from regauge.errors import BudgetError, MissingRecordingError, ProviderError, UsageError
from regauge.gate import TrialFacts
from regauge.mutate import (
    Draft,
    GuardSuggestion,
    JudgedTrial,
    MutationProgress,
    UnguardedInstruction,
    VariantProposer,
    add_cases,
    choose_operators,
    mutants_of,
    suggest,
)
from regauge.mutate._suggest import DraftTrials
from tests.transcripts import assert_as_written
from tests.unit.mutate.test_suggest import PROMPT, row_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from regauge.digests import JSON
    from regauge.mutate import DraftRunner
    from regauge.prompts import Prompt


def golden(number: int, inputs: Any, expected: JSON = None, *checks: JSON) -> GoldenCase:
    """A case; of a text its only input."""
    return GoldenCase(
        id=f"case-{number}",
        inputs=inputs if isinstance(inputs, dict) else {"text": inputs},
        expected=expected,
        checks=checks,
        split="train",
    )


def problem_of(
    instruction: str, cases: Sequence[GoldenCase], changed: tuple[str, ...] = ()
) -> UnguardedInstruction:
    """The instruction that the first message of the prompt ends with."""
    system = replace(PROMPT.messages[0], content=f"Sort tickets.\n{instruction}")
    prompt = replace(PROMPT, messages=(system, *PROMPT.messages[1:]))
    mutant = list(mutants_of(prompt, choose_operators(None)))[-1]
    return UnguardedInstruction(
        prompt=prompt,
        mutant=mutant,
        row=row_of(mutant, changed),
        nearest={case.id: case for case in cases},
        used_inputs=frozenset(),
    )


def trial(output: str, passed: bool | None = True) -> JudgedTrial:  # noqa: FBT001, FBT002 - a value
    return JudgedTrial(facts=TrialFacts(checks={"label": passed}, output_digest=""), output=output)


TICKET = golden(1, "The page is blank. It was fine at 9. Where is my invoice?", {"kind": "bug"})
SENTENCES = [
    TICKET,
    golden(2, "I pay 20 euros.", {"kind": "billing"}),
    golden(3, {"text": "a", "n": 3}),
]
# Each with the instruction, the cases, and the outputs of the prompt and of the mutant, by trial.
SCENARIOS: dict[str, tuple[str, list[GoldenCase], list[str], list[str]]] = {
    "a definition": ("- bug: an error message, a crash or a blank page.", SENTENCES, ["a"], ["b"]),
    "a definition of one": (
        "- bug: the page that was opened stays blank.", SENTENCES, ["a"], ["b"],
    ),
    "a label of no case": ("- praise: a thank you or a kind word.", SENTENCES, ["a"], ["b"]),
    "a condition": ("- an invoice of more than 10 euros is late", SENTENCES, ["a"], ["b"]),
    "a short condition": ("- it is late", SENTENCES, ["a"], ["b"]),
    "an order": ("- Name the invoice.", SENTENCES, ["a"], ["b"]),
    "a limit": ("Urgent from 30 euros on, never below 0.", SENTENCES, ["a"], ["b"]),
    "the same output": ("- Name the invoice.", SENTENCES, ['{"a": 1}'], ['{"a":  1}']),
    "code": (
        "- Name the disk.",
        [golden(1, {"cmd": "df -h | grep sda1 > out.txt", "note": "A disk. It is full."})],
        ["a"], ["b"],
    ),
    "code alone": ("- Name the disk.", [golden(1, "a=b; c=d; {{x}} [1]")], ["a"], ["b"]),
    "an expectation": (
        "- Name the invoice.",
        [golden(1, "It is late. The invoice is wrong.", {"kind": "bug", "team": "web"})],
        ['{"kind": "billing", "team": "web"}', '{"kind": "billing", "team": "app"}'],
        ['{"kind": "bug"}'],
    ),
    "an expectation that the mutant meets once": (
        "- Name the invoice.",
        [golden(1, "It is late. The invoice is wrong.", {"kind": "bug"})],
        ['{"kind": "billing"}'],
        ['{"kind": "bug"}', '{"kind": "billing"}'],
    ),
    "a text expected": (
        "- Name the invoice.", [golden(1, "It is late. The invoice is wrong.", "a bug")],
        [" billing of four words "], ["bug"],
    ),
    "a longer text": (
        "- Name the invoice.", [golden(1, "It is late. The invoice is wrong.", "bug")],
        ["one two three four five"], ["bug"],
    ),
    "keys": (
        "- Name the invoice.", SENTENCES[:1],
        ['{"kind": "bug", "a b": 1, "of": {"ids": [1, 2]}}'], ['{"kind": "bug"}'],
    ),
    "values": (
        "- Name the invoice.", SENTENCES[:1],
        ['{"kind": "bug", "n": 1, "m": 1, "done": true}', '{"kind": "bug", "n": 1, "m": 2, "done": true}'],
        ['{"kind": "billing", "n": 2, "m": 3, "done": true}'],
    ),
    "words": (
        "- Name the invoice in at most 4 words.", SENTENCES[:1],
        ['{"kind": "bug", "reason": "the invoice is blank"}', '{"kind": "bug", "reason": "an invoice is late"}'],
        ['{"kind": "bug", "reason": "sorry but it is all wrong"}', '{"kind": "bug", "reason": "sorry for a page so blank"}'],
    ),
    "more words": (
        "- Use at least 3 words.", SENTENCES[:1],
        ["it's done now", "all is done"], ["done", "done so"],
    ),
    "no object": ("- Answer in JSON.", SENTENCES[:1], ['```json\n{"a": 1}\n```'], ["a is 1"]),
    "an object at times": ("- Answer in JSON.", SENTENCES[:1], ['{"a": 1}', "a"], ["a is 1"]),
    "a list": ("- Answer in JSON.", SENTENCES[:1], ['[{"a": "x y"}]'], ['[{"a": "x z"}]']),
    "checks": (
        "- Name the invoice.",
        [golden(1, "It is late. The invoice is wrong.", "x", {"max_chars": 9})],
        ["yes indeed"], ["no never"],
    ),
}  # fmt: skip


def drafts_of(name: str, *, promising: bool, changed: tuple[str, ...]) -> list[str]:
    instruction, cases, prompt_outputs, mutant_outputs = SCENARIOS[name]
    problem = problem_of(instruction, cases, changed)
    ran: list[int] = []

    async def run_draft(draft: Draft, trials: int = 1) -> DraftTrials:
        ran.append(trials)
        if draft.inputs.get("text") == "20":
            raise UsageError("its checks make no sense")
        return DraftTrials(
            prompt=tuple(trial(prompt_outputs[n % len(prompt_outputs)]) for n in range(trials)),
            mutant=tuple(
                trial(mutant_outputs[n % len(mutant_outputs)], not promising) for n in range(trials)
            ),
        )

    async def collect() -> list[Draft]:
        return [draft async for draft in VariantProposer().drafts(problem, run_draft)]

    lines: list[str] = []
    for draft in asyncio.run(collect()):
        parts: dict[str, JSON] = {"expected": draft.expected}
        parts |= {"checks": list(draft.checks)} if draft.checks else {}
        about = " ".join(filter(None, (draft.like, draft.existing and "as it is", draft.reason)))
        lines.append(f"{json.dumps(dict(draft.inputs), ensure_ascii=False)} {json.dumps(parts)}")
        lines.append(f"    like {about}")
    return [*lines, f"ran {len(ran)} drafts, {sum(ran)} trials"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_rules_make_the_drafts_that_were_written_down(name: str):
    lines: list[str] = []
    for promising, changed in ((False, ()), (True, ("case-1", "gone", "case-2", "case-3"))):
        lines.append(f"promising {promising}, changed {', '.join(changed) or 'none'}")
        lines += drafts_of(name, promising=promising, changed=changed)
    assert_as_written("\n".join([*lines, ""]), f"drafts/{name}")


@dataclass
class Bench:
    """Answers by side, number of the trial and text of the draft.

    Attributes:
        texts: The texts of drafts in the order of their first trials.
    """

    rule: Callable[[str, int, str], JudgedTrial | Exception]
    text: str = ""

    async def run_trials(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> list[JudgedTrial | Exception]:
        side = "prompt" if prompt is None else "mutant"
        return [self.rule(side, number, self.text) for _, number in trials]


class Proposer:
    """Proposes these texts, and one of them twice."""

    def __init__(self, *drafts: Draft) -> None:
        self.made = drafts

    async def drafts(
        self, problem: UnguardedInstruction, run_draft: DraftRunner
    ) -> AsyncGenerator[Draft, None]:
        del problem, run_draft
        for draft in self.made:
            yield draft


def draft(text: str, **more: Any) -> Draft:
    return Draft(inputs={"text": text}, like="case-1", proposer="test", **more)


def usual(side: str, number: int, text: str) -> JudgedTrial:
    """The prompt passes, and the mutant fails with another output."""
    del number
    return trial(f"{side} {text}", side == "prompt")


def late(failing: int, side: str = "prompt") -> Callable[[str, int, str], JudgedTrial]:
    """One side does otherwise in one of the trials that prove."""

    def rule(of: str, number: int, text: str) -> JudgedTrial:
        passed = (of == "prompt") is not (of == side and number % 5 == failing and number >= 5)
        return trial(f"{of} {text}", passed)

    return rule


def raising(error: Exception, at: int = 0) -> Callable[[str, int, str], JudgedTrial | Exception]:
    return lambda side, number, text: error if number >= at else usual(side, number, text)


ONE, TWO = draft("sda"), draft("sdb")
MANY = [draft(f"disk {number}") for number in range(30)]
SEARCHES: dict[str, tuple[Callable[[str, int, str], JudgedTrial | Exception], Sequence[Draft]]] = {
    "proven": (usual, [ONE, TWO]),
    "the first is used": (usual, [draft("known"), TWO]),
    "an existing case": (usual, [draft("known", existing="case-1")]),
    "twice": (late(0), [ONE, ONE]),
    "the prompt fails the first that proves": (late(0), [ONE]),
    "the prompt fails the last that proves": (late(4), [ONE]),
    "the mutant passes the third that proves": (late(2, "mutant"), [ONE, TWO]),
    "never proven": (late(1), MANY),
    "never promising": (lambda _, __, text: trial(text, passed=True), MANY),
    "the prompt fails": (lambda _, __, text: trial(text, passed=False), [ONE]),
    "nothing judged": (lambda _, __, text: trial(text, passed=None), [ONE]),
    "no draft": (usual, []),
    "no budget": (raising(BudgetError("no calls are left")), [ONE]),
    "no budget to prove": (raising(BudgetError("no calls are left"), 5), [ONE]),
    "an outage": (raising(ProviderError("it is down\n  see its page", kind="server")), [ONE]),
    "a crash": (raising(UsageError("its checks make\nno sense")), [ONE, TWO]),
    "not recorded": (raising(MissingRecordingError(
        prompt="triage", case="case-1", trial=0, stale=False)), [ONE]),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_finds_what_was_written_down(name: str):
    rule, drafts = SEARCHES[name]
    problem = problem_of("- Name the disk.", [golden(1, "known"), golden(2, "other")])
    problem = replace(problem, used_inputs=frozenset({digest_of({"text": "known"})}))
    lines: list[str] = []
    for proposers in ([Proposer(*drafts)], [Proposer(), Proposer(*drafts)]):
        progress = MutationProgress()
        [found] = asyncio.run(
            suggest(
                [problem],
                proposers,
                lambda draft: Bench(rule, str(draft.inputs["text"])),
                progress,
            )
        )
        what = found.draft and dict(found.draft.inputs)
        unmeasured = ", unmeasured" if found.unmeasured else ""
        lines.append(f"{found.status}{unmeasured}: {found.reason or what}, {found.calls} calls")
        lines.append(f"    {found.judges} {found.output!r} / {found.mutant_output!r}")
        lines.append(f"    {progress.done} of {progress.mutants}, {progress.calls} calls")
    assert_as_written("\n".join([*lines, ""]), f"searches/{name}")


LIKES = {
    "plain": golden(1, "known"),
    "marked": replace(
        golden(1, "known", "x", {"max_chars": 9}, {"min_chars": 1}),
        tags=("disks", "review", "hot"),
        pass_at=0.5,
        split="holdout",
        source="ticket 7",
        licence="CC0",
        tier="critical",
    ),
}


@pytest.mark.parametrize("name", LIKES)
def test_an_offered_case_is_the_line_that_was_written_down(name: str):
    like = LIKES[name]
    drafts = [
        draft("new"),
        draft("full", expected={"kind": "bug"}, checks=like.checks, reason="it is why"),
        draft("checked", expected="y", checks=(*like.checks, {"contains": "a"})),
        draft("known", existing="case-1", checks=({"contains": "a"},)),
        draft("new", expected="z"),
    ]
    row = problem_of("- Name the disk.", [like]).row
    offered = [
        GuardSuggestion(row=row, status="offered", draft=made, judges=("label",), output="o")
        for made in drafts
    ]
    ids = {"case-1", f"guards-{row.id}", f"guards-{row.id}-2"}
    lines = [
        f"{one.status} {one.reason} {json.dumps(one.case, ensure_ascii=False)}"
        for one in add_cases(offered, {"case-1": like}, ids)
    ]
    assert_as_written("\n".join([*lines, ""]), f"searches/offered {name}")
