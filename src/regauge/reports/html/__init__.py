"""HTML reports: one file each, without network requests."""

from __future__ import annotations

from regauge.reports.html._coverage import coverage_html
from regauge.reports.html._page import html_report
from regauge.reports.html._source import ReportSource, load_source, read_golden

__all__ = ["ReportSource", "coverage_html", "html_report", "load_source", "read_golden"]
