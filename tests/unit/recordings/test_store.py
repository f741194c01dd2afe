"""The local store: real SQLite, real processes, real kills."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from regauge.errors import RecordingError
from regauge.recordings import LocalStore, RecordingKey, describe_process
from regauge.recordings._store import explain_errors, may_be_running
from tests import processes

HERE = str(Path(__file__).parent)


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".regauge" / "store.sqlite3"


def whole(code, path):
    head = f"""
        import os, signal, sys, time
        from pathlib import Path
        sys.path.insert(0, {HERE!r})
        from conftest import recording
        from regauge.recordings import LocalStore
        path = Path({str(path)!r})
    """
    return textwrap.dedent(head) + textwrap.dedent(code)


def spawn(code, path):
    command = [sys.executable, "-c", whole(code, path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def start(code, path):
    """The same in a fork, whose output is whole at its end."""
    return processes.start("-c", whole(code, path), cwd=path.parents[1], env={**os.environ})


def killed(code, path):
    """Run `code`, which prints `ready` when it is time, and kill it with SIGKILL then."""
    with spawn(code + "\nprint('ready', flush=True)\ntime.sleep(60)\n", path) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_what_was_put_is_found_by_key_and_trial(path, made):
    with LocalStore(path) as store:
        assert store.get(made(1).key) is None
        store.put(made(1))
        assert store.get(made(1).key) == made(1)
        assert made(1).key in store
        assert "x" not in store
        assert store.get(RecordingKey(made(1).key.digest, 1)) is None
    with LocalStore(path) as store:
        assert store.get(made(1).key) == made(1)


def test_a_later_answer_replaces_an_earlier_one(path, made):
    with LocalStore(path) as store:
        store.put(made(1, "old"))
        store.put(made(1, "new"))
        assert store.get(made(1).key).completion.text == "new"


def test_export_keeps_the_order_asked_for_and_skips_what_is_missing(path, made):
    with LocalStore(path) as store:
        for number in range(3):
            store.put(made(number))
        assert store.export([made(n).key for n in (2, 7, 0)]) == [made(2), made(0)]


def test_put_returns_what_was_kept_without_secrets(path, made):
    key = "sk-proj-" + "a1B2" * 10
    with LocalStore(path) as store:
        assert store.put(made(1, key)).completion.text == "[redacted by regauge]"
        assert store.get(made(1).key).completion.text == "[redacted by regauge]"
    assert all(key.encode() not in file.read_bytes() for file in path.parent.iterdir())


@pytest.mark.parametrize("text", ["\ud800", "\x00", "\u2028🦉"])
def test_any_text_is_kept(path, made, text):
    with LocalStore(path) as store:
        store.put(made(1, text))
        assert store.get(made(1).key).completion.text == text


def test_every_answer_that_was_put_survives_kill_9(path, made):
    code = """
        store = LocalStore(path)
        number = 0
        while True:
            store.put(recording(number))
            print(number, flush=True)
            number += 1
    """
    with spawn(code, path) as process:
        last = 0
        while last < 200:
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        said = [int(line) for line in process.stdout.read().splitlines() if line]
    last = max([last, *said])
    with LocalStore(path) as store:
        assert all(store.get(made(number).key) == made(number) for number in range(last + 1))


def test_two_processes_ask_for_each_answer_once(path):
    """Each process claims, takes a while, and puts; a claim it does not get it waits for."""
    code = """
        store = LocalStore(path)
        for number in range(40):
            wanted = recording(number)
            while (claim := store.claim(wanted.key)) == "taken":
                time.sleep(0.002)
            if claim == "acquired":
                time.sleep(0.005)
                store.put(wanted)
                print(number)
            assert store.get(wanted.key) == wanted
        store.close()
    """
    workers = [start(code, path) for _ in range(3)]
    asked = []
    for worker in workers:
        out, _ = worker.communicate(timeout=60)
        assert worker.returncode == 0, out
        asked += [int(line) for line in out.split()]
    assert sorted(asked) == list(range(40))


def test_the_claim_of_a_killed_process_is_free(path, made):
    killed("store = LocalStore(path)\nassert store.claim(recording(1).key) == 'acquired'", path)
    with LocalStore(path) as store:
        assert store.claim(made(1).key) == "acquired"


def test_the_claim_of_a_living_process_is_not_free_until_it_expires(path, made):
    code = """
        store = LocalStore(path)
        store.claim(recording(1).key)
        store.claim(recording(2).key, lease_s=0.01)
        print("ready", flush=True)
        time.sleep(60)
    """
    with spawn(code, path) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.02)
            with LocalStore(path) as store:
                assert store.claim(made(1).key) == "taken"
                assert store.claim(made(2).key) == "acquired"
        finally:
            process.kill()


def test_a_claim_holds_inside_one_process_too(path, made):
    with LocalStore(path) as store, LocalStore(path) as other:
        assert store.claim(made(1).key) == "acquired"
        assert store.claim(made(1).key) == "taken"
        assert other.claim(made(1).key) == "taken"
        other.release(made(1).key)
        assert other.claim(made(1).key) == "taken"
        store.release(made(1).key)
        assert other.claim(made(1).key) == "acquired"
        other.put(made(1))
        assert store.claim(made(1).key) == "recorded"


def test_a_completion_ends_the_claim_of_its_call(path, made):
    """An unreadable completion is dropped, and its call is made again at once."""
    with LocalStore(path) as store, LocalStore(path) as other:
        assert store.claim(made(1).key) == "acquired"
        store.put(made(1))
        assert other.claim(made(1).key) == "recorded"
        other.drop(made(1).key)
        assert store.get(made(1).key) is None
        assert other.claim(made(1).key) == "acquired"
        # What somebody else puts does not end it.
        store.put(made(1))
        store.drop(made(1).key)
        assert store.claim(made(1).key) == "taken"


def test_closing_gives_claims_back(path, made):
    with LocalStore(path) as store:
        store.claim(made(1).key)
    with LocalStore(path) as store:
        assert store.claim(made(1).key) == "acquired"


def test_threads_share_a_store(path, made):
    with LocalStore(path) as store:
        mine = []

        def work():
            for number in range(50):
                if store.claim(made(number).key) == "acquired":
                    store.put(made(number))
                    mine.append(number)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(mine) == list(range(50))


def test_a_fresh_session_finds_only_its_own_answers(path, made):
    with LocalStore(path) as store:
        store.put(made(1, "old"))
        session = store.begin("plan", "all")
        assert store.get(made(1).key) is None
        assert store.claim(made(1).key) == "acquired"
        store.put(made(1, "new"))
        assert store.get(made(1).key).completion.text == "new"
        store.finish(session)
    with LocalStore(path) as store:
        assert store.get(made(1).key).completion.text == "new"
        store.begin("plan", "all")
        assert store.get(made(1).key) is None


def test_a_session_of_missing_answers_finds_those_of_all_runs(path, made):
    with LocalStore(path) as store:
        store.put(made(1))
        store.begin("plan", "missing")
        assert store.get(made(1).key) == made(1)


def test_an_interrupted_session_is_resumed_and_pays_nothing_twice(path, made):
    killed("store = LocalStore(path)\nstore.begin('plan', 'all')\nstore.put(recording(1))", path)
    with LocalStore(path) as store:
        store.begin("another plan", "all")
        assert store.get(made(1).key) is None
    with LocalStore(path) as store:
        session = store.begin("plan", "all")
        assert store.get(made(1).key) == made(1)
        with LocalStore(path) as worker:
            worker.join(session, "all")
            assert worker.get(made(1).key) == made(1)


def test_a_session_whose_process_lives_is_left_alone(path, made):
    code = """
        store = LocalStore(path)
        store.begin("plan", "all")
        store.put(recording(1, "other"))
        print("ready", flush=True)
        time.sleep(60)
    """
    with spawn(code, path) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            with LocalStore(path) as store:
                store.begin("plan", "all")
                assert store.get(made(1).key) is None
                store.put(made(1))
                assert store.get(made(1).key) == made(1)
        finally:
            process.kill()


def test_processes_of_one_run_share_its_session(path, made):
    run = describe_process(os.getppid())
    with LocalStore(path) as store, LocalStore(path) as other:
        assert store.begin("plan", "all", owner=run) == other.begin("plan", "all", owner=run)
        store.put(made(1))
        assert other.get(made(1).key) == made(1)


def test_an_old_interrupted_session_is_not_resumed(path, made):
    killed("store = LocalStore(path)\nstore.begin('plan', 'all')\nstore.put(recording(1))", path)
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE sessions SET touched_at = touched_at - 100000")
    database.close()
    with LocalStore(path) as store:
        store.begin("plan", "all")
        assert store.get(made(1).key) is None


@pytest.mark.parametrize("damage", ["text", "middle", "other"])
def test_a_damaged_file_says_what_to_do(path, made, damage):
    with LocalStore(path) as store:
        for number in range(200):
            store.put(made(number))
    content = path.read_bytes()
    if damage == "text":
        path.write_bytes(b"this is no database" * 100)
    elif damage == "middle":
        path.write_bytes(content[:4096] + b"\xff" * 65536 + content[4096 + 65536 :])
    else:
        path.unlink()
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE notes (text)")
        database.close()

    def use():
        with LocalStore(path) as store:
            for number in range(200):
                store.get(made(number).key)

    with pytest.raises(RecordingError) as caught:
        use()
    assert str(path) in str(caught.value)
    assert f"mv {path} {path}.damaged" in str(caught.value)
    assert "committed recordings are not in it" in str(caught.value)


def test_a_store_of_a_newer_version_says_so(path, made):
    LocalStore(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(RecordingError, match=r"newer regauge \(schema 99"):
        LocalStore(path)


def test_reading_only_needs_no_file_and_makes_none(path, made):
    with LocalStore(path, read_only=True) as store:
        assert store.get(made(1).key) is None
        with pytest.raises(RuntimeError, match="reading only"):
            store.put(made(1))
    assert not path.parent.exists()
    with LocalStore(path) as store:
        store.put(made(1))
    with LocalStore(path, read_only=True) as store:
        assert store.get(made(1).key) == made(1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_says_what_to_do(path, made):
    with LocalStore(path) as store:
        store.put(made(1))
    path.parent.chmod(0o500)
    try:
        with LocalStore(path, read_only=True) as store:
            assert store.get(made(1).key) == made(1)
        with pytest.raises(RecordingError, match="permission"), LocalStore(path) as store:
            store.put(made(2))
    finally:
        path.parent.chmod(0o700)


def test_a_path_that_cannot_be_a_directory_says_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match="write permission"):
        LocalStore(tmp_path / "file" / "store.sqlite3")


def test_a_store_that_another_process_makes_meanwhile_is_waited_for(path, made):
    path.parent.mkdir()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    thread = threading.Timer(0.1, other.close)
    thread.start()
    with LocalStore(path) as store:
        store.put(made(1))
    thread.join()


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("unable to open database file", "permission"),
        ("attempt to write a readonly database", "permission"),
        ("database or disk is full", "make room on the disk"),
        ("disk I/O error", "make room on the disk"),
        ("database is locked", "wait for it, then run the same command again"),
        ("database is busy", "another process keeps it locked"),
        ("file is not a database", "move it away|remove it|mv "),
    ],
)
def test_an_error_of_the_store_has_a_fix(path, message, fix):
    with pytest.raises(RecordingError) as caught, explain_errors(path):
        raise sqlite3.OperationalError(message)
    problem, _, given = str(caught.value).partition("\n  fix: ")
    assert problem.endswith(f"store.sqlite3: the local store cannot be used: {message}")
    assert re.search(fix, given)


def test_a_full_disk_is_an_error_with_a_fix_and_loses_nothing(path, made):
    with LocalStore(path) as store:
        store.put(made(1))
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(RecordingError, match="make room on the disk"):
            store.put(made(2, "x" * 100_000))
        assert store.get(made(1).key) == made(1)
        store._database.execute("PRAGMA max_page_count = 100000")
        store.put(made(2))


def test_a_process_knows_itself_and_is_not_taken_for_another():
    host, boot, pid, started = describe_process(os.getpid()).split("|")
    assert may_be_running(describe_process(os.getpid()))
    assert not may_be_running(f"{host}|{boot}|{pid}|{started}1")
    assert not may_be_running(f"{host}|another boot|{pid}|{started}")
    assert may_be_running(f"another host|{boot}|1|1")
    assert not may_be_running("nonsense")
    assert not may_be_running(f"{host}|{boot}|{2**22 + 1}|{started}")
    assert not may_be_running(f"{host}|{boot}|x|{started}")
    assert may_be_running(f"{host}|{boot}|{pid}|")
    assert not may_be_running(f"{host}|{boot}|1|{started}")


def test_an_ended_process_does_not_live_even_before_its_parent_looked():
    process = subprocess.Popen([sys.executable, "-c", ""])
    host, boot, _, _ = describe_process(os.getpid()).split("|")
    time.sleep(0.5)
    assert not may_be_running(f"{host}|{boot}|{process.pid}|1")
    process.wait()
    assert not may_be_running(f"{host}|{boot}|{process.pid}|1")


def test_many_processes_may_make_the_store_at_once(path):
    workers = [start("LocalStore(path).put(recording(os.getpid()))", path) for _ in range(6)]
    assert [(w.communicate(timeout=60)[0], w.returncode) for w in workers] == [("", 0)] * 6


def test_trials_are_kept_apart(path, made):
    with LocalStore(path) as store:
        for trial in range(3):
            key = RecordingKey(made(1).key.digest, trial)
            store.put(replace(made(1, f"draw {trial}"), key=key))
        found = store.get(RecordingKey(made(1).key.digest, 2))
        assert found.completion.text == "draw 2"
