"""How cases are dealt to shards, and how a shard reads a dataset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from regauge.datasets import Shard, assign_by_time, case_ids, load_dataset, shard_of
from regauge.errors import DatasetError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
counts = st.integers(1, 200)
NUMBERS = range(1, 4)


@given(ids, counts)
def test_every_case_is_in_exactly_one_shard(case: str, count: int):
    shards = [Shard(number=number, count=count) for number in range(1, count + 1)]
    assert [shard.number for shard in shards if shard.includes(case)] == [shard_of(case, count)]


def test_a_shard_is_shown_by_its_number():
    assert str(Shard(number=3, count=20)) == "shard 3 of 20"


@pytest.mark.parametrize(
    ("text", "shard"),
    [
        ("1/1", (1, 1)),
        ("3/20", (3, 20)),
        ("20/20", (20, 20)),
        ("10000/10000", (10_000, 10_000)),
        *(
            (text, None)
            for text in ("", "3", "0/3", "4/3", "1/10001", "1/0", "-1/3", "1/3/4", "a/3")
        ),
        *((text, None) for text in ("1/ 3", "+1/3", "\u0661/3", "1/3\n", "0000001/3")),
    ],
)
def test_a_shard_is_parsed_from_its_number_and_their_count(
    text: str, shard: tuple[int, int] | None
):
    if shard is None:
        with pytest.raises(UsageError, match="from 1 to their count, which is 10,000 at most"):
            Shard.parse(text)
        return
    parsed = Shard.parse(text, assigned_by="time")
    assert (parsed.number, parsed.count, parsed.assigned_by) == (*shard, "time")
    assert Shard.parse(text).assigned_by == "id"


def test_shards_are_of_about_one_size():
    cases = [f"case-{number}" for number in range(10_000)]
    sizes = [sum(shard_of(case, 20) == number for case in cases) for number in range(1, 21)]
    assert sum(sizes) == 10_000
    assert 400 < min(sizes) <= max(sizes) < 600


@given(st.dictionaries(ids, st.floats(0, 1000)), st.integers(1, 20), ids)
def test_cases_dealt_by_time_are_in_one_shard_each_and_shards_take_about_as_long(
    seconds: dict[str, float], count: int, first: str
):
    parts = assign_by_time(seconds, count=count, first=first)
    assert len(parts) == count
    assert sorted(case for part in parts for case in part) == sorted(seconds)
    loads = [sum(seconds[case] for case in part) for part in parts]
    # No case would be better elsewhere.
    assert max(loads) - min(loads) <= max(seconds.values(), default=0) + 1e-6
    assert parts == assign_by_time(dict(reversed(seconds.items())), count=count, first=first)


def written(fixtures: Path, suffix: str) -> Path:
    """A dataset of fifty cases in any format."""
    cases = [
        {"id": f"case-{number}", "inputs": {"text": f"line {number}"}, "expected": number}
        for number in range(50)
    ]
    path = fixtures / "golden" / f"demo{suffix}"
    path.parent.mkdir(parents=True)
    if suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    elif suffix == ".yaml":
        path.write_text(json.dumps(cases))
    else:
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame(
            [
                {"id": c["id"], "inputs.text": c["inputs"]["text"], "expected": c["expected"]}
                for c in cases
            ]
        )
        table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".yaml", ".csv", ".parquet"])
def test_the_shards_of_a_dataset_are_the_dataset(tmp_path: Path, suffix: str):
    fixtures = tmp_path / "fixtures"
    path = written(fixtures, suffix)
    whole = load_dataset(path, fixtures_dir=fixtures)
    parts = [
        load_dataset(path, fixtures_dir=fixtures, shard=Shard(number=number, count=3))
        for number in NUMBERS
    ]
    assert {case for part in parts for case in part} == set(whole)
    assert {case.location for part in parts for case in part} == {case.location for case in whole}
    assert [part.size for part in parts] == [50, 50, 50]
    assert sum(map(len, parts)) == 50
    assert case_ids(path, fixtures_dir=fixtures) == [case.id for case in whole]


def test_a_shard_reports_errors_of_its_own_cases_and_may_have_none(tmp_path: Path):
    fixtures = tmp_path / "fixtures"
    path = fixtures / "golden" / "demo.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"id": "a", "inputs": 1}\n')
    own = shard_of("a", 3)
    for number in NUMBERS:
        shard = Shard(number=number, count=3)
        if number != own:
            assert len(load_dataset(path, fixtures_dir=fixtures, shard=shard)) == 0
            continue
        with pytest.raises(DatasetError, match=r"demo.jsonl:1: inputs is 1"):
            load_dataset(path, fixtures_dir=fixtures, shard=shard)
