"""Collects evals for a command, and finds their cases and judges."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TextIO, cast

import pytest

from regauge.errors import MachineError, PromptError, RegaugeError, UsageError
from regauge.judges import (
    JudgeContext,
    ModelJudge,
    calibrated_judges,
    pairwise,
    rubric,
    shipped_rubric,
)
from regauge.judges.calibration import file_stem
from regauge.prompts import find_prompt, load_prompt
from regauge.providers import parse_model_id
from regauge.pytest_items import commanded_key, planned_cases, whole_key
from regauge.pytest_owed import (
    CommandLine,
    faults_of_left_out,
    place_of,
    uncollected_evals,
)
from regauge.runner import Plan, PlannedCase, spec_of
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.datasets import GoldenCase
    from regauge.errors import Fault
    from regauge.project import Project, TargetSettings
    from regauge.runner import EvalSession


def cases_of_prompt(evals: EvalSession, project: Project, name: str) -> list[PlannedCase]:
    """The planned cases of a prompt, and the rows of its file's own `testData`.

    pytest collects those rows when the file is named.
    """
    cases = [planned for planned in evals.plan.cases if planned.suite.prompt.name == name]
    file = project.prompts_dir / f"{name}.prompt.yml"
    try:
        suites = evals.bind_prompt_file(file)
    except RegaugeError:  # no such file, or no data of its own
        return cases
    return [*cases, *(PlannedCase(suite, case) for suite in suites for case in suite.dataset)]


def tests_targets(project: Project) -> bool:
    """Return whether the project declares targets, or its evals name some, so needs no prompt."""
    return bool(project.settings.targets) or any(
        re.search(rb"\btarget\s*=", path.read_bytes())
        for path in (project.root / "evals").rglob("*.py")
    )


def left_out_faults(project: Project, evals: EvalSession) -> list[Fault]:
    """The cases and evals that settings of pytest or a conftest.py keep from a command."""
    cases = [
        replace(
            fault,
            fix="take what deselects them out of addopts, PYTEST_ADDOPTS or conftest.py (`tier:"
            " tracked` lets a case fail)",
        )
        for fault in faults_of_left_out(project, evals.left_out)
    ]
    return [*cases, *evals.uncollected]


RESUME_NOTE = "what was answered is kept, the same command continues from there"
_COLLECT_FIX = (
    "name its file and function as python_files and python_functions of pytest have it (test_*.py,"
    " test_*), and take what leaves it out of addopts, collect_ignore, conftest.py or the module's"
    " marks"
)
_FRAME = re.compile(r"(\S.*):\d+: in ")


class NoEvalsError(UsageError):
    """Pytest collects no eval that the command needs."""


class NotCollectedError(UsageError):
    """Evals that pytest could not collect.

    Attributes:
        reasons: Why, by the file of evals.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = reasons
        files: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            files.setdefault(reason, []).append(name)
        super().__init__("\n".join(f"{', '.join(of)}:\n{why}" for why, of in files.items()))


def _from_here(path: Path) -> str:
    """A path as pytest takes it: in an absolute one it replaces `$HOME` and refuses `[x]`."""
    try:
        return f"{os.curdir}{os.sep}{os.path.relpath(path)}"
    except ValueError:  # on Windows, another drive
        return str(path)


@dataclass(slots=True, kw_only=True, eq=False)
class _Driver:
    """A pytest plugin that hands the planned evals to `act` instead of running them.

    Attributes:
        targets: Those whose evals belong to the prompts that they load, too.
        met: The names that evals go by.
        tested: The evals of each target.
        faults: What could not be collected, by file.
        silenced: Takes what pytest, its plugins and modules of evals print; only `act` prints.
    """

    act: Callable[[EvalSession], None]
    project: Project
    prompts: frozenset[str]
    targets: Mapping[str, TargetSettings]
    draw: bool
    whole: bool
    warn: Callable[[str], None] | None
    met: set[str] = field(default_factory=set[str])
    tested: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    faults: dict[str, str] = field(default_factory=dict[str, str])
    uncollected: Sequence[Fault] = ()
    error: RegaugeError | BrokenPipeError | None = None
    silenced: io.StringIO = field(default_factory=io.StringIO)
    _evals: EvalSession | None = None
    _kept: Sequence[pytest.Item] = ()
    _printed: TextIO = field(default_factory=lambda: sys.stdout)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Silence pytest: the command says what there is to say."""
        config.stash[commanded_key] = True
        if self.whole:
            config.stash[whole_key] = True
        name = "terminalreporter"
        config.pluginmanager.unregister(name=name)
        config.pluginmanager.register(pytest.TerminalReporter(config, self.silenced), name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Stay in one process, where xdist is there and the project's options ask for it."""
        if hasattr(config.option, "numprocesses"):
            config.option.numprocesses = None
            config.option.dist = "no"
            config.option.tx = list[str]()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected."""
        if report.failed:
            self.faults[report.nodeid] = _own_frames(report.longreprtext)

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before others deselect
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None]:
        """Keep the evals of the prompts that were named."""
        kept: list[pytest.Item] = []
        functions: set[Callable[..., Any]] = set()
        for item in items:
            function = getattr(item, "function", None)
            spec = spec_of(function)
            if function is None or spec is None:
                continue
            functions.add(function)
            target = self.targets.get(spec.target or "")
            names = {spec.prompt, *(target.prompts if target is not None else ())}
            self.met |= names
            if spec.target is not None:
                self.tested.setdefault(spec.target, set()).add(spec.prompt)
            if not self.prompts or names & self.prompts:
                kept.append(item)
        items[:] = kept
        self._kept = kept
        self.uncollected = self._find_uncollected(config, functions)
        yield

    def _find_uncollected(
        self, config: pytest.Config, functions: Iterable[Callable[..., Any]]
    ) -> list[Fault]:
        """The evals of the named prompts, or all, that pytest did not collect."""
        places = {place_of(function) for function in functions}
        loading = {
            name
            for name, target in self.targets.items()
            if not self.prompts.isdisjoint(target.prompts)
        }
        return [
            replace(fault, fix=_COLLECT_FIX)
            for fault, names in uncollected_evals(self.project, CommandLine.read(config), places)
            if not self.prompts or not (self.prompts | loading).isdisjoint(names)
        ]

    def pytest_regauge_planned(self, evals: EvalSession) -> None:
        """Remember the plan."""
        self._evals = evals
        planned = {id(case) for case in evals.plan.cases}
        collected = [case for item in self._kept for case in planned_cases(item)]
        evals.left_out = [case for case in collected if id(case) not in planned]
        evals.uncollected = self.uncollected
        if not self.draw:
            evals.plan = Plan(cases=evals.plan.cases, ahead=False)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do what the command is about; no test runs."""
        del session
        if not self.faults and not self.unknown and self._evals is not None:
            try:
                with redirect_stdout(self._printed):
                    self._report_left_out(self._evals)
                    self.act(self._evals)
            # pytest would take it for a fault of its own. A closed pipe needs no words.
            except (RegaugeError, BrokenPipeError) as error:
                self.error = error
            except OSError as error:
                self.error = MachineError.from_os_error(error)
        return True

    def _report_left_out(self, evals: EvalSession) -> None:
        """Warn of what settings of pytest or a conftest.py leave out.

        Raises:
            UsageError: They leave out everything.
        """
        if self.warn is None:
            return
        faults = left_out_faults(self.project, evals)
        if faults and not evals.plan.cases:
            raise UsageError("\n".join(map(str, faults)))
        for fault in faults:
            self.warn(str(fault))

    @property
    def unknown(self) -> list[str]:
        """Prompts that were named and have no eval."""
        return sorted(self.prompts - self.met)


def _print_warning(text: str) -> None:
    sys.stderr.write(f"warning: {text}\n")


def with_evals(
    project: Project,
    path: Path,
    act: Callable[[EvalSession], None],
    *,
    prompts: Sequence[str] = (),
    options: Sequence[str] = (),
    prefetch: bool = True,
    plugins: Sequence[object] = (),
    one_item_per_eval: bool = False,
    include_targets: bool = False,
    interrupt_message: Callable[[], str] = lambda: RESUME_NOTE,
    warn: Callable[[str], None] | None = _print_warning,
) -> None:
    """Collect the evals of a project and do something with their plan.

    Args:
        project: Whose evals.
        path: Where the evals are.
        act: Receives the session once it is planned, while answers may be drawn.
        prompts: Only evals of these prompts; all when empty.
        options: Options of the plugin, as for pytest.
        plugins: Plugins of pytest for this run.
        one_item_per_eval: Whether to take whole evals, without an item for each case; saves memory.
        include_targets: Whether evals of targets that load one of these prompts count, too.
        prefetch: Whether missing completions of the plan are drawn while `act` runs, ahead of it.
        interrupt_message: What is said after Ctrl-C: what is kept, and how to go on.
        warn: Takes each error of `left_out_faults` before `act` begins; None where `act` reports
            them itself.

    Raises:
        UsageError: There are no evals, a prompt has none, all are left out, or they could not be
            collected.
        RegaugeError: What `act` raised.
    """
    if not path.exists():
        fix = "regauge init writes a first eval; --evals says where others are"
        raise UsageError(f"there is no file or directory {str(project.relative(path))!r}", fix=fix)
    _ = project.settings  # an error in them is reported before plugins read the same file
    targets = project.settings.targets if include_targets else {}
    driver = _Driver(
        act=act,
        project=project,
        prompts=frozenset(prompts),
        targets=targets,
        draw=prefetch,
        whole=one_item_per_eval,
        warn=warn,
    )
    arguments = [
        _from_here(path),
        f"--rootdir={_from_here(project.root)}",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:deepeval",  # it loads for seconds, and has no part in evals
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
    if driver.faults:
        raise NotCollectedError(driver.faults)
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt(interrupt_message())
    if code == pytest.ExitCode.USAGE_ERROR and not driver.met:
        # pytest has printed why; its own code for this means undecided here.
        raise SystemExit(UsageError.exit_code)
    _check_found(project, path, driver)
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        if code == pytest.ExitCode.INTERNAL_ERROR:
            sys.stderr.write(driver.silenced.getvalue())
        raise SystemExit(int(code))


def option_words(options: Mapping[str, object]) -> list[str]:
    """Options of the plugin as `with_evals` takes them, of those that were given.

    >>> option_words({"budget_usd": 2.5, "model": None})
    ['--budget-usd=2.5']
    """
    return [
        f"--{name.replace('_', '-')}={value}"
        for name, value in options.items()
        if value is not None
    ]


def _check_found(project: Project, path: Path, driver: _Driver) -> None:
    """See that there are evals, and those that the command names.

    Raises:
        UsageError: There are none, or one is missing.
    """
    if driver.met and not driver.unknown:
        return
    if driver.uncollected:
        raise NoEvalsError("\n".join(map(str, driver.uncollected)))
    if driver.unknown:
        raise _no_eval(project, driver.unknown[0], driver)
    fix = "regauge new eval NAME writes one; --evals says where others are"
    raise NoEvalsError(f"there are no evals in {project.relative(path)}", fix=fix)


def _no_eval(project: Project, prompt: str, driver: _Driver) -> UsageError:
    met = driver.met
    if prompt in driver.tested:
        evals = ", ".join(sorted(driver.tested[prompt]))
        message = f"{prompt!r} is a target, and this command takes the name of an eval"
        return UsageError(message, fix=f"name an eval that tests it: {evals}")
    names = ", ".join(sorted(met)) or "none"
    try:
        find_prompt(prompt, root=project.root)
        fix = f"regauge new eval {prompt}"
    except PromptError:
        fix = did_you_mean(prompt, met) or "name one of these, or write one: regauge new --help"
    return UsageError(f"no eval of prompt {prompt!r}; there are evals of: {names}\n  fix: {fix}")


def _own_frames(traceback: str) -> str:
    """A traceback without frames of pytest and of Python's import, which say nothing here."""
    kept: list[str] = []
    foreign = False
    for line in traceback.splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            foreign = "site-packages" in frame[1] or frame[1].startswith("<frozen ")
        elif line.startswith("E "):
            foreign = False
        if not foreign:
            kept.append(line)
    return "\n".join(kept)


@dataclass(slots=True, kw_only=True)
class UsedJudge:
    """A judge, and where it judges.

    Attributes:
        prompts: The prompts whose answers it judges.
        cases: The golden cases of their datasets, by id.
        rivals: Judges of the same name that are not the same.
    """

    judge: ModelJudge
    prompts: list[str] = field(default_factory=list[str])
    cases: dict[str, GoldenCase] = field(default_factory=dict[str, "GoldenCase"])
    rivals: list[ModelJudge] = field(default_factory=list[ModelJudge])


def judges_of_evals(
    project: Project, path: Path, *, judge_model: str | None = None
) -> dict[str, UsedJudge]:
    """Every judge of the evals that asks a model, by name; none where there are no evals.

    Raises:
        UsageError: The evals cannot be collected.
        RegaugeError: A judge cannot be bound.
    """
    used: dict[str, UsedJudge] = {}
    if not path.exists():
        return used
    options = option_words({"record": "none", "judge_model": judge_model})
    with suppress(NoEvalsError):
        with_evals(project, path, lambda evals: used.update(judges_in(evals)), options=options)
    return used


def judges_in(evals: EvalSession) -> dict[str, UsedJudge]:
    """Every judge of a planned run that asks a model, by name."""
    used: dict[str, UsedJudge] = {}
    suites = {id(case.suite): case.suite for case in evals.plan.cases}
    for suite in suites.values():
        for judge in suite.judges:
            for part in calibrated_judges(judge) if isinstance(judge, ModelJudge) else ():
                use = used.setdefault(part.name, UsedJudge(judge=part))
                if part.digest not in {other.digest for other in (use.judge, *use.rivals)}:
                    use.rivals.append(part)
                use.prompts.append(suite.prompt.name)
                for case in suite.dataset:
                    use.cases.setdefault(case.id, case)
    return used


def _refuse_rivals(used: UsedJudge) -> None:
    """Refuse to calibrate a judge that is not the same in all evals.

    Raises:
        UsageError: Evals declare two judges of its name.
    """
    if used.rivals:
        prompts: Sequence[str] = sorted(set(used.prompts))
        raise UsageError(
            f"evals of {' and '.join(prompts)} declare two different judges that are called"
            f" {used.judge.name!r}\n  fix: give one a name of its own with .with_name(...)"
        )


def find_judge(name: str, project: Project, evals: Path, model: str | None) -> UsedJudge:
    """The judge of this name: as an eval declares it, else the rubric itself.

    Raises:
        UsageError: There is none, or it names its model itself and another one is wanted.
    """
    used = judges_of_evals(project, evals, judge_model=model)
    by_stem = {file_stem(full_name): judge for full_name, judge in reversed(used.items())}
    use = used.get(name) or by_stem.get(name)
    if use is None:
        use = _unused_rubric(name, project, model, judges=sorted(used))
    _refuse_rivals(use)
    asked = ", ".join(use.judge.models)
    if model is not None and asked != str(parse_model_id(model, location="--judge-model")):
        fix = "change it where the judge is declared, or leave --judge-model out"
        raise UsageError(f"judge {use.judge.name!r} names its model itself: {asked}", fix=fix)
    return use


def _unused_rubric(
    name: str, project: Project, model: str | None, *, judges: Sequence[str]
) -> UsedJudge:
    context = JudgeContext(project=project, model=project.settings.judge_model)
    if name in {"criterion", "criteria"}:
        stated = "is polite" if name == "criterion" else ["is polite", "is brief"]
        [judge] = rubric(criterion=stated, model=model).bind(context).calibrated
        return UsedJudge(judge=judge)
    file = project.prompts_dir / "judges" / f"{name}.prompt.yml"
    shipped = shipped_rubric(name, project)
    if not file.is_file() and shipped is None:
        names = ", ".join(judges) or "none"
        fix = did_you_mean(name, judges) or f"write {project.relative(file)}"
        message = f"there is no judge {name!r}; evals have these that ask a model: {names}"
        raise UsageError(message, fix=fix)
    spec = load_prompt(shipped or file, root=project.root).rubric
    pairs = spec is not None and spec.kind == "pair"
    declared = pairwise(name, model=model) if pairs else rubric(name, model=model)
    return UsedJudge(judge=cast("ModelJudge", declared.bind(context)))
