"""Compare estimates with actual calls, tokens and cost, on the three suites of this repository.

`python -m benchmarks.estimates` copies the repository and serves the simulated model as an
OpenAI-compatible endpoint with prices. For each scenario it compares the estimate of a command with
the calls, tokens and dollars that the same command then uses.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

_ROOT: Final = Path(__file__).parent.parent
_PROMPTS: Final = ("alert-severity", "alert-runbook", "incident-summary")
_INPUT: Final = 2.5  # dollars per million tokens
_OUTPUT: Final = 10
_PRICES: Final = """
[tool.regauge.providers.local]
base_url = "http://127.0.0.1:{port}/v1"

[tool.regauge.providers.local.prices."clerk-1"]
input_per_million = {input}
output_per_million = {output}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Calls of prompts and judges, with their tokens and dollars."""

    calls: float
    tokens: float
    usd: float


class Project:
    """A copy of the repository whose prompts and judges call a live endpoint."""

    def __init__(self, root: Path, port: int) -> None:
        self.root = root
        shutil.copytree(
            _ROOT,
            root,
            ignore=shutil.ignore_patterns(".venv", ".regauge", ".git", "src", "*cache*", "tests"),
        )
        settings = root / "pyproject.toml"
        text = settings.read_text(encoding="utf-8").replace('"sim:clerk-1"', '"local:clerk-1"')
        settings.write_text(
            text + _PRICES.format(port=port, input=_INPUT, output=_OUTPUT), encoding="utf-8"
        )
        for path in (root / "prompts").rglob("*.prompt.yml"):
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("sim:clerk-1", "local:clerk-1"), encoding="utf-8")
        (root / "prompts/prompts.lock").unlink()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> None:
        """Run git."""
        who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "state")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `regauge`."""
        return subprocess.run(
            [sys.executable, "-m", "regauge", *words],
            cwd=self.root,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "LOCAL_API_KEY": "none"},
        )

    def evals(self, prompt: str, mode: str) -> str:
        """Run `pytest evals` for one prompt; what it prints."""
        file = f"evals/test_{prompt.replace('-', '_')}.py"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", file, "-q", "--tb=no", f"--record={mode}"],
            cwd=self.root,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "LOCAL_API_KEY": "none", "COLUMNS": "200"},
        )
        return done.stdout

    def document(self, *words: str) -> dict[str, Any]:
        """What a command prints as JSON."""
        done = self.run(*words, "--json")
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise SystemExit(f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}") from None


class Meter:
    """An endpoint that has another one answer, and adds up what passes."""

    def __init__(self, upstream: str) -> None:
        meter = self
        self.calls = self.tokens = 0
        self.usd = 0.0
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = Request(upstream + self.path.removeprefix("/v1"), data=body)
                request.add_header("Content-Type", "application/json")
                with urlopen(request) as response:
                    answer = response.read()
                usage = json.loads(answer)["usage"]
                with lock:
                    meter.calls += 1
                    meter.tokens += usage["prompt_tokens"] + usage["completion_tokens"]
                    meter.usd += usage["prompt_tokens"] * _INPUT / 1e6
                    meter.usd += usage["completion_tokens"] * _OUTPUT / 1e6
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as named there
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def taken(self) -> Spending:
        """What passed since this was last called."""
        spent = Spending(calls=self.calls, tokens=self.tokens, usd=self.usd)
        self.calls = self.tokens = 0
        self.usd = 0.0
        return spent


def _of_record(document: Mapping[str, Any]) -> Spending:
    """The estimate of `record --dry-run --json`."""
    missing = [*document["missing_completions"], *document["missing_judgements"]]
    return Spending(
        calls=sum(x["calls"] for x in missing),
        tokens=sum(x["tokens"] for x in missing),
        usd=sum(x["cost_usd"] for x in missing),
    )


_UNITS: Final = {"": 1, "k": 1e3, "M": 1e6}
_NEEDS: Final = re.compile(
    r"^  (?:about )?(\d+) (?:completions?|calls?) of .*?:"
    r" about ([\d.]+)([kM]?) tokens, \$([\d.]+)$",
    re.MULTILINE,
)


def _of_run(printed: str) -> Spending:
    """What a replay of evals says that its missing answers and judgements take."""
    found = [*_NEEDS.finditer(printed)]
    return Spending(
        calls=sum(int(one[1]) for one in found),
        tokens=sum(float(one[2]) * _UNITS[one[3]] for one in found),
        usd=sum(float(one[4]) for one in found),
    )


def _of_bills(bills: Iterable[Mapping[str, Any]]) -> Spending:
    """The estimate of a baseline session or of a gate."""
    bills = [*bills]
    return Spending(
        calls=sum(x["calls"] + x["judge_calls"] for x in bills),
        tokens=sum(x["tokens"] for x in bills),
        usd=sum(x["cost_usd"] for x in bills),
    )


def _forget(project: Project, prompt: str, share: float) -> None:
    """Drop a share of a prompt's recordings, with the judges' calls about them."""
    base = project.root / "fixtures/recordings"
    cases: list[str] = []
    for path in (base / f"{prompt}.jsonl", *base.glob(f"*/{prompt}.jsonl")):
        if not path.exists():
            continue
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        cases = cases or sorted({line["case"] for line in lines})
        dropped = set(cases[: round(share * len(cases))])
        kept = [
            json.dumps(line, ensure_ascii=False) for line in lines if line["case"] not in dropped
        ]
        path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    shutil.rmtree(project.root / ".regauge", ignore_errors=True)


def scenarios(
    project: Project, meter: Meter, prompt: str
) -> Iterator[tuple[str, Spending, Spending]]:
    """Estimate and spent of each scenario of a prompt; the one before leaves the recordings."""

    def record(name: str) -> tuple[str, Spending, Spending]:
        estimated = _of_record(project.document("record", prompt, "--dry-run"))
        meter.taken()
        project.document("record", prompt)
        return name, estimated, meter.taken()

    def run(name: str) -> tuple[str, Spending, Spending]:
        estimated = _of_run(project.evals(prompt, "none"))
        meter.taken()
        project.evals(prompt, "missing")
        return name, estimated, meter.taken()

    _forget(project, prompt, 1.0)
    yield run("pytest evals, without recordings")
    _forget(project, prompt, 0.5)
    yield run("pytest evals, half recorded")
    _forget(project, prompt, 1.0)
    yield record("record, without recordings")
    _forget(project, prompt, 0.5)
    yield record("record, half recorded")
    baseline = ("baseline", "update", prompt, "--new-session")
    planned = project.document(*baseline, "--dry-run")["planned"]
    meter.taken()
    project.document(*baseline)
    yield "baseline session", _of_bills(planned), meter.taken()
    project.run("bump", prompt)
    project.commit()
    project.git("checkout", "-q", "-b", "change")
    path = next((project.root / "prompts").rglob(f"{prompt}.prompt.yml"))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("\n      You ", "\n      Here you ", 1), encoding="utf-8")
    project.run("bump", prompt, "minor", "-m", "Reword")
    project.commit()
    gate = ("gate", "main", "--prompt", prompt)
    planned = project.document(*gate, "--dry-run")
    meter.taken()
    decision = project.document(*gate)["decision"]
    bill = planned["likely"] or planned["first"]
    yield f"gate ({decision})", _of_bills([bill]), meter.taken()


@contextmanager
def _simulated() -> Generator[str]:
    """The URL of a simulated model."""
    command = [sys.executable, "-m", "regauge", "sim", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompts", nargs="*", default=_PROMPTS)
    chosen = parser.parse_args().prompts
    print("| prompt | command | calls | tokens | dollars |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory, _simulated() as url:
        meter = Meter(url)
        for prompt in chosen:
            project = Project(Path(directory) / prompt, meter.port)
            for name, estimated, spent in scenarios(project, meter, prompt):
                cells = [
                    f"{about:.4g} / {took:.4g} = {about / took:.2f}" if took else f"{about:.4g} / 0"
                    for about, took in (
                        (estimated.calls, spent.calls),
                        (estimated.tokens, spent.tokens),
                        (estimated.usd, spent.usd),
                    )
                ]
                print(f"| {prompt} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
