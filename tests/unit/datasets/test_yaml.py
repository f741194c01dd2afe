"""YAML datasets: the lines of faults, and the words that YAML 1.1 turns into something else."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

GOOD = "- id: a\n  inputs: {x: one}\n"


@pytest.mark.parametrize("name", ["demo.yaml", "demo.yml"])
def test_a_list_of_cases_is_read(load, name):
    dataset = load(
        """\
- id: a
  inputs:
    report: |
      one
      two
    n: 1.5
  expected: {severity: critical, none: null, yes: true, list: [1, "2"]}
  tags: [night]
  tier: tracked
  note: seen once

- {id: b, inputs: {}}
""".replace("yes:", "'yes':"),
        name,
    )
    first, second = dataset
    assert first.inputs == {"report": "one\ntwo\n", "n": 1.5}
    assert first.expected == {"severity": "critical", "none": None, "yes": True, "list": [1, "2"]}
    assert (first.tags, first.tier, first.note) == (("night",), "tracked", "seen once")
    assert [first.location, second.location] == [
        f"fixtures/golden/{name}:1",
        f"fixtures/golden/{name}:12",
    ]


def test_anchors_aliases_and_merges_are_understood(load):
    dataset = load(
        "- &first\n  id: a\n  inputs: &in {x: 1, y: 2}\n"
        "- id: b\n  inputs: {<<: *in, y: 3}\n- <<: *first\n  id: c\n",
        "demo.yaml",
    )
    one, two = {"x": 1, "y": 2}, {"x": 1, "y": 3}
    assert [case.inputs for case in dataset] == [one, two, one]


def test_all_errors_of_a_file_are_told_together_by_line(error_of):
    content = """\
- id: a
  inputs: {}
- id: b
  inputs:
    x: 1
  teir: tracked
- inputs: {}
  tier: minor
- just text
- id: a
  tags: night
  inputs:
    when: 2024-01-02
    time: 11:45
    mode: 0755
    flag: no
    share: .nan
    other: .inf
    1: x
    x: 1
    x: 2
    set: !!set {q}
    raw: !!binary aGk=
    own: !mine 3
"""
    assert error_of(content, "demo.yaml") == snapshot("""\
fixtures/golden/demo.yaml:6: unknown key 'teir'
  fix: did you mean 'tier'?
fixtures/golden/demo.yaml:7: a case without an id
  fix: give it one: "id": "a-unique-name"
fixtures/golden/demo.yaml:8: no such tier: 'minor'
  fix: one of critical, required, tracked
fixtures/golden/demo.yaml:9: a case is a mapping with `id` and `inputs`
  fix: start it with `- id: ...`
fixtures/golden/demo.yaml:10: the id 'a' is taken: line 1 has it too
  fix: every case needs an id of its own
fixtures/golden/demo.yaml:11: tags is 'night'
  fix: a list of words without ";": "tags": ["storage", "night"]
fixtures/golden/demo.yaml:13: 2024-01-02 reads as a date in YAML
  fix: put it in quotes
fixtures/golden/demo.yaml:14: 11:45 reads as 705 in YAML
  fix: put it in quotes
fixtures/golden/demo.yaml:15: 0755 reads as 493 in YAML
  fix: put it in quotes
fixtures/golden/demo.yaml:16: no reads as false in YAML
  fix: put it in quotes
fixtures/golden/demo.yaml:17: .nan is not a JSON number
  fix: write a number, or null for none
fixtures/golden/demo.yaml:18: .inf is not a JSON number
  fix: write a number, or null for none
fixtures/golden/demo.yaml:19: the key '1' is not text
  fix: put it in quotes
fixtures/golden/demo.yaml:21: a case gives 'x' twice, first on line 20
  fix: keep one of them
fixtures/golden/demo.yaml:22: a case: the tag 'set' is not supported
  fix: remove the tag
fixtures/golden/demo.yaml:23: a case: 'aGk=' with the tag binary has no JSON value
  fix: remove the tag, or write a text
fixtures/golden/demo.yaml:24: a case: '3' with the tag !mine has no JSON value
  fix: remove the tag, or write a text\
""")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "- id: a\n  inputs: {x: 1\n- id: b\n",
            snapshot(
                """\
fixtures/golden/demo.yaml:2: not YAML: the `{` of this line is not closed
  fix: close it, or remove it\
"""
            ),
        ),
        (
            "- id: a\n inputs: {}\n",
            snapshot(
                """\
fixtures/golden/demo.yaml:2: not YAML: this line does not fit the lines above it
  fix: indent this line as its neighbours, or quote the whole text\
"""
            ),
        ),
        (
            "- id: a\n  inputs: *nowhere\n",
            snapshot("""\
fixtures/golden/demo.yaml:2: not YAML: found undefined alias 'nowhere'
  fix: define it with `&name` above, or quote the text that starts with `*`\
"""),
        ),
        (
            "- id: a\n  inputs: &me {x: *me}\n",
            snapshot("""\
fixtures/golden/demo.yaml:2: a case contains itself through an alias
  fix: write the value out instead of the alias\
"""),
        ),
        (
            "- id: a\n  inputs: {}\n---\n- id: b\n",
            snapshot(
                """\
fixtures/golden/demo.yaml:3: not YAML: a second document starts here
  fix: keep one document in one file\
"""
            ),
        ),
        (
            "- id: a\n  inputs: {x: \x07}\n",
            snapshot("""\
fixtures/golden/demo.yaml:2: the character '\\x07' is not allowed in YAML
  fix: remove it, or write it as an escape\
"""),
        ),
        (
            "id: a\ninputs: {}\n",
            snapshot("""\
fixtures/golden/demo.yaml:1: a dataset in YAML is a list of cases
  fix: start each case with `- id: ...`\
"""),
        ),
        (
            "# nothing yet\n",
            snapshot("""\
fixtures/golden/demo.yaml: no cases
  fix: add one, or remove the file\
"""),
        ),
        (
            "[" * 5000,
            snapshot("""\
fixtures/golden/demo.yaml: nested deeper than 100 levels
  fix: nest it less deeply\
"""),
        ),
    ],
    ids=[
        "unclosed",
        "indentation",
        "unknown-alias",
        "recursive-alias",
        "two-documents",
        "control-character",
        "one-mapping",
        "only-a-comment",
        "too-deep",
    ],
)
def test_a_file_that_is_no_list_of_cases_says_why(error_of, content, message):
    assert error_of(content, "demo.yaml") == message


def test_aliases_of_aliases_do_not_fill_the_memory(error_of):
    levels = "\n".join(f"    l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9))
    content = f"- id: a\n  inputs:\n    l0: &l0 [x]\n{levels}\n"
    assert error_of(content, "demo.yaml") == snapshot(
        """\
fixtures/golden/demo.yaml:3: a case: the file holds over 1,000,000 values, aliases resolved
  fix: use fewer aliases, or split the file\
"""
    )


def test_a_file_in_another_encoding_is_one_error_or_one_of_each_line(error_of):
    assert error_of(GOOD.encode("utf-16"), "demo.yaml") == (
        "fixtures/golden/demo.yaml:1: the file is UTF-16, not UTF-8\n  fix: save it as UTF-8"
    )
    content = "- id: größe\n  inputs: {x: é}\n".encode("latin-1")
    assert error_of(content, "demo.yaml") == (
        "fixtures/golden/demo.yaml:1: not UTF-8: byte 0xf6 at column 9\n  fix: save the file as"
        " UTF-8\nfixtures/golden/demo.yaml:2: not UTF-8: byte 0xe9 at column 15\n"
        "  fix: save the file as UTF-8"
    )


def test_a_byte_order_mark_and_windows_line_ends_are_fine(load):
    assert load(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode(), "demo.yaml").get("a")


@pytest.mark.parametrize(
    ("word", "value"),
    [("1_000.5", "1000.5"), ("190:20:30.15", "685230.15"), ("1_000", "1000"), ("on", "true")],
)
def test_a_word_that_yaml_reads_as_another_value_is_refused(error_of, word, value):
    text = error_of(f"- id: a\n  inputs: {{x: {word}}}\n", "demo.yaml")
    assert f"{word} reads as {value} in YAML\n  fix: put it in quotes" in text


@pytest.mark.parametrize(
    ("word", "value"), [("10.5", 10.5), ("true", True), ("-7", -7), ("1e3", "1e3")]
)
def test_a_plain_number_keeps_its_value(load, word, value):
    case = load(f"- id: a\n  inputs: {{x: {word}}}\n", "demo.yaml").cases[0]
    assert case.inputs["x"] == value
