"""Entries of a changelog that accept a broken case, or state why one is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from regauge.datasets import GoldenCase
from regauge.gate._accepted import AcceptedChange, case_state, find_accepted
from regauge.prompts import Prompt, parse_prompt

MESSAGE = "messages:\n  - {role: user, content: 'Say {{x}}'}\n"


def prompt(*entries: str) -> Prompt:
    """A prompt with these entries, the newest first: `1.1.0 accepted a, b; removed c`."""
    lines = ["changelog:"] if entries else []
    for entry in entries:
        version, _, rest = entry.partition(" ")
        lines += [f"  - version: {version}", "    text: A change."]
        for part in filter(None, rest.split("; ")):
            key, _, cases = part.partition(" ")
            lines.append(f"    {key}:")
            lines += [f"      - {{case: {case}, reason: why {case}}}" for case in cases.split(", ")]
    return parse_prompt("\n".join([*lines, MESSAGE]), path=Path("p.prompt.yml"))


def found(head: Prompt, base: Prompt | None) -> AcceptedChange:
    return find_accepted(head, base, cases=["a", "b", "c"], removed_cases=["gone", "lost"])


def test_entries_that_the_base_has_do_not_count_again_and_those_after_them_do():
    base = prompt("1.0.0 accepted a; removed gone")
    head = prompt("1.1.0 accepted b", "1.0.0 accepted a, c; removed gone, lost")
    change = found(head, base)
    assert change.accepted == {"b": "why b", "c": "why c"}
    assert change.removed == {"lost": "why lost"}
    assert change.broke_before == {"a": 1}
    assert not change.errors


def test_without_a_base_all_entries_count():
    change = found(prompt("1.1.0 accepted a", "1.0.0 accepted b; removed gone"), None)
    assert (change.accepted, change.removed) == ({"a": "why a", "b": "why b"}, {"gone": "why gone"})
    assert change.broke_before == {}


def test_an_entry_that_names_no_such_case_is_an_error_with_its_line():
    head = prompt("1.1.0 accepted nope, a; removed b, never, gone")
    change = found(head, prompt())
    assert (change.accepted, change.removed) == ({"a": "why a"}, {"gone": "why gone"})
    assert [(error.line, error.message, error.fix) for error in change.errors] == [
        (5, "`accepted` names 'nope', which is not a golden case of p", "name a case by its id"),
        (8, "`removed` names 'b', which is still there", "take it out of the changelog"),
        (
            9,
            "`removed` names 'never', which the base version does not have",
            "take it out of the changelog",
        ),
    ]


def test_breaks_of_recent_versions_are_counted_by_case():
    base = prompt(
        "1.0.0 accepted a", "1.10.0 accepted a, b", "1.9.0 accepted a", "0.9.0 accepted c"
    )
    change = found(prompt("2.0.0 accepted c"), base)
    assert change.broke_before["a"] >= 2
    assert change.broke_before["b"] == 1
    assert change.accepted == {"c": "why c"}


@pytest.mark.parametrize(
    ("own", "base_request", "state"),
    [("x", "x", "unchanged"), ("x", "y", "changed"), ("x", None, "new")],
)
def test_the_state_of_a_case_follows_its_request(own: str, base_request: str | None, state: str):
    case = GoldenCase(id="a", inputs={}, expected=None, split="train")
    assert case_state(case, before=None, request=own, base_request=base_request) == state
