"""The shipped schemas say what the readers of the files say."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from regauge.errors import PromptError
from regauge.prompts import parse_prompt
from regauge.schemas import SCHEMAS, schema_text

ROOT = Path(__file__).parents[3]
TEMPLATES = Path(str(files("regauge.scaffold").joinpath("templates")))
PROMPTS = sorted(
    path
    for folder in ("prompts", "tests/data", "src/regauge/refine", "src/regauge/judges")
    for path in (ROOT / folder).rglob("*.prompt.y*ml")
)
GOLDEN = sorted((ROOT / "fixtures/golden").glob("*.jsonl"))


def diagnostics(name: str, value: Any) -> list[str]:
    validator = Draft202012Validator(json.loads(schema_text(name)))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def read(text: str) -> Any:
    """A YAML file as editors read it, which know no dates, only texts that look like them."""
    return json.loads(json.dumps(yaml.safe_load(text), default=str))


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_a_shipped_schema_is_a_schema(name: str):
    Draft202012Validator.check_schema(json.loads(schema_text(name)))


def test_there_are_real_files_to_check():
    assert len(PROMPTS) >= 5
    assert len(GOLDEN) >= 3


@pytest.mark.parametrize("path", PROMPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_prompt_file_that_loads_is_valid(path: Path):
    text = path.read_text(encoding="utf-8")
    try:
        parse_prompt(text, path=path)
    except PromptError:
        pytest.skip("made to be faulty")
    assert diagnostics("prompt", read(text)) == []


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_golden_case_is_valid_alone_and_in_a_list(path: Path):
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert diagnostics("golden", cases) == []
    assert diagnostics("golden", cases[0]) == []


def test_the_settings_of_this_repository_are_valid():
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert diagnostics("settings", document) == []


def test_what_init_and_new_write_is_valid():
    for name in ("prompt.yml", "new_prompt.yml", "new_judge.yml"):
        text = (TEMPLATES / name).read_text(encoding="utf-8").replace("$title", "A title")
        assert diagnostics("prompt", read(text)) == [], name
    lines = (TEMPLATES / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 10
    assert [diagnostics("golden", json.loads(line)) for line in lines] == [[]] * 10


MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt", {}),
        ("prompt", {"messages": []}),
        ("prompt", {"messages": [{"role": "usr", "content": "x"}]}),
        ("prompt", {"messages": MESSAGES, "version": "1.0"}),
        ("prompt", {"messages": MESSAGES, "modelParameters": {"temperature": "hot"}}),
        ("prompt", {"messages": MESSAGES, "inputs": [{"name": "a", "requird": True}]}),
        ("prompt", {"messages": MESSAGES, "rubric": {"kind": "graed"}}),
        ("prompt", {"messages": MESSAGES, "rubric": {"kind": "graded", "scale": [1, 5]}}),
        ("prompt", {"messages": MESSAGES, "rubric": {"kind": "graded", "pass_at": 2}}),
        ("prompt", {"messages": MESSAGES, "modelParameters": {"maxTokens": 0}}),
        ("prompt", {"messages": MESSAGES, "tools": [{"name": "a b"}]}),
        ("prompt", {"messages": MESSAGES, "changelog": [{"version": "1.0.0"}]}),
        ("prompt", {"messages": MESSAGES, "replaceable": [{"section": "# A", "words": 0}]}),
        ("prompt", {"messages": MESSAGES, "modle": "sim:clerk-1"}),
        ("golden", {"id": "a b", "inputs": {}}),
        ("golden", {"id": "a", "inputs": {}, "checks": []}),
        ("golden", {"id": "a", "inputs": {}, "pass_at": 0}),
        ("golden", {"id": "a", "inputs": {}, "tags": ["a;b"]}),
        ("golden", {"id": "a", "inputs": {}, "turns": [{"usr": "x"}]}),
        ("golden", {"id": "a", "inputs": {}, "max_steps": 101}),
        ("golden", {"id": "and", "inputs": {}}),
        ("golden", {"id": "a"}),
        ("golden", [{"id": "a", "inputs": {}, "expcted": 1}]),
        ("golden", {"id": "a", "inputs": {}, "tier": "high"}),
        ("settings", {"tool": {"regauge": {"trails": 3}}}),
        ("settings", {"tool": {"regauge": {"trials": 0}}}),
        ("settings", {"tool": {"regauge": {"gate": {"alpha_case": 2}}}}),
    ],
)
def test_what_a_reader_refuses_an_editor_marks(name: str, value: object):
    assert diagnostics(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prompt", {"messages": MESSAGES, "version": "2.0.0-rc.1", "model": None, "x-own": [1]}),
        ("prompt", {"messages": MESSAGES, "modelParameters": {"maxOutputTokens": 5, "odd": 1}}),
        ("prompt", {"messages": MESSAGES, "inputs": {"a": None, "b": "text", "c": {"default": 1}}}),
        ("prompt", {"messages": MESSAGES, "responseFormat": {"type": "json_object"}}),
        ("prompt", {"messages": MESSAGES, "tools": {"file": "tools.yml"}, "toolChoice": "auto"}),
        ("prompt", {"messages": [{"history": "turns"}], "changelog": None}),
        (
            "prompt",
            {"messages": MESSAGES, "evaluators": [{"name": "a", "string": {"equals": "b"}}]},
        ),
        ("golden", {"id": "a/b.c", "inputs": {"x": [1]}, "expected": None, "tier": None}),
        ("golden", {"id": "a", "inputs": {}, "turns": [{"user": ["x", {"image": "a.png"}]}]}),
    ],
)
def test_what_a_reader_takes_an_editor_does_not_mark(name: str, value: object):
    assert diagnostics(name, value) == []


def test_the_settings_say_what_they_mean():
    """The words are those of the docstrings; a setting without any helps nobody in an editor."""
    tables = json.loads(schema_text("settings"))["$defs"]
    silent = [
        f"{table}.{name}"
        for table, schema in tables.items()
        for name, value in schema["properties"].items()
        if "description" not in value
    ]
    assert silent == [
        "PriceSettings.input_per_million",
        "PriceSettings.output_per_million",
        "PriceSettings.cached_input_per_million",
        "Settings.providers",
    ]
