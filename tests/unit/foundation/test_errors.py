from __future__ import annotations

import errno
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from regauge.errors import (
    DatasetError,
    Diagnostic,
    GitHubError,
    MissingRecordingError,
    ProviderError,
    RegaugeError,
    UnmeasuredError,
    UsageError,
    explain_os_error,
    find_no_descriptor,
)


def subclasses(root: type[RegaugeError]) -> set[type[RegaugeError]]:
    direct = set(root.__subclasses__())
    return direct | {below for child in direct for below in subclasses(child)}


def test_every_error_has_an_exit_code_and_what_is_unmeasured_has_three():
    for error in subclasses(RegaugeError):
        assert error.exit_code in {2, 3}
        if issubclass(error, UnmeasuredError):
            assert error.exit_code == 3


def test_all_errors_of_a_file_stand_in_one_message_with_places_and_fixes():
    error = DatasetError(
        [
            Diagnostic(path=Path("a.jsonl"), line=3, message="no id", fix="give it one"),
            Diagnostic(path=Path("a.jsonl"), line=None, message="empty"),
        ]
    )
    assert str(error) == snapshot("""\
a.jsonl:3: no id
  fix: give it one
a.jsonl: empty\
""")


def test_a_missing_recording_names_case_trial_and_command():
    error = MissingRecordingError(prompt="triage", case="disk full", trial=2, stale=True)
    assert str(error) == snapshot("""\
the recording is of an older request: case 'disk full' of prompt 'triage', trial 2
  record it: pytest evals --record=missing -k 'disk full'\
""")
    assert (error.prompt, error.case, error.trial, error.stale) == ("triage", "disk full", 2, True)


def test_facts_of_a_provider_error_are_attributes():
    error = ProviderError("down", kind="connection", attempts=6)
    assert (error.kind, error.status, error.attempts, str(error)) == ("connection", None, 6, "down")


@pytest.mark.parametrize(
    ("number", "problem", "fix"),
    [
        (errno.ENOSPC, "no space is left on the disk", "make room, then run"),
        (errno.EDQUOT, "no space is left on the disk", "make room, then run"),
        (
            errno.EFBIG,
            "the file is larger than this process may write",
            "raise the limit (ulimit -f",
        ),
        (
            errno.EMFILE,
            "too many files and connections are open",
            "raise the limit, as with ulimit",
        ),
        (
            errno.ENFILE,
            "too many files and connections are open",
            "raise the limit, as with ulimit",
        ),
        (errno.ENAMETOOLONG, "the name is too long for a file", "choose a shorter name"),
        (
            errno.ELOOP,
            "a symbolic link that leads to itself",
            "remove the link, or point it at a file",
        ),
    ],
)
def test_an_error_of_the_system_has_a_fix(number: int, problem: str, fix: str):
    explained = explain_os_error(OSError(number, "x"))
    assert explained[0] == problem
    assert explained[1].startswith(fix)


def test_any_other_error_of_the_system_keeps_its_words():
    assert explain_os_error(OSError(errno.EIO, "Input/output error")) == ("Input/output error", "")
    assert explain_os_error(OSError("odd")) == ("odd", "")
    assert find_no_descriptor() is None


@pytest.mark.parametrize(
    "error",
    [
        UsageError("no such prompt", fix="regauge new prompt NAME"),
        UsageError("no such prompt\n  fix: regauge new prompt NAME"),
    ],
)
def test_the_fix_of_an_error_is_an_attribute(error: UsageError):
    assert str(error) == "no such prompt\n  fix: regauge new prompt NAME"
    assert (error.message, error.fix) == ("no such prompt", "regauge new prompt NAME")
    several = UsageError(f"{error}\n{error}")
    assert (several.message, several.fix) == (str(several), "")


def test_a_reworded_error_keeps_its_kind_and_its_facts():
    error = GitHubError("no rights", kind="permission", status=403, fix="give them")
    other = error.reworded("--pr: no rights\n  fix: give more")
    assert (type(other), other.kind, other.status) == (GitHubError, "permission", 403)
    assert (other.message, other.fix) == ("--pr: no rights", "give more")
    assert str(error) == "no rights\n  fix: give them"
