"""Prompts, directories of prompts and locks that are symbolic links, in real repositories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.gate_repo import NAME, PROMPT, REWORDED, GateRepo

if TYPE_CHECKING:
    from pathlib import Path

LOCK = "prompts/prompts.lock"


def link(repo: GateRepo, path: str, target: Path) -> None:
    """Move a file or directory of main, with a link to it in its old place."""
    target.parent.mkdir(exist_ok=True)
    place = repo.root / path
    place.rename(target)
    place.symlink_to(os.path.relpath(target, place.parent))
    repo.commit("Link it")
    repo.git("checkout", "-q", "-b", "change")


@pytest.mark.parametrize("path", [PROMPT, "prompts", LOCK], ids=["prompt", "directory", "lock"])
def test_links_in_the_repository_are_their_files(path: str, tmp_path: Path):
    (tmp_path / "shop").mkdir()
    repo = GateRepo(tmp_path / "shop")
    released = repo.read(PROMPT)
    link(repo, path, repo.root / "shared" / f"our-{path.rpartition('/')[2]}")
    repo.edit(PROMPT, *REWORDED)
    rejected = repo.gate(code=1)
    assert "was called" not in rejected
    assert "its content changed, but its version is still 1.0.0" in rejected
    assert REWORDED[0] in rejected
    assert "is gone" not in rejected
    repo.release("minor")
    assert (repo.root / path).is_symlink()
    assert "1 prompt: 0 errors" in repo.regauge("lint")
    newest, oldest = repo.regauge("log", NAME).splitlines()[:2]
    assert newest.split()[0] == "1.1.0"
    assert "not released" not in newest
    assert (oldest.split()[0], oldest.split()[3] != "-") == ("1.0.0", True)
    assert REWORDED[0] in repo.regauge("show", f"{NAME}@1.0.0")
    repo.write(PROMPT, released)
    accepted = repo.gate(code=0)
    assert ": 24 unchanged\n" in accepted
    assert "was called" not in accepted


def test_a_prompt_that_is_deleted_in_a_linked_directory_is_named(tmp_path: Path):
    (tmp_path / "shop").mkdir()
    repo = GateRepo(tmp_path / "shop")
    repo.write("prompts/second.prompt.yml", repo.read(PROMPT).replace("version: 1.0.0\n", ""))
    link(repo, "prompts", repo.root / "lib")
    (repo.root / "lib/second.prompt.yml").unlink()
    repo.edit(PROMPT, *REWORDED)
    assert "note: second is gone: main has it" in repo.gate(code=1)


@pytest.mark.parametrize("path", [PROMPT, "prompts", LOCK], ids=["prompt", "directory", "lock"])
def test_links_out_of_the_repository_are_refused(path: str, tmp_path: Path):
    """A base has no text there, so any change would pass as new."""
    (tmp_path / "shop").mkdir()
    repo = GateRepo(tmp_path / "shop")
    link(repo, path, tmp_path / "outside" / (path.rpartition("/")[2]))
    repo.edit(PROMPT, *REWORDED)
    for command, code in (
        (["bump", NAME, "minor", "-m", "What changed"], 2),
        (["lint"], 1),
        (["refine", NAME, "--dry-run"], 2),
        (["gate", "main"], 2),
    ):
        refused = repo.regauge(*command, code=code)
        assert " is outside the git repository " in refused
        assert "fix: move it into the repository; a link to it is not enough" in refused
    assert "version: 1.0.0" in repo.read(PROMPT)


def test_a_link_to_itself_is_named(tmp_path: Path):
    repo = GateRepo(tmp_path)
    (tmp_path / PROMPT).unlink()
    (tmp_path / PROMPT).symlink_to(tmp_path / PROMPT)
    for command, code in ((["lint"], 1), (["bump", NAME], 2), (["refine", NAME], 2)):
        refused = repo.regauge(*command, code=code)
        assert f"{PROMPT}: cannot be read: a symbolic link that leads to itself" in refused
