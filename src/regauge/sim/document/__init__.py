"""A document as the simulated model sees it: what stands in it, and what speaks for a statement."""

from __future__ import annotations

from regauge.sim.document._alert_facts import AlertFacts, alert_facts, readable
from regauge.sim.document._document import Document, plain, read_document
from regauge.sim.document._evidence import (
    figures,
    likeness,
    nearest,
    overlap,
    sections_of,
    statements_of,
    supported,
    without_figures,
    words_of,
)
from regauge.sim.document._extract import find_text, find_value, kind_of, lines_of
from regauge.sim.document._resources import resources_of

__all__ = [
    "AlertFacts",
    "Document",
    "alert_facts",
    "figures",
    "find_text",
    "find_value",
    "kind_of",
    "likeness",
    "lines_of",
    "nearest",
    "overlap",
    "plain",
    "read_document",
    "readable",
    "resources_of",
    "sections_of",
    "statements_of",
    "supported",
    "without_figures",
    "words_of",
]
