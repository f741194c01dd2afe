"""What people said on a pull request, read from a server that answers as GitHub does."""

from __future__ import annotations

import pytest

from regauge.errors import GitHubError
from regauge.github import GitHub, GitHubAccess, Remark
from tests.github_server import ACTIONS, GitHubServer

ADA = {"login": "ada", "type": "User"}


@pytest.fixture
def server(socket_enabled):
    with GitHubServer() as served:
        served.pull(7)
        yield served


def remarks(server, number=7):
    access = GitHubAccess(repo=server.repo, token="person", api_url=server.api_url)
    with GitHub(access, sleep=lambda _: None) as github:
        return github.remarks(number)


def test_comments_comments_on_lines_and_reviews_come_in_the_order_of_time(server):
    server.say(7, "Last.", by=ADA, author_association="OWNER", created_at="2026-11-21T03:00:00Z")
    server.say(
        7,
        "On a line.\r\nTwice.",
        by=ADA,
        where="lines",
        author_association="MEMBER",
        path="prompts/a.prompt.yml",
        created_at="2026-11-21T01:00:00Z",
    )
    server.say(7, "", by=ADA, where="reviews", submitted_at="2026-11-21T02:00:00Z")
    review = server.say(7, "Reviewed.", by=ADA, where="reviews", author_association="NONE")
    del review["created_at"]
    review["submitted_at"] = "2026-11-21T02:00:00Z"
    server.say(8, "Elsewhere.", by=ADA)

    said, bots = remarks(server)

    assert bots == 0
    assert [(one.text, one.association, one.path) for one in said] == [
        ("On a line.\nTwice.", "member", "prompts/a.prompt.yml"),
        ("Reviewed.", "none", ""),
        ("Last.", "owner", ""),
    ]
    assert said[0] == Remark(
        author="ada",
        association="member",
        text="On a line.\nTwice.",
        path="prompts/a.prompt.yml",
        url=server.elsewhere["lines"][0]["html_url"],
        written_at="2026-11-21T01:00:00Z",
    )


def test_what_bots_and_regauge_wrote_is_counted_and_not_read(server):
    server.say(7, "Deployed.", by=ACTIONS)
    server.say(7, "Bumped.", by={"login": "helper[bot]", "type": "User"})
    server.say(7, "<!-- regauge gate 2026-01-31T10:00:00Z -->\nrejected", by=ADA)
    for number in range(120):  # more than a page
        server.say(7, f"Remark {number}.", by=ADA)
    said, bots = remarks(server)
    assert (len(said), bots) == (120, 3)


def test_a_number_that_is_no_pull_request_is_an_error_also_where_it_is_an_issue(server):
    server.issues.append({"number": 9, "state": "open", "title": "x", "body": "", "labels": []})
    server.say(9, "On an issue.", by=ADA)
    for number in (9, 404):
        with pytest.raises(GitHubError) as caught:
            remarks(server, number)
        assert caught.value.kind == "not-found"
        assert f"read the comments on pull request {number} of acme/prompts" in str(caught.value)
