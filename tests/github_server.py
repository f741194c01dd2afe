"""A GitHub on 127.0.0.1: as much of its REST API as regauge asks for, with its refusals."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Callable

BODY_MAX = 65_536
ACTIONS = {"login": "github-actions[bot]", "type": "Bot"}


@dataclass
class Fault:
    """Something to answer in place of what was asked for, once."""

    status: int
    document: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    after: bool = False


@dataclass
class _Asked:
    method: str
    number: int
    query: dict[str, str]
    document: Any
    who: dict[str, str]


class GitHubServer(Served):
    """One repository, `acme/prompts`, with what is said in it.

    Attributes:
        tokens: Whose each token is; a workflow's own may not ask.
        may_write: Whether tokens have the right to write.
        faults: Per `METHOD path`, what to answer next, the first first.
        elsewhere: What is said on lines, and in reviews.
        listed: Where two that list comments wait for each other, once.
        asked: Every request, as `METHOD path`.
    """

    repo = "acme/prompts"

    def __init__(self) -> None:
        self.tokens: dict[str, dict[str, str]] = {
            "workflow": ACTIONS,
            "person": {"login": "ada", "type": "User"},
        }
        self.may_write = True
        self.pulls: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.comments: list[dict[str, Any]] = []
        self.elsewhere: dict[str, list[dict[str, Any]]] = {"lines": [], "reviews": []}
        self.faults: dict[str, list[Fault]] = {}
        self.listed: threading.Barrier | None = None
        self.asked: list[str] = []
        self.moved_from: str | None = None
        self._lock = threading.RLock()
        self._next = 100
        super().__init__(type("Handler", (_Handler,), {"github": self}))
        self.api_url = self.address

    def pull(self, number: int, *, head: str = "acme:change", sha: str = "a" * 40) -> None:
        """Have an open pull request."""
        owner, branch = head.split(":")
        self.pulls.append(
            {
                "number": number,
                "state": "open",
                "title": "Change",
                "body": "",
                "user": {"login": owner, "type": "User"},
                "head": {
                    "label": head,
                    "ref": branch,
                    "sha": sha,
                    "repo": {"full_name": f"{owner}/prompts"},
                },
                "base": {"ref": "main", "sha": "d" * 40, "repo": {"full_name": self.repo}},
                "html_url": f"https://github.test/{self.repo}/pull/{number}",
                "labels": [],
            }
        )

    def say(
        self, number: int, body: str, *, by: dict[str, str], where: str = "", **more: Any
    ) -> dict[str, Any]:
        """Have a comment on a pull request or an issue; `where` is `lines` or `reviews`."""
        with self._lock:
            self._next += 1
            comment = {
                "id": self._next,
                "on": number,
                "body": body,
                "user": by,
                "author_association": "NONE",
                "created_at": f"2026-11-20T10:{self._next % 60:02d}:00Z",
                **more,
                "html_url": f"https://github.test/{self.repo}/pull/{number}#c{self._next}",
            }
            self.elsewhere.get(where, self.comments).append(comment)
            return comment

    def said(self, number: int) -> list[str]:
        """The comments on a pull request."""
        return [comment["body"] for comment in self.comments if comment["on"] == number]

    def answer(
        self, method: str, path: str, query: dict[str, str], document: Any, token: str
    ) -> tuple[int, Any]:
        """What is answered; a list as a whole."""
        who = self.tokens.get(token)
        if who is None:
            return 401, {"message": "Bad credentials"}
        refused = method != "GET" and not self.may_write
        if refused or (path == "/user" and who is ACTIONS):
            return 403, {"message": "Resource not accessible by integration"}
        if path == "/user":
            return 200, who
        if len((document or {}).get("body") or "") > BODY_MAX:
            error = {"message": "Body is too long (maximum is 65536 characters)"}
            return 422, {"message": "Validation Failed", "errors": [error]}
        for pattern, act in _ROUTES.items():
            found = re.fullmatch(f"/repos/{self.repo}/{pattern}", path)
            if found:
                number = int(found[1]) if found.groups() else 0
                with self._lock:
                    return act(self, _Asked(method, number, query, document, who))
        return 404, {"message": "Not Found"}

    def _all_comments(self, asked: _Asked) -> tuple[int, Any]:
        if not self._thing(asked.number):
            return 404, {"message": "Not Found"}
        if asked.method == "POST":
            return 201, self.say(asked.number, asked.document["body"], by=asked.who)
        return 200, [comment for comment in self.comments if comment["on"] == asked.number]

    def _of_lines(self, asked: _Asked) -> tuple[int, Any]:
        return 200, [one for one in self.elsewhere["lines"] if one["on"] == asked.number]

    def _of_reviews(self, asked: _Asked) -> tuple[int, Any]:
        return 200, [one for one in self.elsewhere["reviews"] if one["on"] == asked.number]

    def _one_comment(self, asked: _Asked) -> tuple[int, Any]:
        there = [one for one in self.comments if one["id"] == asked.number]
        if not there:
            return 404, {"message": "Not Found"}
        if asked.method == "DELETE":
            self.comments.remove(there[0])
            return 204, None
        there[0]["body"] = asked.document["body"]
        return 200, there[0]

    def _one_thing(self, asked: _Asked) -> tuple[int, Any]:
        thing = self._thing(asked.number)
        thing.update((asked.document or {}) if thing else {})
        return (200, thing) if thing else (404, {"message": "Not Found"})

    def _one_pull(self, asked: _Asked) -> tuple[int, Any]:
        there = any(pull["number"] == asked.number for pull in self.pulls)
        return self._one_thing(asked) if there else (404, {"message": "Not Found"})

    def _all_pulls(self, asked: _Asked) -> tuple[int, Any]:
        if asked.method == "POST":
            return self._post_pull(asked.document, asked.who)
        return 200, self._open(asked.query)

    def _all_issues(self, asked: _Asked) -> tuple[int, Any]:
        if asked.method == "POST":
            return self._post_issue(asked.document, asked.who)
        wanted = set(filter(None, asked.query.get("labels", "").split(",")))
        pulls = [{**pull, "pull_request": {}} for pull in self.pulls]
        return 200, [
            issue
            for issue in [*self.issues, *pulls]
            if issue["state"] == "open" and wanted <= {one["name"] for one in issue["labels"]}
        ]

    def _post_pull(self, document: Any, who: dict[str, str]) -> tuple[int, Any]:
        head = document["head"] if ":" in document["head"] else f"acme:{document['head']}"
        if self._open({"head": head, "base": document["base"]}):
            error = {"resource": "PullRequest", "code": "custom"}
            error["message"] = f"A pull request already exists for {head}."
            return 422, {"message": "Validation Failed", "errors": [error]}
        if document["head"] == document["base"]:
            error = {"message": f"No commits between {document['base']} and {document['head']}"}
            return 422, {"message": "Validation Failed", "errors": [error]}
        self._next += 1
        self.pull(self._next, head=head)
        self.pulls[-1].update(title=document["title"], body=document["body"], user=who)
        self.pulls[-1].update(base={"ref": document["base"]})
        return 201, self.pulls[-1]

    def _post_issue(self, document: Any, who: dict[str, str]) -> tuple[int, Any]:
        self._next += 1
        issue = {
            "number": self._next,
            "state": "open",
            "title": document["title"],
            "body": document["body"],
            "user": who,
            "labels": [{"name": name} for name in document.get("labels", [])],
            "html_url": f"https://github.test/{self.repo}/issues/{self._next}",
        }
        self.issues.append(issue)
        return 201, issue

    def _open(self, query: dict[str, str]) -> list[dict[str, Any]]:
        return [
            pull
            for pull in self.pulls
            if pull["state"] == query.get("state", "open")
            and query.get("head") in {None, pull["head"]["label"]}
            and query.get("base") in {None, pull["base"]["ref"]}
        ]

    def _thing(self, number: int) -> dict[str, Any]:
        things = [*self.pulls, *self.issues]
        return next((thing for thing in things if thing["number"] == number), {})


_ROUTES: dict[str, Callable[[GitHubServer, _Asked], tuple[int, Any]]] = {
    r"issues/(\d+)/comments": GitHubServer._all_comments,
    r"pulls/(\d+)/comments": GitHubServer._of_lines,
    r"pulls/(\d+)/reviews": GitHubServer._of_reviews,
    r"issues/comments/(\d+)": GitHubServer._one_comment,
    r"pulls/(\d+)": GitHubServer._one_pull,
    r"issues/(\d+)": GitHubServer._one_thing,
    "pulls": GitHubServer._all_pulls,
    "issues": GitHubServer._all_issues,
}


class _Handler(JsonHandler):
    github: GitHubServer
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        github = self.github
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        document = self.given()
        asked = f"{self.command} {parts.path.removeprefix(f'/repos/{github.repo}')}"
        github.asked.append(asked)
        fault = next(iter(github.faults.get(asked, [])), None)
        if fault is not None:
            github.faults[asked].pop(0)
        if fault is None or fault.after:
            token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
            status, said = github.answer(self.command, parts.path, query, document, token)
            headers: dict[str, str] = {}
            if github.moved_from and f"/{github.moved_from}/" in parts.path:
                status, said = 301, {"message": "Moved Permanently"}
                new = self.path.replace(github.moved_from, github.repo)
                headers["Location"] = f"{github.api_url}{new}"
            if isinstance(said, list) and self.command == "GET":
                said, headers = self._page(said, parts.path, query)
        barrier = github.listed if asked.startswith("GET") and "/comments" in asked else None
        if barrier is not None:
            barrier.wait(10)
            github.listed = None
        if fault is not None:
            if fault.drop:
                self.close_connection = True
                return
            status, said, headers = fault.status, fault.document, fault.headers
        self.say(said, status=status, headers=headers)

    def _page(
        self, found: list[Any], path: str, query: dict[str, str]
    ) -> tuple[list[Any], dict[str, str]]:
        size, number = min(int(query.get("per_page", 30)), 100), int(query.get("page", 1))
        here = found[(number - 1) * size : number * size]
        if number * size >= len(found):
            return here, {}
        following = urlencode({**query, "page": number + 1})
        return here, {"Link": f'<{self.github.api_url}{path}?{following}>; rel="next"'}
