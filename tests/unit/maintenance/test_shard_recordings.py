"""Recordings of shards, merged line by line into the committed ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from regauge.errors import InvalidFileError
from regauge.maintenance.shards import merge_recordings, read_recordings
from regauge.recordings import Recording, Redactor
from tests.unit.recordings.conftest import recording

NAME = Path("alert.jsonl")


def line_of(made: Recording) -> str:
    return json.dumps(made.to_json()) + "\n"


class Shards:
    """Directories of recordings of shards, and the committed one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.target = root / "recordings"
        self.target.mkdir()
        self.directories: list[Path] = []

    def add(self, *made: Recording, name: Path = NAME) -> None:
        directory = self.root / f"shard-{len(self.directories)}"
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text("".join(map(line_of, made)))
        self.directories.append(directory)

    def commit(self, *made: Recording) -> None:
        (self.target / NAME).write_text("".join(map(line_of, made)))

    def merge(self, *, replaces: bool = False) -> tuple[int, int]:
        """The number of changed lines, and of requests with different completions."""
        scratch = self.root / "scratch"
        files = read_recordings(self.directories, scratch, redactor=Redactor())
        changed, shared = merge_recordings(files, self.target, replaces=replaces)
        return sum(changed.values()), shared

    def texts(self) -> list[tuple[str, str, int]]:
        rows = [json.loads(line) for line in (self.target / NAME).read_text().splitlines()]
        return [(row["case"], row["completion"]["text"], row.get("replaced", 0)) for row in rows]


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    return Shards(tmp_path)


def test_lines_of_all_shards_are_sorted_into_the_committed_ones(shards: Shards):
    shards.commit(recording(0), recording(4), recording(2))
    shards.add(recording(3), recording(1))
    shards.add(recording(5))
    assert shards.merge() == (3, 0)
    assert [case for case, _, _ in shards.texts()] == [f"case-{n:04}" for n in range(6)]
    assert not [*shards.target.glob(".*")]
    before = (shards.target / NAME).stat().st_mtime_ns
    assert shards.merge() == (0, 0)
    assert (shards.target / NAME).stat().st_mtime_ns == before


@pytest.mark.parametrize("replaces", [False, True])
def test_a_committed_line_stays_unless_it_is_recorded_again(shards: Shards, *, replaces: bool):
    shards.commit(recording(0, "old"), recording(1, "same", replaced=2))
    later = "2026-02-02T00:00:00Z"
    slower = replace(recording().completion, text="same", latency_s=9.0, cost_usd=1.0)
    shards.add(
        recording(0, "new", recorded_at=later),
        recording(1, completion=slower, recorded_at=later),
        recording(2),
    )
    assert shards.merge(replaces=replaces) == (1 + replaces, 0)
    first = ("case-0000", "new", 1) if replaces else ("case-0000", "old", 0)
    assert shards.texts() == [first, ("case-0001", "same", 2), ("case-0002", "yes", 0)]


def test_a_line_that_was_replaced_counts_on(shards: Shards):
    shards.commit(recording(0, "old", replaced=2))
    shards.add(recording(0, "new"))
    assert shards.merge(replaces=True) == (1, 0)
    assert shards.texts() == [("case-0000", "new", 3)]


def test_requests_that_shards_answered_differently_are_counted(shards: Shards):
    shards.add(recording(0, "a"), recording(1, "a"), recording(2))
    shards.add(recording(0, "b"), recording(1, "a", recorded_at="2026-02-02T00:00:00Z"))
    assert shards.merge() == (3, 1)
    assert [text for _, text, _ in shards.texts()] == ["a", "a", "yes"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (".hidden.jsonl", "no file of recordings"),
        ("notes.txt", "no file of recordings"),
        ("other/alert.jsonl", "no file of recordings"),
        ("judges/.x.jsonl", "no file of recordings"),
    ],
)
def test_other_files_of_a_shard_are_refused(shards: Shards, path: str, error: str):
    shards.add(recording(0))
    shards.add(recording(1), name=Path(path))
    with pytest.raises(InvalidFileError, match=error):
        shards.merge()


def test_links_and_broken_lines_of_a_shard_are_refused(shards: Shards):
    shards.add(recording(0))
    (shards.root / "link").symlink_to(shards.directories[0])
    shards.directories.append(shards.root / "link")
    with pytest.raises(InvalidFileError, match="a link; a shard has a directory there"):
        shards.merge()
    shards.directories.pop()
    path = shards.directories[0] / NAME
    path.write_text(line_of(recording(0)) + "{}\n")
    with pytest.raises(InvalidFileError, match=r"alert\.jsonl:2: not a recording"):
        shards.merge()
    secret = recording(0, "the key is sk-proj-" + "a1B2" * 12)
    path.write_text(line_of(secret))
    with pytest.raises(InvalidFileError, match="looks like a secret"):
        shards.merge()


def test_folders_of_judges_are_merged_apart(shards: Shards):
    shards.add(recording(0), name=Path("judges/tone.jsonl"))
    assert shards.merge() == (1, 0)
    assert (shards.target / "judges/tone.jsonl").is_file()
