"""HTML reports: one file, or an index and pages, without network requests."""

from __future__ import annotations

from regauge.reports.html._coverage import coverage_html
from regauge.reports.html._page import case_count, html_report, labels_html, write_pages
from regauge.reports.html._source import ReportSource, load_source, pass_counts, read_golden

__all__ = [
    "ReportSource",
    "case_count",
    "coverage_html",
    "html_report",
    "labels_html",
    "load_source",
    "pass_counts",
    "read_golden",
    "write_pages",
]
