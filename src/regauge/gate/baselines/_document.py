"""The document of a baseline, checked for what no baseline can say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from regauge.gate._numbers import CONTROL_FIRST, HISTORY_FIRST
from regauge.gate._types import Count
from regauge.gate.baselines._baseline import (
    CASE_DIGITS,
    Anchor,
    Baseline,
    CaseTrials,
    HistoryKey,
    Session,
    StoredHistory,
)
from regauge.gate.baselines._text import numbers_of, plain_scores

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BaselineDocument"]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _SessionDocument(_Document):
    id: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")
    trials: str
    served: list[str] = []

    def value(self) -> Session:
        numbers = numbers_of(self.trials)
        return Session(
            id=self.id, first=numbers[0], last=numbers[-1], served=tuple(sorted(self.served))
        )


class _CaseDocument(_Document):
    digest: str = Field(pattern=rf"^[0-9a-f]{{{CASE_DIGITS}}}$")
    trials: int
    passed: int
    silent: int = 0
    drawn: str
    answers: list[str] = []
    failed: dict[str, int] = {}
    abstained: dict[str, int] = {}
    scores: dict[str, list[float]] = {}

    @model_validator(mode="after")
    def _adds_up(self) -> _CaseDocument:
        drawn = len(numbers_of(self.drawn))
        if self.trials != drawn:
            raise ValueError(f"trials is {self.trials}, but {drawn} numbers were drawn")
        if not 0 <= self.silent <= self.trials:
            raise ValueError(f"{self.silent} of {self.trials} trials cannot be without an opinion")
        if not 0 <= self.passed <= self.trials - self.silent:
            judged = self.trials - self.silent
            raise ValueError(f"{self.passed} of {judged} trials cannot have passed")
        for name in {*self.failed, *self.abstained}:
            failed, abstained = self.failed.get(name, 0), self.abstained.get(name, 0)
            if min(failed, abstained) < 0 or failed + abstained > self.trials:
                raise ValueError(f"{name!r} failed and abstained more often than it was asked")
        if self.passed > self.trials - max(self.failed.values(), default=0):
            raise ValueError("a trial that a judge failed has not passed")
        for name, scores in self.scores.items():
            if len(scores) != self.trials - self.abstained.get(name, 0):
                raise ValueError(f"{name!r} has not one score for each trial")
            if not all(0 <= score <= 1 for score in scores):
                raise ValueError(f"scores of {name!r} are not all between 0 and 1")
        return self

    def value(self, judges: Iterable[str]) -> CaseTrials:
        checks: dict[str, Count] = {}
        scores: dict[str, tuple[float, ...]] = {}
        for name in judges:
            asked = self.trials - self.abstained.get(name, 0)
            failed = self.failed.get(name, 0)
            checks[name] = Count(passed=asked - failed, trials=asked)
            given = self.scores.get(name)
            if asked:
                scores[name] = tuple(sorted(given)) if given else plain_scores(checks[name])
        return CaseTrials(
            digest=self.digest,
            drawn=numbers_of(self.drawn),
            passed=self.passed,
            silent=self.silent,
            checks=checks,
            scores=scores,
            answers=tuple(sorted(self.answers)),
        )


class _HistoryDocument(_Document):
    prompt_digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    version: str = ""
    model: str
    parameters: dict[str, Any] = {}
    dataset: str
    judges: dict[str, str]
    audited: str = ""
    sessions: list[_SessionDocument]
    cases: dict[str, _CaseDocument]

    @model_validator(mode="after")
    def _belongs_together(self) -> _HistoryDocument:
        end = HISTORY_FIRST
        for session in self.sessions:
            numbers = numbers_of(session.trials)
            if not end <= numbers[0] <= numbers[-1] < CONTROL_FIRST:
                told = (
                    f"trials {session.trials} of session {session.id} do not follow those before;"
                    f" they go from {HISTORY_FIRST} to {CONTROL_FIRST - 1}"
                )
                raise _contradiction(told, key="sessions")
            end = numbers[-1] + 1
        drawn = {n for session in self.sessions for n in numbers_of(session.trials)}
        for name, case in self.cases.items():
            if not drawn.issuperset(numbers_of(case.drawn)):
                told = f"case {name!r} has trials that no session drew"
                raise _contradiction(told, key=name)
            unknown = {*case.failed, *case.abstained, *case.scores}.difference(self.judges)
            if unknown:
                told = f"case {name!r} names {min(unknown)!r}, which is no judge here"
                raise _contradiction(told, key=name)
            if any(case.abstained.get(judge, 0) < case.silent for judge in self.judges):
                told = f"case {name!r} has {case.silent} silent trials, and a judge spoke in some"
                raise _contradiction(told, key=name)
        return self

    def value(self) -> StoredHistory:
        return StoredHistory(
            key=HistoryKey(
                prompt=self.prompt_digest,
                model=self.model,
                parameters=self.parameters,
                dataset=self.dataset,
                judges=self.judges,
            ),
            version=self.version,
            audited=self.audited,
            sessions=tuple(session.value() for session in self.sessions),
            cases={name: case.value(self.judges) for name, case in self.cases.items()},
        )


class _AnchorDocument(_HistoryDocument):
    drawn_for: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")


class BaselineDocument(_Document):
    schema_version: Literal[1]
    prompt: str
    histories: list[_HistoryDocument] = []
    previous: list[_HistoryDocument] = []
    anchors: list[_AnchorDocument] = []

    def value(self) -> Baseline:
        return Baseline(
            prompt=self.prompt,
            histories=tuple(history.value() for history in self.histories),
            previous=tuple(history.value() for history in self.previous),
            anchors=tuple(
                Anchor(history=anchor.value(), drawn_for=anchor.drawn_for)
                for anchor in self.anchors
            ),
        )


def _contradiction(told: str, *, key: str) -> PydanticCustomError:
    """A fault of a history as a whole, with the key whose line shows it best."""
    return PydanticCustomError("contradiction", "{told}", {"told": told, "key": key})
