"""What a command of pytest asks for: paths, files of evals and options that select."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.project import Project
from regauge.pytest_items import is_prompt_file
from regauge.pytest_omissions import (
    CollectedEvals,
    CommandLine,
    evals_with_own_code,
    find_omissions,
    may_run_evals,
    uncollected_evals,
)

ROOT = Path("/p")
EVALS = ROOT / "evals"


def command(*paths: Path, typed: bool = True, selection: tuple[str, ...] = ()) -> CommandLine:
    return CommandLine(paths=paths, typed=typed, selection=selection)


@pytest.mark.parametrize(
    ("line", "covered"),
    [
        (command(EVALS), True),
        (command(ROOT), True),
        (command(EVALS / "a"), False),
        (command(EVALS / "test_a.py"), False),
        (command(ROOT / "tests"), False),
        (command(ROOT / "tests", EVALS), True),
        (command(EVALS, selection=("-k disk",)), False),
        (command(EVALS / "a", typed=False), True),
        (command(ROOT / "tests", typed=False), False),
    ],
)
def test_a_command_covers_the_directories_that_it_names(line: CommandLine, covered: bool):  # noqa: FBT001
    assert line.covers(EVALS) is covered


def test_evals_elsewhere_are_covered_by_any_directory(tmp_path: Path):
    evals = tmp_path / "evals"
    (tmp_path / "test_a.py").touch()
    assert command(tmp_path / "lib", tmp_path).covers_all_evals(evals)
    assert not command(tmp_path / "test_a.py").covers_all_evals(evals)
    (tmp_path / "lib").mkdir()
    assert command(tmp_path / "lib").covers_all_evals(evals)
    assert not command(tmp_path / "lib", selection=("-m slow",)).covers_all_evals(evals)
    evals.mkdir()
    assert not command(tmp_path / "lib").covers_all_evals(evals)
    assert command(evals).covers_all_evals(evals)


@pytest.mark.parametrize(
    ("line", "inside"),
    [
        (command(ROOT), [EVALS]),
        (command(EVALS), [EVALS]),
        (command(EVALS / "a", EVALS / "test_b.py"), [EVALS / "a", EVALS / "test_b.py"]),
        (command(EVALS / "a", typed=False), [EVALS]),
        (command(ROOT / "tests"), []),
    ],
)
def test_the_part_of_a_directory_that_a_command_names(line: CommandLine, inside: list[Path]):
    assert list(line.within(EVALS)) == inside


@pytest.mark.parametrize(
    ("words", "selection", "typed"),
    [
        ([], (), False),
        (["evals"], (), True),
        (["evals", "-k", "disk and full"], ("-k disk and full",), True),
        (["-m", "slow", "--lf"], ("-m slow", "--last-failed"), False),
        (["evals/test_a.py::test_a[c0]"], ("evals/test_a.py::test_a[c0]",), True),
        (["--deselect", "a"], ("--deselect ['a']",), False),
        (["-x"], (), False),
    ],
)
def test_the_selection_of_a_command_is_read_without_settings(
    request: pytest.FixtureRequest, words: list[str], selection: tuple[str, ...], *, typed: bool
):
    params = pytest.Config.InvocationParams(args=words, plugins=None, dir=ROOT / "sub")
    parser = request.config._parser
    config: Any = SimpleNamespace(_parser=parser, invocation_params=params, args=["../evals"])
    line = CommandLine.read(config)
    assert (line.selection, line.typed) == (selection, typed)
    first = words[0].partition("::")[0] if typed else "../evals"
    assert line.paths == ((ROOT / "sub" / first).resolve(),)


@pytest.mark.parametrize(
    ("path", "gate", "expected"),
    [
        ("tests", None, False),
        ("tests", "main", True),
        ("evals", None, True),
        ("evals/sub/test_a.py", None, True),
        (".", None, True),
        ("tests evals", None, True),
        ("tests/evals_of_others", None, False),
    ],
)
def test_a_run_of_evals_has_a_gate_or_a_directory_of_them(
    request: pytest.FixtureRequest, tmp_path: Path, path: str, gate: str | None, *, expected: bool
):
    (tmp_path / "evals").mkdir()
    config: Any = SimpleNamespace(
        _parser=request.config._parser,
        invocation_params=pytest.Config.InvocationParams(
            args=path.split(), plugins=None, dir=tmp_path
        ),
        args=[],
        getoption={"--gate": gate}.__getitem__,
    )
    assert may_run_evals(config) is expected


EVAL = "from regauge import golden\n\n@golden('a', judges=[])\ndef test_a(result): ...\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name in ("evals/test_a.py", "evals/sub/test_b.py", "evals/.hidden/test_c.py", "more/d.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(EVAL)
    (tmp_path / "evals/notes.txt").write_text(EVAL)
    return Project(root=tmp_path.resolve())


def test_evals_that_are_not_collected_are_named(project: Project):
    evals = project.root / "evals"

    def missing(line: CommandLine, *collected: str) -> list[str]:
        places = {(project.root / name, 3) for name in collected}
        found = uncollected_evals(project, line, places)
        assert all(list(names) == ["a"] for _, names in found)
        return [
            f"{diagnostic.path}:{diagnostic.line}"
            for diagnostic, _ in uncollected_evals(project, line, places)
        ]

    everything = ["evals/sub/test_b.py:3", "evals/test_a.py:3"]
    assert missing(command(evals)) == everything
    assert missing(command(project.root), "evals/test_a.py") == everything[:1]
    assert missing(command(evals / "sub")) == everything[:1]
    assert missing(command(evals / "test_a.py")) == everything[1:]
    assert missing(command(evals / "notes.txt")) == []
    assert missing(command(project.root), "more/other.py") == [*everything, "more/d.py:3"]


def test_an_eval_with_the_name_of_another_one_is_told_apart(project: Project):
    path = project.root / "evals/test_a.py"
    path.write_text(EVAL + EVAL.partition("\n")[2])
    (found,) = uncollected_evals(project, command(path), {(path, 6)})
    assert str(found[0]) == (
        "evals/test_a.py:3: the eval at line 6 has the name of this one, test_a, so nothing measures"
        " it\n  fix: rename one of them"
    )


def test_evals_with_code_of_their_own_are_named(project: Project):
    path = project.root / "evals/test_a.py"
    path.write_text(f"{EVAL}\n{EVAL.replace(': ...', ':')}    if result:\n        assert result\n")
    places = {(path, line) for line in (3, 8)}
    assert evals_with_own_code(project, places) == ["evals/test_a.py:8"]
    assert evals_with_own_code(project, {(path, 3)}) == []


def test_a_command_that_selects_omits_nothing(project: Project):
    def omissions(line: CommandLine) -> list[str]:
        none = CollectedEvals()
        found = find_omissions(project, line, collected_evals=none, selected=())
        return [diagnostic.message for diagnostic in found]

    assert omissions(command(project.root, selection=("-k x",))) == []
    assert len(omissions(command(project.root))) == 2
    message = "pytest does not collect the eval test_a, so nothing measures it"
    assert set(omissions(command(project.root))) == {message}


@pytest.mark.parametrize(
    ("name", "text", "is_prompt"),
    [
        ("a.prompt.yml", "", True),
        ("a-prompt.yaml", "", True),
        ("a_prompt.yml", "", True),
        ("aprompt.yml", "", False),
        ("a.yml", "messages: []\ntestData: []\n", True),
        ("a.yml", "messages: []\n", False),
        ("a.yml", "steps:\n  - run: x\n", False),
        ("a.yml", None, False),
    ],
)
def test_a_yaml_file_is_a_prompt_by_its_name_or_its_keys(
    tmp_path: Path, name: str, text: str | None, *, is_prompt: bool
):
    path = tmp_path / name
    if text is None:
        path.mkdir()
    else:
        path.write_text(text)
    assert is_prompt_file(path) is is_prompt
