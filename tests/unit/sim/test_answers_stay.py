"""The answers of the simulated model stay: recordings, baselines and pages of the documentation hold them.

A difference is another version of the model.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.refine_breaks import BREAKS, HARMLESS
from regauge.prompts import Message, ToolCall, parse_prompt
from regauge.providers import CompletionRequest
from regauge.sim import Rules, complete
from regauge.sim._instructions import Shot, read_labels
from regauge.sim._values import evidence_of, rank
from tests.transcripts import DATA, held_rows, read_rows
from tests.unit.sim.bench import ROOT, golden

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWERS = DATA / "sim_answers"
CHANGES = BREAKS | HARMLESS


SHARED = json.loads(ANSWERS.joinpath("texts.json").read_text("utf-8"))


def read_message(row: dict[str, Any]) -> Message:
    """A message; `{{name}}` stands for a text that many rows share."""
    content = row["content"]
    for name, text in SHARED["texts"].items():
        content = content.replace("{{" + name + "}}", text)
    calls = tuple(ToolCall(**call) for call in row.get("tool_calls", ()))
    return Message(**{**row, "content": content, "tool_calls": calls})


def answer_to(row: dict[str, Any]) -> dict[str, Any]:
    """What the model answers to the request of a row, its numbers of tokens too."""
    fields = {**row["request"]}
    rules = Rules(drift=fields.pop("drift", 0.0))
    fields["messages"] = tuple(read_message(one) for one in fields["messages"])
    form = fields.pop("response_format", None)
    fields["response_format"] = SHARED["formats"][form] if isinstance(form, str) else form
    fields = {"trial": 0, "parameters": {"temperature": 0}, **fields}
    made = complete(CompletionRequest(model="clerk-1", provider="sim", **fields), rules=rules)
    calls = [[call.id, call.name, call.arguments] for call in made.tool_calls]
    return {
        "text": made.text,
        "end": made.finish_reason,
        "tokens": [made.usage.input_tokens, made.usage.output_tokens],
        **({"calls": calls} if calls else {}),
    }


def answered_requests() -> Iterator[dict[str, Any]]:
    for row in read_rows(ANSWERS / "requests.jsonl"):
        yield {**row, "answer": answer_to(row)}


REQUESTS: dict[str, list[dict[str, Any]]] = {}
for request in held_rows(ANSWERS / "requests.jsonl", answered_requests):
    REQUESTS.setdefault(request["about"].partition("-")[0], []).append(request)


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_answers_to_requests_stay(kind: str):
    answers = {row["about"]: answer_to(row) for row in REQUESTS[kind]}
    assert answers == {row["about"]: row["answer"] for row in REQUESTS[kind]}


def answers_under(change: str, settings: dict[str, Any]) -> list[str]:
    """Digests of the answers to the golden cases, by a prompt of the repository that was changed."""
    name, edit = CHANGES[change]
    path = ROOT / "prompts" / f"{name}.prompt.yml"
    prompt = parse_prompt(edit(path.read_text("utf-8")), path=path)
    made = (
        complete(
            CompletionRequest(
                model="clerk-1",
                provider="sim",
                messages=prompt.render(case["inputs"]),
                response_format=prompt.response_format,
                **settings,
            )
        )
        for case in golden(name)[:40]
    )
    return [hashlib.sha256((one.text or "").encode()).hexdigest()[:6] for one in made]


def answered_prompts() -> Iterator[dict[str, Any]]:
    for row in read_rows(ANSWERS / "prompts.jsonl"):
        yield {**row, "answers": " ".join(answers_under(row["change"], row["settings"]))}


@pytest.mark.parametrize(
    "row",
    held_rows(ANSWERS / "prompts.jsonl", answered_prompts),
    ids=lambda row: f"{row['change']}-{row['settings']['trial']}",
)
def test_the_answers_to_the_golden_cases_stay(row: dict[str, Any]):
    assert " ".join(answers_under(row["change"], row["settings"])) == row["answers"]


def rank_labels(row: dict[str, Any]) -> list[Any]:
    """The labels from best to worst, the margin, and the words that decide."""
    ranking = rank(
        evidence_of(tuple(row["texts"])),
        read_labels(row["definition"], row["labels"]),
        tuple(Shot(input=text, output=output) for text, output in row["shots"]),
        tie_breakers=tuple(place / 10 for place in range(len(row["labels"]), 0, -1)),
    )
    return [*ranking.names, round(ranking.margin, 6), *ranking.deciding_words]


def ranked_labels() -> Iterator[dict[str, Any]]:
    for row in read_rows(ANSWERS / "ranks.jsonl"):
        yield {**row, "ranking": rank_labels(row)}


def test_the_ranks_of_labels_stay():
    rows = held_rows(ANSWERS / "ranks.jsonl", ranked_labels)
    assert [rank_labels(row) for row in rows] == [row["ranking"] for row in rows]
