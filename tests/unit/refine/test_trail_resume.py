"""The audit trail: every change of it shows, and a run that was cut off goes on to the same end."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from regauge.refine.loop._loop import begin
from regauge.refine.loop._state import Interrupted
from regauge.refine.runs import TrailError, TrailFile, read_trail, replay_trail, truncate_trail
from tests.unit.refine.world import without, world


def mixed():
    """A run with an accepted edit and one that is taken back."""
    from tests.unit.refine.world import HOLDOUT, passes

    return world(
        without("json", "utc"),
        passes=lambda text, case, check: (
            passes(text, case, check) and not (check == "utc" and case in HOLDOUT)
        ),
    )


def stacked():
    """A run whose three accepted edits the gate refuses together, because of the first."""
    from tests.unit.refine.world import JSON

    return world(without("json", "short", "utc"), refuses=lambda text: JSON in text)


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "trail.jsonl"
    here = mixed()
    state = here.run(trail=TrailFile.begin(path, {"prompt": "p"}))
    return path, state


@pytest.mark.parametrize("mixed", [mixed, stacked])
def test_a_run_cut_off_at_any_event_goes_on_to_the_same_trail(mixed, tmp_path):
    path = tmp_path / "trail.jsonl"
    end = mixed().run(trail=TrailFile.begin(path, {"prompt": "p"}))
    whole = path.read_bytes()
    lines = whole.split(b"\n")
    drawn = mixed()
    drawn.run()
    for kept in range(1, len(lines) - 1):
        cut = tmp_path / f"cut-{kept}.jsonl"
        # The process died while it wrote the next line.
        cut.write_bytes(b"\n".join(lines[:kept]) + b"\n" + lines[kept][:40])
        truncate_trail(cut)
        events = read_trail(cut)
        here = mixed()
        state = replay_trail(begin(here.config), events, cut)

        here.run(state, trail=TrailFile(cut, events))

        assert cut.read_bytes() == whole
        told = sum(len(event.body["observation"].get("outcomes", ())) for event in events[1:])
        assert told + len(here.drawn) == len(drawn.drawn), "nothing that was paid is drawn again"
    assert end.stop is not None


def test_the_same_run_writes_the_same_bytes(written, tmp_path):
    path, _ = written
    again = tmp_path / "again.jsonl"

    mixed().run(trail=TrailFile.begin(again, {"prompt": "p"}))

    assert again.read_bytes() == path.read_bytes()


def test_an_interruption_is_left_out_when_a_run_goes_on(tmp_path):
    path = tmp_path / "trail.jsonl"
    here = mixed()
    here.told = {3: Interrupted(reason="interrupted", text="Ctrl-C")}
    stopped = here.run(trail=TrailFile.begin(path, {}))
    assert stopped.stop.reason == "interrupted"
    assert not stopped.stop.proposal

    further = mixed()
    events = read_trail(path)
    end = further.run(replay_trail(begin(further.config), events, path), TrailFile(path, events))

    straight = mixed()
    assert end.text == straight.run().text
    assert end.stop.proposal


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_every_changed_byte_shows(written, tmp_path, data):
    path, _ = written
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 2))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    whole[place] = value
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(bytes(whole))

    with pytest.raises(TrailError):
        read_trail(changed)


@pytest.mark.parametrize("how", ["removed", "swapped", "repeated"])
def test_a_line_that_was_moved_or_taken_out_shows(written, tmp_path, how):
    path, _ = written
    lines = path.read_bytes().split(b"\n")
    match how:
        case "removed":
            del lines[3]
        case "swapped":
            lines[3], lines[4] = lines[4], lines[3]
        case _:
            lines.insert(3, lines[3])
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(b"\n".join(lines))

    with pytest.raises(TrailError, match=r"changed\.jsonl:[45]: the chain is broken"):
        read_trail(changed)


def test_a_trail_that_decides_otherwise_is_not_gone_on_with(written):
    path, _ = written
    healthy = world(without("utc"))

    with pytest.raises(TrailError, match="leads to another decision"):
        replay_trail(begin(healthy.config), read_trail(path), path)


def test_every_decision_stands_in_the_trail_with_its_numbers(written):
    path, _ = written
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    decisions = [d for event in events[1:] for d in event["body"]["decisions"]]

    confirmed = next(d for d in decisions if d["event"] == "confirmed")
    assert set(confirmed["numbers"]) == {"p", "bound", "look"}
    assert {d["event"] for d in decisions} >= {
        "diagnosed", "screened", "confirmed", "suite-accept", "rolled-back", "accepted", "stopped",
    }  # fmt: skip
    assert [event["seq"] for event in events] == list(range(len(events)))


def test_a_trail_begins_with_the_inputs_of_a_run_in_a_known_form(tmp_path):
    path = tmp_path / "trail.jsonl"
    with pytest.raises(TrailError, match=r"trail\.jsonl: No such file"):
        read_trail(path)
    # A run that was killed before its first line was whole has none.
    for content in (b"", b'{"seq":0,"kind":"beg'):
        path.write_bytes(content)
        with pytest.raises(TrailError, match="no line about the inputs of the run"):
            read_trail(path)
    path.unlink()
    TrailFile(path).wrote({})
    with pytest.raises(TrailError, match="no line about the inputs of the run"):
        read_trail(path)
    path.unlink()
    TrailFile.begin(path, {"schema_version": 2})
    with pytest.raises(TrailError, match="schema_version 2 is not 1"):
        read_trail(path)
    path.unlink()
    TrailFile.begin(path, {"prompt": "report"})
    (event,) = read_trail(path)
    assert (event.kind, event.seq, event.prev) == ("began", 0, "")
    assert event.body == {"schema_version": 1, "prompt": "report"}
