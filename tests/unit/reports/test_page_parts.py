"""Parts of HTML pages: their titles, and texts that cannot reorder or hide others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from markupsafe import Markup

from regauge.reports.html._coverage import _title
from regauge.reports.html._page import _finalize


@pytest.mark.parametrize(
    ("value", "title", "total", "missing"),
    [
        (0.5, "2 of 4 instructions guarded", 4, None),
        (0.5, "2 of 4 instructions guarded", 4, 2),
        (None, "no mutants", 0, None),
        (None, "no instruction measured", 0, 6),
    ],
)
def test_the_title_of_a_mutation_report_states_what_is_guarded(
    value: float | None, title: str, total: int, missing: int | None
):
    report: Any = SimpleNamespace(
        prompt="triage",
        score=SimpleNamespace(value=value, killed=2, total=total),
        missing=None if missing is None else SimpleNamespace(mutants=missing),
        mutants=[None] * 6,
    )
    assert _title(report) == f"triage: {title}"


def test_texts_of_a_page_reorder_and_hide_nothing():
    assert _finalize("a\u202eb\x1b[31m") == "a\\u202eb\\x1b[31m"
    markup = Markup("<b>\u202e</b>")
    assert _finalize(markup) is markup
    assert [_finalize(value) for value in (3, None)] == [3, None]
