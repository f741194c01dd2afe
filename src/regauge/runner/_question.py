"""One request to a model, and how its answer is filed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.recordings import RecordingKey, request_summary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from regauge.digests import JSON
    from regauge.judges import ModelJudge
    from regauge.providers import CompletionRequest
    from regauge.runner._plan import Draw
    from regauge.targets import Target

__all__ = ["Question", "judges_file"]


def judges_file(prompt: str) -> str:
    """The recordings file of the calls of judges of a prompt, as `Answers.file` takes it."""
    return f"judges/{prompt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a model is asked on behalf of one case.

    Attributes:
        file: The recordings the answer belongs to, as `Answers.file` takes it.
        prompt: The prompt that is evaluated.
        version: Its version, or None where it has none.
        asker_digest: Of the prompt, or of the judge that asks.
        case: The id of the case.
        judge: The judge that asks; None when it is the prompt.
        key: What the answer is found by.
        trial: The trial of the prompt that it belongs to; a judge's calls have numbers of their
            own.
        target: What answers instead of a model.
    """

    request: CompletionRequest
    key: RecordingKey
    file: str
    prompt: str
    version: str | None
    asker_digest: str
    case: str
    trial: int = 0
    judge: str | None = None
    target: Target | None = None

    @classmethod
    def of_draw(cls, draw: Draw) -> Self:
        """What the prompt itself asks."""
        prompt = draw.planned.suite.prompt
        return cls(
            request=draw.planned.request(draw.trial),
            key=draw.key,
            file=prompt.name,
            prompt=prompt.name,
            version=str(prompt.version) if prompt.version else None,
            asker_digest=prompt.digest,
            case=draw.planned.case.id,
            trial=draw.trial,
            target=draw.planned.suite.target,
        )

    @classmethod
    def of_judge(cls, request: CompletionRequest, *, draw: Draw, judge: ModelJudge) -> Self:
        """What a judge asks about the answer of a draw."""
        prompt = draw.planned.suite.prompt
        return cls(
            request=request,
            key=draw.planned.key_of(request.digest, request.trial),
            file=judges_file(prompt.name),
            prompt=prompt.name,
            version=str(prompt.version) if prompt.version else None,
            asker_digest=judge.digest,
            case=draw.planned.case.id,
            trial=draw.trial,
            judge=judge.name,
        )

    @property
    def model(self) -> str:
        """Who is asked, as `provider:model`."""
        return f"{self.request.provider}:{self.request.model}"

    @property
    def summary(self) -> Mapping[str, JSON]:
        """What a reader of the recording may want to know of the request."""
        summary = request_summary(self.request, prompt_digest=self.asker_digest)
        if self.judge is None:
            return summary
        return {"judge_digest": summary.pop("prompt_digest"), **summary}
