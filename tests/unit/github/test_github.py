"""What is written to GitHub, held against a server that answers and refuses as GitHub does."""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from dataclasses import replace
from email.utils import formatdate

import pytest

from regauge.errors import GitHubError, UsageError
from regauge.github import GitHub, GitHubAccess, Mark, PullRequestEvent
from regauge.github._api import Purpose
from regauge.maintenance.baseline_views import open_baseline_issue
from tests.github_server import ACTIONS, Fault, GitHubServer

GATE = Mark(name="gate", made_at="2026-01-31T10:00:00+00:00")
LATER = Mark(name="gate", made_at="2026-01-31T11:00:00+00:00")
COMMENTS = "/issues/7/comments"
PERSON = {"login": "mallory", "type": "User"}


@pytest.fixture
def server(socket_enabled):
    with GitHubServer() as served:
        served.pull(7)
        yield served


@pytest.fixture
def waits():
    return []


@pytest.fixture
def github(server, waits):
    def make(token="workflow", repo=server.repo):
        access = GitHubAccess(repo=repo, token=token, api_url=server.api_url)
        return GitHub(access, sleep=waits.append)

    made = make()
    made.make = make
    with made:
        yield made


def test_the_second_run_writes_over_the_comment_of_the_first(server, github):
    first = github.upsert_comment(7, "rejected", mark=GATE)
    second = github.upsert_comment(7, "accepted", mark=LATER)
    third = github.upsert_comment(7, "accepted", mark=LATER)
    assert (first.outcome, second.outcome, third.outcome) == ("created", "updated", "unchanged")
    assert first.url == second.url
    assert server.said(7) == ["<!-- regauge gate 2026-01-31T11:00:00+00:00 -->\naccepted"]


def test_an_older_run_that_ends_later_leaves_the_newer_comment(server, github):
    github.upsert_comment(7, "new", mark=LATER)
    assert github.upsert_comment(7, "old", mark=GATE).outcome == "kept"
    assert server.said(7)[0].endswith("new")


def test_comments_of_other_marks_and_of_other_people_stay(server, github):
    forged = server.say(7, GATE.on("accepted, says mallory"), by=PERSON)
    quoted = server.say(7, f"> {GATE.on('x')}", by=ACTIONS)
    other = server.say(7, Mark(name="nightly").on("x"), by=ACTIONS)
    github.upsert_comment(7, "rejected", mark=GATE)
    assert server.said(7)[:3] == [forged["body"], quoted["body"], other["body"]]
    assert len(server.said(7)) == 4


def test_with_a_persons_token_only_that_persons_comment_counts(server, github):
    server.say(7, GATE.on("a bot's"), by=ACTIONS)
    with github.make("person") as person:
        assert person.upsert_comment(7, "mine", mark=GATE).outcome == "created"
        assert person.upsert_comment(7, "mine again", mark=GATE).outcome == "updated"
    assert len(server.said(7)) == 2


def test_a_comment_is_found_behind_hundreds_of_others(server, github):
    for number in range(250):
        server.say(7, f"remark {number}", by=PERSON)
    server.say(7, GATE.on("old"), by=ACTIONS)
    assert github.upsert_comment(7, "new", mark=LATER).outcome == "updated"
    assert server.asked.count(f"GET {COMMENTS}") == 3


@pytest.mark.parametrize("marks", [(GATE, LATER), (LATER, GATE), (GATE, GATE)])
def test_two_runs_that_race_leave_one_comment_of_the_newer(server, github, marks):
    server.listed = threading.Barrier(2)

    def run(mark):
        with github.make() as one:
            one.upsert_comment(7, mark.made_at, mark=mark)

    threads = [threading.Thread(target=run, args=(mark,)) for mark in marks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert server.asked.count(f"POST {COMMENTS}") == 2
    (left,) = server.said(7)
    assert left.endswith(f"\n{max(mark.made_at for mark in marks)}")


@pytest.mark.parametrize(
    ("fault", "wait"),
    [
        (Fault(429, {"message": "slow down"}, {"Retry-After": "7"}), 7),
        (Fault(403, {"message": "You have exceeded a secondary rate limit"}), 60),
        (Fault(403, {"message": "secondary rate limit"}, {"Retry-After": "20"}), 20),
        (Fault(403, {"message": "secondary rate limit"}, {"Retry-After": "soon"}), 60),
        (Fault(502, {"message": "Bad Gateway"}), 1),
    ],
)
def test_a_limit_is_waited_for_as_long_as_github_asks(server, github, waits, fault, wait):
    server.faults[f"GET {COMMENTS}"] = [fault]
    assert github.upsert_comment(7, "x", mark=GATE).outcome == "created"
    assert waits == [wait]


def test_a_limit_that_is_used_up_is_waited_for_until_it_is_reset(server, github, waits):
    reset = int(time.time()) + 100
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)}
    server.faults[f"POST {COMMENTS}"] = [Fault(403, {"message": "API rate limit"}, headers)]
    github.upsert_comment(7, "x", mark=GATE)
    assert waits[0] == pytest.approx(101, abs=30)


def test_a_date_to_come_back_at_is_understood(server, github, waits):
    headers = {"Retry-After": formatdate(time.time() + 90, usegmt=True)}
    server.faults[f"GET {COMMENTS}"] = [Fault(429, {"message": "later"}, headers)]
    github.upsert_comment(7, "x", mark=GATE)
    assert waits[0] == pytest.approx(90, abs=30)


def test_nobody_waits_for_an_hour(server, github, waits):
    server.faults[f"GET {COMMENTS}"] = [Fault(429, {"message": "x"}, {"Retry-After": "3600"})]
    with pytest.raises(GitHubError) as caught:
        github.upsert_comment(7, "x", mark=GATE)
    assert (caught.value.kind, caught.value.status, waits) == ("rate-limit", 429, [])


@pytest.mark.parametrize("stated", ["0", formatdate(0, usegmt=True), "1"])
def test_a_limit_that_never_ends_ends_the_request(server, github, waits, stated):
    fault = Fault(403, {"message": "secondary rate limit"}, {"Retry-After": stated})
    server.faults[f"GET {COMMENTS}"] = [fault] * 20
    with pytest.raises(GitHubError, match="secondary rate limit"):
        github.upsert_comment(7, "x", mark=GATE)
    assert 0 < sum(waits) <= 300
    assert len(waits) < 20


@pytest.mark.parametrize("drop", [True, False])
def test_a_comment_whose_answer_was_lost_is_not_written_twice(server, github, drop):
    server.faults[f"POST {COMMENTS}"] = [Fault(502, {"message": "x"}, drop=drop, after=True)]
    assert github.upsert_comment(7, "x", mark=GATE).outcome == "unchanged"
    assert len(server.said(7)) == 1


def test_a_comment_that_was_deleted_meanwhile_is_written_anew(server, github):
    gone = server.say(7, GATE.on("old"), by=ACTIONS)
    server.faults[f"PATCH /issues/comments/{gone['id']}"] = [Fault(404, {"message": "Not Found"})]
    assert github.upsert_comment(7, "new", mark=LATER).outcome == "updated"
    assert len(server.said(7)) == 1


@pytest.mark.parametrize("status", [403, 404])
def test_a_second_comment_that_cannot_be_deleted_is_an_error_unless_it_is_gone(
    server, github, status
):
    server.say(7, GATE.on("old"), by=ACTIONS)
    second = server.say(7, GATE.on("older"), by=ACTIONS)
    path = f"DELETE /issues/comments/{second['id']}"
    server.faults[path] = [Fault(status, {"message": "no"})]
    if status == 404:
        assert github.upsert_comment(7, "new", mark=LATER).outcome == "updated"
    else:
        with pytest.raises(GitHubError, match="comment on pull request 7"):
            github.upsert_comment(7, "new", mark=LATER)


def test_a_broken_connection_is_tried_again(server, github):
    server.faults[f"GET {COMMENTS}"] = [Fault(0, drop=True)]
    assert github.upsert_comment(7, "x", mark=GATE).outcome == "created"


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("POST", 1)])
def test_a_connection_that_stays_broken_is_an_error(server, github, method, times):
    server.faults[f"{method} {COMMENTS}"] = [Fault(0, drop=True)] * 9
    before = len(server.asked)
    with pytest.raises(GitHubError, match="cannot be reached") as caught:
        github.request(method, COMMENTS.strip("/"), Purpose(action="try"), {})
    assert caught.value.kind == "connection"
    assert len(server.asked) - before == times


def test_a_comment_that_vanishes_each_time_is_tried_in_a_few_rounds(server, github):
    gone = server.say(7, GATE.on("old"), by=ACTIONS)
    path = f"PATCH /issues/comments/{gone['id']}"
    server.faults[path] = [Fault(404, {"message": "Not Found"})] * 9
    with pytest.raises(GitHubError):
        github.upsert_comment(7, "new", mark=LATER)
    assert server.asked.count(path) == 3


def test_the_owner_of_a_token_that_cannot_be_read_is_an_error(server, github):
    server.say(7, GATE.on("old"), by=ACTIONS)
    server.faults["GET /user"] = [Fault(500, {"message": "x"})] * 9
    with pytest.raises(GitHubError, match="read the owner of the token"):
        github.upsert_comment(7, "new", mark=LATER)


def test_all_reasons_of_a_refusal_are_named(server, github):
    errors = ["too long", {"resource": "Comment", "field": "body", "code": "invalid"}, {"message": "m"}]  # fmt: skip
    server.faults[f"POST {COMMENTS}"] = [Fault(422, {"message": "Failed", "errors": errors})]
    with pytest.raises(GitHubError, match="Failed; too long; Comment body invalid; m"):
        github.upsert_comment(7, "x", mark=GATE)


_LARGE = bytes(65 * 2**20)
_MARKED = {"body": "<!-- regauge gate -->\nx", "user": ACTIONS, "id": 1}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(200, _LARGE, {"Content-Encoding": "gzip"}), "64 MiB"),
        (Fault(403, _LARGE, {"Content-Encoding": "deflate"}), "64 MiB"),
        (Fault(200, b"[" * 200_000), "no JSON"),
        (Fault(403, b"[" * 200_000), "returned 403"),
        (Fault(200, b"\xff\xfe"), "no JSON"),
        (Fault(200, {"message": "fine"}), "no list"),
        (Fault(200, [1]), "no object"),
        (Fault(200, [{**_MARKED, "id": "one"}]), "no id"),
        (Fault(200, [{**_MARKED, "id": None}]), "no id"),
        (Fault(200, [{**_MARKED, "body": 5}]), "no body"),
        (Fault(200, [{**_MARKED, "user": "me"}]), "no user"),
        (Fault(302, b"", {"Location": "http://["}), "points to"),
        (Fault(302, b"", {"Location": "//elsewhere/x"}), "points to"),
    ],
)
def test_an_answer_that_is_not_githubs_ends_in_one_sentence(server, github, fault, words):
    if fault.document is _LARGE:
        compress = gzip.compress if fault.status == 200 else zlib.compress
        fault = replace(fault, document=compress(_LARGE, 1))
    server.faults[f"GET {COMMENTS}"] = [fault] * 2
    with pytest.raises(GitHubError, match="cannot comment on pull request 7") as caught:
        github.upsert_comment(7, "x", mark=GATE)
    assert words in str(caught.value)


@pytest.mark.parametrize("said", [None, {}, {"id": "x"}, []])
def test_a_comment_without_an_id_was_not_written(server, github, said):
    server.faults[f"POST {COMMENTS}"] = [Fault(201, said)]
    with pytest.raises(GitHubError, match="does not respond as GitHub does"):
        github.upsert_comment(7, "x", mark=GATE)


def test_a_pull_request_without_a_head_is_refused(server, github):
    server.faults["GET /pulls"] = [Fault(200, [{"number": 7, "base": {}}])]
    event = PullRequestEvent(head_owner="ada", head_branch="fix", head_sha="b" * 40)
    with pytest.raises(GitHubError, match="no head"):
        github.pull_request_of(event)


def test_an_answer_that_drips_is_given_up(server, github, monkeypatch):
    monkeypatch.setattr("regauge.github._api._WHOLE_S", -1)
    with pytest.raises(GitHubError, match="does not end"):
        github.upsert_comment(7, "x", mark=GATE)


def test_a_renamed_repository_is_followed_with_the_same_method(server, github):
    server.moved_from = "acme/old"
    with github.make(repo="acme/old") as old:
        assert old.upsert_comment(7, "x", mark=GATE).outcome == "created"
    assert len(server.said(7)) == 1


def test_the_token_goes_to_no_other_host(server, github):
    for header in ({"Location": "http://127.0.0.1:9/x"}, {"Location": ""}):
        server.faults[f"GET {COMMENTS}"] = [Fault(301, {"message": "Moved"}, header)]
        if header["Location"]:
            with pytest.raises(GitHubError, match=r"points to '127\.0\.0\.1:9'"):
                github.upsert_comment(7, "x", mark=GATE)
    link = {"Link": '<http://127.0.0.1:9/x>; rel="next"'}
    server.faults[f"GET {COMMENTS}"] = [Fault(200, [], link)]
    with pytest.raises(GitHubError, match="does not respond as GitHub does"):
        github.upsert_comment(7, "x", mark=GATE)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"token": "stolen"}, "authentication", "401: Bad credentials\n  fix: the token is wrong"),
        ({"number": 8}, "not-found", "404: Not Found\n  fix: check the repository and the number"),
        (
            {"read_only": True},
            "permission",
            "fix: give the job `permissions: pull-requests: write`",
        ),
    ],
)
def test_a_refusal_says_what_and_how_to_mend_it(server, github, change, kind, words):
    server.may_write = not change.get("read_only", False)
    with (
        github.make(change.get("token", "workflow")) as asked,
        pytest.raises(GitHubError) as caught,
    ):
        asked.upsert_comment(change.get("number", 7), "x", mark=GATE)
    assert caught.value.kind == kind
    assert f"cannot comment on pull request {change.get('number', 7)} of acme/prompts" in str(
        caught.value
    )
    assert words in str(caught.value)
    assert "stolen" not in str(caught.value)


def test_a_server_that_is_down_is_named_without_the_token(server):
    access = GitHubAccess(repo="a/b", token="secret-token", api_url="http://127.0.0.1:9")
    with GitHub(access) as down, pytest.raises(GitHubError) as caught:
        down.upsert_comment(7, "x", mark=GATE)
    assert caught.value.kind == "connection"
    assert "secret-token" not in f"{caught.value!r} {access!r}"


def test_a_body_that_is_too_long_is_cut_before_github_refuses_it(server, github):
    github.upsert_comment(7, "a line 🎉\n" * 20_000, mark=GATE, full_text_note="Read on there.")
    (body,) = server.said(7)
    assert 65_000 < len(body) + body.count("🎉") <= 65_536
    assert body.endswith("Read on there.")


def test_a_pull_request_is_opened_once_and_then_renewed(server, github):
    words = {"head": "regauge/alert", "base": "main", "title": "Mend alert"}
    first = github.open_pull_request(**words, body="one")
    second = github.open_pull_request(**words, body="two")
    assert (first.outcome, second.outcome) == ("created", "updated")
    assert first.number == second.number
    pull = server.pulls[-1]
    assert pull["body"] == "two"
    assert github.open_pull_request(**words, body="two").outcome == "unchanged"


def test_a_pull_request_without_commits_says_so(server, github):
    with pytest.raises(GitHubError, match="No commits between main and main") as caught:
        github.open_pull_request(head="main", base="main", title="x", body="x")
    assert (caught.value.kind, caught.value.status) == ("invalid", 422)


def test_an_issue_of_a_mark_is_open_once(server, github):
    mark = Mark(name="drift")
    server.pulls[0].update(body=mark.on("a pull request"), labels=[{"name": "drift"}], user=ACTIONS)
    first = github.open_issue(title="Drift", body="one", mark=mark, labels=["drift"])
    second = github.open_issue(title="Drift", body="two", mark=mark, labels=["drift"])
    assert (first.outcome, second.outcome) == ("created", "updated")
    server.issues[0]["state"] = "closed"
    assert github.open_issue(title="Drift", body="3", mark=mark, labels=["drift"]).outcome == (
        "created"
    )
    assert [issue["body"] for issue in server.issues] == [mark.on("two"), mark.on("3")]


def test_a_forks_pull_request_is_found_by_its_branch_and_commit(server, github):
    server.pull(8, head="fork:change", sha="b" * 40)
    event = PullRequestEvent(head_owner="fork", head_branch="change", head_sha="b" * 40)
    named = github.pull_request_of(event)
    assert (named.number, named.base_ref, named.base_sha) == (8, "main", "d" * 40)
    assert github.pull_request_of(replace(event, head_repo="fork/prompts")) is not None
    assert github.pull_request_of(replace(event, head_repo="fork/other")) is None
    server.pulls[-1]["base"]["repo"]["full_name"] = "fork/prompts"
    assert github.pull_request_of(event) is None
    pushed_to = PullRequestEvent(head_owner="fork", head_branch="change", head_sha="c" * 40)
    assert github.pull_request_of(pushed_to) is None
    assert github.pull_request_of(PullRequestEvent(number=7)) == PullRequestEvent(number=7)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "no repository is named"),
        ({"GITHUB_REPOSITORY": "a/b"}, "there is no token"),
        ({"GITHUB_REPOSITORY": "nonsense", "GITHUB_TOKEN": "t"}, "'nonsense' is not a repository"),
        (
            {"GITHUB_REPOSITORY": "a/b", "GITHUB_TOKEN": "t", "GITHUB_API_URL": "http://ghe.test"},
            "for anyone to read",
        ),
    ],
)
def test_what_the_environment_lacks_is_said(environ, words):
    with pytest.raises(UsageError, match=words):
        GitHubAccess.from_environ(environ)


def test_what_the_environment_has_is_taken():
    environ = {
        "GITHUB_REPOSITORY": "a/b",
        "GH_TOKEN": " t\n",
        "GITHUB_API_URL": "https://ghe.test/api/v3/",
    }
    access = GitHubAccess.from_environ(environ, repo="c/d")
    assert (access.repo, access.token, access.api_url) == ("c/d", "t", "https://ghe.test/api/v3")


def test_a_baseline_that_got_worse_is_one_issue_with_the_cases_in_counts(server, monkeypatch):
    for name, value in {
        "GITHUB_TOKEN": "workflow",
        "GITHUB_REPOSITORY": server.repo,
        "GITHUB_API_URL": server.api_url,
    }.items():
        monkeypatch.setenv(name, value)
    change = {
        "case": "disk-full @all",
        "check": "severity",
        "direction": "worse",
        "before": {"passed": 12, "trials": 12},
        "now": {"passed": 3, "trials": 8},
    }
    done = {"prompt": "alert", "version": "1.1.0", "model": "sim:clerk-1", "changes": [change]}
    done |= {"drift": None, "audit": None, "anchor": None, "anchor_lost": False}
    better = done | {"prompt": "other", "changes": [change | {"direction": "better"}]}
    assert open_baseline_issue([done, better]).outcome == "created"
    assert open_baseline_issue([done]).outcome == "unchanged"
    (issue,) = server.issues
    assert issue["labels"] == [{"name": "regauge"}]
    assert "\n**alert 1.1.0 (sim:clerk-1)**\n" in issue["body"]
    assert "| disk-full &#64;&#8203;all | severity | 12 of 12 | 3 of 8 |" in issue["body"]
    assert "other 1.1.0" not in issue["body"]
