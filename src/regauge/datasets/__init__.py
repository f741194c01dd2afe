"""Golden datasets: the cases a prompt is held to, read from files under `fixtures/golden`."""

from __future__ import annotations

from regauge.datasets._case import GoldenCase, Record, Source, Split, Tier, split_of
from regauge.datasets._dataset import Dataset, dataset_files, find_dataset, load_dataset
from regauge.datasets._formats import read_jsonl

__all__ = [
    "Dataset",
    "GoldenCase",
    "Record",
    "Source",
    "Split",
    "Tier",
    "dataset_files",
    "find_dataset",
    "load_dataset",
    "read_jsonl",
    "split_of",
]
