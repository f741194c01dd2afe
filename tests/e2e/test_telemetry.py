"""Verdicts as OpenTelemetry events, and golden cases from spans, as processes."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANDIDATES = "fixtures/candidates/kind.jsonl"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project with a prompt of two inputs, two cases and an eval."""
    place = Place(tmp_path)
    place.write("pyproject.toml", "[tool.regauge]\nmodel = 'sim:clerk-1'\n")
    place.write(
        "prompts/kind.prompt.yml",
        "model: sim:clerk-1\nmessages:\n"
        "  - role: system\n    content: |\n"
        "      Put the ticket of a {{product}} user into one of these categories:\n"
        "      - bug: something fails.\n      - question: how to do something.\n"
        "      Answer with the category only, one word.\n"
        "  - role: user\n    content: |\n      <ticket>{{ticket}}</ticket>\n",
    )
    golden = [
        {"id": "a", "inputs": {"product": "CRM", "ticket": "The export fails"}, "expected": "bug"},
        {"id": "b", "inputs": {"product": "CRM", "ticket": "How do I add a user"}},
    ]
    place.write("fixtures/golden/kind.jsonl", "\n".join(map(json.dumps, golden)))
    place.write(
        "evals/test_kind.py",
        "from regauge import golden\nfrom regauge.judges import max_words, one_of\n\n"
        "@golden('kind', judges=[one_of(['bug', 'question']), max_words(1)])\n"
        "def test_kind(result):\n    result.check()\n",
    )
    return place


class Collector:
    """An OTLP collector on 127.0.0.1 that keeps what it gets."""

    def __init__(self, status: int = 200) -> None:
        self.requests: list[ExportLogsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.requests.append(ExportLogsServiceRequest.FromString(body))
                collector.headers.append(dict(self.headers))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Keep quiet."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def sources(self) -> list[dict[str, str]]:
        return [
            {one.key: one.value.string_value for one in resource.resource.attributes}
            for request in self.requests
            for resource in request.resource_logs
        ]

    def events(self) -> list[tuple[str, dict[str, object]]]:
        return [
            (
                record.event_name,
                {
                    one.key: getattr(one.value, one.value.WhichOneof("value"))
                    for one in record.attributes
                },
            )
            for request in self.requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


def test_each_verdict_is_an_event(place: Place, collector: Collector) -> None:
    place.evals()
    done = place.process(
        "regauge",
        "report",
        "--otel",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_EXPORTER_OTLP_HEADERS="x-team=ops",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"sent 4 events to {collector.url}\n"
    assert collector.headers[0]["x-team"] == "ops"
    (source,) = collector.sources()
    assert source["service.name"] == "regauge"
    assert source["service.version"] == version("regauge")
    events = collector.events()
    assert {name for name, _ in events} == {"gen_ai.evaluation.result"}
    found = {(one["regauge.case.id"], one["gen_ai.evaluation.name"]): one for _, one in events}
    assert len(found) == 4
    verdict = found["a", "max_words(1)"]
    assert verdict["gen_ai.evaluation.score.label"] == "pass"
    assert verdict["gen_ai.evaluation.score.value"] == 1.0
    assert (verdict["gen_ai.provider.name"], verdict["regauge.trial"]) == ("sim", 0)
    assert len({one["regauge.judge.digest"] for _, one in events}) == 2
    assert len({one["regauge.dataset.digest"] for _, one in events}) == 1


def test_an_endpoint_that_is_away_is_an_error(place: Place) -> None:
    place.evals("-k", "a")
    done = place.process(
        "regauge",
        "report",
        "--otel",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )
    assert done.returncode == 2
    assert "http://127.0.0.1:9 did not take the events" in done.stderr
    assert "Traceback" not in done.stderr


def rendered(ticket: str) -> list[tuple[str, str]]:
    system = (
        "Put the ticket of a shop user into one of these categories:\n- bug: something fails.\n"
        "- question: how to do something.\nAnswer with the category only, one word."
    )
    return [("system", system), ("user", f"<ticket>{ticket}</ticket>")]


def otlp(attributes: dict[str, object]) -> dict[str, object]:
    """A span as the collector's file exporter writes it."""
    typed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {"name": "chat", "attributes": typed}
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [span]}]}]}


def conventions(ticket: str) -> dict[str, dict[str, object]]:
    """The same call in the forms that instrumentations write."""
    messages = rendered(ticket)
    parts = [
        {"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages
    ]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "bug"}]}]
    numbered: dict[str, object] = {"gen_ai.completion.0.content": "bug"}
    inference: dict[str, object] = {"llm.output_messages.0.message.content": "bug"}
    for number, (role, text) in enumerate(messages):
        numbered |= {f"gen_ai.prompt.{number}.role": role, f"gen_ai.prompt.{number}.content": text}
        inference |= {
            f"llm.input_messages.{number}.message.role": role,
            f"llm.input_messages.{number}.message.content": text,
        }
    events = [
        {"name": f"gen_ai.{role}.message", "attributes": {"content": text}}
        for role, text in messages
    ]
    choice = {"name": "gen_ai.choice", "attributes": {"message": json.dumps({"content": "bug"})}}
    return {
        "attributes": otlp(
            {
                "gen_ai.request.model": "gpt-4o",
                "gen_ai.input.messages": json.dumps(parts),
                "gen_ai.output.messages": json.dumps(answer),
            }
        ),
        "numbered": otlp(numbered),
        "inference": otlp(inference),
        "events": {"name": "chat", "attributes": {}, "events": [*events, choice]},
    }


@pytest.mark.parametrize("form", ["attributes", "numbered", "inference", "events"])
def test_a_span_of_any_convention_becomes_a_candidate(place: Place, form: str) -> None:
    place.write("spans.json", json.dumps(conventions("Page 7 is blank")[form], indent=1))
    done = place.process("regauge", "new", "case", "kind", "--from-spans", "spans.json")
    assert done.returncode == 0, done.stderr
    (case,) = [json.loads(line) for line in (place.root / CANDIDATES).read_text().splitlines()]
    assert case["inputs"] == {"product": "shop", "ticket": "Page 7 is blank"}
    assert "bug" in case["note"]
    assert case["tags"] == ["from-spans"]


def test_near_duplicates_join_and_personal_data_is_masked(place: Place) -> None:
    tickets = [
        *(f"Order {number} never came, please refund it to my card" for number in range(20)),
        "Mail jane.doe@corp.io or call +49 30 1234567, the key is sk-proj-" + "aB3" * 12,
        "The export fails",
    ]
    lines = [json.dumps(conventions(ticket)["numbered"]) for ticket in tickets]
    place.write("spans.jsonl", "\n".join([*lines, json.dumps({"name": "db", "attributes": {}})]))
    done = place.process("regauge", "new", "case", "kind", "--from-spans", "spans.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["calls"], found["added"], found["joined"]) == (22, 3, 19)
    text = (place.root / CANDIDATES).read_text()
    assert "jane.doe" not in text
    assert "1234567" not in text
    assert "aB3aB3" not in text
    assert "<email>" in text
    first = json.loads(text.splitlines()[0])
    assert first["note"].startswith("review: 20 like it")
    again = place.process("regauge", "new", "case", "kind", "--from-spans", "spans.jsonl", "--json")
    assert json.loads(again.stdout)["added"] == 0
    assert (place.root / CANDIDATES).read_text() == text


@pytest.mark.parametrize("option", ["--trial=0", "--tier=critical", "--edit"])
def test_options_of_other_cases_are_refused(place: Place, option: str) -> None:
    place.write("spans.json", "{}")
    done = place.process("regauge", "new", "case", "kind", "--from-spans", "spans.json", option)
    assert done.returncode == 2
    assert "--from-spans creates the cases\n  fix: leave out ID and options" in done.stderr


def test_cases_that_are_golden_already_are_left_out(place: Place) -> None:
    document = conventions("The export fails")["numbered"]
    place.write("spans.jsonl", json.dumps(document).replace("a shop user", "a CRM user"))
    done = place.process(
        "regauge", "new", "case", "kind", "--from-spans", "spans.jsonl", "--dry-run"
    )
    assert done.stdout.startswith("would add 0 candidates to ")
    assert not (place.root / CANDIDATES).exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{broken", "spans.json:1: not JSON"),
        ("[]", "has no model call"),
        (json.dumps(otlp({"db.system": "postgresql"})), "has no model call"),
    ],
)
def test_a_file_without_calls_is_refused(place: Place, text: str, told: str) -> None:
    place.write("spans.json", text)
    done = place.process("regauge", "new", "case", "kind", "--from-spans", "spans.json")
    assert done.returncode == 2
    assert told in done.stderr
    assert not (place.root / CANDIDATES).exists()


def test_options_of_a_single_case_are_refused(place: Place) -> None:
    place.write("spans.json", "[]")
    done = place.process("regauge", "new", "case", "kind", "one", "--from-spans", "spans.json")
    assert done.returncode == 2
    assert "leave out ID and options" in done.stderr
