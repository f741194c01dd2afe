"""`prompts.lock` is only ever added to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from regauge.errors import LockError
from regauge.prompts import PromptLock, parse_prompt

LOCK = PromptLock(Path("prompts/prompts.lock"))
SCHEMA = "responseFormat: json_schema\njsonSchema: {type: object}\n"


def prompt(version: str, said: str = "Hi", *, keys: str = "", name: str = "greet"):
    head = f"version: {version}\n" if version else ""
    text = f"{head}{keys}messages:\n  - role: user\n    content: {said}\n"
    return parse_prompt(text, path=Path(f"prompts/{name}.prompt.yml"))


def problems(lock: PromptLock, *args, **kwargs) -> str:
    return "\n".join(map(str, lock.check(prompt(*args, **kwargs))))


def test_a_lock_is_sorted_text_with_one_line_for_each_version():
    lock = LOCK
    for version in ["1.10.0", "1.9.0", "2.0.0-rc.1"]:
        lock = lock.add(prompt(version))
    lock = lock.add(prompt("1.0.0", name="alpha"))
    assert str(lock) == snapshot("""\
# Released prompt versions: name@version, digest of its behaviour, digest of its contract.
# Lines are only added, by `regauge bump`; `regauge lint` checks them against the files and git.
alpha@1.0.0 37459b3336a9639570129d752da45762a64a8ef21417052c838903b323b5579d bd71c1d719a85265928e61d0116d1b1165ef35db8201aa6ad238080cf768ff78
greet@1.9.0 37459b3336a9639570129d752da45762a64a8ef21417052c838903b323b5579d bd71c1d719a85265928e61d0116d1b1165ef35db8201aa6ad238080cf768ff78
greet@1.10.0 37459b3336a9639570129d752da45762a64a8ef21417052c838903b323b5579d bd71c1d719a85265928e61d0116d1b1165ef35db8201aa6ad238080cf768ff78
greet@2.0.0-rc.1 37459b3336a9639570129d752da45762a64a8ef21417052c838903b323b5579d bd71c1d719a85265928e61d0116d1b1165ef35db8201aa6ad238080cf768ff78
""")


@given(st.permutations(["1.0.0", "1.0.1", "1.2.0", "2.0.0", "10.0.0", "2.0.0-a.1"]))
def test_the_order_of_releases_leaves_no_trace(versions):
    lock = LOCK
    for version in versions:
        lock = lock.add(prompt(version))
    assert PromptLock.parse(str(lock), LOCK.path) == PromptLock.parse(str(lock), LOCK.path)
    names = [line.split()[0] for line in str(lock).splitlines()[2:]]
    assert names == [
        f"greet@{v}" for v in ["1.0.0", "1.0.1", "1.2.0", "2.0.0-a.1", "2.0.0", "10.0.0"]
    ]


def test_what_was_released_and_did_not_change_is_fine():
    lock = LOCK.add(prompt("1.0.0"))
    assert problems(lock, "1.0.0") == ""
    assert lock.add(prompt("1.0.0")) is lock


def test_changes_without_a_new_version_are_errors():
    lock = LOCK.add(prompt("1.0.0"))
    assert problems(lock, "1.0.0", "Ho") == snapshot("""\
prompts/greet.prompt.yml:1: the content changed, but the version is still 1.0.0, which is released
  fix: regauge bump greet minor\
""")
    assert problems(lock, "1.0.0", keys=SCHEMA) == snapshot("""\
prompts/greet.prompt.yml:1: the contract (jsonSchema, inputs, tools) changed, but the version is still 1.0.0, which is released
  fix: regauge bump greet major\
""")


def test_versions_that_are_not_in_the_lock_are_errors():
    lock = LOCK.add(prompt("1.1.0"))
    assert problems(lock, "1.2.0", "Ho") == snapshot("""\
prompts/greet.prompt.yml:1: version 1.2.0 is not in prompts.lock
  fix: regauge bump greet\
""")
    assert problems(lock, "1.0.0", "Ho") == snapshot("""\
prompts/greet.prompt.yml:1: version 1.0.0 is older than 1.1.0, which is released
  fix: write `version: 1.1.0`, then regauge bump greet PART if anything changed\
""")
    assert problems(lock, "1.2.0", keys=SCHEMA) == snapshot("""\
prompts/greet.prompt.yml:1: the contract (jsonSchema, inputs, tools) changed since 1.1.0, but 1.2.0 is not a new major version
  fix: regauge bump greet major\
""")
    assert problems(lock, "") == snapshot("""\
prompts/greet.prompt.yml:1: has no version, but 1.1.0 was released
  fix: write `version: 1.1.0` back, then regauge bump greet PART if anything changed\
""")


def test_prereleases_promise_no_contract():
    lock = LOCK.add(prompt("1.0.0")).add(prompt("2.0.0-rc.1", keys=SCHEMA))
    assert "not in prompts.lock" in problems(lock, "2.0.0-rc.2")
    assert "not in prompts.lock" in problems(lock, "2.0.0", keys=SCHEMA)


def test_all_broken_lines_of_a_lock_are_told():
    line = str(LOCK.add(prompt("1.0.0")).entries[0])
    text = f"<<<<<<< HEAD\n{line}\n=======\n{line.replace(' ', ' f', 1)}\n{line[:-1]}x\ngreet\n"
    other = f"greet@1.0.0 {'0' * 64} {'1' * 64}"
    with pytest.raises(LockError) as caught:
        PromptLock.parse(f"{text}greet@1.0 {'0' * 64} {'0' * 64}\n{other}\n", LOCK.path)
    assert str(caught.value) == snapshot("""\
prompts/prompts.lock:1: this line is not `name@version digest digest`
  fix: keep both sides' lines, or bump again where both released the same version
prompts/prompts.lock:3: this line is not `name@version digest digest`
  fix: keep both sides' lines, or bump again where both released the same version
prompts/prompts.lock:4: a digest is 64 hexadecimal digits
  fix: restore the line from git, or remove it
prompts/prompts.lock:5: a digest is 64 hexadecimal digits
  fix: restore the line from git, or remove it
prompts/prompts.lock:6: this line is not `name@version digest digest`
  fix: restore the line from git, or remove it
prompts/prompts.lock:7: '1.0' is not a version such as 1.2.3
  fix: restore the line from git, or remove it
prompts/prompts.lock:8: greet@1.0.0 has another digest than on line 2
  fix: keep the line that was released first, and bump the other's prompt again\
""")


def test_lines_that_vanished_or_changed_are_errors():
    older = LOCK.add(prompt("1.0.0")).add(prompt("1.1.0"))
    newer = LOCK.add(prompt("1.1.0", "Ho"))
    vanished, changed = newer.check_against(older, "origin/main")
    assert "greet@1.0.0 was removed; origin/main has it" in str(vanished)
    assert "greet@1.1.0 has another digest than in origin/main" in str(changed)
    assert not older.add(prompt("1.2.0")).check_against(older, "HEAD")


def test_a_lock_that_is_not_there_has_no_entries(tmp_path):
    lock = PromptLock.load(tmp_path / "prompts.lock")
    assert lock.entries == ()
    lock.add(prompt("1.0.0")).save()
    assert PromptLock.load(lock.path).entries_of("greet")[0].digest == prompt("1.0.0").digest


def test_a_lock_that_is_no_text_is_told(tmp_path):
    (tmp_path / "prompts.lock").write_bytes(b"\xff\xfe")
    with pytest.raises(LockError, match=r"prompts.lock:1: not UTF-8: byte 0xff at offset 0"):
        PromptLock.load(tmp_path / "prompts.lock")
    with pytest.raises(LockError, match="a prompt without a version cannot be released"):
        LOCK.add(prompt(""))
