"""The anchor: many small losses add up, and one comparison with an old version shows them."""

from __future__ import annotations

import json
import subprocess
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from tests.github_server import GitHubServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

CASES = 20
FILE = "fixtures/baselines/triage.json"


class AnchoredProject:
    """A repository whose prompt says how many of 100 completions fail."""

    def __init__(self, live: EvalProject, endpoint: Endpoint) -> None:
        self.live, self.endpoint = live, endpoint
        self.provider_drop = 0
        self.counts: dict[str, Iterator[int]] = {}
        endpoint.answer = self.answer
        live.write(".gitignore", ".regauge/\n")
        live.golden([live.case(number) for number in range(CASES)])
        live.judged_by("not_(contains('never'))")
        self.policy()
        self.git("init", "-q", "-b", "main")
        self.release("1.0.0", drop=0)

    def answer(self, text: str) -> str:
        drop = int(text.partition("drop ")[2].partition(":")[0]) + self.provider_drop
        # Spread evenly over the trials of each case, of which several are under way at a time.
        nth = next(self.counts.setdefault(text, count(1))) + 31 * int(text.split()[-3])
        return "never" if (nth * 37) % 100 < drop else "fine"

    def policy(self, more: str = "") -> None:
        self.live.settings(provider=f"[tool.regauge.gate]\nbaseline_trials = 12\n{more}")

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=self.live.root, check=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Change")

    def release(self, version: str, *, drop: int) -> None:
        """Release a version of which so many of 100 completions fail."""
        # The endpoint counts calls by this text; versions that share it would share the failures.
        self.live.prompt(version=version, user=f"{version}, drop {drop}: {{{{text}}}}")
        bumped = self.live.command("bump", "triage")
        assert bumped.returncode == 0, bumped.stderr
        self.commit()

    def update(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Three sessions of `regauge baseline update`; what the last one found."""
        command = ("baseline", "update", "--new-session", "--json", *arguments)
        sessions = [self.live.command(*command) for _ in range(3)]
        said = [one.stdout + one.stderr for one in sessions]
        assert [one.returncode for one in sessions] == [0, 0, code], said
        self.commit()
        (found,) = json.loads(sessions[-1].stdout)["done"]
        assert found["complete"]
        return found

    def gate(self, *, code: int) -> tuple[str, dict[str, Any]]:
        """`regauge gate main`: what it printed, and the anchor in its JSON."""
        done = self.live.command("gate", "main")
        assert done.returncode == code, done.stdout + done.stderr
        decision = self.live.records()[-1]["decision"]
        return done.stdout, decision["prompts"][0]["anchor"]

    def anchors(self) -> list[dict[str, Any]]:
        document = json.loads((self.live.root / FILE).read_text(encoding="utf-8"))
        return document.get("anchors", [])


@pytest.fixture
def project(live: EvalProject, endpoint: Endpoint) -> AnchoredProject:
    return AnchoredProject(live, endpoint)


def test_losses_since_the_anchor_add_up_to_a_finding_of_update_and_gate(
    project: AnchoredProject, monkeypatch: pytest.MonkeyPatch
):
    assert project.update()["anchor"] is None
    assert project.anchors() == []

    project.release("1.1.0", drop=1)
    small = project.update()["anchor"]
    assert small["version"] == "1.0.0"
    assert small["message"].startswith("since 1.0.0: -")
    assert " points (" in small["message"]
    assert not small["rerun"]
    (anchor,) = project.anchors()
    assert {case["trials"] for case in anchor["cases"].values()} == {24}

    project.release("1.2.0", drop=12)
    with GitHubServer() as server:
        for name, value in {
            "GITHUB_TOKEN": "workflow",
            "GITHUB_REPOSITORY": server.repo,
            "GITHUB_API_URL": server.api_url,
        }.items():
            monkeypatch.setenv(name, value)
        lost = project.update("--issue", code=1)["anchor"]
        (issue,) = server.issues
    assert lost["confirmed"]
    assert "confirmed with fresh trials of both" in lost["message"]
    assert lost["message"] in issue["body"].replace("\\", "")
    (anchor,) = project.anchors()
    assert {case["trials"] for case in anchor["cases"].values()} == {12}

    calls = project.endpoint.total
    again = project.live.command("baseline", "update")
    assert (again.returncode, project.endpoint.total) == (0, calls)
    assert lost["message"] in again.stdout

    shown = project.live.command("baseline", "show", "triage")
    since = lost["message"].partition(";")[0]
    assert f"  {since}; a confirmed loss" in shown.stdout
    (record,) = json.loads(project.live.command("baseline", "show", "--json").stdout)
    assert (record["anchor"]["version"], record["anchor"]["cases"]) == ("1.0.0", CASES)
    assert record["anchor"]["difference"]["candidate"] < record["anchor"]["difference"]["base"]

    project.git("checkout", "-q", "-b", "same")
    project.release("1.3.0", drop=15)  # failures follow the order of requests: 12 may be too few
    output, anchor = project.gate(code=0)
    assert anchor["message"] in output
    found = (anchor["version"], anchor["has_loss"], anchor["blocks"])
    assert found == ("1.0.0", True, False), anchor
    assert "this change does not make up for it" in anchor["message"]

    project.git("checkout", "-q", "main")
    project.policy('on_anchor_loss = "block"\n')
    project.commit()
    project.git("checkout", "-q", "-b", "blocked")
    project.release("1.3.0", drop=12)
    output, anchor = project.gate(code=1)
    assert anchor["blocks"]
    assert f"triage: {anchor['message']}" in output

    project.git("checkout", "-q", "--force", "-b", "repaired", "main")
    project.release("1.3.0", drop=0)
    output, anchor = project.gate(code=0)
    assert (anchor["base_lost"], anchor["has_loss"]) == (True, False)
    assert anchor["message"] in output


def test_a_provider_that_got_worse_is_no_loss_since_the_anchor(project: AnchoredProject):
    project.update()
    project.provider_drop = 30
    project.release("1.1.0", drop=0)
    found = project.update()["anchor"]
    assert found["rerun"]
    assert not found["confirmed"]
    assert "not confirmed with fresh trials of both" in found["message"]


def test_an_anchor_that_the_cases_of_today_do_not_fit_is_named_and_not_compared(
    project: AnchoredProject,
):
    live = project.live
    cases = [live.case(number) for number in range(CASES)]
    live.golden([{**case, "inputs": {**case["inputs"], "team": "ops"}} for case in cases])
    live.prompt(version="2.0.0", user="drop 0: {{team}} {{text}}")
    assert live.command("bump", "triage").returncode == 0
    project.commit()
    live.golden(cases)
    project.policy('anchor = "2.0.0"\n')
    project.release("3.0.0", drop=0)
    anchor = project.update()["anchor"]
    assert anchor["message"] == (
        "since 2.0.0: not measured: the prompt of 2.0.0 cannot be rendered for 20 of 20 cases"
    )
    assert project.anchors() == []
    assert "since" not in live.command("baseline", "show", "triage").stdout


def test_a_renamed_prompt_and_dataset_keep_their_baseline(project: AnchoredProject):
    live = project.live
    project.update()
    project.git("checkout", "-q", "-b", "renamed")
    for before, after in (
        ("prompts/triage.prompt.yml", "prompts/severity.prompt.yml"),
        ("fixtures/golden/triage.jsonl", "fixtures/golden/severity.jsonl"),
    ):
        project.git("mv", before, after)
    live.eval(
        "from regauge import golden\nfrom regauge.judges import *\n"
        "@golden('severity', judges=[not_(contains('never'))])\n"
        "def test_triage(result):\n    result.check()\n"
    )
    bumped = live.command("bump", "severity")
    assert bumped.returncode == 0, bumped.stderr
    project.commit()
    calls = project.endpoint.total
    kept = live.command("baseline", "update", "--new-session")
    assert "severity@1.0.0 (local:clerk): complete" in kept.stdout
    assert project.endpoint.total == calls
    files = sorted(path.name for path in (live.root / "fixtures/baselines").iterdir())
    assert files == ["severity.json"]
