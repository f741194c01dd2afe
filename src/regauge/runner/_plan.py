"""The plan of a run: its cases, requests and trials, and the missing completions."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from regauge.datasets import assign_by_time, case_ids
from regauge.digests import digest_of
from regauge.errors import GitError, RegaugeError
from regauge.git import run_git, work_tree
from regauge.recordings import RecordingKey, append_lines, read_lines, request_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from regauge.datasets import Dataset, GoldenCase, Shard
    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.providers import CompletionRequest
    from regauge.runner._eval import Eval
    from regauge.targets import Target


PART_RECORDINGS: Final = "recordings"
"""The directory of a shard's recordings in its run record."""
PART_TRIALS: Final = "gate-trials.jsonl"
"""The file of a shard's gate trials in its run record."""

# Trials of baselines and gates have higher numbers, and are not a measure of an eval's time.
_EVAL_TRIALS: Final = 100


class _Savable(Protocol):
    """A file of recordings with unsaved changes."""

    path: Path

    def new_lines(self) -> list[bytes]: ...
    def save(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFiles:
    """A shard of a run, and the files that it writes.

    Attributes:
        shard: The shard.
        recordings_dir: The directory of the committed recordings, which a shard only reads.
        directory: The directory of the run record.
    """

    shard: Shard
    recordings_dir: Path
    directory: Path
    _assigned_ids: set[str] = field(default_factory=set[str])

    def add(self, dataset: Dataset) -> None:
        """Add the cases of a dataset that is assigned by time."""
        if dataset.shard is not None and dataset.shard.case_ids is not None:
            self._assigned_ids.update(dataset.shard.case_ids)

    def may_hold(self, case_id: str) -> bool:
        """Return whether a case may belong to this shard."""
        return (
            case_id in self._assigned_ids
            if self.shard.assigned_by == "time"
            else self.shard.includes(case_id)
        )

    @property
    def trials(self) -> Path:
        """The file of the gate's trials."""
        return self.directory / PART_TRIALS

    def path_of(self, path: Path) -> Path:
        """The shard's file of new lines for a file of recordings."""
        return self.directory / PART_RECORDINGS / path.relative_to(self.recordings_dir)


def save_file(file: _Savable, part: ShardFiles | None) -> int:
    """Save a file, or a shard's new lines of it; returns the number of changed lines.

    Raises:
        RecordingError: It cannot be written.
    """
    return file.save() if part is None else append_lines(part.path_of(file.path), file.new_lines())


def count_lines(directory: Path) -> dict[str, int]:
    """The number of lines in each file of a shard, by its path in the run record."""
    paths = [
        directory / "trials.jsonl",
        directory / PART_TRIALS,
        *sorted((directory / PART_RECORDINGS).rglob("*.jsonl")),
    ]
    return {
        path.relative_to(directory).as_posix(): sum(1 for _ in read_lines(path))
        for path in paths
        if path.exists()
    }


def assign_dataset(shard: Shard, path: Path, *, prompt: str, project: Project) -> Shard:
    """The shard with its cases of one dataset, assigned by recorded latency.

    Every shard computes the same assignment, from the golden file and the committed recordings.

    Args:
        shard: The shard of the run.
        path: The golden file.
        prompt: The prompt of its cases.
        project: The project with the recordings.

    Raises:
        DatasetError: The golden file cannot be read.
    """
    ids = case_ids(path, fixtures_dir=project.fixtures_dir)
    seconds: defaultdict[str, float] = defaultdict(float)
    for name in (f"{prompt}.jsonl", f"judges/{prompt}.jsonl"):
        for case, took_s in _read_latencies(project, project.recordings_dir / name):
            seconds[case] += took_s
    known_seconds = [seconds[case] for case in ids if case in seconds]
    mean = sum(known_seconds) / len(known_seconds) if known_seconds else 1.0
    parts = assign_by_time(
        {case: seconds.get(case, mean) for case in ids}, count=shard.count, first=path.stem
    )
    plan = digest_of([sorted(part) for part in parts])
    return replace(shard, case_ids=frozenset(parts[shard.number - 1]), plan=plan)


def _read_latencies(project: Project, path: Path) -> Iterator[tuple[str, float]]:
    """The case and latency in seconds of each eval call in a committed file."""
    for raw in _committed_lines(project, path):
        try:
            document = json.loads(raw)
            if document["trial"] < _EVAL_TRIALS or "judge" in document:
                yield document["case"], float(document["completion"]["latency_s"])
        except (ValueError, KeyError, TypeError):
            continue  # an error when the completions are read


def _committed_lines(project: Project, path: Path) -> Iterator[bytes]:
    try:
        diff = run_git(project.root, "diff", "--quiet", "HEAD", "--", str(path.resolve()))
        if diff.returncode == 1:
            name = path.resolve().relative_to(work_tree(project.root) or project.root).as_posix()
            committed = run_git(project.root, "show", f"HEAD:{name}")
            yield from committed.stdout.splitlines()
            return
    except GitError:
        pass  # outside a repository, every shard has the same file
    for _, _, raw in read_lines(path):
        yield raw


def judges_file(prompt: str) -> str:
    """The name of the recordings of a prompt's judges, for `Completions.file`."""
    return f"judges/{prompt}"


class CompletionKey(NamedTuple):
    """The key of a completion in recordings and store.

    Attributes:
        file: The name of the recordings, for `Completions.file`.
        key: The request's digest, and the number of the call.
        trial: The trial of the prompt, while a judge's calls have other numbers in `key`.
        provider: The provider of the completion.
    """

    file: str
    key: RecordingKey
    trial: int
    provider: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRequest:
    """A request to a model for one case.

    Attributes:
        file: The name of the recordings, for `Completions.file`.
        prompt: The evaluated prompt.
        version: Its version; None without one.
        caller_digest: The digest of the prompt or judge that makes the request.
        case: The id of the case.
        case_at: Its file and line; empty if unknown.
        judge: The judge that makes the request; None for the prompt.
        key: The key of the completion.
        trial: The trial of the prompt, while a judge's calls have other numbers in `key`.
        target: The target that is called instead of a model; None for a model.
    """

    request: CompletionRequest
    key: RecordingKey
    file: str
    prompt: str
    version: str | None
    caller_digest: str
    case: str
    case_at: str = ""
    trial: int = 0
    judge: str | None = None
    target: Target | None = None

    @classmethod
    def of_trial(
        cls, planned_trial: PlannedTrial, *, request: CompletionRequest | None = None
    ) -> Self:
        """The request of the prompt in a trial."""
        prompt = planned_trial.planned_case.eval.prompt
        return cls(
            request=planned_trial.planned_case.request(planned_trial.trial)
            if request is None
            else request,
            key=planned_trial.key
            if request is None
            else planned_trial.planned_case.key_of(request.digest, planned_trial.trial),
            file=prompt.name,
            prompt=prompt.name,
            version=str(prompt.version) if prompt.version else None,
            caller_digest=prompt.digest,
            case=planned_trial.planned_case.case.id,
            case_at=planned_trial.planned_case.case.location,
            trial=planned_trial.trial,
            target=planned_trial.planned_case.eval.target,
        )

    @classmethod
    def of_judge(
        cls, request: CompletionRequest, *, planned_trial: PlannedTrial, judge: ModelJudge
    ) -> Self:
        """The request of a judge about a completion."""
        return replace(
            cls.of_trial(planned_trial, request=request),
            key=planned_trial.planned_case.key_of(request.digest, request.trial),
            file=judges_file(planned_trial.planned_case.eval.prompt.name),
            caller_digest=judge.digest,
            judge=judge.name,
            target=None,
        )

    @classmethod
    def of_refiner(cls, request: CompletionRequest, *, prompt: Prompt, command: str) -> Self:
        """The request of a command to its refiner model, recorded in a file of the command."""
        return cls(
            request=request,
            key=RecordingKey.from_request(request),
            file=f"{command}/{prompt.name}",
            prompt=prompt.name,
            version=str(prompt.version) if prompt.version else None,
            caller_digest=prompt.digest,
            case=command,
        )

    @property
    def completion_key(self) -> CompletionKey:
        """The key of its completion."""
        return CompletionKey(self.file, self.key, self.trial, self.request.provider)

    @property
    def model(self) -> str:
        """The model, as `provider:model`."""
        return f"{self.request.provider}:{self.request.model}"

    @property
    def summary(self) -> Mapping[str, JSON]:
        """The facts of the request for readers of the recording."""
        summary = request_summary(self.request, prompt_digest=self.caller_digest)
        if self.judge is None:
            return summary
        return {"judge_digest": summary.pop("prompt_digest"), **summary}


@dataclass(frozen=True, eq=False)
class PlannedCase:
    """A case of an eval in the plan of a run: one pytest item.

    Attributes:
        error: The error that prevents the request, such as a missing input; None without one.
        partner: The other side of a comparison, such as a request of another version; trials with
            different partners are stored apart.
    """

    eval: Eval
    case: GoldenCase
    error: RegaugeError | None = None
    partner: str = ""

    @cached_property
    def digest(self) -> str:
        """The digest of the case's request, which all trials share; empty without a request."""
        try:
            return self.request(0).digest
        except RegaugeError:
            return ""

    def plan(self) -> str:
        """Return the digest of the request.

        Raises:
            RegaugeError: The case cannot be rendered, or its recordings cannot be read.
        """
        if self.error is not None:
            raise self.error
        return self.digest or self.request(0).digest

    def key_of(self, digest: str, trial: int) -> RecordingKey:
        """The key of a request's completion in one trial."""
        return RecordingKey(digest_of([digest, self.partner]) if self.partner else digest, trial)

    def request(self, trial: int) -> CompletionRequest:
        """The request of one trial."""
        return self.eval.request(self.case, trial)

    @property
    def converses(self) -> bool:
        """Return whether a trial is a conversation that the run simulates."""
        target = self.eval.target
        return self.case.script is not None and (target is None or target.outputs is None)


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One trial of a planned case, to run or to replay."""

    planned_case: PlannedCase
    trial: int

    @property
    def id(self) -> tuple[int, int]:
        """The id of this trial within the plan."""
        return (id(self.planned_case), self.trial)

    @property
    def key(self) -> RecordingKey:
        """The key of the trial's recording."""
        return self.planned_case.key_of(self.planned_case.digest, self.trial)

    @property
    def completion_key(self) -> CompletionKey:
        """The key of its completion."""
        eval_ = self.planned_case.eval
        return CompletionKey(eval_.prompt.name, self.key, self.trial, eval_.model.provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cases of a run, and the trials without a completion.

    Attributes:
        cases: The cases, in the order of judging.
        missing: The trials without a completion.
        ahead: Whether models are called ahead of the judged case.
    """

    cases: Sequence[PlannedCase]
    missing: Sequence[PlannedTrial] = field(default_factory=list[PlannedTrial])
    ahead: bool = True

    @property
    def digest(self) -> str:
        """The digest of all requests and trials: the same for the same command and files."""
        return digest_of([[case.digest, case.eval.trials] for case in self.cases])

    @property
    def model_trials(self) -> Sequence[PlannedTrial]:
        """The trials that may call a model, for a missing completion or an LLM judge."""
        if not self.ahead:
            return ()
        if not any(case.eval.judge_statuses for case in self.cases):
            return self.missing
        missing = {planned_trial.id for planned_trial in self.missing}
        return [
            planned_trial
            for planned_trial in self.planned_trials()
            if planned_trial.id in missing
            or (
                planned_trial.planned_case.eval.model_judges
                and planned_trial.planned_case.error is None
            )
        ]

    def planned_trials(self) -> Iterator[PlannedTrial]:
        """All trials of the plan."""
        for planned_case in self.cases:
            for trial in range(planned_case.eval.trials):
                yield PlannedTrial(planned_case, trial)


def plan_cases(
    cases: Sequence[PlannedCase], *, has_completion: Callable[[PlannedCase, RecordingKey], bool]
) -> Plan:
    """Find the trials without a completion, and the error of each case that has one.

    Args:
        cases: The cases, in the order of judging.
        has_completion: Called with each case and key; an error becomes the error of the case.
    """
    planned_cases: list[PlannedCase] = []
    missing: list[PlannedTrial] = []
    for planned_case in cases:
        try:
            digest = planned_case.plan()
            missing += [
                PlannedTrial(planned_case, trial)
                for trial in range(planned_case.eval.trials)
                if not has_completion(planned_case, RecordingKey(digest, trial))
            ]
        except RegaugeError as error:
            planned_cases.append(replace(planned_case, error=error))
        else:
            planned_cases.append(planned_case)
    return Plan(cases=planned_cases, missing=missing)
