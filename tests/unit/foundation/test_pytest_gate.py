"""What the items of a gate report, and which failed prompts a run looks for fixes of."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import MissingRecordingError, ProviderError, UnmeasuredError, UsageError
from regauge.evidence import Count
from regauge.model_id import parse_model_id
from regauge.project import Project
from regauge.pytest_gate import GatedResult, GateFailed, PartResult
from regauge.pytest_output import redact_terminal
from regauge.pytest_plugin import _directory, _utf8
from regauge.pytest_suggest import RefinementSearch
from regauge.reports import CaseDocument
from regauge.runner import EvalSession, RunOptions

if TYPE_CHECKING:
    from pathlib import Path

PAID = "house:model"


def gated(made: Any, status: str, *outcomes: str, blocks: bool = True) -> GatedResult:
    document = CaseDocument(
        prompt="alert", case="c0", tier="required", state="changed", status=status, blocks=blocks,
        message=f"c0 is {status}", before=Count(passed=0, trials=0), today=Count(passed=0, trials=0),
        candidate=Count(passed=0, trials=0),
    )  # fmt: skip
    trials = tuple(made.trial(number, outcome) for number, outcome in enumerate(outcomes))
    return GatedResult(
        eval=made.suite(), case=made.case(), trials=trials, node_id="a::b[c0]", gated=document
    )


@pytest.mark.parametrize(
    ("status", "blocks", "outcome"),
    [
        ("broken", True, "failed"),
        ("broken", False, "passed"),
        ("new", True, "failed"),
        ("flaky", True, "passed"),
        ("fixed", False, "passed"),
        ("unmeasured", True, "unmeasured"),
    ],
)
def test_the_status_of_a_case_decides_and_not_its_trials(
    made: Any, status: str, outcome: str, *, blocks: bool
):
    result = gated(made, status, "passed", "failed", blocks=blocks)
    assert (result.outcome, result.passed, result.status) == (outcome, 1, status)
    if outcome == "passed":
        result.check()
    elif outcome == "failed":
        with pytest.raises(GateFailed) as caught:
            result.check()
        assert str(caught.value) == f"c0 is {status}\n  again: regauge gate --prompt alert"
        assert caught.value.short == f"c0 is {status}"
        assert caught.value.document == result.gated
    else:
        with pytest.raises(UnmeasuredError, match="c0 is unmeasured"):
            result.check()
        with pytest.raises(ProviderError, match="cannot be reached"):
            gated(made, status, "passed", "unmeasured").check()


def part(
    made: Any, *errors: Exception | None, base: tuple[Exception | None, ...] = ()
) -> PartResult:
    def trials(given: tuple[Exception | None, ...]) -> Any:
        return tuple(
            made.trial(number) if error is None else missing(made, number, error)
            for number, error in enumerate(given)
        )

    return PartResult(
        eval=made.suite(),
        case=made.case(),
        trials=trials(errors),
        node_id="a::b[c0]",
        base=trials(base),
    )


def missing(made: Any, number: int, error: Exception) -> Any:
    trial = made.trial(number, "unmeasured")
    object.__setattr__(trial, "error", error)
    return trial


DOWN = ProviderError("down", kind="connection")
AWAY = ProviderError("no base", kind="unavailable")
LATER = MissingRecordingError(prompt="alert", case="c0", trial=3, stale=False)


def test_a_case_of_a_shard_is_measured_without_further_trials_of_a_replay(made: Any):
    for result in (
        part(made, None, None),
        part(made, None, LATER),
        part(made, None, base=(AWAY, None)),
        part(made, None, base=(LATER,)),
    ):
        assert (result.outcome, result.error) == ("passed", None)
        result.check()
    for result, error in (
        (part(made, None, DOWN), DOWN),
        (part(made, LATER), LATER),
        (part(made, None, LATER, base=(DOWN,)), DOWN),
    ):
        assert (result.outcome, result.error) == ("unmeasured", error)
        with pytest.raises(type(error)):
            result.check()
    assert part(made, None, DOWN).passed == 1


def test_fixes_are_sought_of_failed_prompts_alone_and_an_error_is_one_of_them(
    made: Any, tmp_path: Path
):
    def rebind(_: EvalSession, __: Any) -> Any:
        raise UsageError("the eval is gone")

    lines: list[str] = []
    session = EvalSession(Project(root=tmp_path), RunOptions(record="none"), environ={})
    search = RefinementSearch(session=session, cycles=1, rebind=rebind)
    for name, outcome, tier in (
        ("beta", "failed", "required"),
        ("alpha", "failed", "critical"),
        ("gamma", "failed", "tracked"),
        ("delta", "passed", "required"),
    ):
        suite = made.suite(name=name)
        if name == "alpha":
            object.__setattr__(suite, "model", parse_model_id(PAID))
        case = made.case(tier=tier)
        search.note(made.result([made.trial(0, outcome)], eval=suite, case=case))
    first, second = search.suggest(lines.append)
    assert (first.prompt, first.stop) == ("alpha", "record-none")
    assert first.headline == (
        "alpha: no suggestion, as --record=none calls no model (regauge refine alpha would)"
    )
    assert (second.prompt, second.stop) == ("beta", "error")
    assert second.headline == "beta: the eval is gone"
    assert lines == [
        "alpha: looking for a small revision that fixes it",
        "beta: looking for a small revision that fixes it",
    ]
    session.close()


def test_an_option_of_a_run_is_text_that_a_record_can_hold():
    assert _utf8("größe") == "größe"
    with pytest.raises(argparse.ArgumentTypeError, match=r"it is not UTF-8: '\\udcff'"):
        _utf8("\udcff")
    assert _directory("runs") == "runs"
    with pytest.raises(argparse.ArgumentTypeError, match="name a directory"):
        _directory("-")


def test_secrets_are_removed_from_the_terminal_if_there_is_one():
    written: list[tuple[str, dict[str, object]]] = []

    class Writer:
        def write(self, text: str, **more: object) -> None:
            written.append((text, more))

    writer = Writer()
    plugins: Any = SimpleNamespace(has_plugin=lambda name: name == "terminalreporter")
    config: Any = SimpleNamespace(pluginmanager=plugins, get_terminal_writer=lambda: writer)
    redact_terminal(config, lambda text: text.replace("key", "***"))
    writer.write("a key", flush=True, red=True)
    assert written == [("a ***", {"flush": True, "red": True})]
    none: Any = SimpleNamespace(pluginmanager=SimpleNamespace(has_plugin=lambda _: False))
    redact_terminal(none, str)
