"""Reasons, next steps and diffs of decisions, word for word."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from regauge.evidence import AnchorReport, AuditReport
from regauge.reports._documents import RefusalDocument, RuleDocument
from regauge.reports._gate_console import headline
from regauge.reports._next_step import lasting_fix, next_step
from regauge.reports.decisions import prompt_diff, reasons_of, status_counts, suite_test
from tests.transcripts import assert_as_written
from tests.unit.gate.engine.drive import run
from tests.unit.gate.engine.test_transcripts import SCRIPTED
from tests.unit.reports.test_decisions import a_case, a_decision, a_prompt
from tests.unit.reports.test_transcripts import DECISIONS, RULES, guards, whole_suite

LOST = AnchorReport(version="0.9.0", message="since 0.9.0: -3.0 points", blocks=True)
AUDIT = AuditReport(
    trials=9, better=8, worse=0, p_value=0.001, level=0.01, result="better", prompts=("p",),
)  # fmt: skip
STEPS: dict[str, Any] = {
    "accept, nothing changed": {"decision": "accept", "prompts": [a_prompt(state="unchanged")]},
    "accept, two": {
        "decision": "accept",
        "prompts": [a_prompt(prompt="p (a)"), a_prompt(prompt="p (b)"), a_prompt(prompt="q")],
    },
    "reject, a target": {"prompts": [a_prompt(model="http:x", test=whole_suite("worse"))]},
    "reject, both": {
        "prompts": [a_prompt(model="python:x"), a_prompt(prompt="q (b)", test=whole_suite("worse"))]
    },
    "reject, several": {
        "prompts": [
            a_prompt(prompt=name, test=whole_suite("worse")) for name in ("p (a)", "p", "q")
        ]
    },
    "reject, all steps": {
        "prompts": [a_prompt(rules=RULES, anchor=LOST, guards=[guards(1, "floor")])],
        "audit": AUDIT,
    },
    "reject, agreeing": {"audit": replace(AUDIT, result="base-worse")},
    "undecided": {"decision": "undecided"},
    "undecided, base fails": {"decision": "undecided", "base_unavailable": ["p"]},
    "unmeasured": {"decision": "unmeasured", "unmeasured": [*RULES, *RULES]},
    "unmeasured, open": {
        "decision": "unmeasured",
        "prompts": [a_prompt(guards=[guards(0, "open")])],
    },
}
CASES = {
    "none": [],
    "broken": [a_case()],
    "not blocking": [a_case(blocks=False)],
    "new and removed": [a_case(status="new", blocks=True), a_case(status="removed", blocks=True)],
}


def test_every_decision_has_the_next_step_that_was_written_down():
    lines = [
        f"{name}, {cases}, {missing}, {fix}: {next_step(a_decision(*CASES[cases], **facts), missing, fix=fix)}"
        for name, facts in STEPS.items()
        for cases in CASES
        for missing in ("", "regauge gate --more-trials 8")
        for fix in ("", "install it")
    ]
    lines += [f"{name}: {next_step(make())}" for name, make in DECISIONS.items()]
    errors = [("server", "a\n  fix: b"), ("import", "c\n  fix: d"), ("outside", "e")]
    rows = [{"cause": {"kind": kind, "message": message}} for kind, message in errors]
    lines.append(lasting_fix({("triage", "c", "candidate"): rows}))
    assert_as_written("\n".join([*lines, ""]), "decisions/next steps")


@pytest.mark.parametrize("name", SCRIPTED)
def test_the_reasons_of_a_gate_are_those_that_were_written_down(name: str):
    cases, policy = SCRIPTED[name]
    outcome = run(cases, policy)
    prompts = [
        a_prompt(
            rules=RULES, anchor=LOST, guards=[guards(1, "floor"), guards(1), guards(0, "open")]
        ),
        a_prompt(anchor=replace(LOST, blocks=False)),
    ]
    lines = [
        *reasons_of(outcome, [], []),
        "",
        *reasons_of(outcome, prompts, RULES, not_run=3),
        *reasons_of(outcome, [], [], not_run=1)[-1:],
    ]
    for prompt in outcome.first_trials:
        whole = suite_test(outcome, prompt)
        lines.append(f"{prompt}: {dict(sorted(status_counts(outcome, prompt).items()))}")
        lines.append(f"{whole and (whole.status, whole.difference is None)}")
    assert_as_written("\n".join([*lines, ""]), f"reasons/{name}")


PASSES = a_case("p", "passed")
FREE = a_case("b", blocks=False)
ACCEPTED = a_case("c", blocks=False, accepted="agreed")
TRACKED = a_case("d", blocks=False, tier="tracked")


@pytest.mark.parametrize(
    ("cases", "policy", "reason"),
    [
        ([PASSES], "warn", ""),
        ([TRACKED], "warn", ""),
        ([ACCEPTED], "block", " (1 of 1 case accepted by the author)"),
        ([ACCEPTED, TRACKED, PASSES], "block", " (1 of 3 cases accepted by the author)"),
        ([ACCEPTED, ACCEPTED, PASSES], "block", " (2 of 3 cases accepted by the author)"),
        ([FREE], "warn", " (1 allowed by on_broken = warn)"),
        ([FREE, FREE, TRACKED], "net", " (2 allowed by on_broken = net)"),
        (
            [FREE, ACCEPTED, TRACKED],
            "warn",
            " (1 of 3 cases accepted by the author; 1 allowed by on_broken = warn)",
        ),
    ],
)
def test_the_headline_gives_the_reason_why_broken_cases_pass(
    cases: list[Any], policy: str, reason: str
):
    document = a_decision(
        *cases, decision="accept", prompts=[a_prompt()], policy={"on_broken": policy}
    )
    found = re.search(r" \([12] (of|allowed).*", headline(document, words=str.strip))
    assert (found[0] if found else "") == reason
    assert "()" not in headline(document)
    rejected = document.model_copy(update={"decision": "reject"})
    assert "allowed" not in headline(rejected)


BEFORE = """\
name: p
version: 1.0.0
model: m
messages:
  - role: system
    content: |
      One.
      Two.
      Three.
      Four.
      Five.
      Six.
      Seven.
      Eight.
      Nine.
changelog:
  - version: 1.0.0
"""
DIFFS = {
    "a line": BEFORE.replace("Two", "Zwei"),
    "two ends": BEFORE.replace("One.", "Eins.").replace("      Nine.\n", ""),
    "with version": BEFORE.replace("Two", "Zwei").replace("1.0.0", "1.1.0"),
    "version alone": BEFORE.replace("1.0.0", "1.1.0"),
    "model first": BEFORE.replace("model: m", "model: n").replace("Five", "Fünf"),
    "another key": BEFORE.replace("model: m\n", "model: m\nmaxTokens: 5\n"),
    "another order": "model: m\n" + BEFORE.replace("model: m\n", ""),
    "nothing": BEFORE,
}


def test_a_prompt_file_is_compared_section_by_section():
    lines = [
        line
        for name, now in DIFFS.items()
        for line in (f"== {name}", *prompt_diff(BEFORE, now, files=("old", "new")))
    ]
    assert_as_written("\n".join([*lines, ""]), "decisions/diffs")


def test_fixes_of_two_prompts_share_their_steps():
    refusals = [
        RefusalDocument(part="judge", message=name, fix=f"merge the judges; after it {name}")
        for name in ("first", "second")
    ]
    text = next_step(a_decision(decision="refused", refusals=refusals)).text
    assert text == "merge the judges; after it first; after it second"


def test_a_rule_without_a_fix_is_its_own_next_step():
    odd = RuleDocument(rule="odd", message="odd", fix="", path="q.yml")
    assert next_step(a_decision(prompts=[a_prompt(rules=[odd])])).text == "odd"
