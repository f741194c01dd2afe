"""Asking the simulated model to judge, as rubrics and as metrics ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regauge.sim import CLERK_1, Rules, complete
from tests.unit.sim.bench import request

if TYPE_CHECKING:
    from regauge.providers import Completion

REPORT = """\
# Incident on 2024-01-02 - Login down

- **Key events**
  - First detected 2024-01-02 10:05
  - Resolved 2024-01-02 10:25

- **Time to repair**: 0h 20m

- **Impact**: Nobody could log in for 20 minutes.

- **Context**:
  - A deploy doubled the size of the pool, so the database ran out of connections.
  - We suspect that the limit had been too low for years.

- **Resolution**: The team rolled the deploy back to version 7.
"""
FAITHFUL = (
    "Nobody could log in for 20 minutes. A deploy doubled the size of the pool, so the database "
    "ran out of connections. The team rolled the deploy back to version 7."
)
STRICT = """\
You check summaries. Is everything that the summary states supported by the report? Lower the score for
each number or time that the report does not state, and for each statement that it contradicts."""


def schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {
            "name": "verdict",
            "schema": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        },
    }


TEXT = {"type": "string"}
GRADE = schema(reasoning=TEXT, score={"type": "integer", "enum": [1, 2, 3, 4, 5]})


def tagged(**texts: str) -> str:
    return "\n\n".join(
        f"The {name}:\n<{name}-0123456789ab>\n{text}\n</{name}-0123456789ab>"
        for name, text in texts.items()
    )


def judged(
    criteria: str,
    texts: Mapping[str, str] | str,
    form: Mapping[str, Any],
    *,
    rules: Rules = CLERK_1,
    **rest: Any,
) -> dict[str, Any]:
    """The reply as JSON: by tags, or a whole prompt as one message."""
    contents = (criteria, tagged(**texts)) if isinstance(texts, Mapping) else (texts,)
    made: Completion = complete(request(*contents, response_format=form, **rest), rules=rules)
    assert made.text is not None
    reply: dict[str, Any] = json.loads(made.text)
    return reply


def score(summary: str, criteria: str = STRICT, **rest: Any) -> int:
    texts = {"report": REPORT, "answer": summary}
    found: int = judged(criteria, texts, GRADE, **rest)["score"]
    return found
