"""JSON Lines datasets: what is read, and what one bad file says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from inline_snapshot import snapshot

from regauge.datasets import split_of

GOOD = '{"id": "a", "inputs": {"x": "1"}}\n'

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        # A mapping with `file` alone names a file, which none of these are.
        | st.dictionaries(st.text("abcdxyz", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
words = st.text(st.characters(codec="utf-8"), max_size=10)
tags = st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True)
cases = st.fixed_dictionaries(
    {
        "id": st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+/-]{4,20}", fullmatch=True),
        "inputs": st.dictionaries(st.text("abcxyz_", min_size=1, max_size=6), json_values),
    },
    optional={
        "expected": json_values,
        "tags": st.lists(tags, max_size=3),
        "tier": st.sampled_from(["critical", "required", "tracked"]),
        "split": st.sampled_from(["train", "holdout"]),
        "source": words,
        "licence": words,
        "note": words,
    },
)


@given(
    st.lists(cases, min_size=1, max_size=5, unique_by=lambda case: case["id"]),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\n"]),
    st.booleans(),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_what_is_written_is_what_is_read(load, written, line_end, bom, ascii_only):
    text = line_end.join(json.dumps(case, ensure_ascii=ascii_only) for case in written)
    dataset = load(("\ufeff" if bom else "") + text)
    assert len(dataset) == len(written)
    for case, source in zip(dataset, written, strict=True):
        assert case.id == source["id"]
        assert case.inputs == source["inputs"]
        assert case.expected == source.get("expected")
        assert case.tags == tuple(source.get("tags", ()))
        assert case.tier == source.get("tier", "required")
        assert case.split == source.get("split", split_of(case.id))
        assert (case.source, case.licence, case.note) == tuple(
            source.get(key, "") for key in ("source", "licence", "note")
        )
        assert dataset.get(case.id) is case


def test_a_case_knows_the_line_it_stands_on(load):
    dataset = load('\n{"id": "a", "inputs": {}}\r\n\r\n{"id": "b", "inputs": {}}')
    assert [case.location.rpartition("/")[2] for case in dataset] == [
        "demo.jsonl:2",
        "demo.jsonl:4",
    ]


def test_a_line_separator_inside_a_string_ends_no_line(load):
    dataset = load('{"id": "a", "inputs": {"x": "one\u2028two\x85three"}}\n')
    assert dataset.cases[0].inputs == {"x": "one\u2028two\x85three"}


def test_the_digest_of_a_dataset_ignores_order_and_tiers_but_no_value(load):
    one, two = '{"id": "a", "inputs": {"x": 1}}\n', '{"id": "b", "inputs": {}, "tier": "tracked"}\n'
    digest = load(one + two).digest
    assert load(two + one).digest == digest
    assert load(one + two.replace("tracked", "critical")).digest == digest
    assert load(one.replace("1", "2") + two).digest != digest
    assert load(one).digest != digest


def test_all_errors_of_a_file_are_told_together(error_of):
    content = """\
{"id": "a", "inputs": {"x": "1"}}
{"id": "a", "inputs": {"x": "2"}}
{"inputs": {}}
{"id": "b", "input": {}}
{"id": "c", "inputs": ["x"], "tier": "importnt", "split": "test"}
{"id": "d", "inputs": {}, "tags": "night", "note": 3, "license": "MIT"}
{"id": "e" "inputs": {}}
["f"]
{"id": 7, "inputs": null}
{
"""
    assert error_of(content) == snapshot("""\
fixtures/golden/demo.jsonl:2: the id 'a' is taken: line 1 has it too
  fix: every case needs an id of its own
fixtures/golden/demo.jsonl:3: a case without an id
  fix: give it one: "id": "a-unique-name"
fixtures/golden/demo.jsonl:4: unknown key 'input'
  fix: did you mean 'inputs'?
fixtures/golden/demo.jsonl:4: a case without inputs
  fix: name what the prompt needs: "inputs": {"name": "..."}
fixtures/golden/demo.jsonl:5: inputs is a list, not a mapping of names to values
  fix: name each value, as in "inputs": {"name": "..."}
fixtures/golden/demo.jsonl:5: no such tier: 'importnt'
  fix: one of critical, required, tracked
fixtures/golden/demo.jsonl:5: no such split: 'test'
  fix: one of train, holdout
fixtures/golden/demo.jsonl:6: unknown key 'license'
  fix: did you mean 'licence'?
fixtures/golden/demo.jsonl:6: tags is 'night'
  fix: a list of words without ";": "tags": ["storage", "night"]
fixtures/golden/demo.jsonl:6: note is 3, not text
fixtures/golden/demo.jsonl:7: not JSON: expecting ',' delimiter at column 12
  fix: write a case as one {"key": "value"} object on a line of its own
fixtures/golden/demo.jsonl:8: a case is a JSON object, not ["f"]
fixtures/golden/demo.jsonl:9: the id 7 is not text
  fix: put it in quotes
fixtures/golden/demo.jsonl:9: inputs is null, not a mapping of names to values
  fix: name each value, as in "inputs": {"name": "..."}
fixtures/golden/demo.jsonl:10: not JSON: expecting property name enclosed in double quotes at column 2\
""")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"id": "b", "inputs": {"x": NaN}}',
            snapshot("""\
fixtures/golden/demo.jsonl:2: NaN is not a JSON number
  fix: write a number, or null for none\
"""),
        ),
        (
            '{"id": "b", "inputs": {"x": -Infinity}}',
            snapshot("""\
fixtures/golden/demo.jsonl:2: -Infinity is not a JSON number
  fix: write a number, or null for none\
"""),
        ),
        (
            '{"id": "b", "inputs": {"x": 1e999}}',
            snapshot("""\
fixtures/golden/demo.jsonl:2: 1e999 is too large a number
  fix: write it as a text\
"""),
        ),
        (
            '{"id": "b", "inputs": {"x": 1}, "inputs": {"x": 2}}',
            snapshot("""\
fixtures/golden/demo.jsonl:2: the key 'inputs' is given twice
  fix: keep one of the two\
"""),
        ),
        (
            '{"id": "b", "inputs": {"x": {"y": 1, "y": 2}}}',
            snapshot("""\
fixtures/golden/demo.jsonl:2: the key 'y' is given twice
  fix: keep one of the two\
"""),
        ),
        (
            '{"id": "b", "inputs": {"x": "\\ud83d"}}',
            snapshot(
                """\
fixtures/golden/demo.jsonl:2: a \\u escape spells half a character (a lone surrogate)
  fix: write the character itself\
"""
            ),
        ),
        (
            '{"id": "b", "inputs": {"x": ' + "9" * 5000 + "}}",
            snapshot("""\
fixtures/golden/demo.jsonl:2: a number has too many digits
  fix: write it as a text\
"""),
        ),
        (
            '{"id": "b", "inputs": ' + '{"x": ' * 100_000,
            snapshot("""\
fixtures/golden/demo.jsonl:2: nested too deeply
  fix: give it as a text\
"""),
        ),
        (
            '{"id": "b", "inputs": {}} trailing',
            snapshot("""\
fixtures/golden/demo.jsonl:2: not JSON: extra data at column 27
  fix: write a case as one {"key": "value"} object on a line of its own\
"""),
        ),
        (
            ">>>>>>> main",
            snapshot("""\
fixtures/golden/demo.jsonl:2: a merge conflict is not resolved
  fix: keep one side, and remove the lines with <<<<<<<, ======= and >>>>>>>\
"""),
        ),
        (
            "nothing like JSON",
            snapshot("""\
fixtures/golden/demo.jsonl:2: not JSON: expecting value at column 1
  fix: write a case as one {"key": "value"} object on a line of its own\
"""),
        ),
    ],
    ids=[
        "NaN",
        "infinity",
        "too-large",
        "duplicate-key",
        "duplicate-inner-key",
        "lone-surrogate",
        "too-many-digits",
        "too-deep",
        "trailing",
        "merge-conflict",
        "prose",
    ],
)
def test_what_json_does_not_have_is_refused(error_of, line, message):
    assert error_of(GOOD + line) == message


@pytest.mark.parametrize(
    ("case_id", "message"),
    [
        (
            "a::b",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id 'a::b' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'a-b'\
"""),
        ),
        (
            "a[1]",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id 'a[1]' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'a-1'\
"""),
        ),
        (
            " a",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id ' a' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'a'\
"""),
        ),
        (
            "a\nb",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id 'a\\nb' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'a-b'\
"""),
        ),
        (
            "",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id '' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200\
"""),
        ),
        (
            "größe 3",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id 'größe 3' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'grosse-3'\
"""),
        ),
        (
            "not",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id 'not' cannot be the id of a test
  fix: pytest -k reads this word as an operator; choose another id\
"""),
        ),
        (
            "-a",
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id '-a' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'a'\
"""),
        ),
        (
            "x" * 201,
            snapshot("""\
fixtures/golden/demo.jsonl:1: the id 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'\
"""),
        ),
    ],
)
def test_an_id_that_pytest_could_not_show_or_select_is_refused(error_of, case_id, message):
    assert error_of(json.dumps({"id": case_id, "inputs": {}})) == message


def test_every_line_that_is_not_utf8_is_named(error_of):
    content = GOOD.encode() + '{"id": "café"}\n'.encode("latin-1") + b"\n\xff\n"
    assert error_of(content) == snapshot("""\
fixtures/golden/demo.jsonl:2: not UTF-8: byte 0xe9 at column 12
  fix: save the file as UTF-8
fixtures/golden/demo.jsonl:4: not UTF-8: byte 0xff at column 1
  fix: save the file as UTF-8\
""")


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_a_dataset_without_cases_is_an_error(error_of, content):
    assert error_of(content) == snapshot("""\
fixtures/golden/demo.jsonl: no cases
  fix: add one, or remove the file\
""")


def test_another_format_under_this_name_is_told_apart(error_of):
    assert error_of('[\n{"id": "a"}\n]') == snapshot("""\
fixtures/golden/demo.jsonl:1: this is a JSON array, not JSON Lines
  fix: write one object per line, without brackets around them and commas between them\
""")
    assert error_of(GOOD.encode("utf-16")) == snapshot("""\
fixtures/golden/demo.jsonl:1: the file is UTF-16, not UTF-8
  fix: save it as UTF-8\
""")


def test_a_file_full_of_errors_does_not_fill_the_screen(error_of):
    lines = error_of("no\n" * 5000).splitlines()
    assert len(lines) == 102
    assert lines[-1] == snapshot("fixtures/golden/demo.jsonl: and 4,900 more errors")


def test_ten_thousand_cases_load_about_as_fast_as_json_is_read(load, fixtures_dir):
    """In processor time of another process, against the same file read twenty times as JSON: a
    busy or slow machine, a debugger and the measuring of coverage do not count."""
    line = json.dumps(
        {"id": "case-N", "inputs": {"name": "x" * 20, "text": "words " * 50}, "expected": {"s": 1}}
    )
    load("\n".join(line.replace("case-N", f"case-{n}") for n in range(10_000)))
    code = (
        "import json, sys, pathlib, time; from regauge.datasets import load_dataset\n"
        "folder = pathlib.Path(sys.argv[1]); path = folder / 'golden' / 'demo.jsonl'\n"
        "start = time.process_time()\n"
        "load_dataset(path, fixtures_dir=folder)\n"
        "took_s = time.process_time() - start\n"
        "lines = path.read_text().splitlines()\n"
        "for _ in range(20): all(map(json.loads, lines))\n"
        "print(took_s / (time.process_time() - start - took_s))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(fixtures_dir)], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) < 1


def test_reading_a_dataset_loads_nothing_heavy(load, fixtures_dir):
    load(GOOD)
    code = (
        "import sys, pathlib; from regauge.datasets import load_dataset;"
        "folder = pathlib.Path(sys.argv[1]);"
        "load_dataset(folder / 'golden' / 'demo.jsonl', fixtures_dir=folder);"
        "print({'pandas', 'pyarrow', 'pydantic', 'numpy'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(fixtures_dir)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"
