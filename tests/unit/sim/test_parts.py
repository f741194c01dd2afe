"""The pieces that the simulated model is made of."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import regauge.sim
from regauge.prompts import Message, ToolCall
from regauge.providers import CompletionRequest
from regauge.sim._instructions import (
    label_names,
    read_keys,
    read_labels,
    read_layout,
    read_limits,
    read_sections,
)
from regauge.sim._reply import tool_results
from regauge.sim._rules import CLERK_1, Dice
from regauge.sim._text import find_moments, quantities, stem, stems, write_moment
from regauge.sim._values import is_code

MODULES = sorted(m.name for m in pkgutil.walk_packages(regauge.sim.__path__, "regauge.sim."))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_example_of_the_page_on_the_model_runs():
    page = Path(__file__).parents[3] / "docs" / "simulated-model.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert (results.failed, results.attempted > 0) == (0, True)


def user(text):
    return read_layout([Message(role="user", content=text)])


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("Summarise this.\n\n<report>\nBody\n</report>\n\nAnswer briefly.", "Body"),
        ("Summarise this:\n```\nBody\n```", "Body"),
        ('Summarise the text.\n"""\nBody\n"""', "Body"),
        ("Summarise the report.\n\nReport:\nBody\n\nAnswer with JSON only.", "Body"),
        ("Summarise: Body of a text", "Body of a text"),
        ("Return JSON.\n\nThe pod restarted.\n\nAnswer in one sentence.", "The pod restarted."),
    ],
)
def test_a_user_message_alone_is_split_into_instructions_and_document(text, document):
    layout = user(text)
    assert layout.document.strip() == document
    assert document not in layout.instructions


def test_earlier_turns_are_examples():
    layout = read_layout(
        [
            Message(role="system", content="Label it."),
            Message(role="user", content="disk full"),
            Message(role="assistant", content="critical"),
            Message(role="user", content="all fine"),
        ]
    )
    assert [(s.input, s.output) for s in layout.shots] == [("disk full", "critical")]
    assert layout.document == "all fine"


def test_all_user_messages_but_the_last_are_instructions():
    messages = [Message(role="user", content=text) for text in ("Label it.", "all fine")]
    assert read_layout(messages).instructions.startswith("Label it.")


@pytest.mark.parametrize(
    "text",
    [
        "Labels:\n- red: stop\n- green: go",
        "Use exactly one of: red, green.",
        'Answer "red" or "green".',
        "Classes are `red` | `green`",
    ],
)
def test_labels_are_found_however_they_are_listed(text):
    assert label_names(text) == ("red", "green")


@pytest.mark.parametrize(
    "text",
    [
        "- red: the pump is broken\n- green: everything else",
        "* **red** — the pump is broken\n* **green** — everything else",
        "| red | the pump is broken |\n| green | everything else |",
        "### red\n\nthe pump is broken\n\n### green\n\neverything else",
        "Choose red when the pump is broken. Choose green for everything else.",
    ],
)
def test_definitions_are_found_however_they_are_written(text):
    red, green = read_labels(text, ("red", "green"))
    assert any("pump" in clause.words for clause in red.clauses)
    assert not any("pump" in clause.words for clause in green.clauses)


def test_limits_are_read_in_several_wordings():
    for text in (
        "at most 80 words",
        "no more than 80 words",
        "80 words or fewer",
        "under 80 words",
        "max. 80 words",
    ):
        assert read_limits(text).words_max == 80, text
    assert read_limits("three bullet points").bullets == 3
    assert read_limits("in two sentences").sentences_max == 2
    assert read_limits("at least 30 words").words_max is None


@pytest.mark.parametrize(
    "text",
    [
        "Use these headings:\n\n## Meaning\n## Impact",
        "Sections:\n- Meaning: what\n- Impact: whom",
        "with the sections Meaning and Impact.",
        "Start with `## Meaning`, then `## Impact`.",
    ],
)
def test_sections_are_read_in_several_wordings(text):
    assert [section.name for section in read_sections(text)] == ["Meaning", "Impact"]


@pytest.mark.parametrize(
    "text",
    [
        'Return JSON like {"title": "...", "impact": "..."}.',
        "Return JSON with the keys title and impact.",
        "Return JSON with these keys:\n- title: the title\n- impact: the impact",
        'Return JSON with the fields "title" and "impact".',
    ],
)
def test_keys_are_read_in_several_wordings(text):
    assert [key.name for key in read_keys(text, None, wants_json=True)] == ["title", "impact"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2024-02-03 9:05", "2024-02-03 09:05"),
        ("2024-02-03T09:05:33Z", "2024-02-03 09:05"),
        ("2024-02-03 1605", "2024-02-03 16:05"),
        ("2024/02/03 11.56", "2024-02-03 11:56"),
        ("3 February 2024 at 4:05 pm", "2024-02-03 16:05"),
        ("February 3rd, 2024, 09:05 UTC", "2024-02-03 09:05"),
        ("03.02.2024 um 09:05 Uhr", "2024-02-03 09:05"),
        ("3. Februar 2024, 09:05", "2024-02-03 09:05"),
        ("14:40 on 3 February 2024", "2024-02-03 14:40"),
        ("3 February 2024 at 12:05 am", "2024-02-03 00:05"),
        ("3 February 2024 at 12:05 pm", "2024-02-03 12:05"),
    ],
)
def test_times_are_read_in_many_formats(text, written):
    assert write_moment(find_moments(f"It began {text} or so.")[0], "YYYY-MM-DD HH:MM") == written


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("sum(rate(errors[5m]))", True),
        ("rate(errors)[5m", True),  # three marks
        ("rate (errors) of the last five minutes", False),  # two
        ("node_load1 > 4", True),  # a metric that is compared
        ("node load > 4", False),
        (f"{'a' * 46}(=)", True),  # more than six marks of a hundred characters
        (f"{'a' * 47}(=)", False),  # exactly six
        ("", False),
    ],
)
def test_an_expression_is_told_from_prose(text: str, code: bool):  # noqa: FBT001
    assert is_code(text) is code


def test_thresholds_of_expressions_are_shares_and_durations():
    def values(text):
        return [(q.kind, round(q.value, 3)) for q in quantities(text, code=True)]

    assert values("a_bytes / b_bytes < 0.03") == [("percent", 3)]
    assert values("a * 100 / b > 90") == [("percent", 90)]
    assert values("a * 100 / b >= 100") == [("percent", 100)]
    assert values("a * 100 / b > 101") == []
    assert values("cert_ttl_seconds < 604800") == [("seconds", 604800)]
    assert ("seconds", 14400) in values("predict_linear(a_bytes[6h], 4*60*60) < 0")
    assert is_code("cert_ttl_seconds < 604800")
    assert not is_code("The disk is full (again).")


@given(clarity=st.floats(0, 1), other=st.floats(0, 1), heat=st.floats(0, 2), more=st.floats(0, 2))
def test_failure_is_likelier_with_less_clarity_more_heat_and_more_text(clarity, other, heat, more):
    def p(clarity, heat, tokens=100):
        return Dice(
            rules=CLERK_1, document="d", number=0, temperature=heat, tokens=tokens
        ).probability(clarity)

    low, high = sorted((clarity, other))
    assert p(low, heat) >= p(high, heat)
    cold, hot = sorted((heat, more))
    assert p(clarity, hot) >= p(clarity, cold)
    assert p(clarity, heat, 9000) >= p(clarity, heat)
    assert 0 < p(clarity, heat) <= 0.95


def test_the_clearest_instruction_fails_once_in_two_hundred():
    def fails(document):
        return Dice(
            rules=CLERK_1, document=str(document), number=0, temperature=0, tokens=100
        ).fails("x", 1.0)

    assert 0.002 <= sum(fails(n) for n in range(20_000)) / 20_000 <= 0.008


@pytest.mark.parametrize("word", ["ready", "healthy"])
def test_a_word_and_its_prefix_of_negation_read_alike(word: str):
    assert stems(f"The pod is un{word}.") == stems(f"The pod is not {word}.")
    assert stems(f"un{word} node")[-1] == stems("node")[0]
    assert f"not_{stem(word)}" not in stems(f"The pod is {word}, not the node")


def test_results_of_tools_since_the_last_turn_have_the_names_of_their_fields_or_tools():
    def called(*names):
        calls = tuple(
            ToolCall(id=f"c{n}", name=name, arguments="{}") for n, name in enumerate(names)
        )
        return Message(role="assistant", content="", tool_calls=calls)

    def result(number, text):
        return Message(role="tool", content=text, tool_call_id=f"c{number}")

    asked = Message(role="user", content="Where is 4711?")
    old = [asked, called("lookup"), result(0, '{"status": "old", "seen": true}')]
    new = [
        called("lookup", "towns", "note", "count"),
        result(0, '{"status": "größer", "items": ["Größe", 1], "paid": true}'),
        result(1, '["Köln"]'),
        result(2, "plain words"),
        result(3, "3"),
        result(9, "of no call"),
    ]

    def read(*messages):
        request = CompletionRequest(
            provider="sim", model="clerk-1", messages=messages, parameters={}
        )
        return tool_results(request)

    assert read(asked) == {}
    assert read(*old) == {"status": "old", "seen": "true"}
    assert read(*old, asked) == {}
    assert read(*old, asked, *new) == {
        "status": "größer",
        "items": '["Größe", 1]',
        "paid": "true",
        "towns": '["Köln"]',
        "note": "plain words",
        "count": "3",
        "result": "of no call",
    }
