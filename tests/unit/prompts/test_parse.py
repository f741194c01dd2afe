"""What a prompt file may say, and what is said about one that does not."""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from regauge.errors import PromptError
from regauge.prompts import InputSpec, load_prompt, parse_prompt
from regauge.yaml_document import YamlError, read_yaml

PATH = Path("prompts/greet.prompt.yml")
MESSAGES = "messages:\n  - role: user\n    content: 'Say {{x}}'\n"


def parse(text: str):
    return parse_prompt(text, path=PATH)


def test_a_document_may_have_a_hundred_levels():
    nested = read_yaml("[" * 100 + "]" * 100)
    assert str(nested).count("[") == 100
    with pytest.raises(YamlError, match="the document is nested deeper than 100 levels"):
        read_yaml("[" * 101 + "]" * 101)


def diagnostics(text: str) -> str:
    with pytest.raises(PromptError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize("text", ["messages: [\n", "{{{\n\n", "messages: [1,\r\n"])
def test_an_error_at_the_end_of_a_one_line_file_is_on_its_line(text: str):
    assert diagnostics(text).startswith("prompts/greet.prompt.yml:1: not YAML: ")


def test_all_errors_of_a_file_come_together_in_the_order_of_lines():
    text = """\
name: {name}
version: 1.0
model: [a]
modelParameters:
  temperature: hot
  max_tokens: 5
  maxTokens: 6
responseFormat: json_shema
inputs:
  - name: x
    requird: true
changelog:
  - version: 1.0.0
messages:
  - role: sytem
    content: Hi
  - role: user
  - role: user
    content: Say {{y}}
"""
    assert diagnostics(text) == snapshot("""\
prompts/greet.prompt.yml:1: name must be a text, not a mapping
  fix: quote the text: braces outside quotes are a mapping
prompts/greet.prompt.yml:2: version '1.0' is not a semantic version
  fix: write 1.0.0
prompts/greet.prompt.yml:3: model must be a text, not a list
  fix: write `model: openai/gpt-4o` and put its settings under `modelParameters:`
prompts/greet.prompt.yml:5: modelParameters.temperature must be a number, not 'hot'
  fix: write `temperature: 0.7` or so
prompts/greet.prompt.yml:7: modelParameters: max_tokens and maxTokens are one parameter with two values
  fix: keep one of them
prompts/greet.prompt.yml:8: responseFormat 'json_shema' is unknown
  fix: did you mean 'json_schema'?
prompts/greet.prompt.yml:11: an input has no key 'requird'
  fix: did you mean 'required'?
prompts/greet.prompt.yml:13: an entry of changelog has no 'text'
  fix: write `- version: 1.1.0`, below it `text:` and, if you like, `date:`
prompts/greet.prompt.yml:15: role 'sytem' is unknown
  fix: did you mean 'system'?
prompts/greet.prompt.yml:17: a message has no 'content'
  fix: write `- role: user` and `content: ...` for each message
prompts/greet.prompt.yml:19: {{y}} is not among the declared inputs
  fix: declare 'y' under `inputs:`\
""")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: the file is empty"),
        ("- a", ":1: a prompt file is a mapping of keys"),
        ("a: b", ":1: there are no `messages`"),
        ("messages:", ":1: `messages` is empty"),
        ("messages: hi", ":1: messages must be a list, not a text"),
        ("messages: [hi]", ":1: a message must be a mapping of keys, not a text"),
        ("messages:\n\t- a", ":2: not YAML: found character '\\t' that cannot start any token"),
        ("a: 'b\n", ":1: not YAML: the quote of this line is not closed"),
        (
            "a: |\n  one\u2028two\nb: c",
            "not YAML: the character U+2028 before this text begins a new line",
        ),
        (
            "a: |\n  x\n<<<<<<< HEAD\n  y\n=======\n  z\n>>>>>>> main\n",
            ":3: a merge conflict is not resolved\n  fix: keep one side",
        ),
        ("a: \x00", ":1: the character '\\x00' is not allowed in YAML"),
        ("a: " + "[" * 5000, "nested deeper than 100 levels\n  fix: nest it less deeply"),
        (
            f"model: a\nmodel: b\n{MESSAGES}",
            ":2: the file gives 'model' twice, first on line 1\n  fix: keep one",
        ),
        (f"testData: [{{a: 1, a: 2}}]\n{MESSAGES}", ":1: testData gives 'a' twice"),
        (
            f"testData: [!!python/object:os.system {{}}]\n{MESSAGES}",
            "object:os.system' is not supported",
        ),
        (f"testData: [{{a: !secret x}}]\n{MESSAGES}", "the tag '!secret' is not supported"),
        (
            f"testData: [{{a: .nan}}]\n{MESSAGES}",
            "'.nan' is not a number or word that JSON knows\n  fix: write a finite number",
        ),
        (
            f"testData: &t [{{a: *t}}]\n{MESSAGES}",
            "contains itself through an alias\n  fix: write the value out",
        ),
        (f"model:\n  name: gpt-4\n{MESSAGES}", ":2: model must be a text, not a mapping"),
        ("messages:\n- role: robot\n  content: x", ":2: role 'robot' is unknown"),
        ("messages:\n- role: [a]\n  content: x", ":2: the role of a message must be a text"),
        ("messages:\n- role: user\n  content: ' '", ":3: the content of a message is empty"),
        ("messages:\n- role: user\n  content: [a]", "must be a text, not a list"),
        (f"responseFormat: json_schema\n{MESSAGES}", ":1: there is no schema for json_schema"),
        (f"jsonSchema: {{type: object}}\n{MESSAGES}", "responseFormat is missing"),
        (
            f"responseFormat: json_object\njsonSchema: {{a: b}}\n{MESSAGES}",
            ":2: jsonSchema is given, but responseFormat is json_object",
        ),
        (
            f'responseFormat: json_schema\njsonSchema: \'{{"a": 1, "a": 2}}\'\n{MESSAGES}',
            ":2: jsonSchema is not JSON: the key 'a' is given twice",
        ),
        (
            f"responseFormat: json_schema\njsonSchema: '[1'\n{MESSAGES}",
            ":2: jsonSchema is not JSON",
        ),
        (f"inputs: [x, x]\n{MESSAGES}", "inputs declares 'x' twice"),
        (f"inputs: [x, 'a b']\n{MESSAGES}", "'a b' cannot be the name of an input"),
        (
            f"inputs: [{{name: x, required: true, default: 1}}]\n{MESSAGES}",
            "is required and has a default",
        ),
        (
            f"evaluators: [{{name: a, string: {{}}, llm: {{}}}}]\n{MESSAGES}",
            "one key for its kind",
        ),
        (f"version: [1]\n{MESSAGES}", ":1: version must be a text, not a list"),
        (f"version: new\n{MESSAGES}", "write three numbers, such as 1.0.0"),
        (f"inputs: [[x]]\n{MESSAGES}", "an input must be a mapping of keys, not a list"),
        (f"inputs: [{{description: x}}]\n{MESSAGES}", "an input has no 'name'"),
        (f"inputs: [{{name: x, required: maybe}}]\n{MESSAGES}", "must be true or false"),
        (f"inputs: x\n{MESSAGES}", ":1: inputs must be a list, not a text"),
        (f"changelog: [x]\n{MESSAGES}", "an entry of changelog must be a mapping"),
        (f"changelog: [{{version: 1, text: x}}]\n{MESSAGES}", "'1' is not a semantic version"),
        (
            f"changelog: [{{version: 1.0.0, text: x}}, {{version: 1.0.0, text: y}}]\n{MESSAGES}",
            "changelog has version 1.0.0 twice",
        ),
        (f"testData: [x]\n{MESSAGES}", ":1: a row of testData must be a mapping"),
        (f"testData: {{a: b}}\n{MESSAGES}", ":1: testData must be a list, not a mapping"),
        (f"evaluators: [x]\n{MESSAGES}", ":1: an evaluator must be a mapping"),
        (f"modelParameters: [x]\n{MESSAGES}", ":1: modelParameters must be a mapping"),
        (f"modelParameters: {{seed: 1.5}}\n{MESSAGES}", "seed must be a whole number"),
        (
            f"modelParameters: {{maxTokens: 0}}\n{MESSAGES}",
            "maxTokens must be a whole number from 1 on",
        ),
        (f"modelParameters: {{reasoning_effort: 1}}\n{MESSAGES}", "must be a text"),
        (f"modelParameters: {{stop: [1]}}\n{MESSAGES}", "must be a text or a list of texts"),
        (f"responseFormat: [x]\n{MESSAGES}", ":1: responseFormat must be a mapping"),
        (f"modelParameters: {{model: a}}\n{MESSAGES}", "fix: write it under the key `model`"),
        (f"modelParameters: {{system: a}}\n{MESSAGES}", "fix: write it under the key `messages`"),
        (f"responseFormat: {{a: b}}\n{MESSAGES}", ":1: responseFormat has no 'type'"),
        (f"responseFormat: json\n{MESSAGES}", "responseFormat 'json' is unknown"),
        (f"responseFormat: {{type: json_schema, json_schema: x}}\n{MESSAGES}", "is not JSON"),
        (f"responseFormat: json_schema\njsonSchema: [x]\n{MESSAGES}", ":2: jsonSchema must be"),
        (
            f"responseFormat: json_schema\njsonSchema: '{{\"a\": NaN}}'\n{MESSAGES}",
            "jsonSchema is not JSON: NaN is not a JSON number",
        ),
        (
            (
                "responseFormat: {type: json_schema, json_schema: {a: b}}\n"
                f"jsonSchema: {{c: d}}\n{MESSAGES}"
            ),
            ":2: jsonSchema and responseFormat give two schemas",
        ),
        (f"<<: x\n{MESSAGES}", "`<<` merges a mapping or a list of mappings"),
        (f"<<: &a {{<<: *a}}\n{MESSAGES}", "`<<` merges a mapping into itself"),
        (f"testData: [{{a: {'[' * 120}{']' * 120}}}]\n{MESSAGES}", "deeper than 100 levels"),
        ("prompt: Say hi\nmodel: {name: x}", ":1: there are no `messages`: `prompt` is another"),
        (f"inputs: [{{required: true}}]\n{MESSAGES}", ":1: an input has no 'name'"),
        ("a: *b", ":1: not YAML: found undefined alias 'b'"),
        (f"changelog: {{1.0.0: x}}\n{MESSAGES}", ":1: changelog must be a list, not a mapping"),
    ],
)
def test_a_faulty_text_is_refused_with_its_line(text, said):
    message = diagnostics(text)
    assert message.startswith("prompts/greet.prompt.yml")
    assert said in message


def test_a_bomb_of_aliases_is_refused_and_quickly():
    rows = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise("abcdefgh")]
    text = f"x-bomb: {{}}\n{MESSAGES}testData:\n  - " + "\n    ".join(rows)
    assert "the file holds over 100,000 values, aliases resolved" in diagnostics(text)


def test_aliases_and_merge_keys_of_good_will_are_read():
    text = (
        f"x-base: &base {{a: 1, b: 2}}\n{MESSAGES}testData:\n  - {{<<: *base, b: 3}}\n  - *base\n"
    )
    assert parse(text).test_data == ({"a": 1, "b": 3}, {"a": 1, "b": 2})
    chained = (
        f"x-a: &a {{a: 1, b: 1}}\nx-b: &b {{<<: *a, b: 2}}\n{MESSAGES}testData: [{{<<: *b}}]\n"
    )
    assert parse(chained).test_data == ({"a": 1, "b": 2},)


def test_scalars_follow_yaml_1_2():
    text = "testData: [{a: no, b: 010, c: 12:30, d: 2025-01-01, e: 1e3, f: 0x1f, g: null}]\n"
    assert parse(text + MESSAGES).test_data == (
        {"a": "no", "b": 10, "c": "12:30", "d": "2025-01-01", "e": 1000.0, "f": 31, "g": None},
    )


def test_line_ends_and_byte_order_mark_do_not_change_the_digest():
    text = f"name: Größe 🙂\n{MESSAGES}  - role: system\n    content: |\n      a\n      b\n"
    twins = [text, text.replace("\n", "\r\n"), "\ufeff" + text]
    assert len({parse(twin).digest for twin in twins}) == 1


def test_description_version_and_changelog_are_not_part_of_the_digest():
    plain = parse(MESSAGES)
    other = parse(
        "name: N\ndescription: D\nversion: 1.0.0\nowner: o\nchangelog:\n"
        f"  - version: 1.0.0\n    text: T\n{MESSAGES}testData: []\nevaluators: []\n"
    )
    assert plain.digest == other.digest
    assert plain.contract_digest == other.contract_digest


@pytest.mark.parametrize(
    "change",
    ["model: a:b\n", "modelParameters: {seed: 1}\n", "responseFormat: json_object\n"],
)
def test_what_changes_behaviour_changes_the_digest(change):
    assert parse(change + MESSAGES).digest != parse(MESSAGES).digest


def test_a_contract_is_the_schema_and_the_inputs_but_not_their_words():
    bare = parse(f"inputs: [x]\n{MESSAGES}")
    assert parse(MESSAGES).contract_digest == bare.contract_digest
    worded = f"inputs:\n  - name: x\n    description: What to say\n{MESSAGES}"
    assert parse(worded).contract_digest == bare.contract_digest
    optional = f"inputs:\n  - name: x\n    required: false\n{MESSAGES}"
    assert parse(optional).contract_digest != bare.contract_digest


PLAIN_SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"title": "A", "description": "B", "$comment": "C", "examples": [{"title": "D"}]}, True),
        ({"properties": {"title": {"type": "string", "description": "A", "title": "B"}}}, True),
        ({"properties": {"title": {"type": "string", "enum": ["description"]}}}, False),
        ({"properties": {"title": {"type": "string", "const": {"title": "A"}}}}, False),
        ({"properties": {"title": {"type": "string"}, "description": {}}}, False),
        ({"properties": {"title": {"anyOf": [{"type": "string"}]}}}, False),
        ({"$defs": {"description": {"type": "string"}}}, False),
        ({"dependentRequired": {"description": ["title"]}}, False),
        ({"required": ["title"]}, False),
    ],
)
def test_titles_and_descriptions_of_schemas_are_not_part_of_the_contract(changes, same):
    def contract(schema):
        keys = f"responseFormat: json_schema\njsonSchema: {json.dumps(schema)}\n"
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        with_tool = parse(f"tools: [{json.dumps(tool)}]\n{MESSAGES}").contract_digest
        return parse(keys + MESSAGES).contract_digest, with_tool

    before, after = contract(PLAIN_SCHEMA), contract({**PLAIN_SCHEMA, **changes})
    assert [left == right for left, right in zip(before, after, strict=True)] == [same, same]


@pytest.mark.parametrize("spelling", ["max_tokens", "maxTokens", "maxCompletionTokens"])
def test_every_spelling_of_a_parameter_means_the_same(spelling):
    prompt = parse(f"modelParameters:\n  {spelling}: 5\n  top-p: 1\n{MESSAGES}")
    assert prompt.parameters == {"max_tokens": 5, "top_p": 1}
    both = parse(f"modelParameters: {{{spelling}: 5, max_completion_tokens: 5}}\n{MESSAGES}")
    assert both.parameters == {"max_tokens": 5}


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    "keys",
    [
        """responseFormat: json_schema\njsonSchema: '{"name": "answer", "schema": SCHEMA}'""",
        """responseFormat: json_schema\njsonSchema: {name: answer, schema: SCHEMA}""",
        """responseFormat: json_schema\njsonSchema: SCHEMA""",
        """responseFormat: {type: json_schema, json_schema: {name: answer, schema: SCHEMA}}""",
        """responseFormat: {type: json_schema}\njsonSchema: SCHEMA""",
    ],
)
def test_every_way_to_ask_for_a_schema_means_the_same(keys):
    flow = '{"type": "object", "properties": {"a": {"type": "string"}}}'
    prompt = parse(f"{keys.replace('SCHEMA', flow)}\n{MESSAGES}")
    assert prompt.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA},
    }


@pytest.mark.parametrize("text", ["", "responseFormat: text\n", "responseFormat: {type: text}\n"])
def test_text_is_no_response_format(text):
    assert parse(text + MESSAGES).response_format is None


def test_inputs_may_be_declared_in_three_ways():
    texts = ["inputs: [x]", "inputs: [{name: x}]", "inputs: {x: }"]
    assert [parse(f"{t}\n{MESSAGES}").inputs for t in texts] == [(InputSpec(name="x"),)] * 3
    described = parse(f"inputs: {{x: What to say}}\n{MESSAGES}").inputs
    assert described == (InputSpec(name="x", description="What to say"),)
    optional = parse(f"inputs: {{x: {{default: 3}}}}\n{MESSAGES}").inputs
    assert optional == (InputSpec(name="x", required=False, default=3),)


def test_odd_keys_and_braces_are_warned_of():
    text = (
        "x-team: us\nmodelParameters: {tempratur: 1, n: 3}\n"
        "messages:\n  - role: user\n    content: |\n      {{ x | upper }}\n      {{{{y}}}}\n"
        """      {{"{{"}}z{{'}}'}}\n"""
    )
    assert "\n".join(map(str, parse(text).warnings)) == snapshot("""\
prompts/greet.prompt.yml:2: modelParameters.tempratur is not a known parameter; it is sent as is
  fix: did you mean 'temperature'?
prompts/greet.prompt.yml:2: modelParameters.n is ignored
  fix: use `--trials`
prompts/greet.prompt.yml:6: {{ x | upper }} holds no name of an input, so it stays text
  fix: write {{name}} for an input; see the reference for literal braces
prompts/greet.prompt.yml:7: {{{{y}}}} is {{y}} between two literal pairs of braces
  fix: write {{name}} for an input; see the reference for literal braces\
""")


def test_null_says_nothing():
    keys = (
        "name",
        "model",
        "version",
        "inputs",
        "changelog",
        "testData",
        "evaluators",
        "jsonSchema",
    )
    text = "".join(f"{key}:\n" for key in (*keys, "modelParameters", "responseFormat"))
    prompt = parse(f"{text}{MESSAGES}")
    assert prompt == parse(MESSAGES)
    assert parse(f"modelParameters: {{seed: null}}\n{MESSAGES}").parameters == {}
    listed = parse(f"modelParameters: {{stop: [a, b], logprobs: true}}\n{MESSAGES}").parameters
    assert listed == {"stop": ["a", "b"], "logprobs": True}


def test_a_directory_and_a_missing_file_are_no_prompt(tmp_path):
    with pytest.raises(PromptError, match="this is a directory"):
        load_prompt(tmp_path)
    (tmp_path / "prompts" / "y.prompt.yml").mkdir(parents=True)
    for name in ("y", tmp_path / "prompts" / "y.prompt.yml"):
        with pytest.raises(PromptError, match="there is a directory at the path of this file"):
            load_prompt(name, root=tmp_path)
    with pytest.raises(PromptError, match="there is no such prompt file"):
        load_prompt(tmp_path / "x.prompt.yml")


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path):
    path = tmp_path / "x.prompt.yml"
    path.write_bytes(b"name: x\ndescription: Gr\xf6\xdfe\n")
    with pytest.raises(PromptError, match=r"x.prompt.yml:2: not UTF-8: byte 0xf6 at offset 23"):
        load_prompt(path)


def test_a_huge_file_is_refused(tmp_path):
    path = tmp_path / "x.prompt.yml"
    path.write_text("# " + "x" * 2_000_000)
    with pytest.raises(PromptError, match=r"1.9 MiB is more than a prompt file may have"):
        load_prompt(path)


@given(st.text(max_size=200))
def test_no_text_makes_the_parser_crash(text):
    with contextlib.suppress(PromptError):
        parse(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "a: ",
                "- ",
                "{",
                "}",
                "[",
                "]",
                "&a ",
                "*a",
                "\n",
                "  ",
                "'",
                '"',
                "messages:",
                "role: user",
                "content: ",
                "{{x}}",
                "<<: ",
                "? ",
                "|\n",
                "!t ",
                "version: ",
            ]
        )
    )
)
def test_no_heap_of_yaml_makes_the_parser_crash(parts):
    with contextlib.suppress(PromptError):
        parse("".join(parts))


@given(st.text(alphabet=st.characters(max_codepoint=0xFFFF), min_size=1).filter(str.strip))
def test_a_quoted_content_arrives_as_it_was_written(content):
    prompt = parse(f"messages:\n  - role: user\n    content: {json.dumps(content)}\n")
    assert prompt.messages[0].content == content
