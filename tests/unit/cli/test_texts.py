"""Texts that commands print: usage, hints after an interruption, and suggestions."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from click import Argument, BadParameter, Command, Context, Group
from click.testing import CliRunner

from regauge.cli import group
from regauge.cli._options import OutputFile
from regauge.cli.mutate import _print_suggestion, _row, _show_suggestions
from regauge.cli.record import _resume_hint
from regauge.cli.refine import RUN, resume_hint
from regauge.cli.sim import parse_faults, parse_rate
from regauge.errors import ProviderError, UsageError
from regauge.maintenance.mutation import progress_text
from regauge.mutate import Draft, GuardSuggestion, MutantRow, MutationProgress
from regauge.reports import progress_line
from regauge.runner import RunProgress
from regauge.runner._budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROW = MutantRow.model_validate(
    {
        "id": "delete-sentence-0",
        "operator": "delete-sentence",
        "line": 3,
        "span": {"part": "messages[0]", "start": 0, "end": 1},
        "text": "Be brief.",
        "class": "survived",
    }
)


def test_a_refinement_has_no_name_of_its_own_in_the_usage():
    words = ["refine", "triage", "--nope"]
    output = CliRunner().invoke(group, words, prog_name="regauge").output
    assert output.startswith("Usage: regauge refine [OPTIONS] NAME\nTry 'regauge refine -h'")


def commands_below(command: Command, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    if isinstance(command, Group):
        with Context(command) as context:
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from commands_below(below, *names, name)


def test_the_help_of_a_command_names_all_that_it_takes():
    for names in commands_below(group):
        runner, command = CliRunner(), cast("Command", group)
        for name in names:
            with Context(command) as context:
                command = cast("Any", command).get_command(context, name)
        text = runner.invoke(group, [*names, "--help"], prog_name="regauge").output
        if names == ("refine",):
            command = cast("Any", command).commands[RUN]
        for part in command.params:
            assert isinstance(part, Argument) or part.opts[-1] in text, (names, part.opts)
        for below in getattr(command, "commands", {}):
            assert f"\n  {below} " in text, (names, below)


@pytest.mark.parametrize(
    ("progress", "count"),
    [(None, "0"), (RunProgress(completed=3), "3"), (RunProgress(total=9, completed=3), "3 of 9")],
)
def test_an_interrupted_recording_names_its_count_and_how_it_continues(
    monkeypatch: pytest.MonkeyPatch, progress: RunProgress | None, count: str
):
    monkeypatch.setattr(sys, "argv", ["/bin/regauge", "record", "a b"])
    assert _resume_hint(progress) == (
        f"{count} completions recorded; continue: regauge record 'a b'"
    )


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (None, "nothing was decided yet"),
        ("running", "progress saved; continue: regauge refine resume r1"),
        ("interrupted", "progress saved; continue: regauge refine resume r1"),
        ("not-verified", "progress saved; continue: regauge refine resume r1"),
        ("proposed", "the run is over; its result: regauge refine show r1"),
    ],
)
def test_an_interrupted_refinement_names_how_it_continues(
    tmp_path: Path, status: str | None, hint: str
):
    trail = tmp_path / "trail.jsonl"
    if status is not None:
        trail.write_text("")
    run = SimpleNamespace(trail=trail, id="r1", facts=lambda: {"status": status})
    assert resume_hint(cast("Any", run)).startswith(hint)
    assert resume_hint(None).startswith("nothing was decided yet")


def test_the_progress_of_mutants_is_one_line():
    text = progress_text(MutationProgress(mutants=9, done=2, calls=1), "mutant", 0.5)
    assert text == "regauge: 2 of 9 mutants, 1 trial, $0.5000"


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({}, "regauge: 0 of 9 completions, $0"),
        ({"completed": 3}, "regauge: 3 of 9 completions, $0"),
        (
            {"completed": 3, "failed": 1},
            "regauge: 3 of 9 completions, 1 without a completion, $0",
        ),
        ({"completed": 9, "judge_calls": 2}, "regauge: 9 of 9 completions, 2 judge calls, $0"),
        (
            {"failed": 2, "judge_calls": 1},
            "regauge: 0 of 9 completions, 2 without a completion, 1 judge call, $0",
        ),
    ],
)
def test_the_progress_of_completions_is_one_line(counts: dict[str, int], text: str):
    line = progress_line(RunProgress(total=9, **counts), Budget(None))
    assert line.partition(", about")[0] == text


@pytest.mark.parametrize(("costs", "text"), [([0.5], "$0.5000"), ([0.5, None], "?"), ([], "$0")])
def test_the_progress_of_calls_without_a_price_shows_no_cost(costs: list[float | None], text: str):
    budget = Budget(None)
    for cost_usd in costs:
        with budget.charge(0.0) as charge:
            charge.actual_usd = cost_usd
    with suppress(ProviderError), budget.charge(0.0):
        raise ProviderError("away", kind="server")
    assert progress_line(RunProgress(total=2), budget).endswith(f", {text}")


@pytest.mark.parametrize("text", ["", "10", "0/s", "-1/s", "10/d", "ten/s"])
def test_a_text_that_is_no_rate_is_refused(text: str):
    with pytest.raises(UsageError, match=r"is not a rate\n  fix: write such as 100/s"):
        parse_rate(text)


def test_checks_for_an_existing_case_are_to_be_added_by_hand(capsys: pytest.CaptureFixture[str]):
    draft = Draft(
        inputs={"text": "a"}, like="one", proposer="rules", existing="one", checks=({"max_words": 3},)
    )  # fmt: skip
    suggestion = GuardSuggestion(row=ROW, status="offered", draft=draft, judges=("max_words",))
    _print_suggestion(suggestion)
    assert capsys.readouterr().out == (
        "line 3  survived  Be brief.\n"
        '  add to case one by hand: checks: [{"max_words": 3}]\n'
        "  passes 5 of 5 trials; without the text, fails 5 of 5 on max_words\n"
    )
    row = _row(suggestion)
    assert row["added_checks"] == {"case": "one", "checks": [{"max_words": 3}]}
    assert (row["case"], row["passed"], row["mutant_failed"]) == (None, 5, 5)
    assert _row(GuardSuggestion(row=ROW, status="none"))["added_checks"] is None
    assert json.dumps(row)


DRAFT = Draft(
    inputs={"text": "a\nlong " * 40, "n": [1]}, expected={"a": 1}, like="one", proposer="rules"
)
SUGGESTIONS = (
    GuardSuggestion(row=ROW, status="none", reason="no case fails without it", output="half \ud800", calls=2),
    GuardSuggestion(row=ROW, status="undecided", reason="the budget was reached", calls=1),
    GuardSuggestion(
        row=ROW, status="offered", draft=DRAFT, judges=("tone", "max_words"), case={"id": "new"}, calls=10
    ),
    GuardSuggestion(
        row=ROW,
        status="offered",
        draft=replace(DRAFT, expected=None, checks=({"max_words": 3},)),
        case={"id": "newer"},
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("count", "printed", "total"),
    [
        (0, [], "nothing to suggest: no instruction survived or had no effect"),
        (
            1,
            ["line 3  survived  Be brief.", "  none: no case fails without it"],
            "0 of 1 instruction without a guard got a case; 1 without one, 0 undecided; 2 trials",
        ),
        (
            4,
            [
                "line 3  survived  Be brief.",
                "  none: no case fails without it",
                "line 3  survived  Be brief.",
                "  undecided: the budget was reached",
                "line 3  survived  Be brief.",
                "  case new (rules, like one)",
                f"    text: {'a long ' * 34}a ...",
                "    n: [1]",
                '    expected: {"a": 1}',
                "  passes 5 of 5 trials; without the text, fails 5 of 5 on tone, max_words",
                "line 3  survived  Be brief.",
                "  case newer (rules, like one)",
                f"    text: {'a long ' * 34}a ...",
                "    n: [1]",
                '    checks: [{"max_words": 3}]',
                "  passes 5 of 5 trials; without the text, fails 5 of 5",
            ],
            "2 of 4 instructions without a guard got a case; 1 without one, 1 undecided; 13 trials",
        ),
    ],
)
def test_suggestions_are_printed_written_or_both(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    count: int,
    printed: list[str],
    total: str,
):
    def shown(*, as_json: bool, output: str | None) -> str:
        options: Any = SimpleNamespace(as_json=as_json, output=output)
        _show_suggestions(SUGGESTIONS[:count], subject, options)
        return capsys.readouterr().out

    subject: Any = SimpleNamespace(
        prompt=SimpleNamespace(name="triage", digest="d"), model="sim:clerk-1"
    )
    file = tmp_path / "mutants.json"
    assert shown(as_json=False, output=None).splitlines() == [*printed, total]
    assert shown(as_json=False, output=str(file)).splitlines() == [*printed, total]
    document = json.loads(file.read_text("utf-8"))
    assert json.loads(shown(as_json=False, output="-")) == document
    assert json.loads(shown(as_json=True, output=None)) == document
    rows = document.pop("suggestions")
    assert [row["status"] for row in rows] == [one.status for one in SUGGESTIONS[:count]]
    assert document == {
        "schema_version": 1,
        "prompt": "triage",
        "digest": "d",
        "model": "sim:clerk-1",
        "simulated": True,
        "calls": sum(row["calls"] for row in rows),
    }


@pytest.mark.parametrize("value", ["-", "run.html", "sub/run.html", "{root}/run.html"])
def test_a_file_in_a_directory_or_standard_output_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    value = value.format(root=tmp_path)
    assert OutputFile().convert(value, None, None) == value
    with pytest.raises(UsageError, match=r"no/run.html cannot be written: there is no no\n"):
        OutputFile().convert("no/run.html", None, None)
    with pytest.raises(BadParameter, match="is a directory"):
        OutputFile().convert("sub", None, None)


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("", ()),
        ("429=0.2", (("429", 0.2),)),
        (" 500 = 0.5 , drop=0.5,", (("500", 0.5), ("drop", 0.5))),
        ("429=0.1,429=0.2,truncate=0.7", (("429", 0.1), ("429", 0.2), ("truncate", 0.7))),
        ("timeout=1", (("timeout", 1.0),)),
        ("drop=0", (("drop", 0.0),)),
    ],
)
def test_faults_have_shares_that_make_at_most_one(text: str, shares: tuple[tuple[str, float], ...]):
    plan = parse_faults(text, seed=3)
    assert (plan.shares, plan.seed) == (shares, 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("429", "'429' is not a fault with a share"),
        ("429=x", "'429=x' is not a fault with a share"),
        ("429=1.01", "is not a fault with a share"),
        ("429=-0.1", "is not a fault with a share"),
        ("429=nan", "is not a fault with a share"),
        ("200=0.1", "'200' is not a fault"),
        ("crash=0.1", "'crash' is not a fault"),
        ("429=0.5,500=0.51", "add up to more than 1"),
    ],
)
def test_a_text_that_is_no_share_of_faults_is_refused(text: str, problem: str):
    with pytest.raises(UsageError, match=problem):
        parse_faults(text)
