"""Our reading of judges' replies against LLMBar's recorded ones."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.llmbar import run

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "llmbar"
DATASET = DATA / "dataset_natural.jsonl"
COMPLETIONS = DATA / "judge_completions_natural.jsonl.gz"
NUMBERS = ("n", "accuracy", "both_correct", "position_agreement", "unparsed")
# Judge and method: accuracy, both correct, position agreement, replies without a verdict, kappa.
READ = {
    ("ChatGPT", "CoT"): (0.74, 0.56, 0.64, 1),
    ("ChatGPT", "Rating"): (0.685, 0.45, 0.53, 0),
    ("ChatGPT", "Swap_CoT"): (0.78, 0.67, 0.78, 0),
    ("ChatGPT", "Vanilla"): (0.815, 0.67, 0.71, 0),
    ("Falcon", "CoT"): (0.58, 0.16, 0.16, 0),
    ("GPT-4", "CoT"): (0.945, 0.9, 0.91, 0),
    ("GPT-4", "Metrics_Reference"): (0.96, 0.94, 0.96, 0),
    ("GPT-4", "Swap_CoT"): (0.94, 0.94, 1.0, 0),
    ("LLaMA2", "Swap_CoT"): (0.74, 0.62, 0.76, 0),
    ("PaLM2", "CoT"): (0.8, 0.71, 0.81, 2),
    ("PaLM2", "Vanilla"): (0.83, 0.73, 0.78, 4),
}
# Where the authors' parser reads other winners than the reply ends with.
DIFFER = {
    ("ChatGPT", "Swap_CoT"): 8,
    ("Falcon", "CoT"): 2,
    ("LLaMA2", "Swap_CoT"): 3,
    ("PaLM2", "CoT"): 22,
}


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["judge"], row["method"]): row for row in run(DATASET, COMPLETIONS)}


def test_the_numbers_of_every_judge_and_method_are_these(found):
    assert len(found) == 20
    assert sum(row["n"] for row in found.values()) == 2000
    for which, numbers in READ.items():
        row = found[which]
        stated = tuple(row[name] for name in NUMBERS)
        assert stated == pytest.approx((100, *numbers), abs=1e-12), which


def test_kappa_of_gpt_4_with_chain_of_thought_is_not_the_published_one(found):
    assert found["GPT-4", "CoT"]["kappa_vs_gold"] == pytest.approx(0.878, abs=5e-4)


def test_we_read_the_published_winner_but_where_a_reply_states_several(found):
    assert {which: row["differ"] for which, row in found.items() if row["differ"]} == DIFFER
    for which, row in found.items():
        if which in DIFFER:
            continue
        ours = {name: row[name] for name in row["published"]}
        if row["unparsed"]:
            ours["position_agreement"] = row["published"]["position_agreement"]
        assert ours == row["published"], which


def test_files_of_another_subset_are_read_and_odd_rows_named(tmp_path: Path):
    dataset = tmp_path / "dataset.jsonl"
    completions = tmp_path / "completions.jsonl"
    dataset.write_text(
        "\n".join(
            json.dumps({"subset": "Neighbor", "i": i, "label": label})
            for i, label in enumerate([1, "2", "?"])
        )
    )
    rows = [
        row(0, "Output (a) is better.", "Output (b)"),
        row(1, "Output (a) is better at first glance. Therefore, Output (b)", "**Output (a)**"),
        row(2, "Output (a)", "Output (a)"),
        {"subset": "Neighbor", "i": 0, "judge": "other", "method": "CoT"},
    ]
    completions.write_text("\n".join(map(json.dumps, rows)))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.conformance.llmbar",
            f"--dataset={dataset}",
            f"--completions={completions}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{dataset}: pair 2 has no label 1 or 2",
        f"{completions}: no pair 2 of Neighbor is labelled",
        f"{completions}: a row of other, CoT has no 'completion'",
    ]
    (line,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (line["n"], line["accuracy"], line["position_agreement"]) == (2, 1.0, 1.0)
    assert line["kappa_vs_gold"] == 1.0


def test_the_recorded_replies_are_those_of_the_subset():
    with gzip.open(COMPLETIONS, "rt", encoding="utf-8") as file:
        assert {json.loads(line)["subset"] for line in file} == {"Natural"}


def row(i: int, shown: str, swapped: str) -> dict[str, Any]:
    return {
        "subset": "Neighbor",
        "i": i,
        "judge": "some",
        "method": "CoT",
        "winner": "1",
        "winner_swapped": "1",
        "completion": [shown, "stop"],
        "completion_swapped": [swapped, "stop"],
    }
