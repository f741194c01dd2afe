"""Batches: files of requests that a provider answers within a day, for less money.

OpenAI's form is that of Azure, Together and `vllm run-batch`, too. Anthropic has its own, and
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
from regauge.providers._client import cannot_connect
from regauge.providers._cost import batch_cost_of, cost_of, price_of
from regauge.providers._endpoint import Endpoint
from regauge.providers._failure import AttemptError, read_refusal
from regauge.providers._http import HttpApi
from regauge.providers._retry import Ledger, retried
from regauge.providers._types import CompletionRequest, Usage
from regauge.providers._wire import count_of, items_of, table_of
from regauge.providers.remote import supported
from regauge.strict_json import read_json

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
"""The requests and the bytes that a batch may have, by API."""

LINE_MAX: Final = 16 * 1024 * 1024
"""The bytes of one result above which it is left unread."""

# A file of results is streamed; this bounds the disk that a faulty server can fill. A transfer of
# that size, or of a smaller file over a slow line, has a quarter of an hour.
_RESULTS_MAX: Final = 4 * 1024 * 1024 * 1024
_TRANSFER_S: Final = 900.0
_PAGES_MAX: Final = 20
_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled", "canceled", "ended"})
_NO_API: Final = frozenset({404, 405, 501})
_AZURE: Final = re.compile(r"https://[^/]+\.azure\.com[:/]")
_TOGETHER: Final = re.compile(r"//api\.together\.(?:xyz|ai)\b")
_OPENROUTER: Final = re.compile(r"//openrouter\.ai[:/]")
# The results of a batch that are part of its description, instead of the id of a file.
_INLINE: Final = "/inline"
_OK: Final = 200
_SUCCESS: Final = range(200, 300)


class NoBatchesError(ProviderError):
    """An endpoint takes no batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTag:
    """The metadata by which a batch is found again.

    Attributes:
        project: The digest of the project's name.
        name: The batch's own.
    """

    project: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBatch:
    """A batch as its provider describes it.

    Attributes:
        status: In the provider's words.
        ended: Whether all results are there that there will be.
        requests: How many it has; None where that is not stated yet.
        completed: How many of them have a completion; None where that is not stated.
        created_at: In seconds since 1970.
        tag: Its metadata; None where it has none of ours.
        tagged: Whether the provider keeps metadata at all.
        input_file: The id of the uploaded requests; empty where there is no such file.
        results: Ids of files of results.
        problems: Why it failed as a whole.
    """

    id: str
    status: str
    ended: bool
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
    """One line of a file of results.

    Attributes:
        body: The response as a live call has it; empty where there is none.
        problem: Why there is none.
    """

    custom_id: str
    body: bytes = b""
    problem: str = ""

    @classmethod
    def parse(cls, line: bytes) -> ResultLine:
        """Read a line in OpenAI's form or in Anthropic's.

        Raises:
            ValueError: It is neither.
        """
        document: object = read_json(line)
        table = table_of(document)
        custom_id = table.get("custom_id")
        if not isinstance(custom_id, str) or not custom_id:
            raise ValueError("a line without custom_id")
        if "result" in table:
            return _anthropic_result(custom_id, table_of(table["result"]))
        if error := table.get("error"):
            return cls(custom_id=custom_id, problem=_problem(error))
        response = table_of(table.get("response"))
        body: object = response.get("body")
        if not isinstance(body, dict):
            raise ValueError("a line without a response")  # noqa: TRY004 - of a document
        status = response.get("status_code", _OK)
        if status not in _SUCCESS:
            return cls(
                custom_id=custom_id, problem=f"{status}: {_problem(table_of(response['body']))}"
            )
        return cls(custom_id=custom_id, body=_encode(table_of(response["body"])))


def _anthropic_result(custom_id: str, result: Mapping[str, Any]) -> ResultLine:
    kind, message = str(result.get("type")), table_of(result.get("message"))
    if kind == "succeeded" and message:
        return ResultLine(custom_id=custom_id, body=_encode(message))
    if kind == "errored":
        return ResultLine(custom_id=custom_id, problem=_problem(result.get("error")))
    if kind in {"expired", "canceled"}:
        return ResultLine(custom_id=custom_id, problem=f"batch_{kind}")
    raise ValueError("a line without a message")


def _problem(error: object) -> str:
    refusal = read_refusal(json.dumps({"error": table_of(error).get("error") or error}))
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
        environ: Where the key is.

    Attributes:
        endpoint: Where it is.
        requests_max: How many requests a batch may have.
        bytes_max: How large its file may be.
    """

    def __init__(
        self, settings: EndpointSettings, *, name: str, environ: Mapping[str, str]
    ) -> None:
        self.endpoint = Endpoint(name=name, settings=settings, environ=environ)
        self._anthropic = settings.api == "anthropic"
        self.requests_max, self.bytes_max = LIMITS[settings.api]
        self._settings = settings
        self._api = HttpApi(self.endpoint, timeout_s=_TRANSFER_S, connections=4, transport=None)
        # Azure's name of chat completions, and of nothing else, is without the version.
        azure = settings.api == "openai" and _AZURE.match(self.endpoint.url)
        self._call_path = self._api.path.removeprefix("/v1") if azure else self._api.path
        self._described: tuple[str, Mapping[str, Any]] = ("", {})
        self._about = CompletionRequest(
            provider=name, model="", messages=(), parameters={}, origin="batch"
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def line(self, custom_id: str, request: CompletionRequest, *, other_limit: bool) -> bytes:
        """One request as a line of a file, with the body of a live call.

        Args:
            custom_id: What its result is found by.
            request: The request.
            other_limit: Whether `max_tokens` has its less usual name.

        Raises:
            ProviderError: The endpoint takes no such request.
        """
        body = self._api.body(supported(request, self.endpoint), other_limit=other_limit)
        head = f'{{"custom_id":{json.dumps(custom_id)},'
        head += (
            '"params":' if self._anthropic else f'"method":"POST","url":"{self._call_path}","body":'
        )
        return head.encode() + body + b"}\n"

    def objects_to_limit(self, problem: str) -> bool:
        """Return whether a result says that `max_tokens` has another name for its model."""
        return any(name in problem for name in self._api.limit_keys)

    def read(self, request: CompletionRequest, body: bytes) -> Completion:
        """The completion of a result, with its price in a batch.

        Raises:
            AttemptError: There is none in it.
        """
        completion = self._api.read(request, body, headers={})
        if completion.usage == Usage():
            return completion
        url = self.endpoint.url
        price = price_of(self._settings.prices, request.model, reported=completion.model, url=url)
        share = self._settings.batch_price
        cost_usd = batch_cost_of(cost_of(completion.usage, price), url=url, share=share)
        return replace(completion, cost_usd=cost_usd)

    async def upload(self, path: Path) -> str:
        """Upload a file of requests; returns its id, empty where files are not uploaded.

        Raises:
            ProviderError: It cannot be uploaded.
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
            return ""  # it has no files, and may take the requests as OpenRouter does

    async def start(self, path: Path, file_id: str, tag: BatchTag) -> RemoteBatch:
        """Start a batch; never tried again, because each one that starts is paid for.

        Raises:
            ProviderError: It was not started, or that is not known.
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
        """A batch that holds its requests; OpenRouter wants them after all else."""
        lines = path.read_bytes().splitlines()
        model = table_of(table_of(read_json(lines[0]))["body"])["model"]
        head = {"endpoint": self._call_path, "model": model, "completion_window": "24h"}
        call = f'"method":"POST","url":"{self._call_path}",'.encode()
        requests = b",".join(line.replace(call, b"", 1) for line in lines)
        return _encode(head)[:-1] + b',"requests":[' + requests + b"]}"

    async def fetch(self, batch_id: str) -> RemoteBatch:
        """Fetch the state of a batch.

        Raises:
            ProviderError: That cannot be found out.
        """
        return self._batch(await self._describe(batch_id))

    async def list_since(self, created_at: float) -> list[RemoteBatch]:
        """The batches of the account since a time, the newest first.

        Raises:
            ProviderError: They cannot be listed.
        """
        remote_batches: list[RemoteBatch] = []
        after = ""
        for _ in range(_PAGES_MAX):
            name = "after_id" if self._anthropic else "after"
            page = read_json(
                await self._get(f"{self._path}?limit=100" + (f"&{name}={after}" if after else ""))
            )
            table = table_of(page)
            # Together answers with the list alone.
            batches = [self._batch(table_of(item)) for item in items_of(table.get("data") or page)]
            remote_batches += [batch for batch in batches if batch.created_at >= created_at]
            last = _safe(str(table.get("last_id") or (batches[-1].id if batches else "")))
            if not table.get("has_more") or not last or last == after:
                break
            if batches and batches[-1].created_at < created_at:
                break
            after = last
        return remote_batches

    async def download(self, batch: RemoteBatch, to: Callable[[int], Path]) -> str:
        """Write the files of results of a batch that has ended.

        What arrived of a file that is cut off is written, too.

        Args:
            batch: The batch.
            to: Where its files go, by number from 0.

        Returns:
            Why a file is not whole; empty where all are.

        Raises:
            ProviderError: Nothing of a file could be fetched.
        """
        if batch.results == (_INLINE,):
            lines = await self._inline_results(batch)
            await asyncio.to_thread(to(0).write_bytes, b"".join(lines))
            return ""
        trouble = ""
        for number, file_id in enumerate(batch.results):
            url = self._results_url(batch, file_id)
            trouble = await self._save(url, file_id, to(number)) or trouble
        return trouble

    async def _inline_results(self, batch: RemoteBatch) -> list[bytes]:
        """The results in the description of a batch, as lines of a file."""
        described, document = self._described
        if described != batch.id or not document.get("results"):
            document = await self._describe(batch.id)
        return [_encode(result) + b"\n" for result in items_of(document.get("results"))]

    async def _describe(self, batch_id: str) -> Mapping[str, Any]:
        """The description of a batch; the last one is kept, as it may hold all results."""
        data = bytearray()
        url = f"{self._path}/{_safe(batch_id)}"

        async def get(client: Any) -> None:
            data.clear()
            await self._stream(client, url, data.extend, most=_RESULTS_MAX)

        await self._perform(get)
        self._described = batch_id, _document(bytes(data))
        return self._described[1]

    async def first_bytes(self, batch: RemoteBatch) -> bytes:
        """The beginning of the results of a batch, or of its requests; empty where it has none."""
        if batch.results == (_INLINE,):
            return b"".join((await self._inline_results(batch))[:1])
        file_id = batch.results[0] if batch.results else batch.input_file
        if not file_id:
            return b""
        url = self._results_url(batch, file_id)
        parts: list[bytes] = []
        await self._perform(lambda client: self._stream(client, url, parts.append, most=4096))
        return b"".join(parts)

    async def save_requests(self, batch: RemoteBatch, path: Path) -> bool:
        """Write the uploaded requests of a batch; returns whether the provider has all of them."""
        if not batch.input_file:
            return False
        url = f"files/{_safe(batch.input_file)}/content"
        try:
            return not await self._save(url, batch.input_file, path)
        except ProviderError:
            return False

    def _results_url(self, batch: RemoteBatch, file_id: str) -> str:
        if self._anthropic:
            return f"{self._path}/{_safe(batch.id)}/results"
        return f"files/{_safe(file_id)}/content"

    @property
    def _path(self) -> str:
        return "messages/batches" if self._anthropic else "batches"

    async def _save(self, url: str, file_id: str, path: Path) -> str:
        size = None
        if not self._anthropic:
            try:
                size = _document(await self._get(f"files/{_safe(file_id)}")).get("bytes")
            except ProviderError:
                size = None  # not all servers describe a file
        part = path.with_name(f"{path.name}.part")
        trouble = ""
        cut_off = False

        async def save(client: Any) -> None:
            nonlocal cut_off
            with part.open("wb") as out:
                await self._stream(client, url, out.write, most=_RESULTS_MAX)
            got = part.stat().st_size
            if cut_off := isinstance(size, int) and got < size:
                raise AttemptError(
                    f"{self.endpoint}: the file is cut off, {got} of {size} bytes arrived",
                    kind="connection",
                    transient=True,
                )

        try:
            await self._perform(save)
        except ProviderError as error:
            # A provider that fails for now may have all of it.
            if not cut_off and not (part.exists() and part.stat().st_size):
                part.unlink(missing_ok=True)
                raise
            trouble = str(error)
        part.replace(path)
        return trouble

    async def _stream(
        self, client: Any, url: str, take: Callable[[bytes], object], *, most: int
    ) -> None:
        import aiohttp
        import httpx2

        # The header has the SDKs hand out a response before its body is read.
        response: Any = await client.get(
            f"{self.endpoint.url}/{url}",
            cast_to=httpx2.Response,
            options={"headers": {"X-Stainless-Raw-Response": "stream"}},
        )
        response.most = max(most, _RESULTS_MAX)
        try:
            async for chunk in response.aiter_bytes():
                take(chunk)
                most -= len(chunk)
                if most <= 0:
                    break
        except (httpx2.HTTPError, aiohttp.ClientError) as error:
            raise cannot_connect(
                error, where=str(self.endpoint), provider=self.endpoint.name
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
            return await retried(attempt, ledger)
        except AttemptError as error:
            if error.status in _NO_API:
                raise NoBatchesError(
                    f"{self.endpoint} takes no batches ({error.status})",
                    kind=error.kind,
                    status=error.status,
                ) from error
            raise

    def _batch(self, document: Mapping[str, Any]) -> RemoteBatch:
        table = table_of(document.get("job")) or document
        if self._anthropic:
            status = str(table.get("processing_status") or "")
            stated = table_of(table.get("request_counts"))
            counts = {name: count_of(count) or 0 for name, count in stated.items()}
            ended = status == "ended"
            return RemoteBatch(
                id=_id_in(table),
                status=status,
                ended=ended,
                requests=sum(counts.values()),
                completed=counts.get("succeeded"),
                created_at=_seconds(table.get("created_at")),
                tagged=False,
                results=("results",) if ended else (),
            )
        status = str(table.get("status") or "").lower()
        metadata = table_of(table.get("metadata"))
        project, name = metadata.get("regauge_project"), metadata.get("regauge_batch")
        stated = table_of(table.get("request_counts"))
        files = [table.get("output_file_id"), table.get("error_file_id")]
        ended = status in _ENDED
        results = tuple(file for file in files if isinstance(file, str) and file)
        if ended and ("results" in table or "input_file_id" not in table):
            results = (_INLINE,)
        problems = [
            _problem(error) + (f" (line {line})" if (line := table_of(error).get("line")) else "")
            for error in items_of(table_of(table.get("errors")).get("data"))
        ]
        if error := table.get("error"):
            problems.append(_problem(error))
        return RemoteBatch(
            id=_id_in(table),
            status=status,
            ended=ended,
            # The total is 0 while a file is validated.
            requests=count_of(stated.get("total")) or None,
            completed=count_of(stated.get("completed")),
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
        return table_of(read_json(data))
    except ValueError as error:
        raise ProviderError(
            "the provider answered with something else than JSON", kind="malformed"
        ) from error


def _id_in(table: Mapping[str, Any]) -> str:
    number = table.get("id")
    if not isinstance(number, str) or not number:
        raise ProviderError("the provider answered without an id", kind="malformed")
    return number


def _safe(text: str) -> str:
    """An id as a part of a URL: it comes from a server, and leads to no other path."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "", text).strip(".")


def _seconds(value: object) -> float:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return 0.0
    return float(value) if isinstance(value, (int, float)) else 0.0
