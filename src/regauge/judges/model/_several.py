"""Several criteria in one call: the form of the request, and the scores in the response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.judges._evidence import number, quote
from regauge.judges.model._numbers import ReplyFault, share_of, value_of
from regauge.judges.model._reply import Reply, json_object, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.digests import JSON
    from regauge.prompts import RubricSpec
    from regauge.providers import Completion

__all__ = ["numbered", "read_several", "several_form", "several_format"]

_FORM = """\
Reply with one JSON object and nothing else. Its only key is "verdicts": a list with one object \
for each of the {count} criteria, in their order. The keys of each, in this order:
- "number": the number of the criterion;
- "reasoning": the evidence that decides, in a few sentences;
- "score": {kind} from {low} (worst) to {high} (best)."""


def numbered(criteria: Sequence[str]) -> str:
    """Criteria as a prompt shows them.

    >>> print(numbered(["is polite", "names a time"]))
    1. is polite
    2. names a time
    """
    return "\n".join(f"{place}. {text}" for place, text in enumerate(criteria, start=1))


def several_form(spec: RubricSpec, count: int) -> str:
    """The form of the response, in words."""
    kind = "a whole number" if spec.steps else "a number"
    return _FORM.format(count=count, kind=kind, low=number(spec.low), high=number(spec.high))


def several_format(spec: RubricSpec, count: int) -> dict[str, JSON]:
    """The form of the response, as the OpenAI API takes it."""
    score: dict[str, JSON] = (
        {"type": "integer", "enum": list(spec.steps)} if spec.steps else {"type": "number"}
    )
    verdict: dict[str, JSON] = {
        "type": "object",
        "properties": {
            "number": {"type": "integer"},
            "reasoning": {"type": "string"},
            "score": score,
        },
        "required": ["number", "reasoning", "score"],
        "additionalProperties": False,
    }
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {
            "verdicts": {"type": "array", "items": verdict, "minItems": count, "maxItems": count}
        },
        "required": ["verdicts"],
        "additionalProperties": False,
    }
    return {
        "type": "json_schema",
        "json_schema": {"name": "rubric_criteria", "strict": True, "schema": schema},
    }


def read_several(completion: Completion, spec: RubricSpec, criteria: Sequence[str]) -> Reply:
    """The scores in a response as one verdict: the lowest score, with every part.

    Raises:
        ReplyFault: A criterion has no score, or two, or one that cannot be read.
    """
    verdicts = json_object(text_of(completion)).get("verdicts")
    if not isinstance(verdicts, list) or len(verdicts) != len(criteria):
        raise ReplyFault(
            f"the reply does not have {len(criteria)} verdicts: {quote(str(verdicts))}"
        )
    parts = [
        _part(given, spec, place, criteria[place - 1])
        for place, given in enumerate(verdicts, start=1)
    ]
    worst = min(parts, key=lambda part: part.score)
    return Reply(
        value=worst.value,
        score=worst.score,
        reasoning=f"{worst.criterion}: {worst.reasoning}",
        parts=tuple(parts),
    )


def _part(given: JSON, spec: RubricSpec, place: int, criterion: str) -> Reply:
    if not isinstance(given, dict) or given.get("number") != place:
        raise ReplyFault(f"verdict {place} is not about criterion {place}: {quote(str(given))}")
    reasoning = given.get("reasoning")
    if not isinstance(reasoning, str) or "score" not in given:
        raise ReplyFault(f"verdict {place} lacks its reasoning or score: {quote(str(given))}")
    value = value_of(given["score"], spec)
    return Reply(value=value, score=share_of(value, spec), reasoning=reasoning, criterion=criterion)
