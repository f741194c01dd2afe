"""`regauge new`, as processes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.place import Place

OWN = Path(__file__).parents[2] / ".github/workflows"
PROMPT = "prompts/shout.prompt.yml"
GOLDEN = "fixtures/golden/shout.jsonl"
SETTINGS = """\
[tool.pytest.ini_options]
addopts = ["-p", "no:deepeval"]
[tool.regauge]
model = "sim:clerk-1"
"""
INSTALL = "--install=make install"
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


EVAL_OF_QUIET = """
from regauge import golden
from regauge.judges import field_equals

@golden("shout", dataset="quiet", judges=[field_equals("severity")])
def test_shout(result):
    result.check()
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project with the prompt `shout`, one case and an eval."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    place = Place(tmp_path)
    place.write("pyproject.toml", SETTINGS)
    place.write(
        PROMPT,
        "model: sim:clerk-1\nmessages:\n"
        "  - {role: system, content: 'Say how severe the alert is. Answer with JSON: the keys severity and reason.'}\n"
        "  - {role: user, content: '{{text}}'}\n",
    )
    case = {
        "id": "one",
        "inputs": {"text": "critical: a disk is full"},
        "expected": {"severity": "x"},
    }
    place.write(GOLDEN, json.dumps(case))
    place.write(
        "evals/test_shout.py",
        "from regauge import golden\nfrom regauge.judges import field_equals\n\n"
        "@golden('shout', judges=[field_equals('severity')])\n"
        "def test_shout(result):\n    result.check()\n",
    )
    return place


def cases(place: Place, path: str = GOLDEN) -> list[dict[str, object]]:
    return [json.loads(line) for line in (place.root / path).read_text().splitlines()]


def git(place: Place, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *arguments], cwd=place.root, check=True, capture_output=True)


def test_a_new_prompt_its_case_and_its_eval_run(place: Place):
    place.regauge("new", "prompt", "page-me")
    place.regauge("new", "case", "page-me", "first", "-i", "document=The disk is full.")
    place.regauge("new", "eval", "page-me")
    place.regauge("bump", "page-me")
    assert "1 passed" in place.evals("-p", "no:cacheprovider", "-k", "page_me")
    lines = (place.root / "prompts/page-me.prompt.yml").read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=prompt.schema.json"
    assert (place.root / "prompts/prompt.schema.json").is_file()


def test_one_command_makes_an_eval_of_an_application(place: Place):
    """The function is read for the names of its inputs, and not run until the eval is."""
    place.write(
        "app/pipeline.py",
        "print('loaded')\n\ndef answer(question, top_k=3):\n    return question\n",
    )
    written = place.regauge("new", "eval", "support", "--target", "app.pipeline:answer")
    assert "loaded" not in written
    assert "regauge new case support first -i question=TEXT --expected TEXT\n" in written
    added = place.regauge("new", "case", "support", "first", "-i", "question=How?")
    assert "added first to fixtures/golden/support.jsonl:1" in added
    assert "1 passed" in place.evals("-p", "no:cacheprovider", "-k", "support")
    assert "is there already" in place.regauge(
        "new", "eval", "support", "--target", "app.pipeline:answer", code=2
    )


def test_an_eval_of_an_application_brings_settings_to_a_project_without_any(place: Place):
    (place.root / "pyproject.toml").unlink()
    written = place.regauge("new", "eval", "bot", "--target", "some.package:answer", "--json")
    assert json.loads(written) == {"written": ["evals/test_bot.py", "pyproject.toml"]}
    text = (place.root / "pyproject.toml").read_text()
    assert "[tool.pytest.ini_options]" in text


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("app.pipeline:anser", "app/pipeline.py has no function 'anser'; functions: answer\n"),
        ("app.pipeline:anser", "fix: did you mean 'answer'?"),
        ("app.pipline:answer", "there is no app/pipline.py\n  fix: correct 'app.pipline:answer'"),
        ("app.broken:answer", "app/broken.py:1: not Python"),
        ("pipeline", "declare [tool.regauge.targets.pipeline] in pyproject.toml"),
        ("app.pipeline.answer", "did you mean 'app.pipeline:answer'?"),
        ("app.pipeline:Bot", "'app.pipeline:Bot' is a class\n  fix: name a function"),
        ("app.pipeline:Bot.ask", "'app.pipeline:Bot.ask' is a method that needs an instance"),
        ("app.pipeline:Bot.asks", "class Bot has no method 'asks'; methods: ask, reply\n"),
    ],
)
def test_a_target_that_is_none_is_refused(place: Place, target: str, said: str):
    place.write(
        "app/pipeline.py",
        "def answer(question):\n    return question\n\n\nclass Bot:\n"
        "    def ask(self, question):\n        return question\n\n"
        "    @classmethod\n    def reply(cls, question):\n        return question\n",
    )
    place.write("app/broken.py", "def answer(:\n")
    assert said in place.regauge("new", "eval", "support", "--target", target, code=2)
    assert not (place.root / "evals/test_support.py").exists()


def test_a_class_method_is_a_target_and_a_project_of_targets_needs_no_prompt(place: Place):
    place.write(
        "app/pipeline.py",
        "class Bot:\n    @classmethod\n    def reply(cls, question):\n        return question\n",
    )
    shutil.rmtree(place.root / "prompts")
    shutil.rmtree(place.root / "evals")
    shutil.rmtree(place.root / "fixtures")
    assert "there are no prompt files" in place.regauge("lint", code=2)
    written = place.regauge("new", "eval", "support", "--target", "app.pipeline:Bot.reply")
    assert "regauge new case support first -i question=TEXT --expected TEXT\n" in written
    place.regauge("new", "case", "support", "first", "-i", "question=How?")
    assert "no prompt files" not in place.regauge("lint")
    assert "1 passed" in place.evals("-p", "no:cacheprovider", "-k", "support")
    file = place.root / "app/pipeline.py"
    file.write_text(file.read_text().replace("reply", "answer"))
    linted = place.regauge("lint", code=1)
    assert "class Bot has no method 'reply'; methods: answer\n" in linted
    assert "error: evals/test_support.py:" in linted


def test_a_new_judge_is_a_rubric_that_loads(place: Place):
    place.regauge("new", "rubric", "tone")
    shown = json.loads(place.regauge("show", "tone", "--json"))
    assert shown["rubric"]["kind"] == "binary"
    assert shown["warnings"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("prompt", "Shout"), "there is a prompt 'shout' already: prompts/shout.prompt.yml"),
        (
            ("prompt", "../evil"),
            "cannot be the name of a prompt or dataset\n  fix: a-z, A-Z, 0-9 and",
        ),
        (("eval", "shout"), "evals/test_shout.py is there already"),
        (("eval", "shuot"), "did you mean 'shout'"),
        (("case", "shout", "one", "-i", "text=x"), "fixtures/golden/shout.jsonl:1"),
        (("case", "shout", "two", "-i", "txt=x"), "input 'text' is missing"),
        (("case", "shout", "a b", "-i", "text=x"), "such as 'a-b'"),
        (
            ("case", "shout", "two", "-i", "text=critical: a disk is full"),
            "case 'one' has the same inputs: fixtures/golden/shout.jsonl:1",
        ),
    ],
)
def test_what_is_there_or_makes_no_sense_is_refused(
    place: Place, arguments: tuple[str, ...], said: str
):
    before = {name: (place.root / name).read_bytes() for name in place.files()}
    assert said in place.regauge("new", *arguments, code=2)
    assert {name: (place.root / name).read_bytes() for name in place.files()} == before


def test_a_new_case_holds_no_key_and_joins_a_file_without_a_last_line_end(place: Place):
    place.regauge(
        "new", "case", "shout", "two", "-i", f"text=the key is {KEY}", "--expected", "[1]"
    )
    assert [case["id"] for case in cases(place)] == ["one", "two"]
    assert cases(place)[1]["inputs"] == {"text": "the key is [redacted by regauge]"}
    assert cases(place)[1]["expected"] == [1]
    broken = place.regauge(
        "new", "case", "shout", "three", "-i", "text=x", "--expected", "{1", code=2
    )
    assert "error: --expected is not JSON: " in broken
    assert """fix: correct it; for a text, write "{1\"""" in broken
    assert len(cases(place)) == 2


def test_a_failed_case_joins_another_prompts_dataset_with_its_answer(place: Place):
    """The answer keeps the shape of what was expected, so the same judges can read it."""
    place.evals("-p", "no:cacheprovider", code=1)
    other = (place.root / PROMPT).read_text()
    place.write("prompts/whisper.prompt.yml", other)
    out = place.regauge(
        *("new", "case", "whisper", "one", "--from-run", "latest", "--expected-from-output"),
        *("--tier", "critical"),
    )
    assert "added one to fixtures/golden/whisper.jsonl:1" in out
    [case] = cases(place, "fixtures/golden/whisper.jsonl")
    assert case["inputs"] == {"text": "critical: a disk is full"}
    assert list(case["expected"]) == ["severity"]
    assert case["expected"] != {"severity": "x"}
    assert str(case["note"]).startswith("failed in run ")
    assert case["tier"] == "critical"


def test_a_case_joins_its_own_dataset_or_the_named_one_of_a_prompt(place: Place):
    other = place.write("fixtures/golden/quiet.jsonl", (place.root / GOLDEN).read_text())
    place.write("evals/test_shout.py", EVAL_OF_QUIET)
    place.evals("-p", "no:cacheprovider", code=1)
    again = ("-i", "text=critical: a second disk is full")
    out = place.regauge(
        "new", "case", "shout", "two", "--from-run", "latest", "--case", "one", *again
    )
    assert "added two to fixtures/golden/quiet.jsonl:2" in out
    out = place.regauge(
        "new", "case", "shout", "three", "-i", "text=info: up", "--dataset", "quiet"
    )
    assert "added three to fixtures/golden/quiet.jsonl:3" in out
    wrong = place.regauge("new", "case", "shout", "x", "-i", "txt=a", "--dataset", "quiet", code=2)
    assert "input 'text' is missing" in wrong
    missing = place.regauge("new", "case", "shout", "x", "-i", "text=a", "--dataset", "no", code=2)
    assert "no dataset is called 'no'" in missing
    assert len(other.read_text().splitlines()) == 3
    assert len(cases(place)) == 1


def test_a_case_that_was_since_removed_comes_back_whole_from_git(place: Place):
    case = cases(place)[0] | {
        "checks": ["no_comma", {"contains": "x"}],
        "pass_at": 0.9,
        "tags": ["disk", "night"],
        "tier": "critical",
        "source": "ticket 7",
        "licence": "MIT",
    }
    place.write(GOLDEN, json.dumps(case))
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "one")
    place.evals("-p", "no:cacheprovider", code=1)
    place.write(GOLDEN, '{"id": "two", "inputs": {"text": "info: nothing"}}\n')
    place.regauge("new", "case", "shout", "one", "--from-run", "latest")
    _, added = cases(place)
    assert str(added.pop("note")).startswith("failed in run ")
    assert added == case


def test_a_case_that_changed_without_a_commit_is_not_guessed_at(place: Place):
    place.evals("-p", "no:cacheprovider", code=1)
    place.write(GOLDEN, '{"id": "one", "inputs": {"text": "info: nothing"}}\n')
    out = place.regauge("new", "case", "shout", "one", "--from-run", "latest", code=2)
    assert "is not what it was in run" in out
    assert "there is a case" not in out


def test_an_editor_has_the_last_word(place: Place):
    """An editor is a program that changes the file it is given."""
    place.evals("-p", "no:cacheprovider", code=1)
    editor = place.write(
        "editor.py",
        "import json, sys\ncase = json.load(open(sys.argv[1]))\n"
        "case['id'] = 'edited'; case['inputs']['text'] = 'warning: a fan is loud'\n"
        "json.dump(case, open(sys.argv[1], 'w'))\n",
    )
    done = place.process(
        *("regauge", "new", "case", "shout", "one", "--from-run", "latest", "--edit"),
        EDITOR=f"{sys.executable} {editor}",
        VISUAL=f"{sys.executable} {editor}",
    )
    assert done.returncode == 0, done.stderr
    assert cases(place)[1]["id"] == "edited"


def test_new_workflow_writes_what_may_run_with_rights_to_write(place: Place):
    """zizmor looks for what GitHub's own documents warn of."""
    for name in ("evals", "comment", "baseline", "refine"):
        out = place.regauge("new", "workflow", name, INSTALL)
        assert f"wrote .github/workflows/{name}.yml" in out
        assert "secrets" not in out  # the model is simulated
    again = place.regauge("new", "workflow", "refine", INSTALL, code=2)
    assert "refine.yml is there already" in again
    zizmor = Path(sys.executable).with_name("zizmor")
    done = subprocess.run(
        [zizmor, "--offline", "--no-progress", str(place.root / ".github")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    own = "".join(path.read_text() for path in OWN.glob("*.yml"))
    for path in (place.root / ".github/workflows").iterdir():
        written = path.read_text(encoding="utf-8")
        assert "permissions: {}" in written
        assert all(use in own for use in re.findall(r"uses: (.*)", written))


@pytest.mark.parametrize(
    ("settings", "model", "keys"),
    [
        ("model = 'sim:clerk-1'", "openai:gpt-5.4", []),
        ("", "sim:clerk-1", []),
        ("", "anthropic:claude-sonnet-5", ["ANTHROPIC_API_KEY"]),
        ("model = 'anthropic:claude-sonnet-5'\njudge_model = 'openai:gpt-5.4'", "sim:clerk-1",
         ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]),
        ("model = 'ollama:llama3'\n[tool.regauge.providers.ollama]\nbase_url = 'http://127.0.0.1:9/v1'",
         "openai:gpt-5.4", []),
    ],
)  # fmt: skip
def test_a_workflow_has_the_keys_of_the_models_of_the_project(
    place: Place, settings: str, model: str, keys: list[str]
):
    place.write("pyproject.toml", f"[tool.regauge]\n{settings}\n")
    prompt = f"model: {model}\nversion: 1.0.0\nmessages: [{{role: user, content: Hi}}]\n"
    place.write("prompts/shout.prompt.yml", prompt)
    out = place.regauge("new", "workflow", "evals", INSTALL)
    step = f"add secrets to the repository: {', '.join(keys)}\n"
    assert (step in out) if keys else ("secrets" not in out)
    path = place.root / ".github/workflows/evals.yml"
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    names = {name for job in jobs for step in job["steps"] for name in step.get("env", {})}
    assert sorted(name for name in names if "KEY" in name) == sorted(keys)
    # Without a key, a comment shows the place for one.
    comment = "# OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}"
    assert (comment in path.read_text(encoding="utf-8")) == (not keys)
    path.unlink()
    place.regauge("init", "--yes", INSTALL)
    assert ("_API_KEY: $" in path.read_text(encoding="utf-8").replace(comment, "")) == bool(keys)


def test_a_workflow_with_shards_has_a_matrix_and_one_job_that_decides(place: Place):
    out = place.regauge("new", "workflow", "evals", "--shards", "4", INSTALL)
    assert "require the check `Evals` alone" in out
    path = place.root / ".github/workflows/evals.yml"
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    assert list(jobs) == ["shard", "merge"]
    assert jobs["shard"]["strategy"] == {"fail-fast": False, "matrix": {"shard": [1, 2, 3, 4]}}
    assert jobs["shard"]["env"]["SHARD"] == "${{ matrix.shard }}/4"
    assert (jobs["merge"]["needs"], jobs["merge"]["name"]) == ("shard", "Evals")
    assert jobs["merge"]["if"] == "${{ always() }}"  # a skipped job counts as passed
    zizmor = Path(sys.executable).with_name("zizmor")
    done = subprocess.run(
        [zizmor, "--offline", "--no-progress", str(place.root / ".github")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    own = "".join(path.read_text() for path in OWN.glob("*.yml"))
    assert all(use in own for use in re.findall(r"uses: (.*)", path.read_text(encoding="utf-8")))
    for step in (*jobs["shard"]["steps"], *jobs["merge"]["steps"]):
        assert "${{" not in step.get("run", "")  # what a pull request is called is no script
    out = place.regauge("new", "workflow", "refine", "--shards", "4", INSTALL, code=2)
    assert "--shards is for the workflow evals" in out


def test_workflows_fit_the_repository_and_say_what_keeps_them_from_running(tmp_path: Path):
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], check=True)
    below = tmp_path / "svc"
    below.mkdir()
    place = Place(below)
    place.write(
        "pyproject.toml",
        "[tool.regauge]\nmodel = 'acme:foo'\n[tool.regauge.providers.acme]\n"
        "base_url = 'http://127.0.0.1:9/v1'\napi_key_env = 'ACME_KEY'\n",
    )
    out = place.regauge("new", "workflow", "refine", INSTALL)
    assert "note: it waits for a workflow `evals`" in out
    assert "move svc/.github/workflows there" in out
    assert "add secrets to the repository: ACME_KEY" in out
    written = (below / ".github/workflows/refine.yml").read_text()
    assert "branches: [trunk]" in written
    assert "ACME_KEY: ${{ secrets.ACME_KEY }}" in written
    assert "OPENAI" not in written
    assert "[tool.regauge.providers.acme]" in written
    assert "`working-directory: svc`" in place.regauge("init", "--yes", INSTALL)
    assert "branches: [trunk]" in (below / ".github/workflows/evals.yml").read_text()
    other = json.loads(
        place.process("regauge", "new", "workflow", "baseline", INSTALL, "--json").stdout
    )
    assert other == {"written": [".github/workflows/baseline.yml"]}
