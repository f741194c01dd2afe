"""The reference of prompt files: what it shows is what happens, in the order it is shown."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
from pathlib import Path

from tests import processes

PAGE = Path(__file__).parents[3] / "docs/reference/prompt-files.md"
BLOCK = re.compile(r"^```(yaml|python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2025-06-30T12:00:00Z",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}


def environment() -> dict[str, str]:
    """Without what points git to another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(Path.cwd().resolve().parent)}


def run(command: str) -> str:
    words = shlex.split(command)
    if words[0] == "regauge":
        said = processes.run(*words, cwd=Path.cwd(), env=environment())
        return said.stdout + said.stderr
    if words[0] == "git":
        assert Path(".git").is_dir(), f"no repository of its own for {command!r}"
    done = subprocess.run(
        words,
        env=environment(),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.stdout


def test_every_example_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], env=environment(), check=True)
    Path("prompts").mkdir()
    names: dict[str, object] = {}
    checker = doctest.OutputChecker()
    for kind, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "yaml" and "messages:" in body:
            Path("prompts/urgency.prompt.yml").write_text(body, encoding="utf-8")
        elif kind == "python":
            example = doctest.DocTestParser().get_doctest(body, names, PAGE.name, None, 0)
            runner = doctest.DocTestRunner(checker, optionflags=FLAGS)
            runner.run(example, clear_globs=False)
            names |= example.globs
            assert runner.failures == 0
        elif kind == "console":
            for part in body.split("$ ")[1:]:
                command, _, expected = part.partition("\n")
                shown = run(command)
                assert checker.check_output(expected, shown, FLAGS), f"$ {command}\n{shown}"
