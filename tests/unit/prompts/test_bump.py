"""`bump` edits a file by splicing: what need not change does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from regauge.errors import LockError, PromptError, UsageError
from regauge.prompts import PromptLock, bump, parse_prompt

PATH = Path("prompts/greet.prompt.yml")
MESSAGES = "messages:\n  - role: user\n    content: 'Say {{x}}'\n"


def bumped(text: str, part="minor", note="", lock: PromptLock | None = None, **options):
    lock = lock or PromptLock(Path("prompts/prompts.lock"))
    return bump(text, part, path=PATH, lock=lock, note=note, date="2025-06-30", **options)


def released(text: str) -> PromptLock:
    return PromptLock(Path("prompts/prompts.lock")).add(parse_prompt(text, path=PATH))


def test_version_alone_is_replaced_and_comments_stay():
    text = f"# top\nname: Greet # who\nversion: 1.0.0 # now\n\n{MESSAGES}# end"
    assert bumped(text).prompt.source == text.replace("1.0.0", "1.1.0")


@pytest.mark.parametrize("quote", ["'", '"'])
def test_quotes_and_anchor_of_the_version_stay(quote):
    text = f"version: &v {quote}1.0.0{quote}\n{MESSAGES}x-same: *v\n"
    assert bumped(text).prompt.source == text.replace("1.0.0", "1.1.0")


def test_line_ends_of_windows_and_byte_order_mark_stay():
    text = "\ufeff" + f"version: 1.0.0\n{MESSAGES}".replace("\n", "\r\n")
    source = bumped(text, note="Say it: louder").prompt.source
    assert source == (
        "\ufeffversion: 1.1.0\r\n"
        'changelog:\r\n  - version: 1.1.0\r\n    date: 2025-06-30\r\n    text: "Say it: louder"\r\n'
        + MESSAGES.replace("\n", "\r\n")
    )


def test_a_first_version_goes_above_the_first_key():
    text = f"# Who greets whom.\nname: Greet\n{MESSAGES}"
    assert bumped(text, "major").prompt.source == (
        f"# Who greets whom.\nversion: 1.0.0\nname: Greet\n{MESSAGES}"
    )


def test_an_indented_file_keeps_its_indentation():
    text = "  messages:\n    - role: user\n      content: Hi\n"
    source = bumped(text, "patch", note="First").prompt.source
    assert source.startswith("  version: 0.0.1\n  changelog:\n    - version: 0.0.1\n")


def test_an_entry_goes_before_the_others():
    text = "version: 1.0.0\nchangelog: # newest first\n- version: 1.0.0\n  text: First\n" + MESSAGES
    assert bumped(text, note="Second").prompt.source == (
        "version: 1.1.0\nchangelog: # newest first\n"
        "- version: 1.1.0\n  date: 2025-06-30\n  text: Second\n"
        "- version: 1.0.0\n  text: First\n" + MESSAGES
    )


@pytest.mark.parametrize("empty", ["", " []", " ~", " [] # none yet", " # none yet"])
def test_an_empty_changelog_gets_its_first_entry(empty):
    text = f"version: 1.0.0\nchangelog:{empty}\n{MESSAGES}"
    prompt = bumped(text, note="Second").prompt
    assert [(e.version, e.text) for e in prompt.changelog] == [("1.1.0", "Second")]
    assert prompt.source.endswith(MESSAGES)


def test_a_changelog_in_brackets_is_extended_in_brackets():
    text = f"version: 1.0.0\nchangelog: [{{version: 1.0.0, text: First}}]\n{MESSAGES}"
    prompt = bumped(text, note="Second, too").prompt
    assert '[{version: "1.1.0", date: "2025-06-30", text: "Second, too"}, ' in prompt.source
    assert [e.text for e in prompt.changelog] == ["Second, too", "First"]


def test_a_file_without_a_last_line_end_can_be_extended():
    text = "messages:\n  - role: user\n    content: Hi\nversion: 1.0.0"
    prompt = bumped(text, note="Second").prompt
    assert prompt.changelog[0].text == "Second"
    assert prompt.source.startswith(text.replace("1.0.0", "1.1.0"))


def test_a_version_that_is_an_alias_cannot_be_edited():
    with pytest.raises(PromptError, match=r"greet.prompt.yml:2: .*the version is an alias"):
        bumped(f"x-v: &v 1.0.0\nversion: *v\n{MESSAGES}")


def test_a_changelog_that_is_an_alias_cannot_be_edited():
    text = f"x-log: &l [{{version: 1.0.0, text: a}}]\nversion: 1.0.0\nchangelog: *l\n{MESSAGES}"
    with pytest.raises(PromptError, match="the changelog is an alias"):
        bumped(text, note="b")


def test_an_entry_next_to_its_key_cannot_get_one_above_it():
    text = f"version: 1.0.0\n? changelog\n: - version: 1.0.0\n    text: a\n{MESSAGES}"
    with pytest.raises(PromptError, match="the first entry of changelog shares its line"):
        bumped(text, note="b")


def test_a_version_with_escapes_cannot_be_edited():
    with pytest.raises(PromptError, match="written with escapes"):
        bumped(f'version: "1.0.\\x30"\n{MESSAGES}')


def test_an_empty_version_is_filled_in():
    assert bumped(f"version:\n{MESSAGES}").prompt.source == f"version: 0.1.0\n{MESSAGES}"


def test_there_must_be_a_version_that_can_be_released():
    with pytest.raises(UsageError, match="has no version"):
        bumped(MESSAGES, None)
    text = f"version: 1.5.0\n{MESSAGES}"
    older = text.replace("1.5.0", "1.0.0").replace("Say", "Tell")
    with pytest.raises(UsageError, match=r"states version 1\.0\.0, older than 1\.5\.0"):
        bumped(older, None, lock=released(text))


def test_a_file_in_braces_cannot_get_new_keys():
    with pytest.raises(PromptError, match="braces"):
        bumped("{messages: [{role: user, content: Hi}]}")


def test_nothing_changed_is_refused_unless_allowed():
    text = f"version: 1.0.0\n{MESSAGES}"
    with pytest.raises(UsageError, match=r"does what 1\.0\.0 did"):
        bumped(text, lock=released(text))
    assert str(bumped(text, lock=released(text), allow_unchanged=True).prompt.version) == "1.1.0"


def test_a_changed_contract_asks_for_a_major_version():
    text = f"version: 1.0.0\n{MESSAGES}"
    changed = text.replace("{{x}}", "{{y}}")
    with pytest.raises(UsageError, match=r"contract of greet .* changed since 1.0.0"):
        bumped(changed, "minor", lock=released(text))
    assert str(bumped(changed, "major", lock=released(text)).prompt.version) == "2.0.0"


def test_without_a_part_the_stated_version_is_released():
    text = f"version: 1.0.0\n{MESSAGES}"
    result = bumped(text, None)
    assert result.prompt.source == text
    assert [str(entry.version) for entry in result.lock.entries_of("greet")] == ["1.0.0"]
    with pytest.raises(UsageError, match="released already"):
        bumped(text, None, lock=result.lock)


def test_a_version_has_one_changelog_entry():
    text = f"version: 1.0.0\nchangelog:\n  - version: 1.0.0\n    text: First.\n{MESSAGES}"
    with pytest.raises(
        UsageError, match=r"changelog of greet has 1\.0\.0 already\n  fix: run it w"
    ):
        bumped(text, None, note="Second")
    assert "Second" in bumped(text, "minor", note="Second").prompt.source


def test_a_version_written_back_by_hand_does_not_collide_with_a_release():
    text = f"version: 1.5.0\n{MESSAGES}"
    older = text.replace("1.5.0", "1.0.0").replace("Say", "Tell")
    assert str(bumped(older, "patch", lock=released(text)).prompt.version) == "1.5.1"


def test_the_same_version_cannot_be_locked_twice_with_other_content():
    text = f"version: 1.0.0\n{MESSAGES}"
    other = parse_prompt(text.replace("Say", "Tell"), path=PATH)
    with pytest.raises(LockError, match=r"the content changed, but the version is still 1\.0\.0"):
        released(text).add(other)


@given(note=st.text(max_size=60))
def test_any_note_survives(note):
    prompt = bumped(f"version: 1.0.0\n{MESSAGES}", note=note).prompt
    said = " ".join(note.split())
    assert [entry.text for entry in prompt.changelog] == ([said] if said else [])


COMMENT = st.sampled_from(["", "# a comment: with - marks\n", "\n", "  # indented {{x}}\n"])
KEYS = st.permutations(
    [
        "name: 'Ünï: 🙂' # title\n",
        "description: >-\n  folded\n\n  text\n",
        "x-mine: {a: [1, 2], version: 9.9.9}\n",
        "messages:\n- role: user\n  content: |2\n      version: 0.0.1\n    Say {{x}}\n",
        "evaluators:\n  - name: a\n    string: {contains: x}\n",
    ]
)
VERSION = st.sampled_from(
    [
        "",
        "version: 1.0.0\n",
        'version:   "1.0.0" # v\n',
        "'version': !!str 1.0.0\n",
        '"version": 1.0.0\n',
    ]
)
CHANGELOG = st.sampled_from(
    [
        "",
        "changelog:\n",
        "changelog: [] # none\n",
        "changelog:\n- {version: 1.0.0, text: a}\n",
        "changelog:\n    # first\n    -   text: a\n        version: 1.0.0\n    # last\n",
    ]
)


@given(
    keys=KEYS,
    version=VERSION,
    changelog=CHANGELOG,
    comments=st.lists(COMMENT, min_size=8, max_size=8),
    at=st.tuples(st.integers(0, 5), st.integers(0, 6)),
    newline=st.sampled_from(["\n", "\r\n"]),
    note=st.sampled_from(["", "plain words", "quoted: 'it' # \"too\"", "- 1.0", "true"]),
)
def test_a_bump_only_ever_adds_lines_and_changes_the_version(
    *, keys, version, changelog, comments, at, newline, note
):
    keys = list(keys)
    keys.insert(at[0], version)
    keys.insert(at[1], changelog)
    text = "".join(c + k for c, k in zip([*comments], [*keys, ""], strict=True))
    text = text.replace("\n", newline)
    edited = bumped(text, "minor", note).prompt.source
    added = [line for line in edited.split(newline) if line not in text.split(newline)]
    kept = [line for line in edited.split(newline) if line in text.split(newline)]
    assert len(added) <= 5
    missing = [line for line in text.split(newline) if line not in kept]
    assert all("version" in line or line.startswith("changelog") for line in missing)
    assert len(missing) <= 2
    if newline == "\r\n":
        assert edited.count("\n") == edited.count("\r\n")
