"""HTML reports: one file, or an index and pages, without network requests."""

from __future__ import annotations

from regauge.reports.html._coverage import coverage_html
from regauge.reports.html._page import (
    html_report,
    labels_html,
    page_count,
    remove_pages,
    write_pages,
)
from regauge.reports.html._source import ReportSource, load_source, pass_counts, read_golden

__all__ = [
    "ReportSource",
    "coverage_html",
    "html_report",
    "labels_html",
    "load_source",
    "page_count",
    "pass_counts",
    "read_golden",
    "remove_pages",
    "write_pages",
]
