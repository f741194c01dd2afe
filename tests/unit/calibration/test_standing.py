"""Which judges gate: those whose record is about them, their labels and good enough."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from regauge.errors import InvalidFileError
from regauge.judges import judge_status
from regauge.judges.calibration import (
    Agreement,
    Calibration,
    CalibrationFile,
    Confusion,
    IntervalEstimate,
    LabelsSummary,
    calibration_path,
    load_calibrations,
)


@dataclass
class Judge:
    name: str = "tone"
    digest: str = "d1"
    models: tuple[str, ...] = ("sim:clerk-1",)


def calibrated(labels, *, low=0.5, judged=40, fails=20, kind="outcomes", spearman=0.5, **more):
    def estimate(low):
        return None if low is None else IntervalEstimate(value=0.9, low=low, high=1)

    return Calibration(
        **{"models": ("sim:clerk-1",), "digest": "d1", "date": "2026-11-21", "repeats": 3} | more,
        labels=LabelsSummary(kind=kind, count=len(labels), digest=labels.digest),
        agreement=Agreement(
            verdicts=judged,
            base_rate=0.5,
            majority_accuracy=0.5,
            accuracy=estimate(0.8),
            kappa=estimate(low),
            spearman=estimate(spearman),
            confusion=Confusion(labels=("pass", "fail"), counts=((40 - fails, 0), (0, fails))),
        ),
    )


@pytest.fixture
def labels(load):
    return load([{"id": "l", "case": "c", "output": "x", "label": "pass"}])


@pytest.fixture
def store(project):
    def stored(*calibrations, judge="tone"):
        file = CalibrationFile(judge=judge, calibrations=calibrations)
        calibration_path("tone", project).write_text(file.to_text(), encoding="utf-8")

    return stored


def informs(project, judge=None):
    standing = judge_status(judge or Judge(), project)
    assert not standing.blocking
    return standing.reason


def test_a_judge_that_agrees_with_people_gates(project, labels, store):
    store(calibrated(labels))
    assert judge_status(Judge(), project).blocking
    assert judge_status(Judge(), project).reason == "calibrated on 2026-11-21"


@pytest.mark.parametrize(("fails", "gates"), [(0, False), (1, False), (9, False), (10, True)])
def test_few_labels_of_one_side_gate_nothing(project, labels, store, fails, gates):
    store(calibrated(labels, fails=fails))
    standing = judge_status(Judge(), project)
    assert standing.blocking is gates
    assert gates or standing.reason.startswith(f"{fails} labels differ from the most frequent one")


def test_a_judge_without_a_record_informs(project, labels):
    assert informs(project) == "no calibration record"


def test_another_rubric_or_another_model_voids_the_record(project, labels, store):
    store(calibrated(labels))
    assert informs(project, Judge(digest="d2")) == (
        "its rubric or parameters changed since it was calibrated"
    )
    assert informs(project, Judge(digest="d3", models=("openai:m",))) == (
        "it was calibrated with sim:clerk-1, not with openai:m"
    )
    store(calibrated(labels), calibrated(labels, models=("openai:m",), digest="d3"))
    assert judge_status(Judge(digest="d3", models=("openai:m",)), project).blocking
    assert judge_status(Judge(), project).blocking


def test_other_labels_void_the_record(project, labels, store, write):
    store(calibrated(labels))
    write([{"id": "l", "case": "c", "output": "x", "label": "fail"}])
    assert informs(project) == "its labels changed since it was calibrated"
    write("{")
    assert informs(project).startswith("its labels cannot be used: not JSON")


def test_labels_of_another_judge_count_as_well(project, labels, store, load):
    others = load([{"id": "l", "case": "c", "output": "x", "label": "fail"}], "manners")
    known = calibrated(others)
    summary = known.labels.model_copy(update={"judge": "manners"})
    store(known.model_copy(update={"labels": summary}))
    assert judge_status(Judge(), project).blocking
    load([{"id": "l", "case": "c", "output": "y", "label": "fail"}], "manners")
    assert informs(project) == "its labels changed since it was calibrated"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"low": 0.4}, "kappa may be as low as 0.40, the floor is 0.40"),
        ({"low": None}, "kappa is not defined: labels or verdicts hardly vary"),
        ({"judged": 29}, "29 labelled outputs were judged, 30 are needed"),
        (
            {"kind": "scores", "low": 0.9, "spearman": 0.1},
            "Spearman's correlation may be as low as 0.10, the floor is 0.40",
        ),
    ],
)
def test_too_little_agreement_is_said(project, labels, store, given, reason):
    store(calibrated(labels, **given))
    assert informs(project) == reason


def test_the_project_says_what_is_enough(project, labels, store):
    store(calibrated(labels, low=0.3, judged=12))
    (project.root / "pyproject.toml").write_text(
        "[tool.regauge.calibration]\nfloor = 0.25\nmin_labels = 12\n", encoding="utf-8"
    )
    assert judge_status(Judge(), project).blocking


def test_a_record_that_cannot_be_read_lets_nobody_gate(project, labels, store):
    store(calibrated(labels), judge="another")
    assert informs(project) == "its calibration record is about 'another'"
    path = calibration_path("tone", project)
    for text in (
        b'{"judge": "tone"}',
        b"",
        b"\xff",
        b'{"judge":"tone","calibrations":[],"format":1}',
    ):
        path.write_bytes(text)
        assert informs(project) == "its calibration record cannot be read"
        with pytest.raises(InvalidFileError, match="regauge judges calibrate tone"):
            load_calibrations(path)


def test_a_new_calibration_replaces_that_of_the_same_models_and_keeps_its_date_if_equal(labels):
    file = CalibrationFile(judge="tone", calibrations=(calibrated(labels),))
    same = file.with_calibration(calibrated(labels, date="2027-01-01"))
    assert same == file
    other = file.with_calibration(calibrated(labels, date="2027-01-01", digest="d2"))
    assert [one.digest for one in other.calibrations] == ["d2"]
    both = other.with_calibration(calibrated(labels, models=("openai:m",)))
    assert [one.models for one in both.calibrations] == [("openai:m",), ("sim:clerk-1",)]
    assert CalibrationFile.model_validate_json(both.to_text()) == both
