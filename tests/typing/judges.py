"""Never run: mypy and pyright check that judges type as promised."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from regauge.judges import (
    Check,
    Judge,
    JudgeContext,
    JudgedOutput,
    MemoisedJudge,
    ModelJudge,
    Rule,
    UnboundJudge,
    Verdict,
    all_of,
    as_judge,
    contains,
    deepeval,
    expected,
    failed,
    field,
    field_equals,
    json_matches_schema,
    judge_from_spec,
    max_words,
    not_,
    on_text,
    pairwise,
    panel,
    passed,
    rubric,
    rule,
    verified_claims,
)

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.providers import Completion

assert_type(max_words(40, field="reason"), Rule)
assert_type(field_equals("severity"), Rule)
assert_type(contains(expected("team"), ignore_case=True), Rule)
assert_type(json_matches_schema({"type": "object"}), Rule)
assert_type(not_(max_words(3)), Rule)
assert_type(~max_words(3), Rule)
assert_type(all_of(max_words(3), field("a", contains("b"))), Rule)
assert_type(judge_from_spec("json_parses"), Judge | UnboundJudge)
assert_type(max_words(3).check_text("one"), Verdict)

max_words("three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
max_words(3, feild="reason")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
max_words()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@rule()
def is_polite(*, strictly: bool = False, field: str | None = None) -> Check:
    """A rule of one's own."""

    def check(text: str) -> Verdict:
        if "please" in text or not strictly:
            return passed("polite")
        return failed("rude", code="rude")

    return on_text(field, check)


assert_type(is_polite(strictly=True), Rule)


def has_owner(output: str, case: GoldenCase) -> bool:
    return case.id in output


assert_type(as_judge(has_owner), Rule)


async def use(judge: Judge, completion: Completion, case: GoldenCase) -> None:
    assert_type(await judge.judge(completion, case), Verdict)
    assert_type(max_words(3).check(completion, case), Verdict)
    assert_type(max_words(3).examine(JudgedOutput.from_completion(completion, case)), Verdict)


a_judge: Judge = max_words(3)


unbound: list[UnboundJudge] = [
    rubric("tone", votes=3, reducer="majority"),
    verified_claims("report", field="summary").with_name("claims"),
    pairwise("better", against=expected("reference")),
    panel([rubric("tone", model="openai:one"), rubric("tone", model="local:other")], "all"),
    deepeval("Faithfulness", fields={"retrieval_context": "inputs.report"}, threshold=0.7),
]


def bound(context: JudgeContext) -> list[ModelJudge]:
    return [
        rubric("tone").bind(context),
        verified_claims("report").bind(context),
        pairwise("better").bind(context),
        panel([rubric("a"), rubric("b")]).bind(context),
        deepeval("Bias").bind(context),
    ]


def memoised(context: JudgeContext) -> MemoisedJudge:
    return deepeval("GEval", name="kind", evaluation_steps=["Look."]).bind(context)
