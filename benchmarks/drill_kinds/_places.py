"""Odd places for a project and odd options of pytest: the results are those of a plain run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ._project import Ended, Project, commit_all, copied, pytest_command, recorded_tickets
from ._try import Drill, Try

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["PLACES"]


def _same(project: Project) -> Project:
    return project


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A project that is moved or changed, and the surroundings of a command.

    Attributes:
        codes: Exit codes that fit, by the first word of a command; 0 where it is absent.
    """

    prepare: Callable[[Project], Project] = _same
    environ: dict[str, str] = field(default_factory=dict[str, str])
    shell: str = ":"
    flags: tuple[str, ...] = ()
    codes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


_COMMANDS = {
    "pytest": pytest_command("evals", "-q", "--record=none"),
    "lint": [sys.executable, "-m", "regauge", "lint"],
    "record": [sys.executable, "-m", "regauge", "record"],
    "gate": [sys.executable, "-m", "regauge", "gate", "main", "--record=none"],
    "runs": [sys.executable, "-m", "regauge", "runs", "list", "--json"],
}


def _moved(name: str) -> Callable[[Project], Project]:
    def move(project: Project) -> Project:
        target = project.root.parent / name / "project"
        target.parent.mkdir(parents=True)
        shutil.move(project.root, target)
        return _at(project, target)

    return move


def _at(project: Project, root: Path) -> Project:
    moved = Project(root)
    moved.home = project.home
    return moved


def _linked(name: str) -> Callable[[Project], Project]:
    """A directory of the project that is a link to one outside."""

    def link(project: Project) -> Project:
        outside = project.root.parent / f"outside-{name}"
        shutil.move(project.root / name, outside)
        (project.root / name).symlink_to(outside, target_is_directory=True)
        commit_all(project, "linked")
        project.git("branch", "-f", "main") if _branch(project) != "main" else None
        return project

    return link


def _branch(project: Project) -> str:
    return project.git("branch", "--show-current")


def _root_linked(project: Project) -> Project:
    link = project.root.parent / "link"
    link.symlink_to(project.root, target_is_directory=True)
    return _at(project, link)


def _detached(project: Project) -> Project:
    project.git("checkout", "-q", "--detach")
    return project


def _shallow(project: Project) -> Project:
    commit_all(project, "second")
    target = project.root.parent / "shallow"
    project.git("clone", "-q", "--depth", "1", f"file://{project.root}", str(target))
    return _at(project, target)


def _worktree(project: Project) -> Project:
    target = project.root.parent / "tree"
    project.git("worktree", "add", "-q", str(target))
    return _at(project, target)


def _sparse(project: Project) -> Project:
    project.write({"more/large.txt": "x\n"})
    commit_all(project, "more")
    project.git("sparse-checkout", "set", "prompts", "fixtures", "evals")
    return project


def _submodule(project: Project) -> Project:
    outer = Project(project.root.parent / "outer")
    outer.root.mkdir()
    outer.git("init", "-q", "-b", "main")
    outer.git(
        "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(project.root), "inner"
    )
    inner = _at(project, outer.root / "inner")
    inner.git("checkout", "-q", "-B", "main")
    return inner


def _nested(project: Project) -> Project:
    """A project below the root of its repository, as in a monorepo."""
    outer = Project(project.root.parent / "mono")
    outer.root.mkdir()
    shutil.move(project.root, outer.root / "packages é")
    inner = _at(project, outer.root / "packages é")
    shutil.rmtree(inner.root / ".git")
    outer.git("init", "-q", "-b", "main")
    commit_all(outer)
    return inner


def _without_git(project: Project) -> Project:
    shutil.rmtree(project.root / ".git")
    return project


def _unborn(project: Project) -> Project:
    shutil.rmtree(project.root / ".git")
    project.git("init", "-q", "-b", "main")
    return project


def _crlf(project: Project) -> Project:
    """As Git for Windows checks files out."""
    project.git("config", "core.autocrlf", "true")
    for path in project.files(".jsonl", ".yml", ".toml", ".py", ".lock"):
        path.unlink()
    project.git("checkout", "-q", "--", ".")
    return project


def _read_only(name: str) -> Callable[[Project], Project]:
    def change(project: Project) -> Project:
        for path in [project.root / name, *(project.root / name).rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        return project

    return change


def _other_case(project: Project) -> Project:
    """A name that a case-insensitive file system takes for another."""
    path = project.root / "prompts/ticket-kind.prompt.yml"
    path.rename(path.with_name("Ticket-Kind.prompt.yml"))
    return project


def _old_times(project: Project) -> Project:
    for number, path in enumerate(project.files()):
        os.utime(path, (0, 0) if number % 2 else (4_000_000_000, 4_000_000_000))
    return project


def _backup_files(project: Project) -> Project:
    """What editors, systems and merges leave behind."""
    for directory, name in (
        ("prompts", "ticket-kind.prompt.yml"),
        ("fixtures/golden", "ticket-kind.jsonl"),
        ("fixtures/recordings", "ticket-kind.jsonl"),
    ):
        text = (project.root / directory / name).read_text(encoding="utf-8")
        left = (f"{name}~", f".{name}.swp", f"#{name}#", f"{name}.orig", f"._{name}", ".DS_Store")
        project.write({f"{directory}/{each}": text for each in left})
    return project


def _future_state(project: Project) -> Project:
    """State and a record of a version of regauge that does not exist yet."""
    ended = project.pytest("evals", "-q", "--record=none")
    assert ended.code == 0, ended.text
    for path in (project.root / ".regauge/runs").glob("*/run.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        document["schema_version"] += 1
        document["regauge_version"] = "99.0"
        path.write_text(json.dumps(document), encoding="utf-8")
    return project


_NO_BASE = {"gate": (2, 3)}
_PLACES: dict[str, _Place] = {
    "blanks and quotes in the path": _Place(prepare=_moved("a b  'c' \"d\"")),
    "a newline in the path": _Place(prepare=_moved("a\nb")),
    "other scripts in the path": _Place(prepare=_moved("Größe 測試 ة e\u0301")),
    "a colon in the path": _Place(prepare=_moved("a:b;c")),
    "patterns in the path": _Place(prepare=_moved("[a]*?{b}$HOME%20#x")),
    "a leading dash in the path": _Place(prepare=_moved("-rf")),
    "linked prompts": _Place(prepare=_linked("prompts"), codes={"gate": (0, 2)}),
    "linked fixtures": _Place(prepare=_linked("fixtures"), codes={"gate": (0, 2)}),
    "linked evals": _Place(prepare=_linked("evals"), codes={"gate": (0, 2)}),
    "a linked root": _Place(prepare=_root_linked),
    "a detached HEAD": _Place(prepare=_detached),
    "a shallow clone": _Place(prepare=_shallow),
    "a worktree": _Place(prepare=_worktree),
    "a sparse checkout": _Place(prepare=_sparse),
    "a submodule": _Place(prepare=_submodule),
    "a directory of a monorepo": _Place(prepare=_nested),
    "no repository": _Place(prepare=_without_git, codes=_NO_BASE),
    "a repository without commits": _Place(prepare=_unborn, codes=_NO_BASE),
    "line ends of Windows": _Place(prepare=_crlf),
    "read-only fixtures": _Place(prepare=_read_only("fixtures")),
    "read-only prompts": _Place(prepare=_read_only("prompts")),
    "a name in another case": _Place(
        prepare=_other_case, codes=dict.fromkeys(("pytest", "lint", "record", "gate"), (1, 2, 3))
    ),
    "times of 1970 and 2096": _Place(prepare=_old_times),
    "files that editors leave": _Place(prepare=_backup_files),
    "a newer regauge": _Place(prepare=_future_state, codes={"runs": (0, 2)}),
    "no HOME": _Place(shell="unset HOME"),
    "an odd time zone": _Place(environ={"TZ": "Pacific/Chatham"}),
    "a time zone that does not exist": _Place(environ={"TZ": ":nowhere/x"}),
    "Turkish": _Place(environ={"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}),
    "plain ASCII": _Place(environ={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "output in ASCII": _Place(environ={"PYTHONIOENCODING": "ascii"}),
    "output in cp1252": _Place(environ={"PYTHONIOENCODING": "cp1252"}),
    "umask 077": _Place(shell="umask 077"),
    "no standard input": _Place(shell="exec 0<&-"),
    # pytest itself ends with 1 there, since its fault handler has no stream.
    "no standard error": _Place(shell="exec 2>&-", codes={"pytest": (1,)}),
    "a narrow terminal": _Place(environ={"COLUMNS": "1", "LINES": "1"}),
    "no columns": _Place(environ={"COLUMNS": "0", "TERM": "dumb"}),
    "python -O": _Place(flags=("-O",)),
    "python -OO": _Place(flags=("-OO",)),
    "python -I": _Place(flags=("-I",)),
    "python -P": _Place(flags=("-P",)),
    "python -X dev": _Place(flags=("-X", "dev")),
    "python -W error": _Place(flags=("-W", "error")),
    "python -b -b": _Place(flags=("-bb",)),
    "variables of git": _Place(
        environ={
            "GIT_EDITOR": "false",
            "GIT_PAGER": "false",
            "GIT_EXTERNAL_DIFF": "false",
            "GIT_TRACE": "1",
        }
    ),
    "git in another language": _Place(environ={"LANGUAGE": "de", "LANG": "de_DE.UTF-8"}),
    "git that asks": _Place(environ={"GIT_TERMINAL_PROMPT": "1", "GIT_ASKPASS": "false"}),
}

_OPTIONS: dict[str, tuple[str, ...]] = {
    "-p no:cacheprovider": ("-p", "no:cacheprovider"),
    "-p no:terminal": ("-p", "no:terminal"),
    "-p no:logging": ("-p", "no:logging"),
    "-p no:warnings": ("-p", "no:warnings"),
    "-p no:junitxml": ("-p", "no:junitxml"),
    "-p no:skipping": ("-p", "no:skipping"),
    "-p no:unraisableexception": ("-p", "no:unraisableexception", "-p", "no:threadexception"),
    "-p no:tmpdir": ("-p", "no:tmpdir"),
    "-p no:assertion": ("--assert=plain",),
    "-s": ("-s",),
    "--capture=sys": ("--capture=sys",),
    "--import-mode=importlib": ("--import-mode=importlib",),
    "--import-mode=append": ("--import-mode=append",),
    "-c": ("-c", "other.ini"),
    "--strict-markers": ("--strict-markers", "--strict-config"),
    "-W error": ("-W", "error"),
    "-W error, xdist": ("-W", "error", "-n", "2"),
    "--dist loadfile": ("-n", "2", "--dist", "loadfile"),
    "--dist loadgroup": ("-n", "2", "--dist", "loadgroup"),
    "--dist loadscope": ("-n", "2", "--dist", "loadscope"),
    "--dist worksteal": ("-n", "2", "--dist", "worksteal"),
    "--dist each": ("-n", "2", "--dist", "each"),
    "--dist no": ("-n", "2", "--dist", "no"),
    "-n 0": ("-n", "0"),
    "-n 2, --maxprocesses 1": ("-n", "2", "--maxprocesses", "1"),
    "--lf": ("--lf",),
    "--ff --nf": ("--ff", "--nf"),
    "--sw": ("--sw",),
    "--durations": ("--durations=0", "-vv"),
    "--setup-show": ("--setup-show",),
    "--full-trace --tb=short": ("--full-trace", "--tb=short", "-l"),
    "--tb=no --no-header --no-summary": ("--tb=no", "--no-header", "--no-summary"),
    "--junitxml": ("--junitxml=junit.xml", "-o", "junit_family=xunit1"),
    "--color=yes": ("--color=yes", "--code-highlight=yes"),
    "--basetemp": ("--basetemp=temp",),
    "--debug": ("--debug=debug.log",),
    "--pdb": ("--pdb",),
    "--trace-config": ("--trace-config",),
    "-q -q -q": ("-qqq",),
    "-vvv": ("-vvv",),
    "a case by its id": ("evals/test_ticket_kind.py::test_ticket_kind[add-tag]",),
    "the same path twice": ("evals", "evals/test_ticket_kind.py"),
    "--keep-duplicates": ("--keep-duplicates", "evals"),
    "--pyargs": ("--pyargs",),
    "--doctest-modules": ("--doctest-modules",),
    "--maxfail": ("--maxfail=1", "-x"),
    "--show-capture=no": ("--show-capture=no", "-rA"),
}


def _tries(shared: Path) -> Iterator[Try]:
    base = recorded_tickets(shared)
    for name, place in _PLACES.items():
        yield Try(name=name, failure=partial(_placed, base, place))
    for name, words in _OPTIONS.items():
        yield Try(name=f"pytest {name}", failure=partial(_with_options, base, words))
    yield Try(name="pytest --rootdir", failure=partial(_with_options, base, ("--rootdir", "..")))
    yield Try(name="from a directory below", failure=partial(_below, base))
    yield Try(name="from outside", failure=partial(_outside, base))
    yield Try(name="50,000 cases", failure=partial(_many_cases, base))


def _placed(base: Project, place: _Place, root: Path) -> str:
    project = place.prepare(copied(base, root))
    wrong: list[str] = []
    for name, command in _COMMANDS.items():
        words = [command[0], *place.flags, *command[1:]]
        script = f"{place.shell}\nexec {shlex.join(words)}"
        ended = project.run(["/bin/bash", "-c", script], env=place.environ)
        wrong += filter(None, [_wrong(name, ended, place.codes.get(name, (0,)))])
    return "".join(wrong)


def _with_options(base: Project, words: tuple[str, ...], root: Path) -> str:
    project = copied(base, root)
    project.write({"other.ini": "[pytest]\n"})
    evals = () if words[0].startswith("evals") else ("evals",)
    ended = project.pytest(*evals, *words, "--record=none")
    return _wrong("pytest", ended, (0,)) or _measured(project, 1 if "[" in words[0] else 10)


def _measured(project: Project, cases: int) -> str:
    rows = project.last_rows()
    passed = {str(row["case"]) for row in rows if row["case_outcome"] == "passed"}
    return "" if len(passed) == cases else f"{len(passed)} cases in the record, not {cases}"


def _wrong(name: str, ended: Ended, codes: tuple[int, ...]) -> str:
    if "Traceback (most recent call last)" in ended.text or "INTERNALERROR" in ended.text:
        return f"\n    {name}: traceback: {ended.tail(3)}"
    if ended.code not in codes:
        return f"\n    {name}: exit code {ended.code}: {ended.tail(3)}"
    return ""


def _below(base: Project, root: Path) -> str:
    project = copied(base, root)
    inside = _at(project, project.root / "fixtures/golden")
    wrong = _wrong("pytest", inside.pytest("../../evals", "--record=none"), (0,))
    wrong += _wrong("lint", inside.regauge("lint"), (0,))
    return wrong or _measured(project, 10)


def _outside(base: Project, root: Path) -> str:
    project = copied(base, root)
    elsewhere = _at(project, root / "elsewhere")
    elsewhere.root.mkdir()
    ended = elsewhere.pytest(str(project.root / "evals"), "--record=none")
    return _wrong("pytest", ended, (0,)) or _measured(project, 10)


def _many_cases(base: Project, root: Path) -> str:
    project = copied(base, root)
    path = project.root / "fixtures/golden/ticket-kind.jsonl"
    first = path.read_text(encoding="utf-8")
    more = (
        {"id": f"m{number}", "inputs": {"ticket": f"An error {number}"}, "expected": "bug"}
        for number in range(50_000)
    )
    path.write_text(first + "".join(json.dumps(case) + "\n" for case in more), encoding="utf-8")
    ended = project.pytest("evals", "-q", "--record=none", "-k", "add-tag")
    wrong = _wrong("pytest -k", ended, (0,)) or _measured(project, 1)
    return wrong + _wrong("record --dry-run", project.regauge("record", "--dry-run"), (0,))


PLACES = Drill(
    name="places",
    about="odd places for a project and odd options of pytest, which changed a result",
    tries=_tries,
    quick=8,
)
