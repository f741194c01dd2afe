"""What a golden case says, as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from regauge.prompts import input_text
from regauge.refine.guards import CaseText

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase

__all__ = ["case_text"]


def case_text(case: GoldenCase) -> CaseText:
    """What a golden case says, for the guard against leaks."""
    expected = json.dumps(case.golden, ensure_ascii=False) if case.golden is not None else ""
    texts = [input_text(value) for value in case.inputs.values()]
    return CaseText(id=case.id, texts=tuple(texts), expected=expected)
