"""A provider who changes a model under its name, played by the simulated model."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from regauge.cli.sim import command
from regauge.errors import UsageError
from regauge.sim import CLERK_1, Rules, complete
from regauge.sim.server import SimServerOptions
from tests.sim_server import SimServer
from tests.unit.sim.bench import golden, inner_json, request, share


@pytest.fixture(scope="module")
def asked(severity):
    cases = golden("alert-severity")
    requests = [
        request(
            *(m.content for m in severity.prompt.render(case["inputs"])),
            response_format=severity.prompt.response_format,
        )
        for case in cases
    ]
    return list(zip(requests, [case["expected"]["severity"] for case in cases], strict=True))


def right(asked, **rules):
    return share(
        inner_json(complete(one, rules=Rules(**rules)).text or "").get("severity") == expected
        for one, expected in asked
    )


def test_a_little_drift_costs_a_little_and_much_costs_much(asked):
    still, some, much = (right(asked, drift=drift) for drift in (0.0, 0.3, 0.9))
    assert still - 0.3 < some < still - 0.05
    assert much < some - 0.15


def test_without_drift_nothing_is_answered_otherwise(asked):
    assert all(
        complete(one, rules=Rules(drift=0.0)) == complete(one, rules=CLERK_1)
        for one, _ in asked[:20]
    )


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (Rules(drift=0.3), CLERK_1.fingerprint),
        (Rules(drift=0.3, drift_shown=True), f"{CLERK_1.fingerprint}-drift-0.3"),
        (Rules(drift_shown=True), CLERK_1.fingerprint),
    ],
)
def test_the_fingerprint_tells_of_drift_only_when_asked_to(asked, rules, told):
    assert complete(asked[0][0], rules=rules).fingerprint == told


def test_a_version_is_a_name_and_the_seed_decides_chance(asked):
    texts, named, seeded = (
        [complete(one, rules=rules).text for one, _ in asked]
        for rules in (CLERK_1, Rules(version="2"), Rules(seed="2"))
    )
    assert complete(asked[0][0], rules=Rules(version="2")).fingerprint == "simulated-clerk-1-2"
    assert named == texts
    assert seeded != texts


@pytest.mark.parametrize("drift", [-0.1, 1.1, float("nan")])
def test_a_drift_out_of_range_is_refused(drift):
    with pytest.raises(UsageError, match="drift is a number from 0 to 1"):
        Rules(drift=drift)


def test_the_command_line_refuses_a_drift_out_of_range():
    result = CliRunner().invoke(command, ["--drift", "2"])
    assert result.exit_code == 2
    assert "--drift" in result.output


def test_a_server_that_has_drifted_gives_other_answers_to_the_same_requests(asked):
    def over_http(drift):
        options = SimServerOptions(rules=Rules(drift=drift, drift_shown=True))
        with SimServer(options) as server:
            parts = urlsplit(server.base_url)
            replies = []
            for one, _ in asked[:40]:
                messages = [{"role": m.role, "content": m.content} for m in one.messages]
                body = {"model": "clerk-1", "temperature": 0, "messages": messages}
                line = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
                line.request("POST", "/v1/chat/completions", json.dumps(body))
                replies.append(json.loads(line.getresponse().read()))
                line.close()
            return replies

    before, after = over_http(0.0), over_http(0.8)
    texts = [[reply["choices"][0]["message"]["content"] for reply in r] for r in (before, after)]
    assert sum(a != b for a, b in zip(*texts, strict=True)) >= 10
    assert {reply["system_fingerprint"] for reply in after} == {f"{CLERK_1.fingerprint}-drift-0.8"}
