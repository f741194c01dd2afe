"""Configurations of promptfoo, as it documents them in November 2026."""

from __future__ import annotations

from regauge.importers.promptfoo._suite import read_promptfoo

__all__ = ["read_promptfoo"]
