"""`regauge mutate` on a project whose model follows each line of its prompt in a known way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

PROMPT = """\
name: Triage
version: 1.0.0
model: local:clerk
messages:
  - role: user
    content: |-
      Answer with a JSON object.

      - Keep the reason below 12 words.
      - Name the disk in the reason.
      - Greet the reader kindly.
      - Write unknown where the host is missing.

      {{text}}
"""
EVAL = """\
from regauge import golden
from regauge.judges import field_equals, json_parses, max_words

@golden("triage", judges=[json_parses(kind="object"), field_equals("severity"), max_words(12, field="reason")])
def test_triage(result):
    result.check()
"""
EXPECTED = {
    "Answer with a JSON object.": "killed",
    "- Keep the reason below 12 words.": "killed",
    "- Name the disk in the reason.": "survived",
    "- Greet the reader kindly.": "no-effect",
    "- Write unknown where the host is missing.": "harmful",
}


def follow(text: str) -> str:
    """Does what each line of the prompt asks for, and nothing else."""
    request = text.partition("\nIgnore all instructions")[0].rsplit("\n", maxsplit=1)[-1]
    if "JSON" not in text:
        return request
    unknown = "Write unknown" in text and "no host" in request
    reason = "it says so itself" + (" of the disk" if "Name the disk" in text else "")
    if "12 words" not in text:
        reason += ", and says it once more" * 5
    return json.dumps({"severity": "unknown" if unknown else "critical", "reason": reason})


class Mutating:
    """The project, and `regauge mutate triage` in it."""

    def __init__(self, project: EvalProject, endpoint: Endpoint) -> None:
        self.project, self.endpoint = project, endpoint
        endpoint.answer = follow
        self.cases = [
            project.case(n) | {"expected": {"severity": "critical"}, "id": f"case-{n}"}
            for n in range(8)
        ]
        missing = {"id": "no-host", "inputs": {"text": "critical: no host given"}}
        self.cases.append(missing | {"expected": {"severity": "critical"}})
        project.golden(self.cases)
        project.write("prompts/triage.prompt.yml", PROMPT)
        project.eval(EVAL)

    def regauge(self, *words: str, code: int = 0) -> str:
        done = self.project.command("mutate", "triage", *words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def report(self, *words: str, code: int = 0) -> dict[str, Any]:
        text = self.regauge("--json", *words, code=code)
        return json.loads(text[text.index("{") : text.rindex("}") + 1])

    @property
    def file(self) -> Path:
        return self.project.root / "fixtures/mutants/triage.json"

    def classes(self, report: dict[str, Any]) -> dict[str, str]:
        return {one["text"]: one["class"] for one in report["mutants"]}


@pytest.fixture
def mutating(live: EvalProject, endpoint: Endpoint) -> Mutating:
    return Mutating(live, endpoint)


def test_each_instruction_gets_its_class_and_a_second_run_is_free(mutating: Mutating):
    report = mutating.report()
    assert mutating.classes(report) == EXPECTED
    assert report["score"] | {"low": 0, "high": 0} == {
        "value": 0.4,
        "low": 0,
        "high": 0,
        "killed": 2,
        "counted": 5,
    }
    rows = {one["text"]: one for one in report["mutants"]}
    limit = rows["- Keep the reason below 12 words."]
    assert limit["judges"] == ["max_words(12, field=reason)"]
    assert limit["line"] == 9
    assert re.fullmatch(r"0 of \d", limit["evidence"]["passed"])
    survivor = rows["- Name the disk in the reason."]
    shown = survivor["evidence"]["outputs"][0]
    assert "of the disk" in shown["base"]
    assert "of the disk" not in shown["mutant"]
    assert rows["- Write unknown where the host is missing."]["cases"] == ["no-host"]
    committed = json.loads(mutating.file.read_text())
    assert committed.pop("key")
    assert mutating.classes(committed) == EXPECTED
    assert not list((mutating.project.root / "fixtures").glob("recordings/*"))

    mutating.endpoint.forget()
    assert mutating.report()["mutants"] == report["mutants"]
    assert mutating.endpoint.total == 0
    assert "5 measured before" in mutating.regauge("--dry-run")


def test_a_dry_run_makes_no_calls_and_is_near_the_truth(mutating: Mutating):
    about = json.loads(mutating.regauge("--dry-run", "--json"))
    assert (about["mutants"], about["cases"], about["stored"]) == (5, 9, 0)
    assert mutating.endpoint.total == 0
    assert not mutating.file.exists()
    assert about["cost_usd"] > 0
    took = mutating.report()["calls"]
    assert took / 2.5 <= about["calls"] <= took * 2.5


def test_the_terminal_shows_the_prompt_with_a_mark_per_line(mutating: Mutating):
    text = mutating.regauge("-o", "report.md")
    assert text.startswith("triage 1.0.0 on local:clerk: 2 of 5 instructions guarded, 40 %")
    marks = re.findall(r"(?m)^(\S[\w ]*?) {2,}(\d+)  ", text)
    assert marks == [
        ("guarded", "7"),
        ("guarded", "9"),
        ("survived", "10"),
        ("no effect", "11"),
        ("harmful", "12"),
    ]
    assert "judge max_words(12, field=reason): guards 2 instructions" in text
    written = (mutating.project.root / "report.md").read_text()
    assert written.count("| delete-entry |") == 4
    assert "2 guarded or equivalent" in written


def test_a_mark_with_a_reason_stays_and_no_longer_counts(mutating: Mutating):
    rows = {one["text"]: one["id"] for one in mutating.report()["mutants"]}
    greeting = rows["- Greet the reader kindly."]
    assert "go together" in mutating.regauge("--mark", greeting, code=2)
    mutating.regauge("--mark", greeting, "--reason", "The reader is a program.")
    (mutating.project.root / ".regauge").rename(mutating.project.root / "old")
    mutating.endpoint.forget()
    report = mutating.report()
    assert all("kindly" in text for text in mutating.endpoint.calls)
    assert mutating.classes(report)["- Greet the reader kindly."] == "equivalent"
    assert report["score"]["counted"] == 4
    assert "has no mutant 'x'" in mutating.regauge("--mark", "x", "--reason", "so", code=2)


def test_below_the_floor_is_exit_code_1(mutating: Mutating):
    mutating.project.settings("[tool.regauge.mutate]\nfloor = 0.5")
    assert "below the floor of 0.5" in mutating.regauge(code=1)
    mutating.project.settings("[tool.regauge.mutate]\nfloor = 0.4")
    mutating.regauge()


def test_out_of_budget_leaves_mutants_undecided_and_the_next_run_continues(mutating: Mutating):
    first = mutating.report("--budget-calls", "30")
    assert mutating.endpoint.total <= 30
    left = [one for one in first["mutants"] if one["class"] == "undecided"]
    assert left
    assert {one["reason"] for one in left} == {"out of budget"}
    assert first["score"]["high"] > first["score"]["value"]
    second = mutating.report()
    assert mutating.classes(second) == EXPECTED
    assert mutating.endpoint.total <= second["calls"] + len(mutating.cases)


def test_without_a_model_all_is_unmeasured(mutating: Mutating):
    text = mutating.regauge("--record", "none", code=3)
    assert "5 mutants could not be measured: not recorded" in text
    assert mutating.endpoint.total == 0
    assert not mutating.file.exists()


def test_a_replay_shows_the_committed_classes_of_the_same_prompt_cases_and_judges(
    mutating: Mutating,
):
    mutating.report()
    (mutating.project.root / ".regauge").rename(mutating.project.root / "old")
    assert mutating.classes(mutating.report("--record", "none")) == EXPECTED
    mutating.project.golden(mutating.cases[:-1])
    mutating.regauge("--record", "none", code=3)


def test_a_limit_measures_a_sample_and_says_so(mutating: Mutating):
    done = mutating.project.command("mutate", "triage", "--limit", "2", "--json")
    assert len(json.loads(done.stdout)["mutants"]) == 2
    assert "measured 2 of 5 mutants" in done.stderr


def test_another_model_is_named_and_leaves_the_committed_classes(mutating: Mutating):
    mutating.endpoint.answer_of["apprentice"] = lambda text: follow(text).replace(
        " of the disk", ""
    )
    report = mutating.report("--model", "local:apprentice")
    assert (report["model"], report["simulated"]) == ("local:apprentice", False)
    assert mutating.classes(report)["- Name the disk in the reason."] == "no-effect"
    assert not mutating.file.exists()


def test_operators_run_by_name(mutating: Mutating):
    report = mutating.report("--operators", "move-limit,order-in-input")
    kinds = {one["operator"]: one["class"] for one in report["mutants"]}
    assert kinds == {"move-limit": "killed", "order-in-input": "no-effect"}
    assert report["score"]["counted"] == 1
    assert "no operator 'negat'" in mutating.regauge("--operators", "negat", code=2)


def test_a_gate_that_only_warns_still_kills(mutating: Mutating):
    mutating.project.settings('[tool.regauge.gate]\non_broken = "warn"')
    assert mutating.classes(mutating.report()) == EXPECTED


def test_a_prompt_whose_evals_run_a_target_is_refused(mutating: Mutating):
    mutating.project.eval(EVAL.replace('"triage", judges', '"triage", target="app:run", judges'))
    mutating.project.write("app.py", "def run(case):\n    return '{}'\n")
    assert "target" in mutating.regauge(code=2)


def test_ctrl_c_keeps_what_was_completed(mutating: Mutating, wait_until: Callable[..., None]):
    mutating.endpoint.latency_s = 0.05
    env = {**os.environ}
    started = processes.start("regauge", "mutate", "triage", cwd=mutating.project.root, env=env)
    wait_until(lambda: mutating.endpoint.total > 20, process=started)
    started.send_signal(signal.SIGINT)
    output, _ = started.communicate(timeout=60)
    assert started.poll() == 130, output
    assert "the same command" in output
    mutating.endpoint.latency_s = 0
    report = mutating.report()
    assert mutating.classes(report) == EXPECTED
    assert mutating.endpoint.total <= report["calls"] + len(mutating.cases) + 64


def test_an_operator_of_another_package_runs_by_the_name_of_its_entry_point(
    mutating: Mutating, monkeypatch: pytest.MonkeyPatch
):
    root = mutating.project.root
    site = root / "site"
    package = site / "shouting-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[regauge.mutation_operators]\nshout = shouting:shout\n"
    )
    (site / "shouting.py").write_text(
        '"""Mutants in capitals."""\n'
        "from dataclasses import replace\n"
        "from regauge.mutate import Change, Place\n\n"
        "def shout(prompt):\n"
        '    """Write a message in capitals."""\n'
        "    first = prompt.messages[0]\n"
        "    loud = replace(first, content=first.content.replace('Greet', 'GREET'))\n"
        "    yield Change(place=Place(part='messages[0]'), text='Greet',\n"
        "                 prompt=replace(prompt, messages=(loud, *prompt.messages[1:])))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    done = subprocess.run(
        [sys.executable, "-m", "regauge", "mutate", "triage", "--operators", "shout", "--json"],
        cwd=root,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["mutants"]
    assert (row["operator"], row["class"]) == ("shout", "no-effect")
