"""The reference page on golden datasets says what is true."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from regauge.datasets import load_dataset

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "fixtures"
PAGE = (ROOT / "docs" / "reference" / "golden-datasets.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


[CSV] = blocks("text")
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
def test_the_examples_of_every_format_load(suffix, text, demo):
    (demo / "shots").mkdir()
    (demo / "shots" / "login.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    path = demo / f"demo.{suffix}"
    path.write_text(text, encoding="utf-8")
    assert len(load_dataset(path, fixtures_dir=demo)) >= 1


@pytest.mark.parametrize("code", blocks("python"), ids=["split", "load"])
def test_the_code_runs(code, monkeypatch):
    monkeypatch.chdir(ROOT)
    exec(compile(code, "golden-datasets.md", "exec"), {})
