"""`accepted` and `removed` in an entry of a prompt's changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

from regauge.errors import PromptError
from regauge.gate._accepted import find_accepted
from regauge.prompts import parse_prompt

PATH = Path("prompts/greet.prompt.yml")


def entry(text: str) -> str:
    return (
        "version: 1.1.0\nchangelog:\n  - version: 1.1.0\n    text: Shorter.\n"
        f"    {text}\nmessages:\n  - {{role: user, content: Hi}}\n"
    )


def test_one_case_needs_no_list_and_several_have_their_lines():
    alone = parse_prompt(entry("accepted: {case: ann, reason: ' She left. '}"), path=PATH)
    (said,) = alone.changelog[0].accepted
    assert (said.case, said.reason, said.line) == ("ann", "She left.", 5)
    several = parse_prompt(
        entry("removed:\n      - {case: 17, reason: x}\n      - {case: bob, reason: y}"), path=PATH
    )
    assert [(one.case, one.line) for one in several.changelog[0].removed] == [("17", 6), ("bob", 7)]
    assert several.changelog[0].accepted == ()


def test_how_often_a_case_broke_is_counted_over_the_ten_last_versions():
    """The version that is weighed is the last of the ten, so nine of main's are looked at."""
    entries = "".join(
        f"  - version: 1.{n}.0\n    text: x\n    accepted: [{{case: {case}, reason: x}}]\n"
        for n, case in [
            (10, "ann"),
            (9, "bob"),
            (8, "ann"),
            *((n, "kim") for n in range(7, -1, -1)),
        ]
    )
    base = parse_prompt(
        f"version: 1.10.0\nchangelog:\n{entries}messages:\n  - {{role: user, content: Hi}}\n",
        path=PATH,
    )
    said = find_accepted(base, base, cases=["ann", "bob", "kim"], removed_cases=[])
    assert said.broke_before == {"ann": 2, "bob": 1, "kim": 6}
    assert said.accepted == {}


def test_they_change_no_digest():
    plain = parse_prompt(entry("date: 2025-06-30"), path=PATH)
    said = parse_prompt(entry("accepted: {case: ann, reason: x}"), path=PATH)
    assert (plain.digest, plain.contract_digest) == (said.digest, said.contract_digest)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("accepted: ann", "changelog accepted must be a list"),
        ("accepted: [ann]", "a case of changelog accepted must be a mapping"),
        ("accepted: [{case: ann}]", "a case of changelog accepted has no 'reason'"),
        ("removed: [{case: ann, reason: ''}]", "a case of changelog removed has no 'reason'"),
        ("removed: [{reason: x}]", "a case of changelog removed has no 'case'"),
        ("removed: [{case: a, reason: x, by: me}]", "'by'"),
        ("removed: [{case: a, reason: x}, {case: a, reason: y}]", "removed has case 'a' twice"),
        ("acepted: [{case: a, reason: x}]", "'acepted'"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_its_line(text: str, told: str):
    with pytest.raises(PromptError) as caught:
        parse_prompt(entry(text), path=PATH)
    assert f"{PATH}:5: " in str(caught.value)
    assert told in str(caught.value)
