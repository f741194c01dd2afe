"""Rows of an imported suite become cases: with the inputs that the prompt inserts."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from regauge.importers import load_importer
from regauge.importers._description import SourcePlace
from regauge.importers._suite import ImportedSuite, Row, chat_of, shared_messages
from regauge.importers.promptfoo._context import Context
from regauge.importers.promptfoo._tests import _csv_test, _expand, _resolve

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "prompts: [a]\nproviders: [openai:gpt-4o]\ntests: [{vars: {q: a}}]\n"
PLACE = SourcePlace(path="suite.json", line=3)
EQUAL = {"type": "equals", "value": "x"}
OPTION = "__config:__expected"
MESSAGES = [{"role": "user", "content": "Sort {{text}} by {{kind}}"}]


def suite_at(root: Path) -> ImportedSuite:
    (root / "suite.json").write_text("{}")
    return ImportedSuite(root / "suite.json", root=root, name="", title="a suite")


def row(**more: Any) -> Row:
    return Row(**({"place": PLACE, "inputs": {"text": "a", "kind": "b", "spare": "c"}} | more))


def test_a_case_has_the_inputs_that_its_prompt_inserts(tmp_path: Path):
    suite = suite_at(tmp_path)
    suite.add_eval("sort", [row(), row(inputs={"text": "x"})], messages=MESSAGES)
    (prompt,) = suite.imported.prompts
    assert prompt.document["inputs"] == [{"name": "text"}, {"name": "kind", "required": False}]
    first, second = (case.document for case in suite.imported.datasets["sort"])
    assert first["inputs"] == {"text": "a", "kind": "b"}
    assert second["inputs"] == {"text": "x"}
    assert {*first} == {"id", "inputs"}
    (imported_eval,) = suite.imported.evals
    assert (imported_eval.prompt, imported_eval.dataset) == ("sort", "sort")


def test_a_case_of_a_target_has_all_inputs_and_no_prompt(tmp_path: Path):
    suite = suite_at(tmp_path)
    suite.add_eval("sort", [row()], messages=[], target="bot")
    assert suite.imported.prompts == []
    (case,) = suite.imported.datasets["sort"]
    assert case.document["inputs"] == {"text": "a", "kind": "b", "spare": "c"}
    assert case.place == PLACE


def test_what_a_row_has_is_written_where_it_is_not_empty(tmp_path: Path):
    suite = suite_at(tmp_path)
    rows = [row(expected=0, tags=["a b", "a;b", " ", "a b"], note="n", checks=["no_comma"])]
    suite.add_eval("sort", rows, messages=MESSAGES)
    (case,) = suite.imported.datasets["sort"]
    assert case.document["expected"] == 0
    assert case.document["tags"] == ["a b", "a,b"]
    assert (case.document["note"], case.document["checks"]) == ("n", ["no_comma"])


def test_without_rows_there_is_a_prompt_and_no_eval(tmp_path: Path):
    suite = suite_at(tmp_path)
    suite.add_eval("sort", [], messages=MESSAGES)
    assert len(suite.imported.prompts) == 1
    assert (suite.imported.datasets, suite.imported.evals) == ({}, [])


@pytest.mark.parametrize(
    ("value", "chat"),
    [
        ("Hi", [{"role": "user", "content": "Hi"}]),
        ([{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Hi"}]),
        ([{"role": "odd", "content": "Hi"}], None),
        ([{"role": "user"}], None),
        (["Hi"], None),
        (3, None),
    ],
)
def test_a_chat_is_a_text_or_messages(value: object, chat: object):
    assert chat_of(value) == chat


def test_messages_that_all_chats_share_are_the_prompt():
    chats = [
        [{"role": "system", "content": "S"}, {"role": "user", "content": text}]
        for text in ("a", "b")
    ]
    messages, inputs = shared_messages(chats)
    assert messages[0] == {"role": "system", "content": "S"}
    assert messages[1]["role"] == "user"
    assert [[*one.values()] for one in inputs] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("values", "resolved", "notes"),
    [
        ({"a": "{{ b }}!", "b": "x\n"}, {"a": "x!", "b": "x"}, 0),
        ({"a": "{{b}}", "b": "{{c}}", "c": [1]}, {"a": "[1]", "b": "[1]", "c": [1]}, 0),
        ({"a": "{{a}} {{gone}}", "b": 3}, {"a": "{{a}} {{gone}}", "b": 3}, 0),
        ({"a": "{{b}}" * 19_000, "b": "y" * 300}, {"a": "{{b}}" * 19_000, "b": "y" * 300}, 1),
    ],
)
def test_variables_insert_each_other_up_to_a_size(
    values: dict[str, Any], resolved: dict[str, Any], notes: int
):
    noted: list[str] = []
    context: Any = SimpleNamespace(note=lambda _kind, text: noted.append(text))
    assert _resolve(values, context) == resolved
    assert noted == ["variables insert each other without end"] * notes


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("shop/promptfooconfig.yaml", "shop"),
        ("shop/evals/promptfooconfig.yaml", "shop"),
        ("shop/evals/smoke.yaml", "shop-smoke"),
        ("shop/shop.yaml", "shop"),
        ("evals/promptfooconfig.yaml", "promptfoo"),
        ("evals/smoke.yaml", "smoke"),
    ],
)
def test_a_configuration_is_named_after_the_nearest_specific_directory(
    tmp_path: Path, file: str, name: str
):
    root, path = tmp_path / file.partition("/")[0], tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG)
    assert load_importer("promptfoo")(path, root=root).name == name


def test_rows_without_a_text_get_numbers(tmp_path: Path):
    suite = suite_at(tmp_path)
    suite.add_dataset("sort", [row(inputs={"n": 3}), row(inputs={"n": [4]})])
    assert [case.document["id"] for case in suite.imported.datasets["sort"]] == ["case-1", "case-2"]
    suite.add_dataset("none", [])
    assert "none" not in suite.imported.datasets


def test_a_link_beside_an_eval_object_is_passed_over_and_the_files_after_it_are_read(
    tmp_path: Path,
):
    folder = tmp_path / "export/evals/eval_1"
    folder.mkdir(parents=True)
    criterion = {
        "type": "string_check",
        "name": "eq",
        "input": "{{sample.output_text}}",
        "operation": "eq",
        "reference": "{{item.label}}",
    }
    eval_object = {"id": "eval_1", "name": "Kinds", "testing_criteria": [criterion]}
    (folder / "eval.json").write_text(json.dumps(eval_object))
    (folder / "b.jsonl").write_text('{"item": {"text": "late", "label": "delivery"}}\n')
    (tmp_path / "elsewhere.jsonl").write_text('{"item": {"text": "secret", "label": "x"}}\n')
    (folder / "a.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    imported = load_importer("openai-evals")(tmp_path / "export", root=tmp_path)
    (cases,) = imported.datasets.values()
    assert [case.document["inputs"] for case in cases] == [{"text": "late"}]


@pytest.mark.parametrize(
    ("cells", "test"),
    [
        ({" q ": "a", "__expected": "x", "p": ""}, {"vars": {"q": "a", "p": ""}, "assert": [EQUAL]}),
        ({"__expected": " ", "__expected2": "x"}, {"assert": [EQUAL]}),
        ({"__expected": "x", "__metric": "m"}, {"assert": [{**EQUAL, "metric": "m"}]}),
        # Options of a column; `__expected` and `__expected1` are the same one.
        ({"__expected": "x", f"{OPTION}:threshold": "1"}, {"assert": [{**EQUAL, "threshold": "1"}]}),
        ({"__expected1": "x", f"{OPTION}:threshold": "1"}, {"assert": [{**EQUAL, "threshold": "1"}]}),
        (
            {"__expected": "x", "__expected2": "x", f"{OPTION}2:threshold": "1"},
            {"assert": [EQUAL, {**EQUAL, "threshold": "1"}]},
        ),
        ({"__expected": "x", f"{OPTION}3:threshold": "1", f"{OPTION}:": "1"}, {"assert": [EQUAL]}),
        ({"__expected": "x", f"{OPTION}:threshold": " "}, {"assert": [EQUAL]}),
        ({"__prefix": "P ", "__suffix": ""}, {"options": {"prefix": "P ", "suffix": ""}}),
        ({"__metadata:a": "b", "__metadata:c[]": "d, e"}, {"metadata": {"a": "b", "c": "d, e"}}),
        ({"__description": "D", "__providerOutput": "o"}, {"description": "D", "providerOutput": "o"}),
        ({"__description": "", "__providerOutput": ""}, {}),
        ({"__threshold": " .5 "}, {"threshold": 0.5}),
        ({"__threshold": "1"}, {"threshold": 1.0}),
        ({"__threshold": "high"}, {}),
    ],
)  # fmt: skip
def test_a_row_of_a_csv_file_is_a_test(cells: dict[str, str], test: dict[str, Any]):
    assert _csv_test(cells) == {"vars": {}, "assert": [], "options": {}, "metadata": {}, **test}


DEFAULT_TEST = {
    "vars": {"a": "1", "b": "2"},
    "options": {"prefix": "p", "provider": "x:y"},
    "metadata": {"team": "ops", "kind": "k"},
    "threshold": 0.5,
    "provider": "openai:gpt-4o",
    "prompts": ["one"],
    "providerOutput": "o",
    "assert": [{"type": "equals", "value": "x"}],
}
OWN_KEYS = {
    "vars": {"b": "3"},
    "options": {"prefix": "q"},
    "metadata": {"kind": "l"},
    "threshold": 0,
    "provider": "openai:gpt-5",
    "prompts": "two",
    "providerOutput": "mine",
}


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (
            {},
            {
                "vars": {"a": "1", "b": "2"},
                "options": {"prefix": "p", "provider": "x:y"},
                "metadata": {"team": "ops", "kind": "k"},
                "threshold": 0.5,
                "providers": ["openai:gpt-4o"],
                "prompts": ["one"],
                "output": "o",
            },
        ),
        (
            OWN_KEYS,
            {
                "vars": {"a": "1", "b": "3"},
                "options": {"prefix": "q", "provider": "x:y"},
                "metadata": {"team": "ops", "kind": "l"},
                "threshold": 0.0,
                "providers": ["openai:gpt-5"],
                "prompts": ["two"],
                "output": "mine",
            },
        ),
    ],
)
def test_a_test_without_a_key_has_that_of_the_default_test(
    tmp_path: Path, body: dict[str, Any], values: dict[str, Any]
):
    context = Context(suite_at(tmp_path), tmp_path / "suite.json")
    (test,) = _expand(body, DEFAULT_TEST, context, 1)
    assert {key: getattr(test, key) for key in values} == values
    assert [assertion.body["value"] for assertion in test.assertions] == ["x"]


@pytest.mark.parametrize(("tests_max", "count"), [(4, 4), (3, 0)])
def test_lists_make_as_many_tests_as_there_is_room_for(tmp_path: Path, tests_max: int, count: int):
    suite = suite_at(tmp_path)
    body = {"vars": {"a": ["1", "2"], "b": ["3", "4"], "c": "5"}}
    tests = [*_expand(body, {}, Context(suite, tmp_path / "suite.json"), tests_max)]
    assert len(tests) == count
    assert [note.text for note in suite.imported.notes] == [
        "a test is not imported: its lists make 4 tests, of 20,000 in all"
    ] * (not count)
