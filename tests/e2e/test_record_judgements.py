"""Recording, pruning and linting what judges asked and measured."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.judge_source import MEMOISED, MODEL_JUDGE, MODEL_JUDGES_GATE

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint

SOURCE = MODEL_JUDGE + MEMOISED + MODEL_JUDGES_GATE


def judges(project: EvalProject, more: str = "") -> None:
    """A rule, a judge, and one whose measurements are recorded, with `more` arguments."""
    project.judged_by(
        f"min_chars(1), asking('fair', 'local:judge'{more}),"
        f" asking('kind', 'local:judge', 'Is it kind?', kind=Memoised{more})",
        more=SOURCE,
    )


@pytest.fixture
def judged(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    endpoint.answer = lambda text: '{"score": 0.9}' if text.startswith("judge ") else text
    live.golden([live.case(number) for number in range(3)])
    judges(live)
    return live


def test_record_asks_judges_too(judged: EvalProject, endpoint: Endpoint):
    done = judged.command("record")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == ["3 of 3 completions recorded", "6 judge calls recorded"]
    endpoint.forget()
    assert judged.command("record").stdout == "nothing is missing\n"
    judged.run("--record=none").assert_outcomes(passed=3)
    assert endpoint.total == 0


def test_a_dry_run_counts_judgements_with_and_without_answers(
    judged: EvalProject, endpoint: Endpoint
):
    dry = judged.command("record", "--dry-run")
    assert dry.returncode == 0
    assert dry.stdout.count("needs recording: triage, judge fair, 3 judgements of 3 cases") == 1
    assert dry.stdout.count("needs recording: triage, judge kind, 3 judgements of 3 cases") == 1
    assert endpoint.total == 0
    judged.command("record")
    judges(judged, ", calls=2")
    chained = judged.command("record", "--dry-run")
    assert "judge fair, 3 judgements of 3 cases, 3 of them recorded for an older" in chained.stdout


def test_a_changed_rubric_leaves_stale_recordings_that_lint_names(
    judged: EvalProject, endpoint: Endpoint
):
    judged.command("record")
    clean = judged.command("lint")
    assert "judge call" not in clean.stdout
    judged.judged_by(
        "min_chars(1), asking('fair', 'local:judge', 'Is it really right?'),"
        " asking('kind', 'local:other', 'Is it kind?', kind=Memoised)",
        more=SOURCE,
    )
    lint = judged.command("lint")
    assert lint.returncode == 1
    assert (
        "fixtures/recordings/judges/triage.jsonl: 6 of 6 judge calls are unused: outputs or judges"
        " changed since (fair, kind)" in lint.stdout
    )
    assert "verdicts/triage.jsonl: 3 of 3 measurements" in lint.stdout
    assert lint.stdout.count("fix: regauge record triage, then regauge record --prune\n") == 2
    judged.command("record")
    recorded = judged.command("lint").stdout
    assert recorded.count("fix: regauge record --prune\n") == 2
    assert "regauge record triage" not in recorded
    dry = judged.command("record", "--prune", "--dry-run")
    assert "judges/triage.jsonl: would remove 6 of 12 judge calls" in dry.stdout
    judged.command("record", "--prune")
    assert len(judged.recordings("judges/triage")) == 6
    assert len(judged.recordings("verdicts/triage")) == 3
    endpoint.forget()
    judged.run("--record=none").assert_outcomes(passed=3)
    judged.run("--record=none", "--rejudge").assert_outcomes(passed=3)
    assert judged.command("lint").stdout.count("judge call") == 0


def test_recordings_of_a_renamed_prompt_are_moved_not_pruned(judged: EvalProject):
    judged.command("record")
    for folder, suffix in (("prompts", "prompt.yml"), ("fixtures/golden", "jsonl")):
        path = judged.root / folder / f"triage.{suffix}"
        path.rename(path.with_name(f"sorting.{suffix}"))
    file = judged.root / "evals/test_triage.py"
    file.write_text(file.read_text().replace("'triage'", "'sorting'"))
    lint = judged.command("lint").stdout
    assert "record --prune" not in lint
    moves = re.findall(r"fix: git mv (\S+) (\S+)\n", lint)
    assert len(moves) == 3
    for old, new in moves:
        (judged.root / old).rename(judged.root / new)
    assert "recordings" not in judged.command("lint").stdout
    judged.run("--record=none").assert_outcomes(passed=3)


def test_prune_keeps_the_calls_behind_measurements_and_other_trials(judged: EvalProject):
    judged.command("record", "--trials=2")
    pruned = judged.command("record", "--prune")
    assert "judges/triage.jsonl: removed 0 of 12 judge calls" in pruned.stdout
    assert "verdicts/triage.jsonl: removed 0 of 6 measurements" in pruned.stdout


def test_calls_of_calibration_are_left_alone(judged: EvalProject):
    judged.command("record")
    kept = judged.write("fixtures/recordings/judges/calibration/fair.jsonl", "not read\n")
    assert judged.command("record", "--prune").returncode == 0
    assert kept.read_text(encoding="utf-8") == "not read\n"


def test_a_damaged_measurement_is_named_with_its_line(judged: EvalProject):
    judged.command("record")
    path = judged.root / "fixtures/recordings/verdicts/triage.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0], "{}", *lines[1:]]), encoding="utf-8")
    result = judged.run("--record=none")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*verdicts/triage.jsonl:2: not a recorded measurement*"])


def test_judge_calls_are_written_from_the_local_store(judged: EvalProject, endpoint: Endpoint):
    judged.command("record")
    recordings = judged.root / "fixtures" / "recordings"
    before = {path: path.read_bytes() for path in recordings.rglob("*.jsonl")}
    assert len(before) == 3
    shutil.rmtree(recordings)
    endpoint.forget()
    stored = "(3 completions from the local store)", "(6 judge calls from the local store)"
    dry = judged.command("record", "--dry-run")
    assert (dry.returncode, dry.stdout.splitlines()) == (
        0,
        [
            f"would write fixtures/recordings/triage.jsonl {stored[0]}",
            f"would write fixtures/recordings/judges/triage.jsonl {stored[1]}",
        ],
    )
    done = judged.command("record")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            f"wrote fixtures/recordings/triage.jsonl {stored[0]}: commit it",
            f"wrote fixtures/recordings/judges/triage.jsonl {stored[1]}: commit it",
            "wrote fixtures/recordings/verdicts/triage.jsonl: commit it",
        ],
    )
    assert {path: path.read_bytes() for path in recordings.rglob("*.jsonl")} == before
    assert endpoint.total == 0
