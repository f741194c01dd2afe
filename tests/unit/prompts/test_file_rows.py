"""Prompt files as rows of data: what is read of each, or all that is wrong with it.

A row holds the lines that a file has besides one message, or instead of it.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from regauge.errors import PromptError
from regauge.prompts import parse_prompt
from tests.transcripts import DATA, held_rows, plain_value, read_rows

ROWS = DATA / "prompt_file_rows.jsonl"
MESSAGE = "messages:\n  - {role: user, content: 'Say {{x}}'}\n"
UNREAD = {"path", "source", "lines", "warnings", "name", "title"}


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is now: the fields of the prompt, its warnings and digest, or all errors."""
    text = row["text"] if "messages" in row["text"] else row["text"] + "\n" + MESSAGE
    try:
        prompt = parse_prompt(text, path=Path("greet.prompt.yml"))
    except PromptError as error:
        return {
            "text": row["text"],
            "errors": [f"{one.line}: {one.message} | {one.fix}" for one in error.diagnostics],
        }
    shown = {
        one.name: plain_value(getattr(prompt, one.name))
        for one in fields(prompt)
        if one.name not in UNREAD and getattr(prompt, one.name)
    }
    if "messages" not in row["text"]:
        del shown["messages"]
    warnings = [f"{one.line}: {one.message} | {one.fix}" for one in prompt.warnings]
    return {
        "text": row["text"],
        **shown,
        **({"warnings": warnings} if warnings else {}),
        "digests": [prompt.digest[:8], prompt.contract_digest[:8]],
    }


@pytest.mark.parametrize(
    "row", held_rows(ROWS, lambda: map(row_of, read_rows(ROWS))), ids=lambda row: row["text"][:40]
)
def test_a_prompt_file_is_read_or_refused_as_its_row_has_it(row: dict[str, Any]):
    assert row_of(row) == row
