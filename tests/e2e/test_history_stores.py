"""The history in SQLite and in a real PostgreSQL: every promise on both."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from inline_snapshot import snapshot

from regauge.cli import group
from regauge.errors import StoreError
from regauge.history import RunEntry, StorePlace, find_store
from regauge.history._history import History
from regauge.history._store import STEPS, Store
from regauge.project import Project
from regauge.reports import MeasuredEval
from tests import processes
from tests.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import EvalProject

_NASTY = "it's \0 nul, \ud83d half a pair, \"); DROP TABLE regauge_runs; -- \u202e"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/team/history.sqlite3"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.make_database())


@pytest.fixture
def regauge(project: EvalProject, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`regauge` with arguments, in the project."""

    def run(*arguments: str) -> Result:
        monkeypatch.chdir(project.root)
        return CliRunner().invoke(group, list(arguments))

    return run


@pytest.fixture
def place(url: str, tmp_path: Path) -> StorePlace:
    return find_store(Project(root=tmp_path), {"REGAUGE_STORE": url})


def _suite(run: str, **more: Any) -> MeasuredEval:
    given: dict[str, Any] = {
        "run": run,
        "started_at": "2026-01-31T10:00:00+00:00",
        "commit": None,
        "dirty": True,
        "prompt": "triage",
        "version": "1.0.0",
        "prompt_digest": "a" * 64,
        "dataset": "triage",
        "eval": "evals/test_triage.py::test_triage",
        "model": "local:clerk",
        "side": None,
        "cases": 3,
        "measured": 2,
        "passed": 1,
        "trials": 1,
        "completions": 2,
        "cost_usd": None,
        "latency_p50_s": 0.25,
        "judges_digest": "b",
        "cases_digest": "c",
    }
    return MeasuredEval(**(given | more))


def _entry(run: str = "20260131-100000-aaaa", *, answer: str = "yes", rows: int = 2) -> RunEntry:
    trials = [
        {
            "number": number,
            "prompt": "triage",
            "case": f"c{number}",
            "side": None,
            "trial": 0,
            "outcome": "passed",
            "row": json.dumps({"case": f"c{number}", "output": answer}),
        }
        for number in range(rows)
    ]
    return RunEntry(
        id=run,
        started_at="2026-01-31T10:00:00+00:00",
        finished_at="2026-01-31T10:00:01+00:00",
        document=json.dumps({"id": run, "command": [answer]}),
        evals=[_suite(run)],
        trials=trials,
    )


def test_what_goes_in_comes_out_once(place: StorePlace):
    store = Store(place)
    entry = _entry(answer=_NASTY)
    assert store.add(entry)
    assert not store.add(entry)
    again = Store(place)
    assert again.ids() == {entry.id}
    assert again.evals("triage") == [_suite(entry.id)]
    assert again.evals("other") == []
    assert again.document(entry.id) == {"id": entry.id, "command": [_NASTY]}
    assert [row["output"] for row in again.rows(entry.id)] == [_NASTY, _NASTY]
    assert again.matching("20260131") == [entry.id]
    assert again.matching("2026%") == []


def test_a_run_is_in_it_whole_or_not_at_all(place: StorePlace):
    store = Store(place)
    whole = _entry()
    trials = list(whole.trials)
    broken = replace(whole, trials=[*trials, trials[0]])
    with pytest.raises(StoreError):
        store.add(broken)
    assert store.ids() == set()
    assert store.add(whole)


def test_an_older_schema_is_brought_up_to_date_and_a_newer_one_refused(place: StorePlace):
    Store(place).add(_entry())
    more = (*STEPS, ("ALTER TABLE regauge_runs ADD COLUMN note TEXT DEFAULT 'kept'",))
    newer = Store(place, steps=more)
    assert newer.ids() == {_entry().id}
    assert newer.add(_entry("20260131-100001-bbbb"))
    assert Store(place, steps=more).ids() == newer.ids()
    with pytest.raises(StoreError) as refused:
        Store(place)
    assert "written by a newer regauge (schema 4, this one knows 3)" in str(refused.value)
    assert "install that version of regauge" in str(refused.value)


def test_a_step_that_fails_leaves_the_schema_as_it_was(place: StorePlace):
    Store(place).add(_entry())
    broken = (
        *STEPS,
        ("ALTER TABLE regauge_runs ADD COLUMN note TEXT", "ALTER TABLE nothing ADD COLUMN x TEXT"),
    )
    with pytest.raises(StoreError):
        Store(place, steps=broken)
    assert Store(place).ids() == {_entry().id}
    right = (*STEPS, ("ALTER TABLE regauge_runs ADD COLUMN note TEXT",))
    assert Store(place, steps=right).ids() == {_entry().id}


def _sync_at_once(roots: list[Path], url: str) -> int:
    """`regauge runs list --sync` in several projects at the same time; how many runs they took."""
    words = ("regauge", "runs", "list", "--sync")
    environ = os.environ | {"REGAUGE_STORE": url}
    taken = 0
    for process in [processes.start(*words, cwd=root, env=environ) for root in roots]:
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0, printed
        taken += sum(map(int, re.findall(r"(?m)^took (\d+)", printed)))
    return taken


def test_writers_at_once_take_every_run_in_once(project: EvalProject, url: str, tmp_path: Path):
    """They meet at the empty database, too, where each would make the tables."""
    project.run()
    (run,) = (project.root / ".regauge" / "runs").iterdir()
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    for number in range(1, 12):
        other = run.with_name(f"20260131-1000{number:02}-aaaa")
        shutil.copytree(run, other)
        text = json.dumps(document | {"id": other.name})
        (other / "run.json").write_text(text, encoding="utf-8")
    other = tmp_path / "second"
    shutil.copytree(project.root, other, ignore=shutil.ignore_patterns("team"))
    assert _sync_at_once([project.root, other], url) == 12
    place = find_store(Project(root=project.root), {"REGAUGE_STORE": url})
    store = Store(place)
    assert len(store.ids()) == 12
    assert {len(list(store.rows(run))) for run in store.ids()} == {5}
    assert len(store.evals("triage")) == 12


def test_a_run_reaches_the_team_at_its_end(
    project: EvalProject, regauge, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("REGAUGE_STORE", url)
    done = project.run(*(["-n2"] if url.startswith("postgresql") else []))
    done.assert_outcomes(passed=5)
    assert not (project.root / ".regauge" / "history.sqlite3").exists()
    (record,) = project.records()
    # Somebody else, who never ran anything.
    shutil.move(project.root / ".regauge", tmp_path / "elsewhere")
    listed = regauge("runs", "list", "--json")
    assert (json.loads(listed.stdout), listed.stderr) == (record, "")
    trend = json.loads(regauge("log", "triage", "--runs", "--json").stdout)
    assert [point["pass_rate"] for line in trend["lines"] for point in line["points"]] == [1.0]
    # Their own run fares otherwise.
    project.golden([project.case(0, ok=False), *map(project.case, range(1, 5))])
    project.run("-k", "disk-000 or disk-001")
    compared = regauge("runs", "compare", record["id"], "latest", "--no-diff")
    rows = [line.split() for line in compared.stdout.splitlines()]
    assert rows[-4:] == [
        ["worse", "1/1", "->", "0/1", "disk-000"],
        *(["only", "in", "A", "1/1", "->", "-", f"disk-00{number}"] for number in (2, 3, 4)),
    ]


def test_a_server_that_is_down_costs_a_warning_and_nothing_else(
    project: EvalProject, regauge, monkeypatch: pytest.MonkeyPatch
):
    with PostgresServer() as server:
        name = server.make_database()
        shown = server.url(name, password="***")
        monkeypatch.setenv("REGAUGE_STORE", server.url(name))
        server.stop()
        done = project.run()
        assert done.ret == 0
        text = done.stdout.str()
        assert "this run is NOT in the shared history, only in .regauge/runs/" in text
        assert f"history in {shown}: " in text
        assert (
            "check that the server runs and can be reached, then: regauge runs list --sync" in text
        )
        listed = regauge("runs", "list")
        assert listed.exit_code == 0
        assert "5 cases, 0 failed" in listed.stdout
        assert "what follows are the runs of this machine" in listed.stderr
        failed = project.command("runs", "list", "--sync")
        assert (failed.returncode, failed.stdout) == (2, "")
        logged = regauge("log", "triage")
        assert logged.exit_code == 0
        assert "so there are no pass rates here" in logged.stderr
        assert "p4ss" not in text + listed.stderr + failed.stderr + logged.stderr
        server.start()
        assert regauge("runs", "list", "--sync").stderr == f"took 1 run into {shown}\n"
        again = regauge("runs", "list", "--sync").stderr
        assert again == f"every run of this machine is in {shown} already\n"


@pytest.mark.parametrize(
    ("edit", "problem", "fix"),
    [
        (
            lambda url: url.replace("p4ss%40word", "wrong"),
            'password authentication failed for user "team"',
            "check the user and the password in REGAUGE_STORE",
        ),
        (
            lambda url: url.replace("/evals", "/nowhere"),
            'database "nowhere',
            "make it: createdb <name>",
        ),
        (
            lambda url: url.replace("team:p4ss%40word", "guest:guest"),
            "permission denied for schema public",
            "let its owner grant it: GRANT USAGE, CREATE ON SCHEMA public TO <user>",
        ),
    ],
    ids=["password", "database", "grant"],
)
def test_what_a_server_refuses_is_said_with_what_to_do(
    postgres: PostgresServer, edit: Callable[[str], str], problem: str, fix: str, tmp_path: Path
):
    name = postgres.make_database()
    guests = postgres.run("SELECT 1 FROM pg_roles WHERE rolname = 'guest'", database=name)
    if not guests:
        postgres.run("CREATE ROLE guest LOGIN PASSWORD 'guest'", database=name)
    url = edit(postgres.url(name))
    place = find_store(Project(root=tmp_path), {"REGAUGE_STORE": url})
    with pytest.raises(StoreError) as refused:
        Store(place)
    assert problem in str(refused.value)
    assert fix in str(refused.value)
    assert "p4ss" not in str(refused.value)
    assert "wrong" not in str(refused.value)


def test_the_grant_that_is_printed_lets_another_user_write(
    postgres: PostgresServer, tmp_path: Path
):
    name = postgres.make_database()
    url = postgres.url(name)
    Store(find_store(Project(root=tmp_path), {"REGAUGE_STORE": url}))
    postgres.run(f"CREATE ROLE \"{name}\" LOGIN PASSWORD 'other'", database=name)
    place = find_store(
        Project(root=tmp_path),
        {"REGAUGE_STORE": url.replace("team:p4ss%40word", f"{name}:other")},
    )
    with pytest.raises(StoreError, match="permission denied for table") as refused:
        Store(place)
    grant = str(refused.value).partition("grant it: ")[2]
    postgres.run(grant.replace("<user>", f'"{name}"'), database=name)
    assert Store(place).add(_entry())


def test_tables_that_are_gone_are_named(postgres: PostgresServer, tmp_path: Path):
    name = postgres.make_database()
    place = find_store(Project(root=tmp_path), {"REGAUGE_STORE": postgres.url(name)})
    store = Store(place)
    postgres.run("DROP TABLE regauge_trials", database=name)
    with pytest.raises(StoreError, match='relation "regauge_trials" does not exist') as refused:
        store.add(_entry())
    assert "drop its tables regauge_*" in str(refused.value)
    postgres.run("DELETE FROM regauge_schema", database=name)
    with pytest.raises(StoreError, match="its table regauge_schema is empty"):
        Store(place)


def test_without_the_driver_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    place = find_store(Project(root=tmp_path), {"REGAUGE_STORE": "postgres://me@db/evals"})
    with pytest.raises(StoreError) as refused:
        Store(place)
    assert str(refused.value) == snapshot("""\
history in postgres://me@db/evals: PostgreSQL needs psycopg, which is not installed
  fix: pip install 'regauge[postgres]'\
""")


@pytest.mark.parametrize("url", ["mysql://me:secret@db/evals", "history.sqlite3", "sqlite:///"])
@pytest.mark.parametrize("variable", [False, True])
def test_other_databases_are_refused(url: str, tmp_path: Path, *, variable: bool):
    setting = "" if variable else f'store = "{url}"'
    (tmp_path / "pyproject.toml").write_text(f"[tool.regauge]\n{setting}\n")
    named = r"^REGAUGE_STORE is" if variable else r"pyproject.toml:2: tool.regauge.store:"
    with pytest.raises(Exception, match=f"{named} not a store that regauge can use") as refused:
        History(Project(root=tmp_path), {"REGAUGE_STORE": url} if variable else {})
    assert "secret" not in str(refused.value)
    assert "fix: write postgresql://USER@HOST/DATABASE" in str(refused.value)
