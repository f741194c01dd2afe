"""Batches: files of requests that a provider completes within a day, at a lower price.

OpenAI's form is also that of Azure, Together and `vllm run-batch`. Anthropic has its own, and
OpenRouter takes the requests and returns the results inside the batch, without files.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from regauge.errors import ProviderError
from regauge.providers._client import connection_error
from regauge.providers._cost import batch_cost_of, cost_of, price_of
from regauge.providers._endpoint import Endpoint
from regauge.providers._failure import AttemptError, Ledger, call_with_retries, read_error_response
from regauge.providers._http import HttpApi
from regauge.providers._types import CompletionRequest, Usage
from regauge.providers._wire import count_of
from regauge.providers.remote import drop_unsupported
from regauge.strict_json import list_of, mapping_of, read_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from regauge.project import EndpointSettings
    from regauge.providers._types import Completion

Done = TypeVar("Done")

LIMITS: Final = {
    "openai": (50_000, 200_000_000),
    "responses": (50_000, 200_000_000),
    "anthropic": (100_000, 256_000_000),
}
"""The maximum requests and bytes of a batch, by API."""

LINE_MAX: Final = 16 * 1024 * 1024
"""The maximum number of bytes of one result; larger ones are not read."""

# A result file is streamed; this bounds the disk space that a faulty server can fill. A transfer
# may take a quarter of an hour.
_RESULTS_MAX: Final = 4 * 1024 * 1024 * 1024
_TRANSFER_S: Final = 900.0
_PAGES_MAX: Final = 20
_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled", "canceled", "ended"})
_NO_API: Final = frozenset({404, 405, 501})
_AZURE: Final = re.compile(r"https://[^/]+\.azure\.com[:/]")
_TOGETHER: Final = re.compile(r"//api\.together\.(?:xyz|ai)\b")
_OPENROUTER: Final = re.compile(r"//openrouter\.ai[:/]")
# Stands for the id of a file if the results are part of the batch's description.
_INLINE: Final = "/inline"
_SUCCESS: Final = range(200, 300)


class NoBatchesError(ProviderError):
    """An endpoint does not support batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTag:
    """The metadata that identify a batch.

    Attributes:
        project: The digest of the project's name.
        name: The name of the batch.
    """

    project: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBatch:
    """A batch as its provider describes it.

    Attributes:
        status: In the provider's words.
        is_finished: Whether no further results will follow.
        requests: Number of requests; None if not stated yet.
        completed: Number of requests with a completion; None if not stated.
        created_at: In seconds since 1970.
        tag: Its metadata; None if regauge did not create it.
        tagged: Whether the provider stores metadata.
        input_file: The id of the uploaded requests; empty if there is no such file.
        results: Ids of result files.
        problems: Reasons why the whole batch failed.
    """

    id: str
    status: str
    is_finished: bool
    requests: int | None = None
    completed: int | None = None
    created_at: float = 0.0
    tag: BatchTag | None = None
    tagged: bool = True
    input_file: str = ""
    results: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLine:
    """One line of a result file.

    Attributes:
        body: The response in the form of a live call; empty if there is none.
        problem: The reason why there is none.
    """

    custom_id: str
    body: bytes = b""
    problem: str = ""

    @classmethod
    def parse(cls, line: bytes) -> ResultLine:
        """Parse a line in OpenAI's form or in Anthropic's.

        Raises:
            ValueError: The line has neither form.
        """
        document: object = read_json(line)
        table = mapping_of(document)
        custom_id = table.get("custom_id")
        if not isinstance(custom_id, str) or not custom_id:
            raise ValueError("a line without custom_id")
        if "result" in table:
            return _anthropic_result(custom_id, mapping_of(table["result"]))
        if error := table.get("error"):
            return cls(custom_id=custom_id, problem=_problem(error))
        response = mapping_of(table.get("response"))
        body: object = response.get("body")
        if not isinstance(body, dict):
            raise ValueError("a line without a response")  # noqa: TRY004 - of a document
        status = response.get("status_code", 200)
        if status not in _SUCCESS:
            return cls(
                custom_id=custom_id, problem=f"{status}: {_problem(mapping_of(response['body']))}"
            )
        return cls(custom_id=custom_id, body=_encode(mapping_of(response["body"])))


def _anthropic_result(custom_id: str, result: Mapping[str, Any]) -> ResultLine:
    kind, message = str(result.get("type")), mapping_of(result.get("message"))
    if kind == "succeeded" and message:
        return ResultLine(custom_id=custom_id, body=_encode(message))
    if kind == "errored":
        return ResultLine(custom_id=custom_id, problem=_problem(result.get("error")))
    if kind in {"expired", "canceled"}:
        return ResultLine(custom_id=custom_id, problem=f"batch_{kind}")
    raise ValueError("a line without a message")


def _problem(error: object) -> str:
    refusal = read_error_response(json.dumps({"error": mapping_of(error).get("error") or error}))
    code = refusal.code if refusal.code not in refusal.message else ""
    return ": ".join(filter(None, (code, refusal.message))) or "no reason given"


def _encode(document: object) -> bytes:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")


class BatchClient:
    """The batches of one endpoint. For one event loop.

    Args:
        settings: `[tool.regauge.providers.<name>]`.
        name: The name of that table.
        environ: The environment with the key.

    Attributes:
        endpoint: The endpoint.
        requests_max: Maximum number of requests of a batch.
        bytes_max: Maximum size of its file.
    """

    def __init__(
        self, settings: EndpointSettings, *, name: str, environ: Mapping[str, str]
    ) -> None:
        self.endpoint = Endpoint(name=name, settings=settings, environ=environ)
        self._anthropic = settings.api == "anthropic"
        self.requests_max, self.bytes_max = LIMITS[settings.api]
        self._settings = settings
        self._api = HttpApi(self.endpoint, timeout_s=_TRANSFER_S, connections=4, transport=None)
        # Only Azure's path of chat completions has no version.
        azure = settings.api == "openai" and _AZURE.match(self.endpoint.url)
        self._call_path = self._api.path.removeprefix("/v1") if azure else self._api.path
        self._description: tuple[str, Mapping[str, Any]] = ("", {})
        self._about = CompletionRequest(
            provider=name, model="", messages=(), parameters={}, origin="batch"
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def line(self, custom_id: str, request: CompletionRequest, *, other_limit: bool) -> bytes:
        """Return one request as a line of a file, with the body of a live call.

        Args:
            custom_id: The key of its result.
            request: The request.
            other_limit: Whether `max_tokens` has its less usual name.

        Raises:
            ProviderError: The endpoint does not support the request.
        """
        body = self._api.body(drop_unsupported(request, self.endpoint), other_limit=other_limit)
        head = f'{{"custom_id":{json.dumps(custom_id)},'
        head += (
            '"params":' if self._anthropic else f'"method":"POST","url":"{self._call_path}","body":'
        )
        return head.encode() + body + b"}\n"

    def is_limit_error(self, problem: str) -> bool:
        """Return whether a result's error is that `max_tokens` has another name for its model."""
        return any(name in problem for name in self._api.limit_keys)

    def read(self, request: CompletionRequest, body: bytes) -> Completion:
        """Return the completion of a result, with its price in a batch.

        Raises:
            AttemptError: There is none.
        """
        completion = self._api.read(request, body, headers={})
        if completion.usage == Usage():
            return completion
        url = self.endpoint.url
        price = price_of(
            self._settings.prices, request.model, reported_model=completion.model, url=url
        )
        share = self._settings.batch_price
        cost_usd = batch_cost_of(cost_of(completion.usage, price), url=url, share=share)
        return replace(completion, cost_usd=cost_usd)

    async def upload(self, path: Path) -> str:
        """Upload a file of requests; return its id, empty if the provider has no uploads.

        Raises:
            ProviderError: The upload failed.
        """
        if self._anthropic or _OPENROUTER.search(self.endpoint.url):
            return ""
        purpose = "batch-api" if _TOGETHER.search(self.endpoint.url) else "batch"
        content = await asyncio.to_thread(path.read_bytes)

        async def send(client: Any) -> bytes:
            answer = await client.files.with_raw_response.create(
                file=(path.name, content, "application/jsonl"), purpose=purpose
            )
            data: bytes = answer.http_response.content
            return data

        try:
            return _id_in(_document(await self._perform(send)))
        except NoBatchesError:
            return ""  # no uploads: requests may be part of the batch, as for OpenRouter

    async def start(self, path: Path, file_id: str, tag: BatchTag) -> RemoteBatch:
        """Start a batch; without retries, because each started batch is charged.

        Raises:
            ProviderError: The batch did not start, or its start is unknown.
        """
        if self._anthropic:
            lines = (await asyncio.to_thread(path.read_bytes)).splitlines()
            url, content = "messages/batches", b'{"requests":[' + b",".join(lines) + b"]}"
        elif not file_id:
            url, content = "batches", await asyncio.to_thread(self._inline, path)
        else:
            url = "batches"
            content = _encode(
                {
                    "input_file_id": file_id,
                    "endpoint": self._call_path,
                    "completion_window": "24h",
                    "metadata": {"regauge_project": tag.project, "regauge_batch": tag.name},
                }
            )
        data = await self._perform(
            lambda client: self._request(client.post, url, content=content), once=True
        )
        return self._batch(_document(data))

    def _inline(self, path: Path) -> bytes:
        """Return a batch that contains its requests; OpenRouter requires them last."""
        lines = path.read_bytes().splitlines()
        model = mapping_of(mapping_of(read_json(lines[0]))["body"])["model"]
        head = {"endpoint": self._call_path, "model": model, "completion_window": "24h"}
        call = f'"method":"POST","url":"{self._call_path}",'.encode()
        requests = b",".join(line.replace(call, b"", 1) for line in lines)
        return _encode(head)[:-1] + b',"requests":[' + requests + b"]}"

    async def fetch(self, batch_id: str) -> RemoteBatch:
        """Fetch the state of a batch.

        Raises:
            ProviderError: The state is unavailable.
        """
        return self._batch(await self._describe(batch_id))

    async def list_since(self, created_at: float) -> list[RemoteBatch]:
        """List the batches of the account since a time, newest first.

        Raises:
            ProviderError: The batches cannot be listed.
        """
        remote_batches: list[RemoteBatch] = []
        after = ""
        for _ in range(_PAGES_MAX):
            name = "after_id" if self._anthropic else "after"
            page = read_json(
                await self._get(f"{self._path}?limit=100" + (f"&{name}={after}" if after else ""))
            )
            table = mapping_of(page)
            # Together returns the bare list.
            batches = [self._batch(mapping_of(item)) for item in list_of(table.get("data") or page)]
            remote_batches += [batch for batch in batches if batch.created_at >= created_at]
            last = _quote_id(str(table.get("last_id") or (batches[-1].id if batches else "")))
            if not table.get("has_more") or not last or last == after:
                break
            if batches and batches[-1].created_at < created_at:
                break
            after = last
        return remote_batches

    async def download(self, batch: RemoteBatch, path_of: Callable[[int], Path]) -> str:
        """Write the result files of a finished batch.

        The received part of a truncated file is written, too.

        Args:
            batch: The batch.
            path_of: Called with the number of each file, from 0.

        Returns:
            The reason why a file is incomplete; empty if all are complete.

        Raises:
            ProviderError: Nothing of a file could be fetched.
        """
        if batch.results == (_INLINE,):
            lines = await self._inline_results(batch)
            await asyncio.to_thread(path_of(0).write_bytes, b"".join(lines))
            return ""
        trouble = ""
        for number, file_id in enumerate(batch.results):
            url = self._results_url(batch, file_id)
            trouble = await self._save(url, file_id, path_of(number)) or trouble
        return trouble

    async def _inline_results(self, batch: RemoteBatch) -> list[bytes]:
        """Return the results in the description of a batch, as lines of a file."""
        described_id, document = self._description
        if described_id != batch.id or not document.get("results"):
            document = await self._describe(batch.id)
        return [_encode(result) + b"\n" for result in list_of(document.get("results"))]

    async def _describe(self, batch_id: str) -> Mapping[str, Any]:
        """Return the description of a batch; the last one is cached, as it may hold all results."""
        data = bytearray()
        url = f"{self._path}/{_quote_id(batch_id)}"

        async def get(client: Any) -> None:
            data.clear()
            await self._stream(client, url, data.extend, bytes_max=_RESULTS_MAX)

        await self._perform(get)
        self._description = batch_id, _document(bytes(data))
        return self._description[1]

    async def first_bytes(self, batch: RemoteBatch) -> bytes:
        """Return the beginning of a batch's results, or else of its requests; may be empty."""
        if batch.results == (_INLINE,):
            return b"".join((await self._inline_results(batch))[:1])
        file_id = batch.results[0] if batch.results else batch.input_file
        if not file_id:
            return b""
        url = self._results_url(batch, file_id)
        parts: list[bytes] = []
        await self._perform(lambda client: self._stream(client, url, parts.append, bytes_max=4096))
        return b"".join(parts)

    async def save_requests(self, batch: RemoteBatch, path: Path) -> bool:
        """Write the uploaded requests of a batch; return whether the provider has all of them."""
        if not batch.input_file:
            return False
        url = f"files/{_quote_id(batch.input_file)}/content"
        try:
            return not await self._save(url, batch.input_file, path)
        except ProviderError:
            return False

    def _results_url(self, batch: RemoteBatch, file_id: str) -> str:
        if self._anthropic:
            return f"{self._path}/{_quote_id(batch.id)}/results"
        return f"files/{_quote_id(file_id)}/content"

    @property
    def _path(self) -> str:
        return "messages/batches" if self._anthropic else "batches"

    async def _save(self, url: str, file_id: str, path: Path) -> str:
        size = None
        if not self._anthropic:
            try:
                size = _document(await self._get(f"files/{_quote_id(file_id)}")).get("bytes")
            except ProviderError:
                size = None  # not all servers describe a file
        part = path.with_name(f"{path.name}.part")
        trouble = ""
        cut_off = False

        async def save(client: Any) -> None:
            nonlocal cut_off
            with part.open("wb") as out:
                await self._stream(client, url, out.write, bytes_max=_RESULTS_MAX)
            received_bytes = part.stat().st_size
            if cut_off := isinstance(size, int) and received_bytes < size:
                raise AttemptError(
                    f"{self.endpoint}: the file is truncated, {received_bytes} of {size} bytes",
                    kind="connection",
                    transient=True,
                )

        try:
            await self._perform(save)
        except ProviderError as error:
            # After a temporary failure the provider may still have the whole file.
            if not cut_off and not (part.exists() and part.stat().st_size):
                part.unlink(missing_ok=True)
                raise
            trouble = str(error)
        part.replace(path)
        return trouble

    async def _stream(
        self, client: Any, url: str, write: Callable[[bytes], object], *, bytes_max: int
    ) -> None:
        import aiohttp
        import httpx2

        # With this header the SDKs return a response before its body is read.
        response: Any = await client.get(
            f"{self.endpoint.url}/{url}",
            cast_to=httpx2.Response,
            options={"headers": {"X-Stainless-Raw-Response": "stream"}},
        )
        response.bytes_max = max(bytes_max, _RESULTS_MAX)
        try:
            async for chunk in response.aiter_bytes():
                write(chunk)
                bytes_max -= len(chunk)
                if bytes_max <= 0:
                    break
        except (httpx2.HTTPError, aiohttp.ClientError) as error:
            raise connection_error(
                error, endpoint=str(self.endpoint), provider=self.endpoint.name
            ) from error
        finally:
            await response.aclose()

    async def _get(self, url: str) -> bytes:
        return await self._perform(lambda client: self._request(client.get, url))

    async def _request(self, send: Callable[..., Any], url: str, **options: Any) -> bytes:
        import httpx2

        answer = await send(f"{self.endpoint.url}/{url}", cast_to=httpx2.Response, **options)
        data: bytes = answer.content
        return data

    async def _perform(self, work: Callable[[Any], Awaitable[Done]], *, once: bool = False) -> Done:
        ledger = Ledger(
            max_attempts=1 if once else self._settings.max_attempts,
            deadline_s=self._settings.deadline_s if not once else 0.0,
        )

        async def attempt(ledger: Ledger) -> Done:
            with ledger.clock():
                return await self._api.perform(
                    lambda sdk: work(sdk.client), request=self._about, timeout_s=_TRANSFER_S
                )

        try:
            return await call_with_retries(attempt, ledger)
        except AttemptError as error:
            if error.status in _NO_API:
                raise NoBatchesError(
                    f"{self.endpoint} takes no batches ({error.status})",
                    kind=error.kind,
                    status=error.status,
                ) from error
            raise

    def _batch(self, document: Mapping[str, Any]) -> RemoteBatch:
        table = mapping_of(document.get("job")) or document
        if self._anthropic:
            status = str(table.get("processing_status") or "")
            request_counts = mapping_of(table.get("request_counts"))
            counts = {name: count_of(count) or 0 for name, count in request_counts.items()}
            is_finished = status == "ended"
            return RemoteBatch(
                id=_id_in(table),
                status=status,
                is_finished=is_finished,
                requests=sum(counts.values()),
                completed=counts.get("succeeded"),
                created_at=_seconds(table.get("created_at")),
                tagged=False,
                results=("results",) if is_finished else (),
            )
        status = str(table.get("status") or "").lower()
        metadata = mapping_of(table.get("metadata"))
        project, name = metadata.get("regauge_project"), metadata.get("regauge_batch")
        request_counts = mapping_of(table.get("request_counts"))
        files = [table.get("output_file_id"), table.get("error_file_id")]
        is_finished = status in _ENDED
        results = tuple(file for file in files if isinstance(file, str) and file)
        if is_finished and ("results" in table or "input_file_id" not in table):
            results = (_INLINE,)
        problems = [
            _problem(error) + (f" (line {line})" if (line := mapping_of(error).get("line")) else "")
            for error in list_of(mapping_of(table.get("errors")).get("data"))
        ]
        if error := table.get("error"):
            problems.append(_problem(error))
        return RemoteBatch(
            id=_id_in(table),
            status=status,
            is_finished=is_finished,
            # The total is 0 while a file is validated.
            requests=count_of(request_counts.get("total")) or None,
            completed=count_of(request_counts.get("completed")),
            created_at=_seconds(table.get("created_at")),
            tag=BatchTag(project=project, name=name)
            if isinstance(project, str) and isinstance(name, str)
            else None,
            tagged="metadata" in table,
            input_file=str(table.get("input_file_id") or ""),
            results=results,
            problems=tuple(problems),
        )


def _document(data: bytes) -> Mapping[str, Any]:
    try:
        return mapping_of(read_json(data))
    except ValueError as error:
        raise ProviderError(
            "the provider returned something other than JSON", kind="malformed"
        ) from error


def _id_in(table: Mapping[str, Any]) -> str:
    number = table.get("id")
    if not isinstance(number, str) or not number:
        raise ProviderError("the provider returned no id", kind="malformed")
    return number


def _quote_id(text: str) -> str:
    """Return an id for a URL, without characters that lead to another path: a server sent it."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "", text).strip(".")


def _seconds(value: object) -> float:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return 0.0
    return float(value) if isinstance(value, (int, float)) else 0.0
