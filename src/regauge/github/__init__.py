"""GitHub's REST API: one comment per pull request, pull requests and issues.

The texts come from `regauge.reports` and `regauge.refine`.
"""

from __future__ import annotations

from regauge.github._api import (
    GitHubAccess as GitHubAccess,
    repo_of_remote as repo_of_remote,
)
from regauge.github._github import (
    GitHub as GitHub,
    Mark as Mark,
    Posted as Posted,
    PullRequestEvent as PullRequestEvent,
    Remark as Remark,
    cut_markdown as cut_markdown,
    read_event as read_event,
)
