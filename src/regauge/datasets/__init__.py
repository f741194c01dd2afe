"""Golden datasets: the cases a prompt is held to, read from files under `fixtures/golden`."""

from __future__ import annotations

from regauge.datasets._case import GoldenCase, Record, Source, Split, Tier, split_of
from regauge.datasets._dataset import Dataset, case_ids, dataset_files, find_dataset, load_dataset
from regauge.datasets._formats import read_jsonl
from regauge.datasets._script import Script, ToolResults, Turn, error_content, result_content
from regauge.datasets._shard import SHARDS_MAX, Shard, ShardBy, deal_by_time, shard_of

__all__ = [
    "SHARDS_MAX",
    "Dataset",
    "GoldenCase",
    "Record",
    "Script",
    "Shard",
    "ShardBy",
    "Source",
    "Split",
    "Tier",
    "ToolResults",
    "Turn",
    "case_ids",
    "dataset_files",
    "deal_by_time",
    "error_content",
    "find_dataset",
    "load_dataset",
    "read_jsonl",
    "result_content",
    "shard_of",
    "split_of",
]
