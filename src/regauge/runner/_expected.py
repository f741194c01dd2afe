"""Expected tokens and judge calls: from recordings, else from first requests."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import MissingRecordingError
from regauge.judges import usual_calls
from regauge.providers import (
    Completion,
    CompletionRequest,
    Usage,
    approximate_tokens,
    cost_of,
    parse_model_id,
    sum_if_known,
)
from regauge.recordings import RecordingKey
from regauge.runner._plan import CaseRequest, judges_file
from regauge.runner._providers import price_for
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.project import Settings
    from regauge.recordings import Recording
    from regauge.runner._completions import Completions
    from regauge.runner._plan import PlannedTrial

# Of English text, for estimates without recordings.
_CHARS_PER_TOKEN: Final = 4
# Output tokens without recordings or an expected output: most completions of prompts have 100 to
# 500 tokens, most verdicts of LLM judges one or two sentences.
_OUTPUT: Final = 300
JUDGE_OUTPUT: Final = 80
_OUTPUT_LEAST: Final = 16
_VALUE: Final = 25  # tokens of a property of a JSON schema that the case does not expect


@dataclass(slots=True)
class _Sums:
    """Tokens of recorded calls.

    Attributes:
        estimated: Tokens of their requests, by the length of the text.
    """

    calls: int = 0
    estimated: int = 0
    usage: Usage = field(default_factory=Usage)

    def add(self, estimated: int, usage: Usage) -> None:
        self.calls += 1
        self.estimated += estimated
        self.usage += usage


@dataclass(slots=True)
class _FirstCalls:
    """The recorded calls of one prompt or judge and model, by request and by case."""

    all_calls: _Sums = field(default_factory=_Sums)
    requests: dict[str, _Sums] = field(default_factory=lambda: defaultdict(_Sums))
    cases: dict[str, _Sums] = field(default_factory=lambda: defaultdict(_Sums))

    def add(self, digest: str, case: str, estimated: int, usage: Usage) -> None:
        for sums in (self.all_calls, self.requests[digest], self.cases[case]):
            sums.add(estimated, usage)

    def like(self, digest: str, case: str) -> _Sums:
        """The calls nearest to a request."""
        return self.requests.get(digest) or self.cases.get(case) or self.all_calls


class ExpectedUsage:
    """The expected tokens of requests of prompts and judges.

    The nearest recordings count: the same request, the same case, the same prompt or judge, other
    models. Without recordings, the length of the request and of the
    expected output count, up to `max_tokens`.

    Args:
        completions: The recorded completions.
    """

    def __init__(self, completions: Completions) -> None:
        self._completions = completions
        self._files: dict[str, dict[tuple[str | None, str], _FirstCalls]] = {}
        self._recorded: dict[str, Mapping[str, Sequence[_Sums]]] = {}

    def of_trial(self, planned_trial: PlannedTrial) -> Usage:
        """The expected usage of one trial: a completion or a conversation."""
        return self.calls_of_trial(planned_trial)[1]

    def calls_of_trial(self, planned_trial: PlannedTrial) -> tuple[float, Usage]:
        """The expected calls of a trial, on average, and their usage.

        A trial is one call, unless the case is a conversation. A conversation without recordings
        counts one call per turn, two with tools, and one more for a persona.
        """
        case_request = CaseRequest.of_trial(planned_trial)
        usage = self.of_request(case_request, expected=planned_trial.planned_case.case.expected)
        script = (
            planned_trial.planned_case.case.script if planned_trial.planned_case.converses else None
        )
        if script is None:
            return 1.0, usage
        recorded = self._conversation(planned_trial, case_request.file)
        if recorded is not None:
            return recorded
        calls = script.length * (1 if script.tools is None else 2)
        if script.persona:
            calls += script.length
        return float(calls), sum([usage] * calls, Usage())

    def _conversation(self, planned_trial: PlannedTrial, file: str) -> tuple[float, Usage] | None:
        """The mean of the case's recorded conversations, else of others scaled by length."""
        eval_, case = planned_trial.planned_case.eval, planned_trial.planned_case.case
        if file not in self._recorded:
            personas = {prompt.digest for prompt in eval_.partners.prompts}
            self._recorded[file] = self._conversations(file, personas)
        recorded = self._recorded[file]
        if case.id in recorded:
            return _scale(recorded[case.id], 1 / len(recorded[case.id]))
        script = case.script
        assert script is not None
        other_cases = [
            (recorded[other.id], other.script.length)
            for other in eval_.dataset
            if other.id in recorded
            and other.script is not None
            and bool(other.script.persona) == bool(script.persona)
        ]
        turns = sum(len(conversations) * length for conversations, length in other_cases)
        conversations = [sums for similar, _ in other_cases for sums in similar]
        return _scale(conversations, script.length / turns) if turns else None

    def _conversations(self, file: str, personas: Container[str]) -> Mapping[str, Sequence[_Sums]]:
        """The calls of recorded conversations by case, including the persona's."""
        tested: dict[tuple[str, int], dict[str, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
        persona_calls: dict[tuple[str, int], _Sums] = defaultdict(_Sums)
        for recording in self._completions.file(file):
            if recording.judge is None:
                place, caller = (
                    (recording.case, recording.key.trial),
                    str(recording.request.get("prompt_digest")),
                )
                sums = persona_calls[place] if caller in personas else tested[place][caller]
                sums.add(0, recording.completion.usage)
        by_case: dict[str, list[_Sums]] = defaultdict(list)
        for place, versions in tested.items():
            calls, usage = _scale([persona_calls[place]], 1 / len(versions))
            by_case[place[0]] += [
                _Sums(calls=sums.calls + round(calls), usage=sums.usage + usage)
                for sums in versions.values()
            ]
        return by_case

    def of_request(self, case_request: CaseRequest, *, expected: JSON = None) -> Usage:
        """The expected usage of one call of a prompt or judge.

        Args:
            case_request: The call.
            expected: What the case expects of the completion.
        """
        request = case_request.request
        estimated = approximate_tokens(request)
        calls = self._calls(case_request)
        if calls is None:
            output = JUDGE_OUTPUT if case_request.judge else unrecorded_output(request, expected)
            return Usage(input_tokens=estimated, output_tokens=_limit_tokens(output, request))
        sums = calls.like(case_request.key.digest, case_request.case)
        usage, per_estimated = sums.usage, estimated / max(1, sums.estimated)
        if request.conversation:  # later calls are longer than the first
            per_estimated = 1 / sums.calls
        return Usage(
            input_tokens=round(usage.input_tokens * per_estimated) or estimated,
            cached_input_tokens=round(usage.cached_input_tokens * per_estimated),
            output_tokens=_limit_tokens(usage.output_tokens / sums.calls, request),
        )

    def add(self, case_request: CaseRequest, completion: Completion) -> None:
        """Add a new completion."""
        if case_request.file in self._files:
            self._add(
                self._files[case_request.file],
                (case_request.judge, case_request.model),
                (case_request.key.digest, case_request.case),
                approximate_tokens(case_request.request),
                completion.usage,
            )

    def _calls(self, case_request: CaseRequest) -> _FirstCalls | None:
        """The recorded calls of the prompt or judge, preferably with the same model."""
        first_calls = self._files.get(case_request.file)
        if first_calls is None:
            first_calls = self._files[case_request.file] = self._read(case_request.file)
        same_model_calls = first_calls.get((case_request.judge, case_request.model))
        if same_model_calls is not None:
            return same_model_calls
        return next(
            (x for (judge, _), x in first_calls.items() if judge == case_request.judge), None
        )

    def _read(self, file: str) -> dict[tuple[str | None, str], _FirstCalls]:
        first_calls: dict[tuple[str | None, str], _FirstCalls] = {}
        for recording in self._completions.file(file):
            summary: Mapping[str, Any] = recording.request
            estimated = summary.get("approx_tokens")
            usage = recording.completion.usage
            self._add(
                first_calls,
                (recording.judge, recording.model),
                (recording.key.digest, recording.case),
                estimated if isinstance(estimated, int) else usage.input_tokens,
                usage,
            )
        return first_calls

    @staticmethod
    def _add(
        first_calls: dict[tuple[str | None, str], _FirstCalls],
        judge_and_model: tuple[str | None, str],
        call: tuple[str, str],
        estimated: int,
        usage: Usage,
    ) -> None:
        if usage.output_tokens or usage.input_tokens:  # unknown otherwise
            first_calls.setdefault(judge_and_model, _FirstCalls()).add(*call, estimated, usage)


def _scale(conversations: Iterable[_Sums], factor: float) -> tuple[float, Usage]:
    """The calls and the usage of conversations, times a factor."""
    conversations = list(conversations)
    total = sum((sums.usage for sums in conversations), Usage())
    return factor * sum(sums.calls for sums in conversations), Usage(
        input_tokens=round(factor * total.input_tokens),
        cached_input_tokens=round(factor * total.cached_input_tokens),
        output_tokens=round(factor * total.output_tokens),
    )


def unrecorded_output(request: CompletionRequest, expected: JSON) -> float:
    """The approximate number of tokens of a completion without recordings.

    Args:
        request: The request; its schema, if any, names the properties of the completion.
        expected: The expected output of the case, which may be a part of the completion.
    """
    schema = _schema(request)
    if schema is None:
        if expected is None or isinstance(expected, Mapping):
            return _OUTPUT  # a mapping may hold facts that judges check, rather than the output
        return max(_OUTPUT_LEAST, _tokens(expected))
    fields: Mapping[str, JSON] = expected if isinstance(expected, Mapping) else {}
    return _OUTPUT_LEAST + sum(
        _tokens({name: fields[name]}) if name in fields else _tokens(name) + _VALUE
        for name in schema
    )


def output_sample(request: CompletionRequest, expected: JSON, *, tokens: float) -> str:
    """A sample completion with the expected output and about the right length.

    Args:
        request: The request, with the schema if any.
        expected: The expected output of the case.
        tokens: The approximate length, in tokens.
    """
    schema = _schema(request)
    if schema is None and not isinstance(expected, Mapping):
        return _words(tokens)
    fields: Mapping[str, JSON] = expected if isinstance(expected, Mapping) else {}
    names = [*fields, *(name for name in schema or () if name not in fields)]
    rest = tokens - _tokens(dict(fields))
    unknown = len(names) - len(fields)
    filler = _words(rest / unknown if unknown else 0)
    return json.dumps({x: fields.get(x, filler) for x in names}, ensure_ascii=False, default=dict)


def _words(tokens: float) -> str:
    sentence = "These are the words of a sample. "
    return (sentence * (1 + round(tokens) * _CHARS_PER_TOKEN // len(sentence))).strip()


def _schema(request: CompletionRequest) -> Mapping[str, Any] | None:
    """The properties in the JSON schema of a request; None without a schema."""
    part: Any = request.response_format
    for key in ("json_schema", "schema", "properties"):
        part = cast("Mapping[str, Any]", part).get(key) if isinstance(part, Mapping) else None
    return cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else None


def _tokens(value: JSON) -> int:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)
    return -(-len(text) // _CHARS_PER_TOKEN)


def _limit_tokens(tokens: float, request: CompletionRequest) -> int:
    limit = request.parameters.get("max_tokens")
    return round(min(tokens, limit) if isinstance(limit, (int, float)) else tokens)


_INSTRUCTIONS: Final = 400  # a judge's request seldom has fewer tokens
_SAMPLES: Final = 12  # cases to build first requests for, if a judge has no recordings
_NUMBERS: Final = 50  # the most equal requests per judgement that recordings may show


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """Calls, with their tokens and cost.

    Attributes:
        calls: The average number, so a fraction.
        cost_usd: The cost in US dollars; None if a price is unknown.
    """

    calls: float = 0.0
    tokens: float = 0.0
    cost_usd: float | None = 0.0

    def __add__(self, other: ExpectedCalls) -> ExpectedCalls:
        return ExpectedCalls(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=sum_if_known((self.cost_usd, other.cost_usd)),
        )

    def times(self, share: float) -> ExpectedCalls:
        """The calls, tokens and cost times a factor."""
        return ExpectedCalls(
            calls=share * self.calls,
            tokens=share * self.tokens,
            cost_usd=None if self.cost_usd is None else share * self.cost_usd,
        )


@dataclass(slots=True)
class _Judgements:
    """Recorded judgements of one judge.

    Attributes:
        judgements: Their keys: case, version, judge digest and trial.
        models: The usage of each model.
    """

    judgements: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    calls: int = 0
    models: dict[str, Usage] = field(default_factory=lambda: defaultdict(Usage))

    def add(self, judgement: tuple[object, ...], recording: Recording) -> None:
        self.judgements.add(judgement)
        self.calls += 1
        self.models[recording.model] += recording.completion.usage


class ExpectedJudging:
    """The expected calls of LLM judges.

    The average of the case's recorded judgements counts, else that of the judge. A call that
    judges share counts once. A judge without recordings runs up to its first requests, with a
    sample completion; judges that make further calls state their usual number.

    Args:
        completions: The recorded completions.
        usage: The expected tokens of one call.
    """

    def __init__(self, completions: Completions, settings: Settings, usage: ExpectedUsage) -> None:
        self._completions = completions
        self._settings = settings
        self._usage = usage
        self._recorded: dict[str, dict[tuple[str, str | None], _Judgements]] = {}
        self._latest_recordings: dict[str, dict[str, Recording]] = {}

    def of_trials(self, judge: ModelJudge, planned_trials: Sequence[PlannedTrial]) -> ExpectedCalls:
        """The expected calls of one judge for trials of one prompt.

        Args:
            judge: The judge.
            planned_trials: The trials, at least one.
        """
        recorded = self._judgements(planned_trials[0].planned_case.eval.prompt.name)
        all_judgements = recorded.get((judge.name, None))
        if all_judgements is None:
            return self._expect_unrecorded(judge, planned_trials)
        return sum(
            (
                self._mean(
                    judge,
                    recorded.get((judge.name, planned_trial.planned_case.case.id), all_judgements),
                )
                for planned_trial in planned_trials
            ),
            ExpectedCalls(),
        )

    def _mean(self, judge: ModelJudge, judgements: _Judgements) -> ExpectedCalls:
        """The average calls of a recorded judgement, at current prices."""
        share = 1 / len(judgements.judgements)
        usages = judgements.models
        if not set(usages) <= set(judge.models):  # recorded with other models
            total = sum(usages.values(), Usage())
            costs = [self._cost_usd(model, total) for model in judge.models]
            share_usd = 1 / max(1, len(costs))
        else:
            costs = [self._cost_usd(model, usage) for model, usage in usages.items()]
            share_usd = 1.0
        total_usd = sum_if_known(costs)
        return ExpectedCalls(
            calls=judgements.calls,
            tokens=sum(usage.input_tokens + usage.output_tokens for usage in usages.values()),
            cost_usd=None if total_usd is None else share_usd * total_usd,
        ).times(share)

    def _cost_usd(self, model: str, usage: Usage) -> float | None:
        model_id = parse_model_id(model)
        request = CompletionRequest(
            provider=model_id.provider, model=model_id.model, messages=(), parameters={}
        )
        return cost_of(usage, price_for(self._settings, request))

    def _expect_unrecorded(
        self, judge: ModelJudge, planned_trials: Sequence[PlannedTrial]
    ) -> ExpectedCalls:
        """The expected calls of unrecorded judgements, without calls shared with earlier judges."""
        samples = planned_trials[:: max(1, len(planned_trials) // _SAMPLES)]
        requests_by_key: dict[RecordingKey, list[CaseRequest]] = defaultdict(list)
        total = ExpectedCalls()
        for planned_trial in samples:
            completion = self._sample(planned_trial)
            judges = planned_trial.planned_case.eval.model_judges
            before = judges[: [other.name for other in judges].index(judge.name)]
            shared = {
                RecordingKey.from_request(request)
                for other in before
                for request in first_requests(other, planned_trial, completion)
            }
            requests = first_requests(judge, planned_trial, completion)
            new_requests = [
                request for request in requests if RecordingKey.from_request(request) not in shared
            ]
            for request in new_requests:
                case_request = CaseRequest.of_judge(
                    request, planned_trial=planned_trial, judge=judge
                )
                requests_by_key[case_request.key].append(case_request)
            further = usual_calls(judge) - len(requests)
            if further > 0 and (new_requests or not requests):
                total += self._further(judge, planned_trial, requests).times(further)
        for first, *repetitions in requests_by_key.values():
            if not repetitions:
                total += self._of_request(first)
        once = [
            first for first, *repetitions in requests_by_key.values() if repetitions
        ]  # for all cases together
        return sum(map(self._of_request, once), total.times(len(planned_trials) / len(samples)))

    def _of_request(self, case_request: CaseRequest) -> ExpectedCalls:
        usage = self._usage.of_request(case_request)
        return ExpectedCalls(
            calls=1,
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=cost_of(usage, price_for(self._settings, case_request.request)),
        )

    def _further(
        self, judge: ModelJudge, planned_trial: PlannedTrial, requests: Sequence[CompletionRequest]
    ) -> ExpectedCalls:
        """A later call, as long as the first requests or the prompt's request and completion."""
        completion_usage = self._usage.of_trial(planned_trial)
        first = sum(map(approximate_tokens, requests)) // max(1, len(requests))
        read = max(
            first, completion_usage.input_tokens + completion_usage.output_tokens, _INSTRUCTIONS
        )
        usage = Usage(input_tokens=read, output_tokens=JUDGE_OUTPUT)
        total_usd = sum_if_known(self._cost_usd(model, usage) for model in judge.models)
        return ExpectedCalls(
            calls=1,
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=None if total_usd is None else total_usd / max(1, len(judge.models)),
        )

    def _sample(self, planned_trial: PlannedTrial) -> Completion:
        """A recorded completion of the case, else a sample of the expected length."""
        case, request = (
            planned_trial.planned_case.case,
            planned_trial.planned_case.request(planned_trial.trial),
        )
        file = self._completions.file(planned_trial.planned_case.eval.prompt.name)
        recorded = file.get(planned_trial.key) or self._latest(
            planned_trial.planned_case.eval.prompt.name
        ).get(case.id)
        if recorded is not None:
            return recorded.completion
        tokens = self._usage.of_trial(planned_trial).output_tokens
        return Completion(
            text=output_sample(request, case.expected, tokens=tokens),
            finish_reason="stop",
            usage=Usage(),
            model=request.model,
            provider=request.provider,
            latency_s=0.0,
        )

    def _latest(self, prompt: str) -> Mapping[str, Recording]:
        """The latest recorded completion of each case."""
        if prompt not in self._latest_recordings:
            by_time = sorted(
                self._completions.file(prompt), key=lambda recording: recording.recorded_at
            )
            self._latest_recordings[prompt] = {recording.case: recording for recording in by_time}
        return self._latest_recordings[prompt]

    def _judgements(self, prompt: str) -> Mapping[tuple[str, str | None], _Judgements]:
        """The recorded judgements of a prompt's completions, by judge and case, and by judge."""
        judgements = self._recorded.get(prompt)
        if judgements is None:
            judgements_by_key: dict[tuple[str, str | None], _Judgements] = defaultdict(_Judgements)
            by_judge: dict[str, list[Recording]] = defaultdict(list)
            for recording in self._completions.file(judges_file(prompt)):
                by_judge[recording.judge or ""].append(recording)
            trials = {recording.key.trial for recording in self._completions.file(prompt)}
            for name, recordings in by_judge.items():
                calls = _calls_per_request(recordings, trials)
                for recording in recordings:
                    judge_digest = str(recording.request.get("judge_digest"))
                    judgement = (
                        recording.case,
                        recording.version,
                        judge_digest,
                        recording.key.trial // calls,
                    )
                    judgements_by_key[name, None].add(judgement, recording)
                    judgements_by_key[name, recording.case].add(judgement, recording)
            judgements = self._recorded[prompt] = judgements_by_key
        return judgements


def _calls_per_request(recordings: Sequence[Recording], trials: set[int]) -> int:
    """The number of equal requests per judgement, such as one per vote.

    A judge with k calls per judgement numbers those of trial n from n * k. So the number of a call,
    divided by k, is a recorded trial.
    """
    numbers = {recording.key.trial for recording in recordings}
    return next((n for n in range(1, _NUMBERS) if {x // n for x in numbers} <= trials), 1)


@dataclass(slots=True)
class _FirstRequests:
    """Collects the first requests of a judgement, without responses."""

    planned_trial: PlannedTrial
    requests: list[CompletionRequest] = field(default_factory=list["CompletionRequest"])

    @property
    def trial(self) -> int:
        return self.planned_trial.trial

    async def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        planned_case = self.planned_trial.planned_case
        raise MissingRecordingError(
            prompt=planned_case.eval.prompt.name,
            case=planned_case.case.id,
            trial=self.planned_trial.trial,
            stale=False,
        )


def first_requests(
    judge: ModelJudge, planned_trial: PlannedTrial, completion: Completion
) -> list[CompletionRequest]:
    """The requests of a judge before its first response; none if it cannot judge."""
    calls = _FirstRequests(planned_trial)

    async def judge_sample() -> None:
        await judge.judge_with(completion, planned_trial.planned_case.case, calls)

    with suppress(Exception):  # without a response every judge ends in an error
        run_stoppable(judge_sample())
    return list(
        {RecordingKey.from_request(request): request for request in calls.requests}.values()
    )
