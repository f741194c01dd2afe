"""The pytest plugin: short hooks that call `regauge.pytest_run`.

Every pytest run of the environment imports it, so it loads other modules with the first eval.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from regauge.pytest_run import PytestRun
    from regauge.runner import EvalResult
    from regauge.workflow_commands import GuardedOutput

__all__: list[str] = []

# The category, letter and word of an outcome, with colours.
_Status: TypeAlias = tuple[str, str, tuple[str, dict[str, bool]]]

_EVAL = "__regauge_eval__"
_WORKER_INPUT = "regauge_run_id"
_WORKER_OUTPUT = "regauge"
_WORKER_REFUSAL = "regauge_refusal"
# Options that need another one, with it; settings of pytest may hold them for other runs.
_COMPANIONS = {
    "shard_by": "--shard K/N",
    "max_cycles": "--suggest",
    "more_trials": "--gate REF",
    "accept_judge_change": "--gate REF",
}
_LOG = "regauge-log"
_PHASES = "regauge-phases"
# What deepeval 4.3 brings into every run; one that treats warnings as errors would end.
_WARNINGS = (
    # pytest-asyncio, which it installs, warns about an option that nobody set.
    (
        'ignore:The configuration option "asyncio_default_fixture_loop_scope" is unset.:'
        "pytest.PytestDeprecationWarning"
    ),
    # Two of its files, from Python 3.14 on.
    (
        "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning:"
        "deepeval.tracing.tracing"
    ),
)
# Only a filter of the settings can name a directory.
_COMPILING = r"ignore:'return' in a 'finally' block:SyntaxWarning:.*[\\/]deepeval[\\/]"

_run_key: pytest.StashKey[PytestRun] = pytest.StashKey()
_run_id_key: pytest.StashKey[str] = pytest.StashKey()
_output_key: pytest.StashKey[GuardedOutput] = pytest.StashKey()
_workers_key: pytest.StashKey[list[str]] = pytest.StashKey()
_items_key: pytest.StashKey[int] = pytest.StashKey()
# The path of each file that pytest cannot collect, with its error, by node id.
_uncollected_key: pytest.StashKey[dict[str, tuple[Path, str]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run; their defaults are in `[tool.regauge]` of pyproject.toml."""
    add = parser.getgroup("regauge", "evals of prompts (regauge)").addoption
    add(
        "--record",
        choices=("none", "missing", "all"),
        help="record mode: none replays and opens no socket (default if CI is set), missing calls "
        "models for missing recordings (default elsewhere), all calls them for every case",
    )
    add("--trials", type=int, metavar="N", help="trials per case")
    concurrency = "requests in flight (1+ per worker); auto adapts to rate limits"
    add("--concurrency", metavar="N|auto", help=concurrency)
    add(
        "--model",
        type=_utf8,
        action="append",
        metavar="ID",
        help="run provider:model instead of every prompt's own; given several times, run every "
        "case with each model and compare them (the setting is models)",
    )
    judge_model = "model of judges that name none, as provider:model"
    add("--judge-model", type=_utf8, metavar="ID", help=judge_model)
    rejudge = "compute measurements of judges again from recorded calls"
    add("--rejudge", action="store_true", help=rejudge)
    usd = "limit of the cost in US dollars; cases beyond it are unmeasured"
    add("--budget-usd", type=float, metavar="X", help=usd)
    for unit in ("tokens", "calls"):
        limit = f"limit of {unit}, of prompts and judges together; cases beyond it are unmeasured"
        add(f"--budget-{unit}", type=int, metavar="N", help=limit)
    base = "compare with the base at a branch, tag or commit; fail unless the change is accepted"
    add("--gate", type=_utf8, metavar="REF", help=base)
    add(
        "--more-trials",
        type=int,
        default=0,
        metavar="N",
        help="with --gate: continue an undecided comparison, with up to N more trials per case",
    )
    reason = "with --gate: accept changed judges; the report shows REASON"
    add("--accept-judge-change", type=_utf8, metavar="REASON", help=reason)
    suggest = "propose a small fix of prompts whose cases fail; no file is changed"
    add("--suggest", action="store_true", help=suggest)
    cycles = "with --suggest: the most cycles per prompt (default 2)"
    add("--max-cycles", type=int, metavar="N", help=cycles)
    add(
        "--shard",
        type=_utf8,
        metavar="K/N",
        help="run the cases of shard K of N, by a hash of their ids; `regauge runs merge` joins the"
        " shards",
    )
    add(
        "--shard-by",
        choices=("id", "time"),
        help="with --shard: deal cases by a hash of their ids (default), or by recorded latency",
    )
    add(
        "--cluster",
        type=_utf8,
        metavar="ADDRESS",
        help="call models from the workers of a Dask scheduler, or `local` for workers on this"
        " machine",
    )
    report = "copy the run record to DIR, for CI to keep"
    add("--report", type=_directory, metavar="DIR", help=report)


def _utf8(text: str) -> str:
    """The value of an option, checked to be UTF-8 for run records."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(f"it is not UTF-8: {text!a}") from error
    return text


def _directory(text: str) -> str:
    if text == "-":
        raise argparse.ArgumentTypeError("name a directory: a run record is several files")
    return _utf8(text)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest captures the streams
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Silence warnings of deepeval; in GitHub Actions, guard the output streams."""
    early_options = early_config.known_args_namespace
    early_options.pythonwarnings = [*(early_options.pythonwarnings or ()), *_WARNINGS]
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from regauge.workflow_commands import GuardedOutput

        output = early_config.stash[_output_key] = GuardedOutput(active=False)
        early_config.add_cleanup(output.restore)
    yield


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks of `regauge.hookspecs`."""
    from regauge import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Check combinations of options and create the run id, which xdist workers share."""
    config.addinivalue_line("filterwarnings", _COMPILING)
    gates, suggests = config.getoption("--gate") is not None, config.getoption("--suggest")
    option = "--gate" if gates else "--suggest"
    if getattr(config.option, "numprocesses", None):
        if gates or suggests:
            raise pytest.UsageError(
                f"{option} calls models in one process, and does not share its run with"
                " xdist's workers\n  fix: leave out -n, or add -n 0"
            )
        if config.getoption("--cluster"):
            raise pytest.UsageError(
                "--cluster has one process that judges, and xdist's workers do not share it\n"
                "  fix: leave out -n, or add -n 0"
            )
    if suggests and config.getoption("--shard"):
        raise pytest.UsageError(
            "--suggest needs every case, and --shard runs a part of them\n  fix: leave out one"
        )
    models: list[str] = config.getoption("--model") or []
    if len(models) > 1 and (gates or suggests):
        raise pytest.UsageError(
            f"{option} takes one model, not {len(models)}: {', '.join(models)}\n"
            "  fix: leave one --model; to gate a change of model: regauge migrate --to MODEL"
        )
    for name, companion in _COMPANIONS.items():
        required_option = companion.partition(" ")[0]
        if config.getoption(name) and not config.getoption(required_option):
            from regauge.pytest_omissions import typed_options

            if getattr(typed_options(config), name):
                raise pytest.UsageError(
                    f"--{name.replace('_', '-')} has no effect without {required_option}\n"
                    f"  fix: add {companion}, or leave it out"
                )
    run_id = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    config.stash[_run_id_key] = (
        run_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Refuse settings, limits and addresses that end a run of evals before its first case."""
    from regauge.errors import UsageError
    from regauge.pytest_omissions import (
        refuse_empty_runs,
        refuse_few_descriptors,
        refuse_gate_options,
    )

    refuse_empty_runs(config)
    refuse_gate_options(config)
    refuse_few_descriptors(config)
    for name, least in (("--max-cycles", 1), ("--more-trials", 0)):
        if (number := config.getoption(name)) is not None and number < least:
            raise pytest.UsageError(f"{name} must be a number from {least} up, not {number}")
    try:
        if (shard := config.getoption("--shard")) is not None:
            from regauge.datasets import Shard

            Shard.parse(shard)
        if (cluster := config.getoption("--cluster")) is not None:
            from regauge.cluster import parse_address

            parse_address(cluster)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give every xdist worker the run id; this process shows their reports."""
    _guard_log(node.config)
    node.workerinput[_WORKER_INPUT] = node.config.stash[_run_id_key]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the report of an xdist worker at its end; raise its error of usage here."""
    outputs = getattr(node, "workeroutput", {})
    if _WORKER_REFUSAL in outputs:
        raise pytest.UsageError(outputs[_WORKER_REFUSAL])
    output = outputs.get(_WORKER_OUTPUT)
    if output is not None:
        node.config.stash.setdefault(_workers_key, []).append(output)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Note the number of tests, which an interrupted xdist worker does not report."""
    node.config.stash[_items_key] = len(ids)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the `testData` of a prompt file that is named on the command line."""
    if file_path.suffix not in {".yml", ".yaml"} or not parent.session.isinitpath(file_path):
        return None
    from regauge.pytest_items import PromptFile, is_prompt_file

    if not is_prompt_file(file_path):
        return None
    return PromptFile.from_path(parent, file_path, run=_run(parent.config))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Show an error of regauge in a file of evals with its line, without a traceback."""
    report = yield
    raised = getattr(getattr(report, "call", None), "excinfo", None)
    if raised is None:
        return report
    source = raised.value
    error = _unknown_option(source) or source
    if misspelt := _misspelt_name(source.__cause__):
        error, source = misspelt, source.__cause__
    # Files are named relative to the root.
    words = str(error).replace(f"{collector.config.rootpath}{os.sep}", "")
    if hasattr(error, "regauge_words"):
        frames = traceback.extract_tb(source.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(collector.path)]
        report.longrepr = f"{report.nodeid}:{lines[-1]}: {words}" if lines else words
    elif hasattr(error.__cause__, "regauge_words"):
        report.longrepr = words
    if report.failed:
        text = report.longrepr if isinstance(report.longrepr, str) else _typed_message(source)
        errors = collector.config.stash.setdefault(_uncollected_key, {})
        errors[report.nodeid] = (collector.path, text.partition("\n")[0])
    return report


def _typed_message(error: BaseException) -> str:
    """The type and message of an error of collection, or of its cause."""
    error = error.__cause__ or error
    return f"{type(error).__name__}: {error}"


def _misspelt_name(cause: BaseException | None) -> Exception | None:
    """The error about an import of an unknown name from regauge; None for other errors."""
    package = getattr(cause, "name", None) or ""
    match = re.match(r"cannot import name '(\w+)' from 'regauge[\w.]*' ", str(cause))
    if not isinstance(cause, ImportError) or match is None or package not in sys.modules:
        return None
    from regauge.errors import UsageError
    from regauge.wording import did_you_mean

    near = did_you_mean(match[1], getattr(sys.modules[package], "__all__", ()))
    fix = near or ("regauge judges list names the judges" if package == "regauge.judges" else "")
    return UsageError(f"{package} has no name {match[1]!r}", fix=fix)


def _unknown_option(error: BaseException) -> Exception | None:
    """The error about an unknown option of `@golden`; None for other errors."""
    match = re.match(r"golden\(\) got an unexpected keyword argument '(\w+)'", str(error))
    if not isinstance(error, TypeError) or match is None:
        return None
    import inspect

    from regauge import golden
    from regauge.errors import UsageError
    from regauge.wording import did_you_mean

    options = list(inspect.signature(golden).parameters)[1:]
    fix = did_you_mean(match[1], options) or f"it has {', '.join(options)}"
    return UsageError(f"@golden has no option {match[1]!r}", fix=fix)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Create one item per golden case of an eval."""
    if not hasattr(metafunc.function, _EVAL):
        return
    from regauge.errors import RegaugeError

    try:
        run = _run(metafunc.config)
    except RegaugeError as error:
        # An error of its creation is reported once and ends collection.
        metafunc.definition.session.shouldstop = "regauge cannot run"
        raise pytest.Collector.CollectError(str(error)) from error
    run.parametrize(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove pytest's placeholders for evals without a case in this shard."""
    if config.getoption("--shard") is not None:
        from regauge.pytest_items import is_empty_eval

        items[:] = [item for item in items if not is_empty_eval(item)]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `-k` select the evals of a prompt by its name."""
    spec = getattr(getattr(item, "function", None), _EVAL, None)
    if spec is not None:
        item.extra_keyword_matches.add(spec.prompt)


@pytest.fixture
def result(request: pytest.FixtureRequest) -> EvalResult:
    """The judged trials of the item's case; needs `@golden` on the test function."""
    if not hasattr(request.function, _EVAL):
        pytest.fail(
            f"{request.node.nodeid} uses `result` but is not an eval\n"
            '  fix: decorate it with @golden("<prompt>", judges=[...])',
            pytrace=False,
        )
    eval_result = _run(request.config).judge_case(request.node, request.param)
    if eval_result.outcome == "unmeasured":
        from regauge.errors import UnmeasuredError

        raise eval_result.error or UnmeasuredError("nothing was measured")
    return eval_result


def pytest_collection_finish(session: pytest.Session) -> None:
    """Plan the run after deselection."""
    if session.config.option.collectonly:
        return
    uncollected = session.config.stash.setdefault(_uncollected_key, {})
    try:
        run = session.config.stash.get(_run_key, None) or _run_without_evals(session)
        if run is not None:
            run.plan(session, uncollected)
    except pytest.UsageError as error:
        # pytest prints it in the process that the user started, and xdist would report a crash.
        vars(session.config).get("workeroutput", {})[_WORKER_REFUSAL] = str(error)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run trials ahead of the cases, which are judged one after the other."""
    config = session.config
    run = config.stash.get(_run_key, None)
    # Workers of xdist run their items after errors of collection, too.
    continues = config.option.continue_on_collection_errors or hasattr(config, "workerinput")
    stopped = session.testsfailed and not continues
    if config.option.collectonly or stopped:
        return (yield)
    if run is not None:
        with run.running():
            return (yield)
    if not _controls_workers(config):
        return (yield)
    from regauge.stop_signals import stop_on_signals

    with stop_on_signals(config.add_cleanup, is_ours=lambda: _workers_run_evals(config)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Apply the judges even if the test function did not call `result.check()`."""
    outcome = yield
    run = item.config.stash.get(_run_key, None)
    eval_result = None if run is None else run.finished_items.result(item)
    if eval_result is not None:
        eval_result.check()
    return outcome


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a failure by its message instead of a traceback."""
    if call.excinfo is not None and hasattr(call.excinfo.value, "regauge_words"):
        # pytest would format frames with all values, and parse files, for a traceback not shown.
        entries = call.excinfo.traceback
        call.excinfo.traceback = (entries.filter(call.excinfo) or entries)[-1:]
        item.repr_failure = _words_of_error  # type: ignore[method-assign]
        # pytest calls this one for errors of fixtures, such as an unmeasured `result`, and has no
        # public method for them; the item is about to be reported, and nothing else calls it.
        item._repr_failure_py = _words_of_error  # type: ignore[assignment]  # noqa: SLF001
        _drop_tracebacks(call.excinfo.value)
    report = yield
    run = item.config.stash.get(_run_key, None)
    return report if run is None else run.rewrite_report(item, report, call)


def _words_of_error(excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
    """The message of an error, for `Item.repr_failure`."""
    del style
    return str(excinfo.value)


def _drop_tracebacks(error: BaseException | None) -> None:
    """Remove the frames of an error and of its causes.

    An error that many cases share gains frames each time it is raised, and pytest formats them all.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Drop the frames of an error that pytest shows by its message, such as errors of collection.

    pytest would parse the file of each frame, which takes as long as a short run.
    """
    if isinstance(excinfo.value, pytest.Session.Interrupted):
        excinfo.traceback = excinfo.traceback[-1:]


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport,
) -> _Status | None:
    """The category of an unmeasured item or a gate status; None for others."""
    if getattr(report, "regauge_unmeasured", False):
        return "unmeasured", "U", ("UNMEASURED", {"red": True})
    return cast("_Status | None", getattr(report, "regauge_status", None))


# By then xdist has ended its workers, and no other plugin sets the exit status.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Write recordings and close the run record."""
    yield
    config = session.config
    reports = config.stash.setdefault(_workers_key, [])
    run = config.stash.get(_run_key, None)
    if run is None and (reports or _workers_left_rows(session)):
        run = _run(config)
    if run is not None:
        report = run.finish(session, workers=reports)
        if report is not None:
            config.workeroutput[_WORKER_OUTPUT] = report  # type: ignore[attr-defined] # xdist's


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest's lists, so that the table is last
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, object, object]:
    """Show the table, unmeasured cases with their reasons, and many failures in groups."""
    run = terminalreporter.config.stash.get(_run_key, None)
    if run is None:
        return (yield)
    from regauge.pytest_output import without_grouped

    with without_grouped(terminalreporter) as failed:
        outcome = yield
    if run.end is not None:
        items = terminalreporter.config.stash.get(_items_key, 0)
        run.end.summarise(terminalreporter, failed, items=items)
    return outcome


def _run_without_evals(session: pytest.Session) -> PytestRun | None:
    """The run of a process without a collected eval, for a gate or omitted evals; else None."""
    config = session.config
    if config.getoption("--gate") is None:
        from regauge.pytest_omissions import may_run_evals, omits_evals

        if session.testsfailed or not (may_run_evals(config) and omits_evals(config)):
            return None
    from regauge.errors import RegaugeError

    try:
        return _run(config)
    except RegaugeError as error:
        raise pytest.UsageError(str(error)) from error


def _workers_left_rows(session: pytest.Session) -> bool:
    """Return whether interrupted xdist workers, which report nothing, have judged evals."""
    interrupted = session.exitstatus == pytest.ExitCode.INTERRUPTED
    return interrupted and _controls_workers(session.config) and _workers_run_evals(session.config)


def _controls_workers(config: pytest.Config) -> bool:
    """Return whether this process controls xdist workers."""
    return not hasattr(config, "workerinput") and getattr(config.option, "dist", "no") != "no"


def _workers_run_evals(config: pytest.Config) -> bool:
    """Return whether a worker has started the record of this run."""
    from regauge.pytest_omissions import project_of

    state_dir = project_of(config).state_dir
    return (state_dir / "runs" / config.stash[_run_id_key]).is_dir()


def _run(config: pytest.Config) -> PytestRun:
    """The run of this process, created with the first eval."""
    run = config.stash.get(_run_key, None)
    if run is None:
        from regauge.pytest_output import PassedPhases
        from regauge.pytest_run import PytestRun

        _guard_log(config)
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and config.option.durations is None:
            config.pluginmanager.register(PassedPhases(terminal, keyword=_EVAL), _PHASES)
        run = config.stash[_run_key] = PytestRun(config, run_id=config.stash[_run_id_key])
    return run


def _guard_log(config: pytest.Config) -> None:
    """Break workflow commands in the log, from the first eval on."""
    output = config.stash.get(_output_key, None)
    if output is not None and not config.pluginmanager.has_plugin(_LOG):
        from regauge.pytest_output import GuardedLog

        output.activate()
        config.pluginmanager.register(GuardedLog(output), _LOG)
