"""Long texts are cut so that nothing stays open; events and remotes are read as they come."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from regauge.errors import UsageError
from regauge.github import Mark, PullRequestEvent, cut_markdown, pull_request_number, read_event
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
    cut = cut_markdown(text, where="See the run.", chars_max=1000)
    if github_length(text) <= 1000:
        assert cut == text
    else:
        assert github_length(cut) <= 1000
        assert open_ends(cut) == ("", 0)
        assert cut.endswith("See the run.")


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
        pull_request_number(PullRequestEvent())
