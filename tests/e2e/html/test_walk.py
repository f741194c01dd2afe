"""The whole way of somebody who tries regauge: from an empty directory to one comment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import processes
from tests.github_server import GitHubServer
from tests.place import Place
from tests.workflow_steps import Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.html.conftest import Opened

    Open = Callable[..., Opened]

_COMMANDS = Path(sys.executable).parent
GONE = ("      - question: ", "      Example of an answer: ")


class Shop(Place):
    """The repository of somebody who sorts tickets, and the workflows that `regauge init` wrote.

    Args:
        root: An empty directory.
        programs: A folder with `regauge` and `pytest`, for scripts of workflows.
    """

    def __init__(self, root: Path, programs: Path) -> None:
        super().__init__(root)
        self.programs = programs

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        done = subprocess.run(
            ["git", *who, *words], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def edit(self) -> None:
        """Take out of the prompt what a question is, and the example of an answer."""
        prompt = self.root / "prompts/ticket-kind.prompt.yml"
        lines = prompt.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(GONE)]
        assert len(kept) == len(lines) - 2
        prompt.write_text("".join(kept), encoding="utf-8")

    def steps(self, workflow: str, **environ: str) -> Steps:
        # As if regauge had just been installed, and nothing else.
        plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "regauge.pytest_plugin"}
        path = os.pathsep.join((str(self.programs), str(_COMMANDS), os.environ["PATH"]))
        return Steps(
            self.root / ".github/workflows" / f"{workflow}.yml",
            self.root,
            runner=self.root.parent / "runner",
            environ={"PATH": path, **plugins, **environ},
        )


@pytest.fixture
def github(socket_enabled: None) -> Iterator[GitHubServer]:
    with GitHubServer() as served:
        served.pull(7)
        yield served


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    root = tmp_path / "shop"
    root.mkdir()
    with processes.scripts(_COMMANDS / "regauge", _COMMANDS / "pytest") as programs:
        yield Shop(root, programs)


def test_from_an_empty_directory_to_one_comment(
    shop: Shop, tmp_path: Path, opened: Open, github: GitHubServer
):
    shop.git("init", "-q", "-b", "main")
    assert "left alone" not in shop.regauge("init", "--yes", "--install", "pip install ./regauge")
    assert "10 passed" in shop.evals()
    shop.git("add", "-A")
    shop.git("commit", "-q", "-m", "Sort tickets")
    assert "__pycache__" not in shop.git("ls-files")
    linted = shop.steps("evals").run("Check prompts, versions and recordings")
    assert "0 errors, 0 warnings" in linted.said
    assert "10 passed" in shop.steps("evals").run("Run the evals").said

    shop.git("switch", "-q", "-c", "shorter")
    shop.edit()
    shop.regauge("bump", "ticket-kind", "minor", "-m", "Say less")
    shop.git("commit", "-q", "-a", "-m", "Say less")
    assert "gate: rejected against main" in shop.regauge("gate", "main", code=1)
    shop.regauge("report", "--format", "html", "-o", "report.html")
    reads_what_broke(opened, shop.root / "report.html")

    # What GitHub does with the same branch.
    shop.git("update-ref", "refs/remotes/origin/main", "main")
    gated = shop.steps("evals").run(
        "Compare with the base branch",
        BASE="main",
        RECORD="missing",
        BUDGET_USD="5",
        MORE_TRIALS="0",
    )
    assert gated.code == 1, gated.said
    assert gated.summary.startswith("<!-- regauge gate -->\n### ❌ regauge gate: rejected against")
    (shop.root / "run-record").rename(tmp_path / "runner" / "run-record")
    shop.git("switch", "-q", "main")
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}), encoding="utf-8")
    commenting = shop.steps(
        "comment",
        GITHUB_API_URL=github.api_url,
        GITHUB_REPOSITORY=github.repo,
        GITHUB_EVENT_PATH=str(event),
    )
    for outcome in ("created", "unchanged"):
        posted = commenting.run("Write the comment", GITHUB_TOKEN="workflow")
        assert (posted.code, posted.said.split(":")[0]) == (0, outcome), posted.said
    (body,) = github.said(7)
    assert "| ticket-kind | 1.0.0 → 1.1.0 (simulated) | 10 |" in body


def reads_what_broke(opened: Open, report: Path) -> None:
    """Open the report, filter its cases, click through to a broken one and read what changed."""
    for scheme in ("light", "dark"):
        seen = opened(report, color_scheme=scheme)
        page = seen.page
        assert seen.text("h1").startswith("Rejected against main (")
        assert "regauge gate main" in seen.text("#view-overview")
        assert "changes that were not committed" not in seen.text("#view-overview")
        seen.picture(f"walk-overview-{scheme}")
        page.locator("#view-overview").get_by_role("link", name="broken of ticket-kind").click()
        broken = seen.ids()
        assert 1 < len(broken) < 10
        page.get_by_label("Tier").select_option("critical")
        assert seen.ids() == ["paid-twice"]
        page.get_by_label("Tier").select_option("All")
        seen.picture(f"walk-prompt-{scheme}")
        page.get_by_role("link", name=broken[0], exact=True).click()
        page.locator("#case-title", has_text=broken[0]).wait_for()
        panes = page.locator(".sides").first.locator(".pane")
        was, is_now = panes.nth(0).locator("del"), panes.nth(1).locator("ins")
        assert {was.inner_text(), is_now.inner_text()} < {"bug", "billing", "question"}
        seen.picture(f"walk-case-{scheme}")
