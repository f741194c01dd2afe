from __future__ import annotations

import csv
import html
import io
import json
import re
from typing import Any

import pandas as pd
from hypothesis import given, strategies as st

from regauge.markdown import escape_markdown
from regauge.reports import rows_of, write_csv, write_parquet
from regauge.reports._runs import _spreadsheet_safe

HOSTILE = st.text(
    st.one_of(st.sampled_from("|<>@#`*_[]()!&:\n\r\t=+-~$\\{}w./ 1"), st.characters()), max_size=40
)


@given(HOSTILE)
def test_escaped_text_holds_nothing_that_markdown_or_html_reads(text: str):
    escaped = escape_markdown(text)
    left = re.sub(r"&#\d+;", "", escaped)
    assert not set(left) & set("|<>@#`*_[]&\n\r\t~$\\")
    assert "://" not in left
    assert "www." not in left.lower()
    # What is said is still there.
    shown = re.sub(r"&#(\d+);", lambda match: chr(int(match[1])), escaped).replace("\u200b", "")
    assert shown == " ".join(text.split()).replace("\u200b", "")


@given(HOSTILE)
def test_no_cell_is_taken_for_a_formula(text: str):
    cell = str(_spreadsheet_safe(text))
    assert cell[:1] not in {"=", "+", "-", "@", "\t", "\r"} or cell == ""
    assert cell.removeprefix("'") == text.removeprefix("'")


@given(
    st.text("\n\r\t \x00\xa0\xad\u034f\u200b\u200e\u2060\u3000\u3164\ufe0f\ufeff", max_size=4),
    st.sampled_from("=+-@＝＋－＠﹦﹢﹣﹫−"),  # noqa: RUF001 - other forms of these signs
)
def test_a_sign_behind_unseen_characters_is_no_formula(unseen: str, sign: str):
    cell = f"{unseen}{sign}1+cmd"
    assert _spreadsheet_safe(cell) == f"'{cell}"


# As GitHub documents autolinked references: issues, pull requests, commits; then mentions, URLs.
_REFERENCE = re.compile(r"\bGH-\d|#\d|@\w|\b[0-9a-f]{7,40}\b|://|www\.", re.IGNORECASE | re.ASCII)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["GH-77", "gh-1", "#12", "o/r#1", "@me", "a@b.c", "http://a.b", "www.a.b"]
            ),
            st.text("0123456789abcdefABCDEF", min_size=5, max_size=45),
            st.text(" (),.:;/_-'x", min_size=1, max_size=3),
        ),
        max_size=8,
    ).map("".join)
)
def test_nothing_becomes_a_reference(text: str):
    read = html.unescape(escape_markdown(text))
    assert not _REFERENCE.search(read)
    assert read.replace("\u200b", "") == " ".join(text.split())


def test_a_table_has_a_line_per_trial_and_columns_per_judge(made: Any, tmp_path: Any):
    rows = [
        row
        for outcome in ("passed", "unmeasured")
        for row in rows_of(made.result([made.trial(0, outcome)]))
    ]
    write_csv(lambda: rows, tmp_path / "t.csv")
    read = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text(encoding="utf-8"))))
    assert [line["outcome"] for line in read] == ["passed", "unmeasured"]
    assert [line["outcome.severity"] for line in read] == ["pass", ""]
    assert read[1]["score.severity"] == ""
    assert read[0]["tags"] == "disk"
    assert read[0]["reason.severity"] == "it is\nas it is"


def test_a_parquet_file_has_the_values_of_the_table(made: Any, tmp_path: Any):
    [row] = rows_of(made.result([made.trial(0)]))
    [unmeasured] = rows_of(made.result([made.trial(0, "unmeasured")]))
    asking = {**row["verdicts"][0], "judge": "asks", "status_reason": "calibrated", "calls": 3}
    rows = [
        unmeasured,
        *({**row, "case": str(number), "trial": number} for number in range(6000)),
        {**row, "verdicts": [asking], "latency_s": 2, "input_tokens": 2**63},
        {**row, "messages": [{"role": "tool", "content": ["a", {"b": 1}]}]},
    ]
    write_parquet(lambda: rows, tmp_path / "t.parquet")
    read = pd.read_parquet(tmp_path / "t.parquet")
    write_csv(lambda: rows, tmp_path / "t.csv")
    table = pd.read_csv(tmp_path / "t.csv", dtype={"case": str}, low_memory=False)
    assert list(read.columns) == list(table.columns)
    for name in ("case", "trial", "outcome", "score.severity", "calls.asks", "latency_s"):
        assert read[name].isna().equals(table[name].isna())
        assert read[name].dropna().tolist() == table[name].dropna().tolist()
    assert read["input_tokens"][6001] == 2.0**63
    assert json.loads(read["messages"][6002]) == rows[-1]["messages"]
