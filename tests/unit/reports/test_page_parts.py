"""Parts of HTML pages: their titles, and texts that cannot reorder or hide others."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from markupsafe import Markup

from regauge.gate import CANDIDATE_FIRST
from regauge.reports.html._page import _finalize
from regauge.reports.html._source import GoldenFile, golden_of, pass_counts
from regauge.reports.mutants import score_text


@pytest.mark.parametrize(
    ("value", "text", "missing"),
    [
        (0.5, "2 of 4 instructions guarded, 50 % (95 % interval 20 to 80 %)", None),
        (0.5, "2 of 4 instructions guarded, 50 % (95 % interval 20 to 80 %)", 2),
        (None, "no mutants", None),
        (0.0, "4 instructions, none measured", 6),
    ],
)
def test_the_title_of_a_mutation_report_states_what_is_guarded(
    value: float | None, text: str, missing: int | None
):
    report: Any = SimpleNamespace(
        score=SimpleNamespace(value=value, low=0.2, high=0.8, killed=2, total=4),
        missing=None if missing is None else SimpleNamespace(mutants=missing),
        mutants=[None] * 6,
    )
    assert score_text(report) == text


@pytest.mark.parametrize(
    ("fields", "on_page"),
    [
        ({"expected": None}, {}),
        ({"expected": False}, {"expected": False}),
        ({"expected": ""}, {"expected": ""}),
        ({"expected": {"severity": "P1"}}, {"expected": {"severity": "P1"}}),
        ({"expected": None, "checks": ("is_json",)}, {"checks": ["is_json"]}),
        ({"expected": None, "source": "", "licence": "MIT"}, {"licence": "MIT"}),
        ({"expected": 0, "note": "slow", "source": "a"}, {"expected": 0, "note": "slow", "source": "a"}),
    ],
)  # fmt: skip
def test_the_page_of_a_case_has_the_fields_that_its_golden_case_sets(
    made: Any, fields: dict[str, Any], on_page: dict[str, Any]
):
    case = replace(made.case(0), location="x.jsonl:1", **fields)
    always = {"inputs": dict(case.inputs), "location": "x.jsonl:1"}
    file = GoldenFile(cases={"c0": case})
    assert golden_of(file, "c0", case.digest) == always | on_page
    changed = "The case was changed after this run; this is its current state."
    assert golden_of(file, "c0", "another") == always | on_page | {"problem": changed}


def test_the_page_of_a_case_without_a_golden_case_states_the_reason():
    removed = "The case 'c0' is no longer in the golden cases."
    assert golden_of(GoldenFile(cases={}), "c0", "") == {"problem": removed}
    unread = GoldenFile(cases={}, problem="no such file")
    assert golden_of(unread, "c0", "") == {"problem": "no such file"}


def test_texts_of_a_page_reorder_and_hide_nothing():
    assert _finalize("a\u202eb\x1b[31m") == "a\\u202eb\\x1b[31m"
    markup = Markup("<b>\u202e</b>")
    assert _finalize(markup) is markup
    assert [_finalize(value) for value in (3, None)] == [3, None]


def test_cases_that_passed_are_those_of_the_first_model_and_of_first_trials():
    def suite(prompt: str, model: str, passed: int, cases: int, unmeasured: int = 0) -> Any:
        return SimpleNamespace(
            prompt=prompt, model=model, passed=passed, cases=cases, unmeasured=unmeasured,
            comparison=None if prompt == "b" else object(),
        )  # fmt: skip

    suites = [
        suite("a", "m1", 3, 5, 1), suite("a", "m2", 9, 9), suite("a", "m1", 1, 2), suite("b", "m2", 0, 1),
    ]  # fmt: skip
    plain: Any = SimpleNamespace(decision=None, awaits_decision=False, evals=suites)
    assert pass_counts(plain, []) == {"a": (4, 6), "b": (0, 1)}
    rows = [
        {"prompt": prompt, "side": side, "trial": trial, "outcome": outcome}
        for prompt, side, trial, outcome in [
            ("a", "candidate", CANDIDATE_FIRST, "passed"),
            ("a", "candidate", CANDIDATE_FIRST, "failed"),
            ("a", "candidate", CANDIDATE_FIRST + 1, "passed"),
            ("a", "base", CANDIDATE_FIRST, "passed"),
            ("a", "candidate", CANDIDATE_FIRST, "unmeasured"),
            ("b", None, 0, "failed"),
        ]
    ]
    gate: Any = SimpleNamespace(decision="accept", evals=suites)
    assert pass_counts(gate, rows) == {"a": (1, 2), "b": (0, 1)}
