"""How much of its words an answer shares with a reference: ROUGE, BLEU, GLEU, chrF."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import Answer, Expected, expected
from regauge.judges._evidence import number, quote, shown
from regauge.judges._rule import Check, on_answer
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, graded
from regauge.judges.rules._likeness import share

if TYPE_CHECKING:
    from regauge.digests import JSON

__all__ = ["References", "bleu", "chrf", "gleu", "overlap", "rouge_l", "rouge_n", "unended"]

References = str | Sequence[str] | Expected
Words = Sequence[str]
_ROUGE_WORD = re.compile(r"[^\W_]+")
_TINY = 1e-7
# Longer texts than this make the longest common subsequence cost more than it tells.
_LCS_WORDS_MAX = 4_000


def _references(answer: Answer, to: References, kind: str) -> list[str]:
    wanted: JSON = answer.resolve(to, judge=kind)
    if wanted is None:
        raise answer.lacks(str(to), judge=kind)
    texts = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(texts, Sequence) or not texts:
        raise JudgeError(f"{kind}: {to} is neither a text nor a list of texts", judge=kind)
    found = [text for text in texts if isinstance(text, str)]
    if len(found) < len(texts):
        raise JudgeError(f"{kind}: {to} is not a list of texts alone", judge=kind)
    return found


def overlap(
    kind: str,
    to: References,
    at_least: float,
    score: Callable[[str, list[str]], float],
    field: str | None,
) -> Check:
    """A check that a score against the references reaches a threshold."""
    share(kind, at_least)
    if not isinstance(to, (str, Expected)) and not to:
        raise UsageError(f"{kind}: name at least one reference")

    def check(answer: Answer) -> Verdict:
        references = _references(answer, to, kind)
        text = answer.text or ""
        found = score(text, references)
        return graded(
            found,
            at_least=at_least,
            reason=f"{kind} {number(found)} to {quote(references[0])}, {number(at_least)} wanted",
            code="not_similar",
            expected=shown(references[0]),
            actual=shown(text),
        )

    return on_answer(field, check)


def _grams(words: Words, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


def _common(one: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> int:
    return sum(min(count, other[gram]) for gram, count in one.items())


def _f1(common: float, total: int, wanted: int) -> float:
    return 2 * common / (total + wanted) if total + wanted else 0.0


def _lower_tokens(text: str) -> list[str]:
    return _ROUGE_WORD.findall(text.lower())


def _spaced(text: str) -> list[str]:
    return text.lower().split()


def unended(text: str) -> list[str]:
    """Lower-case words by white space, without periods at their ends."""
    return [word.rstrip(".") for word in text.lower().split()]


@rule(codes=("not_similar",), version=2)
def rouge_n(
    to: References = expected(),  # noqa: B008 - Expected is frozen
    *,
    n: int = 1,
    at_least: float = 0.75,
    field: str | None = None,
) -> Check:
    """ROUGE-N: the F1 of the n-grams that answer and reference share.

    F1 is 2 c / (a + b): c n-grams shared, each as often as in the text that has it less often,
    and a and b n-grams in all. Words are runs of letters and digits in lower case,
    as in the package rouge-score. Of several references the best counts.

    Args:
        to: The reference or references; by default the case's `expected`.
        n: How many words an n-gram has.
        at_least: The least score that passes, from 0 to 1.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(rouge_n("the cat sat on the mat").check_text("the cat lay on the mat"))
    pass (0.83): rouge_n 0.8333 to 'the cat sat on the mat', 0.75 wanted
    """
    if n < 1:
        raise UsageError(f"rouge_n: n counts from 1, not {n}")

    def score(text: str, references: list[str]) -> float:
        grams = _grams(_lower_tokens(text), n)
        best = 0.0
        for reference in references:
            other = _grams(_lower_tokens(reference), n)
            best = max(best, _f1(_common(grams, other), grams.total(), other.total()))
        return best

    return overlap("rouge_n", to, at_least, score, field)


@rule(codes=("not_similar",), version=2)
def rouge_l(
    to: References = expected(),  # noqa: B008 - Expected is frozen
    *,
    at_least: float = 0.75,
    field: str | None = None,
) -> Check:
    """ROUGE-L: the F1 of the longest sequence of words that answer and reference share in order.

    Words are runs of letters and digits in lower case, as in the package rouge-score; the
    first 4,000 words of each count. Of several references the best counts.

    Args:
        to: The reference or references; by default the case's `expected`.
        at_least: The least score that passes, from 0 to 1.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(rouge_l("the cat sat on the mat").check_text("on the mat the cat sat"))
    fail (0.50): rouge_l 0.5 to 'the cat sat on the mat', 0.75 wanted
    """

    def score(text: str, references: list[str]) -> float:
        from rapidfuzz.distance import LCSseq

        words = _lower_tokens(text)[:_LCS_WORDS_MAX]
        best = 0.0
        for reference in references:
            other = _lower_tokens(reference)[:_LCS_WORDS_MAX]
            best = max(best, _f1(LCSseq.similarity(words, other), len(words), len(other)))
        return best

    return overlap("rouge_l", to, at_least, score, field)


def bleu_score(text: str, references: list[str]) -> float:
    """BLEU of one answer against several references, as `bleu` states it."""
    words = _spaced(text)
    if not words:
        return 0.0
    others = [_spaced(reference) for reference in references]
    logs: list[float] = []
    for n in range(1, min(4, len(words)) + 1):
        grams = _grams(words, n)
        common = max(_common(grams, _grams(other, n)) for other in others)
        logs.append(math.log(common / grams.total() or _TINY))
    closest = min((len(other) for other in others), key=lambda size: (abs(size - len(words)), size))
    brevity = min(0.0, 1 - closest / len(words))
    return math.exp(brevity + sum(logs) / len(logs))


@rule(codes=("not_similar",))
def bleu(
    to: References = expected(),  # noqa: B008 - Expected is frozen
    *,
    at_least: float = 0.5,
    field: str | None = None,
) -> Check:
    """BLEU of one answer: the geometric mean of its 1- to 4-gram precisions, times brevity.

    Words are in lower case and what white space separates. A precision of zero counts 1e-7;
    orders the answer is too short for are left out. Of several references the one that shares
    most counts for each order. An answer of a words that is shorter than the reference of the
    closest length b is multiplied by exp(1 - b / a).

    Args:
        to: The reference or references; by default the case's `expected`.
        at_least: The least score that passes, from 0 to 1.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(bleu("the cat sat on the mat").check_text("the cat sat on a mat"))
    pass (0.54): bleu 0.5373 to 'the cat sat on the mat', 0.5 wanted
    """
    return overlap("bleu", to, at_least, bleu_score, field)


@rule(codes=("not_similar",))
def gleu(
    to: References = expected(),  # noqa: B008 - Expected is frozen
    *,
    at_least: float = 0.5,
    field: str | None = None,
) -> Check:
    """GLEU: precision or recall of all 1- to 4-grams together, whichever is lower.

    Words are in lower case and what white space separates, without periods at their ends. Of
    several references the best counts.

    Args:
        to: The reference or references; by default the case's `expected`.
        at_least: The least score that passes, from 0 to 1.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(gleu("the cat sat on the mat").check_text("the cat lay on the mat"))
    pass (0.50): gleu 0.5 to 'the cat sat on the mat', 0.5 wanted
    """

    def score(text: str, references: list[str]) -> float:
        words = unended(text)
        best = 0.0
        for reference in references:
            other = unended(reference)
            orders = [(_grams(words, n), _grams(other, n)) for n in range(1, 5)]
            common = sum(_common(grams, wanted) for grams, wanted in orders)
            longer = max(
                sum(grams.total() for grams, _ in orders),
                sum(wanted.total() for _, wanted in orders),
            )
            best = max(best, common / longer if longer else 0.0)
        return best

    return overlap("gleu", to, at_least, score, field)


@rule(codes=("not_similar",))
def chrf(
    to: References = expected(),  # noqa: B008 - Expected is frozen
    *,
    words: int = 0,
    at_least: float = 0.5,
    field: str | None = None,
) -> Check:
    """chrF: the F-score of 1- to 6-grams of characters, recall weighing twice; by sacrebleu.

    Args:
        to: The reference or references; by default the case's `expected`.
        words: Up to which order n-grams of words count too; 2 makes it chrF++.
        at_least: The least score that passes, from 0 to 1.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(chrf("the disk is full").check_text("the disks are full"))
    pass (0.55): chrf 0.5456 to 'the disk is full', 0.5 wanted
    """

    def score(text: str, references: list[str]) -> float:
        from sacrebleu.metrics.chrf import CHRF

        return float(CHRF(word_order=words).sentence_score(text, references).score) / 100

    return overlap("chrf", to, at_least, score, field)
