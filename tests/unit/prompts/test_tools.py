"""Tools, tool calls and histories in prompt files, and keys that nothing reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from regauge.errors import PromptError, RenderError
from regauge.prompts import Message, ToolCall, load_version, parse_prompt, prompt_at, set_contents
from regauge.prompts._types import Semver

PATH = Path("prompts/help.prompt.yml")
LOOKUP = """\
tools:
  - name: lookup
    description: Find an order.
    parameters:
      type: object
      properties: {id: {type: string}}
"""
MESSAGES = """\
messages:
  - role: user
    content: "{{question}}"
"""
CONVERSATION = """\
messages:
  - role: system
    content: Help.
  - history: turns
  - role: assistant
    tool_calls:
      - {id: call_1, name: lookup, arguments: {id: "4711"}}
  - role: tool
    tool_call_id: call_1
    content: '{"status": "sent"}'
  - role: user
    content: "{{question}}"
"""


def parse(text: str):
    return parse_prompt(text, path=PATH)


def diagnostics(text: str) -> str:
    with pytest.raises(PromptError) as caught:
        parse(text)
    return str(caught.value)


def test_tools_are_read_in_either_form_and_are_part_of_digest_and_contract():
    plain = parse(MESSAGES)
    prompt = parse(LOOKUP + MESSAGES)
    (tool,) = prompt.tools
    assert tool["type"] == "function"
    assert tool["function"]["name"] == "lookup"
    wire = parse(f"tools: {json.dumps([tool])}\n{MESSAGES}")
    assert (wire.digest, wire.contract_digest) == (prompt.digest, prompt.contract_digest)
    assert prompt.digest != plain.digest
    assert prompt.contract_digest != plain.contract_digest
    described = parse(LOOKUP.replace("Find an order", "Look an order up") + MESSAGES)
    assert described.digest != prompt.digest
    assert described.contract_digest == prompt.contract_digest


@pytest.mark.parametrize("empty", ["tools: []\n", "tools:\n", "toolChoice:\n"])
def test_a_prompt_without_tools_keeps_its_digests(empty: str):
    prompt, plain = parse(empty + MESSAGES), parse(MESSAGES)
    assert (prompt.digest, prompt.contract_digest) == (plain.digest, plain.contract_digest)


def test_the_choice_of_a_tool_goes_with_the_parameters():
    prompt = parse(f"{LOOKUP}toolChoice: lookup\nparallelToolCalls: false\n{MESSAGES}")
    assert prompt.parameters == {
        "tool_choice": {"type": "function", "function": {"name": "lookup"}},
        "parallel_tool_calls": False,
    }
    assert parse(f"{LOOKUP}toolChoice: required\n{MESSAGES}").parameters == {
        "tool_choice": "required"
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            f"tools: [{{nam: x}}]\n{MESSAGES}",
            "a tool has no key 'nam'\n  fix: did you mean 'name'?",
        ),
        *(
            (
                f"tools: [{{name: x, {key}: {{type: object}}}}]\n{MESSAGES}",
                f"a tool has no key '{key}'\n  fix: did you mean 'parameters'?",
            )
            for key in ("input_schema", "inputSchema")
        ),
        (
            f"tools: [{{type: function, name: x}}]\n{MESSAGES}",
            "a tool has no key 'type'\n  fix: remove `type`, or write the other keys below `function:`",
        ),
        (f"tools: [{{description: x}}]\n{MESSAGES}", "a tool has no `name`"),
        (f"tools: [{{name: a b}}]\n{MESSAGES}", "'a b' cannot name a tool"),
        (f"tools: [{{name: a}}, {{name: a}}]\n{MESSAGES}", "tools declares 'a' twice"),
        (f"tools: [{{name: a, parameters: x}}]\n{MESSAGES}", "are not a JSON schema"),
        (f"tools: [x]\n{MESSAGES}", "a tool must be a mapping of keys, not a text"),
        (f"tools: [null]\n{MESSAGES}", "a tool must be a mapping of keys, not nothing"),
        (f"tools: [{{type: function, function: x}}]\n{MESSAGES}", "a tool must be a mapping"),
        (f"tools: [{{name: a, strict: 1}}]\n{MESSAGES}", "`strict` of tool 'a' must be true or"),
        (f"tools: {{file: ../x.yml}}\n{MESSAGES}", "is not a path below the folder of the prompt"),
        (f"tools: {{file: no-such.yml}}\n{MESSAGES}", "'no-such.yml' cannot be read: No such file"),
        (f"toolChoice: auto\n{MESSAGES}", "toolChoice is given, but there are no `tools`"),
        (f"{LOOKUP}toolChoice: lokup\n{MESSAGES}", "did you mean 'lookup'?"),
        (f"{LOOKUP}parallelToolCalls: 1\n{MESSAGES}", "must be true or false"),
        (
            f"{LOOKUP}toolChoice: auto\nmodelParameters: {{tool_choice: none}}\n{MESSAGES}",
            "toolChoice and modelParameters set tool_choice",
        ),
        ("messages: [{role: user, tool_calls: []}]", "only a message of the assistant"),
        ("messages: [{role: assistant, tool_calls: x}]", "is not a list of calls"),
        ("messages: [{role: assistant, tool_calls: [{name: x}]}]", "has no `id` or no `name`"),
        ("messages: [{role: tool, content: x}]", "`tool` and `tool_call_id` belong together"),
        ("messages: [{history: a b}]", "'a b' cannot be the name of an input"),
        ("messages: [{history: [a]}]", "history must be a text, not a list"),
        ("messages: [{history: a, role: user}]", "a history has no key 'role'"),
        (f"modelParamaters: {{}}\n{MESSAGES}", "did you mean 'modelParameters'?"),
        ("messages: [{role: user, content: x, nam: y}]", "a message has no key 'nam'"),
    ],
)
def test_what_is_wrong_with_tools_messages_and_keys_is_refused(text: str, complaint: str):
    assert complaint in diagnostics(text)


def test_keys_with_x_are_free_and_texts_of_commits_are_not_refused_for_a_key():
    assert parse(f"x-team: us\n{MESSAGES}").warnings == ()
    text = f"modelParamaters: {{}}\n{MESSAGES}"
    prompt = parse_prompt(text, path=PATH, committed=lambda _: None)
    assert "has no key 'modelParamaters'; it is ignored" in str(prompt.warnings[0])


def test_a_history_and_tool_calls_are_rendered_in_their_places():
    turns = [
        {"role": "user", "content": "Where is 4711? {{question}}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "unknown"},
    ]
    messages = parse(LOOKUP + CONVERSATION).render({"turns": turns, "question": "And now?"})
    assert messages == (
        Message(role="system", content="Help."),
        Message(role="user", content="Where is 4711? {{question}}"),
        Message(
            role="assistant",
            content="",
            tool_calls=(ToolCall(id="a", name="lookup", arguments="{}"),),
        ),
        Message(role="tool", content="unknown", tool_call_id="a"),
        Message(
            role="assistant",
            content="",
            tool_calls=(ToolCall(id="call_1", name="lookup", arguments='{"id": "4711"}'),),
        ),
        Message(role="tool", content='{"status": "sent"}', tool_call_id="call_1"),
        Message(role="user", content="And now?"),
    )
    assert len(parse(CONVERSATION).render({"turns": [], "question": "?"})) == 4


@pytest.mark.parametrize(
    ("turns", "complaint"),
    [
        ("hello", "it is not a list of messages"),
        ([{"role": "robot", "content": "x"}], "message 0 has no role among system"),
        ([{"role": "user"}], "message 0 has no content"),
        ([{"role": "user", "content": [{"type": "text"}]}], "the content of message 0 has a part"),
        ([{"role": "user", "content": "x", "nam": 1}], "message 0 has no key 'nam'"),
        ([{"role": "tool", "content": "x"}], "belong together"),
        ([{"role": "user", "content": "x", "tool_call_id": "a"}], "belong together"),
        ([{"role": "tool", "content": "x", "tool_call_id": 5}], "belong together"),
        ([{"role": "assistant", "tool_calls": "x"}], "message 0: .* not a list of calls"),
        (
            [{"role": "user", "content": [{"image": "a.png"}]}],
            "message 0 names image 'a.png', read by no dataset",
        ),
        (
            [{"role": "system", "content": [{"image": "a.png", "sha256": "0"}]}],
            "message 0 has an attachment, and its role is system, not user",
        ),
    ],
)
def test_a_history_that_is_none_is_refused(turns: object, complaint: str):
    with pytest.raises(RenderError, match=complaint):
        parse(CONVERSATION).render({"turns": turns, "question": "?"})


def test_a_list_of_messages_is_never_written_into_text():
    prompt = parse(MESSAGES)
    with pytest.raises(RenderError) as caught:
        prompt.render({"question": [{"role": "user", "content": "x"}]}, case_at="cases.jsonl:1")
    assert str(caught.value) == (
        "prompts/help.prompt.yml:3: input 'question' is a list of messages, and used as text (case"
        " at cases.jsonl:1)\n  fix: write `- history: question` among the messages"
    )
    assert prompt.render({"question": [{"role": "user"}, 1]})[0].content == '[{"role": "user"}, 1]'


def test_an_attachment_that_no_dataset_read_is_refused():
    prompt = parse(MESSAGES)
    with pytest.raises(
        RenderError, match=r"'question' names image 'a\.png', read by no dataset"
    ) as e:
        prompt.render({"question": {"image": "a.png"}})
    assert "fix: write the case into a file below fixtures/golden" in str(e.value)
    (message,) = prompt.render({"question": {"image": "a.png", "sha256": "0"}})
    assert [part.path for part in message.attachments] == ["a.png"]


def test_inputs_are_found_in_messages_except_those_of_a_history():
    messages = [("system", "Help."), ("user", "Where is it?")]
    assert parse(MESSAGES).inputs_in(messages) == {"question": "Where is it?"}
    assert parse(MESSAGES).inputs_in(messages[:1]) is None
    assert parse(CONVERSATION).inputs_in(messages) is None


def test_tools_of_a_file_that_a_commit_does_not_have_are_named():
    text = f"tools: {{file: x.yml}}\n{MESSAGES}"
    with pytest.raises(PromptError, match=r"'x\.yml' cannot be read: the commit has no such file"):
        parse_prompt(text, path=PATH, committed=lambda _: None)


def test_contents_can_be_edited_next_to_histories_and_calls():
    prompt = parse(CONVERSATION)
    contents = [message.content for message in prompt.messages]
    edited = set_contents(CONVERSATION, ["Help well.", *contents[1:]], path=PATH)
    assert parse(edited).messages == (
        Message(role="system", content="Help well."),
        *prompt.messages[1:],
    )
    with pytest.raises(PromptError, match="without a content of its own"):
        set_contents(CONVERSATION, [contents[0], "x", *contents[2:]], path=PATH)


def test_tools_of_a_file_are_read_from_the_commit_of_the_prompt(tmp_path: Path):
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True
        )

    prompts = tmp_path / "prompts"
    (prompts / "tools").mkdir(parents=True)
    path = prompts / "help.prompt.yml"
    tools = prompts / "tools" / "orders.yml"
    path.write_text(
        f"version: 1.0.0\ntools: {{file: tools/orders.yml}}\nmodelParamaters: {{}}\n{MESSAGES}"
    )
    tools.write_text("- name: lookup\n- {type: function, function: {name: cancel}}\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    path.write_text(
        f"version: 1.1.0\ntools: [{{file: tools/orders.yml}}, {{name: page}}]\n{MESSAGES}"
    )
    tools.write_text("name: lookup\ndescription: Find an order.\n")

    def names(prompt):
        return [tool["function"]["name"] for tool in prompt.tools]

    now = parse_prompt(path.read_text(), path=path)
    assert names(now) == ["lookup", "page"]
    assert now.tool_files == ("tools/orders.yml",)
    assert names(prompt_at(path, "HEAD")) == ["lookup", "cancel"]
    assert names(load_version(path, Semver.parse("1.0.0"))) == ["lookup", "cancel"]
    tools.unlink()
    outside = tmp_path / "secret.yml"
    outside.write_text("name: secret\n")
    tools.symlink_to(outside)
    with pytest.raises(PromptError, match="a link that leaves the folder"):
        parse_prompt(path.read_text(), path=path)


def test_tools_of_a_file_follow_the_rules_of_the_prompt_file_and_name_their_line(tmp_path: Path):
    path, file = tmp_path / "a.prompt.yml", tmp_path / "tools.yml"
    words = "- name: set_light\n  parameters: {type: object, enum: [on, off]}\n"
    file.write_text(words, encoding="utf-8")
    of_file = parse_prompt(f"tools: {{file: tools.yml}}\n{MESSAGES}", path=path)
    inline = parse_prompt(f"tools:\n{words}{MESSAGES}", path=path)
    assert of_file.tools == inline.tools
    file.write_text(f"{words}  strict: !secret x\n", encoding="utf-8")
    with pytest.raises(PromptError, match=r"the file 'tools.yml', line 3: .* is not supported"):
        parse_prompt(f"tools: {{file: tools.yml}}\n{MESSAGES}", path=path)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "a tool must be a mapping"),
        ("- name: a\n-\n", "a tool must be a mapping"),
        ("[a]", "a tool must be a mapping"),
        ("name: a\nnam: b\n", "did you mean 'name'?"),
        ("[{name: a}, {name: a}]", "tools declares 'a' twice"),
    ],
)
def test_what_is_wrong_with_tools_of_a_file_is_refused(tmp_path: Path, words: str, complaint: str):
    path = tmp_path / "a.prompt.yml"
    (tmp_path / "tools.yml").write_text(words, encoding="utf-8")
    with pytest.raises(PromptError) as caught:
        parse_prompt(f"tools: {{file: tools.yml}}\n{MESSAGES}", path=path)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("file", ["/tools.yml", "a/../tools.yml", "a\\tools.yml", "a\0.yml", ".."])
def test_a_file_of_tools_lies_below_the_folder_of_the_prompt(file: str):
    read = f"tools: {{file: {json.dumps(file)}}}\n{MESSAGES}"
    assert "is not a path below the folder of the prompt" in diagnostics(read)
