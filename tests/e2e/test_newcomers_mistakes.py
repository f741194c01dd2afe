"""What people run into in their first hour: each is said once, in words, and nothing is lost."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from regauge.errors import UsageError
from regauge.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def recordings(project: EvalProject) -> list[str]:
    return (project.root / "fixtures/recordings/triage.jsonl").read_text().splitlines()


def test_a_broken_recording_is_told_by_every_way_to_record(project: EvalProject):
    project.run()
    lines = recordings(project)
    broken = "\n".join([lines[0][:-10], *lines[1:]]) + "\n"
    project.write("fixtures/recordings/triage.jsonl", broken)
    for arguments in (["--dry-run"], [], ["--refresh"]):
        done = project.command("record", *arguments)
        assert done.returncode == 3, done
        assert "triage.jsonl:1: not a recording" in done.stderr
        assert "nothing is missing" not in done.stdout
        assert "5 of 5 completions recorded" not in done.stdout
    assert (project.root / "fixtures/recordings/triage.jsonl").read_text() == broken


def test_a_dry_run_names_cases_that_cannot_be_asked(project: EvalProject):
    project.golden([project.case(0), {"id": "odd", "inputs": {"tekst": "x"}, "expected": None}])
    done = project.command("record", "--dry-run")
    assert done.returncode == 3
    assert "1 case cannot run" in done.stderr


def test_a_budget_that_is_no_number_is_refused(project: EvalProject):
    run = project.run("--budget-usd=nan")
    assert run.ret != 0
    run.stdout.fnmatch_lines(["--budget-usd must be a number of dollars from 0 up, not nan"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["record", "--concurrency=nope"], "Invalid value for '--concurrency'"),
        (["record", "--concurrency=0"], "0 is not in the range 1<=x<=1024"),
        (["record", "--model=nope"], "error: --model: 'nope' names no provider\n  fix: "),
        (["record", "--judge-model=a:"], "error: --judge-model: 'a:' names no model\n  fix: "),
        (["baseline", "flaky", "triage", "-n", "--model=missing:x"], "error: there is no provider 'missing'"),
        (["record", "--evals=notes.txt"], "error: notes.txt is not a file of evals\n  fix: "),
        (["judges", "try", "99", "notes.txt", "-p", "n=3"], "error: no judge '99'; `regauge judges list`"),
        (["new", "case", "triage", "x", "--dataset="], "error: --dataset is empty\n  fix: "),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_before_any_work(
    project: EvalProject, words: list[str], message: str
):
    project.write("notes.txt", "no eval")
    done = project.command(*words)
    assert message in done.stderr
    assert done.returncode == 2
    assert "test_triage.py" not in done.stdout + done.stderr
    assert not (project.root / "fixtures/recordings").exists()


@pytest.mark.parametrize(
    ("path", "words", "message"),
    [
        ("fixtures", ["baseline", "show", "triage"], "fixtures/baselines/triage.json: cannot be read: there is a file at the path of a directory above\n  fix: "),
        ("fixtures/recordings", ["record", "-n"], "there is a file at the path of a directory above\n  fix: "),
        ("prompts/odd.prompt.yml/x", ["new", "workflow", "evals", "--install=make"], "wrote .github/workflows/evals.yml"),
        ("prompts/odd.prompt.yml/x", ["lint"], "odd.prompt.yml: there is a directory at the path of this file\n  fix: "),
    ],
)  # fmt: skip
def test_a_file_and_a_directory_that_changed_places_are_named(
    project: EvalProject, path: str, words: list[str], message: str
):
    place = project.root / path
    if place.is_dir():
        place.rename(project.root / "moved")
    project.write(path, "x")
    done = project.command(*words)
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_answers_that_workers_draw_for_each_other_count_as_live(project: EvalProject):
    project.golden([project.case(number) for number in range(24)])
    run = project.run("-n2")
    run.assert_outcomes(passed=24)
    run.stdout.fnmatch_lines(["triage *24 live"])
    (record,) = (project.root / ".regauge/runs").glob("*/run.json")
    document = json.loads(record.read_text())
    stamp = document["started_at"].replace("-", "").replace(":", "")[9:15]
    assert document["id"].split("-")[1] == stamp


def test_settings_that_cannot_be_read_fail_lint(project: EvalProject):
    project.write("pyproject.toml", "[tool.regauge\n")
    done = project.command("lint")
    assert done.returncode == 2
    assert "pyproject.toml:1: not TOML" in done.stderr


@pytest.mark.parametrize("path", [".regauge", ".regauge/runs"])
def test_a_file_in_place_of_the_state_directory_is_told_once(project: EvalProject, path: str):
    project.write(path, "")
    run = project.run()
    assert run.ret == 2
    run.stdout.fnmatch_lines([f"{path} is a file, *", f"  fix: move it away: mv {path} *"])
    assert run.stdout.str().count("move it away") == 1
    run.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    "path",
    [
        "prompts/prompts.lock",
        "fixtures/recordings/triage.jsonl",
        "fixtures/golden/triage.jsonl",
        "prompts/triage.prompt.yml",
    ],
)
def test_a_directory_in_place_of_a_file_is_told(project: EvalProject, path: str):
    (project.root / path).unlink(missing_ok=True)
    (project.root / path).mkdir(parents=True)
    run = project.run()
    assert run.ret == 2
    run.stdout.fnmatch_lines([f"*{path}: there is a directory *", "  fix: move it away, *"])
    assert run.stdout.str().count("fix: move it away") == 1
    run.stdout.no_fnmatch_line("*Errno*")


@pytest.mark.parametrize("path", [".regauge/refine", ".regauge/refine/triage.lock/x"])
def test_a_refinement_says_what_stands_in_its_way(project: EvalProject, path: str):
    project.write(path, "")
    done = project.command("refine", "triage")
    assert done.returncode == 2
    assert "fix: move it away: mv .regauge/refine" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_that_may_not_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Root, who runs the tests in containers, may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError) as caught:
        Project(root=tmp_path).prepare_state_dir("runs")
    home = tmp_path / ".regauge" / "runs"
    assert str(caught.value) == (
        f"{home} cannot be written: no permission to write; every run writes its record there, a "
        f"replay too\n  fix: give write permission for {home}, or run in a copy that can be written"
    )


def test_git_does_not_look_into_the_state_directory(project: EvalProject):
    project.run()
    assert (project.root / ".regauge" / ".gitignore").read_text().endswith("*\n")


def test_a_report_that_cannot_be_written_leaves_the_summary(project: EvalProject):
    run = project.run("--report=pyproject.toml")
    assert run.ret != 0
    run.stdout.fnmatch_lines(["*5 live*", "--report pyproject.toml: *"])


def test_trials_that_are_no_number_are_told_at_collection(project: EvalProject):
    project.judged_by("min_chars(1)", options=", trials='x'")
    run = project.run()
    assert run.ret == 2
    run.stdout.fnmatch_lines(["*trials must be from 1 to 10000, not 'x'"])


def test_lint_tells_an_error_of_a_prompt_once_and_an_error_of_evals_without_pytests_frames(
    project: EvalProject,
):
    project.run()
    (prompt,) = (project.root / "prompts").glob("*.prompt.yml")
    text = prompt.read_text()
    prompt.write_text(text.replace("role: user", "role: usr"))
    said = project.command("lint").stdout
    assert said.count("role 'usr' is unknown") == 1
    assert "cannot be collected" not in said
    prompt.write_text(text)
    golden = project.root / "fixtures/golden/triage.jsonl"
    golden.rename(golden.with_name("kept"))
    golden.mkdir()
    said = project.command("lint").stdout
    assert said.count("there is a directory at the path of this file") == 1
    assert "cannot be collected" not in said
    project.write("evals/test_triage.py", "def broken(\n")
    said = project.command("lint").stdout
    assert "evals/test_triage.py:\nE     File" in said
    assert "site-packages" not in said


LONG = "a" * 5000


@pytest.mark.parametrize(
    "command",
    [
        *("show", "log", "log --runs", "bump", "refine", "judges calibrate", "new eval"),
        *("baseline show", "baseline simulate", "baseline flaky"),
    ],
)
def test_a_name_that_is_too_long_is_refused_in_few_words(project: EvalProject, command: str):
    done = project.command(*command.split(), LONG)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "\n  fix: " in done.stderr
    assert "move it away" not in done.stderr
    assert len(done.stderr) < 1500


def test_lint_reads_files_that_no_eval_uses(project: EvalProject):
    project.write("fixtures/golden/left.yaml", "- id: a\n<<<<<<< HEAD\n  inputs: {text: b}\n")
    checks = """\
- {id: a, inputs: {text: b}, checks: [{max_word: 3}]}
- {id: b, inputs: {text: b}, checks: [{max_words: three}, json_matches_schema]}
- {id: c, inputs: {text: {file: golden/texts/c.csv}}, checks: [{max_words: 3}]}
"""
    project.write("fixtures/golden/checks.yaml", checks)
    project.write("fixtures/golden/texts/c.csv", "a,b\n")
    project.write("fixtures/golden/team/more.jsonl", "{}\n")
    project.write("fixtures/mutants/triage.json", "{}")
    for directory in ("baselines", "mutants"):
        project.write(f"fixtures/{directory}/triages.json", "{}")
    done = project.command("lint")
    assert done.returncode == 1
    assert "error: fixtures/golden/left.yaml:2: " in done.stdout
    assert "error: fixtures/mutants/triage.json: written by another version" in done.stdout
    others = [line for line in done.stdout.splitlines() if re.search("checks|no prompt|team", line)]
    assert others == snapshot(
        [
            "error: fixtures/golden/checks.yaml:1: checks of a: no judge 'max_word'; did you mean 'max_words'?",
            "error: fixtures/golden/checks.yaml:2: checks of b: max_words: n is a whole number from 0 up, not 'three'",
            "error: fixtures/golden/checks.yaml:2: checks of b: json_matches_schema() has no schema: no prompt is judged",
            "error: fixtures/baselines/triages.json: there is no prompt 'triages', and no target",
            "error: fixtures/mutants/triages.json: there is no prompt 'triages', and no target",
            "warning: fixtures/golden/team/more.jsonl: no eval reads a golden file in a subdirectory",
        ]
    )


@pytest.mark.parametrize("command", ["lint", "record", "gate HEAD", "baseline update"])
def test_settings_in_a_pipe_are_refused_and_not_waited_for(project: EvalProject, command: str):
    settings = project.root / "pyproject.toml"
    settings.unlink(missing_ok=True)
    os.mkfifo(settings)
    done = project.command(*command.split())
    assert done.returncode == 2
    assert "pyproject.toml: cannot be read: it is a named pipe, not a file" in done.stderr


def test_a_branch_without_git_is_refused_with_the_fix(project: EvalProject):
    done = project.command("refine", "triage", "--branch", "better")
    assert done.returncode == 2
    assert "is not in a git repository\n  fix: git init" in done.stderr


PROMPT = "prompts/triage.prompt.yml"
GOLDEN = "fixtures/golden/triage"
PROMPTFOO = "prompts: ['Say {{x}}']\nproviders: [openai:gpt-4o]\ntests: [{vars: {x: 1}}]\n"
OPTION = (
    "from regauge import golden\n\n\n"
    "@golden('triage', tags=['a'])\ndef test_triage(result):\n    result.check()\n"
)
PRICES = """\
[tool.regauge.providers]
a = {base_url = "http://127.0.0.1/v1"}
[tool.regauge.providers.b]
prices = {m = {input = 1, input_per_million = 1, output_per_million = 1}}
base_url = "http://127.0.0.1/v1"
[tool.pytest.ini_options]
addopts = ["-p", "regauge", "--import-mode=importlib"]
"""


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (PROMPT, "model: m\nmessages: [\n  - role: user\n", ":3: not YAML: a `[` or `{` above is"),
        (PROMPT, "name: 'x\nmessages:\n", ":1: not YAML: the quote of this line is not closed"),
        (PROMPT, "messages:\n  - role: user\n    content: {{text}}\n", ":3: the content of a mess"),
        (PROMPT, "name: a: b\nmessages:\n", ":1: not YAML: mapping values"),
        (PROMPT, "name: @b\nmessages:\n", ":1: not YAML: found character '@'"),
        (PROMPT, PROMPTFOO, ":1: this is a configuration of promptfoo"),
        (PROMPT, "modelParameters: {temperature: cold}\n", ":1: modelParameters.temperature must"),
        (PROMPT, "modelParamaters: {}\n", ":1: a prompt file has no key 'modelParamaters'"),
        (
            PROMPT,
            "model: 'local: m'\nmessages: [{role: user, content: '{{text}}'}]\n",
            ": the model 'local: m' has a space",
        ),
        (f"{GOLDEN}.csv", "question,__expected\na,contains:b\n", ":1: unknown column 'question'"),
        (
            f"{GOLDEN}.jsonl",
            '{"id": "a", "inputs": ["x"]}\n',
            ":1: inputs is a list, not a mapping",
        ),
        ("evals/test_triage.py", OPTION, ":4: @golden has no option 'tags'"),
        ("pyproject.toml", PRICES, ":4: tool.regauge.providers.b.prices.m.input: no such setting"),
    ],
)
def test_what_cannot_be_read_is_named_with_line_and_fix(
    project: EvalProject, path: str, text: str, words: str
):
    if path.startswith(GOLDEN):
        (project.root / f"{GOLDEN}.jsonl").unlink()
    project.write(path, text)
    run = project.run()
    assert run.ret == 2
    shown = run.stdout.lines
    at = next(n for n, line in enumerate(shown) if line.startswith(f"{path}{words}"))
    assert shown[at + 1].startswith("  fix: ")
    assert not any(f"{project.root}/" in line for line in shown)


def test_two_prompts_of_one_name_are_named_by_their_paths(project: EvalProject):
    project.write("prompts/team/triage.prompt.yml", (project.root / PROMPT).read_text())
    names = f"several prompts are named 'triage': prompts/team/triage.prompt.yml, {PROMPT}"
    run = project.run()
    run.stdout.fnmatch_lines(
        [f"prompts: {names}", "  fix: rename all but one: *", "  eval: evals/*:7"]
    )
    assert "the other is prompts/team/triage.prompt.yml\n" in project.command("lint").stdout


def test_a_misspelt_import_names_the_nearest_judge_and_its_line(project: EvalProject):
    project.eval("import json\nfrom regauge import golden\nfrom regauge.judges import json_parse\n")
    run = project.run()
    assert run.ret == 2
    run.stdout.fnmatch_lines(
        [
            "evals/test_triage.py:3: regauge.judges has no name 'json_parse'",
            "  fix: did you mean 'json_parses'?",
        ]
    )
    project.eval("from regauge import nothing_like_it\n")
    project.run().stdout.fnmatch_lines(["*:1: regauge has no name 'nothing_like_it'"])
    project.eval("from regauge.errors import NothingLikeItError\n")
    project.run().stdout.fnmatch_lines(["*:1: regauge.errors has no name 'NothingLikeItError'"])
    project.eval("from json import nothing\n")
    project.run().stdout.fnmatch_lines(["*ImportError: cannot import name 'nothing' from 'json'*"])


def test_a_condition_on_an_input_is_refused_and_other_tags_are_text(project: EvalProject):
    path = project.root / PROMPT
    text = path.read_text()
    path.write_text(text.replace("{{text}}", "{% if text %}{{text}}{% endif %}"))
    run = project.run()
    assert run.ret == 1
    run.stdout.fnmatch_lines(
        [
            "unmeasured: 5 cases of triage (RenderError)",
            f"  {PROMPT}:*: {{% if text %}} is plain text: a template has no filters or conditions *",
            "    fix: write the text of one branch, *",
        ]
    )
    path.write_text(text.replace("{{text}}", "In Jinja, {% if user %}. {{text}}"))
    assert project.run().ret == 0
    assert "{% if user %} is plain text, not a condition" in project.command("lint").stdout


def test_a_huge_input_is_not_paid_without_a_question(live: EvalProject, endpoint: Endpoint):
    huge = {"id": "huge", "inputs": {"text": "critical: " * 500_000}, "expected": {"ok": True}}
    live.golden([live.case(0), huge])
    run = live.run()
    run.assert_outcomes(passed=1)
    assert run.ret == 1
    assert endpoint.total == 1
    run.stdout.fnmatch_lines(
        [
            "  huge",
            "  the request was not sent: 5.0 MB of text, * tokens, would cost $1.* (case at *.jsonl:2)",
            "    fix: shorten the inputs of the case, or allow it with `request_mb_max = 6` in *",
        ]
    )
    recorded = live.command("record")
    assert (recorded.returncode, endpoint.total) == (3, 1)
    assert "5.0 MB of text" in recorded.stderr
    live.golden([live.case(0), {**huge, "inputs": {"text": "critical: " * 50_000}}])
    live.settings("request_mb_max = 0.2")
    live.run().assert_outcomes(passed=1)
    live.settings("request_mb_max = 0.6")
    live.run().assert_outcomes(passed=2)


WRONG_USE: list[tuple[str, int, str]] = [
    ("gate HEAD --dry-run -o x.md", 2, "--dry-run makes no decision, so --output x.md has nothing to show"),
    ("gate HEAD --json -o -", 2, "--json and --output - both write to standard output"),
    ("gate HEAD -o x.pdf", 2, "a decision has no format with the suffix .pdf"),
    ("gate --from latest", 2, "did not gate, so there is nothing to decide again"),
    ("mutate triage --dry-run -o x.md", 2, "--dry-run measures nothing"),
    ("mutate triage --json -o -", 2, "--json and --output - both write to standard output"),
    ("mutate triage -o x.pdf", 2, "x.pdf: the format is unknown"),
    ("mutate triage --operators swap-labels", 2, "has no text that these operators can edit"),
    ("report --otel -o x.html", 2, "--output does not go with --otel"),
    ("report --otel --json", 2, "--json does not go with --otel"),
    ("report --comment --otel", 2, "--otel does not go with --comment"),
    ("new case triage", 2, "the case has no id"),
    ("new case triage b --from-run latest", 2, "has no case 'b'"),
    ("new case triage disk-001 --from-run latest --trial 9", 2, "has no trial 9"),
    ("judges list zzz", 0, "no judge has 'zzz' in its name or summary"),
    ("judges calibrate", 0, "no eval has an LLM judge"),
    ("judges try {max_words: out.txt", 2, "the judge, line 1: not YAML"),
    ("judges try {max_words:{n:4}} out.txt -p n=4", 2, "in the specification or in -p, not in both"),
    ("judges try max_words out.txt -p n", 2, "-p 'n' is not NAME=VALUE"),
    ("judges try max_words broken.json -p n=4", 2, "the recorded completion cannot be read"),
    ("judges try max_words out.txt -p n=4 --case list.yml", 2, "list.yml is not a golden case"),
    ("judges try max_words out.txt -p n=4 --case inputs.yml", 2, "`inputs` is not a mapping"),
    ("judges try max_words latin.txt -p n=4", 2, "latin.txt is not UTF-8"),
    ("judges try max_words nowhere.txt -p n=4", 2, "nowhere.txt cannot be read"),
    ("judges try rubric out.txt -p name=x", 2, ""),
    ("refine list", 0, "no prompt was refined here yet"),
    ("refine list --json", 0, "[]"),
    ("baseline simulate", 0, "there are no baselines yet: regauge baseline update"),
    ("import promptfoo out.txt -o x.md", 2, "-o needs --check"),
    ("diff triage", 2, "prompts is not in a git repository"),
    ("schema", 0, "prompt"),
]  # fmt: skip


def test_wrong_use_is_refused_in_words(project: EvalProject):
    project.run()
    project.write("out.txt", "one two")
    project.write("broken.json", '{"text": 3, "finish_reason": "stop", "usage": {}}')
    project.write("list.yml", "- a")
    project.write("inputs.yml", "inputs: [a]")
    (project.root / "latin.txt").write_bytes(b"\xff")
    wrong = {}
    for words, code, text in WRONG_USE:
        done = project.command(*words.split(" "))
        said = done.stdout + done.stderr
        if done.returncode != code or text not in said or "Traceback" in said:
            wrong[words] = (done.returncode, said)
    assert not wrong
    assert not list(project.root.glob("x.*"))


def test_two_judges_of_one_name_in_two_evals_are_refused_by_a_refinement(project: EvalProject):
    """A refinement judges each completion once, with the judges of all evals."""
    judges = "min_chars(1).with_name('length')", "max_chars(9).with_name('length')"
    for number, judge in enumerate(judges):
        project.eval(
            "from regauge import golden\nfrom regauge.judges import max_chars, min_chars\n\n"
            f"@golden('triage', judges=[{judge}])\ndef test_triage(result):\n    result.check()\n",
            name=f"test_{number}" if number else "test_triage",
        )
    done = project.command("refine", "triage", "--dry-run")
    assert done.returncode == 2
    assert "two evals of triage have different judges that are called 'length'" in done.stderr
    assert "fix: give one a name of its own with .with_name(...)" in done.stderr
