"""What a refinement costs: every call of every model, in the estimate, the limits and the report."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.recordings import Recording
from tests import processes
from tests.sim_server import SimServer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
NAME = "incident-summary"
EVAL = """\
from regauge import golden
from regauge.judges import json_parses, max_words, rubric

@golden(
    "incident-summary",
    judges=[
        json_parses(kind="object"),
        max_words(80, field="summary"),
        rubric("incident-faithfulness").with_criterion("correctness"),
    ],
)
def test_incident_summary(result):
    result.check()
"""
COPIED = (
    f"prompts/{NAME}.prompt.yml",
    "prompts/judges/incident-faithfulness.prompt.yml",
    "fixtures/labels/incident-faithfulness.jsonl",
    "fixtures/labels/incident-faithfulness.calibration.json",
)
INPUT_USD, OUTPUT_USD = 3.0, 15.0
CASES = 18


@pytest.fixture
def project(tmp_path: Path) -> Iterator[tuple[Path, SimServer]]:
    """A prompt that lost its word limit; its model and its judge's are served over HTTP."""
    for path in COPIED:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    prompt = tmp_path / COPIED[0]
    prompt.write_text(prompt.read_text().replace("At most 80 words.\n", "At most 80 sentences.\n"))
    golden = tmp_path / f"fixtures/golden/{NAME}.jsonl"
    golden.parent.mkdir(parents=True)
    lines = (ROOT / f"fixtures/golden/{NAME}.jsonl").read_text().splitlines()[:CASES]
    cases = [json.loads(line) for line in lines]
    for number, case in enumerate(cases):
        report = ROOT / "fixtures" / case["inputs"]["report"]["file"]
        case["inputs"] = {"report": report.read_text()}
        case["split"] = "train" if number % 3 else "holdout"
    golden.write_text("\n".join(map(json.dumps, cases)) + "\n")
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/test_incident_summary.py").write_text(EVAL)
    with SimServer() as server:
        (tmp_path / "pyproject.toml").write_text(
            '[tool.regauge]\njudge_model = "sim:clerk-1"\n'
            f'[tool.regauge.providers.sim]\nbase_url = "{server.base_url}"\n'
            f"prices = {{ clerk-1 = {{ input_per_million = {INPUT_USD},"
            f" output_per_million = {OUTPUT_USD} }} }}\n"
        )
        yield tmp_path, server


def refine(project: Path, *words: str, code: int | None = 0) -> str:
    done = processes.run(
        "regauge",
        "refine",
        NAME,
        "--proposers=rules",
        *words,
        cwd=project,
        env=dict(os.environ),
        timeout_s=240,
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return str(done.stdout)


def spent(project: Path) -> dict[str, Any]:
    # Two runs may begin in the same second.
    runs = (project / ".regauge/refine").glob("*/result.json")
    last = max(runs, key=lambda run: run.stat().st_mtime_ns)
    found: dict[str, Any] = json.loads(last.read_text())["usage"]
    return found


def stored_usd(project: Path) -> float:
    """What all answers in the local store cost, by their tokens."""
    with closing(sqlite3.connect(project / ".regauge/store.sqlite3")) as database:
        rows = database.execute("SELECT body FROM answers").fetchall()
    usages = [Recording.from_json(json.loads(body)).completion.usage for (body,) in rows]
    return sum(u.input_tokens * INPUT_USD + u.output_tokens * OUTPUT_USD for u in usages) / 1e6


def test_judgements_are_in_the_estimate_the_count_and_the_report(
    project: tuple[Path, SimServer],
) -> None:
    root, server = project
    estimate = json.loads(refine(root, "--dry-run", "--json"))
    assert estimate["has_llm_judges"]
    said = refine(root)
    found = spent(root)
    assert found["calls"] == found["completions"] + found["judge_calls"] + found["model_calls"]
    assert 0 < found["judge_calls"] < found["completions"]
    assert server.counters.requests == found["calls"] - found["replays"]
    assert estimate["one_repair_calls"] / 1.5 < found["calls"] < 1.5 * estimate["one_repair_calls"]
    assert f"{found['judge_calls']} of LLM judges" in said
    # A run that finds everything in the local store says that it made no call.
    refine(root, "--ignore-attempts")
    again = spent(root)
    assert again["replays"] == again["calls"]


def test_no_call_of_any_model_passes_the_budget(project: tuple[Path, SimServer]) -> None:
    root, server = project
    least = json.loads(refine(root, "--dry-run", "--json"))["least_calls"]
    refine(root, f"--budget-calls={least}", code=None)
    assert 0 < server.counters.requests <= least
    assert spent(root)["calls"] <= least


def test_no_run_costs_more_than_its_dollars(project: tuple[Path, SimServer]) -> None:
    root, _ = project
    estimate = json.loads(refine(root, "--dry-run", "--json"))
    cap = round(estimate["call_usd"] * estimate["first_look_calls"] * 0.6, 4)
    said = refine(root, f"--budget-usd={cap}", code=3)
    assert "usd" in said
    assert 0.5 * cap < stored_usd(root) <= cap
