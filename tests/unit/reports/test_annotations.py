"""Annotations in GitHub Actions: where they point to, and how many there are."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.reports._github_actions import failure_annotations, write_job_summary

PLACE = "fixtures/golden/x.jsonl:12"


@pytest.mark.parametrize(
    ("root", "workspace", "below"),
    [
        ("/repo", "/repo", ""),
        ("/repo/sub/project", "/repo", "sub/project/"),
        ("/repo", "", ""),
        ("/elsewhere", "/repo", ""),
    ],
)
def test_a_failed_case_is_marked_at_its_line_in_the_repository(
    root: str, workspace: str, below: str
):
    environ = {"GITHUB_WORKSPACE": workspace} if workspace else {}
    (mark,) = failure_annotations([(PLACE, "test_a[c0]", "too long")], Path(root), environ)
    assert mark == f"::error file={below}fixtures/golden/x.jsonl,line=12,title=test_a[c0]::too long"


def test_the_first_ten_failures_with_a_line_are_marked_with_the_begin_of_their_reason():
    failures = [(PLACE, f"c{number}", "x" * 1001) for number in range(12)]
    marks = failure_annotations(failures, Path(), {})
    assert len(marks) == 10
    assert all(mark.endswith("::" + "x" * 1000) for mark in marks)
    assert failure_annotations([("", "c", "x"), ("a.jsonl", "c", "x"), (":3", "c", "x")], Path(), {}) == []  # fmt: skip


def test_outside_of_a_workflow_there_is_no_job_summary(tmp_path: Path):
    record: Any = SimpleNamespace(decision=None)
    assert write_job_summary(record, tmp_path, {}) == ""
    assert write_job_summary(record, tmp_path, {"GITHUB_STEP_SUMMARY": ""}) == ""
