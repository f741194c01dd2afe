"""Cases in the prompt file itself, as the base has them, dealt to shards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.datasets import Dataset, Shard
from regauge.gate._base import _dataset_before
from regauge.prompts import parse_prompt

TEXT = "version: 1.0.0\ntestData:\n" + "".join(f"  - text: disk {number}\n" for number in range(9))
PROMPT = parse_prompt(
    TEXT + "messages:\n  - role: user\n    content: '{{text}}'\n", path=Path("greet.prompt.yml")
)


def dataset_of(shard: Shard | None) -> Dataset | None:
    dataset = Dataset(name="greet", path=PROMPT.path, cases=(), shard=shard)
    suite: Any = SimpleNamespace(dataset=dataset, prompt=PROMPT)
    return _dataset_before(suite, SimpleNamespace(), PROMPT)  # type: ignore[arg-type]


def test_all_cases_of_the_base_are_compared_without_shards():
    dataset = dataset_of(None)
    assert dataset is not None
    assert (len(dataset.cases), dataset.excluded) == (9, 0)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_case_is_in_one_shard_and_excluded_from_the_others(count: int):
    ids: list[str] = []
    for number in range(1, count + 1):
        dataset = dataset_of(Shard(number=number, count=count))
        assert dataset is not None
        assert len(dataset.cases) + dataset.excluded == 9
        ids += [case.id for case in dataset.cases]
    assert len(ids) == len({*ids}) == 9


def test_a_prompt_that_the_base_does_not_have_has_no_cases():
    dataset = Dataset(name="greet", path=PROMPT.path, cases=())
    suite: Any = SimpleNamespace(dataset=replace(dataset), prompt=PROMPT)
    assert _dataset_before(suite, SimpleNamespace(), None) is None  # type: ignore[arg-type]
