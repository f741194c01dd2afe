"""The batches of a project: written, started, found again, and collected by the key of a call.

State is in `.regauge/batches/`: for each batch NAME.json, NAME.jsonl with its requests, and
NAME.results-N.jsonl once there are results. A batch can be found without these files: its
provider keeps the name and the project's digest as metadata, and results carry the keys.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import secrets
import shlex
import time
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regauge.atomic import write_whole
from regauge.digests import digest_of
from regauge.errors import PendingError, ProviderError, RegaugeError, UsageError
from regauge.model_id import is_simulated
from regauge.providers import parse_model_id
from regauge.providers.registry import APIS, endpoint_of
from regauge.recordings import RecordingKey, lock_directory
from regauge.stop_signals import run_stoppable
from regauge.wording import first_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Collection,
        Generator,
        Iterable,
        Iterator,
        Sequence,
    )

    from regauge.project import Project
    from regauge.providers import Completion
    from regauge.providers.batches import BatchClient, RemoteBatch, ResultLine
    from regauge.runner import CaseRequest, EvalSession, PlannedTrial


_DIRECTORY: Final = "batches"
_RESULTS: Final = (".jsonl", ".jsonl.gz")
_GZIP: Final = b"\x1f\x8b"
_GONE: Final = frozenset({404, 410})
# Providers keep results for 29 or 30 days.
_KEPT_S: Final = 30 * 86_400.0
# A batch ends within a day.
_WINDOW_S: Final = 25 * 3600.0
_CLOCKS_S: Final = 300.0
_PEEKS_MAX: Final = 50
_NAMED_MAX: Final = 5
_AT_ONCE: Final = 500
_UNKNOWN: Final = ("result of an unknown call", "left", "results of unknown calls")
# Such as after an edit of the prompt.
_UNUSED: Final = ("result of a call that is not made now", "left", "results of calls not made now")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}-\d{1,15}")
_NAME: Final = r"^\d{8}T\d{6}Z-[0-9a-f]{6}-\d{1,6}$"


def result_id(key: RecordingKey) -> str:
    """The `custom_id` of a call: its key, in the 64 characters that providers accept.

    >>> result_id(RecordingKey("00" * 31 + "ff", 2))
    'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8-2'
    """
    digest = base64.urlsafe_b64encode(bytes.fromhex(key.digest)).decode().rstrip("=")
    return f"{digest}-{key.trial}"


def key_of(custom_id: str) -> RecordingKey | None:
    """The key in a `custom_id`; None if regauge did not make it.

    >>> key_of("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8-2") == RecordingKey("00" * 31 + "ff", 2)
    True
    >>> key_of("request-1") is None
    True
    """
    if not _ID.fullmatch(custom_id):
        return None
    digest = base64.urlsafe_b64decode(f"{custom_id[:43]}=").hex()
    return RecordingKey(digest, int(custom_id[44:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The batch options of a command.

    Attributes:
        start: Whether to write missing calls into new batches.
        upload: Whether to upload and start these.
        files: Result files to read; if empty, results are fetched from providers.
        command: The collecting command, for messages.
    """

    start: bool
    upload: bool = True
    files: tuple[Path, ...] = ()
    command: str = "regauge record"

    @classmethod
    def of_command(
        cls, command: str, names: Sequence[str], *, batch: bool, collect: bool, no_submit: bool
    ) -> tuple[BatchOptions | None, tuple[str, ...]]:
        """The batch options and prompt names of a command line.

        Raises:
            UsageError: Options contradict each other, or a file does not exist.
        """
        if no_submit and not batch:
            raise UsageError("--no-submit goes with --batch\n  fix: add --batch")
        if batch and collect:
            fix = "use --batch alone: it collects what is there, and submits the rest"
            raise UsageError("--batch and --collect exclude each other", fix=fix)
        if not batch and not collect:
            return None, (*names,)
        prompts = tuple(name for name in names if not (collect and name.endswith(_RESULTS)))
        files = tuple(Path(name) for name in names if name not in prompts)
        for file in files:
            if not file.is_file():
                raise UsageError(f"there is no file {str(file)!r}\n  fix: name a file of results")
            _refuse_format(file)
        return cls(start=batch, upload=not no_submit, files=files, command=command), prompts


def _refuse_format(file: Path) -> None:
    """Refuse files that are no JSON Lines in UTF-8.

    Raises:
        UsageError: It is compressed, UTF-16 or an array.
    """
    with file.open("rb") as content:
        start = content.read(2)
    quoted = shlex.quote(str(file))
    if start == _GZIP:
        raise UsageError(f"{str(file)!r} is compressed", fix=f"gunzip {quoted}")
    if start in {BOM_UTF16_LE, BOM_UTF16_BE}:
        fix = f"iconv -f UTF-16 -t UTF-8 {quoted} > results.jsonl"
        raise UsageError(f"{str(file)!r} is UTF-16", fix=fix)
    if start.startswith(b"["):
        fix = f"jq -c '.[]' {quoted} > results.jsonl"
        raise UsageError(f"{str(file)!r} is one JSON array, not a result per line", fix=fix)


class _State(BaseModel):
    """The document NAME.json.

    Attributes:
        model: `provider:model`; without a model if the batch was found at its provider.
        status: `written` is not uploaded, and `starting` may have started. `collected` has no
            further results. In `by-hand`, the user runs the file.
        failed: Reasons for missing completions by `custom_id`, from files of `--collect`.
        cut: The size of truncated results at the last download; None if complete.
        is_complete: Whether all results arrived.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    name: Annotated[str, Field(pattern=_NAME)]
    model: str
    requests: int
    status: Literal["written", "starting", "started", "ended", "collected", "by-hand"]
    batch_id: str = ""
    created_at: float
    failed: dict[str, str] = {}
    problems: list[str] = []
    cut: int | None = None
    is_complete: bool = True
    provider_status: str = ""

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return self.model.partition(":")[0]

    @property
    def problem(self) -> str:
        """The reason why a call of a batch that has ended has no result."""
        if self.provider_status in {"completed", "ended", ""}:
            return f"no result in batch {self.name}"
        return ": ".join([f"batch {self.provider_status}", *self.problems])


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a result in a file."""

    path: Path
    offset: int
    length: int

    def read(self) -> ResultLine:
        """The result."""
        from regauge.providers.batches import ResultLine

        with self.path.open("rb") as file:
            file.seek(self.offset)
            return ResultLine.parse(file.read(self.length))


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A batch whose file of requests is being written."""

    state: _State
    file: IO[bytes]
    size: int = 0


@dataclass(slots=True, kw_only=True)
class _Read:
    """The lines of result files.

    Attributes:
        places: The place of the first completion by call.
        problems: The failure by call, for calls without a completion.
        unreadable: Lines that are no result or contradict one, with file, number and reason.
        cut: Whether the last line of a file is truncated.
        lines: The number of lines.
    """

    places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    problems: dict[str, str] = field(default_factory=dict[str, str])
    unreadable: list[str] = field(default_factory=list[str])
    cut: bool = False
    lines: int = 0

    def add(self, path: Path, place: str) -> None:
        """Read one file."""
        from regauge.providers.batches import LINE_MAX, ResultLine

        with path.open("rb") as file:
            number = offset = 0
            while line := file.readline(LINE_MAX + 1):
                number, start = number + 1, offset
                offset += len(line)
                long = len(line) > LINE_MAX
                while len(line) > LINE_MAX and not line.endswith(b"\n"):
                    line = file.readline(LINE_MAX + 1)
                    offset += len(line)
                if not line.strip() and not long:
                    continue
                self.lines += 1
                problem = f"longer than {LINE_MAX} bytes" if long else ""
                try:
                    if not long:
                        problem = self._add_result(
                            ResultLine.parse(line), _Place(path, start, len(line))
                        )
                except (ValueError, RecursionError) as error:
                    cut = not line.endswith(b"\n")
                    self.cut = self.cut or cut
                    reason = "not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
                    problem = "cut off" if cut else printable(reason)[:80]
                if problem:
                    self.unreadable.append(f"{place}:{number}: {problem}")

    def _add_result(self, result: ResultLine, place: _Place) -> str:
        """Add a result; return the reason for ignoring it, or an empty text."""
        if result.body:
            first = self.places.setdefault(result.custom_id, place)
            if first is not place and first.read().body != result.body:
                return f"contradicts an earlier result of {result.custom_id}"
        else:
            self.problems.setdefault(result.custom_id, result.problem)
        return ""


class ProjectBatches:
    """The completions of a run from batches: the protocol `Batches` of the runner.

    Args:
        evals: The run, which takes its completions from here.
        options: The batch options.

    Attributes:
        collected_ids: Calls with a completion from results.
        pending: The batch of each call under way.
        missing: Calls in no batch.
        failures: An example case and the number of calls, by reason of failure.
        live_only: The number of calls that no batch can make, by reason.
        notes: Further notes for the user.
    """

    def __init__(self, evals: EvalSession, options: BatchOptions) -> None:
        self._project = project = evals.project
        self._evals = evals
        self._options = options
        self._directory = project.state_dir / _DIRECTORY
        self._tag = digest_of({"project": _project_name(project)})[:16]
        self._now = time.time()
        self._batches: list[_State] = []
        self._results: dict[str, _Place] = {}
        self._failed: dict[str, str] = {}
        self._under_way: dict[str, str] = {}
        self._known_ids: set[str] = set()
        self._drafts: dict[tuple[str, bool], _Draft] = {}
        self._started: list[_State] = []
        # For writing and reading lines, without network access.
        self._client = cache(self._new_client)
        self._suspects: list[tuple[str, RemoteBatch]] = []
        self._peeks = 0
        self._of_files = _Read()
        self.collected_ids: set[str] = set()
        self.pending: dict[str, str] = {}
        self._judge_calls: set[str] = set()
        self.missing: set[str] = set()
        self.failures: dict[str, tuple[str, int]] = {}
        self.live_only: Counter[str] = Counter()
        self.notes: list[str] = []

    # The protocol of the runner.

    def find(self, case_request: CaseRequest) -> Completion | None:
        """The collected completion of a call; None to request it."""
        custom_id = result_id(case_request.key)
        if case_request.judge is not None:
            self._judge_calls.add(custom_id)
        if (reason := self._live_only_reason(case_request)) is not None:
            self.live_only[reason] += 1
            raise PendingError(f"not by batch: {reason}")
        if (place := self._results.get(custom_id)) is not None:
            try:
                client = self._client(case_request.request.provider)
                completion = client.read(case_request.request, place.read().body)
            except ProviderError as error:
                del self._results[custom_id]
                self._failed[custom_id] = str(error)
            else:
                self.collected_ids.add(custom_id)
                return completion
        if (name := self._under_way.get(custom_id)) is not None:
            self.pending[custom_id] = name
            raise PendingError(f"under way in batch {name}")
        if (problem := self._failed.get(custom_id)) is not None:
            words = self._evals.completions.redact(printable(problem.partition("\n")[0]))[:300]
            case, count = self.failures.get(words, (case_request.case, 0))
            self.failures[words] = case, count + 1
            if not self._options.start:
                raise PendingError(f"failed in a batch: {words}")
        elif not self._options.start:
            self.missing.add(custom_id)
            raise PendingError("not in a batch yet")
        return None

    def request(self, case_request: CaseRequest) -> PendingError:
        """Add a call to the next batch."""
        custom_id = result_id(case_request.key)
        client = self._client(case_request.request.provider)
        other = client.is_limit_error(self._failed.get(custom_id, ""))
        line = client.line(custom_id, case_request.request, other_limit=other)
        self._failed.pop(custom_id, None)
        draft = self._draft(case_request.model, other, client, len(line))
        draft.file.write(line)
        draft.state.requests += 1
        draft.size += len(line)
        self._under_way[custom_id] = self.pending[custom_id] = draft.state.name
        return PendingError(f"under way in batch {draft.state.name}")

    def _live_only_reason(self, call: CaseRequest) -> str | None:
        if call.target is not None:
            return f"target {call.model}"
        request = call.request
        if request.provider_override is not None:
            return f"judge {call.judge!r}, which calls its model itself"
        if is_simulated(call.model):
            return f"{call.model}, simulated"
        endpoint = endpoint_of(self._project.settings, request.provider)
        if endpoint is None or endpoint.api not in APIS:
            return f"{call.model}, whose provider takes no batches"
        return None

    def _new_client(self, provider: str) -> BatchClient:
        from regauge.providers.batches import BatchClient

        settings = endpoint_of(self._project.settings, provider)
        assert settings is not None
        return BatchClient(settings, name=provider, environ=os.environ)

    def _draft(self, model: str, other: bool, client: BatchClient, size: int) -> _Draft:  # noqa: FBT001 - part of a key
        key = (model, other)
        draft = self._drafts.get(key)
        if draft is not None and (
            draft.state.requests >= client.requests_max or draft.size + size > client.bytes_max
        ):
            self._write(self._drafts.pop(key))
            draft = None
        if draft is None:
            number = len(self._started) + len(self._drafts)
            state = _State(
                name=f"{_moment(self._now)}-{secrets.token_hex(3)}-{number}",
                model=model,
                requests=0,
                status="written" if self._options.upload else "by-hand",
                created_at=self._now,
            )
            file = (self._directory / f"{state.name}.jsonl.part").open("wb")
            draft = self._drafts[key] = _Draft(state=state, file=file)
        return draft

    def _write(self, draft: _Draft) -> None:
        draft.file.close()
        Path(draft.file.name).replace(self._requests(draft.state.name))
        self._save(draft.state)
        self._started.append(draft.state)

    # The command.

    @contextmanager
    def open(self) -> Generator[None]:
        """Collect results and serve completions from them to the run, under an exclusive lock.

        Raises:
            RegaugeError: State cannot be read, or a provider cannot be reached.
        """
        self._project.prepare_state_dir(_DIRECTORY)
        with lock_directory(self._directory):
            for path in self._directory.glob("*.part"):
                path.unlink()
            self._load()
            if not self._options.files and self._options.upload:
                run_stoppable(self._update_all())
            for file in self._options.files:
                self._take_file(file)
            self._resolve()
            self._evals.batches = self
            try:
                yield
            finally:
                self._evals.batches = None
                for draft in self._drafts.values():
                    draft.file.close()
                    Path(draft.file.name).unlink(missing_ok=True)

    def start(self) -> list[str]:
        """Write the requested calls and start their batches; return errors.

        The next command writes a batch that did not start again.
        """
        for key in [*self._drafts]:
            self._write(self._drafts.pop(key))
        return run_stoppable(self._start()) if self._started and self._options.upload else []

    @property
    def has_open_calls(self) -> bool:
        """Return whether calls of this run have no completion yet."""
        return bool(self.pending or self.missing or self.failures or self.live_only)

    def sentences(self) -> Iterator[str]:
        """The calls under way, and the command that collects them."""
        by_hand = [state for state in self._states() if state.status == "by-hand"]
        files = {state.name: state for state in by_hand}
        remote = [x for x, name in self.pending.items() if name not in files]
        if remote:
            yield (
                f"{self._describe_counts(remote)} under way; collect the results with:"
                f" {self._options.command} --collect"
            )
        for name, state in files.items():
            if calls := [x for x, batch in self.pending.items() if batch == name]:
                yield (
                    f"{self._describe_counts(calls)} of {state.model} written to"
                    f" {self._project.relative(self._requests(name))}; run the file, then:"
                    f" {self._options.command} --collect RESULTS.jsonl"
                )
        if self.missing:
            yield (
                f"{self._describe_counts(self.missing)} missing; submit them with:"
                f" {self._options.command} --batch"
            )
        if self.failures and not self._options.start:
            count = sum(count for _, count in self.failures.values())
            yield (
                f"{plural(count, 'call')} failed; submit them again with:"
                f" {self._options.command} --batch"
            )

    def _describe_counts(self, custom_ids: Collection[str]) -> str:
        """The number of completions among the calls, and of judgements."""
        of_judges = len(self._judge_calls & {*custom_ids})
        counts = {"completion": len(custom_ids) - of_judges, "judge call": of_judges}
        return " and ".join(plural(count, noun) for noun, count in counts.items() if count)

    def warnings(self) -> Iterator[str]:
        """Ignored lines, failed calls, and calls that no batch can make."""
        yield from self.notes
        for reason, (case, count) in self.failures.items():
            cases = f"case {case}" if count == 1 else f"cases such as {case}"
            yield f"{plural(count, 'call')} failed in a batch, of {cases}: {reason}"
        for reason, count in self.live_only.most_common():
            yield (
                f"not by batch: {plural(count, 'call')} of {reason}; record live:"
                f" {self._options.command}"
            )
        yield from _some(self._of_files.unreadable, "line", "left")
        left = [
            custom_id
            for custom_id in (*self._of_files.places, *self._of_files.problems)
            if custom_id not in self.collected_ids and not self._is_recorded(custom_id)
        ]
        yield from _some([x for x in left if x not in self._known_ids], *_UNKNOWN)
        unused = [x for x in left if x in self._known_ids and x in self._of_files.places]
        yield from _some(unused, *_UNUSED)

    def to_json(self) -> dict[str, Any]:
        """The results as a JSON document."""
        return {
            "under_way": len(self.pending),
            "collected": len(self.collected_ids),
            "batches": sorted(set(self.pending.values())),
            "notes": [*self.warnings()],
        }

    def tidy(self) -> None:
        """Remove recorded results; the state of each batch stays for a month."""
        for state in self._states():
            if state.created_at < self._now - _KEPT_S - 86_400:
                self._remove(state, note=False)
            elif state.status in {"ended", "by-hand"} and not any(
                self._is_open(custom_id, state) for custom_id in self._ids(state)
            ):
                self._save(state.model_copy(update={"status": "collected", "failed": {}}))
                self._remove(state, note=True)

    def _is_open(self, custom_id: str, state: _State) -> bool:
        """Return whether a call has no recorded completion and is in no later batch."""
        if custom_id in self.collected_ids:
            return False
        under_way = self._under_way.get(custom_id) == state.name
        if not (under_way or custom_id in self._results or custom_id in self._failed):
            return False
        return key_of(custom_id) is not None and not self._is_recorded(custom_id)

    def _is_recorded(self, custom_id: str) -> bool:
        key = key_of(custom_id)
        return key is not None and self._evals.completions.knows(key)

    # State.

    def _requests(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"

    def _result_paths(self, state: _State) -> list[Path]:
        return sorted(self._directory.glob(f"{state.name}.results-*.jsonl"))

    def _save(self, state: _State) -> None:
        text = json.dumps(state.model_dump(mode="json"), indent=2, ensure_ascii=False)
        write_whole(self._directory / f"{state.name}.json", f"{text}\n".encode())

    def _remove(self, state: _State, *, note: bool) -> None:
        for path in (self._requests(state.name), *self._result_paths(state)):
            path.unlink(missing_ok=True)
        if not note:
            (self._directory / f"{state.name}.json").unlink(missing_ok=True)

    def _states(self) -> list[_State]:
        return [*self._batches, *self._started]

    def _load(self) -> None:
        for path in sorted(self._directory.glob("*.json")):
            try:
                state = _State.model_validate_json(path.read_bytes())
            except (OSError, ValidationError) as error:
                message = f"{self._project.relative(path)} cannot be read: {type(error).__name__}"
                fix = "remove it; the batch is found again at its provider"
                raise UsageError(message, fix=fix) from error
            has_results = state.status in {"ended", "collected"}
            if not has_results and not self._requests(state.name).exists():
                # The user removed the file of requests; a started batch is found again.
                path.unlink()
                continue
            self._batches.append(state)
        names = {state.name for state in self._batches}
        for path in self._directory.glob("*.jsonl"):
            name = path.name.partition(".")[0]
            if name not in names and re.fullmatch(_NAME, name):
                path.unlink()  # the command was killed before it had noted the batch

    def _ids(self, state: _State) -> list[str]:
        """The calls of a batch; empty if not known yet."""
        try:
            content = self._requests(state.name).read_bytes()
        except FileNotFoundError:
            return []
        ids: list[str] = []
        for line in content.splitlines():
            # The id comes first in a line of ours; a file from a provider may order its keys.
            match = re.match(rb'\{"custom_id":"([A-Za-z0-9_-]{45,60})"', line)
            if match is not None:
                ids.append(match[1].decode())
                continue
            with suppress(ValueError, TypeError, KeyError):
                ids.append(str(json.loads(line)["custom_id"]))
        return ids

    def _resolve(self) -> None:
        """Find the result of each call; later batches take precedence."""
        for state in self._batches:
            if state.status != "collected":
                self._resolve_batch(state)
        for custom_id, place in self._of_files.places.items():
            self._results.setdefault(custom_id, place)
            self._under_way.pop(custom_id, None)
        for custom_id, problem in self._of_files.problems.items():
            if custom_id not in self._results:
                self._failed[custom_id] = problem
                self._under_way.pop(custom_id, None)

    def _resolve_batch(self, state: _State) -> None:
        read = _Read()
        for path in self._result_paths(state):
            read.add(path, self._project.relative(path).as_posix())
        ids = dict.fromkeys(self._ids(state) or [*read.places, *read.problems])
        self._known_ids.update(ids)
        unknown = [x for x in (*read.places, *read.problems) if x not in ids]
        self.notes += _some(read.unreadable, "line", "left")
        self.notes += _some(unknown, *_UNKNOWN)
        problems = {**read.problems, **state.failed}
        for custom_id in ids:
            self._under_way.pop(custom_id, None)
            self._failed.pop(custom_id, None)
            if custom_id in read.places:
                self._results.setdefault(custom_id, read.places[custom_id])
            elif custom_id in problems or (state.status == "ended" and state.is_complete):
                self._failed[custom_id] = problems.get(custom_id) or state.problem
            elif custom_id not in self._results:
                self._under_way[custom_id] = state.name

    def _take_file(self, path: Path) -> None:
        """Read a result file of the command line; store its failures for the next batch."""
        self._of_files.add(path, str(path))
        for state in self._batches:
            if state.status == "collected":
                continue
            failed = {
                custom_id: self._evals.completions.redact(self._of_files.problems[custom_id])
                for custom_id in self._ids(state)
                if custom_id in self._of_files.problems and custom_id not in self._of_files.places
            }
            if failed:
                state.failed.update(failed)
                self._save(state)

    # Providers.

    async def _update_all(self) -> None:
        """Fetch the state of batches from providers, with batches of other machines."""
        providers = {state.provider for state in self._batches if state.status != "by-hand"}
        for provider in sorted(providers | self._providers()):
            settings = endpoint_of(self._project.settings, provider)
            if settings is not None and settings.api in APIS:
                async with self._online(provider) as client:
                    await self._update_provider(provider, client)

    def _providers(self) -> set[str]:
        """The providers of the plan's models."""
        providers: set[str] = set()
        for suite in {id(case.suite): case.suite for case in self._evals.plan.cases}.values():
            models = [str(suite.model)] if suite.target is None else []
            models += [name for judge in suite.model_judges for name in judge.models]
            for model in models:
                with suppress(RegaugeError):
                    providers.add(parse_model_id(model).provider)
        return providers

    @asynccontextmanager
    async def _online(self, provider: str) -> AsyncGenerator[BatchClient]:
        client = self._new_client(provider)
        try:
            yield client
        except ProviderError as error:
            # Gateways repeat the key that they refuse.
            error.args = (self._evals.completions.redact(str(error)),)
            raise
        finally:
            await client.aclose()

    async def _update_provider(self, provider: str, client: BatchClient) -> None:
        from regauge.providers.batches import NoBatchesError

        states = [state for state in self._batches if state.provider == provider]
        try:
            remote_batches = await client.list_since(self._now - _KEPT_S)
        except NoBatchesError:
            if any(state.status in {"starting", "started"} for state in states):
                raise
            return
        for state in states:
            await self._update_state(state, remote_batches, client)
        known_ids = {state.batch_id for state in self._batches}
        names = {state.name for state in self._batches}
        for batch in remote_batches:
            if batch.id not in known_ids:
                name = await self._name_of(batch, provider, client)
                if name is not None and name not in names:
                    await self._adopt(name, provider, batch, client)

    async def _update_state(
        self, state: _State, remote_batches: Sequence[RemoteBatch], client: BatchClient
    ) -> None:
        """Fetch the state of a batch that this machine wrote."""
        if state.status in {"written", "starting"}:
            batch = await self._find_remote(state, remote_batches, client)
            if batch is None:
                # Not started, so not paid for: calls that are still needed are written again.
                self._batches.remove(state)
                self._remove(state, note=False)
                return
            state.batch_id, state.status = batch.id, "started"
            self._save(state)
        if state.status == "started" or (state.status == "ended" and not state.is_complete):
            by_id = {batch.id: batch for batch in remote_batches}
            try:
                batch = by_id.get(state.batch_id) or await client.fetch(state.batch_id)
            except ProviderError as error:
                if error.status not in _GONE:
                    raise
                file = self._project.relative(self._requests(state.name))
                self.notes.append(
                    f"batch {state.name} is not at {state.provider!r}: use the key that started it,"
                    f" or remove {file} to submit its calls again"
                )
            else:
                await self._update(state, batch, client)

    async def _name_of(self, batch: RemoteBatch, provider: str, client: BatchClient) -> str | None:
        """The name of an unknown batch of this project; None for any other batch."""
        if batch.tag is not None:
            is_own = batch.tag.project == self._tag and re.fullmatch(_NAME, batch.tag.name)
            return batch.tag.name if is_own else None
        if batch.tagged:
            return None
        if not batch.is_finished and not batch.input_file:
            self._suspects.append((provider, batch))
            return None
        self._peeks += 1
        if self._peeks > _PEEKS_MAX or not await self._is_ours(batch, client):
            return None
        return f"{_moment(batch.created_at)}-{digest_of({'batch': batch.id})[:6]}-0"

    async def _adopt(
        self, name: str, provider: str, batch: RemoteBatch, client: BatchClient
    ) -> None:
        """Add a batch that another machine started."""
        state = _State(
            name=name,
            model=f"{provider}:",
            requests=batch.requests or 0,
            status="started",
            batch_id=batch.id,
            created_at=batch.created_at,
        )
        if batch.input_file:
            await client.save_requests(batch, self._requests(name))
        self._batches.append(state)
        self._batches.sort(key=lambda state: state.name)
        self._save(state)
        await self._update(state, batch, client)

    async def _find_remote(
        self, state: _State, remote_batches: Sequence[RemoteBatch], client: BatchClient
    ) -> RemoteBatch | None:
        """The remote batch of an unconfirmed start, without metadata by its requests; or None."""
        for batch in remote_batches:
            if batch.tag and batch.tag.name == state.name:
                return batch
        if state.status == "written":
            return None
        ids = {*self._ids(state)}
        known_ids = {state.batch_id for state in self._states()}
        for batch in remote_batches:
            differs = batch.tagged or batch.requests not in {None, state.requests}
            older = batch.created_at < state.created_at - _CLOCKS_S
            if differs or older or batch.id in known_ids:
                continue
            if not batch.is_finished or self._first_id(await client.first_bytes(batch)) in ids:
                return batch
        return None

    async def _is_ours(self, batch: RemoteBatch, client: BatchClient) -> bool:
        try:
            first = self._first_id(await client.first_bytes(batch))
        except ProviderError:
            return False
        return first is not None and key_of(first) is not None

    @staticmethod
    def _first_id(content: bytes) -> str | None:
        match = re.search(rb'"custom_id"\s*:\s*"([A-Za-z0-9_-]{1,64})"', content)
        return None if match is None else match[1].decode()

    async def _update(self, state: _State, batch: RemoteBatch, client: BatchClient) -> None:
        """Save the state of a batch, and download its results."""
        state.provider_status = batch.status
        redact = self._evals.completions.redact
        problems = batch.problems[:_NAMED_MAX]
        state.problems = [redact(printable(problem))[:300] for problem in problems]
        if batch.is_finished:
            trouble: str | None
            try:
                trouble = await client.download(
                    batch, lambda number: self._directory / f"{state.name}.results-{number}.jsonl"
                )
            except ProviderError as error:
                trouble = "gone" if error.status in _GONE else None
                reason = "the provider has no such file" if trouble else redact(str(error))
                self.notes.append(
                    f"the results of batch {state.name} cannot be fetched now: {reason}"
                )
            if trouble is not None:
                self._check_completeness(state, batch, trouble)
                state.status = "ended"
        self._save(state)

    def _check_completeness(self, state: _State, batch: RemoteBatch, trouble: str) -> None:
        """Note whether all results arrived; a download that did not grow is complete."""
        read = _Read()
        paths = self._result_paths(state)
        for path in paths:
            read.add(path, path.name)
        short = batch.completed is not None and len(read.places) < batch.completed
        size = sum(path.stat().st_size for path in paths)
        cut = bool(trouble) or read.cut or short
        state.is_complete = not cut or state.cut == size
        state.cut = size if cut else None
        if cut:
            count = plural(read.lines, "line")
            note = f"are cut off after {count}; collect again to get the rest"
            if state.is_complete:
                note = f"stay cut off at {count}; the other calls count as failed"
            self.notes.append(f"the results of batch {state.name} {note}")

    async def _start(self) -> list[str]:
        from regauge.providers.batches import NoBatchesError

        troubles: list[str] = []
        for state in self._started:
            suspect = self._suspect(state)
            trouble = (
                f"batch {suspect} at {state.provider!r} has as many and may hold them\n"
                f"  fix: {self._options.command} --collect when it has ended"
            )
            try:
                if suspect is None:
                    async with self._online(state.provider) as client:
                        await self._start_batch(state, client)
                    continue
            except NoBatchesError as error:
                state.status = "by-hand"
                self._save(state)
                self.notes.append(str(error))
                continue
            except ProviderError as error:
                trouble = str(error)
            calls = plural(state.requests, "call")
            troubles.append(f"{calls} of {state.model} not submitted: {trouble}")
            for custom_id in self._ids(state):
                self.pending.pop(custom_id, None)
            if suspect is not None:
                self._remove(state, note=False)
        return troubles

    async def _start_batch(self, state: _State, client: BatchClient) -> None:
        from regauge.providers.batches import BatchTag

        path = self._requests(state.name)
        file_id = await client.upload(path)
        state.status = "starting"
        self._save(state)
        try:
            batch = await client.start(path, file_id, BatchTag(project=self._tag, name=state.name))
        except ProviderError as error:
            if error.status is not None and 400 <= error.status < 500:  # noqa: PLR2004 - refused
                state.status = "written"
                self._save(state)
                raise
            # It may have started all the same.
            remote_batches = await client.list_since(self._now - _CLOCKS_S)
            started = await self._find_remote(state, remote_batches, client)
            if started is None:
                raise
            batch = started
        state.batch_id, state.status = batch.id, "started"
        self._save(state)

    def _suspect(self, state: _State) -> str | None:
        """A running batch of another machine that may hold the same calls; None without one."""
        for provider, batch in self._suspects:
            is_running = batch.created_at > self._now - _WINDOW_S
            has_as_many = batch.requests in {None, state.requests}
            if provider == state.provider and has_as_many and is_running:
                return batch.id
        return None


def calls_under_way(project: Project) -> int:
    """The number of calls in batches without collected results."""
    count = 0
    for path in (project.state_dir / _DIRECTORY).glob("*.json"):
        with suppress(OSError, ValidationError):  # the commands of batches name it
            state = _State.model_validate_json(path.read_bytes())
            count += state.requests if state.status in {"starting", "started", "by-hand"} else 0
    return count


async def request_trials(
    evals: EvalSession, requested_trials: Iterable[PlannedTrial], failures: Counter[str]
) -> None:
    """Request the completions and judge calls of trials from batches.

    Args:
        evals: The run.
        requested_trials: The trials.
        failures: Counts failures by message, without pending calls.
    """
    requested_trials = [*requested_trials]
    async with evals.open_trials() as trials:
        for start in range(0, len(requested_trials), _AT_ONCE):
            results = await asyncio.gather(
                *(trials.call_models(draw) for draw in requested_trials[start : start + _AT_ONCE]),
                return_exceptions=True,
            )
            for result in results:
                error = result if isinstance(result, BaseException) else result.failure
                if isinstance(error, RegaugeError):
                    if not isinstance(error, PendingError):
                        failures[str(error)] += 1
                elif error is not None:
                    raise error


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y%m%dT%H%M%SZ")


def _project_name(project: Project) -> str:
    """The project's name on every machine: from pyproject.toml, or of its directory."""
    import tomllib

    with suppress(OSError, ValueError, KeyError, TypeError):
        name = tomllib.loads(project.pyproject.read_text(encoding="utf-8"))["project"]["name"]
        if isinstance(name, str):
            return name
    return project.root.name


def _some(ids: Sequence[str], noun: str, done: str, nouns: str = "") -> Iterator[str]:
    """A line with a count and the first few ids; no line without ids."""
    if ids:
        examples = first_of((printable(batch_id)[:120] for batch_id in ids), _NAMED_MAX)
        yield f"{plural(len(ids), noun, nouns)} {done}: {examples}"
