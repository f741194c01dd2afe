"""The ends of the processes of one run, merged; the job that a run belongs to."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest

from regauge.reports import RunEnd, ShardEval
from regauge.reports._runs import _parts
from regauge.reports._writer import job_state
from regauge.runner import MissingJudgements

if TYPE_CHECKING:
    from pathlib import Path


def missing(judge: str, count: int, cost_usd: float | None = 0.5) -> MissingJudgements:
    return MissingJudgements(
        prompt="alert", judge=judge, models="sim:m", simulated=True, judgements=count, cases=count,
        stale=1, calls=2 * count, tokens=100 * count, cost_usd=cost_usd, batch_cost_usd=None,
        command="regauge record alert",
    )  # fmt: skip


PART = ShardEval(
    eval="e", prompt="p", version=None, prompt_digest="0", dataset="p", dataset_digest="1",
    model="sim:m", judges={}, trials=1, total=5, cases=5, selected_cases=3,
)  # fmt: skip
FIRST = RunEnd(
    collected_cases=5, selected_cases=3, missing_judgements=[missing("tone", 2)],
    written_lines={"b": 1, "a": 2}, uncommitted={"a": 1}, turns=2, without_result=["x"],
    left_out={"n1": "why"}, omissions=["o"], trouble=["disk full"], unwritten=["r1"],
    parts=[PART],
)  # fmt: skip
OTHER = RunEnd(
    collected_cases=5, selected_cases=4, missing_judgements=[missing("short", 1), missing("tone", 3, None)],
    written_lines={"a": 3, "c": 1}, session=7, turns=1, without_result=["y"],
    left_out={"n2": "so"}, omissions=["p"], trouble=["disk full", "late"], unwritten=["r2"],
)  # fmt: skip
MERGED = RunEnd(
    collected_cases=5, selected_cases=4,
    missing_judgements=[replace(missing("tone", 5, None), stale=2), missing("short", 1)],
    written_lines={"a": 5, "b": 1, "c": 1}, uncommitted={"a": 1}, session=7, turns=3,
    without_result=["x", "y"], left_out={"n1": "why", "n2": "so"}, omissions=["o"],
    trouble=["disk full", "late"], unwritten=["r1", "r2"], parts=[PART],
)  # fmt: skip


def test_ends_of_processes_are_merged_and_survive_the_way_between_them():
    assert FIRST.merge(OTHER) == MERGED
    assert reduce(RunEnd.merge, [RunEnd(), FIRST, RunEnd()]) == FIRST
    assert RunEnd().merge(OTHER).omissions == ["p"]
    assert replace(FIRST, session=3).merge(RunEnd()).session == 3
    assert [RunEnd.from_text(end.to_text()) for end in (FIRST, MERGED)] == [FIRST, MERGED]
    more = FIRST.merge(RunEnd(written_lines={"b": 2}, uncommitted={"d": 1}))
    assert (more.written_lines, more.uncommitted) == ({"a": 2, "b": 3}, {"a": 1, "d": 1})


@pytest.mark.parametrize(
    ("environ", "head", "job"),
    [
        ({}, None, ("", False)),
        ({"GITHUB_RUN_ID": "7"}, None, ("github:7", False)),
        ({"GITHUB_RUN_ID": "7", "GITHUB_REPOSITORY": "a/b"}, "a/b", ("github:7", False)),
        ({"GITHUB_RUN_ID": "7", "GITHUB_REPOSITORY": "a/b"}, "c/b", ("github:7", True)),
        ({"GITHUB_RUN_ID": "7", "CI_PIPELINE_ID": "8"}, None, ("github:7", False)),
        ({"CI_PIPELINE_ID": "8"}, None, ("gitlab:8", False)),
        ({"CI_PIPELINE_ID": "8", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1", "CI_MERGE_REQUEST_PROJECT_ID": "1"}, None, ("gitlab:8", False)),
        ({"CI_PIPELINE_ID": "8", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2", "CI_MERGE_REQUEST_PROJECT_ID": "1"}, None, ("gitlab:8", True)),
    ],
)  # fmt: skip
def test_a_run_is_of_a_job_and_may_be_of_a_fork(
    tmp_path: Path, environ: dict[str, str], head: str | None, job: tuple[str, bool]
):
    if head is not None:
        side: dict[str, Any] = {"sha": "1" * 40, "repo": {"full_name": head}}
        event = {"number": 3, "pull_request": {"number": 3, "head": side, "base": side}}
        (tmp_path / "event.json").write_text(json.dumps(event), encoding="utf-8")
        environ = environ | {"GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
    state = job_state(environ)
    assert (state.id, state.fork) == job


@pytest.mark.parametrize("place", [".regauge/runs/r1", "elsewhere/r1", "elsewhere/runs/r1"])
def test_a_run_that_cannot_be_read_has_one_part(tmp_path: Path, place: str):
    run = tmp_path / place
    run.mkdir(parents=True)
    (run / "run.json").write_text("{", encoding="utf-8")
    assert _parts(run) == 1
