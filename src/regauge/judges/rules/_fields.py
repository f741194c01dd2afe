"""Fields of answers that are JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected
from regauge.judges._evidence import listed, shown, value_text
from regauge.judges._json_text import JsonFault, same
from regauge.judges._path import MISSING, Missing, parse_path, value_at
from regauge.judges._rule import Check, Rule, on_answer
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, abstained, failed, passed
from regauge.judges.rules._text import normaliser

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["field", "field_equals", "field_in", "has_keys"]


@rule(codes=("missing_field",))
def has_keys(*paths: str, field: str | None = None) -> Check:
    """The answer is JSON that has these fields, whatever their values.

    Args:
        paths: Each must exist; null counts as existing.
        field: Look inside this part of a JSON answer.

    >>> print(has_keys("severity", "reason").check_text('{"severity": "info"}'))
    fail (0.50): no field 'reason'
    """
    if not paths:
        raise UsageError("has_keys: name at least one field")
    wanted = [(path, parse_path(path)) for path in paths]

    def check(answer: Answer) -> Verdict:
        whole = answer.json
        if isinstance(whole, JsonFault):
            return failed(f"not JSON: {whole.message}", code="json_invalid")
        missing = [p for p, steps in wanted if isinstance(value_at(whole, steps), Missing)]
        if not missing:
            return passed(f"has {listed(paths)}")
        return failed(
            f"no field {listed(missing)}",
            code="missing_field",
            score=1 - len(missing) / len(paths),
            expected=paths,
            details={"missing": missing},
        )

    return on_answer(field, check)


@rule(codes=("wrong_value",))
def field_equals(
    path: str,
    expected: JSON | Expected | Missing = MISSING,
    *,
    ignore_case: bool = False,
    ignore_space: bool = False,
    ignore_punctuation: bool = False,
    absent: Literal["error", "abstain"] = "error",
) -> Check:
    """A field of the JSON answer has the expected value.

    1 equals 1.0; true does not equal 1; null equals null only; a missing field fails.

    Args:
        path: The field, such as `severity` or `steps[0].command`.
        expected: The value; by default the one at the same path of the case's `expected`.
        ignore_case: Compare texts as Unicode case folding makes them.
        ignore_space: In texts, runs of white space count as one space, none at the ends.
        ignore_punctuation: In texts, leave out what Unicode calls punctuation.
        absent: What to do when the case has no such expected value: an `error` (the case is at
            fault), or `abstain` (it has no opinion).

    >>> print(field_equals("severity").check_text(
    ...     '{"severity": "info"}', expected={"severity": "critical"}))
    fail: severity is 'info', not 'critical'
    """
    steps = parse_path(path)
    wanted_at = Expected(path) if isinstance(expected, Missing) else expected
    normalise = (
        normaliser(
            ignore_case=ignore_case,
            ignore_space=ignore_space,
            ignore_punctuation=ignore_punctuation,
        )
        if ignore_case or ignore_space or ignore_punctuation
        else None
    )
    wanted_steps = parse_path(wanted_at.path) if isinstance(wanted_at, Expected) else ()

    def check(answer: Answer) -> Verdict:
        if isinstance(wanted_at, Expected):
            wanted = answer.expected_at(wanted_steps)
            if isinstance(wanted, Missing):
                if absent == "abstain":
                    return abstained(f"the case has no {wanted_at}", code="no_expectation")
                raise answer.lacks(str(wanted_at), judge=f"field_equals({path})")
        else:
            wanted = wanted_at
        found = _field(answer, path, steps)
        if isinstance(found, Verdict):
            return found
        if same(found, wanted) or (
            normalise is not None
            and isinstance(found, str)
            and isinstance(wanted, str)
            and normalise(found) == normalise(wanted)
        ):
            return passed(f"{path} is {value_text(found)}", expected=shown(wanted))
        return failed(
            f"{path} is {value_text(found)}, not {value_text(wanted)}",
            code="wrong_value",
            expected=shown(wanted),
            actual=shown(found),
            details={"field": path},
        )

    return check


def _field(answer: Answer, path: str, steps: tuple[str | int, ...]) -> JSON | Verdict:
    """The value at a path of the answer, or the verdict that there is none."""
    if answer.text is not None:
        whole = answer.json
        if not isinstance(whole, JsonFault):
            value = value_at(whole, steps)
            if not isinstance(value, Missing):
                return value
    verdict = answer.at(path, steps)
    assert isinstance(verdict, Verdict)
    return verdict


@rule(codes=("not_allowed",))
def field_in(path: str, values: Sequence[JSON] | Expected, *, ignore_case: bool = False) -> Check:
    """A field of the JSON answer has one of the allowed values.

    Args:
        path: The field, such as `severity`.
        values: What is allowed.
        ignore_case: Compare texts as Unicode case folding makes them.

    >>> print(field_in("severity", ["critical", "info"]).check_text('{"severity": "high"}'))
    fail: severity is 'high', not one of 'critical', 'info'
    """
    steps = parse_path(path)
    if isinstance(values, str) or (not isinstance(values, Expected) and not len(values)):
        raise UsageError(f"field_in: name the allowed values as a list, not {values!r}")

    def alike(left: JSON, right: JSON) -> bool:
        if ignore_case and isinstance(left, str) and isinstance(right, str):
            return left.casefold() == right.casefold()
        return same(left, right)

    def check(answer: Answer) -> Verdict:
        allowed = answer.resolve(values, judge=f"field_in({path})")
        if isinstance(allowed, str) or not isinstance(allowed, Sequence):
            raise JudgeError(f"field_in: {values} is not a list", judge=f"field_in({path})")
        found = _field(answer, path, steps)
        if isinstance(found, Verdict):
            return found
        if any(alike(found, value) for value in allowed):
            return passed(f"{path} is {value_text(found)}")
        return failed(
            f"{path} is {value_text(found)}, not one of {listed(allowed)}",
            code="not_allowed",
            expected=shown(allowed),
            actual=shown(found),
            details={"field": path},
        )

    return check


@rule()
def field(path: str, judge: Rule) -> Check:
    """Apply any rule to one field of the JSON answer.

    A text is judged as it is, any other value as its JSON. A field that is missing or null fails.

    Args:
        path: The field, such as `steps[0].command`.
        judge: The rule.

    >>> from regauge.judges import starts_with
    >>> print(field("steps[0]", starts_with("kubectl")).check_text('{"steps": ["kubectl get po"]}'))
    pass: steps[0]: starts with 'kubectl'
    """
    examine = judge.examine

    def check(answer: Answer) -> Verdict:
        verdict = examine(answer)
        return Verdict(
            outcome=verdict.outcome,
            score=verdict.score,
            reason=f"{path}: {verdict.reason}",
            expected=verdict.expected,
            actual=verdict.actual,
            details={**verdict.details, "field": path},
        )

    return on_answer(path, check)
