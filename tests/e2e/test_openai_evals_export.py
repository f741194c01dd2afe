"""The script of the page about OpenAI Evals, against a server with pages, faults and odd ids."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).parents[2] / "examples/export_openai_evals.py"
PER_PAGE = 2


class OpenAI(Served):
    """The evals of one project, in pages of two.

    Attributes:
        documents: By path, an object, a list or the bytes of a file.
        faults: By path, the status codes that come first.
        asked: The paths of all requests.
        keys: Their `Authorization` headers.
    """

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.faults: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.keys: set[str | None] = set()
        served = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                url = urlsplit(self.path)
                path = url.path.removeprefix("/v1")
                served.asked.append(path)
                served.keys.add(self.headers["Authorization"])
                if served.faults.get(path):
                    status = served.faults[path].pop(0)
                    self.say({"error": {}}, status=status, headers={"Retry-After": "0"})
                elif path not in served.documents:
                    self.say({"error": {"message": "No such object"}}, status=404)
                elif isinstance(served.documents[path], list):
                    self.say(served.page(path, parse_qs(url.query)))
                else:
                    self.say(served.documents[path])

        super().__init__(Handler)

    def page(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        listed: list[dict[str, Any]] = self.documents[path]
        ids = [one["id"] for one in listed]
        start = ids.index(query["after"][0]) + 1 if "after" in query else 0
        data = listed[start : start + PER_PAGE]
        last = data[-1]["id"] if data else None
        more = start + PER_PAGE < len(listed)
        return {"object": "list", "data": data, "last_id": last, "has_more": more}


@pytest.fixture
def api(socket_enabled: None) -> Iterator[OpenAI]:
    with OpenAI() as served:
        evals = [
            {
                "id": f"eval_{n}",
                "data_source_config": {"type": "custom", "schema": {"type": "object"}},
                "testing_criteria": [{"type": "string_check", "operation": "eq"}],
            }
            for n in range(5)
        ]
        run = {
            "status": "completed",
            "data_source": {"type": "jsonl", "source": {"type": "file_id", "id": "file-1"}},
            "result_counts": {"total": 5},
        }
        served.documents = {
            "/evals": evals,
            **{f"/evals/eval_{n}/runs": [] for n in range(5)},
            "/evals/eval_3/runs": [run | {"id": f"evalrun_{n}"} for n in range(3)],
            **{
                f"/evals/eval_3/runs/evalrun_{n}/output_items": [
                    {"id": f"item_{k}", "datasource_item": {"é": "\u2028"}} for k in range(5)
                ]
                for n in range(3)
            },
            "/files/file-1": {"id": "file-1", "expires_at": None},
            "/files/file-1/content": b'{"item": {"text": "a"}}\n',
        }
        yield served


def export(api: OpenAI, root: Path, *, key: str = "sk-test") -> subprocess.CompletedProcess[str]:
    """Run the script that the page shows."""
    environ = {"PATH": os.environ["PATH"], "OPENAI_BASE_URL": f"{api.address}/v1"}
    return subprocess.run(
        [sys.executable, "-I", str(SCRIPT), "out"],
        cwd=root,
        env=environ | {"OPENAI_API_KEY": key},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_evals_runs_items_and_files_are_written_as_the_api_returned_them(
    api: OpenAI, tmp_path: Path
):
    api.faults = {"/evals": [429, 500], "/files/file-1/content": [503]}
    done = export(api, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("5 evals in out, 0 failures\n")
    out = tmp_path / "out"
    for document in api.documents["/evals"]:
        assert json.loads((out / f"evals/{document['id']}/eval.json").read_text()) == document
    for run in api.documents["/evals/eval_3/runs"]:
        directory = out / "evals/eval_3/runs" / run["id"]
        assert json.loads((directory / "run.json").read_text()) == run
        lines = (directory / "output_items.jsonl").read_text(encoding="utf-8").split("\n")
        items = api.documents[f"/evals/eval_3/runs/{run['id']}/output_items"]
        assert [json.loads(line) for line in lines[:-1]] == items
    assert (out / "files/file-1.content").read_bytes() == b'{"item": {"text": "a"}}\n'
    assert json.loads((out / "files/file-1.json").read_text())["id"] == "file-1"
    assert api.keys == {"Bearer sk-test"}
    assert api.asked.count("/files/file-1/content") == 2
    written = [path.name for path in out.rglob("*") if path.is_file()]
    assert not [name for name in written if name.endswith(".part") or name == "page"]


def test_a_second_start_fetches_what_is_missing_and_nothing_twice(api: OpenAI, tmp_path: Path):
    runs = api.documents["/evals/eval_3/runs"]
    runs[1]["status"] = "in_progress"
    content = api.documents.pop("/files/file-1/content")
    items = "/evals/eval_3/runs/evalrun_2/output_items"
    api.faults = {items: [400]}
    runs.append({"id": "../../evil", "status": "completed"})
    done = export(api, tmp_path)
    assert done.returncode == 1
    failures = (tmp_path / "out/failures.txt").read_text()
    assert "file file-1: HTTP Error 404" in failures
    assert "run evalrun_2 of eval_3: HTTP Error 400" in failures
    assert "run ../../evil of eval_3: '../../evil' is not an id" in failures
    assert "5 evals in out, " in done.stdout
    del runs[3]
    runs[1]["status"] = "completed"
    api.documents["/files/file-1/content"] = content
    api.asked.clear()
    assert export(api, tmp_path).returncode == 0
    assert "/evals/eval_3/runs/evalrun_0/output_items" not in api.asked
    assert items in api.asked
    run = json.loads((tmp_path / "out/evals/eval_3/runs/evalrun_1/run.json").read_text())
    assert run["status"] == "completed"
    assert (tmp_path / "out/files/file-1.content").exists()
    assert not (tmp_path / "out/failures.txt").exists()


def test_without_a_key_or_with_a_wrong_one_it_says_so(api: OpenAI, tmp_path: Path):
    done = export(api, tmp_path, key="")
    assert (done.returncode, done.stderr) == (
        1,
        "set OPENAI_API_KEY to a key of the project whose evals you export\n",
    )
    api.faults = {"/evals": [401]}
    done = export(api, tmp_path)
    assert done.returncode == 1
    assert done.stderr == "FAILED the list of evals: HTTP Error 401: Unauthorized\n"
