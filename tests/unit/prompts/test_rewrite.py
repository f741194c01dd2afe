"""New contents of messages are written into a prompt file; nothing else in it changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from regauge.errors import PromptError
from regauge.prompts import parse_prompt, set_contents
from regauge.prompts._edit import set_model

PATH = Path("greet.prompt.yml")
LITERAL = """\
# Says hello.
name: Greet   # shown in lists
model: sim:clerk-1
messages:
  - role: system
    content: |
      # Role
      You greet people.

      Rules:
      - Be brief.
      - Be kind.
  # The user speaks last.
  - role: user
    content: "Hello {{name}}"
"""
REAL = sorted((Path(__file__).parents[2] / "data" / "prompt_files").rglob("*.prompt.y*ml"))

lines = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=30)
contents = st.lists(lines, min_size=1, max_size=6).map("\n".join).filter(lambda text: text.strip())


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in after.splitlines() if line not in before.splitlines()]


def test_only_the_changed_line_of_a_literal_block_is_written() -> None:
    content = parse_prompt(LITERAL, path=PATH).messages[0].content
    edited = set_contents(
        LITERAL, [content.replace("Be brief", "Be very brief"), "Hello {{name}}"], path=PATH
    )
    assert edited == LITERAL.replace("Be brief", "Be very brief")


def test_a_rule_is_added_with_the_indentation_of_its_block() -> None:
    content = parse_prompt(LITERAL, path=PATH).messages[0].content
    edited = set_contents(
        LITERAL, [content.replace("- Be kind.\n", "- Be kind.\n- Be honest.\n"), "Hello {{name}}"],
        path=PATH,
    )  # fmt: skip
    assert changed_lines(LITERAL, edited) == ["      - Be honest."]
    assert edited.replace("      - Be honest.\n", "") == LITERAL


def test_a_quoted_content_stays_quoted() -> None:
    content = parse_prompt(LITERAL, path=PATH).messages[0].content
    for quoted, new, written in (
        ('"Hello {{name}}"', 'Hi "{{name}}",\nhow are you?', r'"Hi \"{{name}}\",\nhow are you?"'),
        ("'Hello {{name}}'", "That's {{name}}: hi", "'That''s {{name}}: hi'"),
        ("Hello {{name}} # to all", "Hi, {{name}}", "Hi, {{name}} # to all"),
    ):
        text = LITERAL.replace('"Hello {{name}}"', quoted)
        assert set_contents(text, [content, new], path=PATH) == text.replace(quoted, written)


def test_a_folded_content_stays_folded_and_only_the_changed_lines_are_written() -> None:
    folded = (
        "content: >-\n      You greet people. Be brief\n      and be kind.\n\n      No jokes\n"
        "      are allowed.\n"
    )
    text = LITERAL.replace('content: "Hello {{name}}"\n', folded)
    was = [message.content for message in parse_prompt(text, path=PATH).messages]
    assert was[1] == "You greet people. Be brief and be kind.\nNo jokes are allowed."
    for new, written in (
        (was[1].replace("be kind", "never be rude"), folded.replace("be kind", "never be rude")),
        (was[1].replace("are all", "are ever all"), folded.replace("are all", "are ever all")),
        (was[1] + "\nNo {{name}}.", folded + "\n      No {{name}}.\n"),
        (was[1].replace("\n", "\n\n"), folded.replace("kind.\n\n", "kind.\n\n\n")),
        (
            was[1].replace("No jokes are allowed.", "No."),
            folded.replace(" jokes\n      are allowed", ""),
        ),
    ):
        for ends in ("\n", "\r\n"):
            source = text.replace("\n", ends)
            expected = text.replace(folded, written).replace("\n", ends)
            assert set_contents(source, [was[0], new], path=PATH) == expected, new


@settings(max_examples=100, deadline=None)
@given(contents, st.sampled_from(["|", ">", ">-", ">+", "'", '"', ""]), contents)
def test_a_content_in_any_style_is_read_back(old: str, style: str, new: str) -> None:
    document = yaml.safe_dump(
        {"messages": [{"role": "user", "content": old.replace("{{", "{")}]},
        allow_unicode=True,
        default_style=style[:1] or None,
    )
    try:
        parse_prompt(document, path=PATH)
        edited = set_contents(document, [new.replace("{{", "{")], path=PATH)
    except PromptError:
        return  # refused, not garbled
    assert parse_prompt(edited, path=PATH).messages[0].content == new.replace("{{", "{")


def test_a_quoted_content_becomes_a_literal_block_where_quotes_cannot_hold_it() -> None:
    content = parse_prompt(LITERAL, path=PATH).messages[0].content
    single = LITERAL.replace('"Hello {{name}}"', "'Hello {{name}}'")
    edited = set_contents(single, [content, "Hi {{name}},\nhow are you?"], path=PATH)
    head, _, tail = edited.partition("  - role: user\n")
    assert head == LITERAL.partition("  - role: user\n")[0]
    assert parse_prompt(edited, path=PATH).messages[1].content == "Hi {{name}},\nhow are you?"
    assert tail.startswith("    content: |-\n      Hi {{name}},\n")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("was", "header"),
    [
        ("Hi  # note", "|-  # note"),
        ("'Hi' # 'note'", "|- # 'note'"),
        ("Hi\n      all # note", "|- # note"),
        ("|2-  # note\n      Hi", "|-  # note"),
    ],
)
@pytest.mark.parametrize("tail", ["", "\n", "\nmodel: sim:a\n"])
def test_the_comment_of_a_content_that_becomes_a_block_moves_to_its_header(
    was: str, header: str, ends: str, tail: str
) -> None:
    start = "messages:\n  - role: user\n    content: "
    edited = set_contents(f"{start}{was}{tail}".replace("\n", ends), ["Hi:\n- you"], path=PATH)
    block = f"{start}{header}\n      Hi:\n      - you" + (tail or "\n")
    assert edited == block.replace("\n", ends)


def test_line_ends_of_the_file_are_kept() -> None:
    text = LITERAL.replace("\n", "\r\n")
    content = parse_prompt(text, path=PATH).messages[0].content
    edited = set_contents(text, [content + "- Be honest.\n", "Hello {{name}}"], path=PATH)
    assert edited == text.replace("- Be kind.\r\n", "- Be kind.\r\n      - Be honest.\r\n")


def test_another_number_of_messages_is_refused_with_the_file() -> None:
    with pytest.raises(PromptError, match=r"greet\.prompt\.yml:1: .*it has 2 messages, and 1"):
        set_contents(LITERAL, ["one"], path=PATH)


@pytest.mark.parametrize("content", ['"Hello"', "Hello", "'Hello'", '"H\\u0065llo"'])
@pytest.mark.parametrize("new", ["Bye, {all}", "Bye:\n- #1\n"])
def test_a_message_in_braces_stays_there(content: str, new: str) -> None:
    text = f"messages: [{{role: user, content: {content}}}]\nmodel: sim:clerk-1\n"
    edited = set_contents(text, [new], path=PATH)
    assert parse_prompt(edited, path=PATH).messages[0].content == new
    assert edited.count("\n") == text.count("\n")
    assert edited.endswith("}]\nmodel: sim:clerk-1\n")


def test_a_literal_block_that_ends_the_file_without_a_line_end_stays_so() -> None:
    text = "messages:\n  - role: user\n    content: |-\n      Be brief.\n      Be kind."
    assert set_contents(text, ["Be brief.\nBe fair."], path=PATH) == text.replace("kind", "fair")
    assert set_contents(text, ["Be brief."], path=PATH) == text.replace("\n      Be kind.", "")
    for ends in ("\n", "\r\n"):
        edited = set_contents(
            text.replace("\n", ends), ["Be brief.\nBe kind.\n\nBe fair."], path=PATH
        )
        assert edited == f"{text}\n\n      Be fair.".replace("\n", ends)


def test_an_alias_of_a_block_changes_the_block_and_nothing_else() -> None:
    text = "x-rules: &rules |\n  Be brief.\nmessages:\n  - role: user\n    content: *rules\n"
    edited = set_contents(text, ["Be brief.\nBe kind.\n"], path=PATH)
    assert edited == text.replace("brief.\n", "brief.\n  Be kind.\n")
    text += "  - role: user\n    content: *rules\n"
    with pytest.raises(PromptError, match="the edit would change more than the messages"):
        set_contents(text, ["Be kind.\n", "Be brief.\n"], path=PATH)
    edited = set_contents(text, ["Be kind.\n", "Be kind.\n"], path=PATH)
    assert edited == text.replace("brief", "kind")


def test_what_an_edit_cannot_change_alone_is_refused() -> None:
    text = "x-text: &t Hi\nmessages:\n  - role: user\n    content: *t\n"
    with pytest.raises(PromptError, match="a message's content is an alias"):
        set_contents(text, ["Bye"], path=PATH)
    text = "model: &m sim:a\nmessages:\n  - role: user\n    content: *m\n"
    with pytest.raises(PromptError, match="the edit would change more than that"):
        set_model(text, "sim:b", path=PATH)


def test_a_model_is_set_where_there_is_none() -> None:
    text = "version: 1.0.0 # now\nmessages:\n  - role: user\n    content: Hi\n"
    edited = set_model(text, "sim:b", path=PATH)
    assert edited == text.replace("# now\n", "# now\nmodel: sim:b\n")
    assert set_model(edited, "sim:c", path=PATH) == edited.replace("sim:b", "sim:c")


@settings(max_examples=150, deadline=None)
@given(contents, contents)
def test_whatever_is_written_is_read_back_and_comments_stay(system: str, user: str) -> None:
    system, user = system.replace("{{", "{"), user.replace("{{", "{") + " {{name}}"
    try:
        edited = set_contents(LITERAL, [system, user], path=PATH)
    except PromptError:
        return  # refused, not garbled
    after = parse_prompt(edited, path=PATH)
    assert [message.content for message in after.messages] == [system, user]
    assert edited.startswith("# Says hello.\nname: Greet   # shown in lists\n")
    assert "# The user speaks last." in edited
    back = set_contents(edited, [m.content for m in parse_prompt(LITERAL, path=PATH).messages], path=PATH)  # fmt: skip
    assert parse_prompt(back, path=PATH).digest == parse_prompt(LITERAL, path=PATH).digest


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.parent.name + "-" + path.name)
def test_a_sentence_is_added_to_real_prompt_files_and_taken_back(path: Path) -> None:
    text = path.read_bytes().decode()
    try:
        before = parse_prompt(text, path=path)
    except PromptError:
        pytest.skip("the file is one of those that fail with an error")
    now = [message.content for message in before.messages]
    more = [now[0].rstrip("\n") + "\nAnswer in English.\n", *now[1:]]
    edited = set_contents(text, more, path=path)
    assert [m.content for m in parse_prompt(edited, path=path).messages] == more
    back = set_contents(edited, now, path=path)
    assert parse_prompt(back, path=path).digest == before.digest


@pytest.mark.parametrize(
    ("message", "line", "lines"),
    [
        (
            "  - {role: user, content: hi}\n",
            '  - {role: user, content: "Grüße: {{x}}"}\n',
            '  - {role: user, content: "Zwei\\nZeilen ü"}\n',
        ),
        (
            "  - {role: user, content: 'hi'}\n",
            "  - {role: user, content: 'Grüße: {{x}}'}\n",
            '  - {role: user, content: "Zwei\\nZeilen ü"}\n',
        ),
        (
            '  - {role: user, content: "hi"}\n',
            '  - {role: user, content: "Grüße: {{x}}"}\n',
            '  - {role: user, content: "Zwei\\nZeilen ü"}\n',
        ),
        (
            "  - role: user\n    content: hi\n",
            "  - role: user\n    content: |-\n      Grüße: {{x}}\n",
            "  - role: user\n    content: |-\n      Zwei\n      Zeilen ü\n",
        ),
        (
            "  - role: user\n    content: |-\n      hi\n",
            "  - role: user\n    content: |-\n      Grüße: {{x}}\n",
            "  - role: user\n    content: |-\n      Zwei\n      Zeilen ü\n",
        ),
        (
            "  - role: user\n    content: >-\n      hi\n      you\n",
            "  - role: user\n    content: >-\n      Grüße: {{x}}\n",
            "  - role: user\n    content: >-\n      Zwei\n\n      Zeilen\n      ü\n",
        ),
    ],
)
def test_a_new_content_keeps_its_style_and_its_letters(message: str, line: str, lines: str):
    head = "version: 1.0.0\nmessages:\n"
    for content, expected in [("Grüße: {{x}}", line), ("Zwei\nZeilen ü", lines)]:
        assert set_contents(head + message, [content], path=PATH) == head + expected
