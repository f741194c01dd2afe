"""`regauge runs list` and `regauge report`: what was run, in the form another reader wants."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from regauge.cli import group
from regauge.errors import InvalidFileError

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


@pytest.fixture
def regauge(monkeypatch: pytest.MonkeyPatch):
    def run(project: EvalProject, *arguments: str) -> Result:
        monkeypatch.chdir(project.root)
        return CliRunner().invoke(group, list(arguments))

    return run


def test_runs_are_listed_and_written_in_every_form(project: EvalProject, regauge):
    empty = regauge(project, "runs", "list")
    assert empty.exit_code == 0
    assert empty.output == "no runs in .regauge/runs yet: pytest evals\n"
    project.golden([project.case(0, tags=["a", "b"]), project.case(1, ok=False), project.case(2)])
    project.run("-k", "not disk-002")
    project.run("--record=none")
    first, second = project.records()

    listed = regauge(project, "runs", "list").output.splitlines()
    assert [line.split()[0] for line in listed] == [second["id"], first["id"]]
    assert "3 cases, 1 failed, 1 unmeasured, $0  triage@1.0.0 (sim:clerk-1)" in listed[0]
    assert "2 cases, 1 failed, 0 unmeasured, $0  triage@1.0.0" in listed[1]
    assert len(regauge(project, "runs", "list", "--limit=1").output.splitlines()) == 1
    (as_json,) = regauge(project, "runs", "list", "--limit=1", "--json").output.splitlines()
    assert json.loads(as_json) == second

    shown = regauge(project, "report", first["id"])
    assert shown.exit_code == 0
    assert shown.output.startswith("### regauge: 1 of 2 cases failed\n")
    latest = regauge(project, "report")
    assert "1 of 3 cases failed, 1 unmeasured" in latest.output
    assert "sim:clerk-1 (simulated)" in latest.output

    document = json.loads(regauge(project, "report", "--format=json").output)
    assert document["id"] == second["id"]
    assert [row["case_outcome"] for row in document["rows"]] == ["passed", "failed", "unmeasured"]

    for form in ("csv", "parquet"):
        target = project.root / f"trials.{form}"
        assert regauge(project, "report", "--format", form, "-o", str(target)).exit_code == 0
        read = pd.read_csv if form == "csv" else pd.read_parquet
        table = read(target)
        assert list(table["case"]) == ["disk-000", "disk-001", "disk-002"]
        assert list(table["outcome"]) == ["passed", "failed", "unmeasured"]
        assert table["tags"][0] == "a;b"
        assert list(table["score.agrees"][:2]) == [1.0, 0.0]
        assert pd.isna(table["score.agrees"][2])
        assert table["cause"][2].startswith("MissingRecordingError: ")
    on_screen = regauge(project, "report", "--format=csv").output
    assert on_screen == (project.root / "trials.csv").read_text(encoding="utf-8")

    project.run("--record=none", "-k", "disk-002")
    assert (
        "1 case, unmeasured, $0  triage@1.0.0"
        in regauge(project, "runs", "list", "--limit=1").output
    )


def test_commands_that_make_no_sense_exit_with_2(project: EvalProject):
    nothing = project.command("report")
    assert nothing.returncode == 2
    assert "there are no runs" in nothing.stderr
    project.run()
    missing = project.command("report", "1999")
    assert (missing.returncode, missing.stderr) == (
        2,
        "error: there is no run '1999'\n  fix: `regauge runs list` lists them\n",
    )
    binary = project.command("report", "--format=parquet")
    assert binary.returncode == 2
    assert "-o FILE" in binary.stderr
    assert project.command("report", "--format=docx").returncode == 2
    unknown = project.command("report", "-o", "run.docx")
    assert unknown.returncode == 2
    bare = project.command("report", "-o", "run")
    note = "note: run has no suffix, so it is Markdown; for another format add --format, or end"
    assert note in bare.stderr
    assert "note" not in project.command("report", "--format", "md", "-o", "run").stderr
    assert "run.docx: no format has the suffix .docx\n  fix: add --format, or" in unknown.stderr
    assert project.run("--report=-").ret == pytest.ExitCode.USAGE_ERROR
    assert not (project.root / "-").exists()
    assert project.command("reports").returncode == 2


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("report.md", "### regauge: "),
        ("REPORT.MARKDOWN", "### regauge: "),
        ("report", "### regauge: "),
        ("report.html", "<!doctype html>"),
        ("report.json", "{"),
        ("report.csv", "node,"),
    ],
)
def test_a_report_takes_its_format_from_the_suffix(
    project: EvalProject, regauge, name: str, start: str
):
    project.run("-k", "disk-000")
    assert regauge(project, "report", "-o", name).exit_code == 0
    assert (project.root / name).read_text(encoding="utf-8").startswith(start)
    plain = regauge(project, "report", "-o", name, "--format", "md").exit_code
    assert plain == 0
    assert (project.root / name).read_text(encoding="utf-8").startswith("### regauge: ")


def test_a_dash_is_standard_output(project: EvalProject, regauge):
    project.run("-k", "disk-000")
    shown = regauge(project, "report", "-o", "-")
    assert shown.stdout.startswith("### regauge: ")
    assert not (project.root / "-").exists()


def test_what_a_model_writes_is_text_in_every_report(
    live: EvalProject, endpoint: Endpoint, regauge
):
    hostile = '=HYPERLINK("http://x","y") | @everyone <script>alert(1)</script> #12 `a` www.x.org'
    endpoint.answer = lambda _: hostile
    live.judged_by(
        "echo",
        more=(
            "def echo(output, case):\n"
            "    return Verdict(outcome='fail', score=0.0, reason=output)\n"
        ),
    )
    live.golden([live.case(0)])
    live.run()
    shown = regauge(live, "report").output
    (row,) = [line for line in shown.splitlines() if "disk" in line]
    assert row.count("|") == 5
    # Regauge's own name of the case is code; the model's text has no marks.
    row = row.replace("`disk-000`", "")
    for danger in ("<", "@e", "`", "#12", "www."):
        assert danger not in row.replace("&#", ""), danger
    # Mentions and references are found in text, after entities are read.
    assert "&#64;&#8203;everyone" in row
    assert "&#35;&#8203;12" in row
    regauge(live, "report", "--format=csv", "-o", "trials.csv")
    table = pd.read_csv(live.root / "trials.csv")
    assert table["output"][0] == f"'{hostile}"
    assert table["reason.echo"][0] == f"'{hostile}"


DEEP = "[" * 200_000


@pytest.mark.parametrize(("name", "mib"), [("run.json", 128), ("trials.jsonl", 512)])
def test_a_run_whose_files_are_too_large_is_refused_before_they_are_read(
    project: EvalProject, name: str, mib: int
):
    project.run("-k", "disk-000")
    (record,) = project.records()
    path = project.root / ".regauge" / "runs" / record["id"] / name
    os.truncate(path, (mib + 1) * 1024 * 1024)
    for words in (
        ["report", "--format=csv"],
        ["report", "latest", "--comment", "--dry-run", "--pr=1"],
    ):
        done = project.command(*words)
        assert done.returncode == 2
        assert f"{name}: cannot be read: it has {mib + 1} MiB, and {mib} MiB is the limit" in (
            done.stderr
        )


@pytest.mark.parametrize("name", ["run.json", "trials.jsonl"])
@pytest.mark.parametrize("form", ["md", "html", "json", "csv"])
def test_a_run_that_is_nested_too_deeply_is_one_sentence_with_its_fix(
    project: EvalProject, regauge, name: str, form: str
):
    project.run("-k", "disk-000")
    (record,) = project.records()
    path = project.root / ".regauge" / "runs" / record["id"] / name
    path.write_text(DEEP if name == "run.json" else f"{DEEP}\n", encoding="utf-8")
    done = regauge(project, "report", record["id"], "--format", form, "-o", "report.out")
    if name == "run.json" or form != "md":
        assert isinstance(done.exception, InvalidFileError)
        diagnostic, *fix = str(done.exception).splitlines()
        assert diagnostic.endswith("nested too deeply")
        assert len(fix) <= 1


def test_a_run_of_another_schema_is_refused(project: EvalProject, regauge):
    project.run("-k", "disk-000")
    (path,) = project.root.glob(".regauge/runs/*/run.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | {"schema_version": 99}), encoding="utf-8")
    refused = project.command("report")
    assert refused.returncode == 2
    assert "schema version 99; this regauge reads 1" in refused.stderr
    listed = regauge(project, "runs", "list")
    assert listed.exit_code == 0
    assert f"{path.parent.name}  unreadable: .regauge/runs/" in listed.output + (
        listed.stderr or ""
    )


def test_the_newest_run_is_found_among_runs_of_one_second(project: EvalProject, regauge):
    project.run("-k", "disk-000")
    (run,) = project.root.glob(".regauge/runs/*")
    second = run.name[:15]
    for number, suffix in enumerate(["ffff", "0000", "8888"]):
        other = project.root / ".regauge" / "runs" / f"{second}-{suffix}"
        shutil.copytree(run, other)
        document = json.loads((run / "run.json").read_text(encoding="utf-8"))
        path = other / "run.json"
        path.write_text(json.dumps(document | {"id": other.name}), encoding="utf-8")
        os.utime(path, (2_000_000_000 + number, 2_000_000_000 + number))
    assert f"Run `{second}-8888`" in regauge(project, "report", "latest").output


def test_a_run_without_its_trials_has_no_report(project: EvalProject, regauge):
    project.run("--report", "run")
    rows = project.root / "run/trials.jsonl"
    lines = rows.read_text(encoding="utf-8").splitlines(keepends=True)
    rows.write_text("".join(lines[:2]), encoding="utf-8")
    cut = regauge(project, "report", "run", "-o", "run.html").exception
    assert "run/trials.jsonl: it has 2 of 5 trials\n  fix: copy its directory again" in str(cut)
    rows.unlink()
    missing = regauge(project, "report", "run", "-o", "run.html").exception
    assert "it has 0 of 5 trials" in str(missing)
    assert not (project.root / "run.html").exists()
