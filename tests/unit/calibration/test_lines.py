"""Calibrations and disagreements as lines, word for word."""

from __future__ import annotations

from regauge.judges.calibration import (
    Calibration,
    Judgement,
    Label,
    LabelledVerdict,
    LabelsSummary,
    measure_agreement,
)
from regauge.maintenance.calibrations import calibration_lines, disagreement_lines
from tests.transcripts import assert_as_written
from tests.unit.calibration.test_agreement import answer, graded, outcomes, pair

LONG = "a long reason \n" * 30


def explained(number: int, value: str | float, *opinions: str, score: float = 0.0):
    """A disagreement with all that is known of it."""
    label = Label(
        id=f"e{number}",
        case=f"case-{number}",
        outputs=("x", "y") if len(opinions) == 2 else ("x",),
        value=value,
        author="Ann",
        reason="two\nlines",
        location=f"fixtures/labels/x.jsonl:{number}",
    )
    judgement = Judgement(opinions=opinions, score=score, reason=LONG)
    return LabelledVerdict(label=label, judgements=(judgement,))


SETS = {
    "outcomes": ("outcomes", outcomes(12, 2, 1, 5)),
    "perfect outcomes": ("outcomes", outcomes(3, 0, 0, 2)),
    "one outcome": ("outcomes", outcomes(4, 1, 0, 0)),
    "many disagreements": ("outcomes", outcomes(0, 21, 0, 1)),
    "left out": (
        "outcomes",
        [*outcomes(3, 1, 1, 3), answer(90, "pass", "abstain"), answer(91, "fail", "unreadable")],
    ),
    "repeats": (
        "outcomes",
        [answer(number, "pass", "pass", "fail", "pass") for number in range(3)]
        + [answer(9, "fail", "fail", "fail", "fail"), explained(10, "fail", "pass", score=1.0)],
    ),
    "scores": (
        "scores",
        [graded(number, number / 4, 1 - number / 4) for number in range(5)]
        + [graded(9, 0.5, 0.5), explained(10, 0.25, "pass", score=0.75)],
    ),
    "pairs": (
        "pairs",
        [
            pair(1, "a", "a", "a"),
            pair(2, "b", "a", "b"),
            pair(3, "b", "b", "a"),
            pair(4, "tie", "tie", "tie"),
            pair(5, "a", "b", "b"),
            explained(6, "a", "b", "b"),
        ],
    ),
}


def test_a_calibration_is_told_as_it_was_written_down():
    texts: list[str] = []
    for name, (kind, verdicts) in SETS.items():
        summary = LabelsSummary(kind=kind, count=len(verdicts), digest="d")
        calibration = Calibration(
            models=("sim:clerk-1",),
            digest="d",
            date="2026-01-02",
            repeats=len(verdicts[0].judgements),
            labels=summary,
            agreement=measure_agreement(kind, verdicts),
        )
        texts += [f"== {name}", *calibration_lines(calibration)]
        texts += disagreement_lines(kind, verdicts)
    assert_as_written("\n".join([*texts, ""]), "calibrations/lines")
