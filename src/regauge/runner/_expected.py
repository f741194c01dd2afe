"""Expected tokens and judge calls: from what is recorded, else from first requests."""

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
    from regauge.runner._answers import Answers
    from regauge.runner._plan import Draw

# Of English text, for estimates without recordings.
_CHARS_PER_TOKEN: Final = 4
# Output tokens where neither recordings nor the case show a length: most completions of prompts
# have between 100 and 500 tokens, most verdicts of LLM judges one or two sentences.
_OUTPUT: Final = 300
JUDGE_OUTPUT: Final = 80
_OUTPUT_LEAST: Final = 16
_VALUE: Final = 25  # tokens of a property of a JSON schema that the case does not expect


@dataclass(slots=True)
class _Sums:
    """Tokens of recorded calls.

    Attributes:
        estimated: Of their requests, by the length of their text.
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
    """The recorded calls of one asker and model, by request, by case and by version."""

    whole: _Sums = field(default_factory=_Sums)
    requests: dict[str, _Sums] = field(default_factory=lambda: defaultdict(_Sums))
    cases: dict[str, dict[str, _Sums]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_Sums))
    )
    growths: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, digest: str, case: str, version: str, estimated: int, usage: Usage) -> None:
        self.growths.clear()
        for sums in (self.whole, self.requests[digest], self.cases[case][version]):
            sums.add(estimated, usage)

    def like(self, digest: str, case: str, version: str) -> tuple[_Sums, float]:
        """The calls nearest to a request, and by how much longer its output is than theirs."""
        if digest in self.requests:
            return self.requests[digest], 1.0
        versions = self.cases.get(case, {})
        if version in versions:
            return versions[version], 1.0
        if not versions:
            return self.whole, 1.0
        sums = _Sums(
            calls=sum(each.calls for each in versions.values()),
            estimated=sum(each.estimated for each in versions.values()),
            usage=sum((each.usage for each in versions.values()), Usage()),
        )
        if version not in self.growths:
            self.growths[version] = self._growth(version)
        return sums, self.growths[version]

    def _growth(self, version: str) -> float:
        """Output of this version compared with others, on the cases that have both."""
        own = others = 0.0
        for versions in self.cases.values():
            rest = [sums for name, sums in versions.items() if name != version]
            if version not in versions or not rest:
                continue
            sums = versions[version]
            own += sums.usage.output_tokens / sums.calls
            others += sum(x.usage.output_tokens for x in rest) / sum(x.calls for x in rest)
        return own / others if own and others else 1.0


class ExpectedUsage:
    """The expected tokens of requests of prompts and judges.

    Recorded lengths count in this order: of the same request, of the same case under the same or
    another version, of the same prompt or judge, of the same with other models. Without any, input
    is the length of the text, and output what the case expects, at most `max_tokens`.

    Args:
        answers: Where recordings are.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._files: dict[str, dict[tuple[str | None, str], _FirstCalls]] = {}
        self._recorded: dict[str, Mapping[str, Sequence[_Sums]]] = {}

    def of_draw(self, draw: Draw) -> Usage:
        """The expected usage of one completion of a prompt, or of a whole conversation."""
        return self.calls_of_draw(draw)[1]

    def calls_of_draw(self, draw: Draw) -> tuple[float, Usage]:
        """The expected calls of a trial, on average, and their usage.

        A trial is one call, except where the case is a conversation. A conversation without
        recordings is taken to have one call per turn, two where there are tools, and one more
        where a persona writes the user's turn.
        """
        question = CaseRequest.of_draw(draw)
        usage = self.of_question(question, expected=draw.planned.case.expected)
        script = draw.planned.case.script if draw.planned.converses else None
        if script is None:
            return 1.0, usage
        recorded = self._conversation(draw, question.file)
        if recorded is not None:
            return recorded
        calls = script.length * (1 if script.tools is None else 2)
        if script.persona:
            calls += script.length
        return float(calls), sum([usage] * calls, Usage())

    def _conversation(self, draw: Draw, file: str) -> tuple[float, Usage] | None:
        """The mean of recorded conversations: of the case, else of others by their length."""
        suite, case = draw.planned.suite, draw.planned.case
        if file not in self._recorded:
            personas = {prompt.digest for prompt in suite.partners.prompts}
            self._recorded[file] = self._conversations(file, personas)
        recorded = self._recorded[file]
        if case.id in recorded:
            return _scale(recorded[case.id], 1 / len(recorded[case.id]))
        script = case.script
        assert script is not None
        others = [
            (recorded[other.id], other.script.length)
            for other in suite.dataset
            if other.id in recorded
            and other.script is not None
            and bool(other.script.persona) == bool(script.persona)
        ]
        turns = sum(len(conversations) * length for conversations, length in others)
        conversations = [each for similar, _ in others for each in similar]
        return _scale(conversations, script.length / turns) if turns else None

    def _conversations(self, file: str, personas: Container[str]) -> Mapping[str, Sequence[_Sums]]:
        """The calls of recorded conversations by case, those of the persona included."""
        tested: dict[tuple[str, int], dict[str, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
        played: dict[tuple[str, int], _Sums] = defaultdict(_Sums)
        for recording in self._answers.file(file):
            if recording.judge is None:
                place, asker = (
                    (recording.case, recording.key.trial),
                    str(recording.request.get("prompt_digest")),
                )
                sums = played[place] if asker in personas else tested[place][asker]
                sums.add(0, recording.completion.usage)
        by_case: dict[str, list[_Sums]] = defaultdict(list)
        for place, versions in tested.items():
            calls, usage = _scale([played[place]], 1 / len(versions))
            by_case[place[0]] += [
                _Sums(calls=sums.calls + round(calls), usage=sums.usage + usage)
                for sums in versions.values()
            ]
        return by_case

    def of_question(self, question: CaseRequest, *, expected: JSON = None) -> Usage:
        """The expected usage of one call of a prompt or judge.

        Args:
            question: The call.
            expected: What the case expects of the completion.
        """
        request = question.request
        estimated = approximate_tokens(request)
        calls = self._calls(question)
        if calls is None:
            output = JUDGE_OUTPUT if question.judge else unrecorded_output(request, expected)
            return Usage(input_tokens=estimated, output_tokens=_limit_tokens(output, request))
        sums, growth = calls.like(question.key.digest, question.case, question.asker_digest)
        usage, per_estimated = sums.usage, estimated / max(1, sums.estimated)
        if request.conversation:  # its calls are longer than its beginning
            per_estimated = 1 / sums.calls
        return Usage(
            input_tokens=round(usage.input_tokens * per_estimated) or estimated,
            cached_input_tokens=round(usage.cached_input_tokens * per_estimated),
            output_tokens=_limit_tokens(growth * usage.output_tokens / sums.calls, request),
        )

    def add(self, question: CaseRequest, completion: Completion) -> None:
        """Count a completion that was just made."""
        if question.file in self._files:
            self._add(
                self._files[question.file],
                (question.judge, question.model),
                (question.key.digest, question.case, question.asker_digest),
                approximate_tokens(question.request),
                completion.usage,
            )

    def _calls(self, question: CaseRequest) -> _FirstCalls | None:
        """The recorded calls of the prompt or judge; of other models where this one has none."""
        first_calls = self._files.get(question.file)
        if first_calls is None:
            first_calls = self._files[question.file] = self._read(question.file)
        own = first_calls.get((question.judge, question.model))
        if own is not None:
            return own
        return next((x for (judge, _), x in first_calls.items() if judge == question.judge), None)

    def _read(self, file: str) -> dict[tuple[str | None, str], _FirstCalls]:
        first_calls: dict[tuple[str | None, str], _FirstCalls] = {}
        for recording in self._answers.file(file):
            summary: Mapping[str, Any] = recording.request
            asker = summary.get("prompt_digest" if recording.judge is None else "judge_digest")
            estimated = summary.get("approx_tokens")
            usage = recording.completion.usage
            self._add(
                first_calls,
                (recording.judge, recording.model),
                (recording.key.digest, recording.case, str(asker)),
                estimated if isinstance(estimated, int) else usage.input_tokens,
                usage,
            )
        return first_calls

    @staticmethod
    def _add(
        first_calls: dict[tuple[str | None, str], _FirstCalls],
        asker: tuple[str | None, str],
        call: tuple[str, str, str],
        estimated: int,
        usage: Usage,
    ) -> None:
        if usage.output_tokens or usage.input_tokens:  # else no one counted them
            first_calls.setdefault(asker, _FirstCalls()).add(*call, estimated, usage)


def _scale(conversations: Iterable[_Sums], factor: float) -> tuple[float, Usage]:
    """A multiple of the calls and the usage of conversations."""
    conversations = list(conversations)
    total = sum((each.usage for each in conversations), Usage())
    return factor * sum(each.calls for each in conversations), Usage(
        input_tokens=round(factor * total.input_tokens),
        cached_input_tokens=round(factor * total.cached_input_tokens),
        output_tokens=round(factor * total.output_tokens),
    )


def unrecorded_output(request: CompletionRequest, expected: JSON) -> float:
    """About how many tokens a completion has before any is recorded.

    Args:
        request: Whose schema, if it has one, names the properties of the completion.
        expected: What the case expects, which may be a part of the completion.
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
    """A text like a completion: of its form, with what the case expects, about as long.

    Args:
        request: What is asked.
        expected: What the case expects.
        tokens: How long it is.
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
    """The properties of the JSON object that is asked for; None without a schema."""
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


_INSTRUCTIONS: Final = 400  # tokens of a judge's request are seldom fewer
_SAMPLES: Final = 12  # cases whose first requests are made where a judge has no recordings
_NUMBERS: Final = 50  # the most calls of one request per judgement that recordings are read as


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """Calls, with their tokens and cost.

    Attributes:
        calls: On average, so not a whole number.
        cost_usd: In US dollars; None where a price is not known.
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
        """A part or a multiple of them."""
        return ExpectedCalls(
            calls=share * self.calls,
            tokens=share * self.tokens,
            cost_usd=None if self.cost_usd is None else share * self.cost_usd,
        )


@dataclass(slots=True)
class _Judgements:
    """Recorded judgements of one judge.

    Attributes:
        judged: By what identifies a judgement.
        models: Per model, its calls and their usage.
    """

    judged: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    calls: int = 0
    models: dict[str, Usage] = field(default_factory=lambda: defaultdict(Usage))

    def add(self, judgement: tuple[object, ...], recording: Recording) -> None:
        self.judged.add(judgement)
        self.calls += 1
        self.models[recording.model] += recording.completion.usage


class ExpectedJudging:
    """The expected calls of LLM judges about completions.

    A judgement takes as many calls as recorded judgements of the same case took on average, else
    as those of the same judge. Judges that share a call share its recording, so it counts once.
    A judge without recordings is run up to its first requests, with a completion of the expected
    length; judges that follow them up know how many calls they usually make.

    Args:
        answers: Where recordings are.
        usage: The expected tokens of one call.
    """

    def __init__(self, answers: Answers, settings: Settings, usage: ExpectedUsage) -> None:
        self._answers = answers
        self._settings = settings
        self._usage = usage
        self._recorded: dict[str, dict[tuple[str, str | None], _Judgements]] = {}
        self._completions: dict[str, dict[str, Recording]] = {}

    def of_draws(self, judge: ModelJudge, draws: Sequence[Draw]) -> ExpectedCalls:
        """The expected usage of one judge for completions of one prompt.

        Args:
            judge: One of the judges of the draws.
            draws: At least one; all of one prompt.
        """
        recorded = self._judgements(draws[0].planned.suite.prompt.name)
        whole = recorded.get((judge.name, None))
        if whole is None:
            return self._unrecorded(judge, draws)
        return sum(
            (
                self._mean(judge, recorded.get((judge.name, draw.planned.case.id), whole))
                for draw in draws
            ),
            ExpectedCalls(),
        )

    def _mean(self, judge: ModelJudge, judgements: _Judgements) -> ExpectedCalls:
        """The average usage of a recorded judgement, at today's prices."""
        share = 1 / len(judgements.judged)
        usages = judgements.models
        if not set(usages) <= set(judge.models):  # it called other models then
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
        called = parse_model_id(model)
        request = CompletionRequest(
            provider=called.provider, model=called.model, messages=(), parameters={}
        )
        return cost_of(usage, price_for(self._settings, request))

    def _unrecorded(self, judge: ModelJudge, draws: Sequence[Draw]) -> ExpectedCalls:
        """Usage of unrecorded judgements from the first requests, less those of earlier judges."""
        samples = draws[:: max(1, len(draws) // _SAMPLES)]
        asked: dict[RecordingKey, list[CaseRequest]] = defaultdict(list)
        total = ExpectedCalls()
        for draw in samples:
            completion = self._sample(draw)
            judges = draw.planned.suite.model_judges
            before = judges[: [each.name for each in judges].index(judge.name)]
            shared = {
                RecordingKey.from_request(request)
                for other in before
                for request in first_requests(other, draw, completion)
            }
            requests = first_requests(judge, draw, completion)
            own = [
                request for request in requests if RecordingKey.from_request(request) not in shared
            ]
            for request in own:
                question = CaseRequest.of_judge(request, draw=draw, judge=judge)
                asked[question.key].append(question)
            further = usual_calls(judge) - len(requests)
            if further > 0 and (own or not requests):
                total += self._further(judge, draw, requests).times(further)
        for first, *others in asked.values():
            if not others:
                total += self._of_question(first)
        once = [first for first, *others in asked.values() if others]  # for all cases together
        return sum(map(self._of_question, once), total.times(len(draws) / len(samples)))

    def _of_question(self, question: CaseRequest) -> ExpectedCalls:
        usage = self._usage.of_question(question)
        return ExpectedCalls(
            calls=1,
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=cost_of(usage, price_for(self._settings, question.request)),
        )

    def _further(
        self, judge: ModelJudge, draw: Draw, requests: Sequence[CompletionRequest]
    ) -> ExpectedCalls:
        """A call whose text is not known yet.

        It is as long as the first requests, or as the prompt's request and completion together.
        """
        whole = self._usage.of_draw(draw)
        first = sum(map(approximate_tokens, requests)) // max(1, len(requests))
        read = max(first, whole.input_tokens + whole.output_tokens, _INSTRUCTIONS)
        usage = Usage(input_tokens=read, output_tokens=JUDGE_OUTPUT)
        total_usd = sum_if_known(self._cost_usd(model, usage) for model in judge.models)
        return ExpectedCalls(
            calls=1,
            tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=None if total_usd is None else total_usd / max(1, len(judge.models)),
        )

    def _sample(self, draw: Draw) -> Completion:
        """A recorded completion of the case, else a text of the expected length."""
        case, request = draw.planned.case, draw.planned.request(draw.trial)
        file = self._answers.file(draw.planned.suite.prompt.name)
        recorded = file.get(draw.key) or self._latest(draw.planned.suite.prompt.name).get(case.id)
        if recorded is not None:
            return recorded.completion
        tokens = self._usage.of_draw(draw).output_tokens
        return Completion(
            text=output_sample(request, case.expected, tokens=tokens),
            finish_reason="stop",
            usage=Usage(),
            model=request.model,
            provider=request.provider,
            latency_s=0.0,
        )

    def _latest(self, prompt: str) -> Mapping[str, Recording]:
        """A recorded completion of each case, the last by time."""
        if prompt not in self._completions:
            by_time = sorted(
                self._answers.file(prompt), key=lambda recording: recording.recorded_at
            )
            self._completions[prompt] = {recording.case: recording for recording in by_time}
        return self._completions[prompt]

    def _judgements(self, prompt: str) -> Mapping[tuple[str, str | None], _Judgements]:
        """The recorded judgements of completions of a prompt, by judge and case, and by judge."""
        judgements = self._recorded.get(prompt)
        if judgements is None:
            judgements_by_key: dict[tuple[str, str | None], _Judgements] = defaultdict(_Judgements)
            by_judge: dict[str, list[Recording]] = defaultdict(list)
            for recording in self._answers.file(judges_file(prompt)):
                by_judge[recording.judge or ""].append(recording)
            trials = {recording.key.trial for recording in self._answers.file(prompt)}
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

    A judge numbers the calls of trial n from n times that number, so each call's number belongs to
    a recorded trial once it is divided by it.
    """
    numbers = {recording.key.trial for recording in recordings}
    return next((n for n in range(1, _NUMBERS) if {x // n for x in numbers} <= trials), 1)


@dataclass(slots=True)
class _FirstRequests:
    """Takes the first requests of a judgement and answers none of them."""

    draw: Draw
    requests: list[CompletionRequest] = field(default_factory=list["CompletionRequest"])

    @property
    def trial(self) -> int:
        return self.draw.trial

    async def complete(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        planned = self.draw.planned
        raise MissingRecordingError(
            prompt=planned.suite.prompt.name,
            case=planned.case.id,
            trial=self.draw.trial,
            stale=False,
        )


def first_requests(
    judge: ModelJudge, draw: Draw, completion: Completion
) -> list[CompletionRequest]:
    """The requests a judge makes before it needs a response; none where it cannot judge."""
    calls = _FirstRequests(draw)

    async def judge_sample() -> None:
        await judge.judge_with(completion, draw.planned.case, calls)

    with suppress(Exception):  # without a response every judge ends in an error
        run_stoppable(judge_sample())
    return list(
        {RecordingKey.from_request(request): request for request in calls.requests}.values()
    )
