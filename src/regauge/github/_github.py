"""Comments, pull requests and issues on GitHub."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from regauge.errors import GitHubError, UsageError
from regauge.github._api import Api, Purpose
from regauge.strict_json import list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestEvent:
    """The pull request of a workflow's event, as written by GitHub; forks cannot change it.

    Attributes:
        number: The number of the pull request; None if the event omits it.
        base_ref: The branch to merge into; empty if the event omits it.
        base_sha: The commit of that branch.
        head_repo: `owner/name` of the head branch.
        head_owner: The owner of the head branch, for a `workflow_run`.
        head_branch: The head branch of a `workflow_run`, whose pull request GitHub omits for forks.
        head_sha: The commit of the run.
        conclusion: The result of a `workflow_run`, such as `success`; empty for other events.
        started_at: The start of that run, ISO 8601.
        run_url: The page of that run.
    """

    number: int | None = None
    base_ref: str = ""
    base_sha: str = ""
    head_repo: str = ""
    head_owner: str = ""
    head_branch: str = ""
    head_sha: str = ""
    conclusion: str = ""
    started_at: str = ""
    run_url: str = ""

    def require_number(self) -> int:
        """The number of the pull request.

        Raises:
            UsageError: The event has none.
        """
        if self.number is None:
            fix = "name it with --pr NUMBER, or run on pull_request or workflow_run"
            raise UsageError("there is no pull request to comment on", fix=fix)
        return self.number


def read_event(environ: Mapping[str, str]) -> PullRequestEvent:
    """The event of this workflow; an empty event outside GitHub Actions.

    Raises:
        UsageError: `GITHUB_EVENT_PATH` names a file that cannot be read.
    """
    path = environ.get("GITHUB_EVENT_PATH", "")
    if not path:
        return PullRequestEvent()
    try:
        document: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        fix = "name the pull request with --pr NUMBER"
        raise UsageError(f"GITHUB_EVENT_PATH: {path} cannot be read: {error}", fix=fix) from error
    return _event(mapping_of(document))


def _event(document: Mapping[str, Any]) -> PullRequestEvent:
    pull, issue = mapping_of(document.get("pull_request")), mapping_of(document.get("issue"))
    base, head = mapping_of(pull.get("base")), mapping_of(pull.get("head"))
    if pull:
        return PullRequestEvent(
            number=_number(pull),
            base_ref=_text(base, "ref"),
            base_sha=_text(base, "sha"),
            head_repo=_text(mapping_of(head.get("repo")), "full_name"),
            head_sha=_text(head, "sha"),
        )
    if issue.get("pull_request"):
        return PullRequestEvent(number=_number(issue))
    run = mapping_of(document.get("workflow_run"))
    pulls = [
        pull
        for pull in map(mapping_of, list_of(run.get("pull_requests")))
        if _number(pull) is not None and _is_of_run(pull, run)
    ]
    # A branch may be the head of several pull requests; the commit distinguishes them.
    only = mapping_of(pulls[0] if len(pulls) == 1 else None)
    base, head = mapping_of(only.get("base")), mapping_of(run.get("head_repository"))
    return PullRequestEvent(
        number=_number(only),
        base_ref=_text(base, "ref"),
        base_sha=_text(base, "sha"),
        head_repo=_text(head, "full_name"),
        head_owner=_text(mapping_of(head.get("owner")), "login"),
        head_branch=_text(run, "head_branch"),
        head_sha=_text(run, "head_sha"),
        conclusion=_text(run, "conclusion"),
        started_at=_text(run, "run_started_at") or _text(run, "created_at"),
        run_url=_text(run, "html_url"),
    )


def _is_of_run(pull: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Return whether a pull request's base is the repository of the run."""
    base, head = mapping_of(pull.get("base")), mapping_of(pull.get("head"))
    pairs = (
        (mapping_of(base.get("repo")).get("id"), mapping_of(run.get("repository")).get("id")),
        (mapping_of(head.get("repo")).get("id"), mapping_of(run.get("head_repository")).get("id")),
        (head.get("ref"), run.get("head_branch")),
        (head.get("sha"), run.get("head_sha")),
    )
    return all(of_pull == of_run for of_pull, of_run in pairs if of_pull is not None and of_run)


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _number(table: Mapping[str, Any]) -> int | None:
    number = table.get("number")
    return number if isinstance(number, int) and number > 0 else None


# GitHub's limit for a comment, an issue or a pull request, in characters.
BODY_CHARS_MAX = 65_536
_FENCE = re.compile(r"\s*(?P<ticks>`{3,})(?P<rest>.*)")
_NOTICE = "**Cut here: {left} of {all} lines do not fit into one comment.** {where}"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MARK = re.compile(r"<!-- regauge (?P<name>[a-z0-9._-]+)(?: (?P<made_at>[0-9T:+.Z-]+))? -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The hidden first line of regauge's texts: a name and the time of the content.

    Attributes:
        name: The name, from lower-case letters, digits, `.`, `_`, `-`; a text replaces another of
            the same name.
        made_at: The time, ISO 8601 in UTC; an older text does not replace a newer one. Empty to
            always replace.
    """

    name: str
    made_at: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            fix = "up to 64 of a-z, 0-9, '.', '_' and '-', a letter or a digit first"
            raise UsageError(f"{self.name!r} does not name a comment", fix=fix)

    def on(self, body: str) -> str:
        r"""The text below this mark, which replaces an existing mark.

        >>> Mark(name="gate").on("fine")
        '<!-- regauge gate -->\nfine'
        """
        first, _, rest = body.partition("\n")
        words = f"{self.name} {self.made_at}".rstrip()
        return f"<!-- regauge {words} -->\n{rest if _MARK.fullmatch(first.strip()) else body}"

    def found_on(self, body: str) -> Mark | None:
        r"""The mark of this name at the beginning of a text; None without one.

        >>> Mark(name="gate").found_on("<!-- regauge gate 2026-01-31T10:00:00+00:00 -->\nfine")
        Mark(name='gate', made_at='2026-01-31T10:00:00+00:00')
        """
        match = _MARK.match(body)
        if match is None or match["name"] != self.name:
            return None
        return Mark(name=self.name, made_at=match["made_at"] or "")


def is_marked(body: str) -> bool:
    """Return whether a text begins with a mark of any name."""
    return _MARK.match(body) is not None


def github_length(text: str) -> int:
    """The length of a text on GitHub, where characters beyond the basic plane count twice.

    >>> github_length("ab"), github_length("✅"), github_length("🎉")
    (2, 1, 2)
    """
    return len(text) + sum(character > "\uffff" for character in text)


def cut_markdown(text: str, *, full_text_note: str = "", chars_max: int = BODY_CHARS_MAX) -> str:
    """The text, or as many lines as fit and a notice; open fences and folded blocks are closed.

    Args:
        text: Markdown.
        full_text_note: A sentence on where the full text is.
        chars_max: The limit, in characters as GitHub counts them; at least 1000.
    """
    if github_length(text) <= chars_max:
        return text
    lines = text.splitlines()
    notice = _NOTICE.format(left=len(lines), all=len(lines), where=full_text_note)
    length = github_length(notice) + 2
    kept_lines: list[str] = []
    open_ = _OpenMarkup()
    for line in lines:
        after = open_.after(line)
        if length + github_length(line) + 1 + github_length(after.closed()) > chars_max:
            break
        length += github_length(line) + 1
        kept_lines.append(line)
        open_ = after
    ending = _NOTICE.format(
        left=len(lines) - len(kept_lines), all=len(lines), where=full_text_note
    ).rstrip()
    return "\n".join(kept_lines) + open_.closed() + f"\n\n{ending}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenMarkup:
    """The open fence and folded blocks at one line of a text."""

    fence: str = ""
    folds: int = 0

    def after(self, line: str) -> _OpenMarkup:
        """The state after a further line."""
        match = _FENCE.match(line)
        if self.fence:
            ends = match and not match["rest"].strip() and len(match["ticks"]) >= len(self.fence)
            return replace(self, fence="") if ends else self
        if match:
            return replace(self, fence=match["ticks"])
        folds = self.folds + line.count("<details>") - line.count("</details>")
        return _OpenMarkup(folds=max(folds, 0))

    def closed(self) -> str:
        """The text that closes open fences and blocks."""
        fence = f"\n{self.fence}" if self.fence else ""
        return fence + "\n\n</details>" * self.folds


_PULL: Final = "pull-requests: write` and `contents: write"
_ISSUE: Final = "issues: write"
_READ: Final = "pull-requests: read"
# Another job may write the same comment between our read and our write, so read again.
_ROUNDS_MAX: Final = 3
_UNKNOWN: Final = frozenset({"connection", "server"})

Outcome = Literal["created", "updated", "unchanged", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """The result of posting a text.

    Attributes:
        number: The number of the pull request or issue.
        url: Its page.
        outcome: `kept` if a newer text exists already, `unchanged` for the same text.
    """

    number: int
    url: str
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One comment or review of a user.

    Attributes:
        author: The login of the author.
        association: The author's role in the repository: `owner`, `member`, `collaborator`,
            `contributor` or `none`.
        path: The file of a comment on a line; else empty.
        url: Its page.
        written_at: The time of writing, as given by GitHub.
    """

    author: str
    association: str
    text: str
    path: str = ""
    url: str = ""
    written_at: str = ""


class GitHub(Api):
    """Comments, pull requests and issues of one repository.

    A context manager, to close connections.
    """

    def upsert_comment(
        self, number: int, body: str, *, mark: Mark, full_text_note: str = ""
    ) -> Posted:
        """Create or update the comment with this mark on a pull request.

        Concurrent runs leave one comment, with the newest mark.

        Args:
            number: The number of the pull request.
            body: Markdown; truncated if too long.
            mark: The mark that identifies the comment.
            full_text_note: A sentence on where the full text is, for a truncated body.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        text = cut_markdown(mark.on(body), full_text_note=full_text_note)
        path = f"issues/{number}/comments"
        purpose = Purpose(action=f"comment on pull request {number} of {self.access.repo}")
        created: dict[str, Any] | None = None
        rounds = 0
        while True:
            rounds += 1
            try:
                comments = self._find_marked(path, mark, purpose)
                if not comments and created is None:
                    response: Any = self.request(
                        "POST", path, purpose, {"body": text}, required_keys=["id"]
                    )
                    created = {"body": text, **response}
                    # The comment of a concurrent run appears only now.
                    comments = self._find_marked(path, mark, purpose)
                if created is not None and created["id"] not in {
                    comment["id"] for comment in comments
                }:
                    comments.append(created)
                first, outcome = self._merge_comments(comments, text, mark, purpose)
            except GitHubError as error:
                # Deleted since it was listed, or written although the response was lost.
                if rounds == _ROUNDS_MAX or error.kind not in {"not-found", *_UNKNOWN}:
                    raise
                if error.kind == "not-found" and not self._exists(number):
                    raise
                created = None
            else:
                if created is not None and created["id"] == first["id"] and outcome == "unchanged":
                    outcome = "created"
                return Posted(number=number, url=str(first.get("html_url", "")), outcome=outcome)

    def _find_marked(
        self, path: str, mark: Mark, purpose: Purpose, **query: str
    ) -> list[dict[str, Any]]:
        """The comments or issues with a mark, if this token wrote them; anyone can copy a mark."""
        required_keys = ["number"] if path == "issues" else ["id"]
        return [
            document
            for document in self.pages(path, purpose, query=query, required_keys=required_keys)
            if mark.found_on(document.get("body") or "") is not None and self._is_own(document)
        ]

    def _merge_comments(
        self, comments: list[dict[str, Any]], text: str, mark: Mark, purpose: Purpose
    ) -> tuple[dict[str, Any], Outcome]:
        """Keep the oldest comment with the newest text, and delete the others."""
        first, *duplicates = sorted(comments, key=lambda comment: comment["id"])
        marked = mark.found_on(first["body"])
        outcome: Outcome
        if marked is not None and marked.made_at > mark.made_at:
            outcome = "kept"
        elif first["body"].replace("\r\n", "\n") == text:
            outcome = "unchanged"
        else:
            outcome = "updated"
            self.request("PATCH", f"issues/comments/{first['id']}", purpose, {"body": text})
        for other in duplicates:
            try:
                self.request("DELETE", f"issues/comments/{other['id']}", purpose)
            except GitHubError as error:
                # Another run was faster.
                if error.kind != "not-found":
                    raise
        return first, outcome

    def _exists(self, number: int) -> bool:
        try:
            self.request("GET", f"issues/{number}", Purpose(action=f"read pull request {number}"))
        except GitHubError:
            return False
        return True

    def _is_own(self, document: Mapping[str, Any]) -> bool:
        """Return whether this token wrote a comment or an issue.

        A workflow's token may not read its own login; then any bot counts.
        """
        user: Mapping[str, Any] = document.get("user") or {}
        if self._login is not None:
            return bool(user.get("login") == self._login)
        return user.get("type") == "Bot"

    @cached_property
    def _login(self) -> str | None:
        purpose = Purpose(action="read the owner of the token", permission="")
        try:
            user: Any = self.request("GET", "/user", purpose)
        except GitHubError as error:
            if error.kind in {"permission", "not-found"}:
                return None
            raise
        return _text(mapping_of(user), "login") or None

    def open_pull_request(self, *, head: str, base: str, title: str, body: str) -> Posted:
        """Open a pull request, or update the text of the open one of these branches.

        Args:
            head: A pushed branch; `owner:branch` in a fork.
            base: The branch to merge into.
            title: The title, one line.
            body: Markdown; truncated if too long.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses, as for equal branches.
        """
        repo = self.access.repo
        purpose = Purpose(
            action=f"open a pull request of {head} into {base} of {repo}", permission=_PULL
        )
        text = cut_markdown(body)
        document = {"head": head, "base": base, "title": title, "body": text}
        try:
            # GitHub refuses a second one of the same branches, so a retry is safe.
            pull: Any = self.request(
                "POST", "pulls", purpose, document, is_repeatable=True, required_keys=["number"]
            )
        except GitHubError as error:
            pull = self._pull_of(head, base, purpose.action) if error.kind == "invalid" else None
            if pull is None:
                raise
            return self._update_text(f"pulls/{pull['number']}", pull, title, text, purpose)
        return _post_result(pull, "created")

    def pull_request_from(self, head: str, base: str) -> Posted | None:
        """The open pull request of these branches; None without one.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        action = f"look for a pull request of {head} in {self.access.repo}"
        pull = self._pull_of(head, base, action)
        return _post_result(pull, "unchanged") if pull is not None else None

    def refused_pull_request(self, head: str, base: str, words: str) -> Posted | None:
        """The closed, unmerged pull request of these branches with a text; None without one.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        action = f"look for a pull request of {head} that was closed"
        for pull in self._pulls(
            {"head": self._full_branch(head), "base": base, "state": "closed"}, action
        ):
            if not pull.get("merged_at") and words in (pull.get("body") or ""):
                return _post_result(pull, "unchanged")
        return None

    def open_issue(self, *, title: str, body: str, mark: Mark, labels: Sequence[str]) -> Posted:
        """Open an issue, or update the open one with this mark.

        Args:
            title: The title, one line.
            body: Markdown; truncated if too long.
            mark: The mark that identifies the issue.
            labels: Labels of a new issue; GitHub drops them if the token may not set any.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        purpose = Purpose(action=f"open an issue in {self.access.repo}", permission=_ISSUE)
        text = cut_markdown(mark.on(body))
        for issue in self._find_marked("issues", mark, purpose, state="open"):
            if "pull_request" not in issue:
                return self._update_text(f"issues/{issue['number']}", issue, title, text, purpose)
        document = {"title": title, "body": text, "labels": list(labels)}
        issue_document: Any = self.request(
            "POST", "issues", purpose, document, required_keys=["number"]
        )
        return _post_result(issue_document, "created")

    def pull_request_of(self, event: PullRequestEvent) -> PullRequestEvent | None:
        """The event with the number and base of its open pull request; None without one.

        GitHub omits the pull request of a fork's run, so it is found by its branch; both
        repositories and the commit must match.

        Raises:
            GitHubError: GitHub cannot be reached, or refuses.
        """
        if event.number is not None or not event.head_branch:
            return event
        action = f"find the pull request of {event.head_branch}"
        for pull in self._pulls({"head": f"{event.head_owner}:{event.head_branch}"}, action):
            head: dict[str, Any] = pull["head"]
            base: dict[str, Any] = pull["base"]
            if (
                head.get("sha") == event.head_sha
                and _is_from(head, event.head_repo)
                and _is_from(base, self.access.repo)
            ):
                return replace(
                    event,
                    number=pull["number"],
                    base_ref=str(base.get("ref") or ""),
                    base_sha=str(base.get("sha") or ""),
                )
        return None

    def remarks(self, number: int) -> tuple[list[Remark], int]:
        """User comments on a pull request, the oldest first, and the number of bot comments.

        Comments with a mark of regauge count as a bot's, whatever token wrote them.

        Raises:
            GitHubError: GitHub cannot be reached or refuses, or the pull request does not exist.
        """
        purpose = Purpose(
            action=f"read the comments on pull request {number} of {self.access.repo}",
            permission=_READ,
        )
        # The number of an issue has comments, too.
        self.request("GET", f"pulls/{number}", purpose)
        remarks: list[Remark] = []
        bot_count = 0
        for path in ("issues/{}/comments", "pulls/{}/comments", "pulls/{}/reviews"):
            for comment in self.pages(path.format(number), purpose):
                if _is_ours(comment):
                    bot_count += 1
                elif (comment.get("body") or "").strip():
                    remarks.append(_remark(comment))
        return sorted(remarks, key=lambda remark: remark.written_at), bot_count

    def _pulls(self, query: dict[str, str], action: str) -> list[dict[str, Any]]:
        purpose, query = Purpose(action=action, permission=_READ), {"state": "open", **query}
        return list(
            self.pages("pulls", purpose, query=query, required_keys=["number", "head", "base"])
        )

    def _pull_of(self, head: str, base: str, action: str) -> dict[str, Any] | None:
        return next(
            iter(self._pulls({"head": self._full_branch(head), "base": base}, action)), None
        )

    def _full_branch(self, head: str) -> str:
        owner = self.access.repo.partition("/")[0]
        return head if ":" in head else f"{owner}:{head}"

    def _update_text(
        self, path: str, pull: dict[str, Any], title: str, text: str, purpose: Purpose
    ) -> Posted:
        if (pull.get("title"), pull.get("body")) == (title, text):
            return _post_result(pull, "unchanged")
        self.request("PATCH", path, purpose, {"title": title, "body": text})
        return _post_result(pull, "updated")


def _is_from(side: dict[str, Any], repo: str) -> bool:
    """Return whether one side of a pull request is in a repository; True if either is unknown."""
    name = _text(mapping_of(side.get("repo")), "full_name")
    return not repo or not name or name.lower() == repo.lower()


def _post_result(document: Mapping[str, Any], outcome: Outcome) -> Posted:
    return Posted(number=document["number"], url=str(document.get("html_url", "")), outcome=outcome)


def _is_ours(comment: Mapping[str, Any]) -> bool:
    user: Mapping[str, Any] = comment.get("user") or {}
    by_bot = user.get("type") == "Bot" or str(user.get("login", "")).endswith("[bot]")
    return by_bot or is_marked(comment.get("body") or "")


def _remark(comment: Mapping[str, Any]) -> Remark:
    user: Mapping[str, Any] = comment.get("user") or {}
    return Remark(
        author=str(user.get("login") or "a deleted account"),
        association=str(comment.get("author_association") or "none").lower(),
        text=str(comment["body"]).replace("\r\n", "\n"),
        path=str(comment.get("path") or ""),
        url=str(comment.get("html_url") or ""),
        written_at=str(comment.get("created_at") or comment.get("submitted_at") or ""),
    )
