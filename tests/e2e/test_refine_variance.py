"""`regauge refine --fix-flaky`: a check that is only flaky is made steady, against an endpoint."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

STEADY = "- Name a severity of three: critical, warning or info."
UNSTEADY = ("disk 2 ", "disk 5 ", "disk 9 ")
PROMPT = """\
name: Triage
version: 1.0.0
model: local:clerk
messages:
  - role: user
    content: |
      Say how severe the alert is.
      # Rules
      - Answer with JSON that has the keys severity and reason.
      # The alert
      {{text}}
"""


@pytest.fixture
def flaky(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """Three of twelve cases get another severity every third time, unless the prompt names all."""

    answered = Counter[str]()

    def answer(text: str) -> str:
        answered[text] += 1
        again = answered[text] % 3 == 2
        wrong = again and STEADY not in text and any(name in text for name in UNSTEADY)
        return json.dumps({"severity": "grave" if wrong else "critical", "reason": "it is full"})

    endpoint.answer = answer
    live.write("prompts/triage.prompt.yml", PROMPT)
    live.golden(
        live.case(number, expected="critical", split="train" if number < 8 else "holdout")
        for number in range(12)
    )
    live.judged_by(
        "json_matches_schema({'required': ['severity']}),"
        f" field_equals('severity', 'critical').with_instruction({STEADY.removeprefix('- ')!r})"
    )
    return live


def test_what_makes_a_flaky_check_steady_is_proposed_with_sigma_before_and_after(
    flaky: EvalProject, endpoint: Endpoint
):
    alone = flaky.command("refine", "triage", "--proposers=rules")
    assert alone.returncode == 0, alone.stderr
    assert "no change proposed (nothing-to-refine" in alone.stdout
    assert "## Flaky, and left alone" in alone.stdout

    said = flaky.command("refine", "triage", "--proposers=rules", "--fix-flaky")

    assert said.returncode == 0, said.stderr
    assert "triage: a revision is proposed" in said.stdout
    assert STEADY in said.stdout
    assert "The standard deviation of a case's verdict is 0." in said.stdout
    shown = flaky.command("refine", "show", "latest", "--trail").stdout
    assert "unsteady: field_equals(severity, critical): flaky cases fail" in shown
    assert "confirmed: field_equals(severity, critical) fails 0 of " in shown
    asked = endpoint.total
    told = flaky.command("refine", "verify", "latest", "--recompute")
    assert "all equal" in told.stdout
    assert endpoint.total == asked
