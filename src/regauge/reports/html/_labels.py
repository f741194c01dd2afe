"""A page to label outputs on, without verdicts; it saves the file of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.reports.html._page import render_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.datasets import GoldenCase
    from regauge.judges.calibration import LabelSheet

_SCRIPTS = ("dom.js", "page.js", "labels.js")


def labels_html(sheet: LabelSheet, judge: str, file: str, cases: Mapping[str, GoldenCase]) -> str:
    """The page to label on.

    Args:
        sheet: All lines of the file; those without a label are shown.
        judge: The name of the judge that the labels are for.
        file: The name of the file that the page saves.
        cases: The golden cases by id.
    """
    named = {str(line.get("case")) for line in sheet.unlabelled}
    return render_page(
        "labels",
        scripts=_SCRIPTS,
        styles=("labels.css",),
        data={
            "judge": judge,
            "file": file,
            "key": sheet.key,
            "lines": sheet.lines,
            "cases": {
                name: {"inputs": dict(cases[name].inputs), "expected": cases[name].expected}
                for name in sorted(named & cases.keys())
            },
        },
        judge=judge,
        file=file,
        scores=sheet.kind == "scores",
        count=len(sheet.unlabelled),
    )
