"""Collect evals for a command; find their cases and judges."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import pytest

from regauge.errors import MachineError, PromptError, RegaugeError, UsageError
from regauge.judges import (
    JudgeContext,
    ModelJudge,
    RuleFactory,
    calibrated_judges,
    judge_kinds,
    pairwise,
    rubric,
    shipped_rubric,
)
from regauge.judges.calibration import file_stem
from regauge.prompts import find_prompt, load_prompt, prompt_name
from regauge.providers import parse_model_id
from regauge.pytest_items import cases_of, commanded_key, whole_key
from regauge.pytest_omissions import CommandLine, errors_of_left_out, place_of, uncollected_evals
from regauge.runner import spec_of
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.errors import Diagnostic
    from regauge.project import Project, TargetSettings
    from regauge.runner import EvalSession, PlannedCase


def tests_targets(project: Project) -> bool:
    """Return whether the settings or evals of a project name targets, so it needs no prompt."""
    return bool(project.settings.targets) or any(
        re.search(rb"\btarget\s*=", path.read_bytes())
        for path in (project.root / "evals").rglob("*.py")
    )


def left_out_errors(evals: EvalSession) -> list[Diagnostic]:
    """Errors on cases and evals that pytest settings or a conftest.py leave out."""
    cases = [
        replace(
            diagnostic,
            fix="take what deselects them out of addopts, PYTEST_ADDOPTS or conftest.py (`tier:"
            " tracked` lets a case fail)",
        )
        for diagnostic in errors_of_left_out(evals.project, evals.left_out)
    ]
    return [*cases, *evals.uncollected]


RESUME_NOTE = "completions so far are saved, the same command continues from there"
# A prompt file may have cases of its own.
_SUFFIXES = (".py", ".yml", ".yaml")
_FRAME = re.compile(r"(\S.*):\d+: in ")


class NoEvalsError(UsageError):
    """Pytest collects no eval that the command needs."""


class NotCollectedError(UsageError):
    """Evals that pytest could not collect.

    Attributes:
        reasons: The reason by file of evals.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = reasons
        files: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            files.setdefault(reason, []).append(name)
        super().__init__(
            "\n".join(f"{', '.join(names)}:\n{reason}" for reason, names in files.items())
        )


def _from_here(path: Path) -> str:
    """A relative path for pytest, which expands `$HOME` and refuses `[x]` in absolute ones."""
    try:
        return f"{os.curdir}{os.sep}{os.path.relpath(path)}"
    except ValueError:  # on Windows, another drive
        return str(path)


@dataclass(slots=True, kw_only=True, eq=False)
class _Driver:
    """A pytest plugin that passes the planned evals to `act` instead of running them.

    Attributes:
        targets: Targets whose evals count for the prompts that they load.
        result: The result of `act`.
        eval_names: The names of collected evals.
        tested: The evals of each target.
        errors: The error by file that could not be collected.
        unknown: Named prompts without an eval.
        silenced: The output of pytest, plugins and evals; only `act` prints.
    """

    act: Callable[[EvalSession], object]
    project: Project
    prompts: frozenset[str]
    targets: Mapping[str, TargetSettings]
    prefetch: bool
    one_item_per_eval: bool
    warn: Callable[[str], object] | None
    result: object = None
    eval_names: set[str] = field(default_factory=set[str])
    tested: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    uncollected: Sequence[Diagnostic] = ()
    error: RegaugeError | BrokenPipeError | None = None
    silenced: io.StringIO = field(default_factory=io.StringIO)
    _evals: EvalSession | None = None
    _left_out: Sequence[PlannedCase] = ()
    _printed: TextIO = field(default_factory=lambda: sys.stdout)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Silence pytest; the command prints the results."""
        config.stash[commanded_key] = True
        if self.one_item_per_eval:
            config.stash[whole_key] = True
        name = "terminalreporter"
        config.pluginmanager.unregister(name=name)
        config.pluginmanager.register(pytest.TerminalReporter(config, self.silenced), name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Stay in one process, even with options for xdist."""
        if hasattr(config.option, "numprocesses"):
            config.option.numprocesses = None
            config.option.dist = "no"
            config.option.tx = list[str]()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note errors of collection."""
        if report.failed:
            self.errors[report.nodeid] = _own_frames(report.longreprtext)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before others deselect
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None]:
        """Keep the evals of the named prompts only."""
        eval_items: list[pytest.Item] = []
        functions: set[Callable[..., Any]] = set()
        for item in items:
            function = getattr(item, "function", None)
            if function is None or (spec := spec_of(function)) is None:
                continue
            functions.add(function)
            target = self.targets.get(spec.target or "")
            names = {spec.prompt, *(target.prompts if target is not None else ())}
            self.eval_names |= names
            if spec.target is not None:
                self.tested.setdefault(spec.target, set()).add(spec.prompt)
            if not self.prompts or names & self.prompts:
                eval_items.append(item)
        items[:] = eval_items
        self.uncollected = self._find_uncollected(config, functions)
        yield
        selected = {case for item in items for case in cases_of(item)}
        collected_cases = (case for item in eval_items for case in cases_of(item))
        self._left_out = [case for case in collected_cases if case not in selected]

    def _find_uncollected(
        self, config: pytest.Config, functions: Iterable[Callable[..., Any]]
    ) -> list[Diagnostic]:
        """Errors on evals of the named prompts, or all, that pytest did not collect."""
        places = {place_of(function) for function in functions}
        loading = {
            name
            for name, target in self.targets.items()
            if not self.prompts.isdisjoint(target.prompts)
        }
        return [
            diagnostic
            for diagnostic, names in uncollected_evals(
                self.project, CommandLine.read(config), places
            )
            if not self.prompts or not (self.prompts | loading).isdisjoint(names)
        ]

    def pytest_regauge_planned(self, evals: EvalSession) -> None:
        """Store the planned evals."""
        self._evals = evals
        evals.serve_command(
            left_out=self._left_out, uncollected=self.uncollected, prefetch=self.prefetch
        )

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Call `act` instead of running tests."""
        del session
        evals = self._evals
        if self.eval_names and not self.errors and not self.unknown and evals is not None:
            try:
                with redirect_stdout(self._printed):
                    if self.warn is not None:
                        errors = [*map(str, left_out_errors(evals))]
                        if errors and not evals.plan.cases:
                            raise UsageError("\n".join(errors))
                        for error_text in errors:
                            self.warn(error_text)
                    self.result = self.act(evals)
            # pytest would report it as an internal error. A closed pipe needs no message.
            except (RegaugeError, BrokenPipeError) as error:
                self.error = error
            except OSError as error:
                self.error = MachineError.from_os_error(error)
        return True

    @property
    def unknown(self) -> list[str]:
        """Named prompts without an eval."""
        return sorted(self.prompts - self.eval_names)


_Result = TypeVar("_Result")


def with_evals(
    project: Project,
    path: Path | None,
    act: Callable[[EvalSession], _Result],
    *,
    prompts: Sequence[str] = (),
    options: Sequence[str] = (),
    prefetch: bool = False,
    plugins: Sequence[object] = (),
    one_item_per_eval: bool = False,
    include_targets: bool = False,
    interrupt_message: Callable[[], str] = lambda: RESUME_NOTE,
    warn: Callable[[str], object] | None = lambda text: sys.stderr.write(f"warning: {text}\n"),
) -> _Result:
    """Collect the evals of a project, call a function with the planned session, return its result.

    Args:
        project: The project.
        path: The directory or file of the evals; None for `evals`.
        act: Called with the planned session.
        prompts: The prompts whose evals to collect; empty for all.
        options: pytest options of the plugin.
        plugins: pytest plugins for this run.
        one_item_per_eval: Whether to collect one item per eval instead of per case; saves memory.
        include_targets: Whether to include evals of targets that load one of the prompts.
        prefetch: Whether to request missing completions while `act` runs.
        interrupt_message: Returns the message after Ctrl-C.
        warn: Called with each error of `left_out_errors` before `act`; None if `act` reports them.

    Raises:
        UsageError: There are no evals, a prompt has none, all are left out, or they could not be
            collected.
        RegaugeError: An error of `act`.
    """
    path = path or project.root / "evals"
    if not path.exists():
        fix = "regauge init writes a first eval; --evals names another directory"
        raise UsageError(f"there is no file or directory {str(project.relative(path))!r}", fix=fix)
    if path.is_file() and path.suffix not in _SUFFIXES:
        message = f"{project.relative(path)} is not a file of evals"
        raise UsageError(message, fix="name a directory, or a Python file")
    _ = project.settings  # an error in them is reported before plugins read the same file
    targets = project.settings.targets if include_targets else {}
    driver = _Driver(
        act=act,
        project=project,
        prompts=frozenset(prompts),
        targets=targets,
        prefetch=prefetch,
        one_item_per_eval=one_item_per_eval,
        warn=warn,
    )
    is_left_out = os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") and "regauge" not in (
        os.environ.get("PYTEST_PLUGINS", "")
    )
    arguments = [
        _from_here(path),
        *(["-pregauge"] if is_left_out else []),
        f"--rootdir={_from_here(project.root)}",
        "-pno:cacheprovider",
        "-pno:deepeval",  # it loads for seconds, and has no part in evals
        # No test runs, and it collects garbage ten times at the end: 0.1 s of 1.4.
        "-pno:unraisableexception",
        # Nothing is asserted, and what is imported already cannot be rewritten.
        "--assert=plain",
        # Plugins warn of settings that are nothing to this command, before reports are silenced.
        "-Wignore::pytest.PytestDeprecationWarning",
        *options,
    ]
    with redirect_stdout(driver.silenced):
        code = pytest.main(arguments, plugins=[driver, *plugins])
    if driver.error is not None:
        raise driver.error
    if driver.errors:
        raise NotCollectedError(driver.errors)
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt(interrupt_message())
    if code == pytest.ExitCode.USAGE_ERROR and not driver.eval_names:
        # pytest has printed why; its own code for this means undecided here.
        raise SystemExit(UsageError.exit_code)
    _check_found(project, path, driver)
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        if code == pytest.ExitCode.INTERNAL_ERROR:
            sys.stderr.write(driver.silenced.getvalue())
        raise SystemExit(int(code))
    return cast("_Result", driver.result)


def is_partial(project: Project, path: Path | None) -> bool:
    """Return whether `--evals` may name only a part of a project's evals.

    A file always is; a directory is if `evals` of the project is outside of it.
    """
    evals = project.root / "evals"
    if path is None or not path.exists():
        return False
    return not evals.resolve().is_relative_to(path.resolve()) if evals.exists() else path.is_file()


def option_words(options: Mapping[str, object]) -> list[str]:
    """Options of the plugin for `with_evals`, without those that are None.

    >>> option_words({"budget_usd": 2.5, "model": None})
    ['--budget-usd=2.5']
    """
    return [
        f"--{name.replace('_', '-')}={value}"
        for name, value in options.items()
        if value is not None
    ]


def _check_found(project: Project, path: Path, driver: _Driver) -> None:
    """Check that there are evals of all named prompts.

    Raises:
        UsageError: There are no evals, or none of a named prompt.
    """
    if driver.eval_names and not driver.unknown:
        return
    if driver.uncollected:
        raise NoEvalsError("\n".join(map(str, driver.uncollected)))
    if not driver.unknown:
        fix = "regauge new eval NAME writes one; --evals names another directory"
        raise NoEvalsError(f"there are no evals in {project.relative(path)}", fix=fix)
    prompt = driver.unknown[0]
    if prompt in driver.tested:
        evals = ", ".join(sorted(driver.tested[prompt]))
        message = f"{prompt!r} is a target, and this command takes the name of an eval"
        raise UsageError(message, fix=f"name an eval that tests it: {evals}")
    fix = did_you_mean(prompt, driver.eval_names)
    fix = fix or "name one of these, or write one: regauge new --help"
    with suppress(PromptError):
        name = prompt_name(find_prompt(prompt, root=project.root))
        fix = f"write {name}" if name in driver.eval_names else f"regauge new eval {quote(name)}"
    names = ", ".join(sorted(driver.eval_names)) or "none"
    raise UsageError(f"no eval of prompt {prompt!r}; there are evals of: {names}", fix=fix)


def _own_frames(traceback: str) -> str:
    """A traceback without frames of pytest and of Python's import system."""
    kept_lines: list[str] = []
    foreign = False
    for line in traceback.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            foreign = "site-packages" in frame[1] or frame[1].startswith("<frozen ")
        elif line.startswith("E "):
            foreign = False
        if not foreign:
            kept_lines.append(line)
    return "\n".join(kept_lines)


@dataclass(slots=True, kw_only=True)
class UsedJudge:
    """A judge and its use in evals.

    Attributes:
        prompts: The judged prompts.
        cases: The golden cases of their datasets, by id.
        rivals: Different judges of the same name.
    """

    judge: ModelJudge
    prompts: list[str] = field(default_factory=list[str])
    cases: dict[str, GoldenCase] = field(default_factory=dict[str, "GoldenCase"])
    rivals: list[ModelJudge] = field(default_factory=list[ModelJudge])


def judges_of_evals(
    project: Project, path: Path, *, judge_model: str | None = None
) -> dict[str, UsedJudge]:
    """The LLM judges of the evals, by name; empty without evals.

    Raises:
        UsageError: The evals cannot be collected.
        RegaugeError: A judge cannot be bound.
    """
    if path.exists():
        options = option_words({"record": "none", "judge_model": judge_model})
        with suppress(NoEvalsError):
            return with_evals(project, path, judges_in, options=options)
    return {}


def judges_in(session: EvalSession) -> dict[str, UsedJudge]:
    """The LLM judges of a planned run, by name."""
    judges: dict[str, UsedJudge] = {}
    evals = {id(case.eval): case.eval for case in session.plan.cases}
    for eval_ in evals.values():
        for judge in eval_.judges:
            for part in calibrated_judges(judge) if isinstance(judge, ModelJudge) else ():
                use = judges.setdefault(part.name, UsedJudge(judge=part))
                if part.digest not in {other.digest for other in (use.judge, *use.rivals)}:
                    use.rivals.append(part)
                use.prompts.append(eval_.prompt.name)
                for case in eval_.dataset:
                    use.cases.setdefault(case.id, case)
    return judges


def find_judge(name: str, project: Project, evals: Path, model: str | None) -> UsedJudge:
    """The judge of this name from an eval, else from its rubric.

    Raises:
        UsageError: There is no such judge, evals declare different ones of this name, or `model`
            differs from the model that it declares.
    """
    judges = judges_of_evals(project, evals, judge_model=model)
    by_stem = {file_stem(full_name): judge for full_name, judge in reversed(judges.items())}
    use = judges.get(name) or by_stem.get(name)
    if use is None:
        use = _unused_rubric(name, project, model, judges=sorted(judges))
    if use.rivals:
        raise UsageError(
            f"evals of {' and '.join(sorted(set(use.prompts)))} declare two different judges that"
            f" are called {use.judge.name!r}",
            fix="give one a name of its own with .with_name(...)",
        )
    models = ", ".join(use.judge.models)
    if model is not None and models != str(parse_model_id(model, location="--judge-model")):
        fix = "change it where the judge is declared, or leave --judge-model out"
        raise UsageError(f"judge {use.judge.name!r} names its model itself: {models}", fix=fix)
    return use


def _unused_rubric(
    name: str, project: Project, model: str | None, *, judges: Sequence[str]
) -> UsedJudge:
    context = JudgeContext(project=project, model=project.settings.judge_model)
    if name in {"criterion", "criteria"}:
        criteria = "is polite" if name == "criterion" else ["is polite", "is brief"]
        [judge] = rubric(criterion=criteria, model=model).bind(context).calibrated
        return UsedJudge(judge=judge)
    file = project.prompts_dir / "judges" / f"{name}.prompt.yml"
    shipped = shipped_rubric(name, project)
    if not file.is_file() and shipped is None:
        names = ", ".join(judges) or "none"
        fix = did_you_mean(name, judges) or f"write {project.relative(file)}"
        if isinstance(judge_kinds().get(name.partition("(")[0]), RuleFactory):
            message = f"{name!r} is a rule, which needs no labels"
            raise UsageError(message, fix=f"name an LLM judge of the evals: {names}")
        message = f"there is no judge {name!r}; the evals have these LLM judges: {names}"
        raise UsageError(message, fix=fix)
    spec = load_prompt(shipped or file, root=project.root).rubric
    pairs = spec is not None and spec.kind == "pair"
    declared_judge = pairwise(name, model=model) if pairs else rubric(name, model=model)
    return UsedJudge(judge=cast("ModelJudge", declared_judge.bind(context)))
