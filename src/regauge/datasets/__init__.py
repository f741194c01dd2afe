"""Golden datasets: the cases a prompt is held to, read from files under `fixtures/golden`."""

from __future__ import annotations

from regauge.datasets._case import GoldenCase, Split, Tier, split_of
from regauge.datasets._dataset import Dataset, find_dataset, load_dataset

__all__ = [
    "Dataset",
    "GoldenCase",
    "Split",
    "Tier",
    "find_dataset",
    "load_dataset",
    "split_of",
]
