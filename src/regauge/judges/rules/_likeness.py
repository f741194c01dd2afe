"""How alike an answer and a reference are, by their letters and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import number, quote, shown
from regauge.judges._rule import Check, on_answer
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, graded, passed
from regauge.judges.rules._text import normaliser
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["edit_distance", "reference_text", "share", "similarity"]

Measure = Literal["ratio", "partial", "words"]


def _measure(name: Measure) -> Callable[[str, str], float]:
    from rapidfuzz import fuzz

    match name:
        case "ratio":
            return fuzz.ratio
        case "partial":
            return fuzz.partial_ratio
        case "words":
            return fuzz.token_sort_ratio
        case _:
            raise UsageError(f"similarity: no measure {name!r}; there are ratio, partial, words")


def share(kind: str, value: float) -> float:
    """A threshold, which is a share.

    Raises:
        UsageError: It is not between 0 and 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:  # pyright: ignore[reportUnnecessaryIsInstance] - from YAML
        raise UsageError(f"{kind}: at_least is a number from 0 to 1, not {value!r}")
    return value


def reference_text(answer: Answer, to: str | Expected, kind: str) -> str:
    """The text an answer is compared with.

    Raises:
        JudgeError: The case has none, or it is not a text.
    """
    wanted = answer.resolve(to, judge=kind)
    if wanted is None:
        raise answer.lacks(str(to), judge=kind)
    if not isinstance(wanted, str):
        raise JudgeError(f"{kind}: {to} is not a text: {quote(str(wanted))}", judge=kind)
    return wanted


@rule(codes=("not_similar",))
def similarity(
    to: str | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    at_least: float = 0.8,
    measure: Measure = "ratio",
    ignore_case: bool = False,
    field: str | None = None,
) -> Check:
    """The answer is written like a reference: the same characters in much the same order.

    `ratio` is 1 - d / (a + b), with d the least number of insertions and deletions that turn one
    text into the other, and a and b their lengths. `partial` is the best ratio of the shorter
    text with a part of the longer one. `words` is the ratio once the words are sorted.
    It knows nothing of meaning: "ran out" and "did not run out" are much alike.

    Args:
        to: The reference; by default the case's `expected`.
        at_least: The least score that passes, from 0 to 1.
        measure: Which of the three.
        ignore_case: Compare as Unicode case folding makes them.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(similarity("The disk is full.").check_text("The disk is ful."))
    pass (0.97): ratio 0.9697 to 'The disk is full.', 0.8 wanted
    """
    share("similarity", at_least)
    compare = _measure(measure)
    normalise = normaliser(ignore_case=ignore_case, ignore_space=False, ignore_punctuation=False)

    def check(answer: Answer) -> Verdict:
        wanted = reference_text(answer, to, "similarity")
        text = answer.text or ""
        score = compare(normalise(text), normalise(wanted)) / 100
        return graded(
            score,
            at_least=at_least,
            reason=f"{measure} {number(score)} to {quote(wanted)}, {number(at_least)} wanted",
            code="not_similar",
            expected=shown(wanted),
            actual=shown(text),
        )

    return on_answer(field, check)


@rule(codes=("not_similar",))
def edit_distance(
    to: str | Expected = expected(),  # noqa: B008 - Expected is frozen
    *,
    at_most: int = 5,
    field: str | None = None,
) -> Check:
    """The Levenshtein distance to a reference: how many characters are inserted, deleted, changed.

    The score is 1 - d / n, with d the distance and n the length of the longer text.

    Args:
        to: The reference; by default the case's `expected`.
        at_most: The greatest distance that passes.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(edit_distance("kubectl get pods", at_most=1).check_text("kubectl get pod"))
    pass (0.94): 1 edit from 'kubectl get pods', at most 1 wanted
    """
    if isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - from YAML
        raise UsageError(f"edit_distance: at_most is a whole number from 0 up, not {at_most!r}")

    def check(answer: Answer) -> Verdict:
        from rapidfuzz.distance import Levenshtein

        wanted = reference_text(answer, to, "edit_distance")
        text = answer.text or ""
        distance = Levenshtein.distance(text, wanted)
        score = 1 - distance / (max(len(text), len(wanted)) or 1)
        reason = f"{plural(distance, 'edit')} from {quote(wanted)}, at most {at_most} wanted"
        if distance <= at_most:
            return passed(reason, score=score, actual=distance)
        return failed(
            reason, code="not_similar", score=score, expected=shown(wanted), actual=shown(text)
        )

    return on_answer(field, check)
