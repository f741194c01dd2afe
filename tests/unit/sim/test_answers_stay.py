"""The answers of the simulated model stay: recordings, baselines and pages of the documentation hold them.

`python -m tests.unit.sim.test_answers_stay` writes the answers of all rows; a difference is another
version of the model.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.refine_breaks import BREAKS, HARMLESS
from regauge.prompts import Message, ToolCall, parse_prompt
from regauge.providers import CompletionRequest
from regauge.sim import Rules, answer
from tests.unit.sim.bench import ROOT, golden

DATA = Path(__file__).parents[2] / "data" / "sim_answers"
CHANGES = BREAKS | HARMLESS


def read_rows(name: str) -> list[dict[str, Any]]:
    lines = DATA.joinpath(f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


SHARED = json.loads(DATA.joinpath("texts.json").read_text("utf-8"))


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
    made = answer(CompletionRequest(model="clerk-1", provider="sim", **fields), rules=rules)
    calls = [[call.id, call.name, call.arguments] for call in made.tool_calls]
    return {
        "text": made.text,
        "end": made.finish_reason,
        "tokens": [made.usage.input_tokens, made.usage.output_tokens],
        **({"calls": calls} if calls else {}),
    }


REQUESTS: dict[str, list[dict[str, Any]]] = {}
for request in read_rows("requests"):
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
        answer(
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


@pytest.mark.parametrize(
    "row", read_rows("prompts"), ids=lambda row: f"{row['change']}-{row['settings']['trial']}"
)
def test_the_answers_to_the_golden_cases_stay(row: dict[str, Any]):
    assert " ".join(answers_under(row["change"], row["settings"])) == row["answers"]


def write_rows() -> None:
    requests = [{**row, "answer": answer_to(row)} for row in read_rows("requests")]
    prompts = [
        {**row, "answers": " ".join(answers_under(row["change"], row["settings"]))}
        for row in read_rows("prompts")
    ]
    for name, rows in (("requests", requests), ("prompts", prompts)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        DATA.joinpath(f"{name}.jsonl").write_text(text, "utf-8")


if __name__ == "__main__":
    write_rows()
