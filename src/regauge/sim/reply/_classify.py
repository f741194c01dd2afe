"""Choosing a label: how well the document's words and numbers match each definition."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from regauge.sim.text import Quantity, closeness, quantities, stems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.sim.asked import Clause, Label, Shot

__all__ = ["Evidence", "Ranking", "evidence_of", "rank"]

_PLACEHOLDER: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_WHOLE_WORD: Final = re.compile(r"[A-Za-z][A-Za-z-]+")
_SELECTOR: Final = re.compile(
    r"\{[^}]*\}|\[[^\]]*\]|(?:\bby|\bon|\bwithout|\bignoring)\s*\([^)]*\)|#[^\n]*"
)
_CODE_MARKS: Final = re.compile(r"[{}\[\]()<>=]")
_COMPARISON: Final = re.compile(r"\w_\w+\S*\s*(?:[<>]|[!=]=)")
_CODE_MARKS_MIN: Final = 3
_CODE_SHARE: Final = 0.06
_CODE_WEIGHT: Final = 0.35  # a word seen only in code says less than one in a sentence
# Words that most operations documents use, so that they tell little of any one of them.
_COMMON: Final = frozenset(
    stems(
        "kube kubernetes cluster instance server service system run running number time value state"
        " status metrics monitoring minute hour day process component request operation"
    )
)
_COMMON_WEIGHT: Final = 0.3
_QUANTITY_WEIGHT: Final = 1.5
_FAR_QUANTITY: Final = 0.25
_CLAUSE_DECAY: Final = (1.0, 0.4, 0.2, 0.1)
_DEFAULT_BONUS: Final = 0.2
_COVERAGE_POWER: Final = 1.3
_COVERAGE_FLOOR: Final = 0.3
_FIRST_LISTED_BONUS: Final = 0.06  # without definitions, what is named first comes to mind
_EXAMPLE_WEIGHT: Final = 1.3
_NEAR_EXAMPLE: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a document offers to a definition: words with weights from 0 to 1, and numbers.

    Attributes:
        spelling: For each stem, the word as the document writes it.
    """

    words: Mapping[str, float]
    quantities: tuple[Quantity, ...]
    spelling: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The labels from best to worst, with scores, and the words that decided.

    Attributes:
        margin: The best score minus the second, 0 or more.
        because: Words of the document, as it spells them, that the best definition asks for,
            strongest first.
    """

    names: tuple[str, ...]
    margin: float
    because: tuple[str, ...]


def is_code(text: str) -> bool:
    """Whether a text is an expression or source rather than prose."""
    marks = len(_CODE_MARKS.findall(text))
    return (marks >= _CODE_MARKS_MIN and marks / len(text) > _CODE_SHARE) or (
        _COMPARISON.search(text) is not None
    )


@lru_cache(maxsize=1_000)
def evidence_of(texts: tuple[str, ...]) -> Evidence:
    """The words and numbers of a document's parts; code counts less than prose."""
    words: dict[str, float] = {}
    spelling: dict[str, str] = {}
    numbers: list[Quantity] = []
    for raw in texts:
        text = _PLACEHOLDER.sub(" ", raw)
        code = is_code(text)
        weight = _CODE_WEIGHT if code else 1.0
        # What stands in braces selects series; it says where a rule looks, not what it finds.
        bare = _SELECTOR.sub(" ", text) if code else text
        if not code:
            for piece in _WHOLE_WORD.findall(text):
                found = stems(piece)
                if len(found) == 1:
                    spelling.setdefault(found[0], piece.lower())
        for word in stems(bare):
            words[word] = max(words.get(word, 0.0), weight)
        numbers += quantities(text, code=code)
    return Evidence(words=words, quantities=tuple(dict.fromkeys(numbers)), spelling=spelling)


def _clause_score(clause: Clause, evidence: Evidence, weights: Mapping[str, float]) -> float:
    total = sum(weights[word] for word in clause.words)
    matched = sum(weights[w] * evidence.words[w] for w in clause.words if w in evidence.words)
    factor = 1.0
    for kind in {wanted.kind for wanted in clause.quantities}:
        best = max(
            (
                closeness(wanted, given)
                for wanted in clause.quantities
                for given in evidence.quantities
                if wanted.kind == given.kind == kind
            ),
            default=0.0,
        )
        total += _QUANTITY_WEIGHT
        matched += _QUANTITY_WEIGHT * best
        factor *= max(best, _FAR_QUANTITY)
    if total <= 0 or matched <= 0:
        return 0.0
    covered = max(0.0, matched / total - _COVERAGE_FLOOR) / (1 - _COVERAGE_FLOOR)
    return float(factor * covered**_COVERAGE_POWER * (1 - math.exp(-1.5 * matched)))


def _word_weights(labels: tuple[Label, ...]) -> dict[str, float]:
    """A word that every definition uses decides nothing; a word in one clause decides most."""
    in_labels: Counter[str] = Counter()
    in_clauses: Counter[str] = Counter()
    for label in labels:
        in_labels.update({word for clause in label.clauses for word in clause.words})
        in_clauses.update(word for clause in label.clauses for word in clause.words)
    return {
        word: (1.0 if seen == 1 else 0.6 if seen < len(labels) else 0.35)
        * (_COMMON_WEIGHT if word in _COMMON else 1.0)
        / (1 + 0.15 * (in_clauses[word] - 1))
        for word, seen in in_labels.items()
    }


@lru_cache(maxsize=100)
def _weights_for(labels: tuple[Label, ...]) -> dict[str, float]:
    return _word_weights(labels)


def _example_scores(
    evidence: Evidence, shots: tuple[Shot, ...], names: tuple[str, ...]
) -> list[float]:
    scores = [0.0] * len(names)
    if not shots:
        return scores
    seen = [(evidence_of((shot.input,)), shot.output.lower()) for shot in shots]
    spread = Counter(word for words, _ in seen for word in words.words)
    for example, output in seen:
        index = next((i for i, n in enumerate(names) if n.lower() in output), None)
        if index is None:
            continue
        weight = {w: 1 / (1 + 0.3 * (spread[w] - 1)) for w in example.words}
        shared = sum(weight[w] * evidence.words.get(w, 0.0) for w in example.words)
        size = sum(weight.values())
        other = sum(v for v in evidence.words.values())
        alike = shared / math.sqrt(size * other) if size and other else 0.0
        for wanted in example.quantities:
            near = [closeness(wanted, q) for q in evidence.quantities if q.kind == wanted.kind]
            if near:
                alike *= 0.4 + 0.8 * max(near)
        if alike > _NEAR_EXAMPLE:
            scores[index] = max(scores[index], _EXAMPLE_WEIGHT * (alike - _NEAR_EXAMPLE))
    return scores


def rank(
    evidence: Evidence,
    labels: tuple[Label, ...],
    shots: tuple[Shot, ...],
    *,
    whims: tuple[float, ...],
) -> Ranking:
    """Order the labels by how well they fit.

    Args:
        evidence: What the document says.
        labels: The labels with their definitions.
        shots: Examples of the prompt.
        whims: One number from 0 to 1 for each label, of the document alone: what decides where
            the prompt defines nothing.
    """
    names = tuple(label.name for label in labels)
    weights = _weights_for(labels)
    scores = _example_scores(evidence, shots, names)
    defined = any(label.clauses for label in labels)
    for index, label in enumerate(labels):
        hits = sorted(
            (_clause_score(c, evidence, weights) for c in label.clauses if not c.excludes),
            reverse=True,
        )
        scores[index] += sum(d * s for d, s in zip(_CLAUSE_DECAY, hits, strict=False))
        scores[index] -= 0.5 * max(
            (_clause_score(c, evidence, weights) for c in label.clauses if c.excludes), default=0.0
        )
        if label.is_default and defined:
            scores[index] += _DEFAULT_BONUS
        scores[index] += (0.01 if defined and label.clauses else 0.3) * whims[index]
        if not defined and index == 0:
            scores[index] += _FIRST_LISTED_BONUS
    order = sorted(range(len(labels)), key=lambda i: (-scores[i], i))
    best = labels[order[0]]
    wanted = {w for c in best.clauses if not c.excludes for w in c.words}
    because = sorted(
        (w for w in wanted if w in evidence.words),
        key=lambda w: (-weights.get(w, 0) * evidence.words[w], w),
    )
    margin = scores[order[0]] - scores[order[1]] if len(order) > 1 else 1.0
    return Ranking(
        names=tuple(names[i] for i in order),
        margin=margin,
        because=tuple(
            dict.fromkeys(evidence.spelling[w] for w in because if w in evidence.spelling)
        )[:4],
    )
