"""Commands that messages propose run as they are, whatever names and places they hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.place import Place

SETTINGS = """\
[tool.pytest.ini_options]
addopts = ["-p", "no:deepeval", "-p", "no:asyncio", "--import-mode=importlib"]
[tool.regauge]
model = "sim:clerk-1"
"""
PROMPT = """\
version: 1.0.0
messages:
  - role: user
    content: "Say {{x}}"
"""
EVAL = """\
from regauge import golden
from regauge.judges import min_chars

@golden("%s", judges=[min_chars(1)])
def test_it(result):
    result.check()
"""
ODD = "größe.v2 of #7"


def make_project(root: Path, *, name: str = "greet", evals: str = "evals") -> Place:
    place = Place(root)
    place.write("pyproject.toml", SETTINGS)
    place.write(f"prompts/{name}.prompt.yml", PROMPT)
    place.write(f"fixtures/golden/{name}.jsonl", '{"id": "one", "inputs": {"x": "a"}}\n')
    place.write(f"{evals}/test_it.py", EVAL % name)
    return place


def commit(place: Place) -> None:
    git(place, "init", "-q", "-b", "main")
    place.write(".gitignore", ".regauge/\n__pycache__/\n.pytest_cache/\n")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "Begin")


def git(place: Place, *words: str) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *author, *words], cwd=place.root, check=True)


def proposed(text: str, *begins: str) -> str:
    """The rest of the first line of a message that begins so."""
    lines = (line.strip() for line in text.splitlines())
    matching = [
        line.removeprefix(begin) for line in lines for begin in begins if line.startswith(begin)
    ]
    assert matching, text
    return matching[0]


def run(place: Place, command: str, code: int = 0) -> str:
    programs = Path(sys.executable).parent
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CI", "PYTEST", "COV"))}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "regauge.pytest_plugin"}
    with processes.scripts(programs / "pytest", programs / "regauge") as folder:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=place.root,
            env=env | plugins | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == code, command + done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("directory", "arguments"),
    [
        (".", ["a", "b #2"]),
        (".", ["b #2/evals/test_it.py", "a", "-k", "it"]),
        ("a/evals", ["../../b #2", ".."]),
        ("a", [".", "../b #2/evals/test_it.py::test_it"]),
    ],
)
def test_the_command_for_another_project_can_be_copied(
    tmp_path: Path, directory: str, arguments: list[str]
):
    first, second = make_project(tmp_path / "a"), make_project(tmp_path / "b #2", name="other")
    out = Place(tmp_path / directory).process("pytest", *arguments).stdout
    command = proposed(out, "fix: ")
    refused = second if "b #2" in command else first
    assert f"/evals/test_it.py is an eval of the project in {refused.root}" in out
    assert "1 passed" in run(Place(tmp_path), command)


def test_commands_name_the_place_of_the_evals(tmp_path: Path):
    place = make_project(tmp_path, evals="tests/my evals")
    run(place, proposed(place.regauge("lint", code=1), "fix: "))
    out = place.process("pytest", "tests/my evals", "--record=none").stdout
    command = proposed(out, "record them: ")
    assert command == "regauge record greet --evals 'tests/my evals'"
    assert "1 of 1 completions recorded" in run(place, command)
    commit(place)
    prompt = place.root / "prompts/greet.prompt.yml"
    prompt.write_text(PROMPT.replace("Say", "Tell me"))
    place.regauge("bump", "greet", "minor", "-m", "Tell")
    git(place, "commit", "-qam", "Tell")
    out = place.regauge("gate", "HEAD~1", "--evals", "tests/my evals", "--record=missing")
    update = proposed(out, "next: merge, then update the baseline on the base branch: ")
    assert update == "regauge baseline update greet --evals 'tests/my evals'"
    assert f"after the merge: {update}" in out
    run(place, update)
    assert (place.root / "fixtures/baselines/greet.json").is_file()


def test_names_of_prompts_are_quoted(tmp_path: Path):
    place = make_project(tmp_path, name=ODD)
    bump = proposed(place.regauge("lint", code=1), "fix: ")
    assert bump == f"regauge bump '{ODD}'"
    run(place, bump)
    record = proposed(place.evals("--record=none", code=1), "record them: ")
    run(place, record)
    commit(place)
    assert place.regauge("lint") == "1 prompt: 0 errors, 0 warnings\n"
    (place.root / "evals/test_it.py").unlink()
    place.write("evals/test_other.py", EVAL % "other")
    place.write("prompts/other.prompt.yml", PROMPT)
    place.write("fixtures/golden/other.jsonl", '{"id": "one", "inputs": {"x": "a"}}\n')
    out = place.process("regauge", "doctor", "--offline").stdout
    assert f"fix: regauge new eval '{ODD}'\n" in out
    update = proposed(place.regauge("baseline", "show", ODD, code=2), "fix: ")
    assert update == f"regauge baseline update '{ODD}'"


def test_names_that_differ_in_case_are_warned_of(tmp_path: Path):
    place = make_project(tmp_path)
    place.write("prompts/judges/Greet.prompt.yml", PROMPT)
    place.write("fixtures/golden/GREET.jsonl", '{"id": "one", "inputs": {"x": "a"}}\n')
    place.write("evals/Test_it.py", "")
    place.regauge("bump", "greet")
    place.regauge("bump", "Greet")
    out = place.regauge("lint")
    fix = "in case only\n  fix: rename one: macOS and Windows have one file for both\n"
    assert out == (
        f"warning: prompts/judges/Greet.prompt.yml: its name differs from"
        f" prompts/greet.prompt.yml {fix}"
        f"warning: fixtures/golden/greet.jsonl: its name differs from"
        f" fixtures/golden/GREET.jsonl {fix}"
        f"warning: evals/test_it.py: its name differs from evals/Test_it.py {fix}"
        "2 prompts: 0 errors, 3 warnings\n"
    )
