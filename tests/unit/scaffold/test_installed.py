"""The source of the running regauge, as its installer noted it, as a command of a workflow."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from regauge.scaffold._workflows import _default_branch, find_install

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA256 = "a" * 64
GIT = {"url": "https://example.org/r.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}
WHEEL = {"url": "https://example.org/r.whl", "archive_info": {"hashes": {"sha256": SHA256}}}


@pytest.mark.parametrize(
    ("noted", "line"),
    [
        (GIT, f"'regauge @ git+https://example.org/r.git@{COMMIT}'"),
        (GIT | {"url": "ssh://git@example.org/r.git"}, f"'regauge @ git+ssh://git@example.org/r.git@{COMMIT}'"),
        (GIT | {"url": "https://me:token@example.org/r.git"}, None),
        (GIT | {"url": "file:///r"}, None),
        (GIT | {"vcs_info": {"commit_id": "main"}}, None),
        (WHEEL, f"'regauge @ https://example.org/r.whl#sha256={SHA256}'"),
        (WHEEL | {"url": "http://example.org/r.whl"}, None),
        (WHEEL | {"archive_info": {}}, None),
        ({"url": "file://ROOT/vendor/re%20gauge", "dir_info": {}}, "'./vendor/re gauge'"),
        ({"url": "file://ROOT/vendor/other", "dir_info": {}}, None),
        ({"url": "file:///elsewhere", "dir_info": {}}, None),
        ({"url": None}, None),
        ({}, None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_a_noted_source_is_installed_if_it_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: object, line: str | None
):
    site, root = tmp_path / "site", tmp_path / "project"
    info = site / "regauge-9.9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: regauge\nVersion: 9.9.9\n")
    for name, project in (("re gauge", "regauge"), ("other", "other")):
        (root / "vendor" / name).mkdir(parents=True)
        text = f'[project]\nname = "{project}"\n'
        (root / "vendor" / name / "pyproject.toml").write_text(text)
    if noted is not None:
        text = json.dumps(noted).replace("ROOT", str(root))
        (info / "direct_url.json").write_text(text)
    monkeypatch.syspath_prepend(str(site))
    install = find_install(root)
    if line is None:
        assert install is None
    else:
        assert install is not None
        assert (install.source, install.script) == (
            "the installed regauge",
            f"python -m pip install {line}",
        )


def test_a_note_that_is_no_json_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = tmp_path / "site" / "regauge-9.9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: regauge\nVersion: 9.9.9\n")
    (info / "direct_url.json").write_text("{")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_install(tmp_path) is None


@pytest.mark.parametrize(
    ("refs", "branch"),
    [
        ([], "trunk"),
        (["refs/heads/topic"], "trunk"),
        (["refs/heads/topic", "refs/heads/master"], "master"),
        (["refs/heads/main", "refs/heads/master"], "main"),
        (["refs/heads/main", "refs/remotes/origin/HEAD -> refs/remotes/origin/dev/next"], "dev/next"),
    ],
)  # fmt: skip
def test_the_default_branch_is_that_of_the_remote_or_a_usual_name(
    tmp_path: Path, refs: list[str], branch: str
):
    def git(*words: str, given: str = "") -> str:
        command = ["git", "-C", str(tmp_path), *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout  # fmt: skip

    git("init", "-q", "-b", "trunk")
    tree = git("mktree").strip()
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = git(*who, "commit-tree", tree, "-m", "one").strip()
    for ref in refs:
        name, _, target = ref.partition(" -> ")
        git("symbolic-ref", name, target) if target else git("update-ref", name, commit)
    assert _default_branch(tmp_path) == branch
    assert _default_branch(tmp_path.parent) == "main"


def test_requirements_that_are_no_text_name_no_source(tmp_path: Path):
    (tmp_path / "requirements.txt").write_bytes(b"regauge @ \xff")
    assert find_install(tmp_path) is None
