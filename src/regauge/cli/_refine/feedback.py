"""What people said of a prompt's answers, gathered before anything is spent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from regauge.errors import GitHubError, UsageError
from regauge.prompts import find_prompt
from regauge.refine import Heard, heard_in_words, heard_on_pull, noted_in, remote_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from regauge.project import Project

__all__ = ["heard_of"]


def heard_of(
    project: Project,
    prompt: str,
    *,
    pull: int | None,
    file: Path | None,
    say: Callable[[str], None],
) -> Heard:
    """The comments on a pull request and the notes of a file, where they are asked for.

    What is asked for and cannot be had ends the command: nothing was spent yet.

    Args:
        project: Whose settings say who is listened to.
        prompt: The name of the prompt.
        pull: The number of the pull request.
        file: The file of notes.
        say: Hears what was said, and that GitHub has to be waited for.

    Raises:
        UsageError: The file cannot be used, there is no token, or nothing names the repository.
        GitHubError: GitHub cannot be reached, or has no such pull request.
    """
    heard = Heard() if file is None else noted_in(file)
    if pull is None:
        return heard
    from regauge.github import GitHub

    repo = _repository(find_prompt(prompt, root=project.root))
    try:
        with GitHub.from_environ(os.environ, repo=repo, say=say) as github:
            remarks, bots = github.remarks(pull)
    except UsageError as error:
        text = f"--feedback-pr: {error}; or write down what was said, and say --feedback FILE"
        raise UsageError(text) from error
    except GitHubError as error:
        text = f"--feedback-pr: {error}"
        raise GitHubError(text, kind=error.kind, status=error.status) from error
    trusted = project.settings.refine.feedback_from
    said = heard_on_pull(remarks, bots, trusted=trusted, prompt=prompt)
    say(f"pull request {pull}: {heard_in_words(said) or 'nobody has said anything'}")
    return heard + said


def _repository(path: Path) -> str:
    """The repository of GitHub that a prompt is in.

    Raises:
        UsageError: Neither the environment nor the remote says which.
    """
    from regauge.github import repo_of_remote

    repo = os.environ.get("GITHUB_REPOSITORY") or repo_of_remote(remote_address(path))
    if not repo:
        raise UsageError(
            "--feedback-pr: nothing says which repository of GitHub this is\n"
            "  fix: set GITHUB_REPOSITORY=OWNER/NAME, or add its address as the remote 'origin'"
        )
    return repo
