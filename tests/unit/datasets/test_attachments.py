"""Images and PDF files in cases: digests of their content, and errors of what they are not."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

PNG = b"\x89PNG\r\n\x1a\n rest"
FILES = {
    "a.png": PNG,
    "b.JPG": b"\xff\xd8\xff rest",
    "c.jpeg": b"\xff\xd8\xff rest",
    "d.gif": b"GIF89a",
    "e.webp": b"RIFF\n\n\n\nWEBP",
    "f.pdf": b"%PDF-1.7",
    "g.png": b"GIF89a",
    "h.pdf": b"pdf",
    "i.bmp": b"BM",
}


@pytest.fixture(autouse=True)
def shots(fixtures_dir):
    for name, data in FILES.items():
        (fixtures_dir / name).write_bytes(data)


def line(**values):
    return json.dumps({"id": "a", "inputs": {}, **values})


def part(name, kind="image"):
    return {kind: name, "sha256": hashlib.sha256(FILES[name]).hexdigest()}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("image", "a.png"),
        ("image", "b.JPG"),
        ("image", "c.jpeg"),
        ("image", "d.gif"),
        ("image", "e.webp"),
        ("pdf", "f.pdf"),
    ],
)
def test_an_attachment_is_read_with_the_digest_of_its_content(load, kind, name):
    (case,) = load(line(inputs={"x": {kind: name}, "y": {kind: name, "sha256": "older"}}))
    assert case.inputs == {"x": part(name, kind), "y": part(name, kind)}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            {"image": "g.png"},
            "inputs.x: the content of 'g.png' is not image data of this file type",
        ),
        ({"pdf": "h.pdf"}, "inputs.x: the content of 'h.pdf' is not pdf data of this file type"),
        ({"pdf": "a.png"}, "inputs.x: the pdf 'a.png' does not end in .pdf"),
        ({"image": "i.bmp"}, "the image 'i.bmp' does not end in .png, .jpg, .jpeg, .gif, .webp"),
        ({"image": "none.png"}, "inputs.x: there is no file 'none.png'"),
    ],
)
def test_what_is_no_attachment_is_named(error_of, value, words):
    assert words in error_of(line(inputs={"x": value}))


def test_an_attachment_may_have_20_mib(load, error_of, fixtures_dir):
    content, path = line(inputs={"x": {"image": "a.png"}}), fixtures_dir / "a.png"
    os.truncate(path, 20 * 1024 * 1024)
    (case,) = load(content)
    assert case.inputs["x"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    os.truncate(path, 20 * 1024 * 1024 + 1)
    message = "inputs.x: the file 'a.png' cannot be read: it has 21 MiB, and 20 MiB is the limit"
    assert message in error_of(content)


@pytest.mark.parametrize(
    "value", [{"image": "a.png", "alt": "x"}, {"image": 3}, {"images": "a.png"}, {"sha256": "x"}]
)
def test_other_mappings_stay_data(load, value):
    (case,) = load(line(inputs={"x": value}, expected={"image": "a.png"}))
    assert case.inputs == {"x": value}
    assert case.expected == {"image": "a.png"}


def test_attachments_of_messages_and_turns_are_read(load, fixtures_dir):
    (fixtures_dir / "note.txt").write_text("The note.")
    history = [
        {"role": "user", "content": ["See ", {"image": "a.png"}, {"file": "note.txt"}]},
        {"role": "user", "content": {"pdf": "f.pdf"}},
        {"role": "assistant", "content": "Seen."},
        "text",
    ]
    turns = [{"user": ["See ", {"image": "a.png"}]}, {"user": {"pdf": "f.pdf"}}]
    (case,) = load(line(inputs={"history": history}, turns=turns))
    assert case.inputs["history"] == [
        {"role": "user", "content": ["See ", part("a.png"), "The note."]},
        {"role": "user", "content": [part("f.pdf", "pdf")]},
        *history[2:],
    ]
    assert [turn.user for turn in case.script.turns] == [
        ["See ", part("a.png")],
        [part("f.pdf", "pdf")],
    ]


def test_errors_of_messages_name_their_place(error_of):
    history = [{"role": "user", "content": "x"}, {"role": "user", "content": [{"pdf": "a.png"}]}]
    assert "inputs.history[1].content: the pdf 'a.png'" in error_of(
        line(inputs={"history": history})
    )
    assert "turns[1].user: the pdf 'a.png'" in error_of(line(turns=[{"user": {"pdf": "a.png"}}]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"turns": [{"user": "x"}], "persona": "ann"}, "a case with `turns` and a `persona`"),
        ({"turns": [{"user": "x"}], "max_turns": 3}, "max_turns without a persona\n  fix: name a"),
        ({"persona": ""}, "persona is empty\n  fix: name a file, or remove `persona`"),
        ({"tools": ""}, "tools is empty\n  fix: name a file, or remove `tools`"),
        ({"max_steps": 3}, "max_steps without a conversation\n  fix: add `tools`, `turns`"),
        (
            {"turns": [{"user": "x"}], "max_steps": 0},
            "max_steps is 0\n  fix: write a number from 1",
        ),
        ({"turns": [{"user": "x"}], "max_steps": 101}, "max_steps is 101\n  fix: write a number"),
        ({"turns": [{"user": "x"}], "max_steps": True}, "max_steps is True"),
        ({"persona": 3}, "persona is 3, not text"),
        ({"pass_at": 0.5}, "pass_at without checks\n  fix: add `checks`, or remove `pass_at`"),
        ({"checks": ["is_json"], "pass_at": 0}, "pass_at is 0\n  fix: a share above 0 and up to 1"),
        ({"checks": ["is_json"], "pass_at": 1.01}, "pass_at is 1.01"),
        ({"checks": ["is_json"], "pass_at": True}, "pass_at is True"),
        ({"checks": ["is_json"], "pass_at": "x"}, "pass_at is 'x'"),
        ({"checks": []}, "checks is []\n  fix: a list of judges"),
        ({"checks": [3]}, "checks is [3]"),
        ({"checks": "is_json"}, "checks is 'is_json'"),
        ({"tags": [" a"]}, "tags is [' a']"),
        ({"tags": [""]}, "tags is ['']"),
        ({"tags": ["a;b"]}, "tags is ['a;b']"),
        ({"tier": "minor"}, "no such tier: 'minor'\n  fix: one of critical, required, tracked"),
        ({"split": "hold"}, "did you mean 'holdout'?"),
        ({"note": 3}, "note is 3, not text"),
        ({"inputs": [1]}, "inputs is a list, not a mapping of names to values"),
        ({"inputs": None}, "inputs is null, not a mapping of names to values"),
    ],
)
def test_a_faulty_key_is_named_with_a_fix(error_of, values, words):
    assert words in error_of(line(**values))


@pytest.mark.parametrize(
    "values",
    [
        {"checks": ["is_json"], "pass_at": 1},
        {"checks": ["is_json"], "pass_at": 0.01},
        {"turns": [{"user": "x", "checks": ["is_json"]}], "pass_at": 0.5},
    ],
)
def test_a_share_of_checks_is_kept(load, values):
    (case,) = load(line(**values))
    assert case.pass_at == values["pass_at"]


@pytest.mark.parametrize("limit", [1, 100])
def test_the_ends_of_limits_are_taken(load, limit):
    (case,) = load(line(turns=[{"user": "x"}], max_steps=limit))
    assert case.script.max_steps == limit
    (case,) = load(line(persona="ann", max_turns=limit))
    assert case.script.max_turns == limit
