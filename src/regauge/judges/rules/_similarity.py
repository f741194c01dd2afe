"""The similarity of an output and a reference: characters, words, meaning."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from regauge.digests import digest_of
from regauge.errors import JudgeError, ProviderError, UsageError
from regauge.judges._rule import Check, on_output
from regauge.judges._rule_factory import Place, Share, Whole, parameter_json, rule
from regauge.judges._types import (
    JudgeDeclaration,
    Verdict,
    abstained,
    failed,
    format_number,
    graded,
    is_number,
    passed,
)
from regauge.judges.output import Expected, JudgedOutput, expected
from regauge.judges.rules._text import normaliser
from regauge.providers import parse_model_id
from regauge.wording import plural, quote

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._rule import Rule
    from regauge.project import Criterion
    from regauge.providers import Completion


__all__ = [
    "bleu",
    "chrf",
    "edit_distance",
    "gleu",
    "meteor",
    "near_in_meaning",
    "rouge_l",
    "rouge_n",
    "similarity",
]

# Memory is proportional to the length; the order is the default of chrF and sacrebleu.
_CHRF_CHARS_MAX = 200_000
_CHRF_ORDER = 6

Measure = Literal["ratio", "partial", "words"]


def _measure(name: Measure) -> Callable[[str, str], float]:
    from rapidfuzz import fuzz

    measures: dict[Measure, Callable[[str, str], float]] = {
        "ratio": fuzz.ratio,
        "partial": fuzz.partial_ratio,
        "words": fuzz.token_sort_ratio,
    }
    return measures[name]


@rule(about="correctness", required_module="rapidfuzz")
def similarity(
    to: str | Expected = expected(),
    *,
    at_least: Share = 0.8,
    measure: Measure = "ratio",
    ignore_case: bool = False,
    field: str | None = None,
) -> Check:
    """The output has the same characters as a reference in nearly the same order.

    `ratio` is 1 - d / (a + b), with d insertions and deletions and lengths a and b; `partial` the
    best ratio of a part of the longer text; `words` that of sorted words. Meaning does not count.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        at_least: The least that passes.
        measure: `ratio`, `partial` or `words`.
        ignore_case: Ignore case, by Unicode case folding.
        field: Judge this part of a JSON output.

    Fails as: not_similar
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(similarity("The disk is full.").check_text("The disk is ful."))
    pass (0.97): ratio 0.9697 to 'The disk is full.', 0.8 wanted
    """
    if to == "":
        raise UsageError("similarity: the reference is empty; name a text")
    compare = _measure(measure)
    normalise = normaliser(ignore_case=ignore_case)

    def check(output: JudgedOutput) -> Verdict:
        expected = output.resolve_text(to, judge="similarity")
        text = output.text or ""
        score = compare(normalise(text), normalise(expected)) / 100
        return graded(
            score,
            at_least=at_least,
            reason=f"{measure} {format_number(score)} to {quote(expected)},"
            f" {format_number(at_least)} wanted",
            code="not_similar",
            expected=expected,
            actual=text,
        )

    return on_output(field, check)


@rule(about="correctness", required_module="rapidfuzz")
def edit_distance(
    to: str | Expected = expected(), *, at_most: Whole = 5, field: str | None = None
) -> Check:
    """The Levenshtein distance to a reference.

    The score is 1 - d / n, with d the distance and n the length of the longer text.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        at_most: The most that passes.
        field: Judge this part of a JSON output.

    Fails as: not_similar
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(edit_distance("kubectl get pods", at_most=1).check_text("kubectl get pod"))
    pass (0.94): 1 edit from 'kubectl get pods', at most 1 wanted
    """

    def check(output: JudgedOutput) -> Verdict:
        from rapidfuzz.distance import Levenshtein

        expected = output.resolve_text(to, judge="edit_distance")
        text = output.text or ""
        distance = Levenshtein.distance(text, expected)
        score = 1 - distance / (max(len(text), len(expected)) or 1)
        reason = f"{plural(distance, 'edit')} from {quote(expected)}, at most {at_most} wanted"
        if distance <= at_most:
            return passed(reason, score=score, actual=distance)
        return failed(reason, code="not_similar", score=score, expected=expected, actual=text)

    return on_output(field, check)


References = str | Sequence[str] | Expected
Words = Sequence[str]
_ROUGE_WORD = re.compile(r"[^\W_]+")
# The share of n-grams if none is shared: its logarithm is finite, and one such order lowers BLEU to
# a fiftieth or less.
_TINY = 1e-7
# For longer texts the longest common subsequence is too slow.
_LCS_WORDS_MAX = 4_000


def _references(output: JudgedOutput, reference: References, kind: str) -> list[str]:
    expected: JSON = output.resolve(reference, judge=kind)
    if expected is None:
        raise output.missing_error(str(reference), judge=kind)
    texts = [expected] if isinstance(expected, str) else expected
    if not isinstance(texts, Sequence) or not texts:
        raise JudgeError(f"{kind}: {reference} is neither a text nor a list of texts", judge=kind)
    references = [text for text in texts if isinstance(text, str)]
    if len(references) < len(texts):
        raise JudgeError(f"{kind}: {reference} is not a list of texts alone", judge=kind)
    return references


def overlap(
    kind: str,
    reference: References,
    at_least: Share,
    score: Callable[[str, list[str]], float | None],
    field: str | None,
) -> Check:
    """Build a check of a score against references.

    Args:
        kind: The kind of rule.
        reference: One or several references, or a value of the case.
        at_least: The least score that passes.
        score: Called with the output and the references; None if the output is too long.
        field: The judged field; None for the whole output.
    """
    is_list = isinstance(reference, Sequence)  # a text, too
    if not isinstance(reference, Expected) and not (is_list and reference and all(reference)):
        raise UsageError(f"{kind}: name at least one reference, and no empty one")

    def check(output: JudgedOutput) -> Verdict:
        references = _references(output, reference, kind)
        text = output.text or ""
        value = score(text, references)
        if value is None:
            return abstained(f"{len(text):,} characters are too long to compare", code="too_long")
        return graded(
            value,
            at_least=at_least,
            reason=f"{kind} {format_number(value)} to {quote(references[0])},"
            f" {format_number(at_least)} wanted",
            code="not_similar",
            expected=references[0],
            actual=text,
        )

    return on_output(field, check)


def _best_of(score: Callable[[str, str], float]) -> Callable[[str, list[str]], float]:
    """Return a score against several references: the best of their scores."""
    return lambda text, references: max(score(text, reference) for reference in references)


def _grams(words: Words, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def _common(grams: Counter[tuple[str, ...]], other: Counter[tuple[str, ...]]) -> int:
    return sum(min(count, other[gram]) for gram, count in grams.items())


def _f1_score(common: float, total: int, expected_total: int) -> float:
    return 2 * common / (total + expected_total) if total + expected_total else 0.0


def _lower_tokens(text: str) -> list[str]:
    return _ROUGE_WORD.findall(text.lower())


def words_without_periods(text: str) -> list[str]:
    """Lower-case words by white space, without periods at their ends."""
    return [word.rstrip(".") for word in text.lower().split()]


@rule(about="correctness", version=2)
def rouge_n(
    to: References = expected(), *, n: Place = 1, at_least: Share = 0.75, field: str | None = None
) -> Check:
    """ROUGE-N: the F1 of shared n-grams.

    Words as for `rouge_l`. The best of several references counts.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        n: Words per n-gram.
        at_least: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: not_similar
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(rouge_n("the cat sat on the mat").check_text("the cat lay on the mat"))
    pass (0.83): rouge_n 0.8333 to 'the cat sat on the mat', 0.75 wanted
    """

    def score(text: str, reference: str) -> float:
        grams, other = _grams(_lower_tokens(text), n), _grams(_lower_tokens(reference), n)
        return _f1_score(_common(grams, other), grams.total(), other.total())

    return overlap("rouge_n", to, at_least, _best_of(score), field)


@rule(about="correctness", version=2, required_module="rapidfuzz")
def rouge_l(
    to: References = expected(), *, at_least: Share = 0.75, field: str | None = None
) -> Check:
    """ROUGE-L: the F1 of the longest common subsequence of words.

    Words are runs of letters and digits in lower case, the first 4,000 of each text. The best of
    several references counts.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        at_least: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: not_similar
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(rouge_l("the cat sat on the mat").check_text("on the mat the cat sat"))
    fail (0.50): rouge_l 0.5 to 'the cat sat on the mat', 0.75 wanted
    """

    def score(text: str, reference: str) -> float:
        from rapidfuzz.distance import LCSseq

        words, other = (_lower_tokens(part)[:_LCS_WORDS_MAX] for part in (text, reference))
        return _f1_score(LCSseq.similarity(words, other), len(words), len(other))

    return overlap("rouge_l", to, at_least, _best_of(score), field)


def bleu_score(text: str, references: list[str]) -> float:
    """BLEU of a text against several references, as `bleu` defines it."""
    words = text.lower().split()
    if not words:
        return 0.0
    reference_words = [reference.lower().split() for reference in references]
    logs: list[float] = []
    for n in range(1, min(4, len(words)) + 1):
        grams = _grams(words, n)
        common = max(_common(grams, _grams(other, n)) for other in reference_words)
        logs.append(math.log(common / grams.total() or _TINY))
    closest = min(
        (len(other) for other in reference_words), key=lambda size: (abs(size - len(words)), size)
    )
    brevity = min(0.0, 1 - closest / len(words))
    return math.exp(brevity + sum(logs) / len(logs))


@rule(about="correctness")
def bleu(to: References = expected(), *, at_least: Share = 0.5, field: str | None = None) -> Check:
    """BLEU: the geometric mean of 1- to 4-gram precisions, times brevity.

    Words are lower case, split at white space. A precision of zero counts 1e-7; orders longer than
    the output are omitted.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        at_least: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: not_similar
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(bleu("the cat sat on the mat").check_text("the cat sat on a mat"))
    pass (0.54): bleu 0.5373 to 'the cat sat on the mat', 0.5 wanted
    """
    return overlap("bleu", to, at_least, bleu_score, field)


def _chrf_grams(text: str, words: int) -> list[Counter[tuple[str, ...]]]:
    """The n-grams of a text: characters up to order 6, then words up to order `words`."""
    parts = text.split()
    characters = "".join(parts)
    tokens = [token for part in parts for token in _split_mark(part)] if words else []
    return [
        *(_grams(characters, n) for n in range(1, _CHRF_ORDER + 1)),
        *(_grams(tokens, n) for n in range(1, words + 1)),
    ]


def _split_mark(word: str) -> tuple[str, ...]:
    if len(word) > 1 and word[-1] in string.punctuation:
        return word[:-1], word[-1]
    if len(word) > 1 and word[0] in string.punctuation:
        return word[0], word[1:]
    return (word,)


def _chrf_score(
    grams: Sequence[Counter[tuple[str, ...]]], reference_grams: Sequence[Counter[tuple[str, ...]]]
) -> float:
    orders = [
        (_common(gram, other), gram.total(), other.total())
        for gram, other in zip(grams, reference_grams, strict=True)
        if gram and other
    ]
    precision = sum(common / total for common, total, _ in orders)
    recall = sum(common / expected for common, _, expected in orders)
    if not precision:
        return 0.0
    return 5 * precision * recall / (4 * precision + recall) / len(orders)


@rule(about="correctness")
def gleu(to: References = expected(), *, at_least: Share = 0.5, field: str | None = None) -> Check:
    """GLEU: the lower of precision and recall of all 1- to 4-grams.

    Words are lower case, split at white space. The best of several references counts.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        at_least: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: not_similar
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(gleu("the cat sat on the mat").check_text("the cat lay on the mat"))
    pass (0.50): gleu 0.5 to 'the cat sat on the mat', 0.5 wanted
    """

    def score(text: str, reference: str) -> float:
        words, other = words_without_periods(text), words_without_periods(reference)
        orders = [(_grams(words, n), _grams(other, n)) for n in range(1, 5)]
        common = sum(_common(grams, expected) for grams, expected in orders)
        longer = max(
            sum(grams.total() for grams, _ in orders),
            sum(expected.total() for _, expected in orders),
        )
        return common / longer if longer else 0.0

    return overlap("gleu", to, at_least, _best_of(score), field)


@rule(version=3, about="correctness")
def chrf(
    to: References = expected(),
    *,
    words: Whole = 0,
    at_least: Share = 0.5,
    field: str | None = None,
) -> Check:
    """chrF: the F-score of 1- to 6-grams of characters; recall weighs twice.

    As in sacrebleu; the best of several references counts. Abstains above 200,000 characters.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        words: Add word n-grams up to this order; 2 makes it chrF++.
        at_least: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: not_similar, too_long
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(chrf("the disk is full").check_text("the disks are full"))
    pass (0.55): chrf 0.5456 to 'the disk is full', 0.5 wanted
    """

    def score(text: str, references: list[str]) -> float | None:
        if len(text) > _CHRF_CHARS_MAX:
            return None
        grams = _chrf_grams(text, words)
        return max(_chrf_score(grams, _chrf_grams(reference, words)) for reference in references)

    return overlap("chrf", to, at_least, score, field)


def _align(
    words: list[tuple[int, str]], reference_words: list[tuple[int, str]]
) -> list[tuple[int, int]]:
    """Pair equal words from the end, each with the last free one, and remove them."""
    pairs: list[tuple[int, int]] = []
    free: dict[str, list[int]] = {}
    for place, (_, word) in enumerate(reference_words):
        free.setdefault(word, []).append(place)
    matched: set[int] = set()
    for index in range(len(words) - 1, -1, -1):
        places = free.get(words[index][1])
        if places:
            place = places.pop()
            matched.add(place)
            pairs.append((words[index][0], reference_words[place][0]))
            del words[index]
    reference_words[:] = [
        other for place, other in enumerate(reference_words) if place not in matched
    ]
    return pairs


def meteor_score(text: str, reference: str, stem: Callable[[str], str]) -> float:
    """METEOR of a text against one reference, as `meteor` defines it."""
    words = list(enumerate(words_without_periods(text)))
    reference_words = list(enumerate(words_without_periods(reference)))
    total, expected_count = len(words), len(reference_words)
    pairs = _align(words, reference_words)
    stems = (
        [(index, stem(word)) for index, word in words],
        [(index, stem(word)) for index, word in reference_words],
    )
    pairs += _align(*stems)
    if not pairs:
        return 0.0
    pairs.sort()
    chunks = 1 + sum(
        1 for pair, following in pairwise(pairs) if following != (pair[0] + 1, pair[1] + 1)
    )
    precision, recall = len(pairs) / total, len(pairs) / expected_count
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return mean * (1 - 0.5 * (chunks / len(pairs)) ** 3)


@rule(about="correctness", required_module="snowballstemmer")
def meteor(
    to: References = expected(), *, at_least: Share = 0.5, field: str | None = None
) -> Check:
    """METEOR with exact and stemmed words, without synonyms.

    Words as for `gleu`, paired by equality, then by Porter stems: p r / (0.9 p + 0.1 r) x (1 - 0.5
    (c / m)^3) with precision p, recall r and m pairs in c runs.

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        at_least: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: not_similar
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> print(meteor("the disks filled up").check_text("the disk filled up"))
    pass (0.99): meteor 0.9922 to 'the disks filled up', 0.5 wanted
    """

    def score(text: str, references: list[str]) -> float:
        import snowballstemmer  # type: ignore[import-untyped]  # it brings no types

        library: Any = snowballstemmer
        stem: Callable[[str], str] = cache(library.stemmer("porter").stemWord)
        return max(meteor_score(text, reference, stem) for reference in references)

    return overlap("meteor", to, at_least, score, field)


Distance = Literal["cosine", "dot", "euclidean"]
Vectors = Mapping[str, Sequence[float]]


def nearness(vector: Sequence[float], other: Sequence[float], measure: Distance) -> float:
    """Compare two vectors.

    `cosine` is their dot product over the product of their lengths, 0 where a length is 0;
    `dot` is their dot product; `euclidean` is the distance between their ends.

    Raises:
        ValueError: The vectors differ in length.

    >>> nearness([1, 0], [1, 1], "euclidean")
    1.0
    """
    if measure == "euclidean":
        return math.dist(vector, other)
    dot = math.fsum(left * right for left, right in zip(vector, other, strict=True))
    if measure == "dot":
        return dot
    lengths = math.hypot(*vector) * math.hypot(*other)
    return dot / lengths if lengths else 0.0


def nearness_verdict(
    value: float, *, measure: Distance, limit: float, source: str, reference: str
) -> Verdict:
    """Compare a nearness with a limit; the score is clamped to [0, 1]."""
    measure_text, wish = str(measure), format_number(limit)
    score, near = min(1.0, max(0.0, value)), value >= limit
    if measure == "euclidean":
        measure_text, wish = "euclidean distance", f"at most {format_number(limit)}"
        score, near = 1 / (1 + value), value <= limit
    reason = f"{source}: {measure_text} {format_number(value)} to {quote(reference)}, {wish} wanted"
    if near:
        return passed(reason, score=score)
    return failed(reason, code="not_near", score=score, expected=reference)


def nearness_limit(
    kind: str, measure: Distance, at_least: float | None, at_most: float | None
) -> float:
    """The limit for a measure.

    Raises:
        UsageError: The limit is of the other kind, or the measure is unknown.
    """
    match measure:
        case "euclidean":
            if at_least is not None:
                raise UsageError(f"{kind}: a euclidean distance wants at_most, not at_least")
            limit, least, ceiling = 0.5 if at_most is None else at_most, 0.0, math.inf
        case "cosine" | "dot":
            if at_most is not None:
                raise UsageError(f"{kind}: {measure} wants at_least, not at_most")
            limit = 0.75 if at_least is None else at_least
            least, ceiling = (-1.0, 1.0) if measure == "cosine" else (-math.inf, math.inf)
        case _:
            raise UsageError(f"{kind}: no measure {measure!r}; there are cosine, dot, euclidean")
    if not is_number(limit) or not least <= limit <= ceiling or abs(limit) == math.inf:
        name = "at_most" if measure == "euclidean" else "at_least"
        limits = f"from {least:g} to {ceiling:g}" if ceiling < math.inf else f"from {least:g} up"
        raise UsageError(f"{kind}: {name} is a number {limits}, not {limit!r}")
    return limit


@rule(about="correctness")
def near_in_meaning(
    to: str | Expected = expected(),
    *,
    vectors: Vectors,
    measure: Distance = "cosine",
    at_least: float | None = None,
    at_most: float | None = None,
    field: str | None = None,
) -> Check:
    """The output is near a reference in meaning, by given vectors.

    As `means_like`, with given vectors. For `euclidean` the score is 1 / (1 + distance).

    Args:
        to: The value or reference to compare with; by default the case's `expected`.
        vectors: The vector of each text; a missing one gives no verdict.
        measure: `cosine`, `dot` or `euclidean`.
        at_least: The least cosine or dot product that passes, 0.75 if unset.
        at_most: The greatest distance that passes, 0.5 if unset.
        field: Judge this part of a JSON output.

    Fails as: not_near
    Advice: Write {it} as close to {to:or} as you can.
    Negated: Write {it} in other words than {to:or}.

    >>> known = {"disk full": [1.0, 0.1], "no space left": [0.9, 0.2]}
    >>> print(near_in_meaning("disk full", vectors=known).check_text("no space left"))
    pass (0.99): given vectors: cosine 0.9929 to 'disk full', 0.75 wanted
    """
    limit = nearness_limit("near_in_meaning", measure, at_least, at_most)
    if not vectors or not all(all(map(is_number, vector)) for vector in vectors.values()):
        raise UsageError(
            "near_in_meaning: vectors has the numbers of each text: {text: [0.1, 0.9]}"
        )
    vectors_digest = digest_of({text: list(vector) for text, vector in vectors.items()})[:8]

    def vector(text: str) -> Sequence[float]:
        if text not in vectors:
            raise JudgeError(
                f"near_in_meaning: no vector of {quote(text)} among those given ({vectors_digest})",
                judge="near_in_meaning",
            )
        return vectors[text]

    def check(output: JudgedOutput) -> Verdict:
        reference = output.resolve_text(to, judge="near_in_meaning")
        value = nearness(vector(output.text or ""), vector(reference), measure)
        return nearness_verdict(
            value, measure=measure, limit=limit, source="given vectors", reference=reference
        )

    return on_output(field, check)


Fallback = Literal["similarity", "rouge_l", "chrf"]


class Embedder(Protocol):
    """Anything that turns texts into vectors; implement it, do not subclass it."""

    @property
    def model(self) -> str:
        """The model, as `provider:model`."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The vector of each text, in their order and all of one length.

        Raises:
            ProviderError: There are no vectors; its `kind` is the reason.
        """
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """The name of an embedding model, which a run replaces by a recording embedder.

    Attributes:
        model: The model, as `provider:model`.
    """

    model: str

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Raise an error, as only a run has the model.

        Raises:
            JudgeError: Always.
        """
        del texts
        raise JudgeError(
            f"{self.model} is called only by runs of `pytest evals`\n"
            "  fix: elsewhere give the judge an embedder: means_like(OpenAIEmbedder(...))",
            judge="means_like",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticJudge(JudgeDeclaration):
    """A judge that compares the embeddings of output and reference.

    Attributes:
        embedder: The source of vectors, or the name of the model.
        reference: The reference, or a value of the case.
        measure: The measure of nearness.
        limit: The least nearness that passes, or the greatest euclidean distance.
        fallback: The rule to use if the embedder fails; None for no verdict.
        criterion: The criterion; no part of the digest.
    """

    embedder: Embedder
    reference: str | Expected
    measure: Distance
    limit: float
    fallback: Rule | None
    criterion: Criterion = "correctness"

    @property
    def digest(self) -> str:
        """The digest of model, reference, measure, limits and fallback."""
        return digest_of(
            {
                "kind": "means_like",
                "version": 2,
                "model": self.embedder.model,
                "to": parameter_json(self.reference, of="means_like"),
                "measure": self.measure,
                "limits": [None, self.limit] if self.measure == "euclidean" else [self.limit, None],
                "fallback": self.fallback.digest if self.fallback else None,
            }
        )

    async def prepare(self, completion: Completion, case: GoldenCase) -> None:
        """Request the vectors of a verdict.

        Raises:
            ProviderError: The embedder could not be called.
            JudgeError: The case has no reference.
        """
        output = JudgedOutput.from_completion(completion, case)
        if output.text is not None and output.text.strip():
            reference = output.resolve_text(self.reference, judge=self.name)
            await self.embedder.embed([output.text, reference])

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Compare; the reason names the model or the lexical measure.

        Raises:
            ProviderError: The embedder could not be called, and there is no fallback.
            JudgeError: The case has no reference, or the vectors are invalid.
        """
        output = JudgedOutput.from_completion(completion, case)
        if output.text is None:
            return output.no_text_verdict()
        reference = output.resolve_text(self.reference, judge=self.name)
        if not output.text.strip():
            # Endpoints refuse such texts.
            return failed("the output is blank", code="not_near", expected=reference)
        try:
            vectors = await self.embedder.embed([output.text, reference])
        except ProviderError as error:
            if self.fallback is None:
                raise
            verdict = self.fallback.examine(output)
            problem = f"{self.embedder.model} could not be called ({error.kind})"
            return replace(verdict, reason=f"{problem}, lexical fallback: {verdict.reason}")
        try:
            first, other = vectors
            value = nearness(first, other, self.measure)
        except ValueError as error:
            raise JudgeError(
                f"{self.embedder.model} gave vectors that cannot be compared: {error}",
                judge=self.name,
            ) from error
        return nearness_verdict(
            value,
            measure=self.measure,
            limit=self.limit,
            source=self.embedder.model,
            reference=reference,
        )


def means_like(
    embedder: Embedder | None = None,
    to: str | Expected = expected(),
    *,
    model: str | None = None,
    measure: Distance = "cosine",
    at_least: float | None = None,
    at_most: float | None = None,
    fallback: Fallback | None = None,
    fallback_at_least: float = 0.75,
) -> SemanticJudge:
    """Compare meaning with a reference, by vectors of an embedding model.

    Vectors hardly represent a negation: add a rule for required or forbidden words. Vectors of
    `model` are [recorded](recordings.md#vectors); an `embedder` is called every time.

    Args:
        embedder: A source of vectors, instead of `model`.
        to: The value or reference to compare with; by default the case's `expected`.
        model: The embedding model, as `provider:model`.
        measure: `cosine`, `dot` or `euclidean`.
        at_least: The least cosine or dot product that passes, 0.75 if unset.
        at_most: The greatest distance that passes, 0.5 if unset.
        fallback: A lexical measure to use if the model cannot be called; by default none, and the
            case is unmeasured.
        fallback_at_least: The least fallback score that passes.

    Raises:
        UsageError: The limits do not go with the measure, or there is not one of `embedder` and
            `model`.

    >>> means_like(model="openai:text-embedding-3-small", at_least=0.8).name
    'means_like(expected, cosine)'
    """
    if (embedder is None) == (model is None) or not (
        isinstance(model, str) or hasattr(embedder, "embed")
    ):
        raise UsageError(
            "means_like takes a model or an embedder, and the reference as `to`:"
            ' means_like(model="openai:text-embedding-3-small", to=expected("summary"))'
        )
    if fallback not in (None, *get_args(Fallback)):
        kinds = ", ".join(get_args(Fallback))
        raise UsageError(f"means_like: fallback is one of {kinds}, not {fallback!r}")
    if type(to) not in {str, Expected} or not to:
        raise UsageError(f"means_like: to is a text that is not empty, not {to!r}")
    lexical: dict[Fallback, Callable[..., Rule]] = {
        "similarity": similarity,
        "rouge_l": rouge_l,
        "chrf": chrf,
    }
    return SemanticJudge(
        embedder=embedder
        or EmbeddingModel(str(parse_model_id(model or "", location="means_like"))),
        reference=to,
        measure=measure,
        limit=nearness_limit("means_like", measure, at_least, at_most),
        fallback=lexical[fallback](to, at_least=fallback_at_least) if fallback else None,
        name=f"means_like({to}, {measure})",
    )
