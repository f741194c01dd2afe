"""What `regauge doctor` says of models and their endpoints."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import Dataset
from regauge.maintenance.doctor import check_models, find_duplicates, find_leaks
from regauge.project import Settings
from regauge.prompts import Message
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.maintenance.doctor import DoctorResult

TODAY = datetime.now(UTC).date()


def results(settings: dict[str, Any], *models: str, offline: bool = True, **environ: str):
    providers = {"providers": settings}
    found = check_models(models, Settings.model_validate(providers), environ, offline=offline)
    return [(one.check, one.level, one.message, one.fix) for one in found]


LOCAL = {"base_url": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(
    ("settings", "model", "expected"),
    [
        ({}, "clerk", ("models", "error", "'clerk'", "")),
        ({}, "sim:clerk-1", ("models", "ok", "clerk-1: simulated, needs no key; no LLM", "")),
        ({}, "nowhere:m", ("endpoints", "error", "nowhere", "")),
        ({"x": {**LOCAL, "api": "opnai"}}, "x:m", ("endpoints", "error", "api = 'opnai'", "did you mean 'openai'?")),
        ({"x": {**LOCAL, "api_key_command": ["sh", "-c", "k"]}}, "x:m", ("keys", "ok", "sh prints the key for x", "")),
        ({"x": {**LOCAL, "api_key_command": ["no-such"]}}, "x:m", ("keys", "warning", "no program 'no-such'", "install no-such")),
        ({"x": {**LOCAL, "api_key_env": "X_KEY"}}, "x:m", ("keys", "warning", "X_KEY is not set: x can be replayed", "export X_KEY=...")),
        ({"x": {**LOCAL, "api_key_env": "SET"}}, "x:m", ("keys", "ok", "SET is set, for x", "")),
        ({"x": {**LOCAL, "api_key_env": "BLANK"}}, "x:m", ("keys", "warning", "BLANK is not set", "")),
    ],
)  # fmt: skip
def test_a_model_or_endpoint_with_a_problem_is_named(
    settings: dict[str, Any], model: str, expected: tuple[str, str, str, str]
):
    found = results(settings, model, SET="k", BLANK=" ")
    (check, level, message, fix), *more = found
    assert not more
    assert (check, level) == expected[:2]
    assert expected[2] in message
    assert expected[3] in fix


def test_an_endpoint_without_a_key_that_is_offline_has_no_result():
    assert results({"x": LOCAL}, "x:m") == []


class Listing(Served):
    """Lists models, some of which end."""

    def __init__(self) -> None:
        days = {"open": None, "far": 200, "near": 30, "past": -3}

        class Handler(JsonHandler):
            def answer(self) -> None:
                rows = [
                    {"id": name}
                    | ({"shutdown_date": str(TODAY + timedelta(days=left))} if left else {})
                    for name, left in days.items()
                ]
                self.say({"data": rows})

        super().__init__(Handler)


@pytest.fixture
def listing(socket_enabled: None) -> Iterator[Listing]:
    with Listing() as served:
        yield served


def test_listed_models_end_in_time_or_not(listing: Listing):
    settings = {"x": {"base_url": f"{listing.address}/v1"}}
    models = ["x:open", "x:far", "x:near", "x:past", "x:other"]
    first, *others = results(settings, *models, offline=False)
    assert first[:3] == ("endpoints", "ok", "x lists 4 models")
    assert [(level, message.partition(",")[0]) for _, level, message, _ in others] == [
        ("ok", f"x:far is shut down on {TODAY + timedelta(days=200)}"),
        ("warning", f"x:near is shut down on {TODAY + timedelta(days=30)}"),
        ("ok", "x:open is listed"),
        ("error", "x:other is not among the models its endpoint lists"),
        ("error", f"x:past was shut down on {TODAY - timedelta(days=3)}"),
    ]


def test_an_endpoint_that_is_away_is_an_error(socket_enabled: None):
    ((check, level, message, fix),) = results({"x": LOCAL}, "x:m", offline=False)
    assert (check, level) == ("endpoints", "error")
    assert message.startswith("x: ")
    assert "check base_url and key" in fix


def dataset_of(made: Any, *rows: dict[str, Any]) -> Dataset:
    cases = tuple(made.case(number, **row) for number, row in enumerate(rows))
    return Dataset(name="alert", path=Path("fixtures/golden/alert.jsonl"), cases=cases)


def stated(found: Iterator[DoctorResult]) -> list[tuple[str, str, str]]:
    return [(one.level, one.message, one.fix) for one in found]


def test_cases_with_the_same_inputs_are_named_with_those_that_contradict_first(made: Any):
    rows = [
        {"inputs": {"text": "Disk full", "n": 1}, "expected": "x"},
        {"inputs": {"n": 1, "text": "  disk\n FULL "}, "expected": "x"},
        {"inputs": {"text": "Disk full", "n": 2}, "expected": "x"},
        {"inputs": {"text": "disk full", "n": 1}, "expected": "y"},
        {"inputs": {"text": 1}},
        {"inputs": {"text": "1"}},
    ]
    at = "fixtures/golden/alert.jsonl"
    fix = "keep one of each pair"
    contrary = f"1 with the same inputs, and expect something else: c3 ({at}:4) is c0"
    assert stated(find_duplicates([dataset_of(made, *rows), dataset_of(made, *rows[:1])])) == [
        ("error", f"alert: {contrary}", fix),
        ("warning", f"alert: 1 with the same inputs: c1 ({at}:2) is c0", fix),
    ]
    (named,) = find_duplicates([dataset_of(made, *[rows[0]] * 7)])
    assert named.message.endswith(f"c5 ({at}:6) is c0 and 1 more")


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("The disk of api-7 is full.", True),
        ("  the DISK of\napi-7 is full. ", True),
        ("of api-7 is full. Restart", True),
        ("disk of api-7 is full", False),  # 21 characters
        ("is full. Restart api-7, please", False),  # not in the prompt
        ("api-7 Restart-the-pods-and-so-on", False),  # too few words
        ("full. Restart the-pods-and-so-on", False),
    ],
)
def test_a_case_whose_text_is_in_the_prompt_is_named(made: Any, text: str, leaks: Any):
    content = "Example: The disk of api-7 is full. Restart the-pods-and-so-on"
    prompt = replace(made.suite().prompt, messages=(Message(role="user", content=content),))
    kinds: list[dict[str, Any]] = [
        {"inputs": {"text": text, "n": 1}, "expected": None},
        {"inputs": {"text": "x"}, "expected": text},
        {"inputs": {"text": "x"}, "expected": {"summary": text}},
    ]
    for row in kinds:
        trained = stated(find_leaks(prompt, dataset_of(made, row)))
        own = "write examples of your own: these cases pass whatever the prompt is worth"
        place = "c0 (fixtures/golden/alert.jsonl:1)"
        message = f"alert: its text holds a case: {place}"
        assert trained == ([("warning", message, own)] if leaks else [])
        held = stated(find_leaks(prompt, dataset_of(made, {**row, "split": "holdout"})))
        message = f"alert: its text holds a case held out: {place}"
        out = "take them out of the prompt, or out of the dataset"
        assert held == ([("error", message, out)] if leaks else [])
    (many,) = find_leaks(prompt, dataset_of(made, *kinds[:1] * 6)) if leaks else [None]
    assert many is None or ("6 cases: c0" in many.message and "and 1 more" in many.message)
