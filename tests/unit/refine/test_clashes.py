"""New statements that contradict others, or that are others with another value."""

from __future__ import annotations

import pytest

from regauge.refine._policy import GuardPolicy
from regauge.refine.edits import PromptText
from regauge.refine.guards import Guard

NEVER = "Never answer long times in JSON format."
ANSWER = "Answer long times in JSON format."
SHORT, LONG = "Use at most 15 words.", "Use at most 150 words."
STAYS = "may contradict {!r}, which stays"


def prompt(*lines: str) -> PromptText:
    return PromptText.from_contents(
        "\n".join(["You rate alerts.", *(f"- {line}" for line in lines)])
    )


@pytest.mark.parametrize(
    ("before", "added", "released", "clash", "restated"),
    [
        ([NEVER], [ANSWER], [], STAYS.format(NEVER), False),
        ([ANSWER], [NEVER], [], STAYS.format(ANSWER), False),
        ([NEVER], ["Answer in English."], [], "", False),
        ([], [ANSWER], [], "", False),
        ([NEVER, ANSWER], ["Be kind."], [], "", False),
        ([], [ANSWER, NEVER], [], f"{ANSWER!r} may contradict {NEVER!r}", False),
        # Two statements that were in releases do not contradict each other.
        ([NEVER], [ANSWER], [[NEVER, ANSWER]], "", False),
        ([NEVER], [ANSWER], [[NEVER], [ANSWER]], "", False),
        ([NEVER], [ANSWER], [[ANSWER]], STAYS.format(NEVER), False),
        ([NEVER], [ANSWER], [[NEVER]], STAYS.format(NEVER), False),
        ([SHORT], [LONG], [], STAYS.format(SHORT), True),
        ([SHORT], [LONG], [[SHORT], [LONG]], "", False),
        ([SHORT], [LONG], [[LONG]], STAYS.format(SHORT), True),
        ([SHORT], [SHORT], [], "", False),
    ],
)
def test_a_new_statement_that_clashes_with_one_that_stays_is_suspicious(
    before: list[str], added: list[str], released: list[list[str]], clash: str, *, restated: bool
):
    base, after = prompt(*before), prompt(*before, *added)
    versions = [prompt(*lines).full_text for lines in released]
    guard = Guard(base, (), (), GuardPolicy(), released=versions)
    suspicion = guard.suspicion(base, after)
    assert suspicion.endswith(clash)
    assert bool(suspicion) == bool(clash)
    assert bool(guard.restated(base, after)) is restated
