"""`regauge migrate`: prompts on their own model against another, refined, written and proposed."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from tests.github_server import GitHubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

PROMPT = """\
name: Triage
version: 1.0.0   # released
model: local:clerk
messages:
  - role: user
    content: |-
      Answer with JSON: the keys severity and reason.

      {{text}}
"""
PRICES = """\
prices = { "clerk" = { input_per_million = 1.0, output_per_million = 2.0 }, "apprentice" = \
{ input_per_million = 0.5, output_per_million = 1.0 } }
"""
EVAL = """\
from regauge import golden
from regauge.judges import field_equals, max_words

@golden("triage", judges=[field_equals("severity"), max_words(12, field="reason")])
def test_triage(result):
    result.check()

@golden("plain", judges=[field_equals("severity")])
def test_plain(result):
    result.check()
"""


def brief(text: str) -> str:
    severity = text.rsplit("\n", maxsplit=1)[-1].split(":", maxsplit=1)[0]
    return json.dumps({"severity": severity, "reason": "it says so itself"})


def verbose(text: str) -> str:
    """Keeps a limit of words only where the prompt states it."""
    document = json.loads(brief(text))
    if not re.search(r"\b12\b|twelve", text):
        document["reason"] = "it says so itself, and " * 10
    return json.dumps(document)


class Migrating:
    """A repository with the prompts `triage`, which a verbose model breaks, and `plain`."""

    def __init__(self, project: EvalProject, endpoint: Endpoint) -> None:
        self.project, self.endpoint = project, endpoint
        endpoint.answer, endpoint.answer_of["apprentice"] = brief, verbose
        project.settings(provider=PRICES)
        cases = [project.case(n) | {"expected": {"severity": "critical"}} for n in range(24)]
        for name in ("triage", "plain"):
            project.write(f"prompts/{name}.prompt.yml", PROMPT.replace("Triage", name))
            project.golden(cases, name=name)
            self.regauge("bump", name)
        project.eval(EVAL)
        project.write(".gitignore", ".regauge/\n__pycache__/\nfixtures/recordings/\nrunpytest-*\n")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "a@example.org")
        self.git("config", "user.name", "A")
        self.commit("Begin")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.project.root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def regauge(self, *words: str, code: int = 0) -> str:
        done = self.project.command(*words)
        assert done.returncode == code, done.stdout + done.stderr
        return self.project.plain(done.stdout)

    def migrate(self, *words: str, code: int) -> str:
        return self.regauge("migrate", "--to=local:apprentice", *words, code=code)

    def prompt(self, name: str) -> str:
        return (self.project.root / f"prompts/{name}.prompt.yml").read_text(encoding="utf-8")


@pytest.fixture
def migrating(live: EvalProject, endpoint: Endpoint) -> Migrating:
    return Migrating(live, endpoint)


def test_each_prompt_is_safe_or_broke_and_files_change_on_request_alone(migrating: Migrating):
    assert migrating.migrate("--dry-run", code=0) == snapshot("""\
prompt  model                            cases  cost per 1000 calls
triage  local:clerk -> local:apprentice  24     $0.6190 -> $0.3095
plain   local:clerk -> local:apprentice  24     $0.6190 -> $0.3095
""")
    assert migrating.endpoint.total == 0
    assert migrating.migrate(code=1) == snapshot("""\
prompt  result  model                            pass rate                                                 cost per 1000 calls
triage  broke   local:clerk -> local:apprentice  100 % → 4 %, -95.8 points (95 % interval -99.0 to -92.7)  $0.1200 -> $0.0600
plain   safe    local:clerk -> local:apprentice  100 % → 100 %, +0.0 points (95 % interval -3.1 to +3.1)   $0.1200 -> $0.0600

triage: broke
  23 of 24 cases broke
  broken: disk-000, disk-001, disk-002, disk-003, disk-004 and 18 more
  details: regauge report RUN
  next: regauge migrate --to local:apprentice triage --refine

no file changed; --apply writes the model into the safe prompts, --pr proposes it
""")
    assert migrating.git("status", "--porcelain") == ""
    calls = migrating.endpoint.total
    document = json.loads(migrating.migrate("--json", code=1))
    assert migrating.endpoint.total == calls, "what was recorded is not called again"
    assert [one["outcome"] for one in document["prompts"]] == ["broke", "safe"]
    said = migrating.migrate("--apply", code=1)
    assert "wrote prompts/plain.prompt.yml\nwrote prompts/prompts.lock\n" in said
    assert migrating.prompt("triage") == PROMPT.replace("Triage", "triage")
    assert migrating.prompt("plain").startswith(
        "name: plain\nversion: 1.1.0   # released\nchangelog:\n  - version: 1.1.0\n"
    )
    assert 'text: "Move to local:apprentice"\nmodel: local:apprentice\n' in migrating.prompt(
        "plain"
    )
    migrating.regauge("lint", code=0)
    migrating.commit("Move")
    (migrating.project.root / "prompts/triage.prompt.yml").write_text(PROMPT + "\n")
    refused = migrating.project.command("migrate", "--to=local:apprentice", "triage")
    assert refused.returncode == 2
    assert "prompts/triage.prompt.yml differs from HEAD" in refused.stderr
    said = migrating.project.command("migrate", "--to=local:apprentice", "plain")
    assert "plain is on local:apprentice already" in said.stderr
    assert "there is no prompt to move to local:apprentice" in said.stderr


def test_a_model_without_a_key_is_unmeasured_with_the_reason_and_the_fix(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = migrating.project.command("migrate", "--to=openai:gpt-5.4-mini", "plain")
    assert done.returncode == 3
    assert "OPENAI_API_KEY is not set" in done.stdout
    assert "  fix: export OPENAI_API_KEY=" in done.stdout


@pytest.mark.parametrize("budget", ["--budget-calls=60", "--budget-tokens=6600"])
def test_budgets_limit_all_prompts_together(migrating: Migrating, budget: str):
    done = migrating.project.command("migrate", "--to=local:apprentice", budget)
    assert done.returncode in {1, 3}
    assert 0 < migrating.endpoint.total <= 60
    assert re.search(r"plain +(unmeasured|undecided) ", done.stdout)


def test_what_broke_is_refined_on_the_new_model_and_gated_again(migrating: Migrating):
    said = migrating.migrate("triage", "--refine", "--apply", code=0)
    assert re.search(r"^triage +safe +local:clerk -> local:apprentice", said, re.MULTILINE)
    assert "triage: safe with the revision of RUN" in said
    after = migrating.prompt("triage")
    assert "version: 1.1.0   # released" in after
    assert "model: local:apprentice\n" in after
    assert re.search(r"\b12\b", after)
    migrating.commit("Move")
    migrating.project.run().assert_outcomes(passed=48)


@pytest.fixture
def github(socket_enabled: None) -> Iterator[GitHubServer]:
    with GitHubServer() as served:
        yield served


def test_a_pull_request_holds_the_safe_prompts(
    migrating: Migrating, github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    migrating.git("remote", "add", "origin", str(remote))
    unpushed = migrating.project.command("migrate", "--to=local:apprentice", "--pr")
    assert unpushed.returncode == 2
    migrating.git("push", "-q", "origin", "main")
    for name, value in {
        "GITHUB_TOKEN": "person",
        "GITHUB_REPOSITORY": github.repo,
        "GITHUB_API_URL": github.api_url,
    }.items():
        monkeypatch.setenv(name, value)
    migrating.migrate("--pr", code=1)
    assert migrating.git("status", "--porcelain") == ""
    [pull] = github.pulls
    assert pull["title"] == "Move 1 prompt to local:apprentice"
    assert pull["head"]["ref"] == "migrate/local-apprentice-on-main"
    assert pull["body"] == snapshot("""\
Each prompt was gated on its own model against local:apprentice.

| prompt | result | model | pass rate | cost per 1000 calls |
|---|---|---|--:|--:|
| triage | broke | local:clerk → local:apprentice | 100 % → 4 %, -95.8 points (95 % interval -99.0 to -92.7) | $0.1200 → $0.0600 |
| plain | safe | local:clerk → local:apprentice | 100 % → 100 %, +0.0 points (95 % interval -3.1 to +3.1) | $0.1200 → $0.0600 |

Left on their model: triage.

The model changes on purpose: gate this pull request with `--model local:apprentice`.
""")
    changed = migrating.git("diff", "--name-only", "main", "migrate/local-apprentice-on-main")
    assert changed.splitlines() == ["prompts/plain.prompt.yml", "prompts/prompts.lock"]
    again = migrating.project.command("migrate", "--to=local:apprentice", "--pr")
    assert "pull request unchanged" in again.stderr
    assert len(github.pulls) == 1


def test_an_unknown_model_is_refused_before_anything_is_planned(migrating: Migrating):
    for model, said in (
        ("sim:clerk-2", "there is no simulated model 'clerk-2'\n  fix: write sim:clerk-1"),
        ("nowhere:x", "there is no provider 'nowhere'"),
    ):
        for words in (["--dry-run"], []):
            done = migrating.project.command("migrate", f"--to={model}", *words)
            assert done.returncode == 2
            assert said in done.stderr
