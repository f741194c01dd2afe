"""The command line of a run, and the cases and evals that the run omits.

Every run of pytest loads this module, so it imports the modules of evals late.
"""

from __future__ import annotations

import inspect
import os
from argparse import Namespace
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import Diagnostic, RegaugeError, has_no_descriptor
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from regauge.project import Project
    from regauge.runner import Eval, PlannedCase

# Options that select items, by their names in pytest: its own, then those of plugins that split a
# eval.
_SELECTING = {
    "keyword": "-k",
    "markexpr": "-m",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
    "lf": "--last-failed",
    "stepwise": "--stepwise",
    "group": "--group",
    "shard_id": "--shard-id",
    "test_group": "--test-group",
    "testmon": "--testmon",
    "picked": "--picked",
}
# Options that end a run before its first item, by their names in pytest.
_EMPTY_RUN_OPTIONS = {
    "collectonly": "--collect-only",
    "help": "--help",
    "version": "--version",
    "markers": "--markers",
    "showfixtures": "--fixtures",
    "show_fixtures_per_test": "--fixtures-per-test",
    "cacheshow": "--cache-show",
    "setupplan": "--setup-plan",
    "setuponly": "--setup-only",
}

# Options that a gate takes from its command line only, and what they do elsewhere.
_GATE_OPTIONS = {
    "accept_judge_change": "a change could accept its own judges",
    "model": "a change could choose the model that is compared",
}

# For the local store, the event loops, a program and a connection; each worker of xdist has pipes.
_DESCRIPTORS = 14
_DESCRIPTORS_OF_WORKER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The paths and the selection of a pytest command.

    Attributes:
        paths: The absolute files and directories to collect.
        typed: Whether the user named them; otherwise they are pytest's defaults.
        selection: The options and node ids that select items, such as `-k disk`; empty for all
            items.
    """

    paths: tuple[Path, ...]
    typed: bool
    selection: tuple[str, ...]

    @classmethod
    def read(cls, config: pytest.Config) -> CommandLine:
        """Read the command without `addopts`, ini files and `PYTEST_ADDOPTS`."""
        options = typed_options(config)
        words: list[str] = options.file_or_dir
        directory = config.invocation_params.dir
        selections = (
            option if value is True else f"{option} {value}"
            for name, option in _SELECTING.items()
            if (value := getattr(options, name, None))
        )
        return cls(
            paths=tuple(
                (directory / word.split("::")[0]).resolve() for word in words or config.args
            ),
            typed=bool(words),
            selection=(*selections, *(word for word in words if "::" in word)),
        )

    def covers(self, directory: Path) -> bool:
        """Return whether the user requested a whole directory, by name or by default."""
        return not self.selection and any(
            directory.is_relative_to(path) or (not self.typed and path.is_relative_to(directory))
            for path in self.paths
        )

    def covers_all_evals(self, home: Path) -> bool:
        """Return whether the user requested all evals of a project, usually those in `home`."""
        if self.selection:
            return False
        return self.covers(home) or (
            not home.exists() and any(path.is_dir() for path in self.paths)
        )

    def within(self, directory: Path) -> Iterator[Path]:
        """The requested files and directories within a directory."""
        for path in self.paths:
            if directory.is_relative_to(path):
                yield directory
            elif path.is_relative_to(directory):
                yield path if self.typed else directory


def project_of(config: pytest.Config) -> Project:
    """The project of pytest's root directory, else of the first path that it collects.

    `--rootdir` may be a directory above the project.
    """
    # Runs without evals do not load the settings.
    from regauge.project import Project

    project = Project.find(config.rootpath)
    if not project.exists:
        below = (Project.find(path) for path in CommandLine.read(config).paths)
        project = next((candidate for candidate in below if candidate.exists), project)
    return project


def typed_options(config: pytest.Config) -> Any:
    """The options of the command line alone, by their names in pytest."""
    parser: Any = getattr(config, "_parser")  # noqa: B009 - pytest has no public name
    return parser.parse_known_args([*config.invocation_params.args], Namespace())


def refuse_empty_runs(config: pytest.Config) -> None:
    """Refuse settings that end a run of evals before the first measurement.

    Raises:
        pytest.UsageError: `addopts`, an ini file or `PYTEST_ADDOPTS` has such an option.
    """
    options = [name for name in _EMPTY_RUN_OPTIONS if getattr(config.option, name, None)]
    sharded = config.getoption("--shard") is not None
    if not (options or sharded) or not may_run_evals(config):
        return
    typed = typed_options(config)
    if sharded and typed.shard is None:
        raise pytest.UsageError(
            "settings of pytest add --shard, so most cases would not be measured\n"
            "  fix: give --shard on the command line"
        )
    for name in options:
        if not getattr(typed, name, None):
            raise _setting_error(_EMPTY_RUN_OPTIONS[name], "nothing would be measured")


def refuse_gate_options(config: pytest.Config) -> None:
    """Refuse settings that let a change accept its own judges, or compare another model.

    Raises:
        pytest.UsageError: `addopts`, an ini file or `PYTEST_ADDOPTS` has such an option.
    """
    if config.getoption("--gate") is None:
        return
    typed = typed_options(config)
    for name, reason in _GATE_OPTIONS.items():
        if getattr(config.option, name) and not getattr(typed, name):
            raise _setting_error(f"--{name.replace('_', '-')}", reason)


def _setting_error(option: str, reason: str) -> pytest.UsageError:
    return pytest.UsageError(
        f"settings of pytest add {option}, so {reason}\n  fix: remove {option} from addopts and"
        " PYTEST_ADDOPTS; set it on the command line if you need it"
    )


def refuse_few_descriptors(config: pytest.Config) -> None:
    """Refuse a run of evals that has too few file descriptors.

    Raises:
        pytest.UsageError: Too few are free.
    """
    workers: object = getattr(config.option, "numprocesses", None) or 0
    count = workers if isinstance(workers, int) else os.cpu_count() or 1
    required_count = _DESCRIPTORS + count * _DESCRIPTORS_OF_WORKER
    free_count = 0
    with ExitStack() as stack:
        try:
            while free_count < required_count:
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
                free_count += 1
        except OSError as error:
            free_count = free_count if has_no_descriptor(error) else required_count
    if free_count < required_count and may_run_evals(config):
        raise pytest.UsageError(
            f"a run of evals opens {required_count} files and connections at least, and the limit"
            f" leaves {free_count}\n  fix: raise the limit, as with ulimit -n 1024"
        )


def may_run_evals(config: pytest.Config) -> bool:
    """Return whether a run has `--gate`, or collects from a directory `evals`."""
    if config.getoption("--gate") is not None:
        return True
    paths = CommandLine.read(config).paths
    return any("evals" in path.parts or (path / "evals").is_dir() for path in paths)


_SELECT_FIX = "to run fewer, select them on the command line (-k, a file, a node id)"
_COLLECT_FIX = (
    "name its file and function as python_files and python_functions of pytest have it (test_*.py,"
    " test_*), and take what leaves it out of addopts, collect_ignore, conftest.py or the module's"
    f" marks; {_SELECT_FIX}"
)


@dataclass(slots=True, kw_only=True)
class CollectedEvals:
    """The evals that pytest collected, selected or not.

    Attributes:
        places: The file and first line of each function.
        cases: The cases of all evals, in the order of collection.
        evals: Each eval per model, by the node id of its function or prompt file.
    """

    places: set[tuple[Path, int]] = field(default_factory=set[tuple[Path, int]])
    cases: list[PlannedCase] = field(default_factory=list["PlannedCase"])
    evals: dict[str, Sequence[Eval]] = field(default_factory=dict[str, "Sequence[Eval]"])


def eval_directories(project: Project, places: set[tuple[Path, int]]) -> set[Path]:
    """The directory `evals`, and those of other collected evals."""
    return {(project.root / "evals").resolve(), *(path.parent for path, _ in places)}


def place_of(function: Callable[..., Any]) -> tuple[Path, int]:
    """The file and first line of the function of an eval."""
    code = inspect.unwrap(function).__code__
    return Path(code.co_filename).resolve(), code.co_firstlineno


def find_omissions(
    project: Project,
    command_line: CommandLine,
    *,
    collected_evals: CollectedEvals,
    selected: Sequence[PlannedCase],
) -> list[Diagnostic]:
    """The evals and cases that a run omits without a selection of the user.

    Args:
        project: The project.
        command_line: The command line of the user.
        collected_evals: The collected evals.
        selected: The cases to run.
    """
    if command_line.selection:
        return []
    evals = [eval_ for of_eval in collected_evals.evals.values() for eval_ in of_eval]
    absent = list(uncollected_evals(project, command_line, collected_evals.places))
    run = {id(case) for case in selected}
    left_out = [case for case in collected_evals.cases if id(case) not in run]
    omissions = [
        *errors_of_left_out(project, left_out),
        *(diagnostic for diagnostic, _ in absent),
    ]
    if command_line.covers(project.root / "evals"):
        mentioned_names = {name for _, names in absent for name in names}
        omissions += _unmeasured_datasets(project, evals, mentioned_names)
        omissions += _unmeasured_prompts(project, evals, mentioned_names)
    return omissions


def omits_evals(config: pytest.Config) -> bool:
    """Return whether a run without a collected eval omits evals."""
    words, no_evals = CommandLine.read(config), CollectedEvals()
    return bool(find_omissions(project_of(config), words, collected_evals=no_evals, selected=()))


def errors_of_left_out(project: Project, left_out: Sequence[PlannedCase]) -> Iterator[Diagnostic]:
    """The cases of each eval that were collected and are not run."""
    left: dict[int, list[PlannedCase]] = {}
    for case in left_out:
        left.setdefault(id(case.eval), []).append(case)
    for cases in left.values():
        eval_ = cases[0].eval
        yield Diagnostic(
            path=project.relative(eval_.dataset.path),
            message=f"{len(cases)} of {plural(len(eval_.dataset), 'case')} of {eval_.prompt.name}"
            f" are there and are not run, such as {cases[0].case.id}",
            fix="let the eval run all of them (`tier: tracked` lets a case fail; cases that are"
            f" gone go under `removed` in the changelog); {_SELECT_FIX}",
        )


def uncollected_evals(
    project: Project, command_line: CommandLine, places: set[tuple[Path, int]]
) -> Iterator[tuple[Diagnostic, Sequence[str]]]:
    """The evals that pytest did not collect, each with the strings of its declaration."""
    from regauge.runner import declared_evals

    homes = eval_directories(project, places)
    for path in sorted({file for home in homes for file in _files(command_line.within(home))}):
        declarations = declared_evals(path.read_bytes())
        lines = {
            eval_.function: eval_.line for eval_ in declarations if (path, eval_.line) in places
        }
        for declaration in declarations:
            if (path, declaration.line) in places:
                continue
            twin = lines.get(declaration.function)
            reason = (
                f"pytest does not collect the eval {declaration.function}"
                if twin is None
                else f"the eval at line {twin} has the name of this one, {declaration.function}"
            )
            diagnostic = Diagnostic(
                path=project.relative(path),
                line=declaration.line,
                message=f"{reason}, so nothing measures it",
                fix=_COLLECT_FIX if twin is None else "rename one of them",
            )
            yield diagnostic, declaration.texts


def evals_with_own_code(project: Project, places: set[tuple[Path, int]]) -> list[str]:
    """The file and line of each collected eval with own assertions or fixtures."""
    from regauge.runner import declared_evals

    return [
        f"{project.relative(path).as_posix()}:{declaration.line}"
        for path in sorted({path for path, _ in places})
        for declaration in declared_evals(path.read_bytes())
        if declaration.has_own_code and (path, declaration.line) in places
    ]


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if file.suffix == ".py" and file.is_file() and not hidden:
                yield file.resolve()


def _unmeasured_datasets(
    project: Project, evals: Sequence[Eval], mentioned_names: set[str]
) -> Iterator[Diagnostic]:
    """The datasets of prompts, or measured before, without an eval, except `mentioned_names`."""
    from regauge.datasets import dataset_files
    from regauge.prompts import prompt_files, prompt_name

    measured = {eval_.dataset.path for eval_ in evals}
    prompts = {prompt_name(path) for path in prompt_files(project.prompts_dir)}
    for path in dataset_files(project.fixtures_dir):
        name = path.stem
        if path in measured or name in mentioned_names:
            continue
        if name in prompts or _was_measured(project, name):
            yield Diagnostic(
                path=project.relative(path),
                message="no collected eval measures this golden dataset",
                fix=f"put its eval back, or write one (regauge new eval {quote(name)}); delete"
                f" the dataset if it is given up; {_SELECT_FIX}",
            )


def _unmeasured_prompts(
    project: Project, evals: Sequence[Eval], mentioned_names: set[str]
) -> Iterator[Diagnostic]:
    """The prompts without a collected eval of their current text that were measured before."""
    from regauge.datasets import dataset_files
    from regauge.prompts import prompt_files, prompt_name

    datasets = {path.stem for path in dataset_files(project.fixtures_dir)}
    rubrics = project.prompts_dir / "judges"
    loaded = {prompt.path for eval_ in evals for prompt in eval_.loaded_prompts}
    for path in prompt_files(project.prompts_dir):
        name = prompt_name(path)
        of_prompt = [eval_ for eval_ in evals if eval_.prompt.path == path]
        if (
            path.is_relative_to(rubrics)
            or name in mentioned_names
            or not path.is_file()
            or path in loaded
        ):
            continue
        if of_prompt:
            # As prompts are read: git on Windows may write other line ends.
            text = path.read_bytes().decode("utf-8", errors="replace")
            if any(eval_.prompt.source == text for eval_ in of_prompt):
                continue
            versions = ", ".join(sorted({str(eval_.prompt.version) for eval_ in of_prompt}))
            message = f"evals of {name} measure version {versions}, and none measures this file"
            fix = "take `version` out of @golden, or add an eval without it"
        elif name not in datasets and _was_measured(project, name):
            message = f"{name} has recordings or a baseline, and no collected eval measures it"
            fix = (
                f"put its eval back, or write one (regauge new eval {quote(name)}); delete both if"
                f" it is given up; {_SELECT_FIX}"
            )
            if _is_own_eval(path, project):
                place = project.relative(path).as_posix()
                command = f"{project.run_command} {place}"
                fix = f"name the file, too, which is its own eval: {command}"
        else:
            continue
        yield Diagnostic(path=project.relative(path), message=message, fix=fix)


def _is_own_eval(path: Path, project: Project) -> bool:
    """Return whether pytest collects a prompt file: it has test data and evaluators."""
    from regauge.prompts import load_prompt

    try:
        prompt = load_prompt(path, root=project.root)
    except RegaugeError:  # `lint` reports it
        return False
    return bool(prompt.test_data and prompt.evaluators)


def _was_measured(project: Project, name: str) -> bool:
    return project.recordings_path(name).exists() or project.baseline_path(name).exists()
