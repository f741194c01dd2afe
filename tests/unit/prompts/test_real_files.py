"""Prompt files that people published: each loads and renders, or fails with one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regauge.errors import PromptError
from regauge.prompts import load_prompt

DATA = Path(__file__).parents[2] / "data"
FILES = [source["file"] for source in json.loads((DATA / "prompt_files/SOURCES.json").read_text())]

# By file: how many messages it renders to, or the line and the words of its error.
EXPECTED: dict[str, int | tuple[int, str]] = {
    "actions+ai-inference/__fixtures__/prompts/simple.prompt.yml": 2,
    "github+ai-assessment-comment-labeler/prompt_examples/ai-slop.prompt.yml": 2,
    "github+ai-assessment-comment-labeler/prompt_examples/spam-detection.prompt.yml": 2,
    "github+gh-models/examples/advanced_template_prompt.yml": 2,
    "github+gh-models/examples/json_response_prompt.yml": 2,
    "github+gh-models/examples/sample_prompt.yml": 2,
    "github+gh-models/examples/test_builtins.yml": 2,
    "github+gh-models/examples/test_single_evaluator.yml": 1,
    "github+github-mcp-server/.github/prompts/bug-report-review.prompt.yml": 2,
    "prettier+prettier-vscode/.github/prompts/issue-triage.prompt.yml": 2,
    "rodoHasArrived+Meridian/.github/prompts/add-export-format.prompt.yml": 2,
    "rodoHasArrived+Meridian/.github/prompts/configure-deployment.prompt.yml": 2,
    "rodoHasArrived+Meridian/.github/prompts/fix-build-errors.prompt.yml": (10, "key: value"),
    "rodoHasArrived+Meridian/.github/prompts/fix-test-failures.prompt.yml": (10, "key: value"),
    "rodoHasArrived+Meridian/.github/prompts/project-context.prompt.yml": 2,
    "rodoHasArrived+Meridian/.github/prompts/troubleshoot-issue.prompt.yml": 2,
    "rodoHasArrived+Meridian/.github/prompts/workflow-results-test-matrix.prompt.yml": (
        21,
        "key: value",
    ),
    "rodoHasArrived+Meridian/.github/prompts/write-unit-tests.prompt.yml": 2,
    "tadanobutubutu+screeps/.github/prompts/code-review.prompt.yml": (10, "another tool's format"),
}


def test_the_table_names_every_file():
    assert sorted(f"prompt_files/{name}" for name in EXPECTED) == sorted(FILES)


@pytest.mark.parametrize("file", EXPECTED)
def test_a_published_file_renders_or_fails_with_one_error(file):
    path = DATA / "prompt_files" / file
    expected = EXPECTED[file]
    if isinstance(expected, tuple):
        with pytest.raises(PromptError) as caught:
            load_prompt(path)
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.path, diagnostic.line) == (path, expected[0])
        assert expected[1] in diagnostic.message
        assert diagnostic.fix
        return
    prompt = load_prompt(path)
    messages = prompt.render({name: f"<{name}>" for name in prompt.variables})
    assert len(messages) == expected
    text = "\n".join(message.content for message in messages)
    assert prompt.variables
    assert all(f"<{name}>" in text for name in prompt.variables)
    assert "{{" not in text
    assert prompt.warnings == ()


def test_published_settings_arrive_under_one_name():
    path = DATA / "prompt_files"
    builtins = load_prompt(path / "github+gh-models/examples/test_builtins.yml")
    assert builtins.parameters == {"temperature": 0.5, "max_tokens": 100}
    assert [evaluator.kind for evaluator in builtins.evaluators] == ["uses"] * 5
    assert builtins.evaluators[0].body == "github/similarity"
    triage = load_prompt(path / "prettier+prettier-vscode/.github/prompts/issue-triage.prompt.yml")
    assert triage.parameters == {"max_tokens": 300}
    answer = load_prompt(path / "github+gh-models/examples/json_response_prompt.yml")
    assert answer.response_format == {"type": "json_object"}
    assert answer.test_data[1] == {"topic": "climate change"}
