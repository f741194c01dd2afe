"""Labelled answers, and a judge's model that says of an answer what the answer asks it to."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.conftest import EvalProject

__all__ = ["EVAL", "RUBRIC", "label", "labels", "told", "write_labels"]

RUBRIC = """\
name: Tone
version: 1.0.0
rubric:
  kind: binary
messages:
  - role: system
    content: Is the answer polite? Say pass or fail.
  - role: user
    content: "The question: {{text}} The answer: {{answer}}"
"""
EVAL = """\
from regauge import golden
from regauge.judges import min_chars, rubric

@golden("triage", judges=[min_chars(1), rubric("tone")])
def test_triage(result):
    result.check()
"""


def told(text: str) -> str:
    """The verdict that a labelled answer asks for with its last word before the closing tag."""
    words = re.findall(r"<answer-\w+>\n.*?(\w+)\n</answer-", text, re.DOTALL)
    if not words or "silent" in text:
        return "I would rather not say."
    word = words[-1]
    return json.dumps({"reasoning": f"It is marked {word}.", "verdict": word})


def label(number: int, says: str, judge: str, **more: Any) -> dict[str, Any]:
    """An answer that a person calls `says`, and of which the judge will say `judge`."""
    return {
        "id": f"l{number:02}",
        "case": f"disk-00{number % 5}",
        "output": f"answer {number} {judge}",
        "label": says,
        "author": "Ada",
        "reason": "Because.",
    } | more


def labels(*, right: int, wrong: int) -> list[dict[str, Any]]:
    """Half pass and half fail; of each, `right` on which the judge agrees and `wrong` not."""
    sides = [("pass", "fail"), ("fail", "pass")]
    rows = [(says, says) for says, _ in sides for _ in range(right)]
    rows += [(says, other) for says, other in sides for _ in range(wrong)]
    return [label(number, says, judge) for number, (says, judge) in enumerate(rows)]


def write_labels(project: EvalProject, rows: list[dict[str, Any]], name: str = "tone") -> None:
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    project.write(f"fixtures/labels/{name}.jsonl", text)
