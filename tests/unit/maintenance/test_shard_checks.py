"""Checks of shards: rows that are no shard's, results that are missing, cases left uncovered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from regauge.datasets import shard_of
from regauge.errors import InvalidFileError
from regauge.maintenance.shards import (
    _eval_of,
    _find_left_out,
    _find_uncovered,
    _find_unmeasured,
    _has_failed,
    _refuse_cut_files,
    _row_error,
)

if TYPE_CHECKING:
    from pathlib import Path

SHA = "a" * 64
OWN = shard_of("one", 2)


def suite(**more: object) -> Any:
    values = {"eval": "evals/test_a.py::test_a", "model": "m", "prompt": "p", "dataset": "d"}
    counts = {"prompt_digest": SHA, "cases": 3, "selected_cases": 3, "total": 6}
    return SimpleNamespace(**{**values, **counts, **more})


def part(
    *suites: object, status: str = "finished", failed_tests: object = None, **more: object
) -> Any:
    values = {"number": OWN, "count": 2, "shard_by": "id", "base": "", "exit_status": 0}
    values |= {"unmeasured": []}
    shard = SimpleNamespace(**{**values, "evals": suites or (suite(),), **more})
    return SimpleNamespace(
        shard=shard, record=SimpleNamespace(status=status, failed_tests=failed_tests or {})
    )


def row(**more: object) -> Any:
    values = {"node": "evals/test_a.py::test_a[one]", "model": "m", "prompt": "p", "dataset": "d"}
    digests = {"prompt_digest": SHA, "case_digest": SHA, "request_digest": ""}
    return SimpleNamespace(**{**values, **digests, "side": None, "case": "one", **more})


def counts(found: int = 3, *, unmeasured: bool = False, failed: bool = False) -> Any:
    nodes = {("evals/test_a.py::test_a", "m"): found}
    failed_cases = {"p": ["one"]} if failed else {}
    return SimpleNamespace(nodes=nodes, unmeasured=unmeasured, failed_cases=failed_cases)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, ""),
        ({"prompt": "q"}, "is of no eval of this shard"),
        ({"dataset": "q"}, "is of no eval of this shard"),
        ({"prompt_digest": "b" * 64}, "is of another prompt than this shard's"),
        ({"prompt_digest": "b" * 64, "side": "base"}, ""),
        ({"case_digest": "A" * 64}, "not a row: case and digests"),
        ({"request_digest": "a" * 63}, "not a row: case and digests"),
        ({"case_digest": ""}, ""),
    ],
)
def test_a_row_is_of_this_shard_and_as_regauge_writes_it(changes: dict[str, object], error: str):
    found = _row_error(row(**changes), suite(), part())
    assert found.endswith(error) if not error else error in found
    assert bool(found) == bool(error)


def test_a_case_is_of_the_shard_of_its_id():
    other = part(number=3 - OWN)
    assert _row_error(row(), suite(), other) == "case 'one' is of another shard"
    assert _row_error(row(), suite(), part(number=3 - OWN, shard_by="suite")) == ""
    assert "not a row" in _row_error(row(case="a b"), suite(), part(shard_by="suite"))
    assert "of no eval" in _row_error(row(), None, part())


def test_a_row_belongs_to_its_function_or_file_and_one_of_the_base_to_any_model():
    one, file = suite(), suite(eval="evals/test_b.py")
    suites = cast("Any", {(item.eval, item.model): item for item in (one, file)})
    assert _eval_of(row(), suites) is one
    assert _eval_of(row(node="evals/test_b.py::case one"), suites) is file
    assert _eval_of(row(model="n"), suites) is None
    assert _eval_of(row(model="n", side="base"), suites) is one
    assert _eval_of(row(node="evals/test_c.py::x"), suites) is None


@pytest.mark.parametrize(
    ("shard", "found", "sentences"),
    [
        (part(), counts(3), []),
        (part(), counts(2), ["1 of 3 cases of evals/test_a.py::test_a have no result"]),
        (part(base="main"), counts(2), []),
        (part(exit_status=1), counts(3), []),
        (part(exit_status=2), counts(3), ["did not finish: pytest ended with 2"]),
        (part(status="interrupted"), counts(3), ["did not finish: pytest ended with 0"]),
        (part(), counts(3, unmeasured=True), ["cases are unmeasured; see its log"]),
        (part(base="main", exit_status=1), counts(3), ["is not measured whole; see its log"]),
        (part(base="main", exit_status=1, failed_tests={"a": "b"}), counts(3), []),
        (
            part(base="main", exit_status=1, failed_tests={"a": "b"}, unmeasured=["left out: x"]),
            counts(3),
            ["left out: x"],
        ),
    ],
)
def test_missing_results_are_named(shard: Any, found: Any, sentences: list[str]):
    texts = [*_find_unmeasured(shard, found)]
    assert len(texts) == len(sentences)
    assert all(text.startswith(f"shard {OWN}") for text in texts)
    assert all(text.endswith(end) for text, end in zip(texts, sentences, strict=True))


@pytest.mark.parametrize(
    ("shard", "found", "failed"),
    [
        (part(), counts(), False),
        (part(), counts(failed=True), True),
        (part(exit_status=1), counts(), True),
        (part(exit_status=2), counts(), False),
        (part(exit_status=1, base=SHA, failed_tests={"a": "b"}), counts(), True),
        (part(exit_status=1), counts(unmeasured=True), False),
        (part(exit_status=1, base="main"), counts(), False),
        (part(exit_status=1, status="interrupted"), counts(), False),
    ],
)
def test_a_shard_fails_by_a_judge_or_another_test(shard: Any, found: Any, *, failed: bool):
    assert _has_failed(shard, found) is failed


def test_items_of_a_parametrized_eval_hide_no_case_that_was_left_out():
    whole = part(suite(selected_cases=6), suite(selected_cases=1), selection=["-k x"])
    notes: list[str] = []
    assert [*_find_left_out([whole], [], notes)] == []
    assert notes == ["2 of 6 cases left out by -k x"]
    nothing = part(suite(selected_cases=0), selection=[])
    assert [*_find_left_out([nothing], [], notes)] == ["none of 3 cases was selected"]


def test_shards_cover_each_case_once():
    assert [*_find_uncovered([part(), part()])] == []
    assert [*_find_uncovered([part(suite(cases=1)), part(suite(cases=2))])] == [
        "evals/test_a.py::test_a: all shards together have 3 of 6 cases"
    ]


@pytest.mark.parametrize(
    ("lines", "files", "text"),
    [
        ({}, {}, ""),
        ({"trials.jsonl": 2}, {"trials.jsonl": "a\nb\n"}, ""),
        ({"trials.jsonl": 2}, {"trials.jsonl": "a\n"}, "left 2 lines, and 1 are there"),
        ({"trials.jsonl": 1}, {}, "left 1 line, and 0 are there"),
        ({"trials.jsonl": 2}, {}, "left 2 lines, and 0 are there"),
        ({}, {"trials.jsonl": "a\n"}, "left 0 lines, and 1 are there"),
        ({"trials.jsonl": 1}, {"trials.jsonl": "a\nb\n"}, "left 1 line, and 2 are there"),
    ],
)
def test_a_file_with_other_lines_than_the_shard_left_is_refused(
    tmp_path: Path, lines: dict[str, int], files: dict[str, str], text: str
):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    copy: Any = SimpleNamespace(directory=tmp_path, shard=SimpleNamespace(lines=lines))
    if not text:
        _refuse_cut_files(copy)
        return
    with pytest.raises(InvalidFileError, match=text):
        _refuse_cut_files(copy)
