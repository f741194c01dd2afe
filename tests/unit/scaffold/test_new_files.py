"""Files of `regauge new`: their names, titles and schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from regauge.errors import UsageError
from regauge.scaffold import NewFile
from regauge.scaffold._files import new_prompt
from regauge.scaffold._working_set import _differs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("alert-severity", "Alert severity"),
        ("Alert.Severity_2", "Alert Severity 2"),
        ("x", "X"),
        ("2nd-alert", "2nd alert"),
        ("7", "7"),
        ("a__b--", "A b"),
    ],
)
def test_a_new_prompt_has_its_name_as_title(tmp_path: Path, name: str, title: str):
    prompt, schema = new_prompt(name, tmp_path)
    assert (prompt.path, schema.path) == (
        f"prompts/{name}.prompt.yml",
        "prompts/prompt.schema.json",
    )
    assert prompt.text.startswith("# yaml-language-server: $schema=prompt.schema.json\n")
    assert yaml.safe_load(prompt.text)["name"] == title
    judge, _ = new_prompt(name, tmp_path, is_rubric=True)
    assert judge.path == f"prompts/judges/{name}.prompt.yml"
    assert judge.text.startswith("# yaml-language-server: $schema=../prompt.schema.json\n")
    (tmp_path / "prompts").mkdir()
    (tmp_path / schema.path).write_text(schema.text)
    assert len(new_prompt(name, tmp_path)) == 1


@pytest.mark.parametrize("name", ["", "-a", "ä", "a/b", "a" * 101, "a b"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str):
    with pytest.raises(UsageError, match="cannot be the name of a prompt or dataset"):
        new_prompt(name, tmp_path)


def test_a_name_that_is_taken_is_refused_whatever_its_case(tmp_path: Path):
    (tmp_path / "prompts/team").mkdir(parents=True)
    (tmp_path / "prompts/team/Greet.prompt.yml").write_text("")
    for is_rubric in (False, True):
        with pytest.raises(UsageError, match="there is a prompt 'Greet' already"):
            new_prompt("greet", tmp_path, is_rubric=is_rubric)
    assert new_prompt("greeting", tmp_path)


@pytest.mark.parametrize(
    ("kind", "differs"),
    [("none", False), ("same", False), ("other", True), ("folder", True), ("link", True)],
)
def test_a_planned_file_differs_from_whatever_else_has_its_name(
    tmp_path: Path, kind: str, *, differs: bool
):
    path = tmp_path / "a.txt"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("nowhere")
    elif kind != "none":
        path.write_text(kind)
    assert _differs(tmp_path, NewFile(path="a.txt", text="same")) is differs
