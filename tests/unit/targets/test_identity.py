"""The identity of a target is all that its outputs depend on, in files and settings."""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import GoldenCase
from regauge.errors import DatasetError, PromptError, UsageError
from regauge.project import CommandTarget, HttpTarget, Project, PythonTarget, RecordedTarget
from regauge.prompts import Repository, parse_prompt
from regauge.targets import CommitFiles, WorkingFiles, lint_targets, load_target, settings_of_target
from regauge.targets._target import MODULES_FILE, digests_of, loaded_modules

if TYPE_CHECKING:
    from pathlib import Path

PROMPT = "version: 1.0.0\nmessages:\n  - role: user\n    content: Hello {{x}}\n"
CASE = GoldenCase(id="a", inputs={"x": "1"}, split="train")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with code, a prompt and recorded outputs."""
    root = tmp_path.resolve() / "project"
    files = {
        "app/a.py": "a",
        "app/b.txt": "b",
        "app/.hidden": "h",
        "app/__pycache__/a.pyc": "c",
        "src/lib/__init__.py": "lib",
        "one.py": "one",
        "prompts/hi.prompt.yml": PROMPT,
        "prompts/ho.prompt.yaml": PROMPT,
        "fixtures/outputs/app.jsonl": '{"case": "a", "text": "Hi."}\n',
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_files_of_directories_count_except_hidden_ones(root: Path):
    files = WorkingFiles(root)
    found = digests_of(files, ["one.py", "app", "none", "empty"])
    assert found == {
        "one.py": digest("one"),
        "app/a.py": digest("a"),
        "app/b.txt": digest("b"),
        "none": None,
        "empty": None,
    }


def test_the_files_of_a_commit_are_those_below_the_project(root: Path):
    top = root.parent
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (("init", "-q"), ("add", "-A", "-f"), ("commit", "-qm", "one")):
        subprocess.run(["git", *identity, *command], cwd=top, check=True, capture_output=True)
    repository = Repository.open(top)
    files = CommitFiles(repository=repository, commit=repository.commit("HEAD"), prefix="project")
    paths = ["one.py", "app", "none"]
    in_commit = digests_of(files, iter(paths))
    assert in_commit == digests_of(WorkingFiles(root), paths)
    # What a target writes next to its code is no change of it; a file that git tracks is.
    (top / ".gitignore").write_text("*.log\n*.txt\nkept/\n")
    for name in ("app/out.log", "app/kept/cache"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("written by a call")
    assert digests_of(WorkingFiles(root), paths) == in_commit
    (root / "app/new.py").write_text("new")
    assert "app/new.py" in digests_of(WorkingFiles(root), paths)
    (root / "app/new.py").unlink()
    (root / "app/a.py").write_text("changed")
    assert digests_of(files, paths) == in_commit != digests_of(WorkingFiles(root), paths)


def test_a_list_of_modules_is_kept_until_one_changes(root: Path):
    files = WorkingFiles(root)
    calls: list[int] = []

    def discover() -> list[str]:
        calls.append(1)
        return ["one.py"]

    def load(**more: Any) -> dict[str, str | None]:
        return loaded_modules("one:run", files, root=root, **{"discover": discover, **more})

    list_file = root / MODULES_FILE
    list_file.parent.mkdir()
    list_file.write_text('{"öther:run": {"x.py": "1"}, "odd": 3}')
    assert load() == load() == load(discover=None) == {"one.py": digest("one")}
    assert len(calls) == 1
    assert list_file.read_text() == (
        '{\n "one:run": {\n  "one.py": "' + digest("one") + '"\n },\n'
        ' "öther:run": {\n  "x.py": "1"\n }\n}\n'
    )
    (root / "one.py").write_text("two")
    assert load(discover=None) == {"one.py": digest("two")}
    assert load() == {"one.py": digest("two")}
    assert len(calls) == 2
    for damaged in ("<<<<<<< HEAD", "[1]"):
        list_file.write_text(damaged)
        assert load(discover=None) == {"one.py": digest("two")}
    assert load(discover=None, fallback_paths=["app/a.py"]) == {"app/a.py": digest("a")}
    assert load(discover=list) == {"one.py": digest("two")}
    assert list_file.read_text() == "[1]"
    found = loaded_modules("lib:run", files, root=root, discover=None)
    assert found == {"src/lib/__init__.py": digest("lib")}


def load(root: Path, settings: Any, **more: Any) -> Any:
    return load_target("app", settings, root=root, files=WorkingFiles(root), **more)


def test_limits_prices_and_notes_change_no_identity(root: Path):
    plain = load(root, HttpTarget(url="http://a/"))
    limits: dict[str, Any] = {
        "concurrency": 2, "timeout_s": 3, "deadline_s": 4, "max_attempts": 5, "cost_usd": 6,
        "base": "other", "changelog": [{"version": "2.0.0", "text": "x"}],
    }  # fmt: skip
    other = load(root, HttpTarget(url="http://a/", **limits))
    assert other.digest == plain.digest
    assert plain.identity == {
        "kind": "http", "url": "http://a/", "method": "POST", "headers_env": {}, "files": {},
    }  # fmt: skip
    assert (plain.version, other.version) == ("", "2.0.0")
    versioned = load(root, HttpTarget(url="http://a/", version="7", **limits))
    assert (versioned.version, versioned.digest == plain.digest) == ("7", False)
    assert str(plain.model) == "http:app"


def test_files_and_prompts_are_part_of_the_identity(root: Path):
    settings = CommandTarget(argv=["x"], files=["one.py"], prompts=["hi", "ho"])
    target = load(root, settings)
    prompt = parse_prompt(PROMPT, path=root / "prompts/hi.prompt.yml")
    assert target.identity["files"] == {"one.py": digest("one")}
    assert target.identity["prompts"] == {"hi": prompt.digest, "ho": prompt.digest}
    request = target.request(CASE, 3, origin="run")
    assert (request.provider, request.model, request.trial) == ("command", "app", 3)
    assert request.parameters["target"] == target.digest
    assert (request.case, request.origin, "outputs" in request.parameters) == (CASE, "run", False)
    subject = target.describe_subject("eval", path=root / "pyproject.toml")
    assert json.loads(subject.source)["prompts"] == target.identity["prompts"]
    assert subject.parameters == {"target": target.digest}


def test_a_candidate_text_replaces_one_prompt_and_must_be_loaded(root: Path, tmp_path: Path):
    target = load(root, CommandTarget(argv=["x"], prompts=["hi", "ho"]))
    edited = parse_prompt(PROMPT.replace("Hello", "Hi"), path=root / "prompts/hi.prompt.yml")
    directory = tmp_path / "candidates"
    directory.mkdir()
    candidate = target.with_candidate(edited, directory)
    assert candidate.prompts == (edited, target.prompts[1])
    assert candidate.identity["prompts"]["hi"] == edited.digest != target.prompts[0].digest
    assert (target.as_declared, candidate.as_declared) == (True, False)
    target.check_candidate_loaded()
    with pytest.raises(UsageError, match=r"app ran without load_prompt\('hi'\), so"):
        candidate.check_candidate_loaded()
    (directory / "hi.prompt.loaded").touch()
    candidate.check_candidate_loaded()


def test_recorded_outputs_count_wherever_they_are(root: Path):
    target = load(root, RecordedTarget(path="outputs/app.jsonl"))
    assert target.identity == {"kind": "recorded", "files": {}}
    parameters = target.request(CASE, 0, origin="run").parameters
    assert parameters["outputs"] == target.outputs.digest_of_case("a")
    subject = target.describe_subject("eval", path=root)
    assert subject.parameters["outputs"] == target.outputs.digest
    with pytest.raises(DatasetError, match=r"outputs/none\.jsonl"):
        load(root, RecordedTarget(path="outputs/none.jsonl"))


def test_a_declared_file_that_is_missing_is_named(root: Path):
    settings = CommandTarget(argv=["x"], files=["one.py", "none.py"])
    with pytest.raises(UsageError, match=r"targets\.app\.files: there is no none\.py\n  fix: corr"):
        load(root, settings)
    assert load(root, settings, missing_ok=True).identity["files"]["none.py"] is None
    with pytest.raises(
        PromptError, match=r"prompts/no\.prompt\.yml: no such file\n  fix: correct `"
    ):
        load(root, CommandTarget(argv=["x"], prompts=["no"]))


def test_without_a_list_the_modules_are_those_of_the_target_it_is_compared_with(root: Path):
    settings = PythonTarget(callable="lib:run")
    like = load(root, CommandTarget(argv=["x"], files=["one.py"]))
    assert list(load(root, settings, like=like).identity["files"]) == ["one.py"]
    assert list(load(root, settings).identity["files"]) == ["src/lib/__init__.py"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "app:",
            "'app:' is not a callable\n  fix: write module:function, such as app.pipeline:run",
        ),
        ("shpo", "no target 'shpo'; declared: other, shop\n  fix: did you mean 'shop'?\n"),
        ("lib.run", "fix: did you mean 'lib:run'?\n"),
        ("zzzzz", "declared: other, shop\n  fix: declare [tool.regauge.targets.zzzzz]"),
    ],
)
def test_a_name_without_a_target_is_explained(root: Path, name: str, words: str):
    project = configured(root, SHOP)
    with pytest.raises(UsageError) as caught:
        settings_of_target(name, project.settings)
    assert words in f"{caught.value}\n"
    assert settings_of_target("lib:run", project.settings) == (
        "lib:run",
        PythonTarget(callable="lib:run"),
    )
    assert settings_of_target("shop", project.settings)[1].kind == "command"


SHOP = """\
[tool.regauge.targets.shop]
kind = "command"
argv = ["x"]
[tool.regauge.targets.other]
kind = "command"
argv = ["x"]
"""


def configured(root: Path, text: str) -> Project:
    (root / "pyproject.toml").write_text(f"[tool.regauge]\n{text}")
    return Project.find(root)


@pytest.mark.parametrize(
    ("table", "errors", "warnings"),
    [
        ('kind = "command"\nargv = ["x"]\nversion = "1"', [], []),
        ('kind = "command"\nargv = ["x"]\nfiles = ["one.py"]', [], []),
        ('kind = "command"\nargv = ["x"]', [], ["it has neither `files` nor `version`"]),
        (
            'kind = "command"\nargv = ["x"]\nfiles = ["no.py"]',
            ["there is no no.py\n  fix: cor"],
            [],
        ),
        (
            'kind = "command"\nargv = ["x"]\nversion = "1"\nprompts = ["no"]',
            ["prompts/no.prompt.yml: no such file"],
            [],
        ),
        ('kind = "http"\nurl = "http://a/"\nversion = "1"', [], []),
        ('kind = "http"\nurl = "http://a/"', [], ["it has neither `files` nor `version`"]),
        (
            'kind = "http"\nurl = "http://a/"\nversion = "1"\nbase = "b"',
            ["there is no target 'b'"],
            [],
        ),
        ('kind = "http"\nurl = "http://a/"\nversion = "1"\nbase = "app"', [], []),
        (
            'kind = "http"\nurl = "http://a/"\nversion = "1"\nmethod = "GET"',
            [],
            [
                "`url` and `body` name no input, so all cases send the same request\n  fix: write {{n"
            ],
        ),
        (
            'kind = "python"\ncallable = "app.steps:anser"',
            [
                "app/steps.py has no function 'anser'; functions: answer\n  fix: did you mean 'answer'"
            ],
            [],
        ),
        ('kind = "python"\ncallable = "app.steps:answer"', [], []),
        ('kind = "python"\ncallable = "installed.package:answer"', [], []),
        ('kind = "http"\nurl = "http://a/{{x}}"\nversion = "1"\nmethod = "GET"', [], []),
        (
            'kind = "http"\nurl = "http://a/"\nversion = "1"\nbody = {q = 1}',
            [],
            ["`url` and `body` name no input"],
        ),
        ('kind = "http"\nurl = "http://a/"\nversion = "1"\nbody = {q = "{{x}}"}', [], []),
    ],
)
def test_lint_checks_the_settings_of_targets(
    root: Path, table: str, errors: list[str], warnings: list[str]
):
    project = configured(root, f"[tool.regauge.targets.app]\n{table}\n")
    (root / "app").mkdir(exist_ok=True)
    (root / "app/steps.py").write_text("def answer(text):\n    return text\n")
    found = lint_targets(project, {}, ())
    for diagnostics, expected in zip(found, (errors, warnings), strict=True):
        assert len(diagnostics) == len(expected), diagnostics
        for diagnostic, words in zip(diagnostics, expected, strict=True):
            assert words in str(diagnostic)
            assert "pyproject.toml:" in str(diagnostic) or "no such file" in words
