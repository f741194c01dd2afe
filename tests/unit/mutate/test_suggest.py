"""A case is offered by fresh trials alone: the prompt passes all of them, the mutant none."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import example, given, strategies as st

from regauge.datasets import GoldenCase
from regauge.errors import BudgetError, UsageError
from regauge.gate import TrialFacts
from regauge.model_id import ModelId
from regauge.mutate import (
    Case,
    Draft,
    JudgedTrial,
    ModelCaseProposer,
    MutantRow,
    MutationProgress,
    VariantProposer as Rules,
    add_cases,
    choose_operators,
    find_unguarded,
    mutants_of,
    suggest,
)
from regauge.prompts import Message, Prompt
from regauge.providers import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from regauge.digests import JSON
    from regauge.mutate import (
        DraftProposer,
        DraftRunner,
        GuardSuggestion,
        Mutant,
        UnguardedInstruction,
    )
    from regauge.providers import CompletionRequest

PROMPT = Prompt(
    name="triage",
    path=Path("triage.prompt.yml"),
    messages=(
        Message(role="system", content="- Name the disk.\n- Greet the reader."),
        Message(role="user", content="{{text}}"),
    ),
)
GOLDEN = GoldenCase(
    id="full",
    inputs={"text": "The disk is full."},
    expected={"severity": "critical"},
    split="train",
)


TWO_SENTENCES = replace(GOLDEN, inputs={"text": "The disk sda1 is full. It is a drill on a node."})


@dataclass
class Scripted:
    """Draws trials by a rule of the side and of the number."""

    rule: Callable[[str, int], bool]
    drawn: list[tuple[str, int]]

    async def run_trials(
        self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
    ) -> list[JudgedTrial | Exception]:
        found: list[JudgedTrial | Exception] = []
        for _, number in trials:
            side = "prompt" if prompt is None else "mutant"
            self.drawn.append((side, number))
            passed = self.rule(side, number)
            facts = TrialFacts(checks={"label": passed}, output_digest=str(passed))
            found.append(
                JudgedTrial(facts=facts, output=json.dumps({"label": passed, "trial": number}))
            )
        return found


def as_wanted(side: str, number: int) -> bool:
    """The prompt passes each trial, the mutant none."""
    del number
    return side == "prompt"


class Drafts:
    """Proposes the same drafts for each instruction."""

    def __init__(self, *texts: str, expected: JSON = None) -> None:
        self.made = [
            Draft(inputs={"text": text}, expected=expected, like="full", proposer="test")
            for text in texts
        ]

    async def drafts(
        self, problem: UnguardedInstruction, look: DraftRunner
    ) -> AsyncGenerator[Draft, None]:
        del problem, look
        for draft in self.made:
            yield draft


def row_of(mutant: Mutant, cases: Sequence[str] = ()) -> MutantRow:
    """The row of a mutant without effect."""
    return MutantRow.model_validate(
        {
            "id": mutant.id,
            "operator": mutant.operator,
            "line": 1,
            "span": {"part": "messages[0]", "start": 0, "end": 1},
            "text": mutant.text,
            "class": "no-effect",
            "cases": cases,
        }
    )


def problems(*golden_cases: GoldenCase) -> list[UnguardedInstruction]:
    mutants = mutants_of(PROMPT, choose_operators(None))
    rows = [row_of(mutant) for mutant in mutants]
    golden = {case.id: case for case in golden_cases or [GOLDEN]}
    cases = [
        Case(key=key, text=str(case.inputs), checks=("label",)) for key, case in golden.items()
    ]
    return find_unguarded(PROMPT, mutants, rows, cases, golden)


def search(bench: Scripted, proposer: DraftProposer, which: int = 0) -> GuardSuggestion:
    found = asyncio.run(
        suggest(problems()[which : which + 1], [proposer], lambda _: bench, MutationProgress())
    )
    return found[0]


@given(st.frozensets(st.tuples(st.sampled_from(["prompt", "mutant"]), st.integers(-1, 4))))
@example(frozenset())
def test_a_case_is_offered_only_by_five_of_five_fresh_trials(
    otherwise: frozenset[tuple[str, int]],
):
    first = min(number for _, number in proving(Drafts("sda")))

    def rule(side: str, number: int) -> bool:
        usual = side == "prompt"
        return usual is not ((side, max(-1, number - first)) in otherwise)

    found = search(Scripted(rule, []), Drafts("sda"))
    assert (found.status == "offered") == (not otherwise)
    assert (found.draft is not None) == (not otherwise)


def proving(proposer: DraftProposer) -> list[tuple[str, int]]:
    """The trials of an offered case that did not choose it."""
    bench = Scripted(as_wanted, [])
    assert search(bench, proposer).status == "offered"
    return [one for one in bench.drawn if one[1] > 0]


def test_five_fresh_trials_run_on_each_side():
    drawn = proving(Drafts("sda"))
    assert len({*drawn}) == len(drawn) == 10
    assert [side for side, _ in drawn].count("mutant") == 5


def test_an_offered_case_shows_the_outputs_of_its_first_fresh_trial():
    first = min(number for _, number in proving(Drafts("sda")))
    found = search(Scripted(as_wanted, []), Drafts("sda"))
    assert found.judges == ("label",)
    assert json.loads(found.output) == {"label": True, "trial": first}
    assert json.loads(found.mutant_output) == {"label": False, "trial": first}


def test_a_later_draft_is_proven_by_trials_of_its_own():
    fresh: list[int] = []

    def rule(side: str, number: int) -> bool:
        if number > 0 and number not in fresh:
            fresh.append(number)
        # The first draft fails its fresh trials.
        is_first = number in fresh[:2]
        return as_wanted(side, number) is not is_first

    found = search(Scripted(rule, []), Drafts("sda", "sdb"))
    assert found.draft is not None
    assert found.draft.inputs == {"text": "sdb"}
    assert fresh == sorted(fresh)


def test_a_draft_repeats_no_case():
    bench = Scripted(as_wanted, [])
    found = search(bench, Drafts("The disk is full."))
    assert found.status == "none"
    assert "repeat" in found.reason
    assert not bench.drawn


@pytest.mark.parametrize(
    ("passes", "reason"),
    [(True, "without the text 1 of 1 pass"), (False, "the prompt fails 1 of 1")],
)
def test_the_reason_of_a_search_without_a_case_is_that_of_its_draft(*, passes: bool, reason: str):
    found = search(Scripted(lambda *_: passes, []), Drafts("sda"))
    assert (found.status, found.draft, found.reason) == ("none", None, reason)


def test_a_draft_that_cannot_run_is_passed_over():
    bench = Scripted(as_wanted, [])
    drafts = Drafts("sda", "sdb")

    def bench_of(draft: Draft) -> Scripted:
        if draft.inputs == {"text": "sda"}:
            raise UsageError("its checks make no sense")
        return bench

    [found] = asyncio.run(suggest(problems()[:1], [drafts], bench_of, MutationProgress()))
    assert found.draft == drafts.made[1]


def test_a_search_without_budget_stays_open():
    class Empty(Scripted):
        async def run_trials(
            self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
        ) -> list[JudgedTrial | Exception]:
            del prompt
            return [BudgetError("no calls are left") for _ in trials]

    found = search(Empty(lambda *_: True, []), Drafts("sda"))
    assert (found.status, found.unmeasured) == ("undecided", False)


def test_cases_are_marked_and_have_free_ids():
    offered = [search(Scripted(as_wanted, []), Drafts("sda"), which) for which in range(2)]
    taken = f"guards-{offered[0].row.id}"
    found = add_cases(offered, {"full": GOLDEN}, {"full", taken})
    cases = [one.case for one in found]
    assert cases[0] is not None
    # One case guards both instructions.
    assert cases[0] == cases[1]
    assert cases[0]["id"] == f"{taken}-2"
    assert cases[0]["tags"] == ["review"]
    assert "Name the disk" in str(cases[0]["note"])


def test_cases_with_the_same_inputs_and_another_expectation_are_not_both_offered():
    bench = Scripted(as_wanted, [])
    one = search(bench, Drafts("sda", expected="a"), 0)
    other = search(bench, Drafts("sda", expected="b"), 1)
    found = add_cases([one, other], {"full": GOLDEN}, {"full"})
    assert [one.status for one in found] == ["offered", "none"]


def test_a_case_after_one_that_is_held_out_is_held_out():
    held = replace(GOLDEN, split="holdout")
    offered = search(Scripted(as_wanted, []), Drafts("sda"))
    [found] = add_cases([offered], {"full": held}, {"full"})
    assert found.case is not None
    assert found.case["split"] == "holdout"


@pytest.mark.parametrize(
    ("base", "mutant", "check"),
    [
        ('{"severity": "critical", "reason": "a"}', '{"severity": "critical"}', "has_keys"),
        ('{"severity": "critical", "n": 1}', '{"severity": "critical", "n": 2}', "field_equals"),
        ('{"severity": "critical"}', "critical", "json_parses"),
        (
            '{"severity": "critical", "reason": "the disk sda is full"}',
            '{"severity": "critical", "reason": "it is all very full"}',
            "contains",
        ),
        (
            '{"severity": "critical", "reason": "it is full"}',
            '{"severity": "critical", "reason": "sorry it is full"}',
            "not",
        ),
    ],
)
def test_rules_find_the_check_that_sees_the_difference(base: str, mutant: str, check: str):
    class Outputs(Scripted):
        async def run_trials(
            self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
        ) -> list[JudgedTrial | Exception]:
            facts = TrialFacts(checks={"label": True}, output_digest="")
            output = base if prompt is None else mutant
            return [JudgedTrial(facts=facts, output=output) for _ in trials]

    met: list[Draft] = []

    def bench_of(draft: Draft) -> Scripted:
        met.append(draft)
        return Outputs(lambda *_: True, [])

    [problem, *_] = problems(TWO_SENTENCES)
    changed = replace(problem, row=problem.row.model_copy(update={"cases": ("full", "gone")}))
    asyncio.run(suggest([changed], [Rules()], bench_of, MutationProgress()))
    for drafts in (met, [draft for draft in met if draft.existing == "full"]):
        assert {next(iter(one)) for draft in drafts for one in map(dict, draft.checks)} >= {check}


def test_rules_pass_over_a_variant_that_cannot_run():
    met: list[Draft] = []

    def bench_of(draft: Draft) -> Scripted:
        met.append(draft)
        if len(met) == 1:
            raise UsageError("its checks make no sense")
        return Scripted(as_wanted, [])

    found = asyncio.run(
        suggest(problems(TWO_SENTENCES)[:1], [Rules()], bench_of, MutationProgress())
    )
    assert [one.draft for one in found] == [met[1]]


def variants(instruction: str, *texts: str, label: str = "bug") -> list[str]:
    """The inputs that rules make of cases for an instruction."""
    golden = {
        str(number): GoldenCase(
            id=str(number), inputs={"text": text}, expected={"kind": label}, split="train"
        )
        for number, text in enumerate(texts)
    }
    prompt = replace(
        PROMPT, messages=(replace(PROMPT.messages[0], content=instruction), PROMPT.messages[1])
    )
    [mutant] = mutants_of(prompt, choose_operators(None))
    row = MutantRow.model_validate(
        {
            "id": mutant.id,
            "operator": mutant.operator,
            "line": 1,
            "span": {"part": "messages[0]", "start": 0, "end": 1},
            "text": mutant.text,
            "class": "no-effect",
        }
    )
    cases = [
        Case(key=key, text=str(case.inputs["text"]), checks=("label",))
        for key, case in golden.items()
    ]
    met: list[Draft] = []

    def bench_of(draft: Draft) -> Scripted:
        met.append(draft)
        return Scripted(lambda *_: True, [])

    asyncio.run(
        suggest(
            find_unguarded(prompt, [mutant], [row], cases, golden),
            [Rules()],
            bench_of,
            MutationProgress(),
        )
    )
    return list(dict.fromkeys(str(draft.inputs["text"]) for draft in met))


@pytest.mark.parametrize(
    "instruction",
    [
        "You sort tickets by what the customer needs.",
        "- Answer with the kind of the ticket, in one word.",
        "- kind: bug, billing or question.",
        'Example of an answer: {"kind": "billing"}',
    ],
)
def test_rules_put_no_order_to_the_model_into_an_input(instruction: str):
    made = variants(instruction, "The export fails.", "Where is my invoice? The page is blank.")
    assert made
    words = {one.casefold() for text in made for one in text.strip(".?").split()}
    assert not words & {"you", "sort", "answer", "kind", "billing", "example"}
    assert all(len(one.split()) >= 1 for one in made)
    assert "" not in made


def test_rules_exchange_terms_of_a_definition_in_a_case():
    made = variants(
        "- bug: an error message, a crash or a blank page.",
        "After the login I only see a blank page.",
    )
    assert made[:2] == [
        "After the login I only see an error message.",
        "After the login I only see a crash.",
    ]
    assert not [one for one in made if "a crash or" in one.casefold()]


def test_rules_add_a_condition_of_the_instruction_to_a_case():
    made = variants("- a certificate expires in less than 7 days", "The disk sda1 is full.")
    assert "The disk sda1 is full. A certificate expires in less than 7 days." in made


def test_rules_expect_the_output_of_the_prompt():
    class Labels(Scripted):
        async def run_trials(
            self, prompt: Prompt | None, trials: Sequence[tuple[str, int]]
        ) -> list[JudgedTrial | Exception]:
            label = "info" if prompt is None else "critical"
            facts = TrialFacts(checks={"label": prompt is not None}, output_digest="")
            output = json.dumps({"severity": label})
            return [JudgedTrial(facts=facts, output=output) for _ in trials]

    met: list[Draft] = []

    def bench_of(draft: Draft) -> Scripted:
        met.append(draft)
        return Labels(lambda *_: True, [])

    asyncio.run(suggest(problems(TWO_SENTENCES)[:1], [Rules()], bench_of, MutationProgress()))
    assert {"severity": "info"} in [draft.expected for draft in met if not draft.checks]


def model_requests(*responses: object, cases: Sequence[GoldenCase] = ()) -> list[CompletionRequest]:
    """The requests to a model that answers in this way, and whose cases guard nothing."""
    requests: list[CompletionRequest] = []

    async def call_model(request: CompletionRequest) -> Completion:
        requests.append(request)
        text = json.dumps(responses[len(requests) - 1])
        return Completion(text=text, finish_reason="stop", usage=Usage(), model="m", provider="p")

    proposer = ModelCaseProposer(
        model=ModelId(provider="p", model="m"), call_model=call_model, judges=("label",)
    )
    bench = Scripted(lambda *_: True, [])
    found = suggest(problems(*cases)[:1], [proposer], lambda _: bench, MutationProgress())
    assert asyncio.run(found)[0].status == "none"
    return requests


def drafted(*texts: str) -> dict[str, object]:
    return {"cases": [{"inputs": {"text": text}, "why": "so"} for text in texts]}


def test_a_model_is_asked_once_more_with_the_results_of_its_cases():
    first, second = model_requests(drafted("sda", "sdb"), drafted("sdc"))
    assert (first.trial, second.trial) == (0, 1)
    assert first.parameters["temperature"] < second.parameters["temperature"]
    before, after = ("\n".join(m.content for m in one.messages) for one in (first, second))
    assert "The disk is full." in before
    assert "Judges of every case: label" in before
    assert "sda" not in before
    assert "sda" in after
    assert "sdb" in after
    assert '"with the instruction"' in after
    assert '"failed checks": []' in after
    assert '"without it"' in after
    assert '"passed": true' in after


@pytest.mark.parametrize(
    ("splits", "visible"),
    [
        (("train", "holdout"), {0}),
        (("holdout", "train", "holdout", "train"), {1, 3}),
        (("holdout", "holdout"), {0, 1}),
        (("train",) * 5, {0, 1, 2}),
        (("holdout",) * 5, {0, 1, 2}),
    ],
)
def test_a_model_sees_held_out_cases_only_where_there_are_no_others(
    splits: Sequence[Literal["train", "holdout"]], visible: set[int]
):
    """Three cases at most; a case that the model has seen measures nothing of what it writes."""
    cases = [
        replace(GOLDEN, id=f"c{n}", inputs={"text": f"Disk sd{n} is full."}, split=split)
        for n, split in enumerate(splits)
    ]
    (request,) = model_requests(drafted(), cases=cases)
    text = "\n".join(message.content for message in request.messages)
    assert {n for n in range(len(cases)) if f"Disk sd{n} is full." in text} == visible


def test_a_model_without_a_case_is_not_asked_again():
    assert len(model_requests(drafted())) == 1
