"""One recorded answer: which request and draw it belongs to, and where it came from."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.providers import Completion, approximate_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.providers import CompletionRequest

__all__ = ["Recording", "RecordingKey", "encode_line", "request_summary", "utc_now"]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ENCODE: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict
).encode
# A lone surrogate, which models do send, is no UTF-8; such a line is written with escapes.
_ENCODE_ASCII: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=dict
).encode


@dataclass(frozen=True, slots=True, order=True)
class RecordingKey:
    """The digest of a request, and which draw it is, from 0: trial k replays trial k."""

    digest: str
    trial: int

    @classmethod
    def of(cls, request: CompletionRequest) -> RecordingKey:
        """The key under which the answer to `request` is recorded."""
        return cls(request.digest, request.trial)

    def __str__(self) -> str:
        return self.digest[:12] + (f" trial {self.trial}" if self.trial else "")


def utc_now() -> str:
    """The time as recordings write it: ISO 8601 in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def request_summary(request: CompletionRequest, *, prompt_digest: str) -> dict[str, JSON]:
    """What a reader of a recordings file may want to know of the request, without its text."""
    return {
        "prompt_digest": prompt_digest,
        "messages": len(request.messages),
        "approx_tokens": approximate_tokens(request),
        "parameters": request.parameters,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """An answer as it is kept.

    Attributes:
        key: What it is found by.
        prompt: The name of the prompt.
        version: The version of the prompt, or None where it has none.
        case: The id of the case.
        model: As `provider:model`.
        completion: The answer.
        recorded_at: When, as `utc_now` writes it.
        request: See `request_summary`.
        judge: The name of the judge whose model answered; None where the prompt's did. Prompt,
            version and case are then those of what is judged.
        replaced: How often another answer was recorded under its key before.
    """

    key: RecordingKey
    prompt: str
    version: str | None
    case: str
    model: str
    completion: Completion
    recorded_at: str
    request: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    judge: str | None = None
    replaced: int = 0

    def to_json(self) -> dict[str, JSON]:
        """A plain document; the keys stand in the order in which people read them."""
        return {
            "case": self.case,
            **({} if self.judge is None else {"judge": self.judge}),
            "trial": self.key.trial,
            "digest": self.key.digest,
            "prompt": self.prompt,
            "version": self.version,
            "model": self.model,
            "recorded_at": self.recorded_at,
            **({"replaced": self.replaced} if self.replaced else {}),
            "request": self.request,
            "completion": self.completion.to_json(),
        }

    @classmethod
    def from_json(cls, document: JSON) -> Recording:
        """The recording that `to_json` wrote.

        Raises:
            ValueError: A key is missing or holds a value of another kind.
        """
        if not isinstance(document, dict):
            raise ValueError("a recording is a JSON object")  # noqa: TRY004 - one kind for callers
        given = cast("dict[str, Any]", document)
        try:
            digest, trial = given["digest"], given["trial"]
            recording = cls(
                key=RecordingKey(digest, trial),
                prompt=given["prompt"],
                version=given["version"],
                case=given["case"],
                model=given["model"],
                completion=Completion.from_json(given["completion"]),
                recorded_at=given["recorded_at"],
                request=given["request"],
                judge=given.get("judge"),
                replaced=given.get("replaced", 0),
            )
        except KeyError as error:
            raise ValueError(f"the recording has no {error}") from error
        except TypeError as error:
            raise ValueError(f"the recording cannot be read: {error}") from error
        if type(trial) is not int or trial < 0:
            raise ValueError(f"the trial is {trial!r}, not a number from 0")
        if type(recording.replaced) is not int or recording.replaced < 0:
            raise ValueError(f"replaced is {recording.replaced!r}, not a number from 0")
        if type(digest) is not str or _DIGEST.fullmatch(digest) is None:
            raise ValueError(f"the digest is {digest!r}, not 64 hexadecimal digits")
        if type(recording.case) is not str or type(recording.prompt) is not str:
            raise ValueError("the case and the prompt are names")
        return recording

    def same_answer(self, other: Recording) -> bool:
        """Whether the model said the same; when, how fast and at what price does not count."""
        mine, its = self.completion, other.completion
        return (
            mine.text == its.text
            and mine.finish_reason == its.finish_reason
            and mine.refusal == its.refusal
            and mine.tool_calls == its.tool_calls
            and mine.messages == its.messages
            and mine.context == its.context
            and mine.usage == its.usage
            and mine.model == its.model
            and mine.fingerprint == its.fingerprint
        )


def encode_line(recording: Recording) -> bytes:
    """A recording as one line of UTF-8, without the line end."""
    document = recording.to_json()
    try:
        return _ENCODE(document).encode()
    except UnicodeEncodeError:
        return _ENCODE_ASCII(document).encode()
