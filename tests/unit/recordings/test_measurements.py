"""What judges measured, on disk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from regauge.errors import RecordingError
from regauge.judges import Measurement
from regauge.recordings import MeasurementLine, MeasurementsFile, RecordingKey

if TYPE_CHECKING:
    from pathlib import Path

DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
NAMES = st.text(min_size=1, max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
MEASUREMENTS = st.builds(
    Measurement,
    score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    reason=st.text(),
    details=st.dictionaries(st.text(), VALUES, max_size=3),
)
LINES = st.builds(
    MeasurementLine,
    key=DIGESTS,
    case=NAMES,
    judge=NAMES,
    trial=st.integers(0, 5),
    measurement=MEASUREMENTS.map(Measurement.to_json),
    calls=st.lists(st.builds(RecordingKey, DIGESTS, st.integers(0, 9)), max_size=3).map(tuple),
    totals=st.just({"calls": 2, "cost_usd": 0.5}),
)


def line(number: int = 0, **more: object) -> MeasurementLine:
    given: dict[str, object] = {
        "key": f"{number:064x}",
        "case": f"c{number}",
        "judge": "fair",
        "trial": 0,
        "measurement": {"score": 0.5, "reason": "", "details": {}},
    }
    return MeasurementLine(**(given | more))  # type: ignore[arg-type]  # a test says which


@given(LINES)
def test_a_line_reads_back_as_it_was_written(one: MeasurementLine):
    assert MeasurementLine.decode(one.encode()) == one
    assert b"\n" not in one.encode()


@given(MEASUREMENTS)
def test_a_measurement_reads_back_as_it_was_written(one: Measurement):
    assert Measurement.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"score": "1", "reason": "", "details": {}}, {"score": 1, "reason": "r"},
     {"score": True, "reason": "", "details": {}}, {"score": 1, "reason": 1, "details": {}}],
)  # fmt: skip
def test_what_is_no_measurement_is_refused(document: object):
    with pytest.raises(ValueError, match=r"measurement|score"):
        Measurement.from_json(document)  # type: ignore[arg-type]  # that is the point


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(LINES, max_size=5, unique_by=lambda one: one.key))
def test_the_file_is_the_same_in_whatever_order_lines_come(
    tmp_path_factory: pytest.TempPathFactory, lines: list[MeasurementLine]
):
    contents: list[bytes] = []
    for order in (lines, lines[::-1]):
        path = tmp_path_factory.mktemp("measured") / "verdicts" / "p.jsonl"
        file = MeasurementsFile(path)
        for one in order:
            file.put(one, replace=False)
        assert file.save() == len(lines)
        contents.append(path.read_bytes() if lines else b"")
        assert {one.key for one in lines if MeasurementsFile(path).get(one.key) == one} == {
            one.key for one in lines
        }
    assert contents[0] == contents[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["keep", "replace", "prune", "save"]),
            st.integers(0, 3),
            st.sampled_from([0.25, 0.75]),
        ),
        max_size=12,
    )
)
def test_unsaved_measurements_count_and_are_found_like_saved_ones(
    tmp_path: Path, steps: list[tuple[str, int, float]]
):
    path = tmp_path / "p.jsonl"
    path.unlink(missing_ok=True)
    file, held, saved = MeasurementsFile(path), {}, {}
    for step, number, score in steps:
        new = line(number, measurement={"score": score, "reason": "", "details": {}})
        if step == "save":
            keys = held.keys() | saved.keys()
            assert file.save() == sum(held.get(key) != saved.get(key) for key in keys)
            saved = dict(held)
        elif step == "prune":
            unused = [held[key] for key in sorted(held) if key != new.key]
            assert file.find_unused({new.key}) == unused
            assert file.prune({new.key}) == len(unused)
            held = {key: one for key, one in held.items() if key == new.key}
        else:
            file.put(new, replace=step == "replace")
            held = held | {new.key: new} if step == "replace" else {new.key: new} | held
        assert len(file) == len(held)
        assert {key: file.get(key) for key in held} == held
        assert len(MeasurementsFile(path)) == len(saved)
        assert {key: MeasurementsFile(path).get(key) for key in saved} == saved


def test_a_shard_reads_its_own_measurements_alone(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    file = MeasurementsFile(path)
    for number in range(4):
        file.put(line(number), replace=False)
    file.save()
    shard = MeasurementsFile(path, in_shard=lambda case: case in {"c1", "c3"})
    assert len(shard) == 2
    assert [shard.get(line(number).key) is not None for number in range(4)] == [
        False,
        True,
        False,
        True,
    ]


def test_two_processes_add_and_remove_side_by_side(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    first = MeasurementsFile(path)
    first.put(line(0), replace=False)
    first.put(line(1), replace=False)
    first.save()
    mine, other = MeasurementsFile(path), MeasurementsFile(path)
    other.put(line(2), replace=False)
    other.save()
    assert [one.case for one in mine.find_unused({line(0).key})] == ["c1"]
    assert mine.prune({line(0).key}) == 1
    mine.put(line(3), replace=True)
    assert mine.save() == 2
    assert mine.save() == 0
    left = MeasurementsFile(path)
    assert [line(n).key for n in range(5) if left.get(line(n).key)] == [
        line(n).key for n in (0, 2, 3)
    ]


def test_a_measurement_that_is_the_same_leaves_the_file_alone(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    file = MeasurementsFile(path)
    file.put(line(0, totals={"calls": 1}), replace=False)
    file.save()
    before = path.read_bytes()
    again = MeasurementsFile(path)
    again.put(line(0, totals={"calls": 9}), replace=True)
    assert (again.save(), path.read_bytes()) == (0, before)
    assert again.new_lines() == []
    again.put(line(0, measurement={"score": 1, "reason": "", "details": {}}), replace=True)
    again.put(line(3), replace=False)
    again.put(line(2), replace=False)
    written = [json.loads(new) for new in again.new_lines()]
    assert [new["key"] for new in written] == [line(n).key for n in (0, 2, 3)]
    assert again.save() == 3


def test_all_lines_that_cannot_be_read_are_named(tmp_path: Path):
    path = tmp_path / "p.jsonl"
    good = line(0).encode()
    rival = line(0, measurement={"score": 0.1, "reason": "", "details": {}}).encode()
    short = line(1).encode().replace(line(1).key.encode(), b"12")
    path.write_bytes(b"\n".join([good, b"{", short, rival, b"", b"[]", good]))
    with pytest.raises(RecordingError) as caught:
        MeasurementsFile(path)
    assert [diagnostic.line for diagnostic in caught.value.diagnostics] == [2, 3, 4, 6]


def test_nan_is_not_written():
    with pytest.raises(ValueError, match="JSON"):
        line(0, measurement={"score": float("nan")}).encode()
