"""Lines of recordings and measurements that are read, or refused with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regauge.recordings import Recording, RecordingKey
from regauge.recordings._measurements import MeasurementLine
from tests.unit.recordings.conftest import recording

RECORDED = json.loads(json.dumps(recording(0, judge="tone", replaced=2).to_json()))
KEY = "ab" * 32
MEASURED = {
    "case": "c",
    "judge": "tone",
    "trial": 1,
    "key": KEY,
    "measurement": {"score": 1},
    "totals": {},
    "calls": [[KEY, 2]],
}


def test_a_recording_is_read_as_it_was_written():
    read = Recording.from_json(RECORDED)
    assert json.loads(json.dumps(read.to_json())) == RECORDED
    usual = {key: value for key, value in RECORDED.items() if key not in {"judge", "replaced"}}
    assert (Recording.from_json(usual).judge, Recording.from_json(usual).replaced) == (None, 0)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        *(({key: ...}, f"the recording has no '{key}'") for key in RECORDED if key not in {"judge", "replaced", "completion"}),
        ({"completion": []}, "the completion cannot be read"),
        ({"trial": "1"}, "the trial is '1', not a number from 0"),
        ({"trial": -1}, "the trial is -1"),
        ({"trial": True}, "the trial is True"),
        ({"replaced": -1}, "replaced is -1, not a number from 0"),
        ({"replaced": "x"}, "replaced is 'x'"),
        ({"digest": "xy"}, "the digest is 'xy', not 64 hexadecimal digits"),
        ({"digest": 3}, "the digest is 3"),
        ({"case": 3}, "the case and the prompt are names"),
        ({"prompt": None}, "the case and the prompt are names"),
        *(({key: value}, "are texts, the request an object") for key, value in [("model", 3), ("recorded_at", None), ("version", 1.0), ("request", [])]),
    ],
)  # fmt: skip
def test_a_faulty_recording_is_refused(changes: dict[str, Any], error: str):
    document = {key: value for key, value in (RECORDED | changes).items() if value is not ...}
    with pytest.raises(ValueError, match=error):
        Recording.from_json(document)


def test_a_recording_is_an_object():
    with pytest.raises(ValueError, match="a recording is a JSON object"):
        Recording.from_json([])


def test_a_measurement_is_read_as_it_was_written():
    line = MeasurementLine.decode(json.dumps(MEASURED).encode())
    assert json.loads(line.encode()) == MEASURED
    assert MeasurementLine.decode(line.encode()) == line


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        *(({key: ...}, f"the line has no '{key}'") for key in MEASURED),
        ({"calls": 3}, "the line cannot be read"),
        ({"case": 3}, "key, case and judge are texts, and the trial is a number"),
        ({"judge": None}, "key, case and judge are texts"),
        ({"key": 3}, "key, case and judge are texts"),
        ({"trial": "1"}, "the trial is a number"),
        ({"key": "xy"}, "the key is 'xy', not 64 hexadecimal digits"),
        ({"measurement": []}, "measurement and totals are objects"),
        ({"totals": None}, "measurement and totals are objects"),
    ],
)
def test_a_faulty_measurement_is_refused(changes: dict[str, Any], error: str):
    document = {key: value for key, value in (MEASURED | changes).items() if value is not ...}
    with pytest.raises(ValueError, match=error):
        MeasurementLine.decode(json.dumps(document).encode())


def test_a_key_is_shown_by_its_beginning_and_its_trial():
    assert str(RecordingKey(KEY, 0)) == "abababababab"
    assert str(RecordingKey(KEY, 1)) == "abababababab trial 1"


def test_a_measurement_is_an_object_of_json():
    with pytest.raises(ValueError, match="a measurement is a JSON object"):
        MeasurementLine.decode(b"[]")
    line = MeasurementLine(key=KEY, case="c", judge="j", trial=0, measurement={"x": object()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="object"):
        line.encode()
