"""deepeval's metrics as judges: their verdicts, their calls, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from regauge.errors import BudgetError, JudgeError, UsageError
from regauge.judges import Measurement, MemoisedJudge, UnboundJudge, deepeval
from regauge.judges._deepeval import _judge
from regauge.providers import TokenLogprob, ToolCall
from tests.unit.judges.deepeval_responses import (
    Calls,
    bound,
    case,
    completion,
    judge,
    prompt_of,
    schema_of,
)

SOURCE = {"retrieval_context": "inputs.report"}
FAITHFUL = deepeval("Faithfulness", fields=SOURCE)


def claims_of(prompt: str, schema: str) -> Any:
    """A model that takes each word of a text for a claim, and knows which are false."""
    if schema == "Claims":
        text = prompt.rsplit("Excerpt:", 1)[-1] if "Excerpt:" in prompt else prompt
        return {"claims": [word for word in ("good", "bad") if f"<{word}>" in text]}
    if schema == "Verdicts":
        listed = prompt.rsplit("Claims:", 1)[1]
        words = [word for word in ("good", "bad") if f"'{word}'" in listed]
        return {
            "verdicts": [
                {"verdict": "no" if word == "bad" else "yes", "reason": word} for word in words
            ]
        }
    return ...


def by_words(schema: str, request: Any) -> Any:
    return claims_of(prompt_of(request), schema)


def test_declared_and_bound_it_satisfies_the_contracts():
    assert isinstance(FAITHFUL, UnboundJudge)
    assert isinstance(bound(FAITHFUL), MemoisedJudge)
    assert bound(FAITHFUL).models == ("local:judge",)
    assert FAITHFUL.with_name("mine").name == "mine"


def test_the_score_is_held_to_a_threshold_of_ours():
    calls = Calls(by_words)
    verdict = judge(FAITHFUL, calls, answer="<good> <bad>")
    assert (verdict.outcome, verdict.score) == ("pass", 0.5)
    strict = deepeval("FaithfulnessMetric", fields=SOURCE, threshold=0.7)
    verdict = judge(strict, Calls(by_words), answer="<good> <bad>")
    assert (verdict.outcome, verdict.code) == ("fail", "below_threshold")
    assert "at least 0.7 wanted" in verdict.reason
    assert sorted(calls.schemas) == ["Claims", "FaithfulnessScoreReason", "Truths", "Verdicts"]


def test_one_metric_judges_many_answers_at_once_and_mixes_none_up():
    _judge.load()
    from deepeval.metrics import FaithfulnessMetric

    answers = ["<good>", "<bad>", "<good> <bad>", "<bad> <good>"] * 10
    wanted = [1.0, 0.0, 0.5, 0.5] * 10
    for metric in (FAITHFUL, deepeval(FaithfulnessMetric, fields=SOURCE, name="made")):
        one = bound(metric)

        async def main(one: Any = one) -> list[Any]:
            return await asyncio.gather(
                *(one.judge_with(completion(text), case(), Calls(by_words)) for text in answers)
            )

        assert [verdict.score for verdict in asyncio.run(main())] == wanted


def test_a_metric_object_is_copied_and_keeps_nothing():
    _judge.load()
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models import DeepEvalBaseLLM

    class Own(DeepEvalBaseLLM):
        def load_model(self):
            return None

        def generate(self, prompt):  # noqa: ARG002 - the contract
            raise AssertionError("the run is asked, not this")

        a_generate = generate

        def get_model_name(self):
            return "own"

    metric = FaithfulnessMetric(model=Own(), threshold=0.6)
    before = dict(vars(metric))
    verdict = judge(deepeval(metric, fields=SOURCE), Calls(by_words), answer="<good> <bad>")
    assert (verdict.outcome, verdict.score) == ("fail", 0.5)  # of its own threshold
    assert vars(metric) == before


def test_steps_of_criteria_are_asked_once_for_all_cases_and_trials():
    right = deepeval("GEval", name="Right", criteria="Is it right?")
    asked = set()
    for trial in range(3):
        for text in ("one", "two"):
            calls = Calls(trial=trial)
            judge(right, calls, answer=text)
            asked |= {(r.digest, r.trial) for r in calls.asked if schema_of(r) == "Steps"}
            assert calls.schemas == ["Steps", "ReasonScore"]
            assert calls.asked[1].trial == trial
    assert len(asked) == 1


def test_geval_gives_the_score_as_a_share_of_its_range():
    steps = {"evaluation_steps": ["Look."], "evaluation_params": ["actual_output"]}
    ten = Calls(lambda *_: {"reason": "fine", "score": 7})
    assert judge(deepeval("GEval", name="G", **steps), ten).score == pytest.approx(0.7)
    rubric = [
        {"score_range": [0, 5], "expected_outcome": "bad"},
        {"score_range": [6, 10], "expected_outcome": "good"},
    ]
    assert judge(deepeval("GEval", name="G", rubric=rubric, **steps), ten).score == 0.7


@pytest.mark.parametrize(
    "reply",
    [
        "not json",
        '{"reason": "x"',
        '{"reason": "x", "score": NaN}',
        "[]",
        None,
        '{"reason": 3}',
        "",
        '{"reason": "x", "score": 1, "score": 10}',
        'Score: 2\n\n{"reason": "x", "score": 10}',
        '{"reason": "x", "score": 2}\n{"reason": "x", "score": 10}',
        '{"reason": "x", "score": 2} Or rather: score 10.',
    ],
)
def test_an_unreadable_reply_is_asked_for_once_more_and_then_given_up(reply):
    """The raw reply is kept, and nothing is made of it."""
    calls = Calls(lambda *_: completion(reply), trial=5)
    steps = deepeval("GEval", name="G", evaluation_steps=["Look."])
    with pytest.raises(JudgeError, match="after 2 attempts") as error:
        judge(steps, calls)
    assert error.value.raw == reply
    first, second = calls.asked
    assert first.trial == second.trial == 5
    assert prompt_of(second).startswith(prompt_of(first).rstrip())
    assert "could not be read" in prompt_of(second)


def test_a_score_that_prose_and_object_agree_on_is_taken():
    calls = Calls(lambda *_: 'The score is 8, for this: {"reason": "ok", "score": 8}')
    assert judge(deepeval("GEval", name="G", evaluation_steps=["Look."]), calls).score == 0.8


def test_a_second_reply_that_can_be_read_is_taken():
    replies = iter(["I would say 8/10", '```json\n{"reason": "ok", "score": 8}\n```'])
    calls = Calls(lambda *_: next(replies))
    assert judge(deepeval("GEval", name="G", evaluation_steps=["Look."]), calls).score == 0.8


def test_a_verdict_may_be_spelled_as_models_without_schemas_spell_it():
    def spelled(schema: str, _: Any) -> Any:
        if schema == "Claims":
            return {"claims": ["one", "two"]}
        verdicts = [{"verdict": "Yes."}, {"verdict": "**No**", "reason": "x"}]
        return {"verdicts": verdicts} if schema == "Verdicts" else ...

    assert judge(FAITHFUL, Calls(spelled)).score == 0.5


def test_a_reply_cut_off_or_refused_is_no_score():
    for reply in (
        completion('{"reason": "ok", "score": 8}', finish_reason="length"),
        completion(None, refusal="I cannot"),
    ):
        with pytest.raises(JudgeError):
            judge(
                deepeval("GEval", name="G", evaluation_steps=["Look."]),
                Calls(lambda *_, r=reply: r),
            )


@pytest.mark.parametrize(
    "error", [TypeError("x"), AttributeError("x"), KeyError("x"), ValueError("x")]
)
def test_a_bug_below_is_not_taken_for_a_model_without_schemas(error):
    """deepeval would ask again, without the schema, and pay twice."""
    calls = Calls(lambda *_: error)
    with pytest.raises(JudgeError, match="the call broke"):
        judge(deepeval("GEval", name="G", evaluation_steps=["Look."]), calls)
    assert len(calls.asked) == 1


def test_a_budget_that_is_reached_is_said_as_such():
    with pytest.raises(BudgetError):
        judge(FAITHFUL, Calls(lambda *_: BudgetError("no more")))


@pytest.mark.parametrize("score", [11, -1, 1e9])
def test_a_score_out_of_range_is_an_error_and_not_a_score(score):
    calls = Calls(lambda *_: {"reason": "x", "score": score})
    with pytest.raises(JudgeError, match="not from 0 to 1"):
        judge(deepeval("GEval", name="G", evaluation_steps=["Look."]), calls)


def test_verdicts_that_are_missing_are_an_error():
    def forgetful(schema: str, request: Any) -> Any:
        if schema == "Claims":
            return {"claims": ["one", "two"]}
        return {"verdicts": [{"verdict": "yes"}]} if schema == "Verdicts" else ...

    with pytest.raises(JudgeError, match="1 verdict for 2 claims"):
        judge(FAITHFUL, Calls(forgetful))


def test_nothing_to_judge_is_no_evidence():
    verdict = judge(FAITHFUL, Calls(by_words), answer="words without a claim")
    assert (verdict.outcome, verdict.code) == ("abstain", "nothing_to_judge")


def test_what_should_not_be_found_and_is_not_passes():
    calls = Calls(lambda schema, _: {"extracted_pii": []} if schema == "ExtractedPII" else ...)
    assert judge(deepeval("PIILeakage"), calls).outcome == "pass"


@pytest.mark.parametrize(
    "answer", [completion(None, refusal="no"), completion(""), completion(" ")]
)
def test_an_answer_without_text_fails_and_asks_nobody(answer):
    calls = Calls()
    verdict = judge(FAITHFUL, calls, answer=answer)
    assert verdict.outcome == "fail"
    assert verdict.code in {"refused", "no_text"}
    assert not calls.asked


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        (deepeval("Faithfulness"), "retrieval_context"),
        (deepeval("ContextualPrecision"), "retrieval_context"),
        (deepeval("Hallucination"), "context"),
        (deepeval("RoleAdherence"), "chatbot_role"),
        (deepeval("ToolCorrectness"), "expected_tools"),
        (deepeval("MCPUse"), "mcp_servers"),
        (deepeval("PlanQuality"), "trace"),
        (deepeval("ExactMatch"), "expected_output"),
    ],
)
def test_a_missing_field_is_named_with_the_case_and_the_fix(declared, field):
    fix = (
        rf"'disk' has no [a-z_', ]*'{field}'.*golden:1\)\n  fix: .*\"{field}\": \"inputs.{field}\""
    )
    with pytest.raises(JudgeError, match=fix):
        judge(declared, Calls())


def test_a_declared_place_that_a_case_lacks_is_named():
    with pytest.raises(JudgeError, match=r"has no 'expected\.truth'"):
        judge(deepeval("Faithfulness", fields={"retrieval_context": "expected.truth"}), Calls())


@pytest.mark.parametrize("metric", ["JevEval", "ImageCoherence", "ImageCoherenceMetric"])
def test_a_metric_that_cannot_judge_is_refused_where_it_is_declared(metric):
    with pytest.raises(UsageError, match=r"is not supported: it (calls|judges)"):
        deepeval(metric)


def test_classes_and_objects_that_cannot_judge_are_refused_too():
    _judge.load()
    from deepeval.metrics import ImageCoherenceMetric

    with pytest.raises(UsageError, match="judges images"):
        deepeval(ImageCoherenceMetric)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: bound(deepeval("Faithful")), "did you mean 'Faithfulness'?"),
        (lambda: deepeval("Faithfulness", fields={"source": "inputs.x"}), "no field 'source'"),
        (lambda: deepeval("Faithfulness", fields={"context": "report"}), "write inputs.NAME"),
        (lambda: deepeval("Faithfulness", threshold=2), "from 0 to 1"),
        (lambda: deepeval("Faithfulness", threshold="0.5"), "from 0 to 1"),  # type: ignore[arg-type]
        (lambda: deepeval("Faithfulness", async_mode=False), "set by the run"),
        (lambda: deepeval(3), "not a metric"),
        (lambda: deepeval("Faithfulness", claimz=3), "FaithfulnessMetric takes no option 'claimz'"),
        (lambda: deepeval("Faithfulness", include_reasons=True), "did you mean 'include_reason'"),
        (lambda: deepeval("GEval", name="G", criteria=" "), "criteria is empty"),
        (lambda: deepeval("GEval", name="G", evaluation_steps=[]), "evaluation_steps is empty"),
        (lambda: deepeval("GEval", name="G", evaluation_params=["nope"]), "has no 'nope'"),
        (lambda: deepeval("GEval", name="G", evaluation_params=["inputs"]), "mean 'input'"),
        (lambda: deepeval("ConversationalGEval", evaluation_params=["input"]), "has no 'input'"),
        (lambda: deepeval("ToolCorrectness", evaluation_params=["input"]), "has no 'input'"),
        (lambda: bound(deepeval("GEval", name="G"), model=None), "no judge model is set"),
    ],
)
def test_what_makes_no_sense_is_said_before_a_run(make, why):
    with pytest.raises(UsageError, match=why):
        make()


def test_an_option_that_a_metric_of_a_project_does_not_know_is_said_by_name():
    _judge.load()
    from tests.unit.judges.deepeval_own import Words

    with pytest.raises(JudgeError, match=r"Words cannot be made.*claimz"):
        judge(deepeval(Words, claimz=3), Calls())


class Severity(BaseModel):
    severity: str


@pytest.mark.parametrize(
    ("declared", "answer", "outcome"),
    [
        (deepeval("ExactMatch", fields={"expected_output": "expected"}), "a", "pass"),
        (deepeval("PatternMatch", pattern="[a-c]+"), "a", "pass"),
        (deepeval("JsonCorrectness", expected_schema=Severity), '{"severity": "info"}', "pass"),
        (deepeval("JsonCorrectness", expected_schema=Severity), "no JSON", "fail"),
        (deepeval("ToolCorrectness", fields={"expected_tools": "inputs.report"}), "a", "fail"),
    ],
)
def test_a_metric_that_calls_no_model_requires_none(declared, answer, outcome):
    calls = Calls()
    one = bound(declared, model=None)
    verdict = asyncio.run(one.judge_with(completion(answer), case("a"), calls))
    assert verdict.outcome == outcome, verdict
    assert not calls.asked
    assert bound(declared).models == ()


@pytest.mark.parametrize(
    ("params", "arguments", "score"),
    [
        ([], '{"at": 1}', 1.0),
        (["input_parameters"], '{"at": 1}', 1.0),
        ([], '{"at": 2}', 1.0),
        (["input_parameters"], '{"at": 2}', 0.0),
        (["input_parameters"], "{}", 0.0),
    ],
)
def test_arguments_of_tools_count_where_the_metric_is_to_compare_them(
    params: list[str], arguments: str, score: float
):
    declared = deepeval(
        "ToolCorrectness", fields={"expected_tools": "inputs.tools"}, evaluation_params=params
    )
    tools = [{"name": "search", "input_parameters": {"at": 1}}]
    call = ToolCall(id="1", name="search", arguments=arguments)
    verdict = asyncio.run(
        bound(declared, model=None).judge_with(
            completion("a", tool_calls=(call,)), case("a", tools=tools), Calls()
        )
    )
    assert verdict.score == score, verdict


def test_a_metric_that_may_call_a_model_requires_one():
    with pytest.raises(UsageError, match="no judge model is set"):
        bound(
            deepeval("JsonCorrectness", expected_schema=Severity, include_reason=True), model=None
        )


def test_a_threshold_is_no_part_of_the_measurement():
    one, other = (bound(deepeval("Bias", threshold=limit)) for limit in (0.2, 0.8))
    assert one.measurement_digest == other.measurement_digest
    assert one.digest != other.digest
    measured = Measurement(score=0.5, reason="so so", details={"threshold": 0.5})
    assert one.verdict_of(measured).outcome == "pass"
    assert other.verdict_of(measured).outcome == "fail"


def test_everything_else_is_part_of_it():
    digests = {
        bound(declared).measurement_digest
        for declared in (
            deepeval("Bias"),
            deepeval("Toxicity"),
            deepeval("Bias", include_reason=False),
            deepeval("Bias", parameters={}),
            deepeval("Bias", fields={"input": "inputs.report"}),
            deepeval("Bias", model="local:other"),
        )
    }
    assert len(digests) == 6


def test_a_measurement_survives_a_file():
    one = bound(FAITHFUL)
    measured = asyncio.run(one.measure_with(completion("<good> <bad>"), case(), Calls(by_words)))
    again = Measurement.from_json(json.loads(json.dumps(measured.to_json())))
    assert one.verdict_of(again) == one.verdict_of(measured)
    assert again.details["judged"] == {"what": "claims", "count": 2}


def test_the_other_contestant_wins_or_loses():
    arena = deepeval(
        "ArenaGEval", name="Arena", evaluation_steps=["Look."], fields={"against": "expected"}
    )

    def prefers(text: str) -> Any:
        def reply(schema: str, request: Any) -> Any:
            if schema != "Winner":
                return ...
            block = prompt_of(request).split("Contestants:", 1)[1]
            contestants = json.JSONDecoder().raw_decode(block[block.index("{") :])[0]
            named = contestants["arena_test_cases"]
            name = next(name for name, told in named.items() if text in told)
            return {"winner": name, "reason": "it is"}

        return Calls(reply)

    of = case("the reference")
    assert judge(arena, prefers("the answer"), answer="the answer", of=of).outcome == "pass"
    assert judge(arena, prefers("the reference"), answer="the answer", of=of).score == 0.0
    with pytest.raises(JudgeError, match=r"of local:judge is unknown or missing.*'Nobody'"):
        judge(
            arena,
            Calls(lambda s, _: {"winner": "Nobody", "reason": ""} if s == "Winner" else ...),
            of=of,
        )


def grade(score: str, *likely: tuple[str, float]) -> Any:
    """A reply whose score has tokens with probabilities."""
    text = '{"reason": "fine", "score": ' + score + "}"
    top = tuple((token, math.log(p)) for token, p in likely)
    tokens = (TokenLogprob(token=score, logprob=0.0, top=top),)
    return completion(text, logprobs=tokens)


def test_a_grade_is_weighed_by_its_tokens_where_they_are_asked_for():
    weighed = deepeval(
        "GEval", name="G", criteria="Right?", parameters={"logprobs": True, "top_logprobs": 20}
    )
    calls = Calls(lambda s, _: grade("8", ("8", 0.6), ("6", 0.4)) if s == "ReasonScore" else ...)
    assert judge(weighed, calls).score == pytest.approx(0.72)
    steps, score = calls.asked
    assert "logprobs" not in steps.parameters
    assert score.parameters == {"logprobs": True, "top_logprobs": 20}
    plain = Calls(lambda s, _: '{"reason": "", "score": 8}' if s == "ReasonScore" else ...)
    assert judge(weighed, plain).score == 0.8, "an endpoint may give no tokens"
    with pytest.raises(JudgeError, match="after 2 attempts"):
        judge(weighed, Calls(lambda s, _: "8/10" if s == "ReasonScore" else ...))


def test_an_answer_that_spells_an_image_is_a_text():
    """deepeval would fetch it, or refuse to judge."""
    text = "See [DEEPEVAL:IMAGE:http://127.0.0.1/x.png]"
    calls = Calls(lambda *_: {"reason": "", "score": 8})
    verdict = judge(deepeval("GEval", name="G", evaluation_steps=["Look."]), calls, answer=text)
    assert verdict.score == 0.8
    assert text in prompt_of(calls.asked[0])


def test_a_graph_may_stand_in_a_file(tmp_path):
    from tests.e2e.test_deepeval_metrics import dag

    (tmp_path / "outage.json").write_text(dag().to_json())
    declared = deepeval("DAG", name="Outage", dag="outage.json")
    one = bound(declared, root=tmp_path)
    calls = Calls(
        lambda schema, _: (
            {"verdict": "some" if schema[:3] == "Non" else True, "reason": ""}
            if "Verdict" in schema
            else ...
        )
    )
    verdict = asyncio.run(one.judge_with(completion("db-1 was down"), case(), calls))
    assert verdict.score == 0.6
    text = (tmp_path / "outage.json").read_text()
    (tmp_path / "outage.json").write_text(text.replace("name a host", "name two hosts"))
    assert bound(declared, root=tmp_path).digest != one.digest
    (tmp_path / "outage.json").unlink()
    with pytest.raises(UsageError, match=r"outage\.json: the graph"):
        bound(declared, root=tmp_path)


HASHED = """
import asyncio, sys
sys.modules["anthropic"] = None  # deepeval loads it where it is installed
sys.path.insert(0, {root!r})
from tests.e2e.test_deepeval_metrics import FACTORIES, OPTIONS, ANSWER
from tests.unit.judges.deepeval_responses import Calls, bound, case, completion
from regauge.judges import deepeval
for name, metric in FACTORIES.items():
    calls = Calls(lambda schema, request: {{"verdict": True, "reason": ""}} if "Binary" in schema and "Non" not in schema else ...)
    asyncio.run(bound(deepeval(metric, name=name)).judge_with(completion(ANSWER), case(), calls))
    print([request.digest[:8] for request in calls.asked])
arena = deepeval("ArenaGEval", name="A", evaluation_steps=["Look."], fields={{"against": "expected"}})
calls = Calls(lambda s, _: {{"winner": "x", "reason": ""}})
try:
    asyncio.run(bound(arena).judge_with(completion("one"), case("two"), calls))
except Exception as error:
    pass
own = deepeval(lambda case: case in {{"one", "two", "three"}}, name="own")
print([request.digest[:8] for request in calls.asked], bound(arena).digest[:8], bound(own).digest[:8])
"""


def test_prompts_follow_from_the_case_whatever_the_hash_seed(pytestconfig):
    """deepeval orders the options of a graph by hash and shuffles contestants."""
    script = HASHED.format(root=str(pytestconfig.rootpath))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("2", "3")  # they order every pair of words here differently
    ]
    said = {process.communicate(timeout=600)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(said) == 1
    assert said.pop().count("[") == 3
