"""What makes a case pass, fail or stay unmeasured, and what a reader is told."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def test_judges_decide_where_the_body_does_not_ask_them(project: EvalProject):
    project.golden([project.case(0), project.case(1, ok=False)])
    project.judged_by(
        "agrees", more="def agrees(output, case): return case.expected['ok']", body="pass"
    )
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "agrees returned false" in result.stdout.str()


def test_an_assertion_of_the_body_is_absolute(project: EvalProject):
    project.golden([project.case(0, tier="tracked")])
    project.judged_by("min_chars(1)", body="assert result.case.id == 'other'")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert result.case.id == 'other'", "E *AssertionError*"])


def test_a_failed_case_says_everything_needed_to_act(live: EvalProject):
    live.golden([live.case(0, expected={"severity": "none"})])
    live.judged_by("json_parses(), field_equals('severity')")
    result = live.run()
    result.assert_outcomes(failed=1)
    said = live.plain(result.stdout.str())
    end = said.index("= short test summary info =")
    shown = said[said.index("triage@1.0.0 (") : end].splitlines()[:-1]
    assert "\n".join(shown) == snapshot("""\
triage@1.0.0 (DIGEST) · case disk-000 · failed · fixtures/golden/triage.jsonl:1
  ✗ field_equals(severity): severity is 'critical', not 'none'
      expected: none
      actual:   critical
  ✓ json_parses
  output (clerk, live):
    {"severity": "critical", "reason": "it says so itself"}
  again: pytest 'evals/test_triage.py::test_triage[disk-000]'\
""")
    listed = said.index("FAILED evals/test_triage.py::test_triage[disk-000] - field_equals(seve")
    assert listed < said.index("= regauge =")  # the table is last


@pytest.mark.parametrize(
    ("parameters", "judge", "words"),
    [
        ("maxTokens: 3", "min_chars(1)", "cut off: 5 passed outputs of triage; raise maxTokens"),
        ('stop: ["}"]', "json_parses()", "finish reason: stop, cut off at stop ['}']"),
    ],
)
def test_outputs_that_end_at_a_limit_are_named(
    project: EvalProject, parameters: str, judge: str, words: str
):
    prompt = project.prompt()
    project.judged_by(judge)
    assert words not in str(project.run().stdout)
    prompt.write_text(
        prompt.read_text().replace("messages:", f"modelParameters: {{{parameters}}}\nmessages:")
    )
    assert words in str(project.run().stdout)


def test_the_markdown_report_names_outputs_that_end_at_the_token_limit(project: EvalProject):
    prompt = project.prompt()
    text = prompt.read_text()
    project.judged_by("min_chars(1)")
    project.run()
    assert "cut off" not in project.command("report", "latest").stdout
    prompt.write_text(text.replace("messages:", "modelParameters: {maxTokens: 3}\nmessages:"))
    project.run()
    report = project.command("report", "latest").stdout
    assert "- cut off: 5 passed outputs of triage; raise maxTokens\n" in report
    project.judged_by("min_chars(900)")
    project.run()
    failed = project.command("report", "latest").stdout
    assert failed.count("| cut off at the token limit; ") == 5


def test_plain_functions_judge_by_truth_by_score_or_by_verdict(project: EvalProject):
    project.golden([project.case(0)])
    project.judged_by(
        "yes, half, word",
        more=(
            "def yes(output, case):\n    return True\n"
            "def half(output, case):\n    return 0.5\n"
            "def word(output, case):\n"
            "    return Verdict(outcome='pass', score=0.75, reason='as it should be')"
        ),
    )
    project.run().assert_outcomes(passed=1)
    (row,) = project.rows()
    assert [
        (one["judge"], one["outcome"], one["score"], one["reason"]) for one in row["verdicts"]
    ] == snapshot(
        [
            ("yes", "pass", 1.0, "yes returned true"),
            ("half", "pass", 0.5, "half returned 0.5, 0.5 wanted"),
            ("word", "pass", 0.75, "as it should be"),
        ]
    )


def test_a_judge_that_breaks_leaves_the_case_unmeasured(project: EvalProject):
    project.judged_by("breaks", more="def breaks(output, case):\n    return 1 / 0")
    result = project.run()
    assert result.ret == 1
    assert result.parseoutcomes() == {"unmeasured": 5}
    said = project.complaint(result)
    assert said == snapshot("""\
unmeasured: 5 cases of triage (JudgeError)
  disk-000, disk-001, disk-002, disk-003, disk-004
  breaks raised ZeroDivisionError on case 'disk-000': division by zero
    at evals/test_triage.py:4: return 1 / 0\
""")
    (traced,) = re.findall(r"Traceback .*\n(?:  .*\n)+", project.run("--tb=short").stdout.str())
    assert [line.strip() for line in traced.splitlines()[1:]][:2] == [
        'File "evals/test_triage.py", line 4, in breaks',
        "return 1 / 0",
    ]
    (suite,) = project.records()[0]["evals"]
    assert (suite["unmeasured"], suite["failed"], suite["passed"]) == (5, 0, 0)
    # The answers were paid for, so they are kept.
    assert len(project.recordings()) == 5


def test_an_async_judge_that_breaks_leaves_the_case_unmeasured(project: EvalProject):
    project.golden([project.case(0)])
    project.judged_by(
        "Broken()",
        more=(
            "class Broken:\n    name = 'broken'\n    digest = 'd'\n"
            "    async def judge(self, completion, case):\n        raise KeyError('gone')\n"
        ),
    )
    result = project.run()
    assert result.parseoutcomes() == {"unmeasured": 1}
    assert "judge broken broke: KeyError: 'gone'" in result.stdout.str()


ODD_FUNCTION = "def odd(output, case):\n    if True:\n"
ODD_CLASS = (
    "class Odd:\n    name = 'odd'\n    digest = 'd'\n    async def judge(self, completion, case):\n"
)


@pytest.mark.parametrize(
    ("judge", "head"),
    [("odd", ODD_FUNCTION), ("Odd()", ODD_CLASS)],
    ids=["function", "class"],
)
def test_a_verdict_with_values_that_make_no_sense_names_its_place(
    project: EvalProject, judge: str, head: str
):
    rows = [
        ("outcome='pass', score=float('nan')", "the score is nan, not a number from 0 to 1"),
        ("outcome='pass', score=7.0", "the score is 7.0, not a number from 0 to 1"),
        ("outcome='pass', score=-0.5", "the score is -0.5, not a number from 0 to 1"),
        ("outcome='pass', score='1'", "the score is '1', not a number from 0 to 1"),
        ("outcome='great', score=1", "the outcome is 'great', not 'pass', 'fail' or 'abstain'"),
        ("outcome='pass', score=1, cost_usd=-1", "the cost is -1, not an amount in US dollars"),
    ]
    (project.root / "evals/test_triage.py").unlink()
    project.golden([project.case(0)])
    for number, (values, _) in enumerate(rows):
        project.judged_by(
            judge,
            more=f"{head}        return Verdict({values}, reason='odd')\n",
            name=f"test_{number}",
        )
    result = project.run()
    assert result.parseoutcomes() == {"unmeasured": len(rows)}
    said = project.complaint(result)
    for number, (_, problem) in enumerate(rows):
        assert re.search(rf"odd.*{re.escape(problem)}.*\n.*evals/test_{number}\.py:", said), problem


CONNECTS = """\
import asyncio, socket, threading, urllib.request
PORT = {port}

def connects(output, case):
    socket.create_connection(("127.0.0.1", PORT)).close()
    return True

def hides_it(output, case):
    try:
        urllib.request.urlopen(f"http://localhost:{{PORT}}", timeout=1)
    except Exception:
        pass
    return True

async def awaits(output):
    _, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.close()
    return True

def sends(output, case):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendto(b"x", ("127.0.0.1", PORT))
    return True

def looks_up(output, case):
    socket.getaddrinfo("localhost", PORT)
    return True

def stays(output, case):
    a, b = socket.socketpair()
    a.close(), b.close()
    return True
"""


@pytest.mark.parametrize(
    "judge", ["connects", "hides_it", "awaits", "sends", "looks_up", "~as_judge(connects)"]
)
def test_a_function_that_opens_a_connection_is_unmeasured_in_a_replay(
    live: EvalProject, endpoint: Endpoint, judge: str
):
    port = int(endpoint.base_url.split(":")[2].partition("/")[0])
    live.golden([live.case(0)])
    live.run()
    live.judged_by(
        f"min_chars(1), {judge}",
        more="from regauge.judges import as_judge\n" + CONNECTS.format(port=port),
    )
    result = live.run("--record=none")
    assert result.parseoutcomes() == {"unmeasured": 1}
    said = result.stdout.str()
    assert "opens a connection to " in said
    assert f"{port}, and a run with --record=none opens none" in said


def test_only_the_function_is_kept_off_the_network(live: EvalProject, endpoint: Endpoint):
    """Neither what runs next to it nor what comes after it is."""
    port = int(endpoint.base_url.split(":")[2].partition("/")[0])
    live.golden([live.case(0)])
    live.judged_by("min_chars(1)")
    live.run()
    live.eval(
        "from regauge import golden\n" + CONNECTS.format(port=port) + "\n"
        "BEFORE = dict(vars(socket.socket)), dict(vars(socket))\n"
        "def dial():\n    socket.create_connection(('127.0.0.1', PORT)).close()\n"
        "def beside(output, case):\n"
        "    failed = []\n"
        "    def run():\n"
        "        try:\n            dial()\n"
        "        except Exception as error:\n            failed.append(error)\n"
        "    thread = threading.Thread(target=run)\n    thread.start()\n    thread.join()\n"
        "    return not failed\n\n"
        "@golden('triage', judges=[stays, beside])\n"
        "def test_triage(result):\n    result.check()\n    dial()\n"
        "    assert (dict(vars(socket.socket)), dict(vars(socket))) == BEFORE\n"
    )
    live.run("--record=none").assert_outcomes(passed=1)


def test_judges_without_an_opinion_leave_the_case_unmeasured(project: EvalProject):
    project.golden([project.case(0)])
    more = (
        "def shrugs(output, case):\n"
        "    return Verdict(outcome='abstain', score=0.0, reason='cannot tell')\n"
    )
    project.judged_by("shrugs", more=more)
    result = project.run()
    assert result.parseoutcomes() == {"unmeasured": 1}
    assert "every judge abstained: shrugs" in result.stdout.str()

    project.judged_by("shrugs, min_chars(1)", more=more)
    project.run().assert_outcomes(passed=1)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "two workers"])
def test_a_tracked_case_informs_and_does_not_block(project: EvalProject, workers):
    project.golden([project.case(0), project.case(1, ok=False, tier="tracked")])
    result = project.run("-rx", *workers)
    assert result.ret == 0
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(["XFAIL *disk-001* - tracked case: agrees: agrees returned false"])
    (suite,) = project.records()[0]["evals"]
    assert (suite["passed"], suite["failed"], suite["tracked_failed"]) == (1, 0, 1)


def test_an_unmeasured_case_blocks_whatever_its_tier_and_marks(project: EvalProject):
    project.golden([project.case(0, tier="tracked")])
    assert project.run("--record=none").parseoutcomes() == {"unmeasured": 1}
    project.eval(
        "import pytest\nfrom regauge import golden\nfrom regauge.judges import min_chars\n\n"
        "@pytest.mark.xfail(reason='not good yet', strict=False)\n"
        "@golden('triage', judges=[min_chars(1)])\ndef test_triage(result):\n    result.check()\n"
    )
    result = project.run("--record=none")
    assert result.parseoutcomes() == {"unmeasured": 1}
    assert result.ret == 1


@pytest.mark.parametrize(("pass_rate", "outcome"), [(0.5, "passed"), (0.6, "failed")])
def test_a_share_of_the_trials_must_pass(project: EvalProject, pass_rate: float, outcome: str):
    project.golden([project.case(0)])
    project.judged_by(
        "every_other",
        options=f", pass_rate={pass_rate}",
        more=(
            "import itertools\nturn = itertools.count()\n"
            "def every_other(output, case):\n    return next(turn) % 2 == 0\n"
        ),
    )
    result = project.run("--trials=4")
    assert result.parseoutcomes() == {outcome: 1}
    assert [row["outcome"] for row in project.rows()] == ["passed", "failed"] * 2
    assert [line["trial"] for line in project.recordings()] == [0, 1, 2, 3]
    if outcome == "failed":
        assert "passed 2 of 4 trials, 3 needed" in result.stdout.str()
        assert "✗ every_other in 2 of 4 trials" in result.stdout.str()


def test_mistakes_in_an_eval_are_said_without_a_traceback(project: EvalProject):
    project.eval("def test_plain(result):\n    result.check()\n", name="test_a_no_golden")
    project.judged_by("")
    result = project.run("--continue-on-collection-errors")
    assert result.ret == 1
    assert project.complaint(result) == snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py:5: the eval has no judges, so nothing would be measured
  fix: give golden(..., judges=[...]) at least one, or give the golden cases `checks`
ERROR at setup of test_plain
evals/test_a_no_golden.py::test_plain uses `result` but is not an eval
  fix: decorate it with @golden("<prompt>", judges=[...])
ERROR evals/test_triage.py - evals/test_triage.py:5: the eval has no judges, so nothing would be measured
ERROR evals/test_a_no_golden.py::test_plain - Failed: evals/test_a_no_golden.py::test_plain uses `result` but is not an eval\
""")


@pytest.mark.parametrize(
    ("eval_", "words"),
    [
        (
            "@golden('triage', judges=[min_chars(1), min_chars(1)])\ndef test_a(result): pass",
            snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py:4: two judges are called 'min_chars(1)', and their verdicts could not be distinguished
  fix: remove one, or give it a name of its own with .with_name(...)
ERROR evals/test_triage.py - evals/test_triage.py:4: two judges are called 'min_chars(1)', and their verdicts could not be distinguished\
"""),
        ),
        (
            "@golden('triage', judges=[min_chars(1)])\ndef test_a(): pass",
            snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py::test_a: an eval takes the argument `result`
  fix: def test_a(result): result.check()
ERROR evals/test_triage.py\
"""),
        ),
        (
            "@golden('triage', judges=[min_chars(1)], pass_rate=0)\ndef test_a(result): pass",
            snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py:4: pass_rate must be above 0 and at most 1, not 0
ERROR evals/test_triage.py - evals/test_triage.py:4: pass_rate must be above 0 and at most 1, not 0\
"""),
        ),
        (
            "@golden('triage', judges=[min_chars(1)], trials=0)\ndef test_a(result): pass",
            snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py:4: trials must be from 1 to 10000, not 0
ERROR evals/test_triage.py - evals/test_triage.py:4: trials must be from 1 to 10000, not 0\
"""),
        ),
        (
            "@golden('triage', judges=[7])\ndef test_a(result): pass",
            snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py:4: 7 is not a judge
  fix: give a judge of regauge.judges, such as max_words(40), or a function (output, case) -> bool | float | Verdict
ERROR evals/test_triage.py - evals/test_triage.py:4: 7 is not a judge\
"""),
        ),
        (
            "@golden('triage', judges=['min_chars'])\ndef test_a(result): pass",
            snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py:4: min_chars: missing a required argument: 'n'
  it takes min_chars(n, *, field=None)
ERROR evals/test_triage.py - evals/test_triage.py:4: min_chars: missing a required argument: 'n'\
"""),
        ),
        (
            "@golden('triage', judges=[min_chars])\ndef test_a(result): pass",
            snapshot("""\
ERROR collecting evals/test_triage.py
evals/test_triage.py:4: min_chars makes a judge, it is none itself
  fix: call it: min_chars(n, *, field=None)
ERROR evals/test_triage.py - evals/test_triage.py:4: min_chars makes a judge, it is none itself\
"""),
        ),
    ],
    ids=[
        "judges of one name",
        "no result",
        "pass_rate",
        "trials",
        "no judge",
        "name of a judge",
        "not called",
    ],
)
def test_an_eval_that_makes_no_sense_is_refused(project: EvalProject, eval_: str, words: str):
    project.eval(f"from regauge import golden\nfrom regauge.judges import min_chars\n\n{eval_}\n")
    result = project.run()
    assert result.ret == 2
    assert project.complaint(result) == words


def test_many_failures_are_grouped_by_judge_and_failure_mode(project: EvalProject):
    """Up to 20 failures are shown as a whole, and so is each with -v."""
    labels = ["none"] * 20 + ["low"] * 10
    cases = [project.case(n, expected={"severity": label}) for n, label in enumerate(labels)]
    right = project.case(30, expected={"severity": "critical"})
    project.golden([*cases, right])
    project.judged_by("labels", more=LABELS)
    result = project.run()
    result.assert_outcomes(failed=30, passed=1)
    assert project.complaint(result) == snapshot("""\
triage 1.0.0: 30 of 31 cases FAILED on labels, expected -> output:
  none -> critical  20  disk-000, disk-001 and 18 more
  low -> critical  10  disk-020, disk-021 and 8 more
re-run: pytest --lf     all: pytest -v     page: regauge report -o report.html\
""")
    assert "FAILED" not in result.stdout.str().partition("= regauge =")[0]
    whole = project.run("-v").stdout.str()
    assert whole.count("again: pytest ") == 30
    project.golden([*cases[10:], right])
    assert project.run("-q").stdout.str().count("again: pytest ") == 20


LABELS = """
def labels(output, case):
    expected = case.expected["severity"]
    passes = expected == "critical"
    return Verdict(outcome="pass" if passes else "fail", score=float(passes), reason="another label",
                   expected=expected, actual="critical", details={"code": "wrong_label"})
"""


def test_the_schema_of_the_prompt_is_the_deerror(project: EvalProject):
    """A case's own check takes it, too; a prompt without a schema is refused with the fix."""
    project.judged_by("json_matches_schema()")
    refused = project.run()
    assert "json_matches_schema() has no schema: triage has no `jsonSchema`" in refused.stdout.str()
    assert "fix: add `responseFormat: json_schema` and `jsonSchema`" in refused.stdout.str()
    schema = {"type": "object", "properties": {"severity": {"enum": ["low"]}}}
    file = project.root / "prompts" / "triage.prompt.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        f"{text.rstrip()}\nresponseFormat: json_schema\njsonSchema: {json.dumps(schema)}\n",
        encoding="utf-8",
    )
    project.golden([project.case(0, checks=["json_matches_schema"])])
    project.run().assert_outcomes(failed=1)
    (row,) = project.rows()
    reasons = [one["reason"] for one in row["verdicts"]]
    assert len(reasons) == 2
    assert all(
        "is not one of ['low']" in reason or "'low' was expected" in reason for reason in reasons
    )
    project.judged_by(f"json_matches_schema({schema!r})")
    project.run()
    # The digest is that of the rule with the schema written out.
    digests = {one["judge_digest"] for one in project.rows()[-1]["verdicts"]}
    assert {one["judge_digest"] for one in row["verdicts"]} == digests


def test_errors_of_a_template_are_grouped_and_point_at_it(project: EvalProject):
    project.prompt(user="Rate this: {{ text | upper }}")
    assert project.complaint(project.run()) == snapshot("""\
unmeasured: 5 cases of triage (RenderError)
  disk-000, disk-001, disk-002, disk-003, disk-004
  prompts/triage.prompt.yml:8: {{ text | upper }} is plain text: a template has no filters or conditions (case at fixtures/golden/triage.jsonl:1)
    fix: write {{text}}, and change the value in the golden cases\
""")
