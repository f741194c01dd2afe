"""The documents of finished runs, and the rationale that people read of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.refine.delivery import Revision, evidence_lines, headline, markdown_of, result_of
from regauge.refine.runs import TrailFile, read_trail
from tests.transcripts import assert_as_written
from tests.unit.refine.loop.test_transcripts import RUNS

SHOWN = (
    "goal-met", "improved", "goal-open", "nothing-to-refine", "no-acceptable-edit", "questions",
    "suite-refused", "candidates", "calls", "underpowered", "unreadable", "interrupted", "wild 1",
    "wild 3", "wild 7", "wild 10", "noise 0.2", "steadied", "not steadied", "judged by models",
    "interrupted in the gate", "few calls", "more calls", "without holdout", "goals, three",
    "goal, lax",
    "overfit",
)  # fmt: skip


# The models of a run; those of the others are simulated.
MODELS = {"candidates": ["local:a", "sim:clerk-1"], "calls": ["local:a"]}


def plain(value: Any) -> Any:
    """Floats without the digits that another machine may compute otherwise."""
    match value:
        case float():
            return float(f"{value:.4g}")
        case dict():
            return {key: plain(each) for key, each in value.items()}  # type: ignore[misc]
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value


@pytest.mark.parametrize("name", SHOWN)
def test_a_finished_run_is_told_as_it_was_written_down(name: str, tmp_path: Path):
    here = RUNS[name]()
    path = tmp_path / "trail.jsonl"
    began = {"prompt": "p", "models": MODELS.get(name, ["sim:clerk-1"]), "memory": []}
    began["warnings"] = ["one warning"]
    state = here.run(trail=TrailFile.begin(path, began))
    assert state.stop is not None
    config = replace(here.config, feedback="people said" if name.startswith("wild") else "")
    subject: Any = SimpleNamespace(
        prompt=SimpleNamespace(
            name="p",
            path=Path("prompts/p.prompt.yml"),
            version="1.0.0",
            source=config.base.full_text,
        ),
        text=config.base,
        feedback=SimpleNamespace(evidence=()),
    )
    revision = Revision(
        text=state.text.full_text,
        version="1.1.0",
        lock="",
        note="a note",
        version_reason="a new rule",
    )
    document = result_of(
        "r",
        subject,
        replace(state, config=config),
        events=read_trail(path),
        revision=revision if state.stop.proposal else None,
        replayed_calls=2,
    )
    values = document.model_dump(mode="json").items()
    facts = [f"{key}: {json.dumps(plain(value))}" for key, value in values]
    proofs = [headline(document), *evidence_lines(document)]
    text = "\n".join([*facts, "", *proofs, "", markdown_of(document)])
    assert_as_written(text, f"results/{name}")
