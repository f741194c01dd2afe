"""Prompts by name and by path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from regauge.errors import PromptError
from regauge.prompts import find_prompt

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "messages:\n  - role: user\n    content: '{{text}}'\n"
TARGETS = '[tool.regauge.targets.shop]\nkind = "python"\ncallable = "shop:answer"\n'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with prompts, two of one name, and a working directory next to it."""
    root = tmp_path / "project"
    for name in ("alert", "mail/reply", "mail/short", "chat/short"):
        path = root / "prompts" / f"{name}.prompt.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXT, encoding="utf-8")
    (root / "pyproject.toml").write_text(f"[tool.regauge]\n{TARGETS}", encoding="utf-8")
    (tmp_path / "here" / "dir.prompt.yml").mkdir(parents=True)
    for path in ("own.prompt.yml", "prompts/alert.prompt.yml"):
        (tmp_path / "here" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "here" / path).write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    return root


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("alert", "prompts/alert.prompt.yml"),
        ("reply", "prompts/mail/reply.prompt.yml"),
        ("mail/reply", "prompts/mail/reply.prompt.yml"),
        ("chat/short", "prompts/chat/short.prompt.yml"),
        # A path is one below the project first, then below the working directory.
        ("prompts/alert.prompt.yml", "prompts/alert.prompt.yml"),
        ("own.prompt.yml", "../here/own.prompt.yml"),
    ],
)
def test_a_prompt_is_found_by_its_name_or_path(root: Path, name: str, path: str):
    found = find_prompt(name, root=root)
    assert found.resolve() == (root / path).resolve()
    assert found.is_absolute() or name == "own.prompt.yml"
    assert find_prompt(root / path, root=root) == root / path


def test_a_path_without_a_project_is_one_below_the_working_directory(root: Path, tmp_path: Path):
    assert find_prompt("prompts/alert.prompt.yml").resolve() != root / "prompts/alert.prompt.yml"
    assert find_prompt("dir.prompt.yml").resolve() == tmp_path / "here" / "dir.prompt.yml"


@pytest.mark.parametrize(
    ("name", "also", "fix", "words"),
    [
        ("alrt", (), "", "there is no prompt 'alrt'\n  fix: did you mean 'alert'?"),
        ("latst", ("latest",), "x", "did you mean 'latest'?"),
        ("zzz", (), "list them", "there is no prompt 'zzz'\n  fix: list them"),
        ("zzz", (), "", "fix: prompts here: alert, short, reply, short"),
        ("zzz", ("latest",), "", "alert, short, reply, short, latest"),
        ("zzz", ("a", "b", "c", "d", "e", "f"), "", "a, b, c, d, e, f"),
        ("zzz", ("a", "b", "c", "d", "e", "f", "g"), "", "a, b, c, d, e, f, ..."),
        ("shop", (), "x", "which has no prompt file: regauge log shop lists its states"),
        ("short", (), "", "fix: rename all but one: names of prompts are unique"),
        ("no.yml", (), "", "no.yml: there is no such prompt file"),
        ("prompts/no.yaml", (), "", "prompts/no.yaml: there is no such prompt file"),
    ],
)
def test_a_prompt_that_is_not_there_is_an_error_with_what_there_is(
    root: Path, name: str, also: tuple[str, ...], fix: str, words: str
):
    with pytest.raises(PromptError) as caught:
        find_prompt(name, root=root, also=also, fix=fix)
    assert words in str(caught.value)
    assert str(caught.value).count("fix:") <= 1


def test_a_directory_is_no_prompt_file_and_a_project_without_prompts_says_where_to_write_one(
    root: Path, tmp_path: Path
):
    (tmp_path / "here" / "old.yml").mkdir()
    with pytest.raises(PromptError, match=r"old\.yml: this is a directory"):
        find_prompt("old.yml", root=root)
    with pytest.raises(PromptError, match=r"fix: write .*/prompts/zzz\.prompt\.yml"):
        find_prompt("zzz", root=tmp_path)
