"""Our judges against the reference verdicts of IFEval."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance.ifeval import RULES, lines_of, run, verdicts

DATA = Path(__file__).parents[1] / "data" / "ifeval"
TOKENIZER_DIFFERENCES: frozenset[tuple[int, str]] = frozenset()
"""Checks (key, instruction) where our sentences are not those of the reference's tokenizer."""


def test_every_stable_check_agrees_with_the_reference(capsys: pytest.CaptureFixture[str]):
    reference = {line["key"]: line for line in lines_of(DATA / "verdicts_gpt-4-20231107.jsonl")}
    counts: Counter[str] = Counter()
    unexplained: list[tuple[int, str, str]] = []
    for ours in run(DATA / "prompts.jsonl", DATA / "gpt-4-20231107.jsonl.gz"):
        theirs = reference[ours["key"]]
        for place, instruction in enumerate(theirs["ids"]):
            for mode in ("strict", "loose"):
                if str(place) in theirs.get("unstable", {}):
                    counts["random in the reference"] += 1
                elif ours[mode][place] == theirs[mode][place]:
                    counts["agreed"] += 1
                elif (ours["key"], instruction) in TOKENIZER_DIFFERENCES:
                    counts["sentence tokenizer"] += 1
                else:
                    unexplained.append((ours["key"], instruction, mode))
    with capsys.disabled():
        total = counts.total() + len(unexplained)
        others = {why: count for why, count in counts.items() if why != "agreed"}
        sys.stdout.write(
            f"\nIFEval: {total} checks, {counts['agreed']} agreed, diverged by reason: {others}\n"
        )
    assert unexplained == []
    assert len(TOKENIZER_DIFFERENCES) <= 3


def test_all_instruction_types_are_covered():
    prompts = lines_of(DATA / "prompts.jsonl")
    wanted = {name for prompt in prompts for name in prompt["instruction_id_list"]}
    assert wanted == set(RULES)
    assert len(wanted) == 25


@pytest.mark.parametrize("answer", [None, "", " \n"])
def test_an_empty_answer_follows_nothing(answer: str | None):
    for prompt in lines_of(DATA / "prompts.jsonl"):
        line = verdicts(prompt, answer)
        assert not any(line["strict"])
        assert not any(line["loose"])


def test_responses_are_read_packed_and_plain(tmp_path: Path):
    plain = tmp_path / "answers.jsonl"
    packed = tmp_path / "answers.jsonl.gz"
    row = json.dumps({"key": 1001, "prompt": "?", "response": "Farewell"}) + "\n"
    plain.write_text(row, encoding="utf-8")
    packed.write_bytes(gzip.compress(row.encode()))
    expected = [{"key": 1001, "strict": [True], "loose": [True]}]
    assert list(run(DATA / "prompts.jsonl", plain)) == expected
    assert list(run(DATA / "prompts.jsonl", packed)) == expected
