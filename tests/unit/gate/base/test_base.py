"""What a suite is compared with, in real git repositories."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.digests import digest_of
from regauge.errors import GitError, UsageError
from regauge.files import read_regular
from regauge.gate import find_base
from regauge.gate._base import check_locks, compare_with_base
from regauge.gate._coverage import coverage_of
from regauge.gate._types import TrialFacts
from regauge.gate.baselines import (
    Baseline,
    BaselineError,
    Session,
    StoredBaseline,
    StoredTrials,
    key_of,
    save_baseline,
)
from regauge.judges import JudgeStatus, contains, contains_all, max_words
from regauge.project import Project
from regauge.runner import EvalSession, RunOptions, golden, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.gate import EvalBase
    from regauge.runner import Eval

PROMPT = """\
name: Greeter
model: sim:clerk-1
version: 1.0.0
messages:
  - role: user
    content: "Greet {{who}}."
"""
CASES = [{"id": "ann", "inputs": {"who": "Ann"}}, {"id": "bob", "inputs": {"who": "Bob"}}]


class Repo:
    """A project with one prompt, on a branch that left main."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git_in(root.parent, "init", "--quiet", "--initial-branch=main", str(root))
        self.write("pyproject.toml", "[tool.regauge]\n")
        self.write("prompts/greet.prompt.yml", PROMPT)
        self.golden(CASES)
        self.release()

    def git_in(self, directory: Path, *arguments: str) -> str:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ann",
            "GIT_AUTHOR_EMAIL": "ann@example.org",
            "GIT_COMMITTER_NAME": "Ann",
            "GIT_COMMITTER_EMAIL": "ann@example.org",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "protocol.file.allow",
            "GIT_CONFIG_VALUE_0": "always",
        }
        command = ["git", "-C", str(directory), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return done.stdout.strip()

    def git(self, *arguments: str) -> str:
        return self.git_in(self.root, *arguments)

    @property
    def project(self) -> Project:
        return Project(root=self.root)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def golden(self, cases: list[dict[str, Any]], name: str = "greet") -> None:
        self.write(f"fixtures/golden/{name}.jsonl", "".join(json.dumps(c) + "\n" for c in cases))

    def prompt(self, old: str, new: str, *, version: str | None = "1.1.0") -> None:
        text = (self.root / "prompts/greet.prompt.yml").read_text().replace(old, new)
        if version is not None:
            text = text.replace("version: 1.0.0", f"version: {version}")
        self.write("prompts/greet.prompt.yml", text)

    def release(self, name: str = "greet") -> None:
        from regauge.prompts import load_prompt, lock_of

        lock_of(self.project.prompts_dir).add(load_prompt(name, root=self.root)).save()

    def commit(self, subject: str = "change") -> str:
        self.git("add", "--all", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def branch(self) -> None:
        self.git("checkout", "--quiet", "-b", "topic")

    def suite(
        self,
        name: str = "greet",
        *,
        judges: tuple[Any, ...] = (),
        model: str | None = None,
        dataset: str | None = None,
    ) -> Eval:
        @golden(name, dataset=dataset, judges=judges or (max_words(40),))
        def test_greet(result):
            result.check()

        spec = spec_of(test_greet)
        assert spec is not None
        options = RunOptions(record="none", models=(model,) if model else ())
        (suite,) = EvalSession(self.project, options, environ={}).bind(spec, test_greet)
        return replace(suite, directory="evals")  # its function is in this file

    def base(self, ref: str = "main", *, suite: Eval | None = None, **more: Any) -> EvalBase:
        return compare_with_base(suite or self.suite(), find_base(self.project, ref), **more)

    def baseline(self, suite: Eval, *, passed: bool = True) -> Baseline:
        """Two trials of every case, written where the project keeps them."""
        key = key_of(suite)
        facts = TrialFacts(checks=dict.fromkeys(key.judges, passed), output_digest="a" * 64)
        cases = {
            case.id: StoredTrials(digest=case.digest[:16]).add(100, facts).add(101, facts)
            for case in suite.dataset
        }
        session = Session(id="2026-11-20T09:00:00Z", first=100, last=101)
        stored_baseline = StoredBaseline(key=key, version="1.0.0", sessions=(session,), cases=cases)
        baseline = Baseline(prompt=suite.prompt.name, baselines=(stored_baseline,))
        save_baseline(self.project.baseline_path(suite.prompt.name), baseline)
        return baseline


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    repo = Repo(tmp_path / "project")
    repo.baseline(repo.suite())
    repo.commit("main")
    repo.branch()
    return repo


def states(base: EvalBase) -> dict[str, str]:
    return {case.case: case.state for case in base.cases}


def names_on_base(base: EvalBase, suite: Eval) -> tuple[str, str, str]:
    """The names of a prompt, of its eval and of its dataset on the base."""
    commit = base.base_commit
    prompt = commit.prompt_name(suite.prompt)
    return prompt, commit.eval_name(suite), commit.dataset_name(suite.dataset, prompt=prompt)


def test_a_branch_that_changed_nothing_has_nothing_to_draw(repo: Repo):
    repo.write("README.md", "words\n")
    repo.commit()
    base = repo.base()
    assert base.unchanged
    assert states(base) == {"ann": "unchanged", "bob": "unchanged"}
    assert (base.breaches, base.refusals, base.notes) == ((), (), ())


def test_a_changed_prompt_is_compared_with_what_base_is_known_for(repo: Repo):
    repo.prompt("Greet", "Kindly greet")
    repo.release()
    repo.commit()
    base = repo.base()
    assert states(base) == {"ann": "changed", "bob": "changed"}
    assert [str(case.baseline.total) for case in base.cases if case.baseline] == ["2 of 2"] * 2
    assert base.base is not None
    assert base.base.prompt.messages[0].content == "Greet {{who}}."
    assert base.candidate.prompt.messages[0].content == "Kindly greet {{who}}."
    assert base.breaches == ()


def test_the_working_tree_is_compared_as_it_is_and_called_dirty(repo: Repo):
    assert find_base(repo.project, "main").dirty is False
    repo.prompt("Greet", "Kindly greet")
    base = repo.base()
    assert base.base_commit.dirty
    assert states(base)["ann"] == "changed"
    assert [breach.rule for breach in base.breaches] == ["not-released"]


def test_commits_of_base_after_the_branch_left_it_do_not_count_as_changes_of_the_branch(
    repo: Repo,
):
    repo.git("checkout", "--quiet", "main")
    repo.prompt("Greet", "Curtly greet")
    repo.release()
    repo.commit()
    repo.git("checkout", "--quiet", "topic")
    assert repo.base().unchanged


def test_base_merged_into_the_branch_moves_the_base(repo: Repo):
    repo.write("notes.md", "x")
    repo.commit()
    repo.git("checkout", "--quiet", "main")
    repo.prompt("Greet", "Curtly greet")
    repo.release()
    tip = repo.commit()
    repo.git("checkout", "--quiet", "topic")
    repo.git("merge", "--quiet", "--no-edit", "main")
    base = repo.base()
    assert base.base_commit.commit == tip
    assert base.unchanged


def test_a_detached_head_is_as_good_as_a_branch(repo: Repo):
    repo.prompt("Greet", "Kindly greet")
    repo.release()
    repo.git("checkout", "--quiet", "--detach", repo.commit())
    assert states(repo.base())["bob"] == "changed"


def test_a_ref_that_does_not_exist_is_named(repo: Repo):
    none = "there is no branch, tag or commit"
    for ref, told in (
        ("origin/main", rf"{none} 'origin/main'\n  fix: compare with the .*: regauge gate main;"),
        ("mian", rf"{none} 'mian'\n  fix: did you mean 'main'\?"),
        ("nope", rf"{none} 'nope'\n  fix: regauge gate main$"),
        ("main~99", r"there is no main~99: main has \d commits? before it\n  fix: "),
    ):
        with pytest.raises(GitError, match=told):
            repo.base(ref)
    repo.git("remote", "add", "origin", str(repo.root))
    with pytest.raises(GitError, match=rf"{none} 'origin/new'\n  fix: git fetch origin$"):
        repo.base("origin/new")
    repo.git("branch", "--move", "main", "elsewhere")
    for number in range(6):
        repo.git("branch", f"old-{number}")
    with pytest.raises(GitError, match=rf"{none} 'nope'\n  fix: name one of (\S+, ){{4}}\S+$"):
        repo.base("nope")


def test_a_clone_that_was_cut_off_says_how_to_get_the_rest(repo: Repo, tmp_path: Path):
    repo.prompt("Greet", "Kindly greet")
    repo.commit()
    repo.git("checkout", "--quiet", "main")
    repo.write("x", "y")
    repo.commit()
    clone = tmp_path / "clone"
    url = repo.root.as_uri()
    repo.git_in(tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", url, str(clone))
    repo.git_in(clone, "checkout", "--quiet", "topic")
    with pytest.raises(GitError, match=r"no commit in common(.|\n)*--unshallow(.|\n)*fetch-depth"):
        find_base(Project(root=clone), "origin/main")
    with pytest.raises(GitError, match=r"no commit 'v1'\n(.|\n)*fetch-depth: 0"):
        find_base(Project(root=clone), "v1")


def test_without_commits_or_a_repository_there_is_nothing_to_compare_with(tmp_path: Path):
    with pytest.raises(GitError, match="is not in a git repository"):
        find_base(Project(root=tmp_path), "main")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    with pytest.raises(GitError, match="nothing is committed"):
        find_base(Project(root=tmp_path), "main")


def test_a_prompt_that_is_new_on_the_branch_has_no_base(repo: Repo):
    repo.write("prompts/bye.prompt.yml", PROMPT.replace("Greet", "Leave"))
    repo.golden([{"id": "ann", "inputs": {"who": "Ann"}}], "bye")
    repo.release("bye")
    base = repo.base(suite=repo.suite("bye"))
    assert names_on_base(base, repo.suite("bye")) == ("bye", "bye", "bye")
    assert names_on_base(base, repo.suite()) == ("greet", "greet", "greet")
    assert base.base is None
    assert states(base) == {"ann": "new"}
    assert base.notes == ("bye is new: main has no version of it to compare with",)
    assert base.breaches == ()


def test_a_prompt_file_that_was_renamed_keeps_its_base_and_its_history(repo: Repo):
    repo.git("mv", "prompts/greet.prompt.yml", "prompts/hello.prompt.yml")
    repo.git("mv", "fixtures/golden/greet.jsonl", "fixtures/golden/hello.jsonl")
    text = (repo.root / "prompts/hello.prompt.yml").read_text()
    repo.write("prompts/hello.prompt.yml", text.replace("Greet {{", "Kindly greet {{"))
    repo.commit()
    base = repo.base(suite=repo.suite("hello"))
    assert names_on_base(base, repo.suite("hello")) == ("greet", "greet", "greet")
    assert states(base) == {"ann": "changed", "bob": "changed"}
    assert base.notes[0] == "hello was called greet in main"
    assert base.base_commit.deleted_prompts() == ()


def test_a_rename_that_git_was_not_told_of_is_found_by_the_title(repo: Repo):
    (repo.root / "prompts/greet.prompt.yml").rename(repo.root / "prompts/hello.prompt.yml")
    (repo.root / "fixtures/golden/greet.jsonl").rename(repo.root / "fixtures/golden/hello.jsonl")
    text = (repo.root / "prompts/hello.prompt.yml").read_text()
    repo.write("prompts/hello.prompt.yml", text.replace("Greet {{", "Say hello to {{"))
    base = repo.base(suite=repo.suite("hello"))
    assert names_on_base(base, repo.suite("hello")) == ("greet", "greet", "greet")
    assert states(base) == {"ann": "changed", "bob": "changed"}
    assert find_base(repo.project, "main").deleted_prompts() == ()


def test_a_prompt_that_was_deleted_is_named(repo: Repo):
    (repo.root / "prompts/greet.prompt.yml").unlink()
    repo.commit()
    assert find_base(repo.project, "main").deleted_prompts() == ("greet",)


def test_new_changed_and_removed_cases_are_told_apart(repo: Repo):
    repo.golden(
        [
            {"id": "ann", "inputs": {"who": "Ann"}, "expected": "Hello"},
            {"id": "cy", "inputs": {"who": "Cy"}},
        ]
    )
    base = repo.base()
    assert states(base) == {"ann": "unchanged", "cy": "new", "bob": "removed"}
    assert not base.unchanged
    assert [case.accepted for case in base.cases if case.case == "bob"] == [""]
    assert base.notes == (
        (
            "1 case has other inputs or expectations than on the base; none of these runs, as the"
            " prompt is unchanged; pytest runs them: ann"
        ),
    )


def test_cases_of_a_dataset_that_the_change_adds_are_new(repo: Repo):
    """A changed prompt is compared on them side by side, as base can have them as well."""
    repo.golden([{"id": "dan", "inputs": {"who": "Dan"}}], "more")
    assert states(repo.base(suite=repo.suite(dataset="more"))) == {"dan": "new"}
    repo.prompt("Greet", "Please greet")
    assert states(repo.base(suite=repo.suite(dataset="more"))) == {"dan": "changed"}


def test_base_is_read_through_submodules_and_pointers_of_git_lfs(repo: Repo, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    repo.git_in(other, "init", "--quiet")
    (other / "words").mkdir()
    for name in ("words/a.txt", "b.txt"):
        (other / name).write_text("then\n")
    repo.git_in(other, "add", "--all")
    repo.git_in(other, "commit", "--quiet", "--message", "words")
    repo.git("submodule", "--quiet", "add", str(other), "shared")
    content = b"the content\n"
    digest = hashlib.sha256(content).hexdigest()
    stored = repo.root / ".git/lfs/objects" / digest[:2] / digest[2:4] / digest
    stored.parent.mkdir(parents=True)
    stored.write_bytes(content)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12\n"
    repo.write("large.txt", pointer.format(digest))
    repo.write("absent.txt", pointer.format("0" * 64))
    commit = repo.commit("main")
    (repo.root / "shared/words/a.txt").write_text("now\n")
    repository = find_base(repo.project, commit).repository
    names = ["large.txt", "shared/words/a.txt", "shared/c.txt", "absent.txt"]
    *contents, absent = repository.read_all((commit, name) for name in names)
    assert contents == [content, b"then\n", None]
    assert absent == pointer.format("0" * 64).encode()
    assert repository.files(commit, "shared/words") == ["shared/words/a.txt"]
    assert {"shared/b.txt", "shared/words/a.txt"} <= {*repository.files(commit, ".")}
    with pytest.raises(OSError, match="a pointer of Git LFS, whose content is missing"):
        read_regular(repo.root / "absent.txt")


CHANGELOG = """\
changelog:
  - version: 1.1.0
    text: Fewer people.
    removed:
      - {case: bob, reason: He left.}
    accepted:
      - {case: ann, reason: She knows.}
"""


def test_what_the_changelog_says_of_cases_goes_with_them(repo: Repo):
    repo.golden(CASES[:1])
    repo.prompt("messages:", CHANGELOG + "messages:", version=None)
    base = repo.base()
    assert {case.case: case.accepted for case in base.cases} == {
        "bob": "He left.",
        "ann": "She knows.",
    }
    assert base.changelog_errors == ()


def test_what_an_older_change_accepted_does_not_count_again(repo: Repo):
    repo.git("checkout", "--quiet", "main")
    repo.prompt("messages:", CHANGELOG + "messages:", version=None)
    repo.commit()
    repo.git("checkout", "--quiet", "-B", "topic")
    assert {case.accepted for case in repo.base().cases} == {""}


def test_an_acknowledgement_of_no_case_is_an_error_with_its_line(repo: Repo):
    text = CHANGELOG.replace("case: ann", "case: anne")
    repo.prompt("messages:", text + "messages:", version=None)
    assert [str(diagnostic) for diagnostic in repo.base().changelog_errors] == [
        (
            "prompts/greet.prompt.yml:10: `accepted` names 'anne', which is not a golden case of greet\n"
            "  fix: name a case by its id"
        ),
        (
            "prompts/greet.prompt.yml:8: `removed` names 'bob', which is still there\n"
            "  fix: take it out of the changelog"
        ),
    ]


def test_a_changed_judge_is_refused_with_the_digests_that_differ(repo: Repo):
    repo.prompt("Greet", "Kindly greet")
    repo.write("evals/test_greet.py", "# other judges\n")
    suite = repo.suite(judges=(contains("Hello"),))
    base = repo.base(suite=suite)
    assert [refusal.part for refusal in base.refusals] == ["judge"]
    refusal = base.refusals[0]
    assert refusal.prompt_changed
    assert base.baseline is None
    assert str(refusal).splitlines() == [
        "greet: this change is judged differently than the base, so nothing is compared",
        "  judge " + repr(suite.judges[0].name) + " is new",
        "  judge " + repr(max_words(40).name) + " is gone",
        (
            "  fix: merge the change of the judges on its own, then compare the prompt;"
            " in between run `regauge baseline update greet` on main"
        ),
    ]


def test_a_judge_that_lost_its_calibration_is_to_be_calibrated_first(repo: Repo):
    repo.prompt("Greet", "Kindly greet")
    repo.write("evals/test_greet.py", "# another rubric\n")
    judge = max_words(40)
    informs = {judge.name: JudgeStatus(blocking=False, reason="the rubric changed since")}
    suite = replace(repo.suite(judges=(judge, contains("Hello"))), judge_statuses=informs)
    (refusal,) = repo.base(suite=suite).refusals
    told = f"judge {judge.name!r} was blocking and is advisory now: the rubric changed since"
    assert told in refusal.details
    calibrate = f"regauge judges calibrate {shlex.quote(judge.name)}"
    assert refusal.fix.startswith(f"{calibrate}, so that it counts again; then merge")


def test_a_baseline_older_than_the_judges_of_base_is_not_the_error_of_a_branch(repo: Repo):
    repo.prompt("Greet", "Kindly greet")
    base = repo.base(suite=repo.suite(judges=(contains("Hello"),)))
    assert base.refusals == ()
    assert base.baseline is None
    assert base.notes[0].startswith("the baseline of greet is not used, as it differs")


@pytest.mark.parametrize("negated", [False, True])
def test_rules_that_regauge_changed_are_not_the_error_of_a_branch(repo: Repo, *, negated: bool):
    """A newer regauge comes with a changed lock file, as a changed judge might."""
    rule = contains_all("Hello", "Ann")
    made = ~rule if negated else rule
    old = digest_of({"kind": "contains_all", "version": 1, "reading": 1, "params": rule.params})
    if negated:
        old = digest_of({"kind": "not", "version": 1, "params": {"judge": old}})
    repo.git("checkout", "--quiet", "main")
    repo.baseline(repo.suite(judges=(made,)))
    path = repo.project.baseline_path("greet")
    path.write_text(path.read_text().replace(made.digest, old))
    repo.commit("baseline of an older regauge")
    repo.git("checkout", "--quiet", "-B", "topic")
    repo.prompt("Greet", "Kindly greet")
    repo.write("requirements.lock", "regauge==2.0.0\n")
    base = repo.base(suite=repo.suite(judges=(made,)))
    assert base.refusals == ()
    (note,) = base.notes
    assert note.startswith("regauge changed these rules since the baseline of greet: contains_all")
    assert note.endswith("after the merge: regauge baseline update greet")


def test_rules_that_regauge_changed_are_not_the_error_of_a_branch_in_checks_of_cases(repo: Repo):
    repo.git("checkout", "--quiet", "main")
    repo.golden([{**case, "checks": [{"contains": "Ann"}]} for case in CASES])
    suite = repo.suite()
    repo.baseline(suite)
    key = key_of(suite)
    older = {**key.rules, "reading": 1, "is_refusal": 1}
    rules = {name: version for name, version in older.items() if name != "reading"}
    made_of = {"kind": "checks", "version": 1, "reading": 1, "rules": rules}
    path = repo.project.baseline_path("greet")
    document = json.loads(path.read_text().replace(key.judges["checks"], digest_of(made_of)))
    document["baselines"][0]["rules"] = older
    path.write_text(json.dumps(document))
    repo.commit("baseline of an older regauge")
    repo.git("checkout", "--quiet", "-B", "topic")
    repo.prompt("Greet", "Kindly greet")
    repo.write("requirements.lock", "regauge==2.0.0\n")
    base = repo.base()
    assert base.refusals == ()
    (note,) = base.notes
    assert note.startswith("regauge changed these rules since the baseline of greet: is_refusal")
    path.write_text(path.read_text().replace('"is_refusal": 1', '"is_refusal": 4'))
    repo.commit("versions that do not make the digest")
    repo.git("branch", "--force", "main")
    assert "regauge changed" not in " ".join(repo.base().notes)


def test_another_model_is_refused_unless_models_are_compared_on_purpose(repo: Repo):
    repo.prompt("sim:clerk-1", "sim:clerk-2")
    base = repo.base()
    assert [refusal.part for refusal in base.refusals] == ["model"]
    assert "regauge gate main --model sim:clerk-2" in base.refusals[0].fix
    across = repo.base(across_models=True)
    assert across.refusals == ()
    assert across.base is not None
    assert str(across.base.model) == "sim:clerk-1"
    assert states(across) == {"ann": "changed", "bob": "changed"}


def test_one_prompt_is_compared_on_two_models(repo: Repo):
    suite = repo.suite(model="sim:other")
    base = repo.base(suite=suite, across_models=True)
    assert (str(base.candidate.model), str(base.base.model if base.base else "")) == (
        "sim:other",
        "sim:clerk-1",
    )
    assert base.baseline is not None


def test_the_newest_baseline_of_base_counts_though_the_branch_left_before_it(tmp_path: Path):
    repo = Repo(tmp_path / "project")
    repo.commit("main")
    repo.branch()
    repo.git("checkout", "--quiet", "main")
    repo.baseline(repo.suite())
    repo.commit("baseline")
    repo.git("checkout", "--quiet", "topic")
    repo.prompt("Greet", "Kindly greet")
    base = repo.base()
    assert base.baseline is not None
    # A baseline that the branch itself brings is not main's word.
    repo.git("checkout", "--quiet", "--", ".")
    repo.git("branch", "--quiet", "--force", "main", "topic")
    repo.baseline(repo.suite())
    repo.commit("mine")
    assert repo.base().baseline is None


def test_a_case_that_base_cannot_be_asked_counts_as_new(repo: Repo):
    repo.prompt("Greet {{who}}.", "Greet {{who}} of {{town}}.")
    repo.golden([{"id": "ann", "inputs": {"who": "Ann", "town": "Ulm"}}, CASES[1]])
    assert states(repo.base())["ann"] == "new"


def test_a_lock_that_lost_a_release_is_a_breach(repo: Repo):
    repo.write("prompts/prompts.lock", "")
    (breach,) = check_locks(find_base(repo.project, "main"))
    assert breach.rule == "lock"
    assert "greet@1.0.0 was removed; main has it" in str(breach)


def test_a_suite_in_which_no_judge_decides_is_refused(repo: Repo):
    suite = replace(repo.suite(), judges=())
    with pytest.raises(UsageError, match="no judge decides"):
        key_of(suite)


def test_a_broken_file_of_base_keeps_nobody_from_mending_it(repo: Repo):
    repo.git("checkout", "--quiet", "main")
    good = (repo.root / "prompts/greet.prompt.yml").read_text()
    repo.write("prompts/greet.prompt.yml", good + "  - role: sytem\n    content: x\n")
    repo.write("fixtures/baselines/greet.json", "{\n")
    repo.write("fixtures/golden/greet.jsonl", "{\n")
    repo.write("prompts/prompts.lock", "<<<<<<< HEAD\n")
    repo.commit("broken")
    repo.git("checkout", "--quiet", "-B", "topic")
    repo.write("prompts/greet.prompt.yml", good)
    repo.golden(CASES)
    repo.write("prompts/prompts.lock", "")
    repo.git("rm", "--quiet", "fixtures/baselines/greet.json")
    repo.release()
    base = repo.base()
    assert base.base is None
    assert states(base) == {"ann": "new", "bob": "new"}
    assert [note.split(": ")[0] for note in base.notes] == [
        "prompts/greet.prompt.yml:7 of main cannot be read and is left out",
        "fixtures/golden/greet.jsonl:1 of main cannot be read and is left out",
        "prompts/prompts.lock:1 of main cannot be read and is left out",
    ]


def test_a_broken_baseline_of_base_is_no_baseline_and_one_of_the_change_is_refused(repo: Repo):
    repo.git("checkout", "--quiet", "main")
    repo.write("fixtures/baselines/greet.json", "{\n")
    repo.commit("broken")
    repo.git("checkout", "--quiet", "-B", "topic")
    repo.prompt("Greet", "Kindly greet")
    fix = "or delete the file; then run: regauge baseline update greet"
    with pytest.raises(
        BaselineError, match=rf"^fixtures/baselines/greet.json:2: not JSON.*\n.*{fix}"
    ):
        repo.base()
    repo.git("rm", "--quiet", "fixtures/baselines/greet.json")
    base = repo.base()
    assert base.baseline is None
    assert states(base) == {"ann": "changed", "bob": "changed"}
    assert base.notes[0].startswith("fixtures/baselines/greet.json:")


def test_critical_cases_that_base_has_not_proven_are_named(repo: Repo):
    repo.golden([CASES[0] | {"tier": "critical"}, CASES[1]])
    repo.prompt("Greet", "Kindly greet")
    base = repo.base()
    assert base.notes == (
        (
            "greet: 1 critical case is treated as required until base has passed 20 of"
            " 20 trials; so far ann 2 of 2: regauge baseline update greet runs more, in sessions an"
            " hour apart"
        ),
    )
    assert [case.tier for case in base.cases] == ["required", "required"]


@pytest.mark.parametrize(("passed", "tier"), [(20, "critical"), (19, "required")])
def test_a_case_is_critical_once_base_passed_twenty_of_twenty_trials(
    repo: Repo, passed: int, tier: str
):
    repo.git("checkout", "--quiet", "main")
    repo.golden([CASES[0] | {"tier": "critical"}, CASES[1]])
    suite = repo.suite()
    (baseline,) = repo.baseline(suite).baselines
    proven = StoredTrials(digest=baseline.cases["ann"].digest)
    for number in range(20):
        checks = dict.fromkeys(baseline.key.judges, number < passed)
        proven = proven.add(100 + number, TrialFacts(checks=checks, output_digest="a" * 64))
    session = Session(id="2026-11-20T09:00:00Z", first=100, last=119)
    cases = {**baseline.cases, "ann": proven}
    baseline = replace(baseline, sessions=(session,), cases=cases)
    save_baseline(
        repo.project.baseline_path("greet"), Baseline(prompt="greet", baselines=(baseline,))
    )
    repo.commit("main")
    repo.git("checkout", "--quiet", "-B", "topic")
    repo.prompt("Greet", "Kindly greet")
    base = repo.base()
    assert [case.tier for case in base.cases] == [tier, "required"]
    assert bool(base.notes) == (tier == "required")


def test_what_base_measures_and_a_run_does_not_is_unmeasured(repo: Repo):
    at = find_base(repo.project, "main")
    assert coverage_of(at, [repo.suite()], is_filtered=False).notes == ()
    assert coverage_of(at, [], is_filtered=True).notes == (
        ("no eval of this run measures greet, as main does; it is not compared"),
    )
    (diagnostic,) = coverage_of(at, [], is_filtered=False).unmeasured
    assert str(diagnostic) == (
        "fixtures/baselines/greet.json: main has a baseline of greet (dataset greet), and no eval"
        " measures it any more\n"
        "  fix: put the eval back; or, if it is given up on purpose, git rm"
        " fixtures/baselines/greet.json"
    )
    assert coverage_of(at, [], omissions=[diagnostic], is_filtered=False).unmeasured == ()
    repo.git("rm", "--quiet", "fixtures/baselines/greet.json")
    coverage = coverage_of(find_base(repo.project, "main"), [], is_filtered=False)
    assert coverage.unmeasured == ()
    assert "this change removes it and its eval" in coverage.notes[0]
    repo.git("checkout", "--quiet", "HEAD", "fixtures")
    repo.git("rm", "--quiet", "prompts/greet.prompt.yml")
    coverage = coverage_of(find_base(repo.project, "main"), [], is_filtered=False)
    assert (coverage.unmeasured, coverage.notes) == ((), ())


def test_a_changed_prompt_that_no_eval_measures_is_unmeasured(repo: Repo):
    repo.prompt("Greet", "Kindly greet")
    at = find_base(repo.project, "main")
    assert coverage_of(at, [repo.suite()], is_filtered=False).unmeasured == ()
    (diagnostic,) = coverage_of(at, [], is_filtered=False).unmeasured
    assert str(diagnostic) == (
        "prompts/greet.prompt.yml: greet changed, and no eval measures it\n"
        "  fix: regauge new eval greet"
    )
    assert coverage_of(at, [], is_filtered=True).notes[0] == (
        "greet changed, and no selected eval measures it as it is now"
    )
    dataset = repo.suite().dataset
    other = replace(dataset, name="second", path=dataset.path.with_name("second.jsonl"))
    assert [*coverage_of(at, [], is_filtered=True).unselected] == ["greet"]
    assert [*coverage_of(at, [repo.suite()], is_filtered=True).unselected] == []
    assert [
        *coverage_of(at, [replace(repo.suite(), dataset=other)], is_filtered=True).unselected
    ] == ["greet (dataset greet)"]
    draft = PROMPT.replace("version: 1.0.0\n", "")
    repo.write("prompts/draft.prompt.yml", draft.replace("Greeter", "Draft"))
    repo.write("prompts/other.prompt.yml", PROMPT.replace("Greeter", "Other"))
    coverage = coverage_of(find_base(repo.project, "main"), [repo.suite()], is_filtered=False)
    assert [diagnostic.message for diagnostic in coverage.unmeasured] == [
        "other is new, and no eval measures it"
    ]


def test_evals_and_datasets_that_a_selection_leaves_out_are_named(repo: Repo):
    evals = "@golden('greet', judges=[])\ndef test_{}(result): ...\n"
    source = "from regauge import golden\n" + "".join(map(evals.format, "ab"))
    repo.git("checkout", "--quiet", "main")
    repo.write("evals/test_greet.py", source)
    repo.commit()
    repo.git("checkout", "--quiet", "-B", "topic")
    at = find_base(repo.project, "main")
    assert [*coverage_of(at, [repo.suite()], is_filtered=True).unselected] == []
    repo.prompt("Greet", "Kindly greet")
    at = find_base(repo.project, "main")
    assert [*coverage_of(at, [repo.suite()], is_filtered=True).unselected] == [
        "1 of 2 evals of greet"
    ]
    repo.prompt("Kindly greet", "Greet")
    golden = repo.project.golden_dir / "greet.jsonl"
    golden.write_text(golden.read_text() + "\n")
    at = find_base(repo.project, "main")
    assert [*coverage_of(at, [], is_filtered=True).unselected] == ["greet (dataset greet)"]
    # A dataset without a baseline.
    (golden.parent / "extra.jsonl").write_text('{"id": "a", "inputs": {}}\n')
    at = find_base(repo.project, "main")
    assert [*coverage_of(at, [], is_filtered=True).unselected] == [
        "greet (dataset greet)",
        "dataset extra",
    ]


def test_code_that_no_eval_uses_changes_no_judge(repo: Repo):
    """The baseline is older than main's judges then, and the branch is not to blame for it."""
    repo.write("service/app.py", "print()\n")
    assert repo.base(suite=repo.suite(judges=(contains("Hello"),))).refusals == ()
    repo.write("evals/judging.py", "LIMIT = 40\n")
    refusals = repo.base(suite=repo.suite(judges=(contains("Hello"),))).refusals
    assert [refusal.prompt_changed for refusal in refusals] == [False]
    assert "regauge gate main --accept-judge-change 'WHY', or the label" in refusals[0].fix


def test_another_version_of_base_tells_its_judges_where_the_newest_has_no_baseline(repo: Repo):
    repo.git("checkout", "--quiet", "main")
    repo.prompt("Greet", "Kindly greet", version="1.1.0")
    repo.commit("main")
    repo.git("checkout", "--quiet", "-B", "topic")
    assert repo.base().refusals == ()
    repo.write("evals/test_greet.py", "# other judges\n")
    assert repo.base().refusals == ()
    (refusal,) = repo.base(suite=repo.suite(judges=(contains("Hello"),))).refusals
    assert refusal.part == "judge"
