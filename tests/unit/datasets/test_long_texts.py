"""`{"file": ...}` values: what they read, and where they may not reach."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot


@pytest.fixture(autouse=True)
def sources(fixtures_dir):
    folder = fixtures_dir / "sources"
    folder.mkdir()
    (folder / "report.md").write_bytes("\ufeffone\r\ntwo é\n".encode())
    (folder / "latin.md").write_bytes("one\ncaf\xe9\n".encode("latin-1"))
    (fixtures_dir.parent / "secret.txt").write_text("secret", encoding="utf-8")
    (folder / "link.md").symlink_to(fixtures_dir.parent / "secret.txt")
    (folder / "inner.md").symlink_to(folder / "report.md")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    return folder


def line(**values):
    return json.dumps({"id": "a", "inputs": {}, **values})


def test_the_text_of_a_file_takes_the_place_of_its_name(load):
    """The same text on every machine: no byte order mark, one kind of line end."""
    text = "one\ntwo é\n"
    reference = {"file": "sources/report.md"}
    inputs = {"report": reference, "also": {"file": "sources/inner.md"}, "name": "x"}
    case = load(line(inputs=inputs, expected={"reference": reference, "n": 1})).cases[0]
    assert case.inputs == {"report": text, "also": text, "name": "x"}
    assert case.expected == {"reference": text, "n": 1}
    assert load(line(expected=reference)).cases[0].expected == text


def test_deeper_values_and_values_with_more_keys_stay_data(load):
    expected = {"call": {"arguments": {"file": "main.py"}}, "at": {"file": "main.py", "line": 3}}
    assert load(line(expected=expected)).cases[0].expected == expected


def test_the_digest_follows_the_text_and_not_its_name(load, sources):
    before = load(line(inputs={"report": {"file": "sources/report.md"}})).digest
    assert load(line(inputs={"report": "one\ntwo é\n"})).digest == before
    (sources / "report.md").write_text("changed", encoding="utf-8")
    assert load(line(inputs={"report": {"file": "sources/report.md"}})).digest != before


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "sources/reprot.md",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: there is no file 'sources/reprot.md' in the folder 'fixtures'; did you mean 'sources/report.md'?"
            ),
        ),
        (
            "other/report.md",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: there is no file 'other/report.md' in the folder 'fixtures'"
            ),
        ),
        (
            "../secret.txt",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file '../secret.txt' is not named by its path inside the folder 'fixtures'"
            ),
        ),
        (
            "sources/../../secret.txt",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file 'sources/../../secret.txt' is not named by its path inside the folder 'fixtures'"
            ),
        ),
        (
            "/etc/passwd",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file '/etc/passwd' is not named by its path inside the folder 'fixtures'"
            ),
        ),
        (
            "C:/secret.txt",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file 'C:/secret.txt' is not named by its path inside the folder 'fixtures'"
            ),
        ),
        (
            "sources\\report.md",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: 'sources\\\\report.md' is not a path: write it with / from the folder 'fixtures'"
            ),
        ),
        (
            "sources/link.md",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file 'sources/link.md' is a link that leaves the folder 'fixtures'"
            ),
        ),
        (
            "sources/loop.md",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file 'sources/loop.md' is a link to itself"
            ),
        ),
        (
            "sources/latin.md",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file 'sources/latin.md' is not UTF-8, see its line 2"
            ),
        ),
        (
            "sources",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file 'sources' cannot be read: is a directory"
            ),
        ),
        (
            "",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: '' is not a path: write it with / from the folder 'fixtures'"
            ),
        ),
        (
            ".",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file '.' cannot be read: is a directory"
            ),
        ),
        (
            "a\0b",
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: 'a\\x00b' is not a path: write it with / from the folder 'fixtures'"
            ),
        ),
        (
            "x" * 5000,
            snapshot(
                "fixtures/golden/demo.jsonl:1: inputs.report: the file 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'... cannot be read: file name too long"
            ),
        ),
    ],
)
def test_a_file_that_cannot_or_may_not_be_read_is_an_error(error_of, reference, message):
    assert error_of(line(inputs={"report": {"file": reference}})) == message


def test_a_reference_in_expected_is_held_to_the_same_rules(error_of):
    content = line(expected={"reference": {"file": "../secret.txt"}})
    assert error_of(content) == snapshot(
        "fixtures/golden/demo.jsonl:1: expected.reference: the file '../secret.txt' is not named by its path inside the folder 'fixtures'"
    )
