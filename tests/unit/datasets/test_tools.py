"""Results of tools for conversations, in `fixtures/tools`, and a case's record of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from regauge.datasets import load_dataset
from regauge.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path


def load(root: Path, results: str, **case: object):
    """The only case of a dataset with the results in `shop.yml`."""
    fixtures = root / "fixtures"
    (fixtures / "golden").mkdir(parents=True, exist_ok=True)
    (fixtures / "tools").mkdir(exist_ok=True)
    (fixtures / "tools/shop.yml").write_text(results)
    row = {"id": "a", "inputs": {"x": "y"}, "expected": None, "tools": "shop"} | case
    path = fixtures / "golden/talk.jsonl"
    path.write_text(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n")
    (found,) = load_dataset(path, fixtures_dir=fixtures)
    return found


TOOLS = """\
look:
  - args: {id: 7, tags: [a, b]}
    result: {state: sent}
  - args: {id: 8}
    error: gone
  - error
note: {result: saved}
fetch: {function: "app.orders:fetch"}
"""


def test_results_and_functions_are_read_by_tool(tmp_path: Path):
    tools = load(tmp_path, TOOLS).script.tools
    assert {name: [entry.args for entry in rows] for name, rows in tools.entries.items()} == {
        "look": [{"id": 7, "tags": ["a", "b"]}, {"id": 8}, {}],
        "note": [{}],
    }
    sent, gone, failed = (entry.content for entry in tools.entries["look"])
    assert json.loads(sent) == {"state": "sent"}
    assert "gone" in gone
    assert "the call failed" in failed
    assert tools.entries["note"][0].content == "saved"
    assert dict(tools.functions) == {"fetch": "app.orders:fetch"}
    assert load(tmp_path, "").script.tools.entries == {}


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ("- a", "shop.yml:1: the file is not a mapping: results by tool"),
        ("look: {function: fetch}", "shop.yml:1: look: 'fetch' names no function"),
        ("look: [eror]", "look: 'eror' is not a result\n  fix: did you mean 'error'?"),
        ("look: [3]", "look: 3 is not a result"),
        ("look: [{resul: 1}]", "an entry has no key 'resul'\n  fix: did you mean 'result'?"),
        ("look: [{args: {}}]", "look: an entry has no `result`"),
        ("look: [{args: [1], result: 1}]", "look: `args` is not a mapping"),
        ("look: [{result: 1, error: x}]", "both `result` and `error`\n  fix: remove one of them"),
    ],
)
def test_a_faulty_result_is_named_with_its_line(tmp_path: Path, tools: str, error: str):
    with pytest.raises(DatasetError) as caught:
        load(tmp_path, tools)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("turns", "error"),
    [
        (["Hi"], "turn 1 is 'Hi', not a mapping\n  fix: \"turns\": [{"),
        ([{"user": "Hi"}, [1]], "turn 2 is a list, not a mapping"),
        ([], "turns is []"),
        ([{"user": "Hi"}, {"expected": 1}], "turn 2 has no message of the user"),
        ([{"usr": "Hi"}], "turn 1 has no key 'usr'\n  fix: did you mean 'user'?"),
        ([{"user": ["Hi", 3]}], "the user of turn 1 is a list, not text"),
        ([{"user": 3}], "the user of turn 1 is 3, not text"),
    ],
)
def test_a_faulty_turn_is_named(tmp_path: Path, turns: object, error: str):
    with pytest.raises(DatasetError) as caught:
        load(tmp_path, TOOLS, turns=turns)
    assert error in str(caught.value)


def test_files_in_a_message_are_read_as_its_text(tmp_path: Path):
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/note.txt").write_text("The note.")
    parts = ["See", {"file": "note.txt"}, {"file": "note.txt", "line": 3}]
    script = load(tmp_path, TOOLS, turns=[{"user": parts[:2]}], inputs={"x": parts}).script
    assert script.turns[0].user == "SeeThe note."


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("shopp", "there is no file fixtures/tools/shopp.yml\n  fix: did you mean 'shop'?"),
        ("zzz", "fix: write it: a list of results for each tool"),
        ("../tools/shop", "tools is '../tools/shop'\n  fix: name a file of tools/"),
        (".shop", "tools is '.shop'"),
        ("a\\b", "tools is"),
    ],
)
def test_a_name_that_is_no_file_of_tools_is_named(tmp_path: Path, name: str, error: str):
    with pytest.raises(DatasetError) as caught:
        load(tmp_path, TOOLS, tools=name)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    "conversation",
    [
        {"tools": "shop"},
        {"tools": None, "turns": [{"user": "Hi"}, {"user": "Bye", "expected": "x"}]},
        {"tools": "shop", "max_steps": 3, "turns": [{"user": "Hi"}]},
        {"tools": None, "persona": "You are Ann.", "max_turns": 4},
    ],
)
def test_a_conversation_is_written_as_it_was_read(tmp_path: Path, conversation: dict[str, object]):
    if "persona" in conversation:
        (tmp_path / "prompts").mkdir()
    script = load(tmp_path, TOOLS, **conversation).script
    assert script.to_record() == {k: v for k, v in conversation.items() if v is not None}
