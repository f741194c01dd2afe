"""Import every suite of a directory of repositories, and run it against a local server.

    python -m benchmarks.import_corpus DIR [--half odd|even] [--json FILE]

DIR has a folder per repository. Each is copied, imported with `regauge import promptfoo .`, and run
with `pytest evals` against a server on 127.0.0.1 that replies to every request. A table shows the
result of each: imported or refused, cases, assertions, how many of them have a judge that reaches a
verdict on one canned output, and whether the evals ran. Programs that a configuration starts
are run as its evals do; where their code is missing, the cases are unmeasured.
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
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

IMPORT_S = 120
RUN_S = 240
PATHS: list[str] = []
TEXT = "The answer is 42. It names a plan, a date and a reason, and says who does what."


class Answers(BaseHTTPRequestHandler):
    """Answers every request as a model would, or as any service."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        body = json.dumps(reply(self.path, given)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_PATCH = do_POST  # noqa: N815 - the base class calls them so

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        del format, args


def reply(path: str, given: Any) -> Any:
    """The response to a request of a chat, of embeddings, or of anything else."""
    if path.endswith("/embeddings"):
        inputs = given.get("input")
        texts = inputs if isinstance(inputs, list) else [inputs]
        data = [
            {"index": i, "object": "embedding", "embedding": [1.0, 0.5]} for i in range(len(texts))
        ]
        return {
            "object": "list",
            "data": data,
            "model": "any",
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    if path.endswith("/chat/completions"):
        schema = ((given.get("response_format") or {}).get("json_schema") or {}).get("schema")
        text = json.dumps(instance(schema)) if schema else TEXT
        if (given.get("response_format") or {}).get("type") == "json_object":
            text = '{"answer": 42}'
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": given.get("model", "any"),
            "choices": [choice],
            "usage": usage,
        }
    if path.endswith("/messages"):
        schema = ((given.get("output_config") or {}).get("format") or {}).get("schema")
        text = json.dumps(instance(schema)) if schema else TEXT
        return {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": given.get("model", "any"),
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }
    if path.endswith("/responses"):
        schema = ((given.get("text") or {}).get("format") or {}).get("schema")
        text = json.dumps(instance(schema)) if schema else TEXT
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        return {
            "id": "1",
            "object": "response",
            "created_at": 1,
            "model": given.get("model", "any"),
            "status": "completed",
            "output": [item],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 10,
                "output_tokens": 10,
                "total_tokens": 20,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }
    found: dict[str, Any] = {"output": TEXT}
    for text_path in PATHS:
        place: Any = found
        steps = re.findall(r"[\w$]+", text_path.removeprefix("$"))
        for step, following in zip(steps, [*steps[1:], ""], strict=True):
            made: Any = TEXT if not following else [{}] if following.isdigit() else {}
            key: Any = int(step) if step.isdigit() else step
            if isinstance(place, list):
                place[0] = place[0] if place[0] and following else made
                place = place[0]
            else:
                place = place.setdefault(key, made)
            if not isinstance(place, dict | list):
                break
    return found


def instance(schema: Any) -> Any:  # noqa: C901, PLR0911 - one for each kind
    """A value that satisfies a simple schema."""
    if not isinstance(schema, dict):
        return "x"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return instance(schema[key][0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        return {name: instance(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        items = [
            instance(schema.get("items", {})) for _ in range(max(1, schema.get("minItems", 1)))
        ]
        for number, item in enumerate(items, start=1):
            if isinstance(item, dict) and "number" in item:
                item["number"] = number
        return items
    if kind in {"integer", "number"}:
        return schema.get("minimum", 1)
    return kind != "null" if kind in {"boolean", "null"} else "fine"


def numbered(items: list[Any]) -> list[Any]:
    """The items, with their numbers where they have any, as verdicts on criteria have."""
    return [
        {**item, "number": n} if isinstance(item, dict) and "number" in item else item
        for n, item in enumerate(items, start=1)
    ]


@dataclass
class Row:
    name: str
    imported: str = ""
    evals: int = 0
    cases: int = 0
    assertions: int = 0
    measured: int = 0
    person: int = 0
    ran: str = ""
    reason: str = ""
    missing: bool = False


def local(root: Path, address: str) -> dict[str, str]:
    """Point every endpoint of a project at the server; the keys that it names."""
    file = root / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    text = re.sub(r'(?m)^base_url = "[^"]*"', f'base_url = "{address}/v1"', text)
    text = re.sub(r'(?m)^url = "https?://[^/"]+', f'url = "{address}', text)
    text = re.sub(r"(?m)^api_key_command = .*$", 'api_key_env = "LOCAL_KEY"', text)
    file.write_text(text, encoding="utf-8")
    PATHS[:] = re.findall(r'(?m)^text = "([^"]+)"', text)
    names = re.findall(r'api_key_env = "(\w+)"', text) + re.findall(r' = "([A-Z][A-Z0-9_]+)"', text)
    return dict.fromkeys(
        [*names, "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "LOCAL_KEY"], "k-local-000"
    )


def measured(root: Path) -> tuple[int, int, str]:
    """How many checks reach a verdict on a canned output, of how many, and the first reason."""
    script = Path(__file__).with_name("_import_checks.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    if done.returncode:
        return 0, 0, done.stderr.strip().splitlines()[-1][:160] if done.stderr.strip() else "?"
    found = json.loads(done.stdout)
    return found["measured"], found["checks"], found["reason"]


def examine(source: Path, work: Path, address: str) -> Row:
    row = Row(name=source.name)
    root = work / source.name
    shutil.copytree(source, root, symlinks=True)
    for name in ("pyproject.toml", "conftest.py", "pytest.ini", "tox.ini", "setup.cfg"):
        (root / name).unlink(missing_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CI", "PYTEST"))} | {
        "NO_COLOR": "1"
    }
    regauge = Path(sys.executable).with_name("regauge")
    done = subprocess.run(
        [regauge, "import", "promptfoo", ".", "--json"],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=IMPORT_S,
        check=False,
    )
    if done.returncode or "Traceback" in done.stderr:
        row.imported = (
            "refused" if done.returncode == 2 and "Traceback" not in done.stderr else "CRASH"
        )
        row.reason = done.stderr.strip()[:160].replace("\n", " ")
        return row
    found = json.loads(done.stdout)
    row.imported = "yes"
    row.evals, row.cases, row.assertions = found["evals"], found["cases"], found["assertions"]
    row.missing = any("does not exist" in note["text"] for note in found["notes"])
    row.person = sum(note["kind"] == "person" for note in found["notes"])
    good, checks, row.reason = measured(root)
    row.measured = round(row.assertions * good / checks) if checks else 0
    if not row.evals:
        row.ran = "no eval"
        return row
    env |= local(root, address)
    env |= {
        "OPENAI_BASE_URL": f"{address}/v1",
        "ANTHROPIC_BASE_URL": address,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "regauge.pytest_plugin",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "evals", "-q", "--tb=line", "--record=missing"],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        row.ran = "timeout"
        return row
    lines = done.stdout.strip().splitlines()
    row.ran = lines[-1][:60] if lines else "?"
    (work / f"{source.name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    return row


def started(row: Row, log: Path) -> bool:
    """Whether the evals ran, and some case of them has a completion."""
    if not log.is_file():
        return False
    text = log.read_text(encoding="utf-8")
    return bool(re.search(r"recorded: \d+ (?:answer|completion)", text)) or bool(
        re.search(r"\d+ (?:passed|failed)", row.ran)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--half", choices=["odd", "even"])
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--stored", type=Path, help="SOURCES.md, for the repositories whose code is all there"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    sources = sorted(each for each in options.directory.iterdir() if each.is_dir())
    if options.half:
        sources = sources[0 if options.half == "odd" else 1 :: 2]
    sources = [each for each in sources if options.only in each.name]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    work = options.keep or Path(tempfile.mkdtemp())
    rows: list[Row] = []
    for source in sources:
        row = examine(source, work, address)
        rows.append(row)
        print(
            f"{row.name[:40]:40} {row.imported:8} {row.evals:3} evals {row.cases:5} cases"
            f" {row.measured:5}/{row.assertions:<5} checks {row.person:4} notes  {row.ran}"
            f"  {row.reason[:90]}",
            flush=True,
        )
    stored = whole(options.stored) if options.stored else {row.name for row in rows}
    summary(rows, stored, work)
    if options.json:
        options.json.write_text(
            json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8"
        )


def whole(table: Path) -> set[str]:
    """The repositories of SOURCES.md without code that is not stored."""
    found: set[str] = set()
    for line in table.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 6 and "/" in cells[1] and cells[5] == "-":
            found.add(cells[1].replace("/", "+"))
    return found


def summary(rows: list[Row], stored: set[str], work: Path) -> None:
    imported = [row for row in rows if row.imported == "yes"]
    crashed = [row.name for row in rows if row.imported == "CRASH"]
    whole_rows = [row for row in rows if row.name in stored]
    ran = [row for row in whole_rows if started(row, work / f"{row.name}.log")]
    checks = sum(row.assertions for row in whole_rows)
    print(
        f"{len(rows)} repositories: {len(imported)} imported,"
        f" {len(rows) - len(imported) - len(crashed)} refused, {len(crashed)} crashed {crashed}"
    )
    print(
        f"{len(whole_rows)} with all code stored: {len(ran)} ran at once; of their {checks}"
        f" assertions {sum(row.measured for row in whole_rows)} measured"
    )
    there = [row for row in whole_rows if row.imported == "yes" and not row.missing]
    print(
        f"{len(there)} of them refer to no missing file: {sum(row in ran for row in there)}"
        f" ran at once; of their {sum(row.assertions for row in there)} assertions"
        f" {sum(row.measured for row in there)} measured"
    )
    print("not run:", ", ".join(row.name for row in whole_rows if row not in ran))


if __name__ == "__main__":
    main()
