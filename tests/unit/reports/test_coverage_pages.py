"""Pages of mutation reports, element by element."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.mutate import MutationReport, choose_operators, mutants_of
from regauge.prompts import parse_prompt
from regauge.reports.html import coverage_html
from tests.transcripts import DATA, assert_as_written, page_lines

if TYPE_CHECKING:
    from regauge.prompts import Prompt

PROJECT = DATA / "project"
CLASSES = ("killed", "survived", "harmful", "undecided", "equivalent", "no-effect")


def report_of(kinds: tuple[str, ...]) -> MutationReport:
    """The report of the project; its mutants have these classes, one after the other."""
    text = (PROJECT / "changed/fixtures/mutants/alert-severity.json").read_text("utf-8")
    document = {key: part for key, part in json.loads(text).items() if key not in {"key", "guards"}}
    for number, row in enumerate(document["mutants"] if kinds else ()):
        row["class"] = kinds[number % len(kinds)]
        row["cases"] = [f"case-{n}" for n in range(number % 4)]
        row["judges"] = ["tone"] if row["class"] == "killed" else []
        row["reason"] = "because" if row["class"] in {"undecided", "equivalent"} else None
        document["mutants"][number] = {key: part for key, part in row.items() if part is not None}
    return MutationReport.model_validate(document)


def prompt_of() -> Prompt:
    path = PROJECT / "commits/3/prompts/alert-severity.prompt.yml"
    text = path.read_text("utf-8")
    return replace(parse_prompt(text, path=path), source=text)


@pytest.mark.parametrize("kinds", [(), CLASSES], ids=["as it is", "every class"])
def test_a_page_shows_the_lines_of_a_prompt_and_their_mutants(kinds: tuple[str, ...]):
    prompt = prompt_of()
    page = coverage_html(
        report_of(kinds), prompt, mutants_of(prompt, choose_operators(None)), ["tone", "unused"]
    )
    name = "every class" if kinds else "as it is"
    assert_as_written("\n".join([*page_lines(page), ""]), f"pages/coverage {name}")
