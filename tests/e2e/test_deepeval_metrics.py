"""Every metric that deepeval exports, end to end: the real SDK, HTTP, the simulated model."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from regauge.datasets import GoldenCase
from regauge.judges import JudgeContext, deepeval
from regauge.judges._deepeval import METRICS, _judge
from regauge.judges._deepeval._judge import calls_model
from regauge.project import EndpointSettings
from regauge.providers import Completion, ToolCall, Usage
from regauge.providers.remote import RemoteProvider
from tests.sim_server import SimServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.judges import Verdict
    from regauge.providers import CompletionRequest

REPORT = (
    "At 10:02 UTC the disk of db-1 was full. Writes failed for 14 minutes. An old log was deleted."
)
ANSWER = "The disk of db-1 was full at 10:02 UTC, and writes failed for 14 minutes."
SEARCH = {"name": "search_logs", "input_parameters": {"host": "db-1"}, "output": "no space left"}
TURNS = [
    {"role": "user", "content": "I am Ada. What happened to db-1?"},
    {"role": "assistant", "content": "I look into it, Ada.", "retrieval_context": [REPORT]},
    {"role": "user", "content": "Please tell me when it began."},
]
OPINION = "I think the operators are great, but they should never trust an old log."


class Answer(BaseModel):
    severity: str


def dag() -> Any:
    from deepeval.metrics import DeepAcyclicGraph
    from deepeval.metrics.dag import BinaryJudgementNode, NonBinaryJudgementNode, TaskNode
    from deepeval.test_case import SingleTurnParams

    task = TaskNode(
        instructions="List the facts of the answer.",
        output_label="Facts",
        evaluation_params=[SingleTurnParams.ACTUAL_OUTPUT],
    )
    grave = NonBinaryJudgementNode(criteria="How much of the outage do the facts tell?")
    for verdict, score in (("all", 10), ("some", 6), ("hardly any", 2), ("none", 0)):
        grave.add_verdict(verdict, score=score)
    first = BinaryJudgementNode(criteria="Do the facts name a host?")
    first.add_verdict(verdict=False, score=0)
    first.add_verdict(verdict=True, then=grave)
    task.add_node(first)
    return DeepAcyclicGraph(root_nodes=[task])


def turns_dag() -> Any:
    from deepeval.metrics import DeepAcyclicGraph
    from deepeval.metrics.conversational_dag import ConversationalBinaryJudgementNode
    from deepeval.test_case import MultiTurnParams

    node = ConversationalBinaryJudgementNode(
        criteria="Does the assistant answer?", evaluation_params=[MultiTurnParams.CONTENT]
    )
    node.add_verdict(verdict=False, score=0)
    node.add_verdict(verdict=True, score=10)
    return DeepAcyclicGraph(root_nodes=[node])


def dag_metric() -> Any:
    from deepeval.metrics import DAGMetric

    return DAGMetric(name="Outage", dag=dag())


def turns_dag_metric() -> Any:
    from deepeval.metrics import ConversationalDAGMetric

    return ConversationalDAGMetric(name="Outage", dag=turns_dag())


SOURCE = {"retrieval_context": "inputs.report"}
OPTIONS: dict[str, dict[str, Any]] = {
    "ExactMatchMetric": {"fields": {"expected_output": "answer"}},
    "PatternMatchMetric": {"pattern": ".*UTC.*"},
    "GEval": {"criteria": "Does the answer say what broke?"},
    "ArenaGEval": {
        "criteria": "Which one says what broke?",
        "fields": {"against": "expected.other"},
    },
    "ConversationalGEval": {"criteria": "Is the user answered?"},
    "FaithfulnessMetric": {"fields": SOURCE},
    "ContextualRecallMetric": {"fields": SOURCE},
    "ContextualRelevancyMetric": {"fields": SOURCE},
    "ContextualPrecisionMetric": {"fields": SOURCE},
    "TurnFaithfulnessMetric": {"fields": SOURCE},
    "TurnContextualPrecisionMetric": {"fields": SOURCE},
    "TurnContextualRecallMetric": {"fields": SOURCE},
    "TurnContextualRelevancyMetric": {"fields": SOURCE},
    "HallucinationMetric": {"fields": {"context": "inputs.report"}},
    "SummarizationMetric": {"n": 2, "fields": {"input": "inputs.report"}},
    "NonAdviceMetric": {"advice_types": ["medical"]},
    "MisuseMetric": {"domain": "operations"},
    "RoleViolationMetric": {"role": "an operator"},
    "ToolPermissionMetric": {"allowed_tools": ["search_logs"]},
    "ToolCorrectnessMetric": {"available_tools": [SEARCH]},
    "JsonCorrectnessMetric": {"expected_schema": Answer, "include_reason": True},
    "PromptAlignmentMetric": {"prompt_instructions": ["Name the host.", "Say when."]},
    "TopicAdherenceMetric": {"relevant_topics": ["outages"]},
    "ToolUseMetric": {"available_tools": [SEARCH]},
}
TEXTS = {
    "BiasMetric": OPINION,
    "ToxicityMetric": OPINION,
    "NonAdviceMetric": OPINION,
    "PIILeakageMetric": "Write to ada@example.org, or call Dr Lovelace.",
}
FACTORIES = {"DAGMetric": dag_metric, "ConversationalDAGMetric": turns_dag_metric}
NO_METRICS = {
    "BaseMetric",
    "BaseConversationalMetric",
    "BaseArenaMetric",
    "Verdict",
    "GEvalTemplate",
    "DeepAcyclicGraph",
}
MEASURED = [
    "ExactMatchMetric",
    "PatternMatchMetric",
    "GEval",
    "ArenaGEval",
    "ConversationalGEval",
    "DAGMetric",
    "ConversationalDAGMetric",
    "AnswerRelevancyMetric",
    "FaithfulnessMetric",
    "ContextualRecallMetric",
    "ContextualRelevancyMetric",
    "ContextualPrecisionMetric",
    "MCPTaskCompletionMetric",
    "MultiTurnMCPUseMetric",
    "MCPUseMetric",
    "HallucinationMetric",
    "BiasMetric",
    "ToxicityMetric",
    "SummarizationMetric",
    "PIILeakageMetric",
    "NonAdviceMetric",
    "MisuseMetric",
    "RoleViolationMetric",
    "ToolPermissionMetric",
    "RoleAdherenceMetric",
    "ToolCorrectnessMetric",
    "JsonCorrectnessMetric",
    "PromptAlignmentMetric",
    "TaskCompletionMetric",
    "ArgumentCorrectnessMetric",
    "KnowledgeRetentionMetric",
    "TopicAdherenceMetric",
    "StepEfficiencyMetric",
    "PlanAdherenceMetric",
    "PlanQualityMetric",
    "ToolUseMetric",
    "GoalAccuracyMetric",
    "AgentLoopDetectionMetric",
    "TurnRelevancyMetric",
    "ConversationCompletenessMetric",
    "TurnFaithfulnessMetric",
    "TurnContextualPrecisionMetric",
    "TurnContextualRecallMetric",
    "TurnContextualRelevancyMetric",
    "TranscriptionAccuracyMetric",
]

CASE = GoldenCase(
    id="disk",
    inputs={
        "report": REPORT,
        "turns": TURNS,
        "chatbot_role": "an operator who is brief",
        "provider_transcript": ANSWER,
        "mcp_servers": [{"server_name": "logs", "available_tools": [{"name": "search_logs"}]}],
        "trace": {
            "name": "agent",
            "type": "agent",
            "input": {"task": "Say what happened to db-1"},
            "output": ANSWER,
            "children": [{"name": "search_logs", "type": "tool", "output": "no space left"}],
        },
    },
    expected={
        "expected_output": "The disk of db-1 was full.",
        "expected_outcome": "The user learns when it began.",
        "expected_tools": ["search_logs"],
        "other": "Something broke.",
    },
    split="train",
    location="golden.jsonl:1",
)
COMPLETION = Completion(
    text=ANSWER,
    finish_reason="stop",
    tool_calls=(ToolCall(id="1", name="search_logs", arguments='{"host": "db-1"}'),),
    usage=Usage(),
    model="clerk-1",
    provider="sim",
    latency_s=0,
)


class Calls:
    """The calls of one judgement, straight to a provider."""

    def __init__(self, provider: RemoteProvider) -> None:
        self.trial = 0
        self.replies: list[Completion] = []
        self._provider = provider

    async def complete(self, request: CompletionRequest) -> Completion:
        reply = await self._provider.complete(request)
        self.replies.append(reply)
        return reply


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with SimServer() as server:
        yield server.base_url


def judged(name: str, base_url: str) -> tuple[Verdict, Calls]:
    options = dict(OPTIONS.get(name, {}))
    metric: Any = FACTORIES.get(name, name)
    context = JudgeContext(project=_Project(), model="local:clerk-1")  # type: ignore[arg-type]  # the root alone matters
    judge: Any = deepeval(metric, name=name, **options).bind(context)

    async def main() -> tuple[Verdict, Calls]:
        endpoint = EndpointSettings(base_url=base_url)
        provider = RemoteProvider(endpoint, name="local", environ=os.environ)
        calls = Calls(provider)
        try:
            completion = replace(COMPLETION, text=TEXTS.get(name, ANSWER))
            return await judge.judge_with(completion, CASE, calls), calls
        finally:
            await provider.aclose()

    return asyncio.run(main())


class _Project:
    root = Path()


def test_every_exported_metric_is_measured_or_left_out_for_a_reason():
    _judge.load()
    import deepeval.metrics

    exported = set(deepeval.metrics.__all__) - NO_METRICS
    assert exported == set(MEASURED) | set(METRICS.entry("unsupported"))
    assert len(exported) == 60
    assert not set(MEASURED) & set(METRICS.entry("unsupported"))


@pytest.mark.parametrize("name", MEASURED)
def test_a_metric_reaches_a_verdict_through_the_sdk(name, base_url):
    """A reply that does not fit its schema would be an error, not a verdict."""
    verdict, calls = judged(name, base_url)
    assert verdict.outcome in {"pass", "fail"}, verdict
    assert 0 <= verdict.score <= 1
    assert bool(calls.replies) == calls_model(name, OPTIONS.get(name, {}))
