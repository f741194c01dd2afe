"""Golden datasets: the cases a prompt is held to, read from files under `fixtures/golden`."""

from __future__ import annotations

from regauge.datasets._case import GoldenCase, Record, Source, Split, Tier, split_of
from regauge.datasets._dataset import Dataset, dataset_files, find_dataset, load_dataset
from regauge.datasets._formats import read_jsonl
from regauge.datasets._script import Script, ToolResults, Turn, error_content, result_content

__all__ = [
    "Dataset",
    "GoldenCase",
    "Record",
    "Script",
    "Source",
    "Split",
    "Tier",
    "ToolResults",
    "Turn",
    "dataset_files",
    "error_content",
    "find_dataset",
    "load_dataset",
    "read_jsonl",
    "result_content",
    "split_of",
]
