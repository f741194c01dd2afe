"""Scorers of Inspect as judges: one log with one sample for each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from regauge.importers import load_importer

if TYPE_CHECKING:
    from pathlib import Path

LOOSE = {"ignore_case": True, "ignore_space": True, "ignore_punctuation": True}


def end(words: str) -> str:
    return rf"(?:{words})[\s\p{{P}}]*\Z"


@pytest.mark.parametrize(
    ("scorer", "options", "target", "check"),
    [
        ("includes", {}, "a", {"contains_any": {"texts": ["a"], "ignore_case": True}}),
        ("includes", {"ignore_case": False}, "a", {"contains_any": {"texts": ["a"], "ignore_case": False}}),
        ("exact", {}, "a", {"equals": {"value": "a", **LOOSE}}),
        ("exact", {}, ["a", "b"], {"any_of": [{"equals": {"value": "a", **LOOSE}}, {"equals": {"value": "b", **LOOSE}}]}),
        ("match", {}, ["a.", "b"], {"matches": {"pattern": end(r"a\.|b"), "ignore_case": True}}),
        ("match", {"location": "begin"}, "a", {"matches": {"pattern": r"\A[\s\p{P}]*(?:a)", "ignore_case": True}}),
        ("match", {"location": "exact", "ignore_case": False}, "a", {"matches": {"pattern": r"\A[\s\p{P}]*" + end("a"), "ignore_case": False}}),
        ("match", {"location": "any"}, "a", {"contains_any": {"texts": ["a"], "ignore_case": True}}),
        ("match", {"location": "odd"}, "a", "the location 'odd' has no counterpart"),
        ("match", {"numeric": True}, "1,200.5", {"number_near": {"to": 1200.5, "which": "last"}}),
        ("match", {"numeric": True, "location": "begin"}, "-3", {"number_near": {"to": -3.0, "which": "first"}}),
        ("match", {"numeric": True, "location": "any"}, ["3", "4"], {"any_of": [{"number_near": {"to": 3.0, "which": "any"}}, {"number_near": {"to": 4.0, "which": "any"}}]}),
        ("match", {"numeric": True}, "three", "its target is not a number"),
        ("match", {}, None, "the sample has no target"),
        ("f1", {}, "a", {"rouge_n": {"to": ["a"], "n": 1}}),
        ("answer", {}, "a", {"answer_is": {"to": ["a"]}}),
        ("model_graded_qa", {}, "a", {"rubric": {"name": "closed-qa"}}),
        ("model_graded_fact", {}, "a", {"rubric": {"name": "factuality"}}),
        ("model_graded_qa", {"template": "x"}, "a", "it has its own template"),
        ("model_graded_fact", {"instructions": "x"}, "a", "it has its own template"),
        ("own", {}, "a", "it is Python, which is not run"),
    ],
)  # fmt: skip
def test_a_scorer_becomes_a_judge(
    tmp_path: Path, scorer: str, options: dict[str, Any], target: object, check: object
):
    samples = [
        {"id": 2, "epoch": 1, "input": "", "target": target},
        {"id": 1, "epoch": 1, "input": "q", "target": target, "output": {"completion": "a"}},
    ]
    scorers = [{"name": f"inspect_ai/{scorer}", "options": options}]
    log = {"version": 2, "status": "success", "eval": {"task": "t", "scorers": scorers}, "samples": samples}  # fmt: skip
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log), encoding="utf-8")
    imported = load_importer("inspect")(path, root=tmp_path)
    ((case,),) = imported.datasets.values()
    (written,) = case.document["checks"]
    if isinstance(check, str):
        assert written["unmeasured"].endswith(check)
    else:
        assert written == check
    assert any(note.text == "a sample without `input`: left out" for note in imported.notes)
