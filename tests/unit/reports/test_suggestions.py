"""What `--suggest` found, where people read it on GitHub; what models wrote stays text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from inline_snapshot import snapshot

from regauge.github import cut_markdown
from regauge.reports import (
    DecisionDocument,
    RunRecord,
    Suggestion,
    decision_markdown,
    record_markdown,
    run_markdown,
)

RUN = "20260131-100000-aaaa"
DIFF = "--- a/prompts/alert.prompt.yml\n+++ b/prompts/alert.prompt.yml\n@@ -1 +1 @@\n-a\n+b\n"
HOSTILE = "x @all <img src=x> </details> ](http://evil.test) ```\n````\n::error::| # y"


def found(**more: Any) -> Suggestion:
    values: dict[str, Any] = {
        "prompt": "alert",
        "run": RUN,
        "stop": "improved",
        "headline": "alert: a revision is proposed as 1.1.0 (1 line added, 1 removed; the gate accepts it)",
        "diff": DIFF,
        "evidence": [
            "json: run again with both: failed 12 of 20 trials before, 0 of 20 after",
            "every check, all cases: failed 12 of 60 trials before, 0 of 60 after; the gate: accept",
        ],
        "calls": 120,
        "simulated": True,
    }
    return Suggestion(**(values | more))


NONE = found(prompt="other", diff="", evidence=[], headline="other: no change proposed (questions)")


def record(*suggestions: Suggestion) -> RunRecord:
    return RunRecord(
        id="20260131-100000-bbbb",
        started_at="2026-01-31T10:00:00+00:00",
        finished_at="2026-01-31T10:00:01+00:00",
        status="finished",
        regauge_version="0",
        python_version="3",
        command=[],
        git=None,
        options={},
        evals=[],
        suggestions=list(suggestions),
    )


def test_tests_that_fail_apart_from_their_judges_are_in_every_report():
    tests = {f"evals/test_a.py::test_a[c{n}]": f"assert {n} < <0>" for n in range(6)}
    failed = record().model_copy(update={"failed_tests": tests})
    count = "6 tests failed apart from judges"
    gated = failed.model_copy(
        update={"decision": decision().model_copy(update={"decision": "accept"})}
    )
    for text in (run_markdown(failed, []), record_markdown(gated, [])):
        assert f"; {count}\n" in text
        assert "- `evals/test_a.py::test_a[c0]`: assert 0 &#60; &#60;0&#62;\n" in text
        assert "[c4]" in text
        assert "[c5]" not in text
        assert "- … and 1 more\n" in text
    assert "### ❌ regauge gate: accepted" in record_markdown(gated, [])
    assert "apart from judges" not in run_markdown(record(), [])


def decision() -> DecisionDocument:
    return DecisionDocument.model_validate(
        {
            "decision": "reject",
            "exit_code": 1,
            "ref": "origin/main",
            "base_commit": "1a2b3c4d5e6f",
            "reasons": [],
            "prompts": [],
            "cases": [],
            "calls": dict.fromkeys(
                ["first", "follow_up", "base", "live", "input_tokens", "output_tokens", "cost_usd"],
                0,
            ),
            "sensitivity": "",
            "rerun_command": "regauge gate origin/main",
            "policy": {},
        }
    )


def both(*suggestions: Suggestion) -> list[str]:
    """As a run shows them, and as a gate's decision does."""
    return [
        run_markdown(record(*suggestions), []),
        decision_markdown(decision(), suggestions=suggestions),
    ]


def test_a_suggestion_is_folded_with_evidence_cost_and_the_way_to_take_it():
    of_run, of_gate = (text[text.index("<details>") :] for text in both(found(), NONE))
    block = of_run.partition("(questions)\n")[0]
    assert of_gate.startswith(f"{block}(questions)\n")
    assert block == snapshot("""\
<details><summary>Suggested revision: alert: a revision is proposed as 1.1.0 (1 line added, 1 removed; the gate accepts it)</summary>

- json: run again with both: failed 12 of 20 trials before, 0 of 20 after
- every check, all cases: failed 12 of 60 trials before, 0 of 60 after; the gate: accept
- Cost: 120 calls of the simulated model, free.
- Take it: `regauge refine apply 20260131-100000-aaaa` where it was found; anywhere else `regauge refine alert --proposers=rules --apply`, which looks for it again.
- See why: `regauge refine show 20260131-100000-aaaa`

```diff
--- a/prompts/alert.prompt.yml
+++ b/prompts/alert.prompt.yml
@@ -1 +1 @@
-a
+b
```

</details>

- No revision is suggested: other: no change proposed \
""")
    assert all("uggest" not in text for text in both())


@pytest.mark.parametrize("where", ["headline", "evidence", "diff"])
def test_hostile_words_in_a_suggestion_stay_words(where: str):
    value: Any = [HOSTILE] if where == "evidence" else HOSTILE
    for text in both(found(**{where: value})):
        fence = re.search(r"(?m)^(`{3,})diff$", text)
        assert fence is not None
        prose, _, rest = text.partition(f"{fence[0]}\n")
        block, _, after = rest.partition(f"\n{fence[1]}\n")
        assert (HOSTILE in block) == (where == "diff")
        for part in (prose, after):
            for mark in ("<img", "@all", "](http", "::error::|", "````"):
                assert mark not in part
        assert prose.count("<details>") == after.count("</details>") == 1


def test_many_long_suggestions_fit_a_comment():
    many = [found(prompt=f"p{n}", diff=DIFF + "+x" * 9 + "\n+long\n" * 5000) for n in range(9)]
    for text in both(*many):
        assert text.count("<details>") == 3
        assert text.count("- Suggested revision: ") == 6
        assert len(text) < 60_000
        assert cut_markdown(text) == text
