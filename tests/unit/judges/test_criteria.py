"""Which criterion a judge counts under: by default, as an eval says, and once it is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import UsageError
from regauge.judges import (
    as_judge,
    deepeval,
    max_words,
    means_like,
    pairwise,
    panel,
    rubric,
    verified_claims,
)
from regauge.judges._types import criterion_of
from regauge.project import CRITERIA
from tests.unit.judges.asked import GRADED, context

if TYPE_CHECKING:
    from pathlib import Path

JUDGES: list[tuple[Any, str]] = [
    (max_words(40), "format"),
    (as_judge(lambda output, case: bool(output and case.id), name="named"), "correctness"),
    (means_like(model="openai:text-embedding-3-small"), "correctness"),
    (rubric("tone"), "relevance"),
    (verified_claims("report"), "correctness"),
    (deepeval("FaithfulnessMetric"), "correctness"),
    (deepeval("Summarization"), "completeness"),
    (deepeval("GEval", name="polite"), "relevance"),
    (pairwise("better"), "relevance"),
]


@pytest.mark.parametrize(
    ("judge", "criterion"), JUDGES, ids=lambda part: getattr(part, "name", part)
)
def test_a_judge_counts_under_its_own_criterion_or_the_one_it_is_given(judge, criterion):
    assert criterion_of(judge) == criterion
    for another in CRITERIA:
        moved = judge.with_criterion(another)
        assert (criterion_of(moved), moved.name) == (another, judge.name)
    with pytest.raises(
        UsageError, match="there is no criterion 'fromat'\n  fix: did you mean 'format'"
    ):
        judge.with_criterion("fromat")


def test_a_judge_that_is_bound_keeps_its_criterion_and_its_digest(tmp_path: Path):
    known = context(tmp_path, tone=GRADED)
    plain, moved = (
        one.bind(known) for one in (rubric("tone"), rubric("tone").with_criterion("completeness"))
    )
    assert (plain.criterion, moved.criterion) == ("relevance", "completeness")
    assert plain.digest == moved.digest
    assert max_words(40).digest == max_words(40).with_criterion("relevance").digest


def test_a_panel_is_about_what_its_members_are_about(tmp_path: Path):
    known = context(
        tmp_path,
        tone=GRADED,
        facts=f"description: facts\n{GRADED}".replace("Grade the", "Check the"),
    )
    facts = rubric("facts").with_criterion("correctness")
    assert panel([rubric("tone"), rubric("facts")]).bind(known).criterion == "relevance"
    alike = panel([rubric("tone").with_criterion("correctness"), facts])
    assert alike.bind(known).criterion == "correctness"
    assert panel([rubric("tone"), facts]).bind(known).criterion == "relevance"
    assert alike.with_criterion("format").bind(known).criterion == "format"


def test_a_judge_of_somebody_else_that_says_nothing_usable_is_about_correctness():
    class Mine:
        criterion = "beauty"

    assert criterion_of(Mine()) == "correctness"
    assert criterion_of(object()) == "correctness"
