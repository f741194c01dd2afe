"""Never run: mypy and pyright check that modules for packages of users type as promised."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, assert_type

import numpy as np

from regauge import Dataset
from regauge.datasets import find_dataset, load_dataset, split_of
from regauge.importers import (
    Imported,
    ImportedCase,
    ImportedEval,
    ImportedPrompt,
    SourcePlace,
)
from regauge.mutate import Mutation, MutationPlace
from regauge.prompts import Message, load_prompt, parse_prompt
from regauge.providers import AttemptError, Completion, CompletionRequest, ProviderContext, Usage
from regauge.refine.proposers import (
    Anchor,
    Edit,
    Ideas,
    Insert,
    ModelCaller,
    Problem,
    Proposer,
    ProposerContext,
)
from regauge.reports import SCHEMA_VERSION, RunRecord
from regauge.sim import complete
from regauge.stats import (
    CasePolicy,
    expected_failures,
    failures_needed,
    log_e_value,
    suite_p_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from regauge import Prompt, Provider


class Gateway:
    """A provider of another package."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context

    async def complete(self, request: CompletionRequest) -> Completion:
        key = await self._context.fetch_key()
        if not key:
            raise AttemptError("no key", kind="authentication", transient=False)
        return Completion(
            text=request.messages[-1].content,
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1),
            model=request.model,
            provider=request.provider,
            latency_s=0.0,
        )

    async def aclose(self) -> None:
        return None


class HouseStyle:
    """A proposer of another package."""

    name = "house-style"
    calls_model = False

    def __init__(self, context: ProposerContext) -> None:
        self.model = context.model

    async def criticise(self, problem: Problem, call_model: ModelCaller) -> None:
        del problem, call_model

    async def propose(self, problem: Problem, call_model: ModelCaller) -> Ideas:
        del call_model
        edits = [
            Edit(
                ops=(Insert(Anchor(line.text, line.occurrence, line.message), "- In English."),),
                strategy="house-style",
                proposer=self.name,
                rationale="all our prompts say so",
            )
            for line in problem.text.lines
        ]
        return Ideas(edits=tuple(edits))


def open_provider(context: ProviderContext) -> Provider:
    return Gateway(context)


def open_proposer(context: ProposerContext) -> Proposer:
    return HouseStyle(context)


def double(prompt: Prompt) -> Iterator[Mutation]:
    first, *others = prompt.messages
    edited = replace(first, content=first.content * 2)
    changed = replace(prompt, messages=(edited, *others))
    yield Mutation(place=MutationPlace(part="messages[0]"), text="twice", prompt=changed)


def read(path: Path, /, *, root: Path, name: str = "") -> Imported:
    del root
    imported = Imported(name=name or path.stem, sources=[path.name])
    imported.prompts.append(ImportedPrompt(name="ask", document={"messages": []}))
    place = SourcePlace(path=path.name)
    imported.datasets["ask"] = [ImportedCase(document={"id": "sum"}, place=place)]
    imported.evals.append(ImportedEval(prompt="ask", dataset="ask", judges=[]))
    return imported


def read_files(path: Path) -> None:
    assert_type(load_prompt("triage").messages, tuple[Message, ...])
    assert_type(parse_prompt("messages: []", path=path).messages, tuple[Message, ...])
    dataset = load_dataset(find_dataset("triage", fixtures_dir=path), fixtures_dir=path)
    assert_type(dataset, Dataset)
    assert_type(split_of("KubeletDown"), Literal["train", "holdout"])
    assert_type(RunRecord.model_validate_json(path.read_bytes()).id, str)
    assert_type(f"{SCHEMA_VERSION:d}", str)


def compute(request: CompletionRequest) -> None:
    assert_type(complete(request), Completion)
    bound = CasePolicy().log_bound(checks=100)
    failures_needed(12, 12, log_bound=bound)
    passed = np.array([12, 3])
    log_e_value(passed, passed, passed, passed)
    suite_p_value(passed, passed, passed, passed)
    expected_failures(passed, passed, passed)
