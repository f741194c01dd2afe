"""A decision on the console, in Markdown and as annotations; what a model says is hostile."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot
from pydantic import ValidationError

from regauge.evidence import Count, RateDifference, SuiteReport
from regauge.reports import (
    CaseDocument,
    DecisionDocument,
    OutputDocument,
    PromptDocument,
    decision_annotations,
    decision_lines,
    decision_markdown,
)
from regauge.reports._documents import (
    CallsDocument,
    RuleDocument,
)
from regauge.reports._gate_console import headline
from regauge.reports._gate_markdown import pass_rates
from regauge.reports._markdown import shown_text
from regauge.reports._next_step import next_step

DIFF = """\
--- alert-severity@1.0.0
+++ prompts/alert-severity.prompt.yml
@@ -10,3 +10,3 @@
 messages:
-  - critical: wake somebody up
+  - critical
"""


def count(passed: int, trials: int) -> Count:
    return Count(passed=passed, trials=trials)


def a_case(case: str = "disk-full", verdict: str = "broken", **more: Any) -> CaseDocument:
    values: dict[str, Any] = {
        "prompt": "alert-severity",
        "case": case,
        "tier": "required",
        "state": "changed",
        "status": verdict,
        "blocks": verdict == "broken",
        "message": f"alert-severity/{case}: failed 6 of 6 new trials.",
        "before": count(12, 12),
        "today": count(5, 5),
        "candidate": count(0, 6),
    }
    return CaseDocument(**{**values, **more})


def test_an_unknown_verdict_is_refused_where_a_record_is_read():
    with pytest.raises(ValidationError):
        a_case(status="nonsense")


def a_prompt(**more: Any) -> PromptDocument:
    values: dict[str, Any] = {
        "prompt": "alert-severity",
        "path": "prompts/alert-severity.prompt.yml",
        "state": "changed",
        "version": "1.1.0",
        "base_version": "1.0.0",
        "digest": "a" * 64,
        "base_digest": "b" * 64,
        "model": "sim:clerk-1",
        "base_model": "sim:clerk-1",
        "simulated": True,
        "line": 11,
        "diff": DIFF,
        "counts": {"broken": 1, "passed": 99},
    }
    return PromptDocument(**{**values, **more})


def a_decision(*cases: CaseDocument, **more: Any) -> DecisionDocument:
    values: dict[str, Any] = {
        "decision": "reject",
        "exit_code": 1,
        "ref": "origin/main",
        "base_commit": "1a2b3c4d5e6f",
        "reasons": [],
        "prompts": [a_prompt()],
        "cases": list(cases),
        "calls": CallsDocument(
            first=100, follow_up=5, base=5, live=110, input_tokens=1, output_tokens=1, cost_usd=0.0
        ),
        "sensitivity": "With these 100 cases this gate finds one fully broken case.",
        "rerun_command": "regauge gate origin/main",
        "policy": {},
    }
    document = DecisionDocument(**{**values, **more})
    return document.model_copy(update={"next": next_step(document)})


def answers(passing: str, failing: str, reason: str = "severity is wrong") -> dict[str, Any]:
    return {
        "passing": OutputDocument(side="base", trial=1000, text=passing),
        "failing": OutputDocument(
            side="candidate", trial=0, text=failing, judge="field_equals", reason=reason
        ),
    }


@pytest.mark.parametrize(
    ("sides", "rates"),
    [
        ([], "-"),
        ([((4, 4), (0, 0), (0, 0))], "-"),
        ([((3, 4), (0, 0), (1, 2))], "75 % → 50 %"),
        ([((3, 4), (0, 4), (1, 2))], "38 % → 50 %"),
        ([((0, 0), (0, 0), (1, 2))], "50 %"),
        ([((4, 4), (0, 0), (2, 2)), ((0, 0), (0, 2), (0, 4))], "50 % → 50 %"),
        ([((4, 4), (0, 0), (2, 2)), ((0, 0), (0, 0), (0, 4))], "50 %"),
        ([((4, 4), (0, 0), (0, 0)), ((0, 4), (0, 0), (1, 4))], "0 % → 25 %"),
    ],
)
def test_the_pass_rates_are_means_over_the_cases_that_both_sides_have(
    sides: list[tuple[tuple[int, int], ...]], rates: str
):
    """Baseline and today are summed for the base; cases without trials of one side mix nothing."""
    cases = [
        a_case(
            f"c{number}", before=count(*before), today=count(*today), candidate=count(*candidate)
        )
        for number, (before, today, candidate) in enumerate(sides)
    ]
    other = a_case(prompt="other", before=count(0, 9), candidate=count(0, 9))
    assert pass_rates(a_decision(*cases, other), a_prompt()) == rates


def test_a_rejection_reads_in_ten_seconds():
    broken = a_case(**answers('{"severity": "critical"}', '{"severity": "info"}'))
    rule = RuleDocument(
        rule="no-bump",
        message="prompts/alert-severity.prompt.yml changed and its version did not",
        fix="regauge bump alert-severity minor",
        path="prompts/alert-severity.prompt.yml",
        line=3,
    )
    document = a_decision(broken, a_case("quota", "passed"), prompts=[a_prompt(rules=[rule])])
    assert "\n".join(line.text for line in decision_lines(document)) == snapshot("""\
gate: rejected against origin/main (1a2b3c4d5): 1 broken of 100 cases
alert-severity 1.0.0 → 1.1.0 (simulated): 1 broken, 99 passed
  prompts/alert-severity.prompt.yml changed and its version did not
  fix: regauge bump alert-severity minor
  -  - critical: wake somebody up
  +  - critical
broken:
  alert-severity/disk-full: failed 6 of 6 new trials.
    --- passed (base, trial 1000)
    +++ failed (candidate, trial 0)
     {
    -  "severity": "critical"
    +  "severity": "info"
     }
    field_equals: severity is wrong
110 trials (100 initial, 5 follow-up, 5 on base), 110 calls now, $0.
With these 100 cases this gate finds one fully broken case.
decide again: regauge gate origin/main
next: regauge bump alert-severity minor; revert or edit the prompt, accept broken cases in its changelog, or search for a fix: regauge refine alert-severity\
""")
    assert decision_markdown(document) == snapshot("""\
<!-- regauge gate -->
### ❌ regauge gate: rejected against `origin/main` (`1a2b3c4d5`): 1 broken of 100 cases

| prompt | version | cases | broken | passed | pass rate |
|---|---|--:|--:|--:|--:|
| alert-severity | 1.0.0 → 1.1.0 (simulated) | 100 | 1 | 99 | 100 % → 0 % |

**Versions of alert-severity**

- prompts/alert-severity.prompt.yml changed and its version did not. Fix: `regauge bump alert-severity minor`

<details open><summary>diff of prompts/alert-severity.prompt.yml</summary>

```diff
--- alert-severity@1.0.0
+++ prompts/alert-severity.prompt.yml
@@ -10,3 +10,3 @@
 messages:
-  - critical: wake somebody up
+  - critical
```

</details>

**Broken**

- `alert-severity/disk-full`: failed 6 of 6 new trials.
  <details open><summary>outputs</summary>

  ```diff
  --- passed (base, trial 1000)
  +++ failed (candidate, trial 0)
   {
  -  "severity": "critical"
  +  "severity": "info"
   }
  field_equals: severity is wrong
  ```

  </details>

110 trials (100 initial, 5 follow-up, 5 on base), 110 calls now, $0.<br>With these 100 cases this gate finds one fully broken case.

Decide again: `regauge gate origin/main`
<br>**Next:** regauge bump alert-severity minor; revert or edit the prompt, accept broken cases in its changelog, or search for a fix: `regauge refine alert-severity`
""")
    assert decision_annotations(document) == snapshot(
        [
            "::error file=prompts/alert-severity.prompt.yml,line=3,title=regauge%3A alert-severity::prompts/alert-severity.prompt.yml changed and its version did not%0Afix: regauge bump alert-severity minor",
            "::error file=prompts/alert-severity.prompt.yml,line=11,title=regauge%3A alert-severity/disk-full broken::alert-severity/disk-full: failed 6 of 6 new trials.",
        ]
    )


def test_a_fixed_case_shows_the_failing_answer_first():
    fixed = a_case(status="fixed", **answers("right", "wrong"))
    text = decision_markdown(a_decision(fixed, decision="accept"))
    assert text.index("--- failed (candidate, trial 0)") < text.index("+++ passed (base")
    assert "\n  -wrong\n  +right\n" in text


def test_a_decision_without_a_case_still_marks_the_prompt_file():
    document = a_decision(reasons=["alert-severity: no single case is clearly broken, but"])
    (only,) = decision_annotations(document)
    assert only.startswith("::error file=prompts/alert-severity.prompt.yml,line=11,")
    assert decision_annotations(a_decision(decision="accept")) == []


def test_many_broken_cases_stay_within_what_github_takes():
    cases = [
        a_case(f"case-{n}", **answers("x" * 5000, "y\n" * 5000, reason="z" * 5000))
        for n in range(500)
    ]
    document = a_decision(*cases, prompts=[a_prompt(diff="+x" * 50_000), a_prompt(diff=DIFF * 999)])
    assert len(decision_markdown(document)) < 65_536
    assert "… and 469 more" in decision_markdown(document)
    assert len(decision_annotations(document)) == 10


HOSTILE = st.text(
    st.one_of(st.sampled_from("`~@#<>|[]():%\n\r\x1b -+/\\"), st.characters()), max_size=60
)


@given(passing=HOSTILE, failing=HOSTILE, reason=HOSTILE, case=HOSTILE)
def test_no_answer_ends_its_block_or_begins_a_command(
    passing: str, failing: str, reason: str, case: str
):
    document = a_decision(
        a_case(case, message=f"alert-severity/{case}: failed", **answers(passing, failing, reason)),
        prompts=[a_prompt(diff=f"--- a\n+++ b\n@@ -1 +1 @@\n-{passing}\n+{failing}\n")],
    )
    outside: list[str] = []
    fence = ""
    for line in decision_markdown(document).split("\n"):
        mark = re.fullmatch(r" {0,3}(`{3,})(diff)?", line)
        if not fence and mark and mark[2]:
            fence = mark[1]
        elif fence and mark and not mark[2] and len(mark[1]) >= len(fence):
            fence = ""
        elif not fence:
            outside.append(line)
    assert fence == ""
    allowed = re.compile(r"</?(details( open)?|summary|br)>|<!-- regauge gate -->")
    text = "\n".join(allowed.sub("", line) for line in outside)
    assert not re.search(r"[<>@\x1b\r]", text)
    for command in decision_annotations(document):
        assert re.fullmatch(r"::(error|warning) [^\n\r]*?::[^\n\r]*", command)
        head = command.split("::")[1]
        assert head.count(",") == 2, head


def test_cases_that_decide_nothing_are_folded_away():
    document = a_decision(
        a_case("now-and-then", "flaky", message="flaky @all"),
        a_case("never", "known-failing", message="known"),
        a_case("broken", message="broken"),
    )
    text = decision_markdown(document)
    assert "**Broken**\n\n- broken\n" in text
    assert "<details><summary>Flaky: 1</summary>\n\n- flaky &#64;&#8203;all\n\n</details>\n" in text
    assert "<details><summary>Known failing: 1</summary>\n\n- known\n\n</details>\n" in text
    assert text.count("<details") == text.count("</details>")


def a_broken_case(name: str, expected: str, output: str) -> CaseDocument:
    return a_case(
        name,
        passing=OutputDocument(side="base", trial=1000, text=expected),
        failing=OutputDocument(
            side="candidate",
            trial=0,
            text=output,
            judge="field_equals(severity)",
            reason=f"expected {expected}, output {output}",
            expected=expected,
            output=output,
        ),
    )


def test_broken_cases_of_one_kind_are_one_group_with_one_diff():
    cases = [
        a_broken_case("one", "info", "critical"),
        *(a_broken_case(f"case-{n}", "warning", "critical") for n in range(8)),
    ]
    document = a_decision(*cases, prompts=[a_prompt()])
    lines = [line.text for line in decision_lines(document)]
    start = lines.index("broken:")
    group = "8 cases: field_equals(severity): expected warning, output critical"
    assert lines[start + 1] == f"  {group}"
    assert sum("+critical" in line for line in lines) == 2
    assert "    also case-1, case-2, case-3, case-4, case-5, case-6, case-7" in lines
    markdown = decision_markdown(document)
    assert f"- **{shown_text(group)}**, such as" in markdown
    assert "<details><summary>7 more</summary>" in markdown
    assert markdown.count("<summary>outputs</summary>") == 2


def test_the_headline_of_one_prompt_states_the_difference_and_both_counts():
    test = SuiteReport(
        prompt="p",
        status="passed",
        cases=100,
        difference=RateDifference(base=0.7, candidate=0.844, low=0.08, high=0.21),
    )
    prompt = a_prompt(test=test, counts={"fixed": 15, "broken": 5, "passed": 80})
    document = a_decision(a_broken_case("one", "info", "critical"), prompts=[prompt])
    assert ": +14.4 points: 15 fixed, 5 broken" in headline(document)
