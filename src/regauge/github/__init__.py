"""GitHub: one comment per pull request, pull requests and issues, through its REST API.

Nothing here decides anything; what is written is made by `regauge.reports` and `regauge.refine`.
"""

from __future__ import annotations

from regauge.github._api import Api, GitHubAccess, repo_of_remote
from regauge.github._github import (
    BODY_CHARS_MAX,
    GitHub,
    Mark,
    Posted,
    PullRequestEvent,
    Remark,
    cut_markdown,
    pull_request_number,
    read_event,
)

__all__ = [
    "BODY_CHARS_MAX",
    "Api",
    "GitHub",
    "GitHubAccess",
    "Mark",
    "Posted",
    "PullRequestEvent",
    "Remark",
    "cut_markdown",
    "pull_request_number",
    "read_event",
    "repo_of_remote",
]
