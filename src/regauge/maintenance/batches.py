"""The completions of a run from batches: requested, and collected by the key of a call.

`batch_files.py` keeps the batches as files, `batch_sync.py` starts and fetches them.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from regauge.errors import BudgetError, PendingError, ProviderError, RegaugeError, UsageError
from regauge.files import lock_directory
from regauge.maintenance.batch_files import (
    DIRECTORY,
    BatchDirectory,
    BatchState,
    ResultLines,
    ResultPlace,
    key_of,
    result_id,
)
from regauge.maintenance.batch_sync import KEPT_S, BatchSync, format_moment, open_client
from regauge.model_id import is_simulated
from regauge.providers.registry import APIS, endpoint_of
from regauge.stop_signals import run_stoppable
from regauge.wording import first_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

    from regauge.project import Project
    from regauge.providers import Completion
    from regauge.providers.batches import BatchClient
    from regauge.runner import CaseRequest, EvalSession, PlannedTrial


_RESULTS: Final = (".jsonl", ".jsonl.gz")
_GZIP: Final = b"\x1f\x8b"
_NAMED_MAX: Final = 5
# Trials that are requested together: a bound of the tasks in memory, not measured. It changes no
# result; tests pass with 1 and with 5,000.
_AT_ONCE: Final = 500
_UNKNOWN: Final = ("result of an unknown call", "left", "results of unknown calls")
# Such as after an edit of the prompt.
_UNUSED: Final = ("result of a call that is not made now", "left", "results of calls not made now")


# What is known of a call: its result, the reason why it failed, or the batch that it is in.
_Call: TypeAlias = ResultPlace | str | BatchState


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
    """Refuse files that are not JSON Lines in UTF-8.

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


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A batch whose file of requests is being written."""

    state: BatchState
    file: IO[bytes]
    size: int = 0


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
        self._directory = BatchDirectory(project)
        self._now = time.time()
        self._sync = BatchSync(
            evals, self._directory, collect_command=options.command, now=self._now
        )
        self._calls: dict[str, _Call] = {}
        self._known_ids: set[str] = set()
        self._drafts: dict[tuple[str, bool], _Draft] = {}
        self._new_batches: list[BatchState] = []
        self._client = cache(partial(open_client, project))
        self._of_files = ResultLines()
        self.collected_ids: set[str] = set()
        self.pending: dict[str, str] = {}
        self._judge_calls: set[str] = set()
        self.missing: set[str] = set()
        self.failures: dict[str, tuple[str, int]] = {}
        self.live_only: Counter[str] = Counter()
        self.notes: list[str] = []

    def find(self, case_request: CaseRequest) -> Completion | None:
        """The collected completion of a call; None to request it."""
        custom_id = result_id(case_request.key)
        if case_request.judge is not None:
            self._judge_calls.add(custom_id)
        if (reason := self._live_only_reason(case_request)) is not None:
            self.live_only[reason] += 1
            raise PendingError(f"not by batch: {reason}")
        call = self._calls.get(custom_id)
        if isinstance(call, ResultPlace):
            try:
                client = self._client(case_request.request.provider)
                completion = client.read(case_request.request, call.read().body)
            except ProviderError as error:
                call = self._calls[custom_id] = str(error)
            else:
                self.collected_ids.add(custom_id)
                return completion
        if isinstance(call, BatchState):
            self.pending[custom_id] = call.name
            raise PendingError(f"under way in batch {call.name}")
        if call is not None:
            words = self._evals.completions.redact(printable(call.partition("\n")[0]))[:300]
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
        problem = self._calls.get(custom_id)
        other = isinstance(problem, str) and client.is_limit_error(problem)
        line = client.line(custom_id, case_request.request, other_limit=other)
        draft = self._draft(case_request.model, other, client, len(line))
        draft.file.write(line)
        draft.state.add_request()
        draft.size += len(line)
        self._calls[custom_id], self.pending[custom_id] = draft.state, draft.state.name
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

    def _draft(self, model: str, other: bool, client: BatchClient, size: int) -> _Draft:  # noqa: FBT001 - part of a key
        key = (model, other)
        draft = self._drafts.get(key)
        if draft is not None and (
            draft.state.requests >= client.requests_max or draft.size + size > client.bytes_max
        ):
            self._write(self._drafts.pop(key))
            draft = None
        if draft is None:
            number = len(self._new_batches) + len(self._drafts)
            state = BatchState(
                name=f"{format_moment(self._now)}-{secrets.token_hex(3)}-{number}",
                model=model,
                requests=0,
                status="written" if self._options.upload else "by-hand",
                created_at=self._now,
            )
            file = (self._directory.path / f"{state.name}.jsonl.part").open("wb")
            draft = self._drafts[key] = _Draft(state=state, file=file)
        return draft

    def _write(self, draft: _Draft) -> None:
        draft.file.close()
        Path(draft.file.name).replace(self._directory.requests_path(draft.state.name))
        self._directory.save(draft.state)
        self._directory.batches.append(draft.state)
        self._new_batches.append(draft.state)

    @contextmanager
    def open(self) -> Generator[None]:
        """Collect results and serve completions from them to the run, under an exclusive lock.

        Raises:
            RegaugeError: State cannot be read, or a provider cannot be reached.
        """
        self._project.prepare_state_dir(DIRECTORY)
        with lock_directory(self._directory.path):
            for path in self._directory.path.glob("*.part"):
                path.unlink()
            self._directory.load()
            if not self._options.files and self._options.upload:
                run_stoppable(self._sync.update_all())
            for file in self._options.files:
                self._take_file(file)
            self._resolve()
            try:
                with self._evals.serving(self):
                    yield
            finally:
                for draft in self._drafts.values():
                    draft.file.close()
                    Path(draft.file.name).unlink(missing_ok=True)

    def start(self) -> list[str]:
        """Write the requested calls and start their batches; return errors.

        The next command writes a batch that did not start again.
        """
        for key in [*self._drafts]:
            self._write(self._drafts.pop(key))
        if not self._new_batches or not self._options.upload:
            return []
        troubles = run_stoppable(self._sync.start(self._new_batches))
        for custom_id in chain.from_iterable(troubles.values()):
            self.pending.pop(custom_id, None)
        return [*troubles]

    @property
    def has_open_calls(self) -> bool:
        """Return whether calls of this run have no completion yet."""
        return bool(self.pending or self.missing or self.failures or self.live_only)

    def sentences(self) -> Iterator[str]:
        """The calls under way, and the command that collects them."""
        by_hand = [state for state in self._directory.batches if state.status == "by-hand"]
        files = {state.name: state for state in by_hand}
        remote = [x for x, name in self.pending.items() if name not in files]
        if remote:
            yield (
                f"{self._describe_counts(remote)} under way; collect the results with:"
                f" {self._options.command} --collect"
            )
        for name, state in files.items():
            if calls := [x for x, batch in self.pending.items() if batch == name]:
                file = self._project.relative(self._directory.requests_path(name))
                yield (
                    f"{self._describe_counts(calls)} of {state.model} written to {file}; run the"
                    " file, then:"
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
        yield from (*self._sync.notes, *self.notes)
        for reason, (case, count) in self.failures.items():
            cases = f"case {case}" if count == 1 else f"cases such as {case}"
            yield f"{plural(count, 'call')} failed in a batch, of {cases}: {reason}"
        for reason, count in self.live_only.most_common():
            yield (
                f"not by batch: {plural(count, 'call')} of {reason}; record live:"
                f" {self._options.command}"
            )
        yield from _ids_line(self._of_files.unreadable, "line", "left")
        left = [
            custom_id
            for custom_id in (*self._of_files.places, *self._of_files.problems)
            if custom_id not in self.collected_ids and not self._is_recorded(custom_id)
        ]
        yield from _ids_line([x for x in left if x not in self._known_ids], *_UNKNOWN)
        unused = [x for x in left if x in self._known_ids and x in self._of_files.places]
        yield from _ids_line(unused, *_UNUSED)

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
        for state in self._directory.batches:
            if state.created_at < self._now - KEPT_S - 86_400:
                self._directory.remove(state)
            elif state.status in {"ended", "by-hand"} and not any(
                self._is_open(custom_id, state) for custom_id in self._directory.ids_of(state)
            ):
                self._directory.save(state.model_copy(update={"status": "collected", "failed": {}}))
                self._directory.remove(state, keep_state=True)

    def _is_open(self, custom_id: str, state: BatchState) -> bool:
        """Return whether a call has no recorded completion and is in no later batch."""
        call = self._calls.get(custom_id)
        if custom_id in self.collected_ids or key_of(custom_id) is None or call is None:
            return False
        is_elsewhere = isinstance(call, BatchState) and call.name != state.name
        return not (is_elsewhere or self._is_recorded(custom_id))

    def _is_recorded(self, custom_id: str) -> bool:
        key = key_of(custom_id)
        return key is not None and self._evals.completions.knows(key)

    def _resolve(self) -> None:
        """Find the result of each call; later batches take precedence."""
        for state in self._directory.batches:
            if state.status != "collected":
                self._resolve_batch(state)
        calls: dict[str, _Call] = {**self._of_files.problems, **self._of_files.places}
        for custom_id, call in calls.items():
            self._set(custom_id, call)

    def _set(self, custom_id: str, call: _Call) -> None:
        """Note what is known of a call; the first result stays."""
        if not isinstance(self._calls.get(custom_id), ResultPlace):
            self._calls[custom_id] = call

    def _resolve_batch(self, state: BatchState) -> None:
        read = self._directory.results_of(state)
        ids = dict.fromkeys(self._directory.ids_of(state) or [*read.places, *read.problems])
        self._known_ids.update(ids)
        unknown = [x for x in (*read.places, *read.problems) if x not in ids]
        self.notes += _ids_line(read.unreadable, "line", "left")
        self.notes += _ids_line(unknown, *_UNKNOWN)
        problems = {**read.problems, **state.failed}
        has_ended = state.status == "ended" and state.is_complete
        for custom_id in ids:
            if custom_id in read.places:
                self._set(custom_id, read.places[custom_id])
            elif custom_id in problems or has_ended:
                self._set(custom_id, problems.get(custom_id) or state.problem)
            else:
                self._set(custom_id, state)

    def _take_file(self, path: Path) -> None:
        """Read a result file of the command line; store its failures for the next batch."""
        self._of_files.add(path, str(path))
        for state in self._directory.batches:
            if state.status == "collected":
                continue
            failed = {
                custom_id: self._evals.completions.redact(self._of_files.problems[custom_id])
                for custom_id in self._directory.ids_of(state)
                if custom_id in self._of_files.problems and custom_id not in self._of_files.places
            }
            if failed:
                state.failed.update(failed)
                self._directory.save(state)


def calls_under_way(project: Project) -> int:
    """The number of calls in batches without collected results."""
    count = 0
    for path in (project.state_dir / DIRECTORY).glob("*.json"):
        with suppress(OSError, ValidationError):  # the commands of batches name it
            state = BatchState.model_validate_json(path.read_bytes())
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
    budget: BudgetError | None = None
    async with evals.open_trials() as trials:
        for start in range(0, len(requested_trials), _AT_ONCE):
            results = await asyncio.gather(
                *(trials.call_models(draw) for draw in requested_trials[start : start + _AT_ONCE]),
                return_exceptions=True,
            )
            for result in results:
                error = result if isinstance(result, BaseException) else result.failure
                if isinstance(error, BudgetError):  # the amounts in its message differ by case
                    budget = budget or error
                    failures[str(budget)] += 1
                elif isinstance(error, RegaugeError):
                    if not isinstance(error, PendingError):
                        failures[str(error)] += 1
                elif error is not None:
                    raise error


def _ids_line(ids: Sequence[str], noun: str, done: str, nouns: str = "") -> Iterator[str]:
    """A line with a count and the first few ids; no line without ids."""
    if ids:
        examples = first_of((printable(batch_id)[:120] for batch_id in ids), _NAMED_MAX)
        yield f"{plural(len(ids), noun, nouns)} {done}: {examples}"
