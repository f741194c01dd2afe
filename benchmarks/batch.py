"""Compare failing batches with a live run: the same recordings, and no call paid twice.

    python benchmarks/batch.py [--cases 3000]

A provider on 127.0.0.1 serves live calls and batches. The first batch expires with three fifths of
its requests done, its file of results is cut off in the middle, and it holds doubled lines, results
of unknown calls and a line that is not JSON; the command that starts the second is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.batch_server import BatchServer

_SETTINGS = """\
[tool.pytest.ini_options]
addopts = ["-p", "regauge", "--import-mode=importlib"]

[tool.regauge.providers.local]
base_url = "{url}"
batch_price = 0.5
max_attempts = 2
prices.clerk = {{ input_per_million = 1.0, output_per_million = 2.0 }}
"""
_PROMPT = """\
name: Triage
version: 1.0.0
model: local:clerk
messages:
  - role: system
    content: How severe is the alert?
  - role: user
    content: "{{text}}"
"""
_EVAL = """\
from regauge import golden
from regauge.judges import min_chars

@golden("triage", judges=[min_chars(1)])
def test_triage(result):
    result.check()
"""


def make_project(root: Path, url: str, cases: int) -> Path:
    """Write the project."""
    texts = [f"critical: disk {number} is full" for number in range(cases)]
    lines = [
        json.dumps({"id": f"disk-{number:06}", "inputs": {"text": text}})
        for number, text in enumerate(texts)
    ]
    for path, content in {
        "pyproject.toml": _SETTINGS.format(url=url),
        "prompts/triage.prompt.yml": _PROMPT,
        "fixtures/golden/triage.jsonl": "".join(f"{line}\n" for line in lines),
        "evals/test_triage.py": _EVAL,
    }.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    return root


def record(root: Path, *options: str) -> tuple[int, str, float]:
    """One `regauge record`: its exit code, its output, and its time in seconds."""
    began = time.perf_counter()
    environ = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [sys.executable, "-m", "regauge", "record", *options],
        cwd=root,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, time.perf_counter() - began


def kill_in_start(root: Path, server: BatchServer) -> None:
    """Kill a `regauge record --batch` after its batch has started, before it knows so."""
    server.faults.hangs = "started"
    command = [sys.executable, "-m", "regauge", "record", "--batch"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL) as process:
        try:
            assert server.waiting.wait(300), "no batch started"
        finally:
            process.kill()
    server.faults.hangs = ""


def recordings(root: Path, *, cost: float) -> list[dict[str, Any]]:
    """Recordings without times and latency, at the live price."""
    path = root / "fixtures" / "recordings" / "triage.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        del line["recorded_at"], line["completion"]["latency_s"]
        line["completion"]["cost_usd"] = round(cost * line["completion"]["cost_usd"], 9)
    return lines


def measure(cases: int, folder: Path) -> dict[str, Any]:
    """Run both ways, and compare."""
    steps: list[dict[str, Any]] = []
    with BatchServer() as server:
        live = make_project(folder / "live", server.base_url, cases)
        code, said, live_s = record(live)
        assert code == 0, said
        batched = make_project(folder / "batched", server.base_url, cases)
        faults = server.faults

        def step(name: str, *options: str) -> None:
            code, said, took_s = record(batched, *options)
            path = batched / "fixtures" / "recordings" / "triage.jsonl"
            count = len(path.read_bytes().splitlines()) if path.exists() else 0
            steps.append({"step": name, "exit": code, "recorded": count, "s": round(took_s, 2)})
            sys.stderr.write(f"{name}: exit {code}, {count} recorded\n{said}\n")

        faults.expired = cases * 3 // 5
        faults.doubled = faults.unknown = faults.malformed = True
        step("submit", "--batch")
        faults.cut = 0.5
        step("collect a file that is cut off", "--collect")
        faults.cut = 1.0
        step("collect an expired batch", "--collect")
        faults.expired = None
        kill_in_start(batched, server)
        shutil.rmtree(batched / ".regauge" / "batches")
        step("submit the rest after kill -9, without state", "--batch")
        step("collect", "--collect")
        same = recordings(batched, cost=2) == recordings(live, cost=1)
        return {
            "cases": cases,
            "same_recordings": same,
            "batches": len(server.batches),
            "answered_twice": sum(count > 1 for count in server.paid.values()),
            "live_s": round(live_s, 2),
            "steps": steps,
        }


def main() -> None:
    """Measure, and print one JSON document; exits with 1 where the recordings differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=3000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.cases, Path(folder))
    sys.stdout.write(f"{json.dumps(found, indent=2)}\n")
    sys.exit(not found["same_recordings"] or found["answered_twice"] > 0)


if __name__ == "__main__":
    main()
