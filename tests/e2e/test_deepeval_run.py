"""deepeval's metrics in a run: recorded through the simulated endpoint, replayed without deepeval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.judge_source import MODEL_JUDGES_GATE
from tests.sim_server import SimServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import EvalProject

RIGHT = 'deepeval("GEval", name="right", criteria="Does it say how severe the alert is?")'
FAITHFUL = 'deepeval("Faithfulness", fields={"retrieval_context": "inputs.text"}, threshold=0.1)'
NO_DEEPEVAL = """
import sys

def pytest_sessionfinish(session):
    print("loaded:", sorted({"deepeval", "openai"} & set(sys.modules)))
"""


@pytest.fixture
def judged(project: EvalProject) -> Iterator[EvalProject]:
    """Three cases, judged by two metrics that ask the simulated model over HTTP."""
    with SimServer() as server:
        project.use(server.base_url)
        project.settings('judge_model = "local:clerk-1"')
        project.prompt(model="local:clerk-1")
        project.golden([project.case(number) for number in range(3)])
        project.judged_by(f"min_chars(1), {RIGHT}, {FAITHFUL}", more=MODEL_JUDGES_GATE)
        project.write("evals/conftest.py", NO_DEEPEVAL)
        yield project


def verdicts(judged: EvalProject) -> list[tuple[str, str, str, float]]:
    return sorted(
        (row["case"], verdict["judge"], verdict["outcome"], verdict["score"])
        for row in judged.rows()
        for verdict in row["verdicts"]
    )


def test_a_metric_is_measured_recorded_and_replayed_without_deepeval(judged: EvalProject):
    live = judged.run("-s")
    assert "loaded: ['deepeval', 'openai']" in live.stdout.str(), live.stdout.str()
    first = verdicts(judged)
    assert len(first) == 9
    assert len(judged.recordings("verdicts/triage")) == 6
    steps = [line for line in judged.recordings("judges/triage") if '"steps"' in str(line)]
    assert len(steps) == 1, "steps are made once, not for each case"
    said, _ = judged.start_from_nothing("--record=none", "-s").communicate(timeout=600)
    assert "loaded: []" in said, said
    assert verdicts(judged) == first
    again = judged.run("--record=none", "--rejudge", "-s")
    assert "loaded: ['deepeval'" in again.stdout.str(), again.stdout.str()
    assert verdicts(judged) == first
    strict = FAITHFUL.replace("0.1", "1.0")
    judged.judged_by(f"min_chars(1), {RIGHT}, {strict}", more=MODEL_JUDGES_GATE)
    # The process that forks has the package `openai` loaded.
    said = judged.run("--record=none", "-s").stdout.str()
    assert "loaded: ['openai']" in said, "a threshold is ours, and measures nothing anew"
    assert [score for *_, score in verdicts(judged)] == [score for *_, score in first]


def test_another_criterion_is_not_answered_by_what_was_recorded(judged: EvalProject):
    judged.loaded = ("quiet_deepeval",)
    judged.run()
    assert len(judged.recordings("verdicts/triage")) == 6
    other = RIGHT.replace("how severe", "how new")
    judged.judged_by(f"min_chars(1), {other}, {FAITHFUL}", more=MODEL_JUDGES_GATE)
    replay = judged.run("--record=none")
    assert replay.ret != 0
    replay.stdout.fnmatch_lines(["*judge right, 3 judgements of 3 cases*older request*"])


def test_one_error_of_all_calls_leaves_every_case_unmeasured(
    judged: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    """Without its key a provider raises the same error for each call; deepeval follows its causes."""
    judged.settings('judge_model = "openai:gpt-5.4-mini"')
    judged.judged_by(f"min_chars(1), {RIGHT}, {FAITHFUL}", more=MODEL_JUDGES_GATE)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    judged.loaded = ("quiet_deepeval",)
    command = judged.start()
    try:
        output, _ = command.communicate(timeout=90)
    finally:
        command.kill()
    assert "3 unmeasured" in output, output
    assert "OPENAI_API_KEY is not set" in output, output
