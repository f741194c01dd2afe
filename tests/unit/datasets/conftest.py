"""A fixtures folder to put datasets in, and what a bad one says."""

from __future__ import annotations

import pytest

from regauge.datasets import load_dataset
from regauge.errors import DatasetError


@pytest.fixture
def fixtures_dir(tmp_path):
    folder = tmp_path / "fixtures"
    (folder / "golden").mkdir(parents=True)
    return folder


@pytest.fixture
def load(fixtures_dir):
    """Write a dataset and read it."""

    def write_and_load(content, name="demo.jsonl", **options):
        path = fixtures_dir / "golden" / name
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(data)
        return load_dataset(path, fixtures_dir=fixtures_dir, **options)

    return write_and_load


@pytest.fixture
def error_of(load):
    """Write a bad dataset and say what is wrong with it."""

    def message(content, name="demo.jsonl"):
        with pytest.raises(DatasetError) as caught:
            load(content, name)
        return str(caught.value)

    return message
