"""What a rubric's model is told of the form of its reply."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from regauge.judges._evidence import number

if TYPE_CHECKING:
    from regauge.prompts import RubricSpec

__all__ = ["reply_form"]

_FORM = """\
Reply with one JSON object and nothing else. Its keys, in this order:
- "reasoning": the evidence that decides, in a few sentences;
- "{key}": {value}."""


def reply_form(spec: RubricSpec) -> str:
    """The words; servers without structured output have nothing else to go by."""
    if spec.kind == "graded":
        kind = "a whole number" if spec.steps else "a number"
        value = f"{kind} from {number(spec.low)} (worst) to {number(spec.high)} (best)"
    else:
        words = [json.dumps(label, ensure_ascii=False) for label in spec.labels]
        value = f"{', '.join(words[:-1])} or {words[-1]}"
    if spec.kind == "pair":
        value += ", the one that is better"
        value += '; "tie" only where neither is' if spec.ties else ""
    return _FORM.format(key=spec.verdict_key, value=value)
