"""The delivery of proposed prompt files: written, on a branch, as a pull request."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from regauge.cli._terminal import short_path
from regauge.digests import digest_of
from regauge.errors import GitError, GitHubError, UsageError
from regauge.git import check_branch, current_branch, has_unpushed, push, remote_address, remote_tip
from regauge.github import GitHub, GitHubAccess, repo_of_remote
from regauge.prompts import find_prompt
from regauge.refine.delivery import apply_run, commit_on_branch, headline, uncommitted_files
from regauge.refine.runs import reject_edits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.git import Branch
    from regauge.project import Project
    from regauge.refine.document import RefinementResult
    from regauge.refine.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalBranch:
    """A branch whose pull request can be opened.

    Attributes:
        path: A file of the proposal.
        name: The name of the branch.
        base: The base branch of the pull request.
        access: Access to GitHub.
        print_line: Called with each line of progress.
    """

    path: Path
    name: str
    base: str
    access: GitHubAccess
    print_line: Callable[[str], None]

    @classmethod
    def prepare(
        cls,
        project: Project,
        paths: Sequence[Path],
        name: Callable[[str], str],
        print_line: Callable[[str], None],
    ) -> Self:
        """Check, before any call, that a pull request can be opened and holds only the proposal.

        Args:
            project: The project.
            paths: The prompt files of the proposal.
            name: Returns the name of the branch for a base branch.
            print_line: Called with each line of progress.

        Raises:
            UsageError: There is no remote, token, repository or base branch, or files differ from
                the last commit or the remote.
            GitError: The remote cannot be reached.
            GitHubError: GitHub cannot be reached, or refuses the token.
        """
        base = (
            current_branch(paths[0])
            or os.environ.get("GITHUB_HEAD_REF")
            or project.settings.gate.ref.removeprefix("origin/")
        )
        access = _access_to_github(paths[0])
        for path in paths:
            _check_work(path, base)
        branch = cls(
            path=paths[0], name=name(base), base=base, access=access, print_line=print_line
        )
        try:
            with GitHub(access, on_wait=print_line) as github:
                existing = github.pull_request_from(branch.name, base)
        except GitHubError as error:
            raise error.reworded(f"--pr: {error}") from error
        if existing is not None:
            print_line(f"pull request {existing.number} is open: {existing.url}")
        return branch

    def open(self, branch: Branch, *, title: str, body: str) -> str:
        """Push a commit, and open or update its pull request; return its URL.

        Raises:
            RegaugeError: One of the two was refused.
        """
        push(self.path, branch)
        with GitHub(self.access, on_wait=self.print_line) as github:
            pull_request = github.open_pull_request(
                head=branch.name, base=self.base, title=title, body=body
            )
        self.print_line(f"pull request {pull_request.outcome}: {pull_request.url}")
        return pull_request.url


def _access_to_github(path: Path) -> GitHubAccess:
    """Access to GitHub from the environment.

    Raises:
        UsageError: There is no remote, no token, or no repository.
    """
    address = remote_address(path)
    if not address:
        fix = "git remote add origin ADDRESS; or leave out --pr"
        raise UsageError("--pr: there is no remote 'origin' to push a branch to", fix=fix)
    repo = os.environ.get("GITHUB_REPOSITORY") or repo_of_remote(address)
    if not repo:
        fix = "set GITHUB_REPOSITORY=OWNER/NAME; or leave out --pr"
        raise UsageError("--pr: the remote 'origin' is not an address of GitHub", fix=fix)
    try:
        return GitHubAccess.from_environ(os.environ, repo=repo)
    except UsageError as error:
        raise error.reworded(f"--pr: {error}; or leave out --pr") from error


def _check_work(path: Path, base: str) -> None:
    """Check that a pull request would hold only the proposal.

    Raises:
        UsageError: It would hold other changes, or has no base branch.
        GitError: The remote cannot be reached.
    """
    changed = uncommitted_files(path)
    if changed:
        names = ", ".join(str(short_path(file)) for file in changed)
        raise UsageError(
            f"--pr: {names} differs from the last commit,"
            " so the pull request would hold more than the proposal\n"
            "  fix: commit it and push, or undo it; or use --apply"
        )
    try:
        tip = remote_tip(path, base)
    except GitError as error:
        raise error.reworded(f"--pr: the remote 'origin' cannot be reached: {error}") from error
    if not tip:
        message = f"--pr: there is no branch {base!r} at the remote to open a pull request into"
        raise UsageError(message, fix=f"git push origin {base}")
    if has_unpushed(path, tip):
        raise UsageError(
            f"--pr: {base!r} has commits here that are not on the remote; they would be in the pull"
            f" request, too\n  fix: git push origin {base}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of a refinement run's proposal.

    Attributes:
        write: Whether to write the prompt's file.
        branch: The branch to commit it on; empty for a generated name, None for no branch.
        print_line: Called with each line of progress.
        pull_request: The branch of the pull request to open; None for no pull request.
    """

    project: Project
    prompt: str
    write: bool
    branch: str | None
    print_line: Callable[[str], None]
    pull_request: ProposalBranch | None = None

    @classmethod
    def prepare(
        cls,
        project: Project,
        prompt: str,
        *,
        write: bool,
        branch: str | None,
        pr: bool,
        print_line: Callable[[str], None],
    ) -> Self:
        """Check that the requested delivery is possible.

        Raises:
            UsageError: The pull request cannot be opened, or the branch cannot be created.
            GitError: The remote cannot be reached.
            GitHubError: GitHub cannot be reached, or refuses the token.
        """
        delivery = cls(
            project=project, prompt=prompt, write=write, branch=branch, print_line=print_line
        )
        if branch:
            check_branch(delivery.path, branch, renew=pr)
        if not pr:
            return delivery
        pull_request = ProposalBranch.prepare(
            project,
            [delivery.path],
            lambda base: branch or f"refine/{prompt}-on-{re.sub(r'[^A-Za-z0-9._-]+', '-', base)}",
            print_line,
        )
        return replace(delivery, branch=pull_request.name, pull_request=pull_request)

    @property
    def path(self) -> Path:
        """The prompt's file."""
        return find_prompt(self.prompt, root=self.project.root)

    def deliver(self, run: Run, result: RefinementResult) -> dict[str, JSON]:
        """Deliver the proposal; return what was done, as JSON."""
        done: dict[str, JSON] = {}
        if self.write:
            changed = apply_run(run, self.path)
            run.note(status="applied", next="")
            self.print_line(f"wrote {', '.join(str(short_path(path)) for path in changed)}")
            self.print_line(f"  undo it: regauge refine rollback {run.id}")
            done["wrote"] = [self.project.relative(path).as_posix() for path in changed]
        if self.branch is not None:
            done.update(self._commit(run, result, self.branch))
        return done

    def _commit(self, run: Run, result: RefinementResult, name: str) -> dict[str, JSON]:
        """Commit the proposal on a branch, and open the pull request if there is one."""
        lines: list[JSON] = [[change.removed_text, change.added_text] for change in result.changes]
        # An invisible mark identifies the proposal in a pull request.
        mark = f"<!-- regauge revision {digest_of(lines)[:16]} -->"
        pull_request = self.pull_request
        if pull_request is not None:
            with GitHub(pull_request.access, on_wait=self.print_line) as github:
                refused = github.refused_pull_request(name, pull_request.base, mark)
            if refused is not None:
                reason = f"pull request {refused.number} with it was closed"
                reject_edits(self.project, run, range(len(result.changes)), reason=reason)
                self.print_line(
                    f"pull request {refused.number} proposed the same and was closed:"
                    f" {refused.url}\n  so it is not proposed again; to propose it, reopen that"
                    " one, or name another branch with --branch"
                )
                return {"refused": refused.url}
        note = (result.revision.note if result.revision is not None else "") or "Revise the prompt"
        title = f"{self.prompt}: {note[0].lower()}{note[1:]}"
        message = f"{title}\n\n{headline(result)}\n"
        renew = pull_request is not None
        branch = commit_on_branch(run, self.path, name=name, message=message, renew=renew)
        run.note(branch=branch.name, commit=branch.commit)
        self.print_line(f"committed {branch.commit[:9]} on branch {branch.name}")
        done: dict[str, JSON] = {"branch": branch.name, "commit": branch.commit}
        if pull_request is None:
            if remote_address(self.path):
                self.print_line(f"  push it: git push origin {branch.name}")
            else:
                self.print_line(f"  there is no remote; merge it: git merge {branch.name}")
            return done
        body = f"{mark}\n{run.markdown.read_text(encoding='utf-8')}"
        try:
            url = pull_request.open(branch, title=title, body=body)
        except (GitError, UsageError, GitHubError) as error:
            command = f"regauge refine apply {run.id} --pr"
            words = f"{error}\n  the proposal is on the branch {branch.name} here; again: {command}"
            raise error.reworded(words) from error
        run.note(pull_request=url)
        return {**done, "pull_request": url}
