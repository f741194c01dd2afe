"""A run as one HTML file that asks nothing of any network, for a browser."""

from __future__ import annotations

from regauge.reports.html._page import html_report
from regauge.reports.html._source import ReportSource, load_source, read_golden

__all__ = ["ReportSource", "html_report", "load_source", "read_golden"]
