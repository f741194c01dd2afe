"""The source of judges that ask a model, for evals of projects that tests make."""

from __future__ import annotations

__all__ = ["MEMOISED", "MODEL_JUDGE", "MODEL_JUDGES_GATE"]

MODEL_JUDGE = '''
import json
from dataclasses import dataclass
from regauge import JudgeError, Message, Verdict
from regauge.judges import Measurement
from regauge.providers import CompletionRequest, parse_model_id

@dataclass(frozen=True)
class Asking:
    """Asks a model `calls` times, each about the reply to the one before."""

    name: str
    models: tuple
    question: str = "Is it right?"
    calls: int = 1
    at_least: float = 0.5

    @property
    def digest(self):
        return f"{self.question} {self.models} {self.at_least}"

    async def judge(self, completion, case):
        raise JudgeError("only in a run", judge=self.name)

    async def scored(self, completion, case, calls):
        asked = parse_model_id(self.models[0])
        said = completion.text
        for _ in range(self.calls):
            reply = await calls.complete(CompletionRequest(
                provider=asked.provider, model=asked.model, parameters={}, trial=calls.trial,
                messages=(Message(role="system", content=self.question), Message(role="user", content=f"judge {case.id}: {said}")),
            ))
            said = reply.text
        try:
            return float(json.loads(said)["score"])
        except (ValueError, TypeError, KeyError) as error:
            raise JudgeError(f"{self.name}: the reply cannot be read: {error}", judge=self.name, raw=said)

    def verdict(self, score):
        return Verdict(outcome="pass" if score >= self.at_least else "fail", score=score, reason=f"{score:g} from the model")

    async def judge_with(self, completion, case, calls):
        return self.verdict(await self.scored(completion, case, calls))

class Stepping(Asking):
    """Asks one question for all cases before the one about each."""

    async def scored(self, completion, case, calls):
        asked = parse_model_id(self.models[0])
        await calls.complete(CompletionRequest(
            provider=asked.provider, model=asked.model, parameters={},
            messages=(Message(role="user", content="judge by which steps?"),),
        ))
        return await super().scored(completion, case, calls)

@dataclass(frozen=True)
class asking:
    """The declaration: bound with the project's judge model where it names none."""

    name: str
    model: str = ""
    question: str = "Is it right?"
    calls: int = 1
    at_least: float = 0.5
    kind: type = Asking

    def bind(self, context):
        model = self.model or context.model
        return self.kind(self.name, (model,), self.question, self.calls, self.at_least)
'''

MEMOISED = '''
from pathlib import Path

def note(name):
    with Path(name).open("a") as file:
        file.write("x")

@dataclass(frozen=True)
class Memoised(Asking):
    """The same, with what it measured recorded; notes in `measured.txt` that it works."""

    @property
    def measurement_digest(self):
        return f"{self.question} {self.models}"

    def prepare(self):
        note("prepared.txt")

    async def measure_with(self, completion, case, calls):
        note("measured.txt")
        return Measurement(score=await self.scored(completion, case, calls), reason="from the model")

    def verdict_of(self, measurement):
        return self.verdict(measurement.score)

    async def judge_with(self, completion, case, calls):
        return self.verdict_of(await self.measure_with(completion, case, calls))
'''

MODEL_JUDGES_GATE = """
import regauge.runner._eval as suites
from regauge.judges import JudgeStatus
suites.judge_status = lambda judge, project: JudgeStatus(blocking=True, reason="calibrated for this test")
"""
