"""The log of decisions: the latest of a comparison, and the rejected versions of a change."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from regauge.errors import InvalidFileError, MachineError
from regauge.gate import GatedChange
from regauge.gate._decision_log import DecisionLog, LoggedDecision

if TYPE_CHECKING:
    from pathlib import Path

PULL = GatedChange(noun="pull request", name="7")
REJECTED = LoggedDecision(key="k1", change=str(PULL), candidate="first", decision="reject")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gate" / "decisions.jsonl"


def test_a_log_finds_the_latest_decision_of_a_comparison(path: Path):
    log = DecisionLog(path)
    assert log.find("k1") is None
    log.add(replace(REJECTED, decision="undecided"))
    log.add(replace(REJECTED, key="k2", decision="accept"))
    log.add(replace(REJECTED, decision="undecided", more_trials=(8, 16)))
    found = DecisionLog(path).find("k1")
    assert found is not None
    assert found.decided_at
    assert replace(found, decided_at="") == replace(
        REJECTED, decision="undecided", more_trials=(8, 16)
    )
    assert log.find("k3") is None


def test_a_decision_is_final_where_further_trials_change_nothing():
    finals = {
        decision: replace(REJECTED, decision=decision).final
        for decision in ("accept", "reject", "undecided", "unmeasured")
    }
    assert finals == {"accept": True, "reject": True, "undecided": False, "unmeasured": False}


def test_the_same_decision_again_adds_no_line_and_another_does(path: Path):
    log = DecisionLog(path)
    for decision in (
        REJECTED,
        REJECTED,
        replace(REJECTED, more_trials=(8,)),
        REJECTED,
        replace(REJECTED, key="k2"),
        REJECTED,
    ):
        log.add(decision)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(line["key"], line["more_trials"]) for line in lines] == [
        ("k1", []),
        ("k1", [8]),
        ("k1", []),
        ("k2", []),
    ]


def test_rejected_versions_of_a_change_are_counted_once_and_without_the_present_one(path: Path):
    log = DecisionLog(path)
    assert log.rejected_before(PULL, "first") == 0
    log.add(REJECTED)
    log.add(replace(REJECTED, key="k2"))
    log.add(replace(REJECTED, key="k3", candidate="second"))
    log.add(replace(REJECTED, key="k4", candidate="third", decision="undecided"))
    log.add(replace(REJECTED, key="k5", candidate="fourth", change="branch 7"))
    assert log.rejected_before(PULL, "fifth") == 2
    assert log.rejected_before(PULL, "second") == 1
    assert log.rejected_before(GatedChange(noun="branch", name="7"), "fifth") == 1


def test_lines_that_a_killed_job_or_another_version_wrote_are_skipped(path: Path):
    log = DecisionLog(path)
    log.add(REJECTED)
    whole = path.read_bytes()
    odd = [b"", b"[1]", b"{}", b'{"key":"k1"', b"\xff", whole.strip()[:-1] + b',"later":1}']
    path.write_bytes(whole + b"\n".join(odd) + b"\n")
    log.add(replace(REJECTED, key="k2"))
    assert log.find("k1") is not None
    assert log.find("k2") is not None
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidFileError, match=r"decisions\.jsonl"):
        log.find("k1")


def test_a_log_that_cannot_be_written_is_an_error_with_its_path(path: Path):
    path.parent.mkdir()
    path.symlink_to(path.parent / "missing" / "decisions.jsonl")
    with pytest.raises(MachineError, match=r"decisions\.jsonl"):
        DecisionLog(path).add(REJECTED)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"GITHUB_REF": "refs/pull/12/merge"}, "pull request 12"),
        ({"GITHUB_REF": "refs/heads/main"}, "branch topic"),
        ({"CI_MERGE_REQUEST_IID": "5"}, "merge request 5"),
        ({"GITHUB_REF": "refs/pull/12/merge", "CI_MERGE_REQUEST_IID": "5"}, "pull request 12"),
        ({"CI_MERGE_REQUEST_IID": ""}, "branch topic"),
        ({}, "branch topic"),
    ],
)
def test_a_change_is_named_by_its_job_or_its_branch(
    tmp_path: Path, environ: dict[str, str], words: str
):
    subprocess.run(["git", "init", "-q", "-b", "topic", str(tmp_path)], check=True)
    assert str(GatedChange.current(tmp_path, environ)) == words


def test_outside_a_repository_a_change_has_no_name(tmp_path: Path):
    assert GatedChange.current(tmp_path, {}) == GatedChange(noun="branch", name="")
