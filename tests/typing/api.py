"""Never run: mypy and pyright check that the public API types as promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from regauge import (
    Completion,
    CompletionRequest,
    Dataset,
    EvalResult,
    GoldenCase,
    Judge,
    Message,
    Prompt,
    Provider,
    Trial,
    Usage,
    Verdict,
    golden,
    load_dataset,
    load_prompt,
)
from regauge.judges import field_equals, max_words

if TYPE_CHECKING:
    from pathlib import Path


def says_ok(output: str, case: GoldenCase) -> bool:
    return case.id in output


def graded(output: str, case: GoldenCase) -> float:
    return 1.0 if case.expected else len(output) / 10


class Polite:
    """A judge by shape alone."""

    name = "polite"
    digest = "1"

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        del case
        return Verdict(outcome="pass", score=1.0, reason=completion.text or "")


class Echo:
    """A provider by shape alone."""

    async def complete(self, request: CompletionRequest) -> Completion:
        return Completion(
            text=request.messages[-1].content,
            finish_reason="stop",
            usage=Usage(),
            model=request.model,
            provider="echo",
            latency_s=0.0,
        )

    async def aclose(self) -> None:
        return None


judge: Judge = Polite()
rule: Judge = max_words(40, field="reason")
provider: Provider = Echo()


@golden("alert-severity", judges=[field_equals("severity"), Polite(), says_ok, graded])
def test_eval(result: EvalResult) -> None:
    assert_type(result.output, str)
    assert_type(result.trials, tuple[Trial, ...])
    assert_type(result.case, GoldenCase)
    result.check()


def prompts(path: Path) -> None:
    prompt = load_prompt("alert-severity", version="1.0.0")
    assert_type(prompt, Prompt)
    assert_type(prompt.render({"name": "x"}), tuple[Message, ...])
    dataset = load_dataset(path, fixtures_dir=path.parent)
    assert_type(dataset, Dataset)
    for case in dataset:
        assert_type(case, GoldenCase)
