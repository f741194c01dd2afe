"""Golden datasets: the test cases of prompts, read from files under `fixtures/golden`."""

from __future__ import annotations

from regauge.datasets._case import (
    CaseKeys as CaseKeys,
    GoldenCase as GoldenCase,
    Record as Record,
    Source as Source,
    Split as Split,
    Tier as Tier,
    split_of as split_of,
)
from regauge.datasets._dataset import (
    SHARDS_MAX as SHARDS_MAX,
    Dataset as Dataset,
    Shard as Shard,
    assign_by_time as assign_by_time,
    case_ids as case_ids,
    dataset_files as dataset_files,
    find_dataset as find_dataset,
    load_dataset as load_dataset,
    nested_datasets as nested_datasets,
    shard_of as shard_of,
)
from regauge.datasets._formats import read_jsonl as read_jsonl
from regauge.datasets._script import (
    Script as Script,
    Turn as Turn,
    error_content as error_content,
)
