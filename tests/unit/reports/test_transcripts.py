"""Decisions and runs of many kinds, word for word: on a terminal, as Markdown, as annotations."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from regauge.evidence import AnchorReport, Count, RateDifference, SuiteReport
from regauge.reports import (
    OutputDocument,
    RunTally,
    decision_annotations,
    decision_lines,
    decision_markdown,
    rows_of,
    run_markdown,
)
from regauge.reports._console import (
    FailedCase,
    cause_lines,
    eval_lines,
    failed_lines,
    judge_lines,
    not_blocking_lines,
    stored_lines,
)
from regauge.reports._documents import (
    CallsDocument,
    GuardChangeDocument,
    GuardsDocument,
    RefusalDocument,
    RuleDocument,
)
from regauge.reports._runs import verdict_events
from regauge.runner import CallTotals
from tests.transcripts import assert_as_written
from tests.unit.reports.test_decisions import (
    DIFF,
    a_broken_case,
    a_case,
    a_decision,
    a_prompt,
    answers,
)
from tests.unit.reports.test_labels import counted
from tests.unit.reports.test_suggestions import found, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.reports import DecisionDocument
    from regauge.reports._console import StyledLine


def whole_suite(
    verdict: Any = "passed", *, base: float = 0.9, candidate: float = 0.85, **more: Any
) -> SuiteReport:
    rates = RateDifference(base=base, candidate=candidate, low=candidate - base - 0.1, high=0.04)
    return SuiteReport(prompt="p", status=verdict, cases=40, difference=rates, **more)


def guards(changes: int, below: Any = "") -> GuardsDocument:
    return GuardsDocument(
        prompt="alert-severity",
        guarded=5,
        total=8,
        open=1,
        base_guarded=6,
        base_total=8,
        changes=[
            GuardChangeDocument(
                kind="unguarded",
                line=number,
                text="Be brief.",
                before="guarded",
                after="unguarded",
                causes=[],
                cases=[],
                message=f"line {number} lost its guard",
            )
            for number in range(changes)
        ],
        trials=9,
        notes=["a note on guards"],
        floor=0.7,
        below=below,
        message="guards 5 of 8",
    )


def every_verdict() -> list[Any]:
    words = (
        "broken", "unmeasured", "undecided", "removed", "drifted", "fixed", "new", "mixed",
        "flaky", "known-failing", "passed", "unchanged",
    )  # fmt: skip
    return [
        a_case(
            f"{word}-{number}",
            word,
            message=f"alert-severity/{word}-{number}: what is said of it.",
            blocks=word in {"broken", "new"},
            location=f"fixtures/golden/a.jsonl:{number + 3}",
            accepted="agreed" if number == 2 else "",
            tier="tracked" if number == 3 else "required",
        )
        for word in words
        for number in range(4)
    ]


CALLS = CallsDocument(
    first=1, follow_up=0, base=0, live=1, input_tokens=1, output_tokens=1, cost_usd=None
)
RULES = [
    RuleDocument(
        rule="no-bump", message="the version did not move", fix="regauge bump p", path="p.yml"
    ),
    RuleDocument(rule="odd", message="odd", fix="", path="q.yml", line=7),
]
DECISIONS: dict[str, Any] = {
    "every verdict": lambda: a_decision(*every_verdict(), notes=["one", "two"]),
    "accepted, all well": lambda: a_decision(
        a_case(verdict="passed"),
        decision="accept",
        exit_code=0,
        prompts=[a_prompt(counts={"passed": 100}, test=whole_suite(candidate=0.9))],
        caveats=["2 edited cases", "code of evals"],
        looser_options=["--on-broken warn"],
        provisional=True,
        calls=CALLS,
        base_commit="origin/main",
    ),
    "better": lambda: a_decision(
        *(a_case(f"f{number}", "fixed", **answers("right", "wrong")) for number in range(2)),
        a_case("b", blocks=False),
        a_case("c", blocks=False, accepted="agreed"),
        decision="accept",
        prompts=[
            a_prompt(
                counts={"broken": 2, "fixed": 2, "passed": 36},
                test=whole_suite(
                    base=0.7,
                    candidate=0.9,
                    net=(
                        {
                            "base": Count(passed=1, trials=2),
                            "candidate": Count(passed=2, trials=2),
                            "p_worse": 0.9,
                            "p_better": 0.01,
                            "bound": 0.015,
                        },
                    ),
                ),
            )
        ],
        policy={"on_broken": "net"},
    ),
    "allowed": lambda: a_decision(
        a_case("b", blocks=False),
        a_case("c", blocks=False),
        a_case("d", blocks=False, tier="tracked"),
        decision="accept",
        prompts=[a_prompt(counts={"broken": 3, "passed": 7}, test=whole_suite())],
        policy={"on_broken": "warn"},
    ),
    "two prompts": lambda: a_decision(
        a_case("a", **answers('{"a": 1}', '{"a": 2}')),
        a_case(
            "b", prompt="other", verdict="new", blocks=True, location="fixtures/golden/b.jsonl:4"
        ),
        a_case("c", prompt="other", verdict="unmeasured", candidate=Count(passed=0, trials=0)),
        prompts=[
            a_prompt(rules=RULES, test=whole_suite("unmeasured")),
            a_prompt(
                prompt="other",
                version=None,
                base_version=None,
                base_digest=None,
                counts={"new": 1, "unmeasured": 1},
                simulated=False,
                diff=DIFF.replace(
                    "-  - critical: wake somebody up", "\n".join(f"-line {n}" for n in range(14))
                ),
            ),
        ],
    ),
    "undecided": lambda: a_decision(
        a_case("u", "undecided", blocks=False, **answers("yes", "no")),
        decision="undecided",
        reasons=["u is not certain", "1 of 100 cases broke"],
        prompts=[
            a_prompt(counts={"undecided": 1, "broken": 1, "passed": 98}, base_version="1.1.0")
        ],
        base_unavailable=["alert-severity"],
    ),
    "refused": lambda: a_decision(
        decision="refused",
        refusals=[
            RefusalDocument(
                part="judge",
                message="the judges differ",
                details=[f"judge {number}" for number in range(34)],
                fix="regauge gate --accept-judge-change REASON",
            )
        ],
        reasons=["the judges differ", "another reason"],
        not_run=3,
        prompts=[a_prompt(counts={}, diff="")],
    ),
    "unmeasured": lambda: a_decision(
        decision="unmeasured",
        unmeasured=RULES,
        prompts=[],
        sensitivity="",
    ),
    "anchored and guarded": lambda: a_decision(
        prompts=[
            a_prompt(
                model="sim:clerk-2",
                version=None,
                anchor=AnchorReport(version="0.9.0", message="since 0.9.0: -3.0 points"),
                guards=[guards(12, "floor"), guards(1)],
                counts={"passed": 5},
            )
        ]
    ),
    "many kinds": lambda: a_decision(
        *(a_broken_case(f"c{number}", f"label {number % 13}", "other") for number in range(40)),
        *(a_case(f"k{number}", "known-failing", blocks=False) for number in range(5)),
        *(a_case(f"n{number}", "mixed", blocks=False) for number in range(33)),
        *(a_case(f"long{number}", **answers("x" * 2100, "y")) for number in range(2)),
        a_case("only", passing=OutputDocument(side="base", trial=3, text="")),
        a_case("same", **answers("same", "same", reason="")),
        prompts=[a_prompt(prompt=f"p{number}") for number in range(6)],
    ),
}


def styled(lines: Iterable[StyledLine]) -> list[str]:
    return [f"{line.tone:6}|{line.text}" for line in lines]


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_told_as_it_was_written_down(name: str):
    document: DecisionDocument = DECISIONS[name]()
    text = [
        *styled(decision_lines(document)),
        "",
        *decision_annotations(document, below="below/"),
        "",
        decision_markdown(document, suggestions=[found()]),
    ]
    assert_as_written("\n".join(text), f"decisions/{name}")


def rows(made: Any) -> list[Mapping[str, Any]]:
    """A run of two models, of two prompts, with labels, LLM judges, causes and tracked cases."""
    drawn: list[Mapping[str, Any]] = []
    for number in range(8):
        for model in ("sim:a", "sim:b"):
            results = [
                "passed",
                "failed" if number % 3 == 0 or (model > "sim:a" and number % 2) else "passed",
            ]
            if number == 5:
                results = ["unmeasured", "passed"]
            tier = "tracked" if number == 6 else "required"
            case = made.case(number, tier=tier)
            where = f"evals/test_a.py::test_a[c{number}-{model}]"
            trials = [made.trial(trial, outcome) for trial, outcome in enumerate(results)]
            for row in rows_of(made.result(trials, node_id=where, case=case)):
                own = {
                    **row,
                    "model": model,
                    "not_blocking": "too few trials" if number == 3 else "",
                }
                own["latency_s"] = 0.2 * (number + 1)
                own["verdicts"] = [
                    {
                        **verdict,
                        "labels": True,
                        "expected": "red" if number % 2 else "blue",
                        "actual": None if verdict["outcome"] == "pass" else "green",
                        "usage": {
                            **asdict(CallTotals(calls=number % 2, live=number % 2, retries=1)),
                            "input_tokens": 900,
                            "output_tokens": 200,
                            "latency_s": 1.5,
                        },
                        "blocking": verdict["judge"] != "tone",
                    }
                    for verdict in row["verdicts"]
                ] + [
                    {
                        **verdict,
                        "judge": "tone",
                        "blocking": False,
                        "status_reason": "not calibrated",
                        "outcome": "abstain" if number == 4 else verdict["outcome"],
                    }
                    for verdict in row["verdicts"]
                ]
                drawn.append(own)
    (other,) = rows_of(made.result([made.trial(0, source="recording")], eval=made.suite(name="b")))
    return [*drawn, {**other, "version": None, "side": None}]


def test_a_run_is_told_as_it_was_written_down(made: Any):
    tally, joined = RunTally(), RunTally()
    for row in rows(made):
        tally.add(row)
        half = RunTally()
        half.add(row)
        half.settle(compares_models=True)
        joined.join(half)
    suites = tally.evals(["sim:a", "sim:b"])
    failed = [
        FailedCase(
            prompt="alert",
            version="1.0.0",
            judge=f"judge {number % 7}",
            mode="red -> green" if number % 2 else f"code {number}",
            reason="because",
            case=f"c{number}",
        )
        for number in [*range(40), *range(41, 97, 7)]
    ]
    pairs = [("a", "a"), ("a", "b"), ("b", "b"), ("b", "b"), ("a|b", "a"), ("a|b", None)]
    judge = suites[0].judges[0].model_copy(update={"labels": counted(pairs).rows()})
    labelled = suites[0].model_copy(update={"side": None, "judges": [judge]})
    text = [
        *styled(eval_lines(suites)),
        *styled(eval_lines(tally.evals(across_versions=True)[:1])),
        *styled(eval_lines([])),
        *styled(
            eval_lines(
                [
                    suites[0].model_copy(update={"failed": failed, "unmeasured": unmeasured})
                    for failed, unmeasured in [(0, 0), (1, 0), (0, 1)]
                ]
            )
        ),
        *styled(judge_lines(suites)),
        *styled(failed_lines(failed, suites)),
        *styled(cause_lines(tally.causes())),
        *styled(cause_lines(tally.causes(), tracebacks=True)),
        *styled(
            not_blocking_lines(
                {"alert": [f"c{number}" for number in range(7)], **tally.not_blocking()}
            )
        ),
        *styled(
            stored_lines(
                {"fixtures/recordings/judges/a.jsonl": 1, "fixtures/recordings/b.jsonl": 2}
            )
        ),
        *(suite.model_dump_json(indent=1) for suite in suites),
        *(
            suite.model_dump_json(exclude_defaults=True)
            for suite in joined.evals(["sim:a", "sim:b"])
        ),
        run_markdown(record().model_copy(update={"evals": suites}), rows(made)),
        # Outside of a gate, wrong labels are tables.
        *styled(judge_lines([labelled])),
        run_markdown(record().model_copy(update={"evals": [labelled]}), []),
        *(
            json.dumps(event)
            for event in verdict_events(
                record(), [dict(row) for row in rows(made) if not row["verdicts"]]
            )
        ),
    ]
    assert_as_written("\n".join([*text, ""]), "reports/run")
