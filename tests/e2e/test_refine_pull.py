"""`regauge refine --pr`: a branch in a real remote, and a pull request at a GitHub on loopback."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from regauge.cli import group
from regauge.errors import GitHubError, RegaugeError
from tests.gate_repo import NAME, PROMPT, GateRepo, label_definitions
from tests.github_server import Fault, GitHubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BRANCH = f"refine/{NAME}-on-broken"


class Pulls:
    """A repository whose prompt lost its definitions, its remote, and its GitHub."""

    def __init__(self, tmp: Path, github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.github = github
        self.repo = GateRepo(tmp / "clone")
        self.remote = tmp / "remote.git"
        subprocess.run(["git", "init", "-q", "--bare", str(self.remote)], check=True)
        self.repo.git("remote", "add", "origin", str(self.remote))
        self.repo.branch("broken")
        self.repo.edit(PROMPT, label_definitions(self.repo.read(PROMPT)), "      - you decide\n")
        self.repo.commit("Lose the definitions")
        self.repo.git("push", "-q", "origin", "main", "broken")
        self.head = self.repo.git("rev-parse", "HEAD")
        for name, value in {
            "GITHUB_TOKEN": "person",
            "GITHUB_REPOSITORY": github.repo,
            "GITHUB_API_URL": github.api_url,
        }.items():
            monkeypatch.setenv(name, value)
            self.repo.setenv(**{name: value})
        monkeypatch.delenv("GITHUB_HEAD_REF", raising=False)
        monkeypatch.chdir(self.repo.root)

    def __call__(self, *words: str) -> str:
        """What `regauge refine` says."""
        done = CliRunner().invoke(group, ["refine", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def refuses(self, *words: str, kind: type[RegaugeError] = RegaugeError) -> str:
        """Why `regauge refine` does not; nothing here is any different for it."""
        with pytest.raises(kind) as caught:
            self(*words)
        assert self.repo.git("rev-parse", "HEAD") == self.head
        assert self.repo.git("rev-parse", "--abbrev-ref", "HEAD").strip() == "broken"
        return str(caught.value)

    def pushed(self, branch: str = BRANCH) -> str:
        """The commit of a branch at the remote."""
        said = self.repo.git("ls-remote", str(self.remote), f"refs/heads/{branch}")
        return said.partition("\t")[0]

    def move_on(self, path: str, old: str, new: str, *, push: bool = True) -> None:
        """Commit something else on the branch that proposals are for."""
        text = (self.repo.root / path).read_text() if old else ""
        self.repo.write(path, text.replace(old, new) if old else new)
        self.repo.commit("Something else")
        self.head = self.repo.git("rev-parse", "HEAD")
        if push:
            self.repo.git("push", "-q", "origin", "broken")

    def amend_at_remote(self) -> str:
        """Have somebody change the proposed commit; the commit that is there then."""
        person = self.repo.root.parent / "person"
        self.repo.git("clone", "-q", "--branch", BRANCH, str(self.remote), str(person))
        for words in (
            ["config", "user.email", "ada@example.org"],
            ["config", "user.name", "Ada"],
            ["commit", "-q", "--amend", "-m", "Mine"],
            ["push", "-q", "--force", "origin", BRANCH],
        ):
            self.repo.git("-C", str(person), *words)
        return self.pushed()

    @property
    def runs(self) -> int:
        return len(list((self.repo.root / ".regauge/refine").glob("*/run.json")))


@pytest.fixture
def pulls(tmp_path: Path, socket_enabled: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pulls]:
    (tmp_path / "clone").mkdir()
    with GitHubServer() as github:
        yield Pulls(tmp_path, github, monkeypatch)


def test_a_proposal_becomes_one_pull_request_that_later_runs_renew(pulls: Pulls):
    repo, github = pulls.repo, pulls.github
    said = repo.regauge("refine", NAME, "--pr", "--proposers=rules")
    assert f"on branch {BRANCH}" in said
    (pull,) = github.pulls
    assert f"pull request created: {pull['html_url']}" in said
    assert pull["title"].startswith(f"{NAME}: restore the released text")
    assert (pull["head"]["ref"], pull["base"]["ref"]) == (BRANCH, "broken")
    body = pull["body"]
    for part in ("## What failed", "## What changes, and why", "```diff\n--- a/prompts/"):
        assert part in body
    assert "run again with both | failed " in body
    assert "The gate over all cases: accept." in body

    first = pulls.pushed()
    assert repo.git("rev-parse", BRANCH).strip() == first
    assert repo.git("rev-parse", f"{BRANCH}~1", "HEAD").split() == [pulls.head.strip()] * 2
    changed = repo.git("diff", "--name-only", "HEAD", BRANCH).split()
    assert PROMPT in changed
    assert set(changed) <= {PROMPT, "prompts/prompts.lock"}
    assert repo.git("status", "--porcelain") == ""

    # The same proposal again: nothing to push, nothing to say.
    assert "pull request unchanged" in pulls("apply", "latest", "--pr")
    assert pulls.pushed() == first

    # Another run comes to the same: the words are its own, the pull request is not.
    said = repo.regauge("refine", NAME, "--pr", "--proposers=rules")
    assert f"pull request {pull['number']} is open" in said
    assert "pull request updated" in said
    assert pulls.pushed() == first

    # The branch it is for has moved: the proposal is put on top of it.
    pulls.move_on("notes.txt", "", "more\n", push=False)
    assert "fix: git push origin broken" in pulls.refuses("apply", "latest", "--pr")
    repo.git("push", "-q", "origin", "broken")
    assert "pull request unchanged" in pulls("apply", "latest", "--pr")
    assert repo.git("rev-parse", f"{pulls.pushed()}~1") == pulls.head
    assert len(github.pulls) == 1

    # Somebody works on it: their commit stays.
    theirs = pulls.amend_at_remote()
    pulls.move_on("notes.txt", "", "yet more\n")
    assert "has commits that are not of a refinement run" in pulls.refuses(
        "apply", "latest", "--pr"
    )
    assert pulls.pushed() == theirs
    assert "pull request created" in pulls("apply", "latest", "--pr", "--branch", "mine")

    # Somebody closes it: neither this run nor a later one proposes the same again.
    github.pulls[-1]["state"] = "closed"
    said = pulls("apply", "latest", "--pr", "--branch", "mine", "--json")
    assert json.loads(said[said.index("{") :])["refused"] == github.pulls[-1]["html_url"]
    assert len(github.pulls) == 2
    assert "proposed the same and was closed" in said
    (entry,) = json.loads((repo.root / f".regauge/refine/{NAME}.memory.json").read_text())["tried"]
    assert entry["result"] == "rejected-by-person"
    # One that was merged refuses nothing.
    github.pulls[-1]["merged_at"] = "2026-01-01T00:00:00Z"
    assert "pull request created" in pulls("apply", "latest", "--pr", "--branch", "mine")
    assert repo.git("status", "--porcelain") == ""

    # The prompt says something else by now, which the proposal would undo.
    pulls.move_on(PROMPT, "You are the on-call", "You are an on-call")
    assert "changed since run" in pulls.refuses("apply", "latest", "--pr", "--branch", "other")
    assert "changed since run" in pulls.refuses("apply", "latest", "--branch")
    assert pulls.pushed("other") == ""


def test_what_keeps_a_pull_request_from_being_opened_is_said_before_anything_is_spent(
    pulls: Pulls, monkeypatch: pytest.MonkeyPatch
):
    repo, github = pulls.repo, pulls.github

    def refused(*more: str) -> str:
        said = pulls.refuses(NAME, "--pr", *more)
        assert pulls.runs == 0
        assert github.pulls == []
        assert pulls.pushed() == ""
        return said

    monkeypatch.delenv("GITHUB_TOKEN")
    assert "there is no token for GitHub\n  fix: set GITHUB_TOKEN" in refused()
    monkeypatch.setenv("GITHUB_TOKEN", "stolen")
    assert "GitHub returned 401: Bad credentials\n  fix: the token is wrong" in refused()
    monkeypatch.setenv("GITHUB_TOKEN", "person")

    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/other")
    assert "GitHub returned 404: Not Found\n  fix: check the repository" in refused()
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert "is not an address of GitHub\n  fix: set GITHUB_REPOSITORY" in refused()
    monkeypatch.setenv("GITHUB_REPOSITORY", github.repo)

    mine = repo.read(PROMPT).replace("You are the on-call", "You are an on-call")
    repo.write(PROMPT, mine)
    assert f"{PROMPT} differs from the last commit" in refused()
    assert repo.read(PROMPT) == mine
    repo.git("checkout", "-q", "--", PROMPT)

    subprocess.run(["git", "-C", str(pulls.remote), "branch", "-qD", "broken"], check=True)
    assert "no branch 'broken' at the remote" in refused()
    repo.git("remote", "set-url", "origin", str(pulls.remote.parent / "nowhere"))
    assert "the remote 'origin' cannot be reached: git ls-remote failed" in refused()
    repo.git("remote", "remove", "origin")
    assert "no remote 'origin'" in refused()


def test_when_github_refuses_the_proposal_is_kept_on_its_branch_and_can_be_taken_later(
    pulls: Pulls,
):
    repo, github = pulls.repo, pulls.github
    github.may_write = False
    said = repo.regauge("refine", NAME, "--pr", "--proposers=rules", code=2)
    assert "GitHub returned 403" in said
    assert "permissions: pull-requests: write` and `contents: write`" in said
    (run,) = [path.parent.name for path in repo.root.glob(".regauge/refine/*/run.json")]
    again = f"regauge refine apply {run} --pr"
    assert f"the proposal is on the branch {BRANCH} here; again: {again}" in said
    assert repo.git("rev-parse", BRANCH).strip() == pulls.pushed()
    assert repo.git("status", "--porcelain") == ""
    github.may_write = True

    # GitHub's own words, and what to do about those of its setting.
    no = "GitHub Actions is not permitted to create or approve pull requests."
    for status, words, fix in (
        (403, no, "turn on `Allow GitHub Actions to create"),
        (422, "Validation Failed", again),
    ):
        github.faults["POST /pulls"] = [Fault(status, {"message": words})]
        refused = pulls.refuses("apply", run, "--pr", kind=GitHubError)
        assert f"GitHub returned {status}: {words}" in refused
        assert fix in refused
    assert github.pulls == []
    assert '"pull_request": "https://github.test/' in pulls("apply", run, "--pr", "--json")
    assert len(github.pulls) == 1


def test_a_push_runs_the_ssh_command_of_the_user_and_no_program_of_the_repository(
    pulls: Pulls, tmp_path: Path
):
    log = tmp_path / "ran"

    def script(path: Path, kind: str, then: str = "") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {kind} >>{log}\n{then}\n")
        path.chmod(0o755)
        return path

    ssh = script(tmp_path / "bin/ssh", "user", 'for last; do :; done; exec sh -c "$last"')
    (tmp_path / "gitconfig").write_text(f"[core]\n\tsshCommand = {ssh}\n")
    pulls.repo.setenv(GIT_CONFIG_GLOBAL=str(tmp_path / "gitconfig"))
    evil = str(script(tmp_path / "evil.sh", "repository"))
    pulls.repo.git("remote", "set-url", "origin", f"ssh://git@github.test{pulls.remote}")
    for hook in ("pre-push", "reference-transaction", "pre-commit", "commit-msg"):
        script(pulls.repo.root / ".git/hooks" / hook, "repository")
    for key in ("core.sshCommand", "remote.origin.receivepack", "remote.origin.uploadpack"):
        pulls.repo.git("config", key, evil)
    log.unlink(missing_ok=True)
    pulls.repo.regauge("refine", NAME, "--pr", "--proposers=rules")
    assert pulls.pushed()
    assert len(pulls.github.pulls) == 1
    assert set(log.read_text().split()) == {"user"}


def test_nothing_is_pushed_to_a_directory_of_the_repository_itself(pulls: Pulls):
    remote = pulls.repo.root / "fixtures/remote.git"
    pulls.remote.rename(remote)
    pulls.repo.git("remote", "set-url", "origin", "fixtures/remote.git")
    said = pulls.refuses(NAME, "--pr", "--proposers=rules")
    assert "the remote 'origin' is a directory of this repository: fixtures/remote.git" in said
