"""git is the store of versions: real repositories, real commits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from regauge.errors import GitError, PromptError, UsageError
from regauge.prompts import (
    CANDIDATES_ENV,
    Repository,
    bump,
    load_prompt,
    lock_of,
    text_at,
    version_records,
)
from regauge.prompts._parse import prompt_name
from regauge.prompts._versions import read_prompt_text

TEXT = "name: Greet\nmessages:\n  - role: user\n    content: Say hello to {{x}}.\n"


def release(path: Path, part: str, note: str = "") -> None:
    text = path.read_text(encoding="utf-8")
    result = bump(text, part, path=path, lock=lock_of(path), note=note, date="2025-01-01")
    path.write_text(result.prompt.source, encoding="utf-8")
    result.lock.save()


def change(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


@pytest.fixture
def greet(project):
    """1.0.0 and 1.1.0 released and committed, a typo in between, then renamed."""
    path = project.write("greet", TEXT)
    project.commit("draft")
    release(path, "major", "First.")
    project.commit("release 1.0.0")
    change(path, "hello", "hullo")
    project.commit("a change without a release")
    change(path, "hullo", "good morning")
    release(path, "minor", "Say it with: manners")
    project.commit("release 1.1.0")
    return path


def test_an_old_version_is_loaded_in_its_released_state(project, greet):
    old = load_prompt("greet", version="1.0.0", root=project.root)
    assert "hello" in old.messages[0].content
    assert (old.name, old.path, str(old.version)) == ("greet", greet, "1.0.0")
    change(greet, "morning", "evening")
    newest = load_prompt("greet", "1.1.0", root=project.root)
    assert "good morning" in newest.messages[0].content


def test_a_version_that_was_never_released_is_its_newest_commit(project):
    path = project.write("draft", f"version: 0.1.0\n{TEXT}")
    project.commit("one")
    change(path, "hello", "hi")
    project.commit("two")
    change(path, "0.1.0", "0.2.0")
    assert "hi" in load_prompt("draft", "0.1.0", root=project.root).messages[0].content
    assert str(load_prompt("draft", "0.2.0", root=project.root).version) == "0.2.0"


def test_versions_survive_a_rename(project, greet):
    project.git("mv", "prompts/greet.prompt.yml", "prompts/salute.prompt.yml")
    project.commit("rename")
    old = load_prompt("salute", "1.0.0", root=project.root)
    assert old.name == "salute"
    assert text_at(project.prompts / "salute.prompt.yml", "HEAD~1").startswith("version: 1.1.0")


def test_every_version_is_listed_with_its_first_commit(project, greet):
    change(greet, "1.1.0\nchangelog", "1.2.0\nchangelog")
    records = version_records(greet, Repository.open(project.root))
    shown = [(str(r.version), r.released, r.date, r.text, bool(r.commit)) for r in records]
    assert shown == [
        ("1.2.0", False, "", "", False),
        ("1.1.0", True, "2025-06-04", "Say it with: manners", True),
        ("1.0.0", True, "2025-06-02", "First.", True),
    ]
    without_git = version_records(greet, None)
    assert [r.digest for r in without_git] == [r.digest for r in records]


def test_what_is_prefetched_is_read_as_ever_and_starts_no_further_process(
    project, greet, tmp_path, monkeypatch
):
    names = ("prompts/greet.prompt.yml", "prompts/prompts.lock", "prompts/none.yml")
    directories = ("prompts", "evals", ".")
    alone, repository = Repository.open(project.root), Repository.open(project.root)
    commit = alone.commit("HEAD")
    repository.prefetch(commit, paths=names, directories=directories)
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(trace))
    contents = [repository.read(commit, name) for name in names]
    listings = [repository.files(commit, directory) for directory in directories]
    assert not trace.exists()
    assert contents == [alone.read(commit, name) for name in names]
    assert listings == [alone.files(commit, directory) for directory in directories]
    assert trace.exists()
    assert contents[2] is None
    assert listings == [[*names[:2]], [], [*names[:2]]]


def test_a_version_that_no_commit_has_is_an_error(project, greet):
    with pytest.raises(
        GitError, match=r"no commit has version 3\.0\.0 .*there are: 1\.1\.0, 1\.0\.0"
    ):
        load_prompt("greet", "3.0.0", root=project.root)
    with pytest.raises(UsageError, match="'new' is not a version"):
        load_prompt("greet", "new", root=project.root)


def test_a_release_whose_content_was_never_committed_is_an_error(project, greet):
    change(greet, "good morning", "good night")
    release(greet, "minor")
    change(greet, "good night", "good day")
    project.commit("not what was released")
    with pytest.raises(GitError, match=r"greet@1\.2\.0 was released with digest"):
        load_prompt("greet", "1.2.0", root=project.root)


def test_a_release_that_was_never_committed_is_an_error(project, greet):
    change(greet, "good morning", "good night")
    release(greet, "minor")
    change(greet, "good night", "good day")
    with pytest.raises(GitError, match=r"greet@1\.2\.0 was released, but never committed"):
        load_prompt("greet", "1.2.0", root=project.root)


def test_a_shallow_clone_says_so(project, greet, tmp_path):
    clone = tmp_path / "clone"
    command = ["git", "clone", "--quiet", "--depth=1", f"file://{project.root}", str(clone)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(GitError, match="git fetch --unshallow"):
        load_prompt("greet", "1.0.0", root=clone)
    assert load_prompt("greet", "1.1.0", root=clone).version is not None


def test_outside_of_git_only_the_file_can_be_loaded(tmp_path):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/p.prompt.yml").write_text(f"version: 1.0.0\n{TEXT}")
    assert Repository.find(tmp_path) is None
    assert load_prompt("p", "1.0.0", root=tmp_path).title == "Greet"
    with pytest.raises(GitError, match="not in a git repository"):
        load_prompt("p", "0.9.0", root=tmp_path)


def test_a_repository_that_git_does_not_know_is_none(project, tmp_path):
    (tmp_path / "odd/.git").mkdir(parents=True)
    assert Repository.find(tmp_path / "odd") is None
    project.git("config", "core.worktree", str(tmp_path / "odd"))
    with pytest.raises(GitError, match=r"/\.git names another work tree: .*/odd\n  fix: remove"):
        Repository.find(project.root)


def test_a_link_out_of_the_repository_is_refused(project, greet, tmp_path_factory):
    repository = Repository.open(project.root)
    outside = tmp_path_factory.mktemp("outside") / "p.prompt.yml"
    outside.write_text(TEXT)
    linked, inner = (project.root / f"prompts/{name}.prompt.yml" for name in ("linked", "inner"))
    linked.symlink_to(outside)
    inner.symlink_to(project.root / "prompts/greet.prompt.yml")
    repository.check_inside(inner)
    assert repository.inside(linked) == "prompts/linked.prompt.yml"
    for check, path in [(repository.check_inside, linked), (repository.inside, outside)]:
        with pytest.raises(GitError, match="is outside the git repository"):
            check(path)


def test_first_parents_are_counted(project, greet):
    repository = Repository.open(project.root)
    assert [repository.reaches(ref) for ref in ("HEAD", "HEAD~3", "nope")] == [3, 0, None]


def test_a_candidate_text_replaces_a_prompt_and_is_marked_as_loaded(project, greet, monkeypatch):
    candidates = project.root / "candidates"
    candidates.mkdir()
    monkeypatch.setenv(CANDIDATES_ENV, str(candidates))
    assert "morning" in load_prompt("greet", root=project.root).messages[0].content
    assert list(candidates.iterdir()) == []
    (candidates / "greet.prompt.yml").write_text(TEXT.replace("hello", "hi"))
    prompt = load_prompt("greet", root=project.root)
    assert (prompt.path, "hi to" in prompt.messages[0].content) == (greet, True)
    assert "hello" in load_prompt("greet", "1.0.0", root=project.root).messages[0].content
    assert any(path.suffix == ".loaded" for path in candidates.iterdir())


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("a/greet.prompt.yml", "greet"),
        ("greet.prompt.yaml", "greet"),
        ("greet.yml", "greet"),
        ("greet", "greet"),
        (".yaml", ".yaml"),
    ],
)
def test_the_name_of_a_prompt_is_that_of_its_file(name, prompt):
    assert prompt_name(Path(name)) == prompt


def test_a_prompt_file_that_is_not_there_or_a_loop_is_told(tmp_path):
    with pytest.raises(PromptError, match="there is no such prompt file"):
        read_prompt_text(tmp_path / "no.prompt.yml")
    loop = tmp_path / "loop.prompt.yml"
    loop.symlink_to(loop)
    with pytest.raises(PromptError, match=r"loop\.prompt\.yml"):
        read_prompt_text(loop)


def test_a_missing_git_is_told(project, greet, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitError, match="the program `git` was not found"):
        load_prompt("greet", "1.0.0", root=project.root)


def test_a_repository_without_commits_needs_one(tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    with pytest.raises(
        GitError, match=r"git knows no commit 'HEAD'\n  fix: commit something first"
    ):
        Repository.open(tmp_path).commit("HEAD")


@pytest.mark.parametrize("ref", ["nope", "-x", "--output=x", "HEAD:prompts", "", "HEAD~99", "a b"])
def test_a_ref_that_names_no_commit_is_told(project, greet, ref):
    with pytest.raises(GitError, match="git knows no commit"):
        text_at(greet, ref)


def test_a_ref_without_the_prompt_is_told(project):
    project.write("other", TEXT)
    first = project.commit("one")
    path = project.write("late", TEXT.replace("Greet", "Later than the other one"))
    with pytest.raises(GitError, match=rf"HEAD \({first[:9]}\) has no prompts/late.prompt.yml"):
        text_at(path, "HEAD")


def test_strange_file_names_are_only_names(project):
    for name in ["-x", "[a]*", "größe ü", ":(top)y", 'q"uote']:
        path = project.write(name, f"version: 1.0.0\n{TEXT}")
        project.commit(name)
        assert text_at(path, "HEAD").endswith(TEXT)
        change(path, "1.0.0", "2.0.0")
        assert str(load_prompt(path, "1.0.0").version) == "1.0.0"


def test_commits_that_do_not_parse_are_passed_over(project):
    path = project.write("p", f"version: 1.0.0\n{TEXT}")
    project.commit("good")
    path.write_text(f"version: one\n{TEXT}")
    project.commit("odd")
    path.write_text("version: 1.0.0\nmessages: [\n")
    project.commit("bad")
    path.write_bytes(b"version: 1.0.0\n\xff\xfe\n")
    project.commit("worse")
    assert load_prompt(path, "1.0.0").title == "Greet"
    with pytest.raises(PromptError, match="not UTF-8"):
        load_prompt(path)


def test_names_find_files_below_prompts(project):
    project.write("judges/tone", TEXT)
    project.write("other", TEXT)
    assert load_prompt("tone", root=project.root).name == "tone"
    assert load_prompt("judges/tone", root=project.root).name == "tone"
    with pytest.raises(PromptError, match="did you mean 'other'"):
        load_prompt("othr", root=project.root)
    project.write("tone", TEXT)
    with pytest.raises(PromptError, match="several prompts are named 'tone'"):
        load_prompt("tone", root=project.root)
