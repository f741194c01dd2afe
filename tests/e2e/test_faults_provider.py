"""Providers that object, are gone, or cost more than the budget."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def test_no_case_is_lost_where_every_fifth_request_is_refused(
    live: EvalProject, endpoint: Endpoint
):
    endpoint.object_to_each = 5
    live.golden(live.case(number) for number in range(60))
    result = live.run("--concurrency=16")
    result.assert_outcomes(passed=60)
    assert result.ret == 0
    assert endpoint.objections >= 12
    assert not endpoint.twice
    (suite,) = live.records()[0]["evals"]
    assert suite["retries"] == endpoint.objections
    result.stdout.fnmatch_lines([f"*60 live, {endpoint.objections} retries"])


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "two workers"])
def test_a_server_that_is_down_leaves_everything_unmeasured_and_says_so_once(
    live: EvalProject, workers: tuple[str, ...]
):
    with socket.socket() as held:  # bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        live.golden(live.case(number) for number in range(40))
        live.use(f"http://127.0.0.1:{held.getsockname()[1]}/v1")
        started = time.monotonic()
        result = live.run(*workers)
        took_s = time.monotonic() - started
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 40}
    said = result.stdout.str()
    assert "Traceback" not in said
    assert said.count("unmeasured: ") == 1
    assert "unmeasured: 40 cases of triage (connection)" in said
    assert took_s < 90
    assert live.recordings() == []


def test_a_missing_key_is_said_once(live: EvalProject, endpoint: Endpoint):
    live.settings(provider='api_key_env = "NO_SUCH_KEY"\n')
    result = live.run()
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 5}
    assert endpoint.total == 0
    assert live.complaint(result) == snapshot("""\
unmeasured: 5 cases of triage (authentication)
  disk-000, disk-001, disk-002, disk-003, disk-004
  no key for provider 'local': NO_SUCH_KEY is not set
    fix: export NO_SUCH_KEY=..., or name another variable as `api_key_env` in [tool.regauge.providers.local] of pyproject.toml\
""")


def test_a_budget_stops_the_spending_and_a_larger_one_goes_on(
    live: EvalProject, endpoint: Endpoint
):
    # 100 tokens in and 10 out, at 1,000 and 2,000 dollars per million: 12 cents a call.
    price = "{ input_per_million = 1000.0, output_per_million = 2000.0 }"
    live.settings(provider=f'prices = {{ "clerk" = {price} }}\n')
    live.prompt(user="{{text}}")
    live.golden(live.case(number) for number in range(12))
    result = live.run("--budget-usd=1.00", "--concurrency=1")
    assert result.ret == 1
    outcomes = result.parseoutcomes()
    assert 0 < outcomes["passed"] == endpoint.total
    assert outcomes["unmeasured"] == 12 - outcomes["passed"]
    (suite,) = live.records()[0]["evals"]
    assert suite["spent_usd"] == pytest.approx(0.12 * endpoint.total)
    assert suite["spent_usd"] <= 1.00
    said = result.stdout.str()
    assert said.count("unmeasured: ") == 1
    assert "the budget of $1.00 is reached" in said
    assert "--budget-usd" in said

    live.run("--budget-usd=100").assert_outcomes(passed=12)
    assert endpoint.total == 12


@pytest.mark.parametrize("budget", ["--budget-usd=1.00", "--budget-tokens=1000"])
def test_a_budget_holds_for_a_server_that_states_no_usage(
    live: EvalProject, endpoint: Endpoint, budget: str
):
    endpoint.usage = None
    price = "{ input_per_million = 1000.0, output_per_million = 1000.0 }"
    live.settings(provider=f'prices = {{ "clerk" = {price} }}\n')
    live.golden(live.case(number) for number in range(12))
    result = live.run(budget, "--concurrency=1")
    assert 0 < endpoint.total < 12
    assert result.parseoutcomes()["unmeasured"] == 12 - endpoint.total


def test_a_part_of_a_budget_of_calls_is_called_a_part(live: EvalProject, endpoint: Endpoint):
    result = live.run("-n2", "--budget-calls=1")
    assert endpoint.total == 0
    assert "of 1 calls (a part of it in each of 2 processes) is reached" in result.stdout.str()


def test_two_workers_share_one_budget(live: EvalProject, endpoint: Endpoint):
    price = "{ input_per_million = 1000.0, output_per_million = 2000.0 }"
    live.settings(provider=f'prices = {{ "clerk" = {price} }}\n')
    live.golden(live.case(number) for number in range(40))
    result = live.run("-n2", "--budget-usd=2.00")
    assert result.ret == 1
    assert endpoint.total * 0.12 <= 2.00
    assert result.parseoutcomes()["unmeasured"] >= 40 - endpoint.total > 0


def test_a_budget_needs_a_price(live: EvalProject, endpoint: Endpoint):
    live.settings(provider="")
    result = live.run("--budget-usd=1")
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 5}
    assert endpoint.total == 0
    assert live.complaint(result) == snapshot("""\
unmeasured: 5 cases of triage (BudgetError)
  disk-000, disk-001, disk-002, disk-003, disk-004
  a budget is set, but local:clerk has no price
    fix: add prices to [tool.regauge.providers.local] in pyproject.toml, or run without a budget\
""")


def test_an_unknown_price_is_no_obstacle_without_a_budget(live: EvalProject):
    live.settings(provider="")
    result = live.run()
    result.assert_outcomes(passed=5)
    (suite,) = live.records()[0]["evals"]
    assert suite["cost_usd"] is None


@pytest.mark.parametrize("named_by", ["--model", "`model` in [tool.regauge]", "the eval", ""])
def test_an_unknown_model_is_traced_to_where_it_is_named(project: EvalProject, named_by: str):
    with http_server(_NotFound) as base_url:
        project.use(f"{base_url}/v1")
        project.golden([project.case(0)])
        named = "" if named_by else "local:gone"
        project.prompt(model=named or "local:clerk")
        file = project.root / "prompts" / "triage.prompt.yml"
        if named_by == "`model` in [tool.regauge]":
            file.write_text(file.read_text(encoding="utf-8").replace("model: local:clerk\n", ""))
            project.settings("model = 'local:gone'")
        project.judged_by("min_chars(1)", options=", model='local:gone'" * (named_by == "the eval"))
        result = project.run(*["--model=local:gone"] * (named_by == "--model"))
    place = {"the eval": "`model` of the eval at ", "": "prompts/triage.prompt.yml"}
    said = " ".join(result.stdout.str().split())
    assert f"check the model 'local:gone', named by {place.get(named_by, named_by)}" in said


class _NotFound(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b'{"error": {"message": "The model does not exist"}}'
        self.send_response(404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the output of the tests free of a log."""


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    """A server on a free port of this machine, until the end of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
