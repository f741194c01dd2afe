"""Committed vectors: what is kept, how exactly, and what a broken file says."""

from __future__ import annotations

import math
import multiprocessing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from regauge.errors import RecordingError
from regauge.recordings import VectorsFile

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "openai:text-embedding-3-small"
VECTORS = st.lists(
    st.floats(-1, 1).filter(lambda value: value == 0 or abs(value) > 1e-30), min_size=3, max_size=3
).filter(lambda vector: math.hypot(*vector) > 1e-20)


def cosine(one: tuple[float, ...] | list[float], other: tuple[float, ...] | list[float]) -> float:
    dot = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return dot / (math.hypot(*one) * math.hypot(*other))


@given(one=VECTORS, other=VECTORS)
def test_scores_change_by_less_than_they_are_shown_with(
    tmp_path_factory: pytest.TempPathFactory, one: list[float], other: list[float]
):
    file = VectorsFile.for_model(tmp_path_factory.mktemp("vectors"), MODEL)
    file.put("one", one, replace=True)
    file.put("other", other, replace=True)
    kept, its = file.get("one"), file.get("other")
    assert kept is not None
    assert its is not None
    assert abs(cosine(kept, its) - cosine(one, other)) < 3e-7


def test_what_was_put_is_there_after_a_save(tmp_path: Path):
    file = VectorsFile.for_model(tmp_path, MODEL)
    assert file.save() == 0
    assert not file.path.exists()
    for number, text in enumerate(("", "disk \udcff full", "x" * 10_000)):
        file.put(text, [0.5, -0.25, float(number)], replace=False)
    assert file.save() == 3
    assert file.save() == 0
    assert file.path == tmp_path / "embeddings" / "openai.text-embedding-3-small.jsonl"
    again = VectorsFile.for_model(tmp_path, MODEL)
    assert len(again) == 3
    assert again.get("disk \udcff full") == (0.5, -0.25, 1.0)
    assert again.get("another") is None
    assert [text in again for text in ("", "disk \udcff full", "another")] == [True, True, False]
    lines = file.path.read_bytes().splitlines()
    assert lines == sorted(lines)
    assert b"disk" not in file.path.read_bytes()


def test_one_text_has_a_vector_for_each_model(tmp_path: Path):
    """Their names give one file name, and still they are apart."""
    for number, model in enumerate(("local:a/b", "local:a-b")):
        file = VectorsFile.for_model(tmp_path, model)
        file.put("text", [float(number)], replace=False)
        assert file.save() == 1
    assert VectorsFile.for_model(tmp_path, "local:a/b").get("text") == (0.0,)
    assert VectorsFile.for_model(tmp_path, "local:a-b").get("text") == (1.0,)
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == ["local.a-b.jsonl"]


def test_a_recorded_vector_stays_unless_it_is_asked_anew(tmp_path: Path):
    mine, its = VectorsFile.for_model(tmp_path, MODEL), VectorsFile.for_model(tmp_path, MODEL)
    mine.put("text", [1.0], replace=False)
    its.put("text", [2.0], replace=False)
    assert mine.save() == 1
    assert its.save() == 0
    assert its.get("text") == (1.0,)
    its.put("text", [3.0], replace=False)
    assert its.save() == 0
    its.put("text", [4.0], replace=True)
    assert its.save() == 1
    assert VectorsFile.for_model(tmp_path, MODEL).get("text") == (4.0,)


def write_some(directory: Path, first: int) -> None:
    for number in range(first, first + 20):
        file = VectorsFile.for_model(directory, MODEL)
        file.put(f"text {number}", [float(number)], replace=False)
        file.save()


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_some, args=(tmp_path, first)) for first in (0, 15)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    file = VectorsFile.for_model(tmp_path, MODEL)
    assert len(file) == 35
    assert all(file.get(f"text {number}") == (float(number),) for number in range(35))


def test_every_broken_line_is_named(tmp_path: Path):
    file = VectorsFile.for_model(tmp_path, MODEL)
    file.put("text", [1.0], replace=False)
    file.save()
    good = file.path.read_text(encoding="utf-8").strip()
    digest = "0" * 64
    broken = [
        "<<<<<<< ours",
        "[]",
        '{"digest":"x","float32":"AACAPw=="}',
        f'{{"digest":"{digest}","float32":"AACA"}}',
        f'{{"digest":"{digest}","float32":""}}',
        f'{{"digest":"{digest}","float32":"?"}}',
        f'{{"digest":"{digest}","float32":7}}',
        f'{{"digest":"{digest}","float32":"AADAfw=="}}',
        good.replace("AACAPw==", "AAAAQA=="),
    ]
    file.path.write_text("\n".join([good, *broken]), encoding="utf-8")
    before = file.path.read_bytes()
    with pytest.raises(RecordingError) as caught:
        VectorsFile.for_model(tmp_path, MODEL)
    assert [diagnostic.line for diagnostic in caught.value.diagnostics] == list(range(2, 11))
    assert "another vector for the text" in caught.value.diagnostics[-1].message
    file.put("more", [1.0], replace=False)
    with pytest.raises(RecordingError):
        file.save()
    assert file.path.read_bytes() == before


@pytest.mark.parametrize("vector", [[1e39], ["x"]])
def test_what_is_no_vector_is_not_kept(tmp_path: Path, vector: list[float]):
    file = VectorsFile.for_model(tmp_path, MODEL)
    with pytest.raises(ValueError, match="no vector of float32"):
        file.put("text", vector, replace=False)
    assert file.save() == 0


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path):
    (tmp_path / "embeddings").write_text("no directory", encoding="utf-8")
    with pytest.raises(RecordingError, match="cannot be read"):
        VectorsFile.for_model(tmp_path, MODEL)
    (tmp_path / "embeddings").unlink()
    file = VectorsFile.for_model(tmp_path, MODEL)
    file.put("text", [1.0], replace=False)
    (tmp_path / "embeddings").write_text("no directory", encoding="utf-8")
    with pytest.raises(RecordingError, match="cannot be written"):
        file.save()
