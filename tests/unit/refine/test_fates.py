"""What became of edits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from regauge.cli.refine import command
from regauge.errors import PromptError
from regauge.refine.delivery import edit_results
from regauge.refine.loop._state import RevisionDecision, Spending
from regauge.refine.runs import SCHEMA_VERSION
from tests.unit.refine.test_rationale import NOTHING
from tests.unit.refine.world import JSON, TRAIN, adding, without, world

REFUSAL = RevisionDecision(
    decision="reject", reasons=("all worse",), outcomes=(), spending=Spending()
)


def fates(here) -> dict[str, str]:
    """By the line that an edit adds."""
    state = here.run()
    found = edit_results(state.memory.attempts, has_proposal=state.stop.proposal)
    assert {op for entry in found for op in entry.ops.split("+")} <= {
        "insert",
        "replace",
        "delete",
    }
    return {entry.strategy: entry.result for entry in found}


def edits(*lines: str):
    return [replace(adding(line), strategy=line) for line in lines]


def test_each_edit_ends_in_one_fate():
    fluff, leak = "- Kindly mind bees.", f"- Mind order {TRAIN[0]}-x7."
    here = world(without("json"), propose=lambda *_: edits(fluff, leak, JSON))
    assert fates(here) == {fluff: "screened-out", leak: "guarded", JSON: "kept"}

    refused = world(without("json"), says=lambda _: REFUSAL, propose=lambda *_: edits(JSON))
    assert fates(refused) == {JSON: "suite-refused"}


def test_an_edit_that_breaks_another_check_is_refuted():
    def trading(text, _, check):
        return ("jason" in text) == (check == "json")

    here = world(without("json"), passes=trading, propose=lambda *_: edits("- Answer in jason."))
    assert fates(here)["- Answer in jason."] == "refuted"


def test_the_command_counts_over_all_runs(tmp_path, monkeypatch):
    (tmp_path / "prompts").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "no run tried an edit yet" in CliRunner().invoke(command, ["stats"]).output
    rule = {"proposer": "rules", "strategy": "add-rule", "ops": "insert"}
    facts = {"schema_version": SCHEMA_VERSION, "prompt": "p", "status": "proposed"}
    for number, fates_of_run in enumerate((["kept", "refuted"], ["kept"])):
        run = tmp_path / f".regauge/refine/2026010{number}-000000-ab"
        run.mkdir(parents=True)
        edits_of_run = [{**rule, "result": fate} for fate in fates_of_run]
        (run / "run.json").write_text(json.dumps(facts))
        (run / "result.json").write_text(json.dumps({**NOTHING, "edits": edits_of_run}))
    (tmp_path / ".regauge/refine/20260103-000000-ab").mkdir()
    (tmp_path / ".regauge/refine/20260103-000000-ab/run.json").write_text("{}")

    said = CliRunner().invoke(command, ["stats"]).output
    assert said.startswith(
        "3 edits of 2 runs\n\nstrategy  kept  refuted\nadd-rule     2        1\n"
    )
    (tmp_path / ".regauge/refine/20260103-000000-ab/run.json").write_text(json.dumps(facts))
    (tmp_path / ".regauge/refine/20260103-000000-ab/result.json").write_text('{"run": 1}')
    damaged = CliRunner().invoke(command, ["stats"])
    assert damaged.stdout == said
    assert damaged.stderr.startswith("warning: ")
    assert "20260103-000000-ab/result.json: " in damaged.stderr
    (tmp_path / ".regauge/refine/20260103-000000-ab/result.json").unlink()
    document = json.loads(CliRunner().invoke(command, ["stats", "p", "--json"]).output)
    assert document["proposer"] == {"rules": {"kept": 2, "refuted": 1}}
    with pytest.raises(PromptError, match="there is no prompt 'q'"):
        CliRunner().invoke(command, ["stats", "q"], catch_exceptions=False)
    (tmp_path / "prompts/q.prompt.yml").write_text("messages: []\n")
    assert "no run tried an edit of q yet" in CliRunner().invoke(command, ["stats", "q"]).output
    none = json.loads(CliRunner().invoke(command, ["stats", "q", "--json"]).output)
    assert none["edits"] == 0
