"""Whatever a file holds, reading it ends in a dataset or in a DatasetError."""

from __future__ import annotations

import contextlib
import io
import os

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from regauge.errors import DatasetError
from tests import processes

KEYS = ["id", "inputs", "expected", "tags", "tier", "split", "source", "licence", "note", "other"]
PIECES = st.sampled_from(
    [
        *KEYS,
        *'{}[]:,"\n\r\t -&*!|>%@`#\\0aé',
        "inputs.x",
        ": ",
        "- ",
        "NaN",
        "\\ud800",
        "<<",
        "\ufeff",
    ]
)
in_any_format = pytest.mark.parametrize("suffix", ["jsonl", "yaml", "csv", "parquet"])
often = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_any_format
@given(st.lists(PIECES, max_size=40).map("".join))
@often
def test_text_made_of_the_right_pieces(load, suffix, text):
    with contextlib.suppress(DatasetError):
        load(text, f"demo.{suffix}")


@in_any_format
@given(st.binary(max_size=60))
@example(b"PAR1" + b"\0" * 20 + b"PAR1")
@example(b"- ? [a]\n  : b\n")
@example(b"- ? {a: b}\n  : c\n  id: x\n")
@example(b"- <<: 5\n  id: x\n")
@example(b"- id: !!int x\n  inputs: {a: !!bool maybe, b: !!float y, c: !!null z}\n")
@often
def test_any_bytes(load, suffix, data):
    with contextlib.suppress(DatasetError):
        load(data, f"demo.{suffix}")


@pytest.mark.parametrize("cut", [5, 50, 400])
def test_a_parquet_file_cut_short(load, cut):
    data = io.BytesIO()
    pd.DataFrame({"id": ["a"], "inputs.x": ["b"]}).to_parquet(data)
    with pytest.raises(DatasetError):
        load(data.getvalue()[:-cut], "demo.parquet")


IDS = ["a", "2020-02-12", "a/b", "a.b", "a+b", "_x", "A_b-9", "x" * 200]


def test_pytest_shows_and_selects_every_id_that_is_allowed(load, tmp_path):
    load("\n".join(f'{{"id": "{case_id}", "inputs": {{}}}}' for case_id in IDS))
    (tmp_path / "test_ids.py").write_text(
        f"import pytest\n@pytest.mark.parametrize('case', {IDS}, ids={IDS})\n"
        "def test_case(case): pass\n",
        encoding="utf-8",
    )
    # Of no matter here, and each of them takes its time to start.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for case_id in IDS:
        chosen = ["-k", f"test_case and {case_id}", "test_ids.py"]
        words = ["-p", "no:cacheprovider", "-q", "--collect-only", *chosen]
        found = processes.run("pytest", *words, cwd=tmp_path, env=env)
        assert found.returncode == 0
        assert f"test_ids.py::test_case[{case_id}]" in found.stdout.splitlines()
