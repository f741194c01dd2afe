"""Our judges against the reference verdicts of IFEval."""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance._rows import rows_of
from tests.conformance.ifeval import RULES, main, run, verdicts

DATA = Path(__file__).parents[1] / "data" / "ifeval"
TOKENIZER_DIFFERENCES: frozenset[tuple[int, str]] = frozenset()
"""Checks (key, instruction) where our sentences are not those of the reference's tokenizer."""


def test_every_stable_check_agrees_with_the_reference(capsys: pytest.CaptureFixture[str]):
    reference = {line["key"]: line for line in rows_of(DATA / "verdicts_gpt-4-20231107.jsonl")}
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
    prompts = rows_of(DATA / "prompts.jsonl")
    wanted = {name for prompt in prompts for name in prompt["instruction_id_list"]}
    assert wanted == set(RULES)
    assert len(wanted) == 25


@pytest.mark.parametrize("answer", [None, "", " \n"])
def test_an_empty_answer_follows_nothing(answer: str | None):
    for prompt in rows_of(DATA / "prompts.jsonl"):
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


def run_main(monkeypatch: pytest.MonkeyPatch, prompts: Path, responses: Path) -> int:
    arguments = ["ifeval", "--prompts", str(prompts), "--responses", str(responses)]
    monkeypatch.setattr(sys, "argv", arguments)
    return main()


def test_odd_answers_are_told_and_the_rest_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    answers = tmp_path / "answers.jsonl"
    rows = ['{"key": 1001, "response": 5}', "{broken", "[1]", '{"key": [7]}', '{"key": 1001}']
    answers.write_text("\n".join([*rows, '{"key": 1001, "response": "Hi"}']), encoding="utf-8")
    assert run_main(monkeypatch, DATA / "prompts.jsonl", answers) == 1
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["strict"] for line in lines] == [[False], [False], [True]]
    assert f"{answers}:2: not JSON" in shown.err
    assert f"{answers}:3: not an object" in shown.err
    assert "no prompt has the key [7]" in shown.err


def test_an_unknown_instruction_is_followed_by_none_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    prompts, answers = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    known = {"key": 1, "instruction_id_list": ["new:thing", "punctuation:no_comma"]}
    prompts.write_text(json.dumps({**known, "prompt": "?", "kwargs": [{}, {}]}), encoding="utf-8")
    answers.write_text('{"key": 1, "response": "Hi"}\n' * 2, encoding="utf-8")
    assert run_main(monkeypatch, prompts, answers) == 0
    shown = capsys.readouterr()
    assert [json.loads(line)["strict"] for line in shown.out.splitlines()] == [[False, True]] * 2
    assert shown.err.count("new:thing") == 1


def test_the_name_of_a_file_does_not_say_whether_it_is_packed(tmp_path: Path):
    plain, packed = tmp_path / "plain.gz", tmp_path / "packed.jsonl"
    plain.write_bytes(b'{"key": 1}\n')
    packed.write_bytes(gzip.compress(b'{"key": 1}\n'))
    assert list(rows_of(plain)) == list(rows_of(packed)) == [{"key": 1}]


@pytest.mark.parametrize(
    "content", [None, gzip.compress(b'{"key": 1}')[:-9]], ids=["missing", "cut off"]
)
def test_a_file_that_cannot_be_read_is_told(
    content: bytes | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    answers = tmp_path / "answers.jsonl.gz"
    if content is not None:
        answers.write_bytes(content)
    assert run_main(monkeypatch, DATA / "prompts.jsonl", answers) == 1
    assert f"{answers}: cannot be read" in capsys.readouterr().err
