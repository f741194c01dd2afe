"""`regauge report --comment`: one comment on a pull request, whoever made the run that it shows."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from regauge.cli import group
from regauge.errors import RegaugeError
from regauge.reports import DecisionDocument, RunRecord
from tests.github_server import ACTIONS, GitHubServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOSTILE = (
    "x @all <script>alert(1)</script> ](http://evil.test) <!-- regauge gate --> ```\n::error::"
)


def decision(**more: Any) -> dict[str, Any]:
    """What a gate decided of one prompt with one broken case."""
    count = {"passed": 0, "trials": 6}
    case = {
        "prompt": "alert",
        "case": "disk-full",
        "tier": "required",
        "state": "changed",
        "status": "broken",
        "blocks": True,
        "message": "alert/disk-full: failed 6 of 6 new trials.",
        "before": {"passed": 12, "trials": 12},
        "today": {"passed": 5, "trials": 5},
        "candidate": count,
    }
    prompt = {
        "prompt": "alert",
        "path": "prompts/alert.prompt.yml",
        "state": "changed",
        "version": "1.1.0",
        "base_version": "1.0.0",
        "digest": "a",
        "base_digest": "b",
        "model": "sim:clerk-1",
        "base_model": "sim:clerk-1",
        "simulated": True,
        "diff": "-one\n+two",
        "counts": {"broken": 1},
    }
    document = {
        "decision": "reject",
        "exit_code": 1,
        "ref": "origin/main",
        "base_commit": "1a2b3c4d5e6f",
        "reasons": [],
        "prompts": [prompt],
        "cases": [case],
        "calls": {
            "first": 1,
            "follow_up": 5,
            "base": 5,
            "live": 11,
            "input_tokens": 1,
            "output_tokens": 1,
            "cost_usd": 0.0,
        },
        "sensitivity": "With these cases this gate finds one fully broken case.",
        "rerun_command": "regauge gate origin/main",
        "policy": {},
    }
    return document | more


class Workflow:
    """A project with runs in it, in a job of a workflow."""

    def __init__(self, root: Path, server: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.server = server
        self.monkeypatch = monkeypatch
        (root / "pyproject.toml").write_text("[tool.regauge]\n", encoding="utf-8")
        monkeypatch.chdir(root)
        for name, value in {
            "GITHUB_TOKEN": "workflow",
            "GITHUB_REPOSITORY": server.repo,
            "GITHUB_API_URL": server.api_url,
            "GITHUB_SERVER_URL": "https://github.test",
            "GITHUB_RUN_ID": "42",
        }.items():
            monkeypatch.setenv(name, value)
        self.event({"pull_request": {"number": 7}})

    def event(self, document: Any) -> None:
        path = self.root / "event.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        self.monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))

    def run(self, name: str = "20260131-100000-aaaa", **more: Any) -> str:
        """A run, as its record says; the name of its directory."""
        second = datetime.strptime(name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat()
        values: dict[str, Any] = {
            "id": name,
            "started_at": second,
            "finished_at": second,
            "status": "finished",
            "regauge_version": "0",
            "python_version": "3",
            "command": [],
            "git": {"commit": "c0ffee" * 6, "branch": None, "dirty": False},
            "options": {},
            "evals": [],
            "decision": DecisionDocument.model_validate(decision()),
        }
        directory = self.root / ".regauge" / "runs" / name
        directory.mkdir(parents=True)
        record = RunRecord(**(values | more))
        (directory / "run.json").write_text(record.model_dump_json(), encoding="utf-8")
        return name

    def comment(self, *arguments: str) -> Result:
        return CliRunner().invoke(group, ["report", "--comment", *arguments])


@pytest.fixture
def server(socket_enabled: None) -> Iterator[GitHubServer]:
    with GitHubServer() as served:
        served.pull(7)
        yield served


@pytest.fixture
def workflow(tmp_path: Path, server: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    return Workflow(tmp_path, server, monkeypatch)


def test_a_comment_posted_twice_is_one_comment_and_says_what_broke(workflow: Workflow):
    first, second = workflow.run(), workflow.run("20260131-110000-bbbb")
    done = workflow.comment(first)
    assert done.output == "created: https://github.test/acme/prompts/pull/7#c101\n"
    assert workflow.comment().output == done.output.replace("created", "updated")
    assert workflow.comment(second).output == done.output.replace("created", "unchanged")
    assert workflow.comment(first).output == done.output.replace("created", "kept")
    (body,) = workflow.server.said(7)
    lines = body.splitlines()
    assert lines[:2] == [
        "<!-- regauge gate 2026-01-31T11:00:00+00:00 -->",
        "### ❌ regauge gate: rejected against `origin/main` (`1a2b3c4d5`): 1 broken of 1 case",
    ]
    assert "| alert | 1.0.0 → 1.1.0 (simulated) | 1 | 1 | 100 % → 0 % |" in lines
    assert "- `alert/disk-full`: failed 6 of 6 new trials." in lines
    assert "Decide again: `regauge gate origin/main`" in lines
    assert lines[-1] == (
        "<sub>run `20260131-110000-bbbb` · commit `c0ffeec0f` ·"
        " [log](https://github.test/acme/prompts/actions/runs/42)</sub>"
    )


def test_a_run_without_a_gate_has_a_comment_of_a_name_of_its_own(workflow: Workflow):
    workflow.run(decision=None)
    assert workflow.comment("--marker", "evals", "--pr", "7").exit_code == 0
    assert workflow.comment().exit_code == 0
    evals, gate = workflow.server.said(7)
    assert evals.startswith(
        "<!-- regauge evals 2026-01-31T10:00:00+00:00 -->\n### regauge: nothing was measured"
    )
    assert gate.startswith("<!-- regauge gate ")


def test_a_forks_run_is_written_to_the_pull_request_of_its_branch(workflow: Workflow):
    workflow.server.pull(8, head="fork:change", sha="b" * 40)
    run = {
        "pull_requests": [],
        "head_branch": "change",
        "head_sha": "b" * 40,
        "head_repository": {"owner": {"login": "fork"}},
        "html_url": "https://github.test/acme/prompts/actions/runs/41",
    }
    workflow.event({"workflow_run": run})
    workflow.run()
    assert workflow.comment().exit_code == 0
    assert "/actions/runs/41)" in workflow.server.said(8)[0]
    workflow.event({"workflow_run": run | {"head_sha": "c" * 40}})
    done = workflow.comment()
    assert (done.exit_code, done.output) == (
        0,
        "no open pull request has change as it was: nothing to write to\n",
    )


def test_a_record_from_a_fork_can_forge_no_markup_no_mention_and_no_future(workflow: Workflow):
    evil = decision(ref=HOSTILE, reasons=[HOSTILE], notes=[HOSTILE], sensitivity=HOSTILE)
    evil |= {"rerun_command": HOSTILE, "next": {"text": HOSTILE, "command": HOSTILE}}
    evil["refusals"] = [{"part": "bar", "message": HOSTILE, "details": [HOSTILE], "fix": HOSTILE}]
    evil["cases"][0] |= {
        "message": HOSTILE,
        "accepted": HOSTILE,
        "passing": {"side": "base", "trial": 0, "text": HOSTILE},
        "failing": {"side": "candidate", "trial": 0, "text": HOSTILE, "reason": HOSTILE},
    }
    evil["prompts"][0] |= {"path": HOSTILE, "version": HOSTILE, "diff": HOSTILE}
    workflow.run(
        decision=DecisionDocument.model_validate(evil),
        started_at="9999-01-01T00:00:00+00:00",
        git={"commit": HOSTILE, "branch": HOSTILE, "dirty": True},
    )
    assert workflow.comment().exit_code == 0
    (body,) = workflow.server.said(7)
    assert "9999" not in body
    outside = re.sub(r"(?ms)^( *)(`{3,})diff$.*?^\1\2$", "", body)
    outside = re.sub(r"(`+) .*? \1(?!`)", "", outside)
    assert outside.count("<!--") == outside.count("<!-- regauge gate 20") == 1
    assert not re.search(r"<script|@all|\]\(http://evil", outside)
    later = workflow.run("20260131-100001-bbbb", started_at=datetime.now(UTC).isoformat())
    assert workflow.comment(later).output.startswith("updated: ")


def test_a_run_that_is_too_long_for_a_comment_is_shortened_and_keeps_its_end(workflow: Workflow):
    long = decision()
    text = "\n".join(f"word {n}" for n in range(2000))
    long["cases"] = [
        long["cases"][0]
        | {
            "case": f"case-{n}",
            "status": verdict,
            "message": f"{n} {'m' * 900}",
            "passing": {"side": "base", "trial": 0, "text": text},
            "failing": {"side": "candidate", "trial": 0, "text": text.upper()},
        }
        for verdict in ("broken", "undecided", "flaky", "fixed")
        for n in range(40)
    ]
    workflow.run(decision=DecisionDocument.model_validate(long))
    assert workflow.comment().exit_code == 0
    (body,) = workflow.server.said(7)
    assert len(body) < 65_536
    assert "… and 25 more" in body
    assert "Decide again: `regauge gate origin/main`" in body


def test_a_dry_run_asks_nobody_and_needs_no_token(workflow: Workflow):
    workflow.run(git={"commit": "c0ffee" * 6, "branch": None, "dirty": True})
    workflow.monkeypatch.delenv("GITHUB_TOKEN")
    done = workflow.comment("--dry-run")
    assert "commit `c0ffeec0f`+" in done.output
    assert done.exit_code == 0
    assert done.output.startswith("<!-- regauge gate 2026-01-31T10:00:00+00:00 -->\n### ❌")
    assert not workflow.server.asked


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ("token", (), "there is no token for GitHub\n  fix: set GITHUB_TOKEN"),
        (
            "repo",
            (),
            "GITHUB_REPOSITORY\n  to read the comment here: regauge report --comment --dry-run",
        ),
        (
            "",
            ("--pr", "9"),
            "cannot comment on pull request 9 of acme/prompts: GitHub returned 404",
        ),
        ("", ("--marker", "a b"), "'a b' does not name a comment"),
        ("push", (), "there is no pull request to comment on\n  fix: name it with --pr NUMBER"),
        ("began", (), "has no valid start time: 'yesterday'"),
    ],
)
def test_what_keeps_a_comment_from_being_written_is_said(
    workflow: Workflow, change: str, arguments: tuple[str, ...], words: str
):
    workflow.run(**({"started_at": "yesterday"} if change == "began" else {}))
    if change == "token":
        workflow.monkeypatch.delenv("GITHUB_TOKEN")
    if change == "repo":
        workflow.monkeypatch.delenv("GITHUB_REPOSITORY")
    if change == "push":
        workflow.event({"ref": "refs/heads/main"})
    done = workflow.comment(*arguments)
    assert isinstance(done.exception, RegaugeError)
    assert done.exception.exit_code == 2
    assert words in str(done.exception)
    assert not workflow.server.comments


def test_comments_of_other_bots_and_people_are_left_alone(workflow: Workflow):
    workflow.server.say(7, "<!-- regauge gate -->\nall is well", by={"login": "m", "type": "User"})
    workflow.server.say(7, "<!-- regauge other -->\nx", by=ACTIONS)
    workflow.run()
    assert workflow.comment().output.startswith("created: ")
    assert workflow.server.said(7)[0].endswith("all is well")


RUN = {
    "pull_requests": [],
    "conclusion": "success",
    "head_branch": "change",
    "head_sha": "b" * 40,
    "head_repository": {"id": 2, "full_name": "fork/prompts", "owner": {"login": "fork"}},
    "repository": {"id": 1, "full_name": "acme/prompts"},
    "html_url": "https://github.test/acme/prompts/actions/runs/41",
}


@pytest.mark.parametrize("conclusion", ["failure", "timed_out", "action_required", "@all <b>"])
def test_a_record_that_accepts_does_not_hide_that_the_run_failed(
    workflow: Workflow, conclusion: str
):
    workflow.server.pull(8, head="fork:change", sha="b" * 40)
    workflow.event({"workflow_run": RUN | {"conclusion": conclusion}})
    workflow.run(decision=DecisionDocument.model_validate(decision(decision="accept", exit_code=0)))
    assert workflow.comment().exit_code == 0
    (body,) = workflow.server.said(8)
    first = body.splitlines()[1]
    assert first.startswith("### ❌ GitHub reports that the workflow run failed: ")
    assert "See the [log](https://github.test/acme/prompts/actions/runs/41)." in body
    assert "@all" not in body
    rejected = workflow.run("20260131-110000-bbbb")
    assert workflow.comment(rejected).exit_code == 0
    (body,) = workflow.server.said(8)
    assert "GitHub reports" not in body
    assert body.startswith("<!-- regauge gate 2026-01-31T11:00:00+00:00 -->\n### ❌ regauge gate")


def test_a_run_that_failed_without_a_record_replaces_what_was_said_before(workflow: Workflow):
    workflow.server.pull(8, head="fork:change", sha="b" * 40)
    workflow.event({"workflow_run": RUN})
    workflow.run(decision=DecisionDocument.model_validate(decision(decision="accept", exit_code=0)))
    assert workflow.comment().exit_code == 0
    failed = RUN | {"conclusion": "failure", "run_started_at": "2026-02-01T00:00:00Z"}
    workflow.event({"workflow_run": failed})
    assert workflow.comment("run-record").output.startswith("updated: ")
    (body,) = workflow.server.said(8)
    assert "### ❌ GitHub reports that the workflow run failed: failure" in body
    assert "It left no run record." in body
    assert "accepted" not in body
    assert "commit `bbbbbbbbb` · base `main` (`ddddddddd`) · GitHub: failure · [log](" in body
    workflow.event({"workflow_run": RUN})
    done = workflow.comment("run-record")
    assert isinstance(done.exception, RegaugeError)


def test_commit_and_base_come_from_github_and_not_from_the_record(workflow: Workflow):
    workflow.server.pull(8, head="fork:change", sha="b" * 40)
    workflow.event({"workflow_run": RUN})
    workflow.run(git={"commit": "0" * 40, "branch": None, "dirty": False})
    assert workflow.comment().exit_code == 0
    footer = workflow.server.said(8)[0].splitlines()[-1]
    assert "commit `bbbbbbbbb` · base `main` (`ddddddddd`) · GitHub: success · [log](" in footer
    assert "000000000" not in footer
    other = workflow.run(
        "20260131-110000-bbbb", decision=DecisionDocument.model_validate(decision(ref="fork/easy"))
    )
    assert workflow.comment(other).exit_code == 0
    said = "**The run compares with `fork/easy`, and the pull request goes into `main`.**"
    assert said in workflow.server.said(8)[0]


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({}, 7),
        ({"base": {"ref": "main", "sha": "e" * 40, "repo": {"id": 9}}}, None),
        ({"head": {"ref": "change", "sha": "b" * 40, "repo": {"id": 9}}}, None),
        ({"head": {"ref": "other", "sha": "b" * 40, "repo": {"id": 2}}}, None),
        ({"head": {"ref": "change", "sha": "c" * 40, "repo": {"id": 2}}}, None),
    ],
)
def test_a_pull_request_of_another_repository_or_commit_gets_no_comment(
    workflow: Workflow, change: dict[str, Any], number: int | None
):
    pull = {
        "number": 7,
        "base": {"ref": "main", "sha": "e" * 40, "repo": {"id": 1}},
        "head": {"ref": "change", "sha": "b" * 40, "repo": {"id": 2}},
    }
    workflow.event({"workflow_run": RUN | {"pull_requests": [pull | change]}})
    workflow.run()
    done = workflow.comment()
    assert done.exit_code == 0
    assert bool(workflow.server.said(7)) == (number == 7)
    if number is None:
        assert "no open pull request has change as it was" in done.output
    else:
        assert "base `main` (`eeeeeeeee`)" in workflow.server.said(7)[0]


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Change the record of a run."""

    def edited(run: Path) -> None:
        document = json.loads((run / "run.json").read_text(encoding="utf-8"))
        change(document)
        (run / "run.json").write_text(json.dumps(document), encoding="utf-8")

    return edited


def rows(text: str) -> Callable[[Path], object]:
    """Have rows and no decision."""

    def written(run: Path) -> None:
        edit(lambda document: document.update(decision=None))(run)
        (run / "trials.jsonl").write_text(text, encoding="utf-8")

    return written


def replace(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Have something else where a file of the run is."""

    def replaced(run: Path) -> None:
        edit(lambda document: document.update(decision=None))(run)
        (run / name).unlink(missing_ok=True)
        make(run / name)

    return replaced


def digits(text: str) -> Callable[[Path], object]:
    """Have another number of calls, as it stands in the file."""

    def written(run: Path) -> None:
        path = run / "run.json"
        path.write_text(path.read_text().replace('"live":11', f'"live":{text}'), encoding="utf-8")

    return written


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda run: (run / "run.json").write_text("[" * 200_000), "nested too deeply"),
        (lambda run: (run / "run.json").write_text("[]"), "not a JSON object"),
        (lambda run: (run / "run.json").write_bytes(b"\xff\xfe{}"), "not a run record"),
        (
            edit(lambda document: document.pop("evals")),
            "written by another version of regauge, or damaged: `evals` is missing",
        ),
        (
            edit(lambda document: document.update(decision=3)),
            "`decision`: Input should be a mapping",
        ),
        (
            edit(lambda document: document["decision"]["cases"][0].update(status="fine")),
            "`decision.cases.0.status`: Input should be 'passed', 'broken'",
        ),
        (
            edit(lambda document: document["decision"]["prompts"][0].update(counts={"x": 1})),
            "decision.prompts.0.counts.x.[key]`: Input should be 'passed'",
        ),
        (digits("9" * 4000), "an integer of 4000 digits"),
        (digits("9" * 5000), "an integer of 5000 digits"),
        (digits("1e999"), "too large a number"),
        (digits("NaN"), "NaN is not a JSON number"),
        (
            rows('{"case": "a"}\n'),
            "trials.jsonl:1: written by another version of regauge, or damaged: `node` is missing",
        ),
        (rows("[" * 200_000), "trials.jsonl:1: not a row: nested too deeply"),
        (rows("3\n"), "trials.jsonl:1: not a row: not a JSON object"),
        (
            replace("trials.jsonl", lambda path: path.mkdir()),
            "trials.jsonl: there is a directory at the path of this file",
        ),
        (replace("trials.jsonl", lambda path: path.symlink_to("/etc/passwd")), "a link"),
        (replace("run.json", lambda path: path.mkdir()), "run.json: there is a directory at"),
        (replace("run.json", lambda path: path.symlink_to("/etc/passwd")), "run.json: a link"),
        (replace("run.json", lambda path: path.symlink_to("nowhere")), "run.json: a link"),
    ],
)
@pytest.mark.parametrize(
    "command", [("report", "--comment"), ("report",), ("report", "--format", "html")]
)
def test_a_hostile_run_record_is_refused_in_one_sentence(
    workflow: Workflow,
    command: tuple[str, ...],
    spoil: Callable[[Path], object],
    words: str,
):
    run = workflow.root / ".regauge" / "runs" / workflow.run()
    spoil(run)
    done = CliRunner().invoke(group, [command[0], str(run), *command[1:]])
    assert isinstance(done.exception, RegaugeError), done.output
    assert done.exception.exit_code == 2
    assert words in str(done.exception)
    assert str(done.exception).count("\n") <= 1
    assert not workflow.server.comments
