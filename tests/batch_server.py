"""A provider on 127.0.0.1 that speaks the batch protocols of OpenAI, Anthropic and OpenRouter.

It answers live calls in the same words, so that a batch can be compared with a live run.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.fakes import severity_of
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BatchServer", "Faults"]

_PRICE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong.

    Attributes:
        running: Batches stay in progress.
        cut: The part of each file of results that is sent; the rest is lost in transit.
        stays_cut: The same part is all that the provider has.
        expired: Batches expire after so many requests.
        doubled: Every line of results comes twice.
        unknown: A result of another call comes, too.
        malformed: A line that is not JSON comes, too.
        invalid: Batches fail as a whole.
        failing: Requests with one of these texts fail.
        upload_errors: So many uploads are answered with 500.
        content_errors: So many downloads are answered with 500.
        hangs: `upload`, or `start` before or after the batch is made: no answer comes.
        untagged: Metadata are not kept.
        inline: There are no files: a batch holds its requests and results, as at OpenRouter.
        no_batches: The endpoint has no batches at all.
        gone: Files of results are deleted.
        old_limit: Requests with `max_tokens` fail, and say so.
    """

    running: bool = False
    cut: float = 1.0
    stays_cut: bool = False
    expired: int | None = None
    doubled: bool = False
    unknown: bool = False
    malformed: bool = False
    invalid: bool = False
    failing: set[str] = field(default_factory=set[str])
    upload_errors: int = 0
    content_errors: int = 0
    hangs: str = ""
    untagged: bool = False
    inline: bool = False
    no_batches: bool = False
    gone: bool = False
    old_limit: bool = False


class BatchServer(Served):
    """The provider.

    Attributes:
        paid: How often each text was answered in a batch.
        live: How often each text was answered live.
        shown: How often each batch was described by itself.
        uploads: The uploaded files.
        batches: The batches, as the API describes them.
        headers: The header of each request that holds a key.
        waiting: Set once a request hangs.
    """

    def __init__(self, answer: Callable[[str], str] = severity_of) -> None:
        self.faults = Faults()
        self.answer = answer
        self.paid: Counter[str] = Counter()
        self.live: Counter[str] = Counter()
        self.shown: Counter[str] = Counter()
        self.uploads: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.waiting = threading.Event()
        self._released = threading.Event()
        self._lock = threading.RLock()
        super().__init__(type("Handler", (_Handler,), {"service": self}))
        self.base_url = f"{self.address}/v1"

    def stop(self) -> None:
        self._released.set()
        super().stop()

    def hang(self, where: str) -> None:
        """Wait until the end, where the fault is set."""
        if self.faults.hangs == where:
            self.waiting.set()
            self._released.wait(60)

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """A chat completion."""
        text = _text(body)
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": self.answer(text), "refusal": None},
                    "finish_reason": "stop",
                }
            ],
            "usage": _PRICE,
        }

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        """A message of Anthropic's."""
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": self.answer(_text(body))}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 100, "output_tokens": 10},
        }

    def make(
        self, requests: list[dict[str, Any]], *, about: dict[str, Any], anthropic: bool
    ) -> dict[str, Any]:
        """Make a batch, answer it, and keep its results."""
        with self._lock:
            number = len(self.batches) + 1
            batch: dict[str, Any] = {"id": f"batch_{number}", **about, "requests": requests}
            self.batches[batch["id"]] = batch
            batch["made_at"] = time.time()
            batch["anthropic"] = anthropic
            self._answer(batch)
            return batch

    def _answer(self, batch: dict[str, Any]) -> None:
        done: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for number, request in enumerate([] if self.faults.invalid else batch["requests"]):
            body = request["params" if batch["anthropic"] else "body"]
            expired = self.faults.expired is not None and number >= self.faults.expired
            line = (self._anthropic_line if batch["anthropic"] else self._openai_line)(
                body, refused=self._refusal(body), expired=expired
            )
            into = failed if line.pop("failed", False) else done
            into.append({"custom_id": request["custom_id"], **line})
        requests = len(batch["requests"])
        batch["counts"] = {"total": requests, "completed": len(done), "failed": len(failed)}
        lines = [json.dumps(line) for line in reversed(done)]
        if self.faults.doubled:
            lines = [line for line in lines for _ in range(2)]
        if self.faults.unknown and done:
            lines.append(json.dumps(done[0] | {"custom_id": "request-of-others-1"}))
        if self.faults.malformed:
            lines.insert(1, '{"custom_id": ')
        batch["files"] = {
            f"out-{batch['id']}": "".join(f"{line}\n" for line in lines).encode(),
            f"err-{batch['id']}": "".join(f"{json.dumps(line)}\n" for line in failed).encode(),
        }

    def _refusal(self, body: dict[str, Any]) -> str:
        if self.faults.old_limit and "max_tokens" in body:
            return "Unsupported parameter: 'max_tokens'"
        return "no such text" if _text(body) in self.faults.failing else ""

    def _anthropic_line(
        self, body: dict[str, Any], *, refused: str, expired: bool
    ) -> dict[str, Any]:
        if refused:
            error = {"type": "invalid_request_error", "message": refused}
            return {"result": {"type": "errored", "error": {"type": "error", "error": error}}}
        if expired:
            return {"result": {"type": "expired"}}
        self.paid[_text(body)] += 1
        return {"result": {"type": "succeeded", "message": self.message(body)}}

    def _openai_line(self, body: dict[str, Any], *, refused: str, expired: bool) -> dict[str, Any]:
        if expired:
            error = {"code": "batch_expired", "message": "This request could not be executed."}
            return {"failed": True, "id": "b", "response": None, "error": error}
        status, said = 200, {} if refused else self.completion(body)
        if refused:
            status, said = 400, {"error": {"message": refused, "type": "invalid_request_error"}}
        else:
            self.paid[_text(body)] += 1
        response = {"status_code": status, "request_id": "r", "body": said}
        return {"failed": bool(refused), "id": "b", "response": response, "error": None}

    def inline_batch(self, batch: dict[str, Any], *, listed: bool) -> dict[str, Any]:
        """A batch as OpenRouter describes it."""
        status = "failed" if self.faults.invalid else "completed"
        if self.faults.expired is not None:
            status = "expired"
        ended = not self.faults.running
        lines = [line for file in batch["files"].values() for line in file.splitlines()]
        return {
            "id": batch["id"],
            "object": "batch",
            "endpoint": batch["endpoint"],
            "model": batch["model"],
            "created_at": int(batch["made_at"]),
            "status": status if ended else "in_progress",
            "request_counts": batch["counts"],
            "error": {"message": "This line is not valid."} if self.faults.invalid else None,
            "results": [json.loads(line) for line in lines] if ended and not listed else None,
        }

    def openai_batch(self, batch: dict[str, Any], *, listed: bool = False) -> dict[str, Any]:
        """A batch as OpenAI describes it."""
        if self.faults.inline:
            return self.inline_batch(batch, listed=listed)
        document = {
            "id": batch["id"],
            "object": "batch",
            "endpoint": batch["endpoint"],
            "input_file_id": batch["input_file_id"],
            "completion_window": "24h",
            "created_at": int(batch["made_at"]),
            "status": "in_progress",
            "output_file_id": None,
            "error_file_id": None,
            "request_counts": {"total": batch["counts"]["total"], "completed": 0, "failed": 0},
            "errors": None,
        }
        if not self.faults.untagged:
            document["metadata"] = batch["metadata"]
        if self.faults.running:
            return document
        if self.faults.invalid:
            error = {"code": "invalid_json_line", "message": "This line is not valid.", "line": 1}
            return document | {"status": "failed", "errors": {"object": "list", "data": [error]}}
        names = {"output_file_id": f"out-{batch['id']}", "error_file_id": f"err-{batch['id']}"}
        files = {key: name for key, name in names.items() if batch["files"][name]}
        status = "completed" if self.faults.expired is None else "expired"
        return document | {"status": status, "request_counts": batch["counts"]} | files

    def anthropic_batch(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch as Anthropic describes it."""
        total, done = batch["counts"]["total"], batch["counts"]["completed"]
        running = self.faults.running
        made = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(batch["made_at"]))
        expired = sum(line.count(b'"expired"') for line in batch["files"].values())
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": "in_progress" if running else "ended",
            "request_counts": {
                "processing": total if running else 0,
                "succeeded": 0 if running else done - expired,
                "errored": 0,
                "canceled": 0,
                "expired": 0 if running else expired,
            },
            "created_at": made,
            "results_url": None if running else f"{self.base_url}/elsewhere",
        }

    def file(self, name: str) -> bytes:
        """An uploaded file, or one with results."""
        for batch in self.batches.values():
            if name in batch["files"]:
                content: bytes = batch["files"][name]
                return content
        return self.uploads[name]


def _text(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


class _Handler(JsonHandler):
    service: BatchServer

    def answer(self) -> None:
        with suppress(ConnectionError):  # the client was killed
            self._route()

    def _route(self) -> None:
        service, path = self.service, self.path.partition("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if (service.faults.no_batches and "completions" not in path) or (
            service.faults.inline and "/files" in path
        ):
            self.say({"detail": "Not Found"}, status=404)
            return
        routes: list[tuple[str, str, Callable[..., None]]] = [
            ("POST", r"/v1/chat/completions", self._complete),
            ("POST", r"/v1/messages", self._message),
            ("POST", r"/v1/files", self._upload),
            ("POST", r"/v1/batches", self._start),
            (
                "GET",
                r"/v1/batches",
                partial(self._list, partial(service.openai_batch, listed=True), anthropic=False),
            ),
            ("GET", r"/v1/batches/([^/]+)", partial(self._show, service.openai_batch)),
            ("GET", r"/v1/files/([^/]+)", self._describe),
            ("GET", r"/v1/files/([^/]+)/content", self._content),
            ("POST", r"/v1/messages/batches", self._start_messages),
            (
                "GET",
                r"/v1/messages/batches",
                partial(self._list, service.anthropic_batch, anthropic=True),
            ),
            ("GET", r"/v1/messages/batches/([^/]+)", partial(self._show, service.anthropic_batch)),
            ("GET", r"/v1/messages/batches/([^/]+)/results", self._results),
        ]
        for method, pattern, route in routes:
            if method == self.command and (found := re.fullmatch(pattern, path)):
                route(raw, *found.groups())
                return
        self.say({"error": {"message": f"no such path: {path}"}}, status=404)

    def _complete(self, raw: bytes) -> None:
        body = json.loads(raw)
        self.service.live[_text(body)] += 1
        self.say(self.service.completion(body))

    def _message(self, raw: bytes) -> None:
        body = json.loads(raw)
        self.service.live[_text(body)] += 1
        self.say(self.service.message(body))

    def _upload(self, raw: bytes) -> None:
        if self.service.faults.upload_errors:
            self.service.faults.upload_errors -= 1
            return self.say({"error": {"message": "broken"}}, status=500)
        boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
        parts = [part.partition(b"\r\n\r\n") for part in raw.split(b"--" + boundary)]
        (content,) = [body[:-2] for head, _, body in parts if b"filename=" in head]
        assert any(b'name="purpose"' in head and body[:-2] == b"batch" for head, _, body in parts)
        name = f"file-{len(self.service.uploads) + 1}"
        self.service.uploads[name] = content
        self.service.hang("upload")
        return self.say({"id": name, "object": "file", "bytes": len(content), "purpose": "batch"})

    def _start(self, raw: bytes) -> None:
        self.service.hang("start")
        asked = json.loads(raw)
        if self.service.faults.inline:
            assert [*asked] == ["endpoint", "model", "completion_window", "requests"]
            requests = asked.pop("requests")
            assert all([*one] == ["custom_id", "body"] for one in requests)
            assert {one["body"]["model"] for one in requests} == {asked["model"]}
        else:
            lines = self.service.uploads[asked["input_file_id"]].splitlines()
            requests = [json.loads(line) for line in lines]
            assert all(one["url"] == asked["endpoint"] for one in requests)
        assert len({one["custom_id"] for one in requests}) == len(requests)
        batch = self.service.make(requests, about=asked, anthropic=False)
        self.service.hang("started")
        self.say(self.service.openai_batch(batch))

    def _start_messages(self, raw: bytes) -> None:
        self.service.hang("start")
        batch = self.service.make(json.loads(raw)["requests"], about={}, anthropic=True)
        self.service.hang("started")
        self.say(self.service.anthropic_batch(batch))

    def _list(self, shown: Callable[..., Any], raw: bytes, *, anthropic: bool) -> None:
        del raw
        mine = [one for one in self.service.batches.values() if one["anthropic"] is anthropic]
        self.say({"object": "list", "data": [shown(one) for one in mine[::-1]], "has_more": False})

    def _show(self, shown: Callable[..., Any], raw: bytes, batch_id: str) -> None:
        del raw
        if batch_id not in self.service.batches:
            return self.say({"error": {"message": "no such batch"}}, status=404)
        self.service.shown[batch_id] += 1
        return self.say(shown(self.service.batches[batch_id]))

    def _describe(self, raw: bytes, name: str) -> None:
        del raw
        size = len(self.service.file(name))
        cut = self.service.faults.cut if self.service.faults.stays_cut else 1.0
        self.say({"id": name, "object": "file", "bytes": int(size * cut)})

    def _content(self, raw: bytes, name: str) -> None:
        del raw
        if self.service.faults.content_errors:
            self.service.faults.content_errors -= 1
            return self.say({"error": {"message": "broken"}}, status=500)
        if self.service.faults.gone:
            return self.say({"error": {"message": "no such file"}}, status=404)
        return self._send(self.service.file(name))

    def _results(self, raw: bytes, batch_id: str) -> None:
        del raw
        self._send(self.service.batches[batch_id]["files"][f"out-{batch_id}"])

    def _send(self, content: bytes) -> None:
        part = content[: int(len(content) * self.service.faults.cut)]
        self.send_response(200)
        whole = part if self.service.faults.stays_cut else content
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        self.wfile.write(part)
        if len(part) < len(whole):
            self.close_connection = True
