"""Expected tokens of a request: from recorded completions of it or of its like, else its text."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.providers import Usage, approximate_tokens
from regauge.runner._question import Question

if TYPE_CHECKING:
    from regauge.digests import JSON
    from regauge.providers import Completion, CompletionRequest
    from regauge.runner._answers import Answers
    from regauge.runner._plan import Draw

__all__ = ["JUDGE_OUTPUT", "ExpectedUsage", "output_sample", "unrecorded_output"]

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
class _Calls:
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
        sums = _Sums()
        for one in versions.values():
            sums.calls += one.calls
            sums.estimated += one.estimated
            sums.usage += one.usage
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
        self._files: dict[str, dict[tuple[str | None, str], _Calls]] = {}

    def of_draw(self, draw: Draw) -> Usage:
        """What one completion of a prompt uses."""
        question = Question.of_draw(draw)
        return self.of_question(question, expected=draw.planned.case.expected)

    def of_question(self, question: Question, *, expected: JSON = None) -> Usage:
        """What one call of a prompt or judge uses.

        Args:
            question: The call.
            expected: What the case expects of the completion.
        """
        request = question.request
        estimated = approximate_tokens(request)
        calls = self._calls(question)
        if calls is None:
            output = JUDGE_OUTPUT if question.judge else unrecorded_output(request, expected)
            return Usage(input_tokens=estimated, output_tokens=_limited(output, request))
        sums, growth = calls.like(question.key.digest, question.case, question.asker_digest)
        usage, per_estimated = sums.usage, estimated / max(1, sums.estimated)
        return Usage(
            input_tokens=round(usage.input_tokens * per_estimated) or estimated,
            cached_input_tokens=round(usage.cached_input_tokens * per_estimated),
            output_tokens=_limited(growth * usage.output_tokens / sums.calls, request),
        )

    def add(self, question: Question, completion: Completion) -> None:
        """Count a completion that was just made."""
        if question.file in self._files:
            self._add(
                self._files[question.file],
                (question.judge, question.model),
                (question.key.digest, question.case, question.asker_digest),
                approximate_tokens(question.request),
                completion.usage,
            )

    def _calls(self, question: Question) -> _Calls | None:
        """The recorded calls of the prompt or judge; of other models where this one has none."""
        known = self._files.get(question.file)
        if known is None:
            known = self._files[question.file] = self._read(question.file)
        own = known.get((question.judge, question.model))
        if own is not None:
            return own
        return next((x for (judge, _), x in known.items() if judge == question.judge), None)

    def _read(self, file: str) -> dict[tuple[str | None, str], _Calls]:
        known: dict[tuple[str | None, str], _Calls] = {}
        for one in self._answers.file(file):
            summary: Mapping[str, Any] = one.request
            asker = summary.get("prompt_digest" if one.judge is None else "judge_digest")
            estimated = summary.get("approx_tokens")
            usage = one.completion.usage
            self._add(
                known,
                (one.judge, one.model),
                (one.key.digest, one.case, str(asker)),
                estimated if isinstance(estimated, int) else usage.input_tokens,
                usage,
            )
        return known

    @staticmethod
    def _add(
        known: dict[tuple[str | None, str], _Calls],
        asker: tuple[str | None, str],
        call: tuple[str, str, str],
        estimated: int,
        usage: Usage,
    ) -> None:
        if usage.output_tokens or usage.input_tokens:  # else nobody counted them
            known.setdefault(asker, _Calls()).add(*call, estimated, usage)


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
    known: Mapping[str, JSON] = expected if isinstance(expected, Mapping) else {}
    return _OUTPUT_LEAST + sum(
        _tokens({name: known[name]}) if name in known else _tokens(name) + _VALUE for name in schema
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
    given: Mapping[str, JSON] = expected if isinstance(expected, Mapping) else {}
    names = [*given, *(name for name in schema or () if name not in given)]
    rest = tokens - _tokens(dict(given))
    unknown = len(names) - len(given)
    filler = _words(rest / unknown if unknown else 0)
    return json.dumps({x: given.get(x, filler) for x in names}, ensure_ascii=False, default=dict)


def _words(tokens: float) -> str:
    sentence = "These are the words of a sample. "
    return (sentence * (1 + round(tokens) * _CHARS_PER_TOKEN // len(sentence))).strip()


def _schema(request: CompletionRequest) -> Mapping[str, Any] | None:
    """The properties of the JSON object that is asked for; None without a schema."""
    found: Any = request.response_format
    for key in ("json_schema", "schema", "properties"):
        found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


def _tokens(value: JSON) -> int:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)
    return -(-len(text) // _CHARS_PER_TOKEN)


def _limited(tokens: float, request: CompletionRequest) -> int:
    limit = request.parameters.get("max_tokens")
    return round(min(tokens, limit) if isinstance(limit, (int, float)) else tokens)
