"""Finished runs: found by name, applied with the lock, rolled back, and files that cannot be read."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from regauge.errors import UsageError
from regauge.project import Project
from regauge.prompts import load_prompt
from regauge.prompts._versions import lock_of
from regauge.refine.delivery import apply_run, commit_on_branch, roll_back
from regauge.refine.loop._loop import begin
from regauge.refine.runs import (
    Run,
    TrailError,
    TrailFile,
    begin_run,
    find_refinement,
    load_memory,
    read_trail,
    replay_trail,
    seal,
)
from tests.unit.refine.world import HEALTHY, world

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
name: greet
version: 1.0.0
model: sim:clerk-1
messages:
  - role: user
    content: Greet {{who}}.
"""
REVISED = TEXT.replace("1.0.0", "1.0.1").replace("Greet", "Kindly greet")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "pyproject.toml").write_text("[tool.regauge]\n")
    for name in ("greet", "other"):
        path = tmp_path / f"prompts/{name}.prompt.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEXT.replace("greet", name))
        release(path)
    return Project.find(tmp_path)


def release(path: Path) -> None:
    lock = lock_of(path).add(load_prompt(path))
    lock.path.write_text(str(lock))


def finished(project: Project, revision: str | None = REVISED) -> tuple[Run, Path]:
    """A run that proposes a revision with a version of its own, and the prompt's file."""
    path = project.root / "prompts/greet.prompt.yml"
    run = begin_run(project, "greet", {})
    TrailFile.begin(run.trail, {"prompt": "greet"})
    run.before.write_text(TEXT)
    if revision is not None:
        run.revision.write_text(revision)
        (run.directory / "prompts.lock").write_text("its line is computed when it is applied\n")
    seal(run)
    return run, path


def test_a_revision_is_applied_with_its_line_of_the_lock_and_rolled_back(project: Project):
    run, path = finished(project)
    lock = project.root / "prompts/prompts.lock"
    before = lock.read_text()

    assert apply_run(run, path) == [path, lock]

    assert path.read_text() == REVISED
    assert "greet@1.0.1" in lock.read_text()
    # What others released since stays.
    other = project.root / "prompts/other.prompt.yml"
    other.write_text(REVISED.replace("greet", "other"))
    release(other)
    assert roll_back(run, path) == [path, lock]
    assert path.read_text() == TEXT
    assert "greet@1.0.1" not in lock.read_text()
    assert "other@1.0.1" in lock.read_text()
    assert set(before.splitlines()) < set(lock.read_text().splitlines())
    with pytest.raises(UsageError, match="was not applied"):
        roll_back(run, path)


def test_a_changed_or_committed_revision_is_not_rolled_back(project: Project):
    run, path = finished(project)
    apply_run(run, path)
    path.write_text(REVISED + "owner: me\n")
    with pytest.raises(UsageError, match=r"changed since run .* was applied"):
        roll_back(run, path)

    path.write_text(REVISED)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Apply"]):
        subprocess.run(["git", *author, *command], cwd=project.root, check=True)
    with pytest.raises(UsageError, match="released and committed"):
        roll_back(run, path)
    assert path.read_text() == REVISED


def test_a_lock_that_cannot_be_written_leaves_the_prompt_as_it_is(project: Project):
    run, path = finished(project)
    lock = project.root / "prompts/prompts.lock"
    draft = lock.with_name(f".{lock.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    draft.mkdir()  # so the new lock cannot be written
    with pytest.raises(OSError, match=r"prompts\.lock"):
        apply_run(run, path)
    assert path.read_text() == TEXT

    draft.rmdir()
    assert apply_run(run, path) == [path, lock]


def test_a_run_without_a_revision_is_neither_applied_nor_committed(project: Project):
    run, path = finished(project, None)
    with pytest.raises(UsageError, match="proposes no revision"):
        apply_run(run, path)
    with pytest.raises(UsageError, match="proposes no revision"):
        commit_on_branch(run, path, name="", message="m")
    assert path.read_text() == TEXT


def test_runs_are_found_by_the_beginning_of_their_id(project: Project):
    with pytest.raises(UsageError, match="no prompt was refined here yet"):
        find_refinement(project, "greet")
    runs = [begin_run(project, name, {}) for name in ("greet", "other", "greet")]
    for run in runs:
        assert find_refinement(project, run.id).id == run.id
        others = [other.id for other in runs if other is not run]
        prefixes = [run.id[:end] for end in range(1, len(run.id))]
        unique = [start for start in prefixes if not any(o.startswith(start) for o in others)]
        assert all(find_refinement(project, start).id == run.id for start in unique)
    assert find_refinement(project, "other").id == runs[1].id
    with pytest.raises(UsageError, match="3 runs begin with '20'"):
        find_refinement(project, "20")
    with pytest.raises(UsageError, match="there is no run 'nil'"):
        find_refinement(project, "nil")


@pytest.mark.parametrize("text", ["[]", "{", '{"schema_version": 9}', "\udcff"])
def test_a_run_whose_facts_cannot_be_read_names_its_file(project: Project, text: str):
    run = begin_run(project, "greet", {})
    (run.directory / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"run\.json: "):
        run.facts()


@pytest.mark.parametrize(
    "memory",
    [
        "{",
        "[]",
        "{}",
        '{"key": "k"}',
        '{"key": "k", "tried": 1}',
        '{"key": "k", "tried": [1]}',
        '{"key": "k", "tried": [{}]}',
    ],
)
def test_a_memory_that_cannot_be_read_is_an_error_with_its_fix(project: Project, memory: str):
    begin_run(project, "greet", {})
    path = project.state_dir / "refine/greet.memory.json"
    path.write_text(memory)
    with pytest.raises(UsageError, match=r"greet\.memory\.json: ") as caught:
        load_memory(project, "greet", "k")
    assert f"remove {path}" in str(caught.value)


@pytest.mark.parametrize("observation", [{}, {"kind": "Gossip"}, {"kind": "Interrupted"}, []])
def test_an_event_that_is_no_observation_is_named(tmp_path: Path, observation: object):
    path = tmp_path / "trail.jsonl"
    trail = TrailFile.begin(path, {})
    trail._write("observed", {"observation": observation, "decisions": []})  # type: ignore[dict-item]
    with pytest.raises(TrailError, match="event 1 cannot be read"):
        replay_trail(begin(world(HEALTHY).config), read_trail(path), path)


def test_a_view_that_is_gone_is_written_again_by_its_fix(project: Project):
    run, _ = finished(project)
    run.result.write_text(json.dumps({}))
    seal(run)
    assert run.read_view(run.result) == "{}"
    run.result.unlink()
    with pytest.raises(TrailError, match=f"regauge refine resume {run.id} writes it again"):
        run.read_view(run.result)
