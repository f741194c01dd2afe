"""What a judge's prompt is filled with: the judged text, and what the case gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import JudgeError
from regauge.judges._answer import Answer, Expected
from regauge.judges._path import parse_path
from regauge.judges._types import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.prompts import Prompt
    from regauge.providers import Completion

__all__ = ["case_text", "judged_text", "text_of_value", "texts_for"]

_JUDGED = frozenset({"answer", "first", "second"})


def judged_text(completion: Completion, case: GoldenCase, field: str) -> str | Verdict:
    """The text that is judged: the answer or one field of it, or the verdict that there is none."""
    answer = Answer.of(completion, case)
    if field:
        part = answer.at(field, parse_path(field))
        if isinstance(part, Verdict):
            return part
        answer = part
    if answer.text is None or not answer.text.strip():
        return answer.nothing()
    return answer.text


def texts_for(
    prompt: Prompt,
    case: GoldenCase,
    given: Mapping[str, str],
    *,
    judge: str,
    reference: Expected | None = None,
) -> dict[str, str]:
    """A text for every input of a judge's prompt.

    Args:
        prompt: The judge's prompt.
        case: What inputs that are not given are looked up in: its inputs first; then `input`, all
            of them; `reference`; `expected` and `expected.PATH`.
        given: What the judge knows itself, such as `answer`.
        judge: Its name, for errors.
        reference: What `reference` stands for.

    Raises:
        JudgeError: The case has nothing for an input.
    """
    texts: dict[str, str] = {}
    optional = {spec.name for spec in prompt.inputs or () if not spec.required}
    for name in sorted(prompt.variables):
        if name in given:
            texts[name] = given[name]
            continue
        try:
            texts[name] = case_text(name, case, judge=judge, reference=reference)
        except JudgeError:
            if name not in optional:
                raise
    return texts


def case_text(name: str, case: GoldenCase, *, judge: str, reference: Expected | None = None) -> str:
    """What a case gives under a name.

    Raises:
        JudgeError: Nothing.
    """
    if name in _JUDGED:
        raise JudgeError(f"{judge}: nothing fills {{{{{name}}}}}", judge=judge)
    if name in case.inputs:
        return text_of_value(case.inputs[name])
    answer = Answer(None, case=case)
    if name == "input" and case.inputs:
        values = list(case.inputs.values())
        return text_of_value(values[0] if len(values) == 1 else dict(case.inputs))
    if name == "reference":
        wanted = reference or _usual_reference(case)
        return text_of_value(answer.resolve(wanted, judge=judge))
    if name == "expected" or name.startswith("expected."):
        return text_of_value(answer.resolve(Expected(name.partition(".")[2]), judge=judge))
    raise answer.lacks(f"input {name!r}", judge=judge)


def _usual_reference(case: GoldenCase) -> Expected:
    """`expected.reference`, or the whole of `expected` where that is one text."""
    return Expected("" if isinstance(case.expected, str) else "reference")


def text_of_value(value: JSON) -> str:
    """A value as prompts show it."""
    from regauge.prompts import input_text

    return input_text(value)
