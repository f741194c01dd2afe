"""Which answers are missing, which are stale, and what recording them would use."""

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from regauge.project import PriceSettings
from regauge.prompts import Message
from regauge.providers import CompletionRequest
from regauge.recordings import Draw, RecordingKey, RecordingsFile, needs_recording


def draw(case, text, trial=0):
    request = CompletionRequest(
        model="clerk-1",
        provider="sim",
        messages=(Message(role="user", content=text),),
        parameters={},
        trial=trial,
    )
    return Draw(case=case, request=request)


def file_with(tmp_path, made, *draws):
    file = RecordingsFile.load(tmp_path / "alert.jsonl")
    file.merge(
        [replace(made(), case=d.case, key=RecordingKey.of(d.request)) for d in draws],
        replace=False,
    )
    return file


def test_nothing_is_needed_where_everything_is_recorded_or_kept(tmp_path, made):
    one, two = draw("one", "a"), draw("two", "b")
    file = file_with(tmp_path, made, one)
    needs = needs_recording(
        "alert", [one, two], file=file, kept={RecordingKey.of(two.request)}, price=lambda _: None
    )
    assert not needs
    assert needs.cases == ()


def test_changed_requests_are_stale_and_new_cases_and_trials_are_missing(tmp_path, made):
    file = file_with(tmp_path, made, draw("one", "before"), draw("two", "b"))
    wanted = [draw("one", "after"), draw("two", "b"), draw("two", "b", 1), draw("new", "c" * 400)]
    price = PriceSettings(input_per_million=100, output_per_million=1000)
    needs = needs_recording("alert", wanted, file=file, price=lambda _: price)
    assert [d.case for d in needs.stale] == ["one"]
    assert [(d.case, d.request.trial) for d in needs.missing] == [("two", 1), ("new", 0)]
    assert needs.cases == ("one", "two", "new")
    assert str(needs) == snapshot("""\
alert: 3 answers need recording (1 for an older version of the prompt or the case, 2 not recorded yet); about 103 tokens in, 9 out, about $0.0193
  record: pytest evals --record=missing -k alert\
""")


def test_a_cost_that_is_not_known_is_not_zero(tmp_path, made):
    file = file_with(tmp_path, made)
    needs = needs_recording("alert", [draw("one", "a")], file=file, price=lambda _: None)
    assert "1 answer needs recording (1 not recorded yet)" in str(needs)
    assert "cost not known" in str(needs)
