"""The reference page on golden datasets says what is true."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from regauge.datasets import load_dataset
from regauge.errors import DatasetError

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "fixtures"
PAGE = (ROOT / "docs" / "reference" / "golden-datasets.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


CSV, BAD, ANSWER = blocks("text")
EXAMPLES = [
    *(("jsonl", text) for text in blocks("json")),
    *(("yaml", text) for text in blocks("yaml")),
    ("csv", CSV),
]


@pytest.fixture
def demo(tmp_path):
    """A fixtures folder with real reports in it."""
    folder = tmp_path / "fixtures"
    (folder / "golden").mkdir(parents=True)
    shutil.copytree(FIXTURES / "sources" / "incidents", folder / "sources" / "incidents")
    return folder


@pytest.mark.parametrize(("suffix", "text"), EXAMPLES)
def test_the_examples_of_every_format_load(suffix, text, tmp_path):
    path = tmp_path / f"demo.{suffix}"
    path.write_text(text, encoding="utf-8")
    assert len(load_dataset(path, fixtures_dir=FIXTURES)) >= 1


def test_the_bad_example_is_answered_as_shown(demo):
    path = demo / "golden" / "demo.jsonl"
    path.write_text(BAD, encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        load_dataset(path, fixtures_dir=demo)
    assert str(caught.value) + "\n" == ANSWER


@pytest.mark.parametrize("code", blocks("python"), ids=["split", "load"])
def test_the_code_runs(code, monkeypatch):
    monkeypatch.chdir(ROOT)
    exec(compile(code, "golden-datasets.md", "exec"), {})


def test_the_numbers_in_the_page_are_those_of_the_files():
    for name in ("alert-severity", "alert-runbook", "incident-summary"):
        dataset = load_dataset(FIXTURES / "golden" / f"{name}.jsonl", fixtures_dir=FIXTURES)
        assert f"| `{name}` | {len(dataset)} |" in PAGE
    tags = Counter(tag for case in dataset for tag in case.tags)
    assert tags == {"repair-time-not-a-difference": 11, "no-repair-time": 3, "no-impact": 1}
    assert "in 11 reports" in PAGE
    assert "three have no time to repair, one has no impact" in PAGE
