"""Writes of one moment share a transaction; one that fails does not take the others with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from regauge.errors import RecordingError
from regauge.recordings import LocalStore, RecordingKey
from regauge.runner._calls import BatchedWrites

if TYPE_CHECKING:
    from pathlib import Path


def test_writes_that_are_asked_for_at_once_are_one_transaction(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store.sqlite3") as store:
        commits = 0

        def counted() -> object:
            nonlocal commits
            commits += 1
            return store.transaction()

        async def claim_all() -> list[str]:
            writes = BatchedWrites(counted)  # type: ignore[arg-type] # it is the context manager itself
            keys = [RecordingKey(f"{number:064x}", 0) for number in range(20)]
            return await asyncio.gather(
                *[writes.perform(lambda key=key: store.claim(key)) for key in keys]  # type: ignore[misc] # a default binds it
            )

        assert asyncio.run(claim_all()) == ["acquired"] * 20
        assert commits == 1


def test_a_write_that_fails_leaves_the_others_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    key = RecordingKey("a" * 64, 0)
    with LocalStore(path) as store, LocalStore(path) as other:

        def refused() -> str:
            raise RecordingError([])

        async def both() -> tuple[str | BaseException, str | BaseException]:
            writes = BatchedWrites(store.transaction)
            return await asyncio.gather(
                writes.perform(lambda: str(store.claim(key))),
                writes.perform(refused),
                return_exceptions=True,
            )

        first, second = asyncio.run(both())
        assert first == "acquired"
        assert isinstance(second, RecordingError)
        assert other.claim(key) == "taken"


def test_a_block_that_breaks_leaves_nothing_behind(tmp_path: Path) -> None:
    key = RecordingKey("b" * 64, 0)
    with LocalStore(tmp_path / "store.sqlite3") as store:

        def broken() -> None:
            with store.transaction():
                assert store.claim(key) == "acquired"
                raise KeyError

        with pytest.raises(KeyError):
            broken()
        assert store.claim(key) == "acquired"
