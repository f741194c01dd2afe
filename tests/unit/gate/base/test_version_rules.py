"""Version rules: what a change to a prompt must say of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from regauge.gate._version_rules import lock_breaches, version_breaches
from regauge.prompts import Prompt, PromptLock, parse_prompt

PATH = Path("prompts/greet.prompt.yml")
LOCK = PromptLock(Path("prompts/prompts.lock"))


def prompt(version: str | None, text: str = "Greet {{who}}.", schema: str = "") -> Prompt:
    stated = f"version: {version}\n" if version else ""
    body = f"name: Greeter\n{stated}{schema}messages:\n  - role: user\n    content: '{text}'\n"
    return parse_prompt(body, path=PATH)


def lock(*released: Prompt) -> PromptLock:
    found = LOCK
    for one in released:
        found = found.add(one)
    return found


ONE = prompt("1.0.0")
MORE = "Kindly greet {{who}}."
OTHER = "Greet {{who}} of {{town}}."


@pytest.mark.parametrize(
    ("head", "base", "locks", "rule", "fix"),
    [
        pytest.param(ONE, ONE, (lock(ONE), lock(ONE)), None, "", id="nothing changed"),
        pytest.param(prompt(None), prompt(None), (LOCK, LOCK), None, "", id="never had a version"),
        pytest.param(
            prompt("1.1.0", MORE),
            ONE,
            (lock(ONE, prompt("1.1.0", MORE)), lock(ONE)),
            None,
            "",
            id="bumped",
        ),
        pytest.param(
            prompt("1.0.1"),
            ONE,
            (lock(ONE, prompt("1.0.1")), lock(ONE)),
            None,
            "",
            id="bumped without a change",
        ),
        pytest.param(
            prompt("2.0.0", OTHER),
            ONE,
            (lock(ONE, prompt("2.0.0", OTHER)), lock(ONE)),
            None,
            "",
            id="contract changed with a major version",
        ),
        pytest.param(ONE, None, (lock(ONE), LOCK), None, "", id="new and released"),
        pytest.param(
            prompt("1.0.0", MORE),
            ONE,
            (lock(ONE), lock(ONE)),
            "not-bumped",
            "regauge bump greet minor -m 'WHAT CHANGED'",
            id="not bumped",
        ),
        pytest.param(
            prompt("1.0.0", MORE),
            ONE,
            (LOCK, LOCK),
            "not-bumped",
            "regauge bump greet minor",
            id="not bumped, without a lock",
        ),
        pytest.param(
            prompt("1.0.0", OTHER),
            ONE,
            (lock(ONE), lock(ONE)),
            "not-bumped",
            "regauge bump greet major",
            id="contract changed and not bumped",
        ),
        pytest.param(
            prompt("1.1.0", MORE),
            ONE,
            (lock(ONE, prompt("1.1.0", MORE)), lock(ONE, prompt("1.1.0", "Greet!"))),
            "reused",
            "regauge bump greet patch",
            id="main released that version meanwhile",
        ),
        pytest.param(
            prompt("1.1.0", MORE),
            ONE,
            (lock(ONE, prompt("1.1.0")), lock(ONE)),
            "reused",
            "regauge bump greet patch",
            id="edited after its release",
        ),
        pytest.param(
            prompt("0.9.0", MORE),
            ONE,
            (LOCK, lock(ONE)),
            "older",
            "write `version: 1.0.0`",
            id="went back",
        ),
        pytest.param(
            prompt("1.1.0", OTHER),
            ONE,
            (lock(ONE, prompt("1.1.0", OTHER)), lock(ONE)),
            "contract",
            "regauge bump greet major",
            id="contract changed with a minor version",
        ),
        pytest.param(
            prompt("1.1.0", MORE),
            ONE,
            (lock(ONE), lock(ONE)),
            "not-released",
            "regauge bump greet",
            id="bumped by hand",
        ),
        pytest.param(
            prompt(None, MORE),
            ONE,
            (lock(ONE), lock(ONE)),
            "no-version",
            "write `version: 1.0.0` back",
            id="version dropped",
        ),
        pytest.param(
            prompt(None, MORE),
            prompt(None),
            (LOCK, LOCK),
            "no-version",
            "regauge bump greet major",
            id="changed without ever having a version",
        ),
        pytest.param(
            prompt("1.0.0", OTHER),
            prompt("1.0.0-rc.1"),
            (lock(prompt("1.0.0", OTHER)), lock(prompt("1.0.0-rc.1"))),
            None,
            "",
            id="a prerelease promises nothing",
        ),
    ],
)
def test_rules(
    head: Prompt,
    base: Prompt | None,
    locks: tuple[PromptLock, PromptLock],
    rule: str | None,
    fix: str,
):
    breaches = version_breaches(head, base, head_lock=locks[0], base_lock=locks[1])
    assert [breach.rule for breach in breaches] == ([rule] if rule else [])
    assert all(fix in breach.error.fix for breach in breaches)


def test_a_breach_says_where_what_and_how_to_mend_it():
    (breach,) = version_breaches(
        prompt("1.0.0", MORE), ONE, head_lock=lock(ONE), base_lock=lock(ONE)
    )
    assert str(breach) == snapshot("""\
prompts/greet.prompt.yml:2: its content changed, but its version is still 1.0.0
  fix: regauge bump greet minor -m 'WHAT CHANGED'\
""")


def test_a_lock_is_only_ever_added_to():
    base = lock(ONE, prompt("1.1.0", MORE))
    head = PromptLock.parse(str(base).replace(prompt("1.1.0", MORE).digest, "0" * 64), LOCK.path)
    assert lock_breaches(base, lock(ONE), ref="main") == ()
    (changed,) = lock_breaches(head, base, ref="main")
    (removed,) = lock_breaches(lock(prompt("1.1.0", MORE)), base, ref="main")
    assert (changed.rule, removed.rule) == ("lock", "lock")
    assert "greet@1.1.0 has another digest than in main" in str(changed)
    assert "greet@1.0.0 was removed; main has it" in str(removed)
