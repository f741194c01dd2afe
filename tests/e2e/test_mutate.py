"""`regauge mutate` on a project whose model follows each line of its prompt in a known way."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes
from tests.conftest import PRICES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

REAL = Path(__file__).parents[2] / "examples/real-answers"
DOCS = Path(__file__).parents[2] / "docs"
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

    @property
    def golden(self) -> str:
        return (self.project.root / "fixtures/golden/triage.jsonl").read_text()

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
        "total": 5,
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
    assert (about["mutants"], about["cases"], about["measured_before"]) == (5, 9, 0)
    assert mutating.endpoint.total == 0
    assert not mutating.file.exists()
    assert about["cost_usd"] > 0
    took = mutating.report()["calls"]
    assert took / 2.5 <= about["calls"] <= took * 2.5
    # A search for cases begins with the committed classes.
    searched = json.loads(mutating.regauge("--suggest", "--dry-run", "--json"))
    assert searched["mutants"] == 0
    # One unknown price leaves the whole cost unknown; the calls are the same.
    settings = mutating.project.root / "pyproject.toml"
    settings.write_text(settings.read_text().replace(PRICES, ""))
    mutating.file.unlink()
    unpriced = json.loads(mutating.regauge("--dry-run", "--json"))
    assert unpriced["cost_usd"] is None


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
    assert report["score"]["total"] == 4
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
    measured = mutating.report()
    (mutating.project.root / ".regauge").rename(mutating.project.root / "old")
    replayed = mutating.report("--record", "none")
    assert mutating.classes(replayed) == EXPECTED
    assert replayed["calls"] == measured["calls"]
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


def test_classes_of_an_earlier_model_do_not_stay_under_a_new_one(mutating: Mutating):
    mutating.project.write("prompts/triage.prompt.yml", PROMPT.replace("model: local:clerk\n", ""))
    mutating.project.settings('model = "local:clerk"')
    mutating.regauge()
    assert len(json.loads(mutating.file.read_text())["mutants"]) == 5
    mutating.project.settings('model = "local:apprentice"')
    mutating.regauge("--limit", "1")
    written = json.loads(mutating.file.read_text())
    assert (written["model"], len(written["mutants"])) == ("local:apprentice", 1)


def test_operators_run_by_name(mutating: Mutating):
    report = mutating.report("--operators", "move-limit,order-in-input")
    kinds = {one["operator"]: one["class"] for one in report["mutants"]}
    assert kinds == {"move-limit": "killed", "order-in-input": "no-effect"}
    assert report["score"]["total"] == 1
    assert "no operator 'negat'" in mutating.regauge("--operators", "negat", code=2)


def test_a_gate_that_only_warns_still_kills(mutating: Mutating):
    mutating.project.settings('[tool.regauge.gate]\non_broken = "warn"')
    assert mutating.classes(mutating.report()) == EXPECTED


TARGET = """\
from regauge import load_prompt


def run(text):
    prompt = load_prompt("triage").messages[0].content
    if "JSON" not in prompt:
        return text
    reason = "it says so itself" + (" of the disk" if "Name the disk" in prompt else "")
    if "12 words" not in prompt:
        reason += ", and says it once more" * 5
    unknown = "Write unknown" in prompt and "no host" in text
    return {"severity": "unknown" if unknown else "critical", "reason": reason}

"""
IN_TARGET = '[tool.regauge.targets.app]\nkind = "{}"\n{}\n'


def test_a_prompt_is_mutated_through_the_target_that_loads_it(mutating: Mutating):
    """A function; that a program gets the edited text, too, the tests of `refine` show."""
    mutating.project.golden(mutating.cases[-3:])
    mutating.project.write("app.py", TARGET)
    how = 'callable = "app:run"\nprompts = ["triage"]'
    mutating.project.settings(provider=IN_TARGET.format("python", how))
    mutating.project.eval(
        EVAL.replace('"triage", judges', '"service", target="app", dataset="triage", judges')
    )
    report = mutating.report()
    assert mutating.classes(report) == EXPECTED
    assert (report["prompt"], report["model"]) == ("triage", "python:app")
    assert mutating.endpoint.total == 0

    by_target = mutating.project.command("mutate", "app", "--json", "--record", "none")
    assert mutating.classes(json.loads(by_target.stdout)) == EXPECTED, by_target.stderr

    found = suggestions(mutating, "--proposers", "rules", "--apply")
    assert found[DISK]["status"] == "offered"
    assert mutating.classes(mutating.report())[DISK] == "killed"


@pytest.mark.parametrize(
    ("target", "settings", "why"),
    [
        ("app", 'kind = "http"\nurl = "http://127.0.0.1:9/"\nversion = "1"', "is an HTTP endpoint"),
        ("app", 'kind = "python"\ncallable = "app:run"', "`prompts` in [tool.regauge.targets.app]"),
        (
            "app:run",
            'kind = "python"\ncallable = "app:run"',
            "`prompts` and callable = 'app:run' in a [tool.regauge.targets.NAME] of the eval",
        ),
    ],
)
def test_a_target_that_cannot_load_a_mutant_is_refused(
    mutating: Mutating, target: str, settings: str, why: str
):
    mutating.project.write("app.py", TARGET)
    kind, _, more = settings.removeprefix('kind = "').partition('"\n')
    mutating.project.settings(provider=IN_TARGET.format(kind, more))
    mutating.project.eval(EVAL.replace('"triage", judges', f'"triage", target="{target}", judges'))
    text = mutating.regauge(code=2)
    assert why in text
    assert "fix: " in text


def test_a_target_that_does_not_load_its_prompt_has_no_class(mutating: Mutating):
    own = TARGET.replace(
        'load_prompt("triage").messages[0].content', "open('prompts/triage.prompt.yml').read()"
    )
    mutating.project.write("app.py", own)
    how = 'callable = "app:run"\nprompts = ["triage"]'
    mutating.project.settings(provider=IN_TARGET.format("python", how))
    mutating.project.eval(EVAL.replace('"triage", judges', '"triage", target="app", judges'))
    text = mutating.regauge(code=3)
    assert "ran without load_prompt('triage')" in text
    assert not mutating.file.exists()


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
    mutating.project.write("prompts/triage.prompt.yml", PROMPT.replace("Greet", "Greet only"))
    page = (DOCS / "reference/mutants.md").read_text(encoding="utf-8")
    module, table = (
        re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1]  # type: ignore[index]
        for kind in ("python", "toml")
    )
    [(name, target)] = re.findall(r'^(\w+) = "(.*)"$', table, re.MULTILINE)
    site = mutating.project.root / "site"
    package = site / "my_operators-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: my-operators\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[regauge.mutation_operators]\n{name} = {target}\n")
    (site / "my_operators.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(site))
    done = mutating.project.command("mutate", "triage", "--operators", name, "--json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["mutants"]
    assert (row["operator"], row["text"], row["class"]) == ("also", "only", "no-effect")


DISK = "- Name the disk in the reason."
GREETING = "- Greet the reader kindly."


def suggestions(mutating: Mutating, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    text = mutating.regauge("--suggest", "--json", *words, code=code)
    document = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return {one["text"]: one for one in document["suggestions"]}


def test_rules_suggest_a_case_that_fails_without_the_instruction(mutating: Mutating):
    before = mutating.golden
    found = suggestions(mutating, "--proposers", "rules")
    assert found.keys() == {DISK, GREETING}
    assert found[GREETING]["status"] == "none"
    disk = found[DISK]
    assert (disk["status"], disk["passed"], disk["mutant_failed"]) == ("offered", 5, 5)
    case = disk["case"]
    assert case["inputs"] not in [one["inputs"] for one in mutating.cases]
    assert "disk" in json.dumps(case["checks"])
    assert disk["judges"] == ["checks"]
    assert mutating.golden == before


def test_apply_adds_the_case_for_review_and_it_guards_the_instruction(mutating: Mutating):
    before = mutating.golden
    text = mutating.regauge("--suggest", "--apply", "--proposers", "rules")
    [added] = re.findall(r"added (\S+) to fixtures/golden/triage.jsonl:10", text)
    after = mutating.golden
    assert after.startswith(before)
    case = json.loads(after.removeprefix(before))
    assert case["id"] == added
    assert "review" in case["tags"]
    assert "mutate" in case["source"]
    assert DISK in case["note"]
    assert mutating.classes(mutating.report())[DISK] == "killed"
    # It passes as a case of the suite.
    done = mutating.project.run("-k", added)
    done.assert_outcomes(passed=1, deselected=9)
    mutating.regauge("--suggest", "--apply", "--proposers", "rules")
    assert mutating.golden == after


def writer(*replies: dict[str, Any] | str) -> Callable[[str], str]:
    """A model that gives these replies one after the other, the last one again and again."""
    left = list(replies)

    def reply(text: str) -> str:
        assert "Judges and checks:" in text
        if GREETING in text.partition("The instruction:")[2].partition("Judges and checks:")[0]:
            return json.dumps({"cases": []})
        one = left.pop(0) if len(left) > 1 else left[0]
        return one if isinstance(one, str) else json.dumps(one)

    return reply


def of_writer(text: str, checks: list[Any], severity: str = "critical") -> dict[str, Any]:
    inputs = {"text": text}
    expected = {"severity": severity}
    return {"inputs": inputs, "expected": expected, "checks": checks, "why": "It needs the disk."}


CONTAINS_DISK = {"contains": {"text": "disk", "field": "reason"}}


def test_a_model_writes_a_case_and_learns_from_one_that_fails(mutating: Mutating):
    mutating.project.settings('[tool.regauge.refine]\nmodel = "local:writer"')
    mutating.endpoint.answer_of["writer"] = writer(
        {"cases": [of_writer("sda is full", [CONTAINS_DISK], severity="info")]},
        {"cases": [of_writer("sdb is full", [CONTAINS_DISK])]},
    )
    disk = suggestions(mutating, "--proposers", "model")[DISK]
    assert disk["status"] == "offered"
    assert disk["proposer"] == "model:local:writer"
    assert disk["case"]["inputs"] == {"text": "sdb is full"}
    [second] = [
        text for text in mutating.endpoint.calls if "sda is full" in text and "Tried" in text
    ]
    assert "field_equals(severity)" in second
    mutating.endpoint.forget()
    assert suggestions(mutating, "--proposers", "model")[DISK] == disk
    assert mutating.endpoint.total == 0


@pytest.mark.parametrize(
    "reply",
    [
        "I cannot do that.",
        {"cases": [of_writer("sda is full", [{"command_judge": {"command": ["touch", "x"]}}])]},
        {"cases": [of_writer("sda is full", [{"not": {"javascript": "true"}}])]},
        {"cases": [{"inputs": {"other": "sda"}, "why": "another input"}]},
        {"cases": [of_writer("sda is full", [{"contains": {"words": "disk"}}])]},
        {"cases": [of_writer("critical: case 0", [CONTAINS_DISK])]},
        {"cases": [of_writer("sda is full", [])]},
    ],
    ids=["prose", "command", "code", "inputs", "check", "repeats", "guards nothing"],
)
def test_a_case_of_a_model_that_is_unusable_or_unproven_is_not_offered(
    mutating: Mutating, reply: dict[str, Any] | str
):
    mutating.cases[0]["inputs"] = {"text": "critical: case 0"}
    mutating.project.golden(mutating.cases)
    mutating.endpoint.answer_of["writer"] = writer(reply)
    found = suggestions(mutating, "--proposers", "model", "--refiner-model", "local:writer")
    assert found[DISK]["status"] == "none"
    assert found[DISK]["case"] is None
    assert found[DISK]["reason"]


def test_suggestions_stop_at_the_budget_and_the_same_command_continues(mutating: Mutating):
    mutating.report()
    whole = mutating.endpoint.total
    found = suggestions(mutating, "--proposers", "rules", "--budget-calls", "12")
    assert mutating.endpoint.total <= whole + 12
    assert found[DISK]["status"] == "undecided"
    assert found[DISK]["reason"] == "out of budget"
    about = json.loads(mutating.regauge("--suggest", "--dry-run", "--json"))
    assert about["calls"] > 0
    assert suggestions(mutating, "--proposers", "rules")[DISK]["status"] == "offered"


def test_suggestions_without_a_model_are_unmeasured(mutating: Mutating):
    mutating.report()
    mutating.endpoint.forget()
    text = mutating.regauge("--suggest", "--record", "none", "--proposers", "rules", code=3)
    assert "could not be tried: not recorded" in text
    assert mutating.endpoint.total == 0


def test_wrong_use_of_suggest_is_refused_before_any_call(mutating: Mutating):
    assert "--apply needs --suggest" in mutating.regauge("--apply", code=2)
    assert "no proposer 'rule'" in mutating.regauge("--suggest", "--proposers", "rule", code=2)
    assert "end the name in .json" in mutating.regauge("--suggest", "-o", "x.html", code=2)
    (mutating.project.root / "fixtures/golden/triage.jsonl").unlink()
    mutating.project.write(
        "fixtures/golden/triage.csv", "id,inputs.text,expected.severity\na,disk is full,critical\n"
    )
    assert "is not a JSONL file" in mutating.regauge("--suggest", "--apply", code=2)
    assert mutating.endpoint.total == 0


def test_a_replay_of_real_completions_shows_what_they_tell_and_what_takes_a_key(tmp_path: Path):
    example = tmp_path / "example"
    shutil.copytree(REAL, example, ignore=shutil.ignore_patterns(".regauge", "sources"))
    words = ["mutate", "navigate", "--record", "none", "-o", "coverage.html"]
    done = processes.run("regauge", *words, cwd=example, env={**os.environ})
    assert done.returncode == 3
    assert done.stdout.startswith("navigate 1.0.0 on openai:gpt-4o: 50 instructions, none measured")
    assert "not measured: 50 mutants (not recorded)" in done.stdout
    assert "known from recordings: 192 of 250 cases can guard an instruction" in done.stdout
    assert re.search(r"not known without a key: .* about \d+ calls, \$\d", done.stdout)
    assert "0 of 50" not in done.stdout
    page = (example / "coverage.html").read_text()
    assert "navigate: 50 instructions, none measured" in page
    assert "192 of 250 cases can guard" in page
    assert "which would run first" in page
    assert not (example / "fixtures/mutants").exists()


def test_without_a_key_one_error_ends_a_mutant(mutating: Mutating, monkeypatch: pytest.MonkeyPatch):
    mutating.project.settings(provider='api_key_env = "NO_KEY"')
    monkeypatch.delenv("NO_KEY", raising=False)
    text = mutating.regauge(code=3)
    assert "not measured: 5 mutants (no key for provider 'local': NO_KEY is not set)" in text
    assert re.search(r"(?m)^\d trials; next: with a key", text), text


def test_refine_removes_text_without_effect_and_fixes_nothing(mutating: Mutating):
    mutating.report()
    mutating.endpoint.forget()
    done = mutating.project.command("refine", "triage", "--remove-unused", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1])
    assert {change["removed_text"].strip() for change in result["changes"]} == {
        "- Greet the reader kindly.",
        "- Write unknown where the host is missing.",
    }
    assert not any(change["added_text"] for change in result["changes"])
    assert result["usage"]["model_calls"] == 0
    applied = mutating.project.command("refine", "apply", "latest")
    assert applied.returncode == 0, applied.stderr
    text = (mutating.project.root / "prompts/triage.prompt.yml").read_text()
    assert "kindly" not in text.partition("messages:")[2]
    assert DISK in text
    assert mutating.project.command("refine", "verify", "latest").returncode == 0
    # The classes are of the text before.
    again = mutating.project.command("refine", "triage", "--remove-unused")
    assert again.returncode == 2
    assert "of another text of the prompt" in again.stderr
    assert "regauge mutate triage" in again.stderr


def test_refine_keeps_text_that_a_case_needs_after_all(mutating: Mutating):
    mutating.report()
    document = json.loads(mutating.file.read_text())
    for row in document["mutants"]:
        if "12 words" in row["text"]:
            row |= {"class": "no-effect"}
    mutating.file.write_text(json.dumps(document))
    done = mutating.project.command("refine", "triage", "--remove-unused")
    assert done.returncode == 0, done.stdout + done.stderr
    diff = mutating.project.command("refine", "show", "latest").stdout
    assert "-      - Greet the reader kindly." in diff
    assert "-      - Keep the reason below 12 words." not in diff


def test_refine_needs_classes_to_remove_text(mutating: Mutating):
    done = mutating.project.command("refine", "triage", "--remove-unused")
    assert done.returncode == 2
    assert "regauge mutate triage" in done.stderr
    assert mutating.endpoint.total == 0


def test_a_model_proposes_mutants_that_count_only_on_request(mutating: Mutating):
    mutating.project.settings('[tool.regauge.refine]\nmodel = "local:writer"')
    longer = {
        "op": "replace",
        "line": "- Keep the reason below 12 words.",
        "find": "12",
        "text": "120",
    }
    foreign = {"op": "delete", "line": "- Name the planet.", "find": "", "text": ""}
    lost = {"op": "replace", "line": "{{text}}", "find": "", "text": "nothing"}
    mutants = [{"why": "so", "ops": [op]} for op in (longer, foreign, lost)]
    mutating.endpoint.answer_of["writer"] = lambda _: json.dumps({"mutants": mutants})
    words = ["--operators", "delete-entry,delete-sentence,model"]
    report = mutating.report(*words)
    rows = [one for one in report["mutants"] if one["operator"] == "model"]
    assert [(one["class"], one["line"]) for one in rows] == [("killed", 9)]
    assert "below 12 words. -> - Keep the reason below 120 words." in rows[0]["text"]
    assert (report["score"]["total"], report["score"]["killed"]) == (5, 2)
    assert json.loads(mutating.file.read_text())["score"]["total"] == 5
    mutating.endpoint.forget()
    counted = mutating.report(*words, "--count-model")
    assert (counted["score"]["total"], counted["score"]["killed"]) == (6, 3)
    assert mutating.endpoint.total == 0
    assert mutating.classes(mutating.report("--operators", "delete-entry,delete-sentence")) == (
        EXPECTED
    )


@pytest.mark.parametrize("reply", ["I know none.", '{"mutants": [{"why": "x", "ops": 3}]}'])
def test_an_unreadable_response_of_the_model_adds_no_mutants(mutating: Mutating, reply: str):
    mutating.endpoint.answer_of["writer"] = lambda _: reply
    words = ["--operators", "delete-entry,model", "--refiner-model", "local:writer", "--json"]
    done = mutating.project.command("mutate", "triage", *words)
    assert done.returncode == 0, done.stderr
    assert "response of local:writer cannot be read" in done.stderr
    assert {one["operator"] for one in json.loads(done.stdout)["mutants"]} == {"delete-entry"}


def test_rules_suggest_cases_for_an_eval_whose_cases_bring_all_checks(mutating: Mutating):
    own = [{"json_parses": {"kind": "object"}}, {"max_words": {"n": 12, "field": "reason"}}]
    mutating.project.golden([case | {"checks": own} for case in mutating.cases])
    judges = EVAL[EVAL.index("judges=[") : EVAL.index(")\ndef")]
    mutating.project.eval(EVAL.replace(judges, "judges=[]"))
    disk = suggestions(mutating, "--proposers", "rules")[DISK]
    assert disk["status"] == "offered"
    assert "disk" in json.dumps(disk["case"]["checks"])
