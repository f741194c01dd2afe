"""All numbers of calibrations on labels drawn by seed, so that a record made again is the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from regauge.judges.calibration import (
    Judgement,
    Label,
    LabelledVerdict,
    find_disagreements,
    measure_agreement,
)
from tests.transcripts import DATA, held_rows

ROWS = DATA / "agreements.jsonl"
WORDS = {
    "outcomes": ["pass", "fail"],
    "pairs": ["a", "b", "tie"],
    "scores": [0.0, 0.25, 0.5, 0.75, 1.0],
}


def labelled(kind: str, chance: random.Random, number: int, right: float) -> LabelledVerdict:
    words: list[Any] = WORDS[kind]
    says = chance.choice(words)

    def judgement() -> Judgement:
        word = says if chance.random() < right else chance.choice(words)
        if chance.random() < 0.08:
            return Judgement(opinions=(chance.choice(["abstain", "unreadable"]),))
        if kind == "scores":
            return Judgement(opinions=("pass",), score=min(1.0, word + chance.choice([0, 0.1])))
        if kind == "pairs":
            other = word if chance.random() < 0.7 else chance.choice(words)
            return Judgement(opinions=(word, other))
        return Judgement(opinions=(word,), score=float(word == "pass"))

    label = Label(
        id=f"l{number}", case="c", outputs=("x", "y") if kind == "pairs" else ("x",), value=says
    )
    return LabelledVerdict(
        label=label, judgements=tuple(judgement() for _ in range(chance.choice([1, 2, 3])))
    )


def numbers(kind: Any, count: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    right = chance.choice([0.2, 0.6, 0.9, 1.0])
    judged = [labelled(kind, chance, number, right) for number in range(count)]
    return {
        "kind": kind,
        "count": count,
        "seed": seed,
        "agreement": measure_agreement(kind, judged).model_dump(mode="json"),
        "disagrees": [one.label.id for one in find_disagreements(kind, judged)],
    }


def agreement_rows() -> list[dict[str, Any]]:
    """The numbers of every kind, from one label to forty."""
    return [
        numbers(kind, count, seed)
        for kind in WORDS
        for count, seed in ((1, 1), (2, 2), (5, 3), (12, 4), (40, 5), (40, 6), (30, 7))
    ]


@pytest.mark.parametrize("kind", WORDS)
def test_the_numbers_of_a_calibration_stay(kind: str):
    rows = [row for row in held_rows(ROWS, agreement_rows) if row["kind"] == kind]
    assert [numbers(kind, row["count"], row["seed"]) for row in rows] == rows
