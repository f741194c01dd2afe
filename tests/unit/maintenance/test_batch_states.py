"""The files of batches in a project: kept for a month, read strictly, left out when abandoned."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import UsageError
from regauge.maintenance.batch_files import result_id
from regauge.maintenance.batches import BatchOptions, ProjectBatches
from regauge.project import Project
from regauge.prompts import Message
from regauge.providers import CompletionRequest
from regauge.providers.batches import LIMITS, BatchClient
from regauge.recordings import RecordingKey
from regauge.runner import EvalSession, RunOptions
from regauge.runner._plan import CaseRequest

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400
ID = result_id(RecordingKey("ab" * 32, 0))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    directory = tmp_path / ".regauge/batches"
    directory.mkdir(parents=True)
    return directory


def write_state(directory: Path, name: str, *, results: bool = False, **changes: Any) -> None:
    state = {
        "schema_version": 1, "name": name, "model": "sim:m", "requests": 1, "status": "written",
        "created_at": time.time() - 5 * DAY,
    }  # fmt: skip
    (directory / f"{name}.json").write_text(json.dumps(state | changes))
    (directory / f"{name}.jsonl").write_text(json.dumps({"custom_id": ID, "method": "POST"}) + "\n")
    if results:
        line = {"custom_id": ID, "response": {"body": {"id": "x"}}}
        (directory / f"{name}.results-0.jsonl").write_text(json.dumps(line) + "\n")


def opened(directory: Path) -> tuple[EvalSession, ProjectBatches]:
    project = Project(root=directory.parents[1])
    session = EvalSession(project, RunOptions(record="missing"), environ={})
    return session, ProjectBatches(session, BatchOptions(start=False))


def tidied(directory: Path) -> list[str]:
    """The files after a command that collects nothing."""
    session, batches = opened(directory)
    with batches.open():
        batches.tidy()
    session.close()
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".lock")


def call_of(model: str, number: int) -> CaseRequest:
    """A call of a model; the requests of all calls have the same length."""
    request = CompletionRequest(
        model=model,
        provider="local",
        messages=(Message(role="user", content=f"line {number}"),),
        parameters={},
    )
    return CaseRequest(
        request=request,
        key=RecordingKey(request.digest, 0),
        file="alert",
        prompt="alert",
        version="1.0.0",
        caller_digest="a",
        case=f"c{number}",
    )


NAMES = [f"20260101T00000{number}Z-abcdef-0" for number in range(4)]


def test_files_of_a_batch_are_kept_for_a_month_and_a_day(directory: Path):
    now = time.time()
    write_state(directory, NAMES[0], status="by-hand", created_at=now - 31 * DAY - 60)
    write_state(directory, NAMES[1], status="by-hand", created_at=now - 31 * DAY + 60)
    assert tidied(directory) == [f"{NAMES[1]}.json", f"{NAMES[1]}.jsonl"]


def test_a_batch_whose_calls_are_recorded_leaves_its_state_alone(directory: Path):
    write_state(directory, NAMES[0], status="by-hand")
    (directory / f"{NAMES[0]}.jsonl").write_text(json.dumps({"custom_id": "other"}) + "\n")
    assert tidied(directory) == [f"{NAMES[0]}.json"]
    state = json.loads((directory / f"{NAMES[0]}.json").read_text())
    assert (state["status"], state["failed"]) == ("collected", {})
    assert tidied(directory) == [f"{NAMES[0]}.json"]


def test_files_of_batches_that_never_started_are_removed(directory: Path):
    write_state(directory, NAMES[0])
    (directory / f"{NAMES[0]}.jsonl").unlink()
    (directory / f"{NAMES[1]}.jsonl").write_text("{}\n")
    (directory / "mine.jsonl").write_text("{}\n")
    assert tidied(directory) == ["mine.jsonl"]


@pytest.mark.parametrize(
    "change", [{"status": "odd"}, {"model": 3}, {"requests": "x"}, {"more": 1}]
)
def test_a_state_that_cannot_be_read_is_named(directory: Path, change: dict[str, Any]):
    write_state(directory, NAMES[0], **change)
    session, batches = opened(directory)
    path = f".regauge/batches/{NAMES[0]}.json cannot be read: ValidationError\n  fix: remove it"
    with pytest.raises(UsageError) as caught, batches.open():
        pass
    assert path in str(caught.value)
    session.close()


@pytest.mark.parametrize(
    ("calls", "start", "sentences", "warnings"),
    [
        ({}, False, [], []),
        (
            {"pending": {"a": "remote", "b": "remote"}},
            False,
            ["2 completions under way; collect the results with: regauge record --collect"],
            [],
        ),
        (
            {"pending": {"a": "remote", "b": NAMES[0], "c": "remote"}, "_judge_calls": {"c"}},
            False,
            [
                "1 completion and 1 judge call under way; collect the results with: regauge record --collect",
                f"1 completion of sim:m written to .regauge/batches/{NAMES[0]}.jsonl; run the file, then: regauge record --collect RESULTS.jsonl",
            ],
            [],
        ),
        (
            {"missing": {"a"}, "_judge_calls": {"a"}},
            False,
            ["1 judge call missing; submit them with: regauge record --batch"],
            [],
        ),
        (
            {"failures": {"too long": ("disk-1", 1), "refused": ("disk-2", 3)}},
            False,
            ["4 calls failed; submit them again with: regauge record --batch"],
            [
                "1 call failed in a batch, of case disk-1: too long",
                "3 calls failed in a batch, of cases such as disk-2: refused",
            ],
        ),
        (
            {"failures": {"too long": ("disk-1", 1)}},
            True,
            [],
            ["1 call failed in a batch, of case disk-1: too long"],
        ),
        (
            {"live_only": Counter({"a target": 1, "a conversation": 2})},
            False,
            [],
            [
                "not by batch: 2 calls of a conversation; record live: regauge record",
                "not by batch: 1 call of a target; record live: regauge record",
            ],
        ),
    ],
)
def test_calls_without_a_completion_are_open_and_named_with_the_next_command(
    directory: Path,
    calls: dict[str, Any],
    *,
    start: bool,
    sentences: list[str],
    warnings: list[str],
):
    write_state(directory, NAMES[0], status="by-hand")
    project = Project(root=directory.parents[1])
    session = EvalSession(project, RunOptions(record="missing"), environ={})
    batches = ProjectBatches(session, BatchOptions(start=start))
    with batches.open():
        for name, value in calls.items():
            setattr(batches, name, value)
        assert batches.has_open_calls is bool(calls)
        assert [*batches.sentences()] == sentences
        assert [*batches.warnings()] == warnings
        assert batches.to_json() == {
            "under_way": len(calls.get("pending", {})),
            "collected": 0,
            "batches": sorted({*calls.get("pending", {}).values()}),
            "notes": warnings,
        }
    session.close()


@pytest.mark.parametrize(
    ("requests_max", "lines_max", "sizes"),
    [
        (4, 99, {"a": [4, 1], "b": [2]}),
        (5, 99, {"a": [5], "b": [2]}),
        (99, 2, {"a": [2, 2, 1], "b": [2]}),
        (99, 4.9, {"a": [4, 1], "b": [2]}),
        (99, 0.5, {"a": [1] * 5, "b": [1, 1]}),
        (1, 2, {"a": [1] * 5, "b": [1, 1]}),
    ],
)
def test_a_file_of_requests_is_within_the_limits_of_its_provider(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    requests_max: int,
    lines_max: float,
    sizes: dict[str, list[int]],
):
    """A size is that of whole lines; each model has files of its own."""
    calls = [
        call_of(model, number) for number in range(5) for model in ("ab" if number < 2 else "a")
    ]
    (directory.parents[1] / "pyproject.toml").write_text(
        '[tool.regauge.providers.local]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    session = EvalSession(
        Project.find(directory.parents[1]), RunOptions(record="missing"), environ={}
    )
    client = BatchClient(session.project.settings.providers["local"], name="local", environ={})
    line = client.line(result_id(calls[0].key), calls[0].request, other_limit=False)
    monkeypatch.setitem(LIMITS, "openai", (requests_max, int(lines_max * len(line))))
    batches = ProjectBatches(session, BatchOptions(start=True, upload=False))
    with batches.open():
        for call in calls:
            assert batches.find(call) is None
            batches.request(call)
        assert batches.start() == []
    session.close()
    written: dict[str, list[int]] = {}
    for path in sorted(directory.glob("*.json"), key=lambda path: int(path.stem.split("-")[-1])):
        state = json.loads(path.read_text())
        lines = path.with_suffix(".jsonl").read_bytes().splitlines(keepends=True)
        assert state["requests"] == len(lines)
        assert {len(each) for each in lines} == {len(line)}
        written.setdefault(state["model"].removeprefix("local:"), []).append(len(lines))
    assert written == sizes
