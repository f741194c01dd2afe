"""Where a dataset is found by its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from regauge.datasets import Dataset, find_dataset, load_dataset
from regauge.errors import DatasetError


@pytest.fixture
def error_of_name(fixtures_dir):
    def message(name):
        with pytest.raises(DatasetError) as caught:
            find_dataset(name, fixtures_dir=fixtures_dir)
        return str(caught.value)

    return message


@pytest.mark.parametrize("suffix", ["jsonl", "yaml", "yml", "csv", "parquet"])
def test_a_dataset_is_found_in_every_format(fixtures_dir, suffix):
    path = fixtures_dir / "golden" / f"demo.{suffix}"
    path.touch()
    (fixtures_dir / "golden" / "demo.txt").touch()
    assert find_dataset("demo", fixtures_dir=fixtures_dir) == path


def test_an_unknown_name_is_answered_with_the_nearest(fixtures_dir, error_of_name):
    for name in ("alert-severity.jsonl", "incident-summary.yaml"):
        (fixtures_dir / "golden" / name).touch()
    assert error_of_name("alert-severty") == snapshot("""\
fixtures/golden: no dataset is called 'alert-severty'
  fix: did you mean 'alert-severity'?\
""")
    assert error_of_name("weather") == snapshot("""\
fixtures/golden: no dataset is called 'weather'
  fix: write fixtures/golden/weather.jsonl, or use one of: alert-severity, incident-summary\
""")
    assert error_of_name("../golden/alert-severity").startswith("fixtures/golden: no dataset")
    (fixtures_dir / "golden/team").mkdir()
    (fixtures_dir / "golden/team/routing.yaml").touch()
    nested = "golden/team/routing.yaml is in a subdirectory"
    fix = "move it to fixtures/golden, and write dataset='routing'"
    for name in ("routing", "team/routing"):
        message = f"fixtures/golden: no dataset is called {name!r}: {nested}\n  fix: {fix}"
        assert error_of_name(name) == message


def test_without_any_dataset_the_error_says_what_to_write(fixtures_dir, error_of_name):
    assert error_of_name("demo") == snapshot("""\
fixtures/golden: no dataset is called 'demo'
  fix: write fixtures/golden/demo.jsonl\
""")
    (fixtures_dir / "golden/demo.xlsx").touch()
    (fixtures_dir / "golden/demo.v2.tsv").touch()
    assert error_of_name("demo") == snapshot("""\
fixtures/golden: demo.xlsx is in no format of datasets
  fix: save it as one of demo.jsonl, demo.yaml, demo.yml, demo.csv, demo.parquet\
""")
    for path in (fixtures_dir / "golden").iterdir():
        path.unlink()
    (fixtures_dir / "golden").rmdir()
    assert error_of_name("demo") == snapshot("""\
fixtures/golden: no dataset is called 'demo'
  fix: write fixtures/golden/demo.jsonl\
""")


def test_two_files_of_one_name_are_an_error(fixtures_dir, error_of_name):
    for name in ("demo.jsonl", "demo.csv"):
        (fixtures_dir / "golden" / name).touch()
    assert error_of_name("demo") == snapshot("""\
fixtures/golden: two datasets are called 'demo': demo.csv, demo.jsonl
  fix: keep one of them, or rename one\
""")


def test_a_file_that_is_no_dataset_is_an_error(fixtures_dir):
    def message(path):
        with pytest.raises(DatasetError) as caught:
            load_dataset(path, fixtures_dir=fixtures_dir)
        return str(caught.value)

    golden = fixtures_dir / "golden"
    (golden / "folder.jsonl").mkdir()
    assert message(golden / "gone.jsonl") == snapshot(
        "fixtures/golden/gone.jsonl: cannot be read: no such file or directory"
    )
    assert find_dataset("folder", fixtures_dir=fixtures_dir) == golden / "folder.jsonl"
    assert message(golden / "folder.jsonl") == snapshot("""\
fixtures/golden/folder.jsonl: there is a directory at the path of this file
  fix: move it away, and put the file back (git checkout, if it was committed)\
""")
    assert message(golden / "demo.txt") == snapshot("""\
fixtures/golden/demo.txt: .txt is not a dataset format
  fix: .jsonl, .yaml, .yml, .csv, .parquet\
""")
    assert message(golden / "demo") == snapshot("""\
fixtures/golden/demo: a file without suffix is not a dataset format
  fix: .jsonl, .yaml, .yml, .csv, .parquet\
""")


def test_a_dataset_outside_the_project_is_shown_by_its_whole_path(tmp_path, fixtures_dir):
    path = tmp_path / "elsewhere.jsonl"
    path.write_text('{"id": "a", "inputs": {}}\n', encoding="utf-8")
    assert load_dataset(path, fixtures_dir=fixtures_dir).cases[0].location == "elsewhere.jsonl:1"
    far = tmp_path / "far"
    assert load_dataset(path, fixtures_dir=far / "fixtures").cases[0].location == f"{path}:1"


def test_a_dataset_is_a_collection_of_its_cases(load):
    dataset = load('{"id": "a", "inputs": {}}\n{"id": "b", "inputs": {}, "split": "holdout"}\n')
    assert isinstance(dataset, Dataset)
    assert (dataset.name, dataset.path.name, len(dataset)) == ("demo", "demo.jsonl", 2)
    assert [case.id for case in dataset] == ["a", "b"]
    assert "a" in dataset
    assert "c" not in dataset
    assert dataset.get("c") is None
    assert dataset.get("c", dataset.cases[0]) is dataset.cases[0]


def test_holdout_and_salt_reach_the_cases_without_a_split_of_their_own(load):
    content = '{"id": "a", "inputs": {}}\n{"id": "b", "inputs": {}, "split": "train"}\n'
    assert [case.split for case in load(content, holdout=1)] == ["holdout", "train"]
    assert [case.split for case in load(content, holdout=0)] == ["train", "train"]


def test_the_paths_of_a_relative_fixtures_folder_stay_relative(fixtures_dir, monkeypatch):
    monkeypatch.chdir(fixtures_dir.parent)
    path = Path("fixtures/golden/demo.jsonl")
    path.write_text('{"id": "a", "inputs": {}}\n', encoding="utf-8")
    dataset = load_dataset(path, fixtures_dir=Path("fixtures"))
    assert dataset.cases[0].location == "fixtures/golden/demo.jsonl:1"
