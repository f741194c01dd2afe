"""`regauge new`, in this process: inputs of targets, dry runs, documents and the editor."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from regauge.cli import group
from regauge.cli.new import _expected
from regauge.datasets import GoldenCase
from regauge.errors import DatasetError, UsageError
from regauge.project import Project
from regauge.scaffold._cases import _expected_value
from regauge.targets import inputs_of_target

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.digests import JSON

SETTINGS = """\
[tool.regauge]
model = "sim:clerk-1"

[tool.regauge.targets.shop]
kind = "http"
url = "https://shop.example/{{kind}}"
body = {q = "{{question}}", k = "{{ kind }}"}
"""
PIPELINE = """\
from elsewhere import renamed
from base import Base
class Bot(Base):
    @staticmethod
    def reply(question, *, tone, style="x"): ...
    other = reply
def answer(question, top_k=3, *, user): ...
def whole(case): ...
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "app").mkdir()
    (tmp_path / "app/pipeline.py").write_text(PIPELINE)
    (tmp_path / "app/stars.py").write_text("from elsewhere import *\n")
    (tmp_path / "app/lazy.py").write_text("def __getattr__(name): ...\n")
    (tmp_path / "app/bom.py").write_bytes(b"\xef\xbb\xbfdef answer(question): ...\n")
    latin = "# -*- coding: latin-1 -*-\nNAME = 'ü'\ndef answer(question): ...\n"
    (tmp_path / "app/latin.py").write_bytes(latin.encode("latin-1"))
    (tmp_path / "app/two").mkdir()
    (tmp_path / "app/two.py").write_text("")
    (tmp_path / "app/two/__init__.py").write_text("def answer(question): ...\n")
    (tmp_path / "app/made.py").write_text(
        "@adds\nclass A: ...\nclass B(metaclass=M): ...\nclass answer: ...\nanswer = answer()\n"
    )
    (tmp_path / "lib").mkdir()
    (tmp_path / "prompts").mkdir()
    message = "messages:\n  - {role: user, content: '{{text}}'}\n"
    (tmp_path / "prompts/shout.prompt.yml").write_text(message)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new(*arguments: str) -> str:
    return CliRunner().invoke(group, ["new", *arguments], catch_exceptions=False).output


@pytest.mark.parametrize(
    ("target", "inputs"),
    [
        ("shop", ["kind", "question"]),
        ("app.pipeline:answer", ["question", "user"]),
        ("app.pipeline:whole", []),
        ("app.pipeline:renamed", []),
        ("app.pipeline:Bot.reply", ["question", "tone"]),
        ("app.pipeline:Bot.other", []),
        ("app.pipeline:Bot.inherited", []),
        ("app.stars:anything", []),
        ("some.package:answer", []),
        ("lib.elsewhere:answer", []),
        ("app.lazy:anything", []),
        ("app.bom:answer", ["question"]),
        ("app.latin:answer", ["question"]),
        ("app.two:answer", ["question"]),
        ("app.made:A.extra", []),
        ("app.made:B.extra", []),
        ("app.made:answer", []),
    ],
)
def test_the_inputs_of_a_target_are_those_it_names(root: Path, target: str, inputs: list[str]):
    assert inputs_of_target(target, Project.find(root)) == inputs


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["ID", "--case", "x"], "--case needs --from-run\n  fix: add --from-run, or leave it out"),
        (["ID", "--trial", "0"], "--trial needs --from-run\n  fix: add --from-run"),
        (["ID", "--expected-from-output"], "--expected-from-output needs --from-run\n  fix: add"),
        (["ID", "--output", "x"], "--output needs --from-spans\n  fix: add --from-spans, or"),
        ([], "the case has no id\n  fix: regauge new case 'two words' ID"),
    ],
)
def test_an_option_of_a_case_that_does_nothing_is_refused(words: list[str], error: str, root: Path):
    with pytest.raises(UsageError) as caught:
        new("case", "two words", *words)
    assert str(caught.value).startswith(error)
    assert not list(root.glob("fixtures/**/*"))


def test_a_dry_run_prints_files_and_writes_none(root: Path):
    before = set(root.rglob("*"))
    (root / "pyproject.toml").write_text("")
    out = new("eval", "support", "--target", "app.pipeline:answer", "--dry-run")
    assert 'would write evals/test_support.py\n"""Test `app.pipeline:answer`' in out
    assert "would add pyproject.toml" in out
    assert "next" not in out
    case = json.loads(new("case", "shout", "one", "-i", "text=a", "--expected", "b", "--dry-run"))
    assert case == {"id": "one", "inputs": {"text": "a"}, "expected": "b"}
    assert set(root.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [
        ["prompt", "page"],
        ["rubric", "tone"],
        ["eval", "shout"],
        ["eval", "support", "--target", "shop"],
    ],
)
@pytest.mark.parametrize("option", ["", "--json", "--dry-run"])
def test_the_next_step_is_named_to_a_person_after_a_file_was_written(
    root: Path, words: list[str], option: str
):
    out = new(*words, *filter(None, [option]))
    assert ("next: " in out) == (option == "")
    assert ("wrote " in out) == (option == "")
    if option == "--json":
        assert all((root / path).is_file() for path in json.loads(out)["written"])


def test_a_case_is_printed_as_json(root: Path):
    out = new("case", "shout", "one", "-i", "text=a", "--tier", "critical", "--json")
    case = {"id": "one", "inputs": {"text": "a"}, "tier": "critical"}
    assert json.loads(out) == {"path": "fixtures/golden/shout.jsonl", "line": 1, "case": case}
    lines = (root / "fixtures/golden/shout.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [case]


@pytest.mark.parametrize(
    ("files", "error"),
    [
        (["shout.yml"], "fixtures/golden/shout.yml is not a JSONL file, so nothing is added to it"),
        (["shout.yml", "shout.csv"], "shout"),
    ],
)
def test_a_case_joins_one_dataset_in_json_lines(root: Path, files: list[str], error: str):
    (root / "fixtures/golden").mkdir(parents=True)
    for name in files:
        (root / "fixtures/golden" / name).write_text("- {id: a, inputs: {text: b}}\n")
    with pytest.raises((UsageError, DatasetError), match=error):
        new("case", "shout", "one", "-i", "text=a")
    assert not (root / "fixtures/golden/shout.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "not saved in the editor"),
        ("{", "what the editor left is not JSON"),
        ("[1]", "what the editor left has no `id` and `inputs`"),
        ('{"id": "a"}', "what the editor left has no `id` and `inputs`"),
        ('{"inputs": {}}', "what the editor left has no `id` and `inputs`"),
    ],
)
def test_what_an_editor_leaves_is_checked(
    root: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
):
    script = root / "editor.py"
    # A file of another time counts as saved.
    script.write_text(
        "import os, sys\n"
        + (f"open(sys.argv[1], 'w').write({text!r})\nos.utime(sys.argv[1], (1, 1))" if text else "")
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} -S -E {script}")
    with pytest.raises(UsageError, match=error):
        new("case", "shout", "one", "-i", "text=a", "--edit")
    assert not (root / "fixtures").exists()
    script.write_text("raise SystemExit(3)")
    with pytest.raises(UsageError, match=r"the editor failed: .*\n  fix: name an editor"):
        new("case", "shout", "one", "-i", "text=a", "--edit")


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ('{"a": 1}', {"a": 1}), ("a bug", "a bug"), ("", "")]
)
def test_an_expected_value_is_json_or_a_text(text: str, value: JSON):
    assert _expected(text) == value


@pytest.mark.parametrize("text", ["{a", " [1"])
def test_an_expected_value_that_is_half_json_is_refused(text: str):
    with pytest.raises(UsageError, match="--expected is not JSON"):
        _expected(text)


@pytest.mark.parametrize(
    ("output", "expected", "value"),
    [
        ('{"a": 1, "b": 2}', {"a": 0}, {"a": 1}),
        ('```json\n{"a": 1, "b": 2}\n```', {"c": 0}, {"a": 1, "b": 2}),
        ("3", "a text", "3"),
        ("3", 4, 3),
        ("3", None, 3),
        ("a text", {"a": 0}, "a text"),
    ],
)
def test_an_output_takes_the_form_of_the_expected_value(output: str, expected: JSON, value: JSON):
    case = GoldenCase(id="a", inputs={}, expected=expected, split="train")
    assert _expected_value({"output": output}, case) == value


def test_a_trial_without_an_output_has_no_expected_value():
    case = GoldenCase(id="a", inputs={}, expected=None, split="train")
    with pytest.raises(UsageError, match="case 'a' has no output in that run"):
        _expected_value({"output": None}, case)


@pytest.mark.parametrize("options", [["--dry-run"], ["--dry-run", "--json"]])
def test_half_a_surrogate_pair_in_a_span_is_escaped(root: Path, options: list[str]):
    """A model may write one, and standard output cannot hold it."""
    (root / "prompts/kind.prompt.yml").write_text(
        "name: kind\nversion: 1.0.0\nmessages:\n  - {role: user, content: 'Sort: {{text}}'}\n"
    )
    span = {
        "attributes": {
            "gen_ai.input.messages": [{"role": "user", "content": "Sort: half \ud800"}],
            "gen_ai.output.messages": [{"role": "assistant", "content": "other"}],
        }
    }
    (root / "spans.json").write_text(json.dumps(span))
    run = CliRunner().invoke(group, ["new", "case", "kind", "--from-spans", "spans.json", *options])
    assert (run.exit_code, run.exception) == (0, None)
    assert "half \\ud800" in run.stdout
