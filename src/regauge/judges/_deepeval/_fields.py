"""What a metric is given of a case and its completion, by deepeval's names for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from regauge.digests import canonical_json
from regauge.errors import JudgeError, UsageError
from regauge.judges._answer import (
    MISSING,
    Answer,
    JsonFault,
    Missing,
    Steps,
    parse_json,
    parse_path,
    value_at,
)
from regauge.providers import Conversation, text_of

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = ["FIELDS", "Fields"]

FIELDS: Final = (
    "input",
    "actual_output",
    "expected_output",
    "context",
    "retrieval_context",
    "tools_called",
    "expected_tools",
    "mcp_servers",
    "metadata",
    "trace",
    "turns",
    "scenario",
    "expected_outcome",
    "user_description",
    "chatbot_role",
    "provider_transcript",
    "against",
)
"""deepeval's names for the parts of a test case; `against` is what an answer competes with."""

_ROOTS: Final = ("inputs", "expected", "answer")
_LISTS: Final = frozenset({"context", "retrieval_context"})
_TEXTS: Final = frozenset(
    {
        "input",
        "actual_output",
        "expected_output",
        "scenario",
        "expected_outcome",
        "user_description",
        "chatbot_role",
        "provider_transcript",
        "against",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where the fields of a test case come from.

    Attributes:
        declared: Paths by field: `inputs.report`, `expected.answer`, `answer`, or several.
        judge: The name of the judge, for error messages.
    """

    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    judge: str

    @classmethod
    def read(cls, declared: Mapping[str, str | Sequence[str]] | None, *, judge: str) -> Fields:
        """Fields as an eval declares them.

        Raises:
            UsageError: There is no such field, or no such path.
        """
        made: dict[str, tuple[str, ...]] = {}
        for name, paths in (declared or {}).items():
            if name not in FIELDS:
                raise UsageError(f"{judge}: no field {name!r}; there are {', '.join(FIELDS)}")
            made[name] = (paths,) if isinstance(paths, str) else tuple(paths)
            for path in made[name]:
                _steps(path, judge=judge)
        return cls(declared=made, judge=judge)

    def to_json(self) -> JSON:
        """The declared paths, for a digest."""
        return {name: list(paths) for name, paths in self.declared.items()}

    def values(self, completion: Completion, case: GoldenCase) -> dict[str, JSON]:
        """The fields that this case has, by name.

        A field that is not declared is what a case calls by its name among its inputs or in its
        `expected`. Without that, `input` is the inputs that are no other field, the only one as
        it is and several as JSON; `expected_output` is `expected`; `tools_called` is what the
        model called, `retrieval_context` what its target retrieved, and `turns` the messages of
        a conversation.

        Raises:
            JudgeError: A declared path leads nowhere in this case.
        """
        answer = Answer.of(completion, case)
        found: dict[str, JSON] = {}
        for name in FIELDS:
            if name in self.declared:
                value = self._declared(name, answer, case)
            else:
                value = self._by_default(name, completion, case)
            if value is not None:
                found[name] = _shaped(name, value)
        return found

    def _by_default(self, name: str, completion: Completion, case: GoldenCase) -> JSON:
        found = _of_that_name(name, completion, case)
        if found is not None or name != "input":
            return found
        users = [turn for turn in _turns_of(completion) if turn["role"] == "user"]
        return users[-1]["content"] if users and not case.inputs else self._input(case)

    def _input(self, case: GoldenCase) -> JSON:
        taken = {path for paths in self.declared.values() for path in paths}
        free = {name: value for name, value in case.inputs.items() if name not in FIELDS}
        rest = {name: value for name, value in free.items() if f"inputs.{name}" not in taken}
        asked = rest or free or dict(case.inputs)
        return next(iter(asked.values())) if len(asked) == 1 else asked

    def _declared(self, name: str, answer: Answer, case: GoldenCase) -> JSON:
        values: list[JSON] = []
        for path in self.declared[name]:
            root, *rest = _steps(path, judge=self.judge)
            value = _at(str(root), tuple(rest), answer, case)
            if isinstance(value, Missing):
                raise JudgeError(
                    f"{self.judge}: case {case.id!r} has no {path!r}, which is to be the field"
                    f" {name!r} ({case.at})\n  fix: add it to the case, or name another path in"
                    " `fields`",
                    judge=self.judge,
                )
            values.append(value)
        return values[0] if len(values) == 1 else values


def _steps(path: str, *, judge: str) -> Steps:
    steps = parse_path(path)
    if not steps or steps[0] not in _ROOTS:
        raise UsageError(
            f"{judge}: {path!r} does not say where a field comes from\n"
            "  fix: write inputs.NAME, expected, expected.NAME, answer or answer.NAME"
        )
    return steps


def _at(root: str, rest: Steps, answer: Answer, case: GoldenCase) -> JSON | Missing:
    match root:
        case "inputs":
            return value_at(case.inputs, rest)
        case "expected":
            found = value_at(case.expected, rest)
            return MISSING if found is None else found
        case _:
            if not rest:
                return answer.text if answer.text is not None else MISSING
            whole = answer.json
            return MISSING if isinstance(whole, JsonFault) else value_at(whole, rest)


def _of_that_name(name: str, completion: Completion, case: GoldenCase) -> JSON:  # noqa: PLR0911
    expected = case.expected
    if name == "actual_output":
        return completion.text
    if name == "tools_called" and completion.tool_calls:
        return _called(completion)
    if name in case.inputs:
        return case.inputs[name]
    if isinstance(expected, Mapping) and name in expected:
        return expected[name]
    if name in {"expected_output", "against"}:
        return expected
    if name == "expected_outcome" and isinstance(expected, str):
        return expected
    if name == "retrieval_context" and completion.context:
        return list(completion.context)
    if name == "turns" and completion.messages:
        return cast("JSON", _turns_of(completion))
    return None


def _turns_of(completion: Completion) -> list[dict[str, JSON]]:
    """The messages of users and of the model that have text, with the calls made for each."""
    turns: list[dict[str, JSON]] = []
    for turn in Conversation(completion).turns:
        said = [message for message in turn.messages if message.get("role") == "user"]
        asked: list[dict[str, JSON]] = [
            {"role": "user", "content": text} for message in said if (text := text_of(message))
        ]
        turns += asked
        if turn.text is not None:
            last: dict[str, JSON] = {"role": "assistant", "content": turn.text}
            if turn.tool_calls:
                last["tools_called"] = _called(turn)
            turns.append(last)
    return turns


def _called(completion: Completion) -> JSON:
    return [
        {"name": call.name, "input_parameters": _arguments(call.arguments)}
        for call in completion.tool_calls
    ]


def _arguments(text: str) -> JSON:
    value = parse_json(text)
    if isinstance(value, JsonFault):
        return {"arguments": text}
    return value if isinstance(value, Mapping) else {"arguments": value}


def _shaped(name: str, value: JSON) -> JSON:
    """A text where deepeval wants one, a list of texts where it wants that."""
    if name in _TEXTS:
        return _text(value)
    if name in _LISTS:
        many = isinstance(value, Sequence) and not isinstance(value, str)
        parts = cast("Sequence[JSON]", value) if many else [value]
        return [_text(part) for part in parts]
    return value


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else canonical_json(value)
