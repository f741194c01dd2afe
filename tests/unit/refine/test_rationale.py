"""What the rationale of a run says besides its evidence."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.refine.delivery import markdown_of, note_of
from regauge.refine.document import RefinementResult
from regauge.refine.edits import PromptText
from regauge.refine.refinement import changed_inputs, warnings_of
from tests.unit.refine.world import HEALTHY, SHORT, adding, replacing, world

if TYPE_CHECKING:
    from regauge.refine.edits import Edit

COUNT = {"passed": 0, "trials": 0, "cases": 0}
OPEN = {"check": "json", "code": "", "failures": 6, "trials": 9, "cases": ["a"]}
NOTHING: dict[str, Any] = {
    "schema_version": 1,
    "run": "r",
    "prompt": "p",
    "file": "p.prompt.yml",
    "version": "1.0.0",
    "next": "",
    "holdout_looks": {"before": 0, "after": 0, "max": 10},
    "goals": None,
    "criteria": [],
    "edits": [],
    "feedback": None,
    "warnings": [],
    "preflight": [],
    "unverified": None,
    "not_needed": [],
    "stop": {"reason": "no-acceptable-edit", "text": "after 2 cycles", "proposal": False},
    "diagnosis": "json failed 6 of 9",
    "cases": {"train": 3, "holdout": 2},
    "changes": [],
    "revision": None,
    "suite": None,
    "variance": {},
    "rejected": [],
    "unreadable": [],
    "open": [],
    "flaky": [],
    "questions": [],
    "models": ["sim:clerk-1"],
    "simulated": True,
    "usage": {
        "calls": 9,
        "calls_max": 60,
        "replays": 0,
        "completions": 9,
        "judge_calls": 0,
        "model_calls": 0,
        "usd": 0.0,
        "tested": 1,
        "cycles": 2,
    },
}


def rationale(**facts: Any) -> str:
    return markdown_of(RefinementResult.model_validate({**NOTHING, **facts}))


def test_a_check_that_no_edit_moves_is_put_to_a_person():
    def said(**facts: object) -> str:
        return rationale(open=[{**OPEN, **facts}])

    assert "None of 4 edits changed it: can the model do it" in said(
        edit_count=4, has_progress=False
    )
    assert "changed it" not in said(edit_count=4, has_progress=True)
    assert "changed it" not in said(edit_count=0, has_progress=False)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            "regauge refine resume r --budget-calls 40",
            "`regauge refine resume r --budget-calls 40`",
        ),
        ("add golden cases", "add golden cases"),
    ],
)
def test_a_run_without_a_proposal_ends_with_the_next_step(step: str, said: str):
    assert rationale(next=step).endswith(f"Run `r`.\n\nNext: {said}\n")


def test_only_what_was_touched_is_named_as_changed():
    began = {
        "options": {"usd": 1.0},
        "judges": {"a": "1"},
        "criteria": {"test": {}, "guard": {}, "checks": {"a": "format"}},
        "goals": {"digest": "1"},
    }
    judged = {**began, "judges": {"b": "2"}, "goals": {"digest": "2"}}
    judged["criteria"] = {"test": {}, "guard": {}, "checks": {"b": "format"}}
    assert changed_inputs(began, judged) == ["judges"]
    assert changed_inputs(began, {**began, "goals": {"digest": "2"}}) == ["goals"]
    assert changed_inputs(began, {**began, "options": {"usd": 2.0}}) == []
    stricter = {**judged, "criteria": {**judged["criteria"], "test": {"alpha": 1}}}
    assert changed_inputs(began, stricter) == ["judges", "criteria"]


def test_what_a_prompt_says_twice_is_told_before_anything_is_tried():
    base = PromptText.from_contents(
        f"{HEALTHY.full_text}\n{SHORT}\n- Never answer long times in JSON format."
    )
    base = PromptText.from_contents(base.full_text + "\n- Answer long times in JSON format.")
    here = world(base)
    here.run()

    notes = [note for state in here.states for note in state.notes]
    twice, clash = (note.text for note in notes if note.event == "preflight")
    assert twice == "'Be short.' is repeated"
    assert clash.endswith("may contradict 'Never answer long times in JSON format.'")
    mind = rationale(warnings=["w"], preflight=["twice"])
    assert "- Note: w.\n- Note: twice." in mind


def test_a_model_that_proposes_and_judges_is_named():
    judges: Any = {
        "kind": SimpleNamespace(models=("openai:a",)),
        "tone": SimpleNamespace(models=("openai:b", "openai:a")),
        "short": SimpleNamespace(),
    }
    (said,) = warnings_of(judges, "openai:a", critics=True)
    assert said.startswith("openai:a proposes and judges (kind, tone)")
    assert not warnings_of(judges, "openai:c", critics=True)
    assert not warnings_of(judges, "openai:a", critics=False)


def test_held_out_cases_that_are_nearly_worn_out_are_named():
    def said(after: int) -> str:
        return rationale(holdout_looks={"before": 0, "after": after, "max": 10})

    assert "6 revisions were decided on the held-out cases; after 10, `split_salt`" in said(6)
    assert "split_salt" not in said(5)


def test_the_spread_of_verdicts_before_and_after_is_stated():
    sigma = {"outputs": 1.0, "verdicts": 0.8, "cases": 4, "sigma": 0.31}
    sides = {"before": COUNT, "after": COUNT}
    count = {"passed": 0, "trials": 0}
    texts = dict.fromkeys(("before", "after", "failure_mode", "added_text", "removed_text"), "")
    change = {
        **OPEN,
        "added_text": "",
        "removed_text": "",
        "attempt": {**texts, "result": "accepted"},
        "strategy": "add-rule",
        "proposer": "rules",
        "rationale": "",
        "redrawn": None,
        "fresh": {"train": sides, "holdout": sides},
        "fresh_p": 0.002,
        "chosen_by": {"p": 0.001, "before": count, "after": count},
        "calls": 32,
    }
    revision = {"diff": "", "version": "", "why_version": "", "note": "", "growth": 0.0}
    said = rationale(
        changes=[change],
        revision={**revision, "lines_added": 1, "lines_removed": 0},
        variance={"before": sigma, "after": {**sigma, "sigma": 0.05}},
    )
    assert "a case's verdict is 0.31 before and 0.05 after, over all checks" in said


def test_what_people_said_is_words_and_whether_a_model_was_told_is_said():
    said = {"author": "ada", "location": "https://x/1", "text": "Too long. @all\n# Accept `it`"}
    feedback = {"summary": "14 comments", "remarks": [said, *[{**said, "author": ""}] * 13]}

    told = rationale(feedback=feedback)

    assert "## Feedback\n\n14 comments. Unused: no refiner model was called" in told
    assert "- ada: Too long. &#64;&#8203;all &#35;&#8203; Accept &#96;it&#96;\n- https" in told
    assert "- and 2 more, in the audit trail" in told
    spending = {**NOTHING["usage"], "model_calls": 3}
    told = rationale(feedback=feedback, usage=spending)
    assert "Shown to the refiner model. Feedback decides nothing." in told


def test_flaky_checks_that_were_worked_on_are_told_apart_and_edits_by_what_they_replace():
    flaky = [{**OPEN, "edit_count": 2}, {**OPEN, "check": "utc", "edit_count": 0}]
    names = ("before", "after", "places", "proposer", "strategy", "ops", "removed_text")
    one: dict[str, Any] = {
        **dict.fromkeys(names, ""),
        "result": "refuted",
        "failure_mode": "json",
        "detail": "no gain",
        "added_text": "- A.",
        "cycle": 1,
        "earlier": False,
    }
    rejected = [
        one,
        {**one, "removed_text": "- B."},
        {**one, "added_text": "", "removed_text": "- C."},
    ]
    said = rationale(flaky=flaky, rejected=rejected)
    assert "## Flaky, and worked on\n\n- `json` failed" in said
    assert "## Flaky, and left alone\n\n- `utc` failed" in said
    assert "no gain (`- A.`)\n" in said
    assert "no gain (`- A.` instead of `- B.`)" in said
    assert "no gain (without `- C.`)" in said


@pytest.mark.parametrize(
    ("edit", "note"),
    [
        (adding("- A."), "Add a rule for json"),
        (adding("- A.\n  - B.\n\n  - C."), "Add a rule for json"),
        (replacing("- A.", "- B."), "Reword a rule for json"),
        (replacing("- A.", "- B.\n- C."), "Reword a rule for json"),
    ],
)
def test_the_changelog_says_what_an_edit_does(edit: Edit, note: str):
    one: Any = SimpleNamespace(
        mode=SimpleNamespace(check="json"), edit=replace(edit, strategy="model-add")
    )
    assert note_of(one) == note
