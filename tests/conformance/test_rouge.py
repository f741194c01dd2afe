"""ROUGE has the scores of the reference package, rouge-score 0.1.2 without its stemmer.

That package reads ASCII letters and digits alone: texts of other scripts are counted by words here.
"""

from __future__ import annotations

import pytest

from regauge.judges import rouge_l, rouge_n

SCORES = [
    (
        "The disk is full.",
        "The disk of api-7 is full, so writes fail.",
        0.571429,
        0.333333,
        0.571429,
    ),
    ("Hello, World!", "hello world", 1.0, 1.0, 1.0),
    ("don't panic", "dont panic", 0.4, 0.0, 0.4),
    ("a b c d e", "e d c b a", 1.0, 0.0, 0.2),
    ("state-of-the-art model v2.0", "state of the art model v2 0", 1.0, 1.0, 1.0),
    (
        "The quick brown fox jumps over the lazy dog",
        "The fast brown fox leaped over the lazy dog",
        0.777778,
        0.5,
        0.777778,
    ),
    ("one two three four", "one two three four", 1.0, 1.0, 1.0),
    ("1,234 pods died", "1234 pods died", 0.571429, 0.4, 0.571429),
    ("police killed the gunman", "police kill the gunman", 0.75, 0.333333, 0.75),
    ("the gunman kill police", "police killed the gunman", 0.75, 0.333333, 0.5),
    ("line one\nline two\nline three", "line two\nline one", 0.8, 0.75, 0.6),
    ("foo_bar baz", "foo bar baz", 1.0, 1.0, 1.0),
    (
        "Restart the pod. Then check the logs.",
        "Check the logs, then restart the pod!",
        1.0,
        0.666667,
        0.428571,
    ),
    ("ABC abc Abc", "abc", 0.5, 0.0, 0.5),
]


@pytest.mark.parametrize(("reference", "output", "one", "two", "longest"), SCORES)
def test_rouge_has_the_scores_of_the_reference_package(
    reference: str, output: str, one: float, two: float, longest: float
):
    for judge, score in (
        (rouge_n(reference, n=1, at_least=0), one),
        (rouge_n(reference, n=2, at_least=0), two),
        (rouge_l(reference, at_least=0), longest),
    ):
        assert judge.check_text(output).score == pytest.approx(score, abs=1e-6)
