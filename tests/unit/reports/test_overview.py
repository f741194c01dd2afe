"""The first page of a report: its head, and the plot of a prompt's past."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from regauge.evidence import CheckReport
from regauge.project import Project
from regauge.reports import RunWriter
from regauge.reports.html._overview import Overview, cases_by_prompt, overview_of, plot_of
from regauge.reports.html._source import PassRate, load_source
from regauge.stats import wilson
from tests.transcripts import assert_as_written
from tests.unit.reports.test_decisions import a_case, a_decision, answers, count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.runner import EvalResult


def write(
    place: Path,
    *results: EvalResult,
    interrupted: bool = False,
    failed_tests: Mapping[str, str] | None = None,
) -> Path:
    """Write a run; return its directory."""
    writer = RunWriter(place, redact=str)
    for result in results:
        writer.add(result)
    writer.finish(
        started_at=datetime(2026, 1, 31, tzinfo=UTC),
        interrupted=interrupted,
        command=["pytest", "evals"],
        options={"record": "none"},
        git=None,
        failed_tests=failed_tests,
    )
    return place


def overview(made: Any, place: Path, *outcomes: str, interrupted: bool = False) -> Overview:
    """The first page of a run with a case of each outcome; ` tracked` marks tracked cases."""
    results: list[EvalResult] = []
    for number, outcome in enumerate(outcomes):
        word, _, tier = outcome.partition(" ")
        case = made.case(number, tier=tier or "required")
        results.append(made.result([made.trial(0, word)], case=case, node_id=f"eval[c{number}]"))
    run = write(place / "run", *results, interrupted=interrupted)
    return overview_of(load_source(run, project=Project(root=place)), {})


def test_of_another_run_only_the_cases_of_this_one_are_shown(made: Any, tmp_path: Path):
    def rows(place: Path, number: int, node: str) -> Any:
        result = made.result([made.trial(0)], case=made.case(number), node_id=node)
        return load_source(write(place, result), project=Project(root=tmp_path)).rows

    against = [
        row
        for number, node in ((0, "eval[c0]"), (0, "other[c0]"), (1, "eval[c1]"))
        for row in rows(tmp_path / f"against-{node}", number, node)
    ]
    rows(tmp_path / "run", 0, "eval[c0]")
    source = load_source(tmp_path / "run", project=Project(root=tmp_path))
    (case,) = cases_by_prompt(replace(source, against_rows=against))["alert"]
    assert case["id"] == "c0"
    assert sorted(trial["side"] for trial in case["trials"]) == ["base", "candidate"]


def test_the_cases_of_a_decision_are_as_it_was_written_down(made: Any, tmp_path: Path):
    results = [
        made.result([made.trial(0, "failed")], case=made.case(0), node_id="eval[c0]"),
        made.result([made.trial(0, "failed")], case=made.case(1, tier="tracked"), node_id="eval[c1]"),
        made.result([made.trial(0)], case=made.case(2), node_id="eval[c2]"),
        made.result([made.trial(0, "unmeasured")], case=made.case(3), node_id="eval[c3]"),
    ]  # fmt: skip
    source = load_source(write(tmp_path / "run", *results), project=Project(root=tmp_path))
    check = CheckReport(
        check="tone",
        status="broken",
        before=count(12, 12),
        today=count(5, 5),
        candidate=count(0, 6),
        direction="worse",
        e_value=90.0,
        bound=20.0,
    )
    decided = (
        a_case("c0", checks=[check], **answers("yes", "no")),
        a_case("c1", "flaky", before=count(0, 0), accepted="rare", edit_sensitive=True),
        a_case("c2", "fixed", failing=answers("yes", "no")["passing"]),
        a_case("gone", "removed", state="removed", node="eval[gone]"),
        a_case("of-another-prompt", prompt="other"),
    )
    decided = [case.model_copy(update={"prompt": "alert"}) for case in decided[:-1]] + [decided[-1]]
    rows: list[dict[str, Any]] = []
    for row in source.rows:
        shown = [
            {name: v[name] for name in ("judge", "outcome", "reason")} for v in row["verdicts"]
        ]
        advisory = [{**verdict, "outcome": "fail", "blocking": False} for verdict in shown]
        sides = (("base", shown), ("candidate", shown), ("candidate", advisory))
        rows += [
            {**row, "side": side, "verdicts": verdicts, "latency_s": 0.5 + n, "cost_usd": 0.25 * n}
            for n, (side, verdicts) in enumerate(sides)
        ]
    record = source.record.model_copy(update={"decision": a_decision(*decided)})
    document = cases_by_prompt(replace(source, rows=rows, record=record))
    assert_as_written(json.dumps(document, indent=1) + "\n", "pages/cases of a decision")


@pytest.mark.parametrize(
    ("outcomes", "title", "tone"),
    [
        (["passed"], "1 case, none failed", "good"),
        (["passed", "passed"], "2 cases, none failed", "good"),
        (["passed", "failed"], "1 of 2 cases failed", "bad"),
        (["failed"], "1 of 1 case failed", "bad"),
        (["passed", "unmeasured"], "2 cases, none failed, 1 unmeasured", "warn"),
        (["failed", "unmeasured"], "1 of 2 cases failed, 1 unmeasured", "bad"),
        (
            ["passed", "failed tracked"],
            "2 cases, none failed; 1 tracked case failed without blocking",
            "good",
        ),
    ],
)
def test_only_a_run_that_measured_all_and_failed_nothing_has_a_green_head(
    made: Any, tmp_path: Path, outcomes: list[str], title: str, tone: str
):
    page = overview(made, tmp_path, *outcomes)
    assert (page.title, page.tone) == (title, tone)


@pytest.mark.parametrize(
    ("outcomes", "title", "tone"),
    [
        (["passed"], "Interrupted: 1 case, none failed", "warn"),
        (["passed", "failed"], "Interrupted: 1 of 2 cases failed", "bad"),
    ],
)
def test_an_interrupted_run_is_never_green(
    made: Any, tmp_path: Path, outcomes: list[str], title: str, tone: str
):
    page = overview(made, tmp_path, *outcomes, interrupted=True)
    assert (page.title, page.tone) == (title, tone)


def test_a_run_whose_tests_fail_apart_from_their_judges_is_never_green(made: Any, tmp_path: Path):
    result = made.result([made.trial(0)], case=made.case(0), node_id="eval[c0]")
    run = write(tmp_path / "run", result, failed_tests={"eval[c0]": "assert False"})
    page = overview_of(load_source(run, project=Project(root=tmp_path)), {})
    assert page.title == "1 of 1 case failed; 1 test failed apart from judges"
    assert page.tone == "bad"
    assert page.reasons == ("eval[c0]: assert False",)


@pytest.mark.parametrize(
    ("decision", "failed", "title", "tone"),
    [
        ("accept", 0, "Accepted against a: 1 broken of 100 cases", "good"),
        (
            "accept",
            1,
            "Accepted against a: 1 broken of 100 cases; 1 test failed apart from judges",
            "bad",
        ),
        ("reject", 0, "Rejected against a: 1 broken of 100 cases", "bad"),
        ("undecided", 0, "Undecided against a: 1 broken of 100 cases", "warn"),
        (
            "undecided",
            2,
            "Undecided against a: 1 broken of 100 cases; 2 tests failed apart from judges",
            "bad",
        ),
        ("refused", 0, "Refused: not compared with a: 1 broken of 100 cases", "warn"),
    ],
)
def test_only_an_accepted_change_without_failed_tests_has_a_green_head(
    tmp_path: Path, decision: Any, failed: int, title: str, tone: str
):
    failed_tests = {f"eval[c{number}]": "assert False" for number in range(failed)}
    run = write(tmp_path / "run", failed_tests=failed_tests)
    source = load_source(run, project=Project(root=tmp_path))
    document = a_decision(decision=decision, ref="a", base_commit="")
    record = source.record.model_copy(update={"decision": document})
    page = overview_of(replace(source, record=record), {})
    assert (page.title, page.tone) == (title, tone)


def test_a_case_whose_test_fails_apart_from_its_judges_is_failed_in_the_rows(
    made: Any, tmp_path: Path
):
    outcomes = {"eval[c0]": "passed", "eval[c1]": "passed", "eval[c2]": "unmeasured"}
    results = [
        made.result([made.trial(0, outcome)], case=made.case(number), node_id=node)
        for number, (node, outcome) in enumerate(outcomes.items())
    ]
    failed = dict.fromkeys(["eval[c0]", "eval[c2]"], "assert False")
    run = write(tmp_path / "run", *results, failed_tests=failed)
    rows = [json.loads(line) for line in (run / "trials.jsonl").read_text("utf-8").splitlines()]
    assert [(row["node"], row["case_outcome"]) for row in rows] == [
        ("eval[c0]", "failed"),
        ("eval[c1]", "passed"),
        ("eval[c2]", "unmeasured"),
    ]


def test_a_prompt_counts_measured_cases_alone(made: Any, tmp_path: Path):
    (prompt,) = overview(made, tmp_path, "passed", "passed", "failed", "unmeasured").prompts
    assert (prompt.passed, prompt.measured, prompt.rate) == (2, 3, 2 / 3)
    interval = wilson(2, 3)
    assert (prompt.low, prompt.high) == (interval.low, interval.high)
    (nothing,) = overview(made, tmp_path / "other", "unmeasured").prompts
    assert (nothing.passed, nothing.measured, nothing.rate) == (0, 0, None)
    assert (nothing.low, nothing.high) == (0, 1)


def test_a_case_has_the_trials_and_figures_of_its_side(made: Any, tmp_path: Path):
    run = write(
        tmp_path / "run",
        made.result(
            [made.trial(0), made.trial(1, "failed"), made.trial(2, "unmeasured")], node_id="a[c0]"
        ),
        made.result([made.trial(0)], node_id="b[c0]"),
        made.result([made.trial(0, "failed")], node_id="a[c1]", case=made.case(1, tier="tracked")),
    )
    against = write(
        tmp_path / "against",
        made.result([made.trial(0, "failed"), made.trial(1)], pass_rate=0.5, node_id="a[c0]"),
        made.result([made.trial(0)], node_id="a[c9]", case=made.case(9)),
    )
    source = load_source(run, project=Project(root=tmp_path), against=against)
    # Each eval has its own cases; a case of the other run alone is none.
    cases: dict[str, Any] = {
        f"{case['id']} ({eval_name})": case
        for eval_name, of_eval in (("a", "alert (a)"), ("b", "alert (b)"))
        for case in cases_by_prompt(source)[of_eval]
    }
    assert list(cases) == ["c0 (a)", "c1 (a)", "c0 (b)"]
    assert {name: case["status"] for name, case in cases.items()} == {
        "c0 (a)": "failed",
        "c0 (b)": "passed",
        "c1 (a)": "failed (tracked)",
    }
    assert {name: case["counts"] for name, case in cases.items()} == {
        "c0 (a)": {"candidate": [1, 2], "base": [1, 2]},
        "c0 (b)": {"candidate": [1, 1]},
        "c1 (a)": {"candidate": [0, 1]},
    }
    sides = [(trial["side"], trial["n"], trial["outcome"]) for trial in cases["c0 (a)"]["trials"]]
    assert sides == [
        ("candidate", 0, "passed"),
        ("candidate", 1, "failed"),
        ("candidate", 2, "unmeasured"),
        ("base", 0, "failed"),
        ("base", 1, "passed"),
    ]
    # An unmeasured trial cost nothing, and trials of the base are not the candidate's.
    figures = {
        name: (case["failed"], case["latency"], case["cost"]) for name, case in cases.items()
    }
    assert figures == {
        "c0 (a)": (["severity"], 0.25, 1.0),
        "c0 (b)": ([], 0.25, 0.5),
        "c1 (a)": (["severity"], 0.25, 0.5),
    }


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A prompt in the run history."""

    run: str
    started_at: str = "2026-01-30T00:00:00+00:00"
    version: str | None = "1.0.0"
    prompt_digest: str = "d1"
    dataset: str = "alert"
    eval: str = "eval"
    model: str = "sim:clerk-1"
    side: str | None = None
    measured: int = 4
    passed: int = 3


def test_suggestions_are_shown_with_the_decisions_of_their_trail(made: Any, tmp_path: Path):
    overview(made, tmp_path, "passed")
    file = tmp_path / "run/run.json"
    shown = {"prompt": "alert", "stop": "no-proposal", "headline": "Nothing helps"}
    suggestions = [shown, {**shown, "run": "r1"}]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"suggestions": suggestions}))
    source = load_source(tmp_path / "run", project=Project(root=tmp_path))
    assert [revision.suggestion.run for revision in source.revisions] == ["", "r1"]
    assert [dict(revision.cycles) for revision in source.revisions] == [{}, {}]
    assert [bool(revision.problem) for revision in source.revisions] == [False, True]


def test_the_past_of_a_prompt_is_its_comparable_runs(made: Any, tmp_path: Path):
    overview(made, tmp_path, *["passed"] * 4, "unmeasured")
    project = Project(root=tmp_path)
    record = load_source(tmp_path / "run", project=project).record
    assert record.evals[0].dataset == "alert"
    past = [
        Measured(run="first", version=None, prompt_digest="0123456789"),
        Measured(run="a base", side="base"),
        Measured(run="another dataset", dataset="other"),
        Measured(run="another eval", eval="other"),
        Measured(run="another model", model="sim:clerk-2"),
        Measured(run="nothing measured", measured=0, passed=0),
        Measured(run="few cases", measured=1, passed=1),
        Measured(run="half of the cases", measured=2, passed=0),
        Measured(run="while this one ran", started_at="2026-02-01T00:00:00+00:00"),
        Measured(run=record.id),
        Measured(run="after this one"),
    ]
    source = load_source(tmp_path / "run", project=project, measured=lambda _: past)
    shown = source.history["alert"]
    assert [(point.run, point.version, point.passed, point.cases) for point in shown] == [
        ("first", "01234567", 3, 4),
        ("half of the cases", "1.0.0", 0, 2),
        (record.id, "1.0.0", 4, 4),
    ]
    assert shown[1].low == wilson(0, 2).low == 0
    assert shown[1].high == wilson(0, 2).high
    many = [Measured(run=str(number)) for number in range(100)]
    source = load_source(tmp_path / "run", project=project, measured=lambda _: many)
    assert [point.run for point in source.history["alert"]] == [
        *map(str, range(61, 100)),
        record.id,
    ]


def points(*runs: tuple[str, int, int]) -> list[PassRate]:
    """Runs of a version, with passed and measured cases."""
    return [
        PassRate(
            run=f"run-{number}",
            started_at="2026-01-31T00:00:00+00:00",
            version=version,
            digest=f"digest of {version}",
            model="sim:clerk-1",
            passed=passed,
            cases=cases,
            low=wilson(passed, cases).low,
            high=wilson(passed, cases).high,
        )
        for number, (version, passed, cases) in enumerate(runs)
    ]


@given(
    runs=st.lists(
        st.integers(1, 200).flatmap(
            lambda cases: st.tuples(
                st.sampled_from(["1.0.0", "1.1.0"]), st.integers(0, cases), st.just(cases)
            )
        ),
        min_size=1,
        max_size=40,
    )
)
def test_every_dot_and_bar_of_a_plot_is_inside_and_in_order(runs: list[tuple[str, int, int]]):
    plot = plot_of(points(*runs))
    assert [mark.point.passed for mark in plot.marks] == [passed for _, passed, _ in runs]
    places = [mark.x for mark in plot.marks]
    assert places == sorted(set(places))
    assert all(plot.left < x < plot.right for x in places)
    top = plot.lines[-1][0]
    for mark in plot.marks:
        # Greater rates are higher, which is less from the top.
        assert top <= mark.high <= mark.y <= mark.low <= plot.bottom
    by_rate = sorted(plot.marks, key=lambda mark: mark.point.rate)
    assert [mark.y for mark in by_rate] == sorted((mark.y for mark in by_rate), reverse=True)
    assert plot.path.split() == [f"{mark.x},{mark.y}" for mark in plot.marks]


def test_a_plot_begins_at_a_round_rate_below_all_intervals_and_ends_at_100():
    (mark,) = (plot := plot_of(points(("1.0.0", 90, 100)))).marks
    assert [label for _, label in plot.lines] == ["80 %", "85 %", "90 %", "95 %", "100 %"]
    heights = [height for height, _ in plot.lines]
    assert (heights[0], heights[2]) == (plot.bottom, mark.y)
    good = plot_of(points(("1.0.0", 10_000, 10_000)))
    assert good.lines[0][1] == "90 %"
    bad = plot_of(points(("1.0.0", 10_000, 10_000), ("1.0.0", 0, 9)))
    assert bad.lines[0] == (bad.bottom, "0 %")


def test_a_plot_names_a_version_where_it_begins_and_where_there_is_room():
    plot = plot_of(points(("1.0.0", 9, 9), ("1.0.0", 9, 9), ("1.1.0", 9, 9), ("1.1.0", 9, 9)))
    assert [mark.begins for mark in plot.marks] == [True, False, True, False]
    assert [mark.name for mark in plot.marks] == ["1.0.0", "", "1.1.0", ""]
    crowded = plot_of(points(*((f"1.{number}.0", 9, 9) for number in range(30))))
    named = [mark.x for mark in crowded.marks if mark.name]
    assert all(mark.begins for mark in crowded.marks)
    assert named[0] == crowded.marks[0].x
    assert 30 > len(named) > 5
    assert all(after - before >= 60 for before, after in pairwise(named))
