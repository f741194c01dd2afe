"""Estimates of calls, tokens and cost, next to what the same command then takes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from regauge import Message
from regauge.providers import CompletionRequest
from regauge.sim import SimulatedProvider
from tests.conftest import EvalProject
from tests.fakes import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from _pytest.pytester import Pytester

IN_USD, OUT_USD = 3e-6, 15e-6
PRICES = 'prices = { "clerk-1" = { input_per_million = 3.0, output_per_million = 15.0 } }\n'
SYSTEM = (
    "Summarise the note in two sentences of plain text."
    " Say what happened, who is concerned, and what was done about it."
)
RUBRIC = """\
name: clear
description: Whether the summary is clear and complete.
version: 1.0.0
model: local:clerk-1
modelParameters:
  temperature: 0
  maxTokens: 600
rubric:
  kind: graded
  scale: {min: 1, max: 5}
  pass_at: 0.5
messages:
  - role: system
    content: Score from 1 to 5 how clearly the summary says what the note says.
  - role: user
    content: |
      Note: {{text}}
      Summary: {{answer}}
"""
CASES = 8
TOPICS = ["disk", "queue", "certificate", "node", "gateway", "cache", "lock", "backup"]


class Metered(Endpoint):
    """The simulated model behind an endpoint that counts tokens in a way of its own.

    Attributes:
        tokens: In and out.
        usd: At the prices of the project.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spent_tokens = 0
        self.usd = 0.0
        self._model = SimulatedProvider()

    def forget(self) -> None:
        super().forget()
        self.spent_tokens, self.usd = 0, 0.0

    async def _reply(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        messages = [Message(role=x["role"], content=x["content"]) for x in asked["messages"]]
        self.calls[messages[-1].content] += 1
        parameters = {"temperature", "max_tokens", "seed"} & asked.keys()
        completion = await self._model.complete(
            CompletionRequest(
                model="clerk-1",
                provider="sim",
                messages=tuple(messages),
                parameters={name: asked[name] for name in parameters},
                response_format=asked.get("response_format"),
                trial=self.total,
            )
        )
        read = 12 + round(sum(len(one.content) for one in messages) / 3.6)
        wrote = 3 + round(len(completion.text or "") / 3.6)
        self.spent_tokens += read + wrote
        self.usd += read * IN_USD + wrote * OUT_USD
        message = {"role": "assistant", "content": completion.text, "refusal": None}
        return 200, {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": wrote,
                "total_tokens": read + wrote,
            },
        }


def note(number: int) -> str:
    topic = TOPICS[number % len(TOPICS)]
    sentences = [
        f"The {topic} of cluster {number} failed at 0{number % 9}:15.",
        f"Users of region {number % 4} saw errors on {number + 2} percent of their requests.",
        f"The team replaced the {topic} and restarted {number + 1} services.",
        f"Load came back to normal after {10 + number} minutes.",
        "A review is planned for next week.",
    ]
    return " ".join(sentences[: 3 + number % 3])


def cases(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "id": f"note-{number:02}",
            "inputs": {"text": note(number)},
            "expected": ". ".join(note(number).split(". ")[:3]),
        }


@pytest.fixture
def metered() -> Iterator[Metered]:
    with Metered() as served:
        yield served


@pytest.fixture
def priced(pytester: Pytester, metered: Metered, live: EvalProject) -> EvalProject:
    """A project of notes whose endpoint has prices and counts what it serves."""
    del live  # its environment
    project = EvalProject(pytester, base_url=metered.base_url)
    project.settings('judge_model = "local:clerk-1"', provider=PRICES)
    project.prompt(model="local:clerk-1", system=SYSTEM)
    project.golden(cases(CASES))
    project.write("prompts/judges/clear.prompt.yml", RUBRIC)
    project.judged_by("min_words(3)")
    return project


def document(project: EvalProject, *words: str) -> dict[str, Any]:
    done = project.command(*words, "--json")
    assert done.returncode in {0, 1, 4}, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of_record(found: Mapping[str, Any]) -> tuple[float, float, float]:
    """Calls, tokens and dollars of `record --dry-run --json`."""
    answers, judgements = found["missing_completions"], found["missing_judgements"]
    both = [*answers, *judgements]
    return (
        sum(x["completions"] for x in answers) + sum(x["calls"] for x in judgements),
        sum(x["tokens"] for x in both),
        sum(x["cost_usd"] for x in both),
    )


def of_bills(bills: Iterable[Mapping[str, Any]]) -> tuple[float, float, float]:
    """The same of a baseline session or a gate."""
    bills = [*bills]
    return (
        sum(x["calls"] + x["judge_calls"] for x in bills),
        sum(x["tokens"] for x in bills),
        sum(x["cost_usd"] for x in bills),
    )


def near(estimate: tuple[float, float, float], metered: Metered) -> None:
    """Hold an estimate to what was served since the endpoint was last told to forget."""
    spent = metered.total, metered.spent_tokens, metered.usd
    assert spent[0] > 0
    ratios = [about / took for about, took in zip(estimate, spent, strict=True)]
    assert all(1 / 1.5 <= ratio <= 1.5 for ratio in ratios), (estimate, spent, ratios)
    metered.forget()


def recorded_as_estimated(project: EvalProject, metered: Metered, *options: str) -> None:
    estimate = of_record(document(project, "record", "--dry-run", *options))
    assert metered.total == 0
    document(project, "record", *options)
    near(estimate, metered)


def drop(project: EvalProject, count: int) -> None:
    """Remove what is recorded about the last cases."""
    dropped = {f"note-{number:02}" for number in range(CASES - count, CASES)}
    for path in (project.root / "fixtures/recordings").rglob("*.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(x for x in lines if json.loads(x)["case"] not in dropped))
    for path in (project.root / ".regauge").glob("*.sqlite3*"):
        path.unlink()


JUDGES = {
    "rubric": 'rubric("clear")',
    "votes": 'rubric("clear", votes=3)',
    "claims": 'verified_claims("text")',
    "panel": 'panel([rubric("clear"), verified_claims("text")])',
    "shared": 'rubric("clear"), panel([rubric("clear"), rubric("clear", votes=2)]).with_name("both")',
    "deepeval": 'deepeval("GEval", name="good", criteria="Is it good?")',
}


def use_judges(project: EvalProject, judges: str) -> None:
    project.judged_by(judges)
    if judges == JUDGES["deepeval"]:
        project.loaded = ("quiet_deepeval",)


@pytest.mark.parametrize("judges", ["min_words(3)", *JUDGES.values()], ids=["none", *JUDGES])
def test_recordings_take_what_the_dry_run_says(priced: EvalProject, metered: Metered, judges: str):
    use_judges(priced, judges)
    recorded_as_estimated(priced, metered)  # nothing is recorded
    drop(priced, CASES // 2)
    recorded_as_estimated(priced, metered)  # half of it is


@pytest.mark.parametrize("judges", ["min_words(3)", JUDGES["shared"]], ids=["none", "shared"])
def test_recordings_of_further_trials_take_what_the_dry_run_says(
    priced: EvalProject, metered: Metered, judges: str
):
    use_judges(priced, judges)
    recorded_as_estimated(priced, metered)
    recorded_as_estimated(priced, metered, "--refresh")
    recorded_as_estimated(priced, metered, "--trials=3")


NEEDS = re.compile(
    r"^  (?:about )?(\d+) (?:completions?|calls?) of .*?: about ([\d.]+)(k?) tokens, \$([\d.]+)$",
    re.MULTILINE,
)


# Of `record --dry-run` are the numbers, so some judges show that a replay prints them.
@pytest.mark.parametrize(
    "judges",
    ["min_words(3)", JUDGES["shared"], JUDGES["claims"]],
    ids=["none", "shared", "claims"],
)
def test_a_run_takes_what_its_replay_says(priced: EvalProject, metered: Metered, judges: str):
    use_judges(priced, judges)
    for missing in (CASES, CASES // 2):
        drop(priced, missing)
        found = NEEDS.findall(priced.run("--record=none").stdout.str())
        calls = sum(float(one[0]) for one in found)
        tokens = sum(float(one[1]) * (1000 if one[2] else 1) for one in found)
        assert metered.total == 0
        priced.run("--record=missing")
        near((calls, tokens, sum(float(one[3]) for one in found)), metered)


def test_completions_of_another_version_show_how_long_new_ones_are(
    priced: EvalProject, metered: Metered
):
    recorded_as_estimated(priced, metered)
    priced.prompt(
        model="local:clerk-1", system=f"{SYSTEM} Be precise, and name times.", version="1.1.0"
    )
    recorded_as_estimated(priced, metered)


@pytest.mark.parametrize("judges", ["min_words(3)", 'min_words(3), rubric("clear")'])
def test_a_baseline_takes_what_its_dry_run_says_and_no_completion_twice(
    priced: EvalProject, metered: Metered, judges: str
):
    priced.judged_by(judges)
    update = ("baseline", "update", "--new-session", "--trials=2")
    estimate = of_bills(document(priced, *update, "--dry-run")["planned"])
    assert metered.total == 0
    document(priced, *update)
    assert metered.total == estimate[0]
    near(estimate, metered)
