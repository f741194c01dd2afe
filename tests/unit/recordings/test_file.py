"""Committed recordings: what a file looks like, and that nothing in it is lost or invented."""

from __future__ import annotations

import json
import os
import resource
import stat
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from regauge.errors import RecordingError
from regauge.recordings import RecordingKey, RecordingsFile, replacements_in
from regauge.recordings._file import Replacements
from tests import processes

HERE = str(Path(__file__).parent)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recordings" / "alert.jsonl"


def saved(path, *recordings):
    file = RecordingsFile.load(path)
    file.merge(recordings, replace=False)
    file.save()
    return file


def test_a_missing_file_holds_nothing(path):
    file = RecordingsFile.load(path)
    assert len(file) == 0
    assert file.get(RecordingKey("0" * 64, 0)) is None
    assert file.save() == 0
    assert not path.exists()


def test_what_was_saved_is_found_again(path, made):
    saved(path, made(1), made(2))
    file = RecordingsFile.load(path)
    assert file.get(made(1).key) == made(1)
    assert list(file) == [made(1), made(2)]
    assert RecordingKey(made(1).key.digest, 1) not in file
    assert "x" not in file


def test_lines_are_found_although_another_process_changes_the_file_meanwhile(path, made):
    text = "x" * 100_000
    saved(path, made(2, text), made(4, text))
    file = RecordingsFile.load(path)
    saved(path, made(1, text), made(3, text))
    assert file.get(made(4).key) == made(4, text)
    file = RecordingsFile.load(path)
    lines = iter(file)
    assert next(lines) == made(1, text)
    saved(path, made(0, text), made(5, text))
    assert [recording.case for recording in lines] == [f"case-{n:04}" for n in (2, 3, 4, 5)]


def test_lines_are_sorted_by_case_then_trial_whatever_the_order_they_came_in(path, made):
    draws = [
        replace(made(n), key=RecordingKey(made(n).key.digest, t)) for n in (2, 1) for t in (1, 0)
    ]
    saved(path, *draws)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["case"], line["trial"]) for line in lines] == [
        ("case-0001", 0),
        ("case-0001", 1),
        ("case-0002", 0),
        ("case-0002", 1),
    ]


def test_the_same_recordings_give_the_same_bytes(path, tmp_path, made):
    saved(path, made(1), made(2))
    other = tmp_path / "other.jsonl"
    saved(other, made(2))
    saved(other, made(1))
    assert other.read_bytes() == path.read_bytes()


def test_an_earlier_answer_stays_unless_it_is_to_be_replaced(path, made):
    saved(path, made(1, "old"))
    file = RecordingsFile.load(path)
    assert file.merge([made(1, "new")], replace=False) is False
    assert file.save() == 0
    assert file.merge([made(1, "new")], replace=True) is True
    assert file.save() == 1
    assert RecordingsFile.load(path).get(made(1).key).completion.text == "new"


def test_the_same_answer_again_leaves_the_line_as_it_is_to_the_byte(path, made):
    saved(path, made(1), made(2))
    # As somebody may have formatted it by hand.
    path.write_text("\n".join(json.dumps(json.loads(x)) for x in path.read_text().splitlines()))
    before, when = path.read_bytes(), path.stat().st_mtime_ns
    file = RecordingsFile.load(path)
    slower = replace(made(1).completion, latency_s=9.0, attempts=4, cost_usd=1.0)
    again = replace(made(1), completion=slower, recorded_at="2027-01-01T00:00:00Z")
    assert file.merge([again], replace=True) is False
    assert file.save() == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, when)


def test_a_changed_request_is_told_from_a_new_case(path, made):
    file = saved(path, made(1))
    model = made(1).model

    def other(case: str, digest: str, model: str = model) -> bool:
        return file.cases_with_other_digest(case, digest, model=model)

    assert other("case-0001", "f" * 64)
    assert not other("case-0001", made(1).key.digest)
    assert not other("case-0002", "f" * 64)
    assert not other("case-0001", "f" * 64, "another:model")


def test_pruning_keeps_what_is_wanted(path, made):
    file = saved(path, *[made(n) for n in range(5)])
    keep = {made(1).key, made(3).key}
    assert [r.case for r in file.find_unused(keep)] == ["case-0000", "case-0002", "case-0004"]
    assert file.prune(keep) == 3
    assert file.save() == 3
    assert RecordingsFile.load(path).keys() == keep


def test_pruning_does_not_touch_what_another_process_added_meanwhile(path, made):
    file = saved(path, made(1), made(2))
    file.prune({made(1).key})
    saved(path, made(3))
    file.save()
    assert RecordingsFile.load(path).keys() == {made(1).key, made(3).key}
    assert made(3).key in file


def test_what_is_pruned_and_then_recorded_anew_is_there(path, made):
    file = saved(path, made(1, "old"))
    file.prune(set())
    file.merge([made(1, "new")], replace=False)
    file.save()
    assert RecordingsFile.load(path).get(made(1).key).completion.text == "new"


def test_broken_lines_are_reported_together_with_their_places(path, made):
    saved(path, made(1), made(2))
    one, two = path.read_text().splitlines()
    content = [
        one,
        one[:70],
        "<<<<<<< HEAD",
        two,
        "{}",
        "[1]",
        two.replace('"trial":0', '"trial":-1'),
    ]
    path.write_text("\n".join(content) + "\n")
    with pytest.raises(RecordingError) as caught:
        RecordingsFile.load(path)
    assert [diagnostic.line for diagnostic in caught.value.diagnostics] == [2, 3, 5, 6, 7]
    assert f"{path}:2: not a recording" in str(caught.value)
    assert "merge conflict" in str(caught.value)
    assert path.read_text() == "\n".join(content) + "\n"


def test_two_answers_to_one_request_are_an_error_and_one_answer_twice_is_none(path, made):
    saved(path, made(1))
    line = path.read_text()
    path.write_text(line + line)
    assert len(RecordingsFile.load(path)) == 1
    path.write_text(line + line.replace("yes", "no"))
    with pytest.raises(RecordingError, match=r":2: another completion of the request in line 1"):
        RecordingsFile.load(path)


def test_windows_line_ends_and_blank_lines_are_read(path, made):
    saved(path, made(1), made(2))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert len(RecordingsFile.load(path)) == 2


@pytest.mark.parametrize("text", ["\u2028\x85\x0b", "\ud800 alone", "🦉", "\x00", 'a\n"b"\\'])
def test_any_text_is_one_line(path, made, text):
    saved(path, made(1, text), made(2))
    assert path.read_bytes().count(b"\n") == 2
    assert RecordingsFile.load(path).get(made(1).key).completion.text == text


def test_secrets_never_reach_the_file(path, made):
    key = "sk-proj-" + "a1B2" * 10
    saved(path, made(1, f"the key is {key}."))
    assert key not in path.read_text()
    assert "the key is [redacted by regauge]." in path.read_text()


def test_the_mode_of_the_file_stays(path, made):
    saved(path, made(1))
    path.chmod(0o640)
    saved(path, made(2))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(path, tmp_path, made):
    real = tmp_path / "real.jsonl"
    real.touch()
    path.parent.mkdir()
    path.symlink_to(real)
    saved(path, made(1))
    assert path.is_symlink()
    assert len(RecordingsFile.load(real)) == 1


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(path, made):
    """A limit on file size stands in for a full disk: the write itself fails, half-way."""
    saved(path, made(1))
    before = path.read_bytes()
    code = f"""
        import resource, signal, sys
        from pathlib import Path
        sys.path.insert(0, {HERE!r})
        from conftest import recording
        from regauge.errors import RecordingError
        from regauge.recordings import RecordingsFile
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        file = RecordingsFile.load(Path({str(path)!r}))
        file.merge([recording(n) for n in range(100)], replace=False)
        try:
            file.save()
        except RecordingError as error:
            print(error)
            assert len(file) == 100
    """
    done = run(code)
    assert "cannot be written: the file is larger than this process may write" in done.stdout
    assert "fix: raise the limit (ulimit -f)" in done.stdout
    assert "the completions are still in the local store" in done.stdout
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096


def test_new_lines_of_any_size_are_saved_in_order(path, made):
    """Above a MiB, lines wait in a temporary file."""
    recordings = [made(number, f"{number} " * 40_000) for number in range(30)]
    file = saved(path, *recordings[::3])
    file.merge(recordings[::-1], replace=False)
    assert [file.get(one.key).completion for one in recordings] == [
        one.completion for one in recordings
    ]
    assert file.save() == 20
    assert path.read_bytes() == saved(path.with_name("other.jsonl"), *recordings).path.read_bytes()


def test_new_lines_that_the_disk_does_not_take_are_an_error(path):
    code = f"""
        import resource, signal, sys
        from pathlib import Path
        sys.path.insert(0, {HERE!r})
        from conftest import recording
        from regauge.errors import RecordingError
        from regauge.recordings import RecordingsFile
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        file = RecordingsFile.load(Path({str(path)!r}))
        try:
            file.merge([recording(n, "word " * 50_000) for n in range(9)], replace=False)
        except RecordingError as error:
            print(error)
    """
    said = run(code).stdout
    assert f"{path}: cannot be written: the file is larger than this process may write" in said
    assert "the completions are still in the local store" in said


def test_processes_that_save_at_once_lose_nothing(path):
    code = f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {HERE!r})
        from conftest import recording
        from regauge.recordings import RecordingsFile
        start = int(sys.argv[1])
        for number in range(start, start + 30):
            file = RecordingsFile.load(Path({str(path)!r}))
            file.merge([recording(number)], replace=False)
            file.save()
    """
    words = ("-c", textwrap.dedent(code))
    where = {"cwd": path.parents[1], "env": {**os.environ}}
    writers = [processes.start(*words, str(start), **where) for start in (0, 15, 100)]
    assert [(writer.communicate(60)[0], writer.returncode) for writer in writers] == [("", 0)] * 3
    cases = [r.case for r in RecordingsFile.load(path)]
    assert cases == [f"case-{n:04}" for n in (*range(45), *range(100, 130))]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def run(code):
    program = textwrap.dedent(code)
    done = processes.run("-c", program, cwd=Path.cwd(), env={**os.environ}, timeout_s=60)
    assert done.returncode == 0, done.stderr
    return done


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["a", "b"]), st.booleans(), st.booleans()),
        max_size=12,
    )
)
def test_saving_early_or_late_ends_with_the_same_file(tmp_path, made, steps):
    paths = [tmp_path / "early.jsonl", tmp_path / "late.jsonl"]
    for path in paths:
        path.unlink(missing_ok=True)
    early, late = (RecordingsFile.load(path) for path in paths)
    for number, text, replace_, prune in steps:
        for file in (early, late):
            file.merge([made(number, text)], replace=replace_)
            if prune:
                file.prune({made(n).key for n in range(3)})
        early.save()
    late.save()
    assert list(RecordingsFile.load(paths[0])) == list(RecordingsFile.load(paths[1])) == list(early)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["record", "replace", "prune", "save"]),
            st.integers(0, 3),
            st.sampled_from(["a", "b"]),
        ),
        max_size=12,
    )
)
def test_unsaved_changes_count_and_are_found_like_saved_ones(tmp_path, made, steps):
    path = tmp_path / "recordings.jsonl"
    path.unlink(missing_ok=True)
    file, held = RecordingsFile.load(path), {}
    for step, number, text in steps:
        new = made(number, text)
        if step == "save":
            file.save()
        elif step == "prune":
            assert file.prune({new.key}) == len(held.keys() - {new.key})
            held = {key: value for key, value in held.items() if key == new.key}
        else:
            file.merge([new], replace=step == "replace")
            held = held | {new.key: new} if step == "replace" else {new.key: new} | held
        keys = {made(n).key for n in range(4)}
        assert (len(file), {*file.keys()}) == (len(held), {*held})
        assert {key for key in keys if key in file} == {*held}
        # A replacement also names what it replaced.
        assert {key: file.get(key).completion for key in held} == {
            key: value.completion for key, value in held.items()
        }


@pytest.mark.parametrize(
    ("replaced", "uneven"),
    [
        ((0, 0, 0), None),
        ((2, 2, 2), None),
        ((0, 1, 0), (3, {1: 1})),
        ((1, 3, 2), (3, {1: 2, 2: 1})),
        ((2,), None),
    ],
)
def test_completions_that_were_replaced_more_often_than_others_are_named(
    path, made, replaced, uneven
):
    lines = [made(number, replaced=times) for number, times in enumerate(replaced)]
    file = saved(path, *lines)
    named = [(x.version, x.recorded, x.cases) for x in replacements_in(file)]
    case = "case-{:04}".format
    assert named == (
        [("1.0.0", uneven[0], {case(n): more for n, more in uneven[1].items()})] if uneven else []
    )
    assert replacements_in(file, digests=[lines[0].key.digest]) == []
    every = [line.key.digest for line in lines]
    assert replacements_in(file, digests=every) == replacements_in(file)


def test_replacements_are_compared_within_one_version_and_trial(path, made):
    of_trial = [
        replace(made(number), key=RecordingKey(made(number).key.digest, trial), replaced=trial)
        for trial in (0, 1)
        for number in (0, 1)
    ]
    older = [made(number, version=None, replaced=5) for number in (2, 3)]
    assert replacements_in(saved(path, *of_trial, *older)) == []
    # Of several requests of a case, the one that was replaced most often counts.
    again = [made(number, version=None, case="case-0002", replaced=7) for number in (4, 5)]
    (named,) = replacements_in(saved(path, *again, made(6, version=None, case="case-0002")))
    assert (named.version, named.recorded, named.cases) == (None, 2, {"case-0002": 2})


@pytest.mark.parametrize(
    ("version", "cases", "words"),
    [
        ("1.0.0", {"a": 1}, "1 of 9 completions of 1.0.0 was * up to 1 time more: a"),
        (None, {"b": 2, "a": 2, "c": 3}, "3 of 9 completions of this prompt were * up to 3 times more: c, a, b"),
        ("2.0.0", dict.fromkeys("abcde", 1), "5 of 9 completions of 2.0.0 were * up to 1 time more: a, b, c, d, e"),
        ("2.0.0", dict.fromkeys("abcdef", 1), "6 of 9 completions of 2.0.0 were * up to 1 time more: a, b, c, d, e, ..."),
    ],
)  # fmt: skip
def test_uneven_replacements_are_stated_with_the_most_replaced_cases_first(version, cases, words):
    stated = str(Replacements(version=version, recorded=9, cases=cases))
    assert stated == words.replace("*", "replaced more often than the others,")
