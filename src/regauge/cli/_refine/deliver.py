"""Review and delivery of a proposal: the file, a branch of its own, a pull request."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import click

from regauge.cli._terminal import echo, short
from regauge.digests import digest_of
from regauge.errors import GitError, GitHubError, UsageError
from regauge.git import check_branch, current_branch, has_unpushed, push, remote_address, remote_tip
from regauge.prompts import find_prompt
from regauge.refine.delivery import apply_run, commit_on_branch, uncommitted
from regauge.refine.report import evidence_lines, headline
from regauge.refine.runs import reject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.git import Branch
    from regauge.github import GitHub, GitHubAccess, Posted
    from regauge.project import Project
    from regauge.refine.runs import Run


def check_terminal() -> None:
    """Check that a user can answer questions.

    Raises:
        UsageError: Nobody sits there.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "--interactive asks about every edit, and stdin is not a terminal\n"
            "  fix: run it in a terminal; or take --branch, whose commit waits for a review"
        )


def reviewed(project: Project, run: Run, result: Mapping[str, Any]) -> list[int]:
    """Ask for every edit that a run proposes.

    Returns:
        The numbers of those that are refused, from 0. No later run proposes them again.
    """
    changes = result["changes"]
    proofs = evidence_lines(result)
    refused: list[int] = []
    for number, change in enumerate(changes):
        echo(err=True)
        echo(
            f"edit {number + 1} of {len(changes)}: {change['strategy']} by {change['proposer']},"
            f" for {change['check']}",
            bold=True,
            err=True,
        )
        echo(f"  {change['rationale'] or 'no reason given'}", err=True)
        for sign, key, style in (("-", "removed", "red"), ("+", "added", "green")):
            for line in str(change[key]).splitlines():
                echo(f"  {sign} {line}", style=style, err=True)
        echo(f"  {proofs[number]}", err=True)
        if not click.confirm("take it?", err=True):
            refused.append(number)
    if refused:
        reject(project, run, refused)
    return refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """The delivery of a proposal.

    Attributes:
        write: Whether the prompt's file is written.
        branch: The branch to commit it on; empty for a name of its own, None for none.
        base: The branch that a pull request goes into; empty for no pull request.
        access: The GitHub that opens it; None where there is to be none.
        say: Hears what is done.
    """

    project: Project
    prompt: str
    write: bool
    branch: str | None
    say: Callable[[str], None]
    base: str = ""
    access: GitHubAccess | None = None

    @classmethod
    def prepared(
        cls,
        project: Project,
        prompt: str,
        *,
        write: bool,
        branch: str | None,
        pr: bool,
        say: Callable[[str], None],
    ) -> Self:
        """The requested delivery, once nothing stands in its way.

        Raises:
            UsageError: A pull request cannot be opened from here, or no such branch be made.
            GitError: The remote cannot be reached.
            GitHubError: GitHub cannot be, or does not know the token.
        """
        taking = cls(project=project, prompt=prompt, write=write, branch=branch, say=say)
        if branch:
            check_branch(taking.path, branch, renew=pr)
        if not pr:
            return taking
        path = taking.path
        base = branch_for_proposals(project, path)
        access = access_to_github(path)
        check_work(path, base)
        name = branch or f"refine/{prompt}-on-{re.sub(r'[^A-Za-z0-9._-]+', '-', base)}"
        try:
            # A wrong token or repository shows here, before anything is spent.
            with connect_github(access, say) as github:
                there = github.pull_request_from(name, base)
        except GitHubError as error:
            raise GitHubError(f"--pr: {error}", kind=error.kind, status=error.status) from error
        if there is not None:
            say(f"pull request {there.number} is open: {there.url}")
        return replace(taking, branch=name, base=base, access=access)

    @property
    def path(self) -> Path:
        """The prompt's file."""
        return find_prompt(self.prompt, root=self.project.root)

    @property
    def anything(self) -> bool:
        """Return whether the proposal goes anywhere at all."""
        return self.write or self.branch is not None

    def take(self, run: Run, result: Mapping[str, Any]) -> dict[str, JSON]:
        """Do what is to be done; what was done is in the answer."""
        done: dict[str, JSON] = {}
        if self.write:
            changed = apply_run(run, self.path)
            run.note(status="applied")
            self.say(f"wrote {', '.join(str(short(path)) for path in changed)}")
            self.say(f"  take it back: regauge refine rollback {run.id}")
            done["wrote"] = [self.project.relative(path).as_posix() for path in changed]
        if self.branch is not None:
            done.update(self._branched(run, result, self.branch))
        return done

    def _branched(self, run: Run, result: Mapping[str, Any], name: str) -> dict[str, JSON]:
        if self.access is not None and (refused := self._refused(self.access, result, name)):
            reject(self.project, run, range(len(result["changes"])))
            self.say(
                f"pull request {refused.number} proposed the same and was closed: {refused.url}\n"
                "  so it is not proposed again; should it be: reopen that one, or name another"
                " branch with --branch"
            )
            return {"refused": refused.url}
        note = str(result["revision"]["note"]) or "Revise the prompt"
        title = f"{self.prompt}: {note[0].lower()}{note[1:]}"
        branch = commit_on_branch(
            run,
            self.path,
            name=name,
            message=f"{title}\n\n{headline(result)}\n",
            renew=self.access is not None,
        )
        run.note(branch=branch.name, commit=branch.commit)
        self.say(f"committed {branch.commit[:9]} on branch {branch.name}")
        done: dict[str, JSON] = {"branch": branch.name, "commit": branch.commit}
        if self.access is None:
            self.say(f"  push it: git push origin {branch.name}")
            return done
        body = f"{_mark(result)}\n{run.markdown.read_text(encoding='utf-8')}"
        posted = self._opened(self.access, run, branch, title=title, body=body)
        return {**done, "pull_request": posted.url}

    def _refused(self, access: GitHubAccess, result: Mapping[str, Any], name: str) -> Posted | None:
        """The pull request that proposed the same, and that was closed."""
        with connect_github(access, self.say) as github:
            return github.refused_pull_request(name, self.base, _mark(result))

    def _opened(
        self, access: GitHubAccess, run: Run, branch: Branch, *, title: str, body: str
    ) -> Posted:
        """Push, and open the pull request or renew the one that is open.

        Raises:
            RegaugeError: One of the two was refused; the branch is there all the same.
        """
        try:
            push(self.path, branch)
            with connect_github(access, self.say) as github:
                posted = github.open_pull_request(
                    head=branch.name, base=self.base, title=title, body=body
                )
        except (GitError, UsageError, GitHubError) as error:
            again = f"regauge refine apply {run.id} --pr"
            words = f"{error}\n  the proposal is on the branch {branch.name} here; again: {again}"
            if isinstance(error, GitHubError):
                raise GitHubError(words, kind=error.kind, status=error.status) from error
            raise type(error)(words) from error
        run.note(pull_request=posted.url)
        self.say(f"pull request {posted.outcome}: {posted.url}")
        return posted


def _mark(result: Mapping[str, Any]) -> str:
    """The invisible mark that identifies a proposal."""
    lines: list[JSON] = [[change["removed"], change["added"]] for change in result["changes"]]
    return f"<!-- regauge revision {digest_of(lines)[:16]} -->"


def branch_for_proposals(project: Project, path: Path) -> str:
    """The branch that a proposal is for: the one that is checked out."""
    return (
        current_branch(path)
        or os.environ.get("GITHUB_HEAD_REF")
        or project.settings.gate.ref.removeprefix("origin/")
    )


def connect_github(access: GitHubAccess, say: Callable[[str], None]) -> GitHub:
    from regauge.github import Api, GitHub

    return GitHub(Api(access, say=say))


def access_to_github(path: Path) -> GitHubAccess:
    """GitHub as the environment names it.

    Raises:
        UsageError: There is no remote, no token, or no repository.
    """
    from regauge.github import GitHubAccess, repo_of_remote

    address = remote_address(path)
    if not address:
        raise UsageError(
            "--pr: there is no remote 'origin' to push a branch to\n"
            "  fix: git remote add origin ADDRESS; or take --branch, which pushes nothing"
        )
    repo = os.environ.get("GITHUB_REPOSITORY") or repo_of_remote(address)
    if not repo:
        raise UsageError(
            "--pr: the remote 'origin' is not an address of GitHub\n"
            "  fix: set GITHUB_REPOSITORY=OWNER/NAME; or take --branch, which pushes nothing"
        )
    try:
        return GitHubAccess.from_environ(os.environ, repo=repo)
    except UsageError as error:
        raise UsageError(f"--pr: {error}; or use --branch, which makes no requests") from error


def check_work(path: Path, base: str) -> None:
    """Look whether a pull request would hold the proposal and nothing else.

    Raises:
        UsageError: It would not, or there is nothing to open it against.
        GitError: The remote cannot be reached.
    """
    changed = uncommitted(path)
    if changed:
        raise UsageError(
            f"--pr: {', '.join(str(short(file)) for file in changed)} differs from the last commit,"
            " so the pull request would hold more than the proposal\n"
            "  fix: commit it and push, or take it back; or take --apply"
        )
    try:
        tip = remote_tip(path, base)
    except GitError as error:
        raise GitError(f"--pr: the remote 'origin' cannot be asked: {error}") from error
    if not tip:
        raise UsageError(
            f"--pr: there is no branch {base!r} at the remote to open a pull request into\n"
            f"  fix: git push origin {base}"
        )
    if has_unpushed(path, tip):
        raise UsageError(
            f"--pr: {base!r} has commits here that are not on the remote; they would be in the pull"
            f" request, too\n  fix: git push origin {base}"
        )
