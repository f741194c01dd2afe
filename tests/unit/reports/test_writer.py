from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.errors import InvalidFileError, UsageError
from regauge.project import Project
from regauge.recordings import Redactor
from regauge.reports import (
    RunWriter,
    TrialRow,
    find_run,
    list_runs,
    read_record,
    read_rows,
    run_markdown,
)
from regauge.reports._console import shard_lines
from regauge.reports._documents import MergedShards
from regauge.reports._runs import row_lines
from tests import processes

if TYPE_CHECKING:
    from regauge.runner import Trial

STARTED = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)


def same(text: str) -> str:
    return text


def ended(writer: RunWriter, *, interrupted: bool = False) -> Any:
    return writer.finish(
        started_at=STARTED,
        interrupted=interrupted,
        command=["pytest", "evals"],
        options={"record": "none"},
        git=None,
    )


def test_what_is_written_is_read_back(made: Any, tmp_path: Path):
    writer = RunWriter(tmp_path / "run", redact=same)
    assert writer.empty
    assert not (tmp_path / "run").exists()
    writer.add(made.result([made.trial(0), made.trial(1, "failed")]))
    record = ended(writer)
    assert read_record(tmp_path / "run") == record
    rows = list(read_rows(tmp_path / "run"))
    assert [TrialRow.model_validate(row).trial for row in rows] == [0, 1]
    writer.export(tmp_path / "kept" / "there")
    assert read_record(tmp_path / "kept" / "there") == record
    assert record.started_at == "2026-01-31T23:59:59+00:00"


def test_a_run_that_is_killed_loses_no_row(made: Any, tmp_path: Path):
    writer = RunWriter(tmp_path / "run", redact=same)
    for number in range(3):
        writer.add(made.result([made.trial(0)], case=made.case(number), node_id=str(number)))
        assert len(list(read_rows(tmp_path / "run"))) == number + 1
    writer.close()


def test_workers_write_apart_and_are_gathered_and_counted_once(made: Any, tmp_path: Path):
    for number, name in enumerate(["gw0", "gw1"]):
        worker = RunWriter(tmp_path / "run", redact=same, worker=name)
        for case in range(3):
            where = f"evals/test_alert.py::test_alert[c{2 * case + number}]"
            worker.add(made.result([made.trial()], node_id=where, case=made.case(case)))
        worker.close()
    controller = RunWriter(tmp_path / "run", redact=same)
    controller.gather()
    record = ended(controller, interrupted=True)
    assert record.status == "interrupted"
    assert (record.evals[0].cases, record.evals[0].passed) == (6, 6)
    nodes = [row["node"] for row in read_rows(tmp_path / "run")]
    assert nodes == sorted(nodes)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "run.json",
        "trials.jsonl",
    ]
    controller.gather()
    assert len(list(read_rows(tmp_path / "run"))) == 6


def test_rows_of_a_worker_are_whole_before_it_ends(made: Any, tmp_path: Path):
    worker = RunWriter(tmp_path / "run", redact=same, worker="gw0")
    worker.add(made.result([made.trial()]))
    text = (tmp_path / "run" / "trials.gw0.jsonl").read_text(encoding="utf-8")
    assert json.loads(text)["case"] == "c0"
    worker.close()


def test_a_greedy_pattern_redacts_within_one_text_alone(made: Any, tmp_path: Path):
    redactor = Redactor(["it is.*", '"critical".*'])
    writer = RunWriter(tmp_path / "run", redact=redactor.redact)
    writer.add(made.result([made.trial()]))
    writer.close()
    (row,) = read_rows(tmp_path / "run")
    TrialRow.model_validate(row)
    assert row["output"] == '{"severity": [redacted by regauge]'
    assert row["verdicts"][0]["reason"] == "[redacted by regauge]\nas [redacted by regauge]"
    assert row["verdicts"][0]["expected"] == {"severity": "none"}


@pytest.mark.parametrize(
    ("missing", "lines"),
    [
        ([], []),
        ([2], ["unmeasured: shard 2 of 5 missing"]),
        ([2, 4], ["unmeasured: shards 2, 4 of 5 missing"]),
    ],
)
def test_a_merged_run_names_its_missing_shards(
    made: Any, tmp_path: Path, missing: list[int], lines: list[str]
):
    writer = RunWriter(tmp_path / "run", redact=same)
    writer.add(made.result([made.trial()]))
    record = ended(writer)
    assert shard_lines(record) == []
    merged = record.model_copy(update={"merged": MergedShards(count=5, missing=missing)})
    assert [line.text for line in shard_lines(merged)] == lines
    assert {line.tone for line in shard_lines(merged)} <= {"bad"}


def test_runs_are_found_by_id_by_beginning_or_by_directory(made: Any, tmp_path: Path):
    project = Project(root=tmp_path)
    with pytest.raises(UsageError, match="there are no runs"):
        find_run(project, "latest")
    names = ["20260131-101010-aaaa", "20260131-101011-bbbb", "20260201-000000-cccc"]
    for name in names:
        writer = RunWriter(project.state_dir / "runs" / name, redact=same)
        writer.add(made.result([made.trial()]))
        ended(writer)
    (project.state_dir / "runs" / "20260301-000000-dead").mkdir()
    assert [run.name for run in list_runs(project)] == names[::-1]
    assert find_run(project, "latest").name == names[2]
    assert find_run(project, "20260131-101010").name == names[0]
    where = project.state_dir / "runs" / names[1]
    assert find_run(project, str(where)) == where
    several = "2 runs begin with '20260131': 20260131-101011-bbbb, 20260131-101010-aaaa\n"
    with pytest.raises(UsageError, match=several):
        find_run(project, "20260131")
    for number in range(4):
        shutil.copytree(where, project.state_dir / "runs" / f"20260131-0{number}")
    with pytest.raises(UsageError, match=r"6 runs begin with '20260131': ([^,]+, ){4}[^,]+\n"):
        find_run(project, "20260131")
    with pytest.raises(UsageError, match="there is no run 'x'"):
        find_run(project, "x")


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema_version": 1}', '"text"', "null"])
def test_what_is_no_run_record_is_refused_with_its_path(tmp_path: Path, content: str):
    (tmp_path / "run.json").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidFileError, match=r"run\.json"):
        read_record(tmp_path)


def test_a_broken_row_is_refused_with_its_line(tmp_path: Path):
    (tmp_path / "trials.jsonl").write_text('{"a"\n', encoding="utf-8")
    with pytest.raises(InvalidFileError, match=r"trials\.jsonl:1: not a row: "):
        list(read_rows(tmp_path))
    (tmp_path / "trials.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    with pytest.raises(
        InvalidFileError, match=r"trials\.jsonl:1: written by another .*: `node` is missing"
    ):
        list(read_rows(tmp_path))
    assert list(read_rows(tmp_path / "nowhere")) == []


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_are_read_up_to_a_size_for_each_merged_run(tmp_path: Path, parts: int):
    rows = tmp_path / "trials.jsonl"
    limit = parts * 512 * 2**20
    rows.write_bytes(b"first\n")
    os.truncate(rows, limit)
    lines = row_lines(rows, parts=parts)
    assert next(lines) == (1, b"first")
    lines.close()
    os.truncate(rows, limit + 1)
    with pytest.raises(InvalidFileError, match=f"{parts * 512:,} MiB is the limit"):
        next(row_lines(rows, parts=parts))


def test_markdown_lists_at_most_fifty_cases(made: Any, tmp_path: Path):
    writer = RunWriter(tmp_path / "run", redact=same)
    for number in range(60):
        writer.add(
            made.result([made.trial(0, "failed")], case=made.case(number), node_id=str(number))
        )
    record = ended(writer)
    text = run_markdown(record, read_rows(tmp_path / "run"))
    assert text.startswith("### regauge: 60 of 60 cases failed\n")
    assert "… and 10 more." in text
    assert text.count("| severity |") == 50


def test_failed_verdicts_are_summed_up_by_criterion(made: Any, tmp_path: Path):
    def judged(severity: str, words: str) -> Trial:
        (verdict,) = made.trial(0, severity).verdicts
        (short,) = made.trial(0, words).verdicts
        short = replace(short, judge="max_words", criterion="format")
        return replace(made.trial(0, severity), verdicts=(verdict, short))

    writer = RunWriter(tmp_path / "run", redact=same)
    for number, (severity, words) in enumerate(
        [("passed", "passed"), ("failed", "passed"), ("failed", "failed")]
    ):
        trials = [judged(severity, words)]
        writer.add(made.result(trials, case=made.case(number), node_id=str(number)))
    record = ended(writer)
    assert [judge.criterion for judge in record.evals[0].judges] == ["correctness", "format"]
    text = run_markdown(record, read_rows(tmp_path / "run"))
    assert "Failed verdicts by criterion: correctness 2 of 3, format 1 of 3.\n" in text

    sound = RunWriter(tmp_path / "sound", redact=same)
    sound.add(made.result([judged("passed", "passed")]))
    assert "criterion" not in run_markdown(ended(sound), read_rows(tmp_path / "sound"))


@pytest.mark.parametrize("form", ["md", "json", "csv", "parquet"])
def test_a_report_that_cannot_be_written_is_refused_with_its_path(
    made: Any, tmp_path: Path, form: str
):
    writer = RunWriter(tmp_path / "run", redact=same)
    writer.add(made.result([made.trial()]))
    ended(writer)
    output = tmp_path / "nowhere" / "x"
    words = ["report", str(tmp_path / "run"), "--format", form, "-o", str(output)]
    done = processes.run("regauge", *words, cwd=tmp_path, env={**os.environ})
    assert done.returncode == 2
    assert "error: nowhere/x cannot be written: " in done.stderr
    assert "Traceback" not in done.stderr


def test_csv_on_a_terminal_holds_no_control_characters_and_a_page_is_not_poured_into_it(
    made: Any, tmp_path: Path
):
    writer = RunWriter(tmp_path / "run", redact=same)
    writer.add(made.result([made.trial(0, "failed")]))
    ended(writer)
    rows = tmp_path / "run" / "trials.jsonl"
    text = rows.read_text(encoding="utf-8")
    rows.write_text(text.replace('"reason":"', '"reason":"\\u001b[31m'), encoding="utf-8")
    words = ["report", str(tmp_path / "run"), "--format", "csv"]
    piped = processes.run("regauge", *words, cwd=tmp_path, env={**os.environ})
    assert "\x1b[31m" in piped.stdout
    ours, theirs = os.openpty()
    shown = b""
    script = Path(sys.executable).parent / "regauge"
    with processes.scripts(script) as folder, os.fdopen(ours, "rb", buffering=0) as terminal:
        command = [folder / script.name, *words]
        subprocess.run(command, cwd=tmp_path, stdout=theirs, timeout=60, check=True)
        page = subprocess.run(
            [*command[:-1], "html"],
            cwd=tmp_path,
            stdout=theirs,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        os.close(theirs)
        with suppress(OSError):
            while more := terminal.read(4096):
                shown += more
    assert b"\\x1b[31m" in shown
    assert b"\x1b" not in shown
    assert page.returncode == 2
    assert b"fix: regauge report -o report.html" in page.stderr
