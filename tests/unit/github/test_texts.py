"""Long texts are cut so that nothing stays open; events and remotes are read as they come."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from regauge.errors import UsageError
from regauge.github import Mark, PullRequestEvent, cut_markdown, read_event
from regauge.github._github import github_length

lines = st.sampled_from(
    [
        "text",
        "```diff",
        "```",
        "````",
        "- item 🎉",
        "<details><summary>x</summary>",
        "</details>",
        "",
    ]
)


def open_ends(text):
    """Fences and folded blocks that a text leaves open."""
    fence, folds = "", 0
    for line in text.splitlines():
        ticks = len(line) - len(line.lstrip("`"))
        if fence:
            fence = "" if ticks >= len(fence) and line == "`" * ticks else fence
        elif ticks >= 3:
            fence = "`" * ticks
        else:
            folds = max(folds + line.count("<details>") - line.count("</details>"), 0)
    return fence, folds


@settings(max_examples=40)
@given(st.lists(lines, min_size=100, max_size=300))
def test_a_cut_text_fits_and_leaves_nothing_open(parts):
    text = "\n".join(parts)
    cut = cut_markdown(text, full_text_note="See the run.", chars_max=1000)
    if github_length(text) <= 1000:
        assert cut == text
    else:
        assert github_length(cut) <= 1000
        assert open_ends(cut) == ("", 0)
        assert cut.endswith("See the run.")


def test_a_text_up_to_the_limit_of_github_is_whole():
    fits = ["x" * 65_536, f"{'x' * 65_534}\U0001f600"]  # such a character counts twice
    assert [cut_markdown(text) for text in fits] == fits
    assert all("Cut here" in cut_markdown(f"{text}y") for text in fits)


def test_a_single_line_that_is_too_long_leaves_the_notice():
    assert cut_markdown("x" * 70_000).strip() == (
        "**Cut here: 1 of 1 lines do not fit into one comment.**"
    )


@given(st.text())
def test_a_mark_is_found_on_whatever_it_was_put_on(body):
    mark = Mark(name="gate", made_at="2026-01-31T10:00:00+00:00")
    assert mark.found_on(mark.on(body)) == mark
    assert mark.on(mark.on("x")) == mark.on("x")
    assert Mark(name="other").found_on(mark.on(body)) is None


def test_a_mark_cannot_end_the_comment_it_is_hidden_in():
    with pytest.raises(UsageError, match="does not name a comment"):
        Mark(name="x --><script>")


@pytest.mark.parametrize(
    ("document", "event"),
    [
        ({"pull_request": {"number": 3}}, PullRequestEvent(number=3)),
        ({"issue": {"number": 4, "pull_request": {}}}, PullRequestEvent()),
        ({"issue": {"number": 4, "pull_request": {"url": "x"}}}, PullRequestEvent(number=4)),
        ({"issue": {"number": 4}}, PullRequestEvent()),
        ({"pull_request": {"number": "3; rm -rf /"}}, PullRequestEvent()),
        ({}, PullRequestEvent()),
        ([], PullRequestEvent()),
        (
            {
                "workflow_run": {
                    "pull_requests": [],
                    "head_branch": "change",
                    "head_sha": "abc",
                    "head_repository": {"owner": {"login": "fork"}},
                }
            },
            PullRequestEvent(head_owner="fork", head_branch="change", head_sha="abc"),
        ),
        (
            {"workflow_run": {"pull_requests": [{"number": 9}], "head_sha": "abc"}},
            PullRequestEvent(number=9, head_sha="abc"),
        ),
    ],
)
def test_an_event_names_its_pull_request(tmp_path, document, event):
    path = tmp_path / "event.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert read_event({"GITHUB_EVENT_PATH": str(path)}) == event


def test_an_event_that_cannot_be_read_or_names_nothing_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="GITHUB_EVENT_PATH"):
        read_event({"GITHUB_EVENT_PATH": str(tmp_path / "missing")})
    assert read_event({}) == PullRequestEvent()
    with pytest.raises(UsageError, match="--pr NUMBER"):
        PullRequestEvent().require_number()


def cut_lines(*parts, where="See the run."):
    return cut_markdown("\n".join(parts), full_text_note=where, chars_max=1000)


def test_as_many_lines_stay_as_fit_with_what_they_leave_open():
    notice = "**Cut here: {} of {} lines do not fit into one comment.** See the run."
    used = len(notice.format(100, 100)) + 2
    fits = (1000 - used) // 21
    lines = ["x" * 20] * 100
    assert cut_lines(*lines) == "\n".join(lines[:fits]) + f"\n\n{notice.format(100 - fits, 100)}"
    # The fence takes five characters more at its end.
    fenced = (1000 - used - 4 - 4) // 21
    assert cut_lines("```", *lines) == (
        "\n".join(["```", *lines[:fenced]]) + f"\n```\n\n{notice.format(101 - fenced - 1, 101)}"
    )
    folded = (1000 - used - 10 - 12) // 21
    assert cut_lines("<details>", *lines) == (
        "\n".join(["<details>", *lines[:folded]])
        + f"\n\n</details>\n\n{notice.format(101 - folded - 1, 101)}"
    )
    party = ["🎉" * 10] * 100
    assert cut_lines(*party).count("🎉") == 10 * fits
    assert cut_lines("x" * 1000) == "x" * 1000
    assert cut_lines("x" * 1001).endswith(notice.format(1, 1))


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        (["```py"], "\n```"),
        (["  ````"], "\n````"),
        (["```", "```"], ""),
        (["````", "```"], "\n````"),
        (["```", "````"], ""),
        (["```", "``` x"], "\n```"),
        (["```", "<details>"], "\n```"),
        (["<details>", "<details>"], "\n\n</details>\n\n</details>"),
        (["<details><details>", "</details>"], "\n\n</details>"),
        (["</details>", "<details>"], "\n\n</details>"),
        (["<details>", "```", "</details>"], "\n```\n\n</details>"),
        (["``"], ""),
    ],
)
def test_what_a_cut_leaves_open_is_closed(opening, closing):
    cut = cut_lines(*opening, *["y" * 30] * 60)
    assert cut.partition("\n\n**Cut here")[0].endswith("y" * 30 + closing)


REPO, FORK = {"id": 1}, {"id": 2}


@pytest.mark.parametrize(
    ("pulls", "number"),
    [
        (
            [{"number": 9, "base": {"repo": REPO}, "head": {"repo": FORK, "ref": "b", "sha": "s"}}],
            9,
        ),
        ([{"number": 9, "base": {"repo": FORK}}], None),
        ([{"number": 9, "base": {"repo": REPO}, "head": {"repo": REPO}}], None),
        ([{"number": 9, "head": {"ref": "other"}}], None),
        ([{"number": 9, "head": {"sha": "other"}}], None),
        ([{"number": 9}, {"number": 8}], None),
        ([{"number": 9}, {"number": 8, "head": {"sha": "other"}}], 9),
        ([{"number": 0}, {"number": -1}, {"number": 1}], 1),
        ([{"number": "9"}, 3], None),
        ("x", None),
    ],
)
def test_the_pull_request_of_a_run_is_the_one_of_its_commit(tmp_path, pulls, number):
    run = {
        "repository": REPO, "head_repository": {**FORK, "full_name": "fork/x"}, "head_branch": "b", "head_sha": "s",
        "pull_requests": pulls, "conclusion": "success", "created_at": "c", "html_url": "u",
    }  # fmt: skip
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"workflow_run": run}), encoding="utf-8")
    event = read_event({"GITHUB_EVENT_PATH": str(path)})
    assert event.number == number
    assert (event.head_repo, event.conclusion, event.started_at, event.run_url) == (
        "fork/x", "success", "c", "u",
    )  # fmt: skip
    path.write_text(json.dumps({"workflow_run": {**run, "run_started_at": "r"}}), encoding="utf-8")
    assert read_event({"GITHUB_EVENT_PATH": str(path)}).started_at == "r"


def test_a_pull_request_event_names_both_its_sides(tmp_path):
    pull = {
        "number": 3, "base": {"ref": "main", "sha": "b"},
        "head": {"sha": "h", "repo": {"full_name": "fork/x"}},
    }  # fmt: skip
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"pull_request": pull, "issue": {"number": 4}}), encoding="utf-8")
    assert read_event({"GITHUB_EVENT_PATH": str(path)}) == PullRequestEvent(
        number=3, base_ref="main", base_sha="b", head_repo="fork/x", head_sha="h"
    )
    assert PullRequestEvent(number=3).require_number() == 3


def test_marks_replace_their_like_and_names_are_short():
    old, new = Mark(name="gate"), Mark(name="gate", made_at="2026-01-31T10:00:00Z")
    assert new.on(old.on("x")) == "<!-- regauge gate 2026-01-31T10:00:00Z -->\nx"
    assert new.on("x\ny") == "<!-- regauge gate 2026-01-31T10:00:00Z -->\nx\ny"
    assert new.on("") == "<!-- regauge gate 2026-01-31T10:00:00Z -->\n"
    assert old.found_on("> " + old.on("x")) is None
    assert Mark(name="a" * 64).name
    for name in ("a" * 65, "", "-a", "A"):
        with pytest.raises(UsageError, match="does not name a comment"):
            Mark(name=name)
