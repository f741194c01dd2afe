"""CSV and parquet datasets."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from inline_snapshot import snapshot

from regauge.datasets import load_dataset
from regauge.errors import DatasetError

# A carriage return alone ends a line for the csv module; NUL ends the file for many programs.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1, max_size=30)


@pytest.fixture
def load_frame(fixtures_dir):
    """Write a frame as parquet and read it as a dataset."""

    def write_and_load(frame):
        path = fixtures_dir / "golden" / "demo.parquet"
        frame.to_parquet(path)
        return load_dataset(path, fixtures_dir=fixtures_dir)

    return write_and_load


def test_columns_of_a_csv_become_inputs_and_expected(load, fixtures_dir):
    (fixtures_dir / "long.md").write_text("long\n", encoding="utf-8")
    dataset = load(
        "id,inputs.name,inputs.text,expected.label,expected.n,tags,tier,split,source,licence\n"
        'a,5,"one\n""two""\n",warning,3,night; storage,tracked,holdout,me,MIT\n'
        "\n"
        'b,,"{""file"": ""long.md""}",,,,,,,\n',
        "demo.csv",
    )
    first, second = dataset
    assert first.inputs == {"name": "5", "text": 'one\n"two"\n'}
    assert first.expected == {"label": "warning", "n": 3}
    assert (first.tags, first.tier, first.split) == (("night", "storage"), "tracked", "holdout")
    assert (first.source, first.licence) == ("me", "MIT")
    assert second.inputs == {"name": "", "text": "long\n"}
    assert second.expected is None
    assert [first.location, second.location] == [
        "fixtures/golden/demo.csv:2",
        "fixtures/golden/demo.csv:6",
    ]


def test_an_expected_cell_is_json_where_it_parses_and_text_elsewhere(load):
    cells = ["warning", '"5"', "5", "null", '{"a": [1]}', '"{text"', "NaN"]
    rows = io.StringIO()
    csv.writer(rows).writerows([["id", "expected"], *([f"c{n}", c] for n, c in enumerate(cells))])
    found = [case.expected for case in load(rows.getvalue(), "demo.csv")]
    assert found == ["warning", "5", 5, None, {"a": [1]}, "{text", "NaN"]


@pytest.mark.parametrize("cell", ['{"a": 1', "[1, 2", " {a: 1}", "{'a': 1}", "[draft] text"])
@pytest.mark.parametrize("column", ["expected", "expected.x", "checks"])
def test_a_cell_that_starts_as_json_and_is_none_is_refused(load, column: str, cell: str):
    rows = io.StringIO()
    csv.writer(rows).writerows([["id", column], ["a", cell]])
    with pytest.raises(DatasetError) as refused:
        load(rows.getvalue(), "demo.csv")
    assert f"demo.csv:2: {column}: not JSON: " in str(refused.value)
    assert f"if it is text, write {json.dumps(cell)}" in str(refused.value)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_csv_cell_is_read_as_it_was_written(load, pairs):
    rows = io.StringIO()
    writer = csv.writer(rows)
    writer.writerow(["id", "inputs.one", "inputs.two"])
    writer.writerows([f"c{n}", one, two] for n, (one, two) in enumerate(pairs))
    dataset = load(rows.getvalue(), "demo.csv")
    assert [tuple(case.inputs.values()) for case in dataset] == pairs


def test_errors_of_a_csv_name_the_line_a_row_starts_on(error_of):
    content = (
        "id,inputs.text,tier,split\r\n"
        'a,"one\r\ntwo",required,\r\n'
        'a,"three\r\n\r\nfour",required,\r\n'
        ",x,,\r\n"
        "b,x\r\n"
        "c d,x,urgent,test\r\n"
    )
    assert error_of(content, "demo.csv") == snapshot("""\
fixtures/golden/demo.csv:4: the id 'a' is taken: line 2 has it too
  fix: every case needs an id of its own
fixtures/golden/demo.csv:7: a case without an id
  fix: give it one: "id": "a-unique-name"
fixtures/golden/demo.csv:8: 2 cells where the header has 4 columns
  fix: put cells with commas or line ends in quotes
fixtures/golden/demo.csv:9: the id 'c d' cannot be the id of a test
  fix: a-z, A-Z, 0-9 and _ . + / - only, at most 200, such as 'c-d'
fixtures/golden/demo.csv:9: no such tier: 'urgent'
  fix: one of critical, required, tracked
fixtures/golden/demo.csv:9: no such split: 'test'
  fix: one of train, holdout\
""")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "id;inputs.x\na;b\n",
            snapshot("""\
fixtures/golden/demo.csv:1: the columns are separated by ';', not by commas
  fix: save the table with commas between the columns\
"""),
        ),
        (
            "id\tinputs.x\na\tb\n",
            snapshot("""\
fixtures/golden/demo.csv:1: the columns are separated by '\\t', not by commas
  fix: save the table with commas between the columns\
"""),
        ),
        (
            "name,inputs.x\na,b\n",
            snapshot("""\
fixtures/golden/demo.csv:1: unknown column 'name'
  fix: call a column of inputs 'inputs.name'; known columns: id, inputs.<name>, expected, tags, tier, split, source, licence, note, checks, pass_at, turns, persona, max_turns, tools, max_steps
fixtures/golden/demo.csv:1: there is no column `id`
  fix: columns found: name, inputs.x\
"""),
        ),
        (
            "id,inputs.x,inputs.x,label\na,b,c,d\n",
            snapshot("""\
fixtures/golden/demo.csv:1: the column 'inputs.x' is given twice
fixtures/golden/demo.csv:1: unknown column 'label'
  fix: call a column of inputs 'inputs.label'; known columns: id, inputs.<name>, expected, tags, tier, split, source, licence, note, checks, pass_at, turns, persona, max_turns, tools, max_steps\
"""),
        ),
        (
            "id,inputs.,inputs,input.x,expected,expected.y\na,1,2,2,3,4\n",
            snapshot("""\
fixtures/golden/demo.csv:1: the column 'inputs.' names nothing
  fix: one column `inputs.<name>` for each input, `expected.<key>` for each key
fixtures/golden/demo.csv:1: the column 'inputs' names no input
  fix: one column `inputs.<name>` for each input, `expected.<key>` for each key
fixtures/golden/demo.csv:1: unknown column 'input.x'
  fix: did you mean 'inputs.<name>'?
fixtures/golden/demo.csv:1: both `expected` and `expected.<key>` columns
  fix: keep one of the two\
"""),
        ),
        (
            'id,inputs.x\na,"open\n',
            snapshot("""\
fixtures/golden/demo.csv:2: not CSV: unexpected end of data
  fix: double the quotes inside a quoted cell\
"""),
        ),
        (
            'id,inputs.x\na,"b"c\n',
            snapshot("""\
fixtures/golden/demo.csv:2: not CSV: ',' expected after '"'
  fix: double the quotes inside a quoted cell\
"""),
        ),
        (
            "id,inputs.x\n",
            snapshot("""\
fixtures/golden/demo.csv: no cases
  fix: add one, or remove the file\
"""),
        ),
        (
            "",
            snapshot("""\
fixtures/golden/demo.csv: no cases
  fix: add one, or remove the file\
"""),
        ),
        (
            b"id,inputs.x\na,b\0c\n",
            snapshot("""\
fixtures/golden/demo.csv:2: a NUL character in a table
  fix: remove it, or save the table as CSV\
"""),
        ),
        (
            b"id,inputs.x\na,caf\xe9\n",
            snapshot("""\
fixtures/golden/demo.csv:2: not UTF-8: byte 0xe9 at column 6
  fix: save the file as UTF-8\
"""),
        ),
    ],
    ids=[
        "semicolons",
        "tabs",
        "no-id",
        "column-twice",
        "wrong-columns",
        "open-quote",
        "text-after-quote",
        "only-a-header",
        "empty",
        "nul",
        "latin-1",
    ],
)
def test_a_csv_that_is_no_dataset_says_why(error_of, content, message):
    assert error_of(content, "demo.csv") == message


def test_a_long_document_fits_into_a_cell_and_the_limit_of_the_csv_module_is_put_back(load):
    before = csv.field_size_limit()
    text = "x" * 300_000
    assert load(f"id,inputs.x\na,{text}\n", "demo.csv").cases[0].inputs == {"x": text}
    assert csv.field_size_limit() == before


def test_a_parquet_file_keeps_its_types(load_frame, fixtures_dir):
    (fixtures_dir / "long.md").write_text("long\n", encoding="utf-8")
    frame = pd.DataFrame(
        {
            "id": ["a", "b"],
            "inputs.n": pd.array([1, None], dtype="Int64"),
            "inputs.doc": [{"file": "long.md"}, None],
            "expected.label": ["5", None],
            "expected.list": [[1, 2], None],
            "tags": [["x"], None],
        }
    )
    first, second = load_frame(frame)
    assert first.inputs == {"n": 1, "doc": "long\n"}
    assert first.expected == {"label": "5", "list": [1, 2]}
    assert first.tags == ("x",)
    assert (second.inputs, second.expected, second.tags) == ({}, None, ())
    assert second.location == "fixtures/golden/demo.parquet:2"


def test_columns_of_json_flags_and_tensors_are_read_as_their_values(tmp_path):
    """pyarrow keeps the values of such types in an array of another type."""
    documents = pa.array(['{"x": 1}', None])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4]), 2)
    stored = {
        "expected": (pa.json_(pa.utf8()), documents),
        "inputs.ok": (pa.bool8(), pa.array([1, 0], pa.int8())),
        "inputs.vector": (pa.fixed_shape_tensor(pa.int64(), [2]), vectors),
    }
    columns = {
        name: pa.ExtensionArray.from_storage(kind, array) for name, (kind, array) in stored.items()
    }
    path = tmp_path / "demo.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], **columns}), path)
    first, second = load_dataset(path, fixtures_dir=tmp_path)
    assert (first.expected, first.inputs) == ({"x": 1}, {"ok": True, "vector": [1, 2]})
    assert (second.expected, second.inputs) == (None, {"ok": False, "vector": [3, 4]})


def test_a_parquet_file_may_have_its_ids_in_the_index(load_frame):
    frame = pd.DataFrame({"id": ["a"], "expected": ['{"x": 1}'], "tags": ["p;q"]}).set_index("id")
    case = load_frame(frame).cases[0]
    assert (case.id, case.expected, case.tags) == ("a", {"x": 1}, ("p", "q"))


def test_errors_of_a_parquet_file_name_the_row(load_frame):
    frame = pd.DataFrame(
        {
            "id": ["a", "a", None, "b"],
            "inputs.share": [0.5, float("nan"), 1.0, float("inf")],
            "inputs.when": [dt.datetime(2024, 1, 2, tzinfo=dt.UTC)] * 4,
            "inputs.price": [decimal.Decimal("1.5"), None, None, None],
            "inputs.raw": [b"x", None, None, None],
            "tier": ["required", "required", "required", "minor"],
        }
    )
    with pytest.raises(DatasetError) as caught:
        load_frame(frame)
    assert str(caught.value) == snapshot("""\
fixtures/golden/demo.parquet:1: inputs.when is a Timestamp, which JSON does not have
  fix: store it as text
fixtures/golden/demo.parquet:1: inputs.price is a Decimal, which JSON does not have
  fix: store it as text
fixtures/golden/demo.parquet:1: inputs.raw is of type bytes, which JSON does not have
fixtures/golden/demo.parquet:2: inputs.when is a Timestamp, which JSON does not have
  fix: store it as text
fixtures/golden/demo.parquet:2: the id 'a' is taken: row 1 has it too
  fix: every case needs an id of its own
fixtures/golden/demo.parquet:3: inputs.when is a Timestamp, which JSON does not have
  fix: store it as text
fixtures/golden/demo.parquet:3: a case without an id
  fix: give it one: "id": "a-unique-name"
fixtures/golden/demo.parquet:4: inputs.share is inf, which is not a JSON number
fixtures/golden/demo.parquet:4: inputs.when is a Timestamp, which JSON does not have
  fix: store it as text
fixtures/golden/demo.parquet:4: no such tier: 'minor'
  fix: one of critical, required, tracked\
""")


def test_a_file_that_is_not_parquet_says_so(error_of):
    assert error_of("id,inputs.x\na,b\n", "demo.parquet") == snapshot(
        """\
fixtures/golden/demo.parquet: not a parquet file, or a damaged one
  fix: write it again\
"""
    )
    assert error_of("", "demo.parquet") == snapshot(
        """\
fixtures/golden/demo.parquet: not a parquet file, or a damaged one
  fix: write it again\
"""
    )


def test_a_parquet_file_without_ids_says_so(load_frame):
    with pytest.raises(DatasetError) as caught:
        load_frame(pd.DataFrame({"name": ["a"], "inputs.x": ["b"]}))
    assert str(caught.value) == snapshot("""\
fixtures/golden/demo.parquet: unknown column 'name'
  fix: call a column of inputs 'inputs.name'; known columns: id, inputs.<name>, expected, tags, tier, split, source, licence, note, checks, pass_at, turns, persona, max_turns, tools, max_steps
fixtures/golden/demo.parquet: there is no column `id`
  fix: columns found: name, inputs.x\
""")


_LONG = "x" * 8192
_MANY = 200_000
_LOADS_IN_LITTLE_MEMORY = """\
import resource, sys
from pathlib import Path
import pandas, pyarrow.parquet
from regauge.datasets import load_dataset
from regauge.errors import DatasetError

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
for path in sorted(Path(sys.argv[1]).glob("*.parquet")):
    try:
        print(path.stem, "has", len(load_dataset(path, fixtures_dir=path.parent)))
    except DatasetError as error:
        print(path.stem, "is refused" if "more than 512 MiB" in str(error) else error)
"""


def test_a_small_file_that_needs_much_memory_is_refused_before_it_takes_it(tmp_path):
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(_MANY, "int32")), pa.array([_LONG]))
    ids = pa.array([f"case-{number}" for number in range(_MANY)])
    one, ends = pa.array(["a"]), pa.array([0, _MANY], pa.int32())
    nothing = pa.nulls(70_000_000)
    tables = {
        "categories": (ids, same),
        "structs": (ids, pa.StructArray.from_arrays([same], ["text"])),
        "list": (one, pa.ListArray.from_arrays(ends, same)),
        "map": (one, pa.MapArray.from_arrays(ends, ids, same)),
        "nulls": (one, pa.ListArray.from_arrays(pa.array([0, len(nothing)], pa.int32()), nothing)),
    }
    for name, (ids_of_rows, texts) in tables.items():
        table = pa.table({"id": ids_of_rows, "inputs.x": texts})
        pq.write_table(table, tmp_path / f"{name}.parquet", compression="zstd")
    delta = {"use_dictionary": False, "compression": "snappy"}
    encodings = {"id": "PLAIN", "inputs.x": "DELTA_BYTE_ARRAY"}
    texts = pa.array([_LONG] * 7_000)
    for name, options in {
        "texts": {"compression": "zstd"},
        "shared beginnings": {**delta, "column_encoding": encodings},
    }.items():
        # Part by part, for all of it takes long to hold.
        with pq.ParquetWriter(
            tmp_path / f"{name}.parquet",
            pa.schema({"id": pa.string(), "inputs.x": pa.string()}),
            **options,
        ) as writer:
            for start in range(0, 70_000, len(texts)):
                rows = ids[start : start + len(texts)]
                writer.write_table(pa.table({"id": rows, "inputs.x": texts}))
    many, ends = same[:70_000].dictionary_decode(), pa.array([0, 70_000], pa.int32())
    encodings = {"id": "PLAIN", "inputs.x.list.element": "DELTA_BYTE_ARRAY"}
    pq.write_table(
        pa.table({"id": one, "inputs.x": pa.ListArray.from_arrays(ends, many)}),
        tmp_path / "shared beginnings in a list.parquet",
        **delta,
        column_encoding=encodings,
    )
    few = pa.table({"id": ids[:1000], "inputs.x": same[:1000], "tags": [["a", "b"]] * 1000})
    pq.write_table(few, tmp_path / "usual.parquet")
    paths = sorted(tmp_path.glob("*.parquet"))
    assert all(path.stat().st_size < 1_000_000 for path in paths)

    program = [sys.executable, "-c", _LOADS_IN_LITTLE_MEMORY, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines() == [
        f"{path.stem} {'has 1000' if path.stem == 'usual' else 'is refused'}" for path in paths
    ], done.stderr


def test_a_small_file_of_many_rows_is_refused(tmp_path):
    path = tmp_path / "fixtures" / "golden" / "demo.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array(np.zeros(1_000_001, dtype="int8"))}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(DatasetError, match="1,000,001 rows, and a dataset has at most"):
        load_dataset(path, fixtures_dir=tmp_path / "fixtures")


def test_a_pipe_or_a_device_in_place_of_a_file_is_refused(tmp_path):
    golden = tmp_path / "fixtures" / "golden"
    golden.mkdir(parents=True)
    os.mkfifo(golden / "demo.jsonl")
    (golden / "other.jsonl").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fixtures" / "long")
    (golden / "text.jsonl").write_text('{"id": "a", "inputs": {"x": {"file": "long"}}}')
    for name, words in (("demo", "named pipe"), ("other", "device"), ("text", "named pipe")):
        with pytest.raises(DatasetError, match=f"it is a {words}, not a file"):
            load_dataset(golden / f"{name}.jsonl", fixtures_dir=tmp_path / "fixtures")
