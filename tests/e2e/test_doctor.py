"""`regauge doctor`, as a process, against projects with something amiss and a real HTTP server."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.place import Place
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMPT = """\
version: 1.0.0
messages:
  - role: system
    content: |
      Say how severe it is. Example: "The disk of node seven is almost full." is a warning.
  - role: user
    content: "{{text}}"
"""
EVAL = """\
from regauge import golden
from regauge.judges import min_chars, rubric

@golden("shout", judges=[min_chars(1), rubric("used")])
def test_shout(result):
    result.check()
"""
RUBRIC = """\
version: 1.0.0
rubric: {kind: binary}
messages:
  - {role: user, content: "Is it good? {{answer}}"}
"""
LEAKED = "The disk of  node seven is almost full."


class Models(Served):
    """A server that lists models and counts who asked for them.

    Attributes:
        status: What it answers with.
        listed: The models as documents.
        keys: The `Authorization` header of each request.
    """

    def __init__(self) -> None:
        self.status = 200
        self.listed: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        models = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                models.keys.append(self.headers.get("Authorization"))
                found = self.path == "/v1/models"
                document = {"object": "list", "data": models.listed}
                self.say(document, status=models.status if found else 404)

        super().__init__(Handler)
        self.url = f"{self.address}/v1"


@pytest.fixture
def models() -> Iterator[Models]:
    with Models() as models:
        yield models


@pytest.fixture
def place(tmp_path: Path) -> Place:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    place = Place(tmp_path)
    place.write(
        "pyproject.toml",
        "[tool.pytest.ini_options]\naddopts = ['-p', 'no:deepeval', '-p', 'no:asyncio']\n"
        "[tool.regauge]\nmodel = 'sim:clerk-1'\njudge_model = 'sim:clerk-1'\n",
    )
    place.write("prompts/shout.prompt.yml", PROMPT)
    place.write("prompts/judges/used.prompt.yml", RUBRIC)
    place.write("evals/test_shout.py", EVAL)
    golden(place, {"id": "one", "inputs": {"text": "The fan is loud."}})
    return place


def golden(place: Place, *cases: dict[str, Any]) -> None:
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    place.write("fixtures/golden/shout.jsonl", lines)


def doctor(place: Place, *options: str, code: int = 0, **environment: str) -> list[dict[str, str]]:
    done = place.process("regauge", "doctor", "--json", *options, **environment)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)["results"]


def said(findings: list[dict[str, str]], check: str, level: str) -> list[str]:
    return [one["message"] for one in findings if (one["check"], one["level"]) == (check, level)]


def released(place: Place) -> None:
    place.regauge("bump", "shout")
    place.regauge("bump", "used")


def test_a_sound_project_has_warnings_at_most(place: Place):
    """Nothing is committed and the judge has no calibration: a run works all the same."""
    released(place)
    out = place.regauge("doctor")
    assert "warn   git: nothing is committed yet\n       fix: git add -A && git commit -m " in out
    assert "warn   uncalibrated judges: used: no calibration record" in out
    assert "ok     evals: cases: 1, prompts: 1" in out
    assert "simulated, needs no key; no LLM" in out
    assert "ok     packages: provider sim\n" in out
    assert "\nerrors: 0, warnings: 2, ok: 7\n" in out
    assert "\x1b" not in out
    place.regauge("doctor", "--strict", code=1)


def test_what_nobody_uses_is_named(place: Place):
    released(place)
    place.write("prompts/judges/idle.prompt.yml", RUBRIC)
    place.write("prompts/lonely.prompt.yml", PROMPT)
    place.write("fixtures/golden/lonely.jsonl", '{"id": "a", "inputs": {"text": "x"}}\n')
    place.write("fixtures/golden/.gitattributes", "* text\n")
    findings = doctor(place, code=1)  # the two prompts are not released
    assert said(findings, "unused judges", "warning") == [
        "prompts/judges/idle.prompt.yml: no eval uses it"
    ]
    assert said(findings, "unused prompts", "warning") == ["prompts/lonely.prompt.yml has no eval"]
    assert said(findings, "unused cases", "warning") == [
        "fixtures/golden/lonely.jsonl: no eval uses it; cases: 1"
    ]
    assert said(findings, "prompts", "error") == [
        "prompts/judges/idle.prompt.yml:1: version 1.0.0 is not in prompts.lock",
        "prompts/lonely.prompt.yml:1: version 1.0.0 is not in prompts.lock",
    ]


def test_cases_that_measure_nothing_are_named_with_their_lines(place: Place):
    """A case held out that stands in the prompt is an error: its score says nothing."""
    released(place)
    golden(
        place,
        {"id": "held", "inputs": {"text": LEAKED}, "split": "holdout"},
        {"id": "trained", "inputs": {"text": LEAKED.upper() + " "}, "split": "train"},
        {"id": "a", "inputs": {"text": "The fan is loud."}, "expected": "info"},
        {"id": "b", "inputs": {"text": "the fan is  loud."}, "expected": "info"},
        {"id": "c", "inputs": {"text": "THE FAN IS LOUD."}, "expected": "warning"},
    )
    findings = doctor(place, code=1)
    assert said(findings, "leaking cases", "error") == [
        "shout: its text holds a case held out: held (fixtures/golden/shout.jsonl:1)"
    ]
    assert said(findings, "leaking cases", "warning") == [
        "shout: its text holds a case: trained (fixtures/golden/shout.jsonl:2)"
    ]
    assert said(findings, "duplicate cases", "error") == [
        (
            "shout: 1 with the same inputs, and expect something else:"
            " c (fixtures/golden/shout.jsonl:5) is a"
        )
    ]
    assert said(findings, "duplicate cases", "warning") == [
        (
            "shout: 2 with the same inputs: trained (fixtures/golden/shout.jsonl:2) is held,"
            " b (fixtures/golden/shout.jsonl:4) is a"
        )
    ]


def test_recordings_nobody_asks_for_and_inputs_nobody_uses_are_errors(place: Place):
    released(place)
    place.evals("-p", "no:cacheprovider")
    golden(place, {"id": "one", "inputs": {"text": "Another text.", "more": "x"}})
    messages = said(doctor(place, code=1), "inputs", "error")
    assert "input 'more' is used by no message" in messages[0]
    golden(place, {"id": "one", "inputs": {"text": "Another text."}})
    stale = said(doctor(place, code=1), "recordings", "error")
    assert stale[0].startswith("fixtures/recordings/shout.jsonl: 1 of 1 recordings belong")


def test_evals_and_settings_that_do_not_load_are_errors(place: Place):
    released(place)
    place.write("evals/test_shout.py", "import nothing_of_that_name\n")
    [message] = said(doctor(place, code=1), "evals", "error")
    assert "nothing_of_that_name" in message
    place.write("pyproject.toml", "[tool.regauge]\ntrails = 3\n")
    [message] = said(doctor(place, code=1), "settings", "error")
    assert message == "pyproject.toml:2: tool.regauge.trails: no such setting"


def test_keys_and_endpoints_are_asked_once_and_only_where_evals_need_them(
    place: Place, models: Models
):
    """A last day is an error once it has passed, and a warning when it comes within 90 days."""
    today = datetime.now(UTC).date()
    models.listed = [
        {"id": "gone", "shutdown_date": str(today - timedelta(days=2))},
        {"id": "going", "deprecation": f"{today + timedelta(days=30)}T00:00:00+00:00"},
        {"id": "staying"},
    ]
    names = ["gone", "going", "staying", "missing"]
    for name in names:
        place.write(f"prompts/{name}.prompt.yml", f"model: local:{name}\n{PROMPT}")
        place.write(f"fixtures/golden/{name}.jsonl", '{"id": "a", "inputs": {"text": "x"}}\n')
        place.write(f"evals/test_{name}.py", EVAL.replace("shout", name))
    place.write(
        "pyproject.toml",
        (place.root / "pyproject.toml").read_text()
        + f"[tool.regauge.providers.local]\nbase_url = '{models.url}'\napi_key_env = 'LOCAL_KEY'\n"
        + "[tool.regauge.providers.idle]\nbase_url = 'http://127.0.0.1:9/v1'\n",
    )
    findings = doctor(place, code=1, LOCAL_KEY="k" * 20)
    assert models.keys == ["Bearer " + "k" * 20]
    assert said(findings, "keys", "ok") == ["LOCAL_KEY is set, for local"]
    assert said(findings, "endpoints", "ok") == ["local lists 3 models"]
    assert said(findings, "models", "error") == [
        f"local:gone was shut down on {today - timedelta(days=2)}, by its endpoint's list",
        "local:missing is not among the models its endpoint lists",
    ]
    assert said(findings, "models", "warning") == [
        f"local:going is shut down on {today + timedelta(days=30)}, by its endpoint's list"
    ]
    assert "local:staying is listed" in said(findings, "models", "ok")
    assert "k" * 20 not in json.dumps(findings)

    unset = doctor(place, code=1)
    assert said(unset, "keys", "warning") == [
        "LOCAL_KEY is not set: local can be replayed, not called"
    ]
    doctor(place, "--offline", code=1, LOCAL_KEY="k" * 20)
    assert len(models.keys) == 1

    models.status = 401
    refused = said(doctor(place, code=1, LOCAL_KEY="k" * 20), "endpoints", "error")
    assert refused == [f"local: {models.url}/models returned 401"]


def test_models_whose_vendor_shut_them_down_are_named_without_a_request(place: Place):
    place.write("prompts/old.prompt.yml", f"model: openai:gpt-4-0613\n{PROMPT}")
    place.write("fixtures/golden/old.jsonl", '{"id": "a", "inputs": {"text": "x"}}\n')
    place.write("evals/test_old.py", EVAL.replace("shout", "old"))
    [message] = said(doctor(place, "--offline", code=1), "models", "error")
    assert message.startswith("openai:gpt-4-0613 was shut down on 2026-10-23, by https://")
