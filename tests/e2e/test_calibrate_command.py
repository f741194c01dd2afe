"""`regauge judges calibrate`: a judge that asks a model, compared with labels of people."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from tests.labelled import EVAL, RUBRIC, label, labels, told, write_labels

if TYPE_CHECKING:
    from tests.conftest import EvalProject
    from tests.fakes import Endpoint


def record_of(project: EvalProject, name: str = "tone") -> dict[str, Any]:
    path = project.root / "fixtures" / "labels" / f"{name}.calibration.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_judge_is_compared_with_people_and_replays(judged: EvalProject, endpoint: Endpoint):
    write_labels(judged, [*labels(right=16, wrong=0), label(40, "pass", "fail")])
    done = judged.command("judges", "calibrate", "tone")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == snapshot("""\
tone: local:clerk and fixtures/labels/tone.jsonl
  labelled          33 outputs
  base rate         0.52 pass; always choosing the most frequent label is right 0.52 of the time
  accuracy          0.97  [0.91, 1.00]
  Cohen's kappa     0.94  [0.81, 1.00]
  Spearman          0.94  [0.82, 1.00]
  Kendall tau-b     0.94  [0.82, 1.00]
  self-consistency  1.00 over 3 repeats

               judge: pass  fail
  label: pass           16     1
  label: fail            0    16

judge and labels disagree on 1 of 33:
  l40 (case disk-000)  fixtures/labels/tone.jsonl:33
    label:  pass, Ada: Because.
    judge:  fail (0.00): verdict fail: It is marked fail.

99 calls, 99 of them made now; 10.9k tokens, $0.0119
written: fixtures/labels/tone.calibration.json
blocking
""")
    assert endpoint.total == 99
    before = record_of(judged)
    assert before["calibrations"][0]["agreement"]["confusion"]["counts"] == [[16, 1], [0, 16]]
    assert before["calibrations"][0]["models"] == ["local:clerk"]

    again = judged.command("judges", "calibrate", "tone", "--record=none")
    expected = done.stdout.replace("99 of them", "0 of them").replace("written:", "unchanged:")
    assert again.stdout == expected
    assert endpoint.total == 99
    assert record_of(judged) == before

    judged.command("judges", "calibrate", "tone", "--record=all")
    assert endpoint.total == 198


def test_a_judge_that_agrees_too_little_fails(judged: EvalProject):
    done = judged.command("judges", "calibrate", "tone", "--repeats=1")
    assert done.returncode == 1
    assert "kappa     0.60  [" in done.stdout
    assert "advisory: kappa may be as low as 0.3" in done.stdout
    listed = judged.command("judges", "calibrate")
    assert "advisory  tone (local:clerk) on triage: kappa may be as low as 0.3" in listed.stdout
    advice = "fix: label more outputs or improve the judge, then regauge judges calibrate tone"
    assert advice in judged.command("doctor").stdout
    judged.settings(
        'judge_model = "local:clerk"\n[tool.regauge.calibration]\nfloor = 0.2\nmin_labels = 10'
    )
    assert (
        judged.command("judges", "calibrate", "tone", "--record=none", "--repeats=1").returncode
        == 0
    )
    listed = judged.command("judges", "calibrate")
    assert "blocking  tone (local:clerk) on triage: calibrated on 20" in listed.stdout


def test_too_few_labels_gate_nothing(judged: EvalProject):
    write_labels(judged, labels(right=10, wrong=0))
    done = judged.command("judges", "calibrate", "tone")
    assert done.returncode == 1
    assert "advisory: 20 labelled outputs were judged, 30 are needed" in done.stdout


@pytest.mark.parametrize(("right", "wrong", "kappa"), [(10, 10, 0.0), (0, 20, -1.0)])
def test_judges_at_chance_and_inverted_ones_inform(
    judged: EvalProject, right: int, wrong: int, kappa: float
):
    write_labels(judged, labels(right=right, wrong=wrong))
    done = judged.command("judges", "calibrate", "tone", "--repeats=1", "--json")
    document = json.loads(done.stdout)
    assert document["agreement"]["kappa"]["value"] == kappa
    assert document["agreement"]["accuracy"]["value"] == right / 20
    assert (document["blocking"], done.returncode) == (False, 1)
    assert sum(not row["agrees"] for row in document["verdicts"]) == 2 * wrong


def test_another_rubric_voids_the_record_and_lint_says_so(judged: EvalProject):
    write_labels(judged, labels(right=16, wrong=0))
    assert judged.command("judges", "calibrate", "tone").returncode == 0
    judged.write("prompts/judges/tone.prompt.yml", RUBRIC.replace("polite", "very polite"))
    listed = judged.command("judges", "calibrate").stdout
    assert listed == snapshot(
        "advisory  tone (local:clerk) on triage: its rubric or parameters changed since it was calibrated\n"
    )
    assert "judge 'tone' is advisory: its rubric or parameters changed" in (
        judged.command("lint").stdout
    )
    missing = judged.command("judges", "calibrate", "tone", "--record=none")
    assert (missing.returncode, missing.stderr) == snapshot(
        (
            3,
            """\
error: 96 judgements missing: no recorded response of local:clerk for judge 'tone'
  record it: regauge judges calibrate tone --record=missing
""",
        )
    )
    conflict = judged.write("fixtures/labels/tone.calibration.json", "<<<<<<< HEAD\n")
    damaged = (
        "tone.calibration.json: written by another version of regauge, or damaged: Invalid JSON"
    )
    assert damaged in judged.command("lint").stdout
    split = judged.command("judges", "calibrate", "tone", "--prune", "--split=train")
    assert split.returncode == 2
    assert split.stderr == (
        "error: --split would remove recordings of the other labels\n"
        "  fix: leave --split out of --prune\n"
    )
    assert judged.command("judges", "calibrate", "tone", "--prune").returncode == 0
    assert "HEAD" not in conflict.read_text(encoding="utf-8")
    assert "blocking  tone" in judged.command("judges", "calibrate").stdout
    assert len(judged.recordings("judges/calibration/tone")) == 96


def test_another_model_needs_a_calibration_of_its_own(judged: EvalProject, endpoint: Endpoint):
    write_labels(judged, labels(right=16, wrong=0))
    assert judged.command("judges", "calibrate", "tone").returncode == 0
    assert "it was calibrated with local:clerk, not with local:other" in (
        judged.command("judges", "calibrate", "--judge-model=local:other").stdout
    )
    assert (
        judged.command("judges", "calibrate", "tone", "--judge-model=local:other").returncode == 0
    )
    assert endpoint.models["other"] == 96
    assert "blocking  tone (local:other)" in (
        judged.command("judges", "calibrate", "--judge-model=local:other").stdout
    )
    models = [one["models"] for one in record_of(judged)["calibrations"]]
    assert models == [["local:clerk"], ["local:other"]]


def test_other_labels_void_the_record(judged: EvalProject):
    write_labels(judged, labels(right=16, wrong=0))
    judged.command("judges", "calibrate", "tone")
    write_labels(judged, labels(right=17, wrong=0))
    assert (
        "its labels changed since it was calibrated" in judged.command("judges", "calibrate").stdout
    )


def test_judges_may_share_labels(judged: EvalProject):
    judged.eval(EVAL.replace('rubric("tone")', 'rubric("tone").with_name("manners")'))
    write_labels(judged, labels(right=16, wrong=0))
    assert "no labels of judge 'manners'" in judged.command("judges", "calibrate", "manners").stderr
    done = judged.command("judges", "calibrate", "manners", "--labels=tone", "--repeats=1")
    assert done.returncode == 0
    assert record_of(judged, "manners")["calibrations"][0]["labels"]["judge"] == "tone"
    again = judged.command("judges", "calibrate", "manners", "--repeats=1", "--record=none")
    assert again.returncode == 0
    assert "fixtures/labels/tone.jsonl" in again.stdout


def test_a_judge_that_differs_from_itself_is_found_out(judged: EvalProject, endpoint: Endpoint):
    asked: Counter[str] = Counter()

    def moody(text: str) -> str:
        asked[text] += 1
        # One opinion of three on each answer is another one.
        word = {"pass": "fail", "fail": "pass"} if asked[text] == 2 else {}
        reply = json.loads(told(text))
        return json.dumps(reply | {"verdict": word.get(reply["verdict"], reply["verdict"])})

    endpoint.answer = moody
    document = json.loads(judged.command("judges", "calibrate", "tone", "--json").stdout)
    assert document["agreement"]["self_consistency"] == pytest.approx(1 / 3, abs=1e-4)


def test_replies_without_a_verdict_are_counted_and_shown(judged: EvalProject, endpoint: Endpoint):
    write_labels(
        judged,
        [*labels(right=16, wrong=0), label(40, "pass", "pass", output="silent pass")],
    )
    done = judged.command("judges", "calibrate", "tone", "--repeats=1")
    assert done.returncode == 0
    assert "33 outputs: 32 judged, 1 without a readable verdict" in done.stdout
    assert "no verdict on 1 of 33:\n  l40: " in done.stdout
    endpoint.answer = lambda _: "I would rather not say."
    none = judged.command("judges", "calibrate", "tone", "--repeats=1", "--record=all")
    assert none.returncode == 3
    assert "gave no verdict on any of 33 labels" in none.stderr


def test_what_cannot_be_asked_is_unmeasured_and_leaves_the_record(
    judged: EvalProject, endpoint: Endpoint
):
    write_labels(judged, labels(right=16, wrong=0))
    done = judged.command("judges", "calibrate", "tone", "--budget-usd=0.002")
    assert done.returncode == 3
    assert done.stderr.count("judgements missing: the budget of $0.002 is reached") == 1
    asked = endpoint.total
    assert 0 < asked < 96
    planned = judged.command("judges", "calibrate", "tone", "--dry-run").stdout
    assert planned == f"96 judgements: {asked} recorded, {96 - asked} to make\n"
    planned = judged.command("judges", "calibrate", "tone", "--dry-run", "--record=none").stdout
    assert planned == f"96 judgements: {asked} recorded, {96 - asked} missing\n"
    planned = judged.command("judges", "calibrate", "tone", "--dry-run", "--record=all").stdout
    assert planned == "96 judgements: 0 recorded, 96 to make\n"
    assert endpoint.total == asked
    assert not (judged.root / "fixtures" / "labels" / "tone.calibration.json").exists()
    assert judged.command("judges", "calibrate", "tone").returncode == 0
    assert endpoint.total == 96


def test_a_judge_that_breaks_or_hides_what_failed_is_no_unreadable_reply(judged: EvalProject):
    judged.eval(
        "from regauge import golden\nfrom regauge.errors import JudgeError, UnmeasuredError\n"
        "from regauge.providers import CompletionRequest\n\n"
        "class Odd:\n"
        "    name, digest, models = 'odd', 'd', ('local:clerk',)\n"
        "    async def judge(self, completion, case): raise NotImplementedError\n"
        "    async def judge_with(self, completion, case, calls):\n"
        "        if 'silent' in completion.text: return 1 / 0\n"
        "        request = CompletionRequest(model='clerk', provider='local', messages=(),"
        " parameters={}, trial=calls.trial)\n"
        "        try: await calls.complete(request)\n"
        "        except UnmeasuredError: raise JudgeError('no idea', judge='odd')\n\n"
        "@golden('triage', judges=[Odd()])\ndef test_triage(result):\n    result.check()\n"
    )
    rows = [*labels(right=1, wrong=0), label(9, "pass", "pass", output="silent")]
    write_labels(judged, rows, "odd")
    done = judged.command("judges", "calibrate", "odd", "--repeats=1", "--record=none")
    assert (done.returncode, judged.plain(done.stderr)) == snapshot(
        (
            3,
            """\
error: 2 judgements missing: no recorded response of local:clerk for judge 'odd'
  record it: regauge judges calibrate odd --record=missing
1 judgement missing: judge odd broke: ZeroDivisionError: division by zero
  at evals/test_triage.py:9
""",
        )
    )


def test_pairs_are_judged_in_both_orders(judged: EvalProject):
    judged.eval(
        "from regauge import golden\n"
        "from dataclasses import dataclass\n\n"
        "@dataclass\n"
        "class Compared:\n"
        "    winners: tuple\n"
        "    reason: str = 'It says so.'\n\n"
        "class Longer:\n"
        "    name, digest, models = 'longer', 'd', ('sim:none',)\n"
        "    async def judge(self, completion, case): raise NotImplementedError\n"
        "    async def judge_with(self, completion, case, calls): raise NotImplementedError\n"
        "    async def compare(self, a, b, case, calls):\n"
        "        if len(a) == len(b): return Compared(('a', 'b'))  # whichever is shown first\n"
        "        winner = 'a' if len(a) > len(b) else 'b'\n"
        "        return Compared((winner, winner))\n\n"
        "@golden('triage', judges=[Longer()])\n"
        "def test_triage(result):\n    result.check()\n"
    )
    pair = {"case": "disk-000", "author": "Ada"}
    rows = [
        {"id": "p1", "a": "long one", "b": "short", "label": "a", **pair},
        {"id": "p2", "a": "short", "b": "long one", "label": "a", **pair},
        {"id": "p3", "a": "same", "b": "size", "label": "b", **pair},
    ]
    write_labels(judged, rows, "longer")
    done = judged.command("judges", "calibrate", "longer", "--repeats=1")
    assert done.returncode == 1
    assert done.stdout == snapshot("""\
longer: sim:none (simulated) and fixtures/labels/longer.jsonl
  labelled          3 pairs
  base rate         0.67 prefer a; always choosing the most frequent label is right 0.67 of the time
  accuracy          0.50  [0.00, 1.00]
  Cohen's kappa     0.00  [-0.50, 0.57]
  position flips    1 of 3 pairs: 1 for the output shown first, 0 for the one shown second

            judge: a  b
  label: a         2  2
  label: b         1  1

judge and labels disagree on 2 of 3:
  p2 (case disk-000)  fixtures/labels/longer.jsonl:2
    label:  a, Ada
    judge:  b and, exchanged, b: It says so.
  p3 (case disk-000)  fixtures/labels/longer.jsonl:3
    label:  b, Ada
    judge:  a and, exchanged, b: It says so.

0 calls, 0 of them made now; 0 tokens, $0
written: fixtures/labels/longer.calibration.json
advisory: 3 labelled outputs were judged, 30 are needed
""")


def test_mistakes_are_said_with_what_to_do(judged: EvalProject):
    def fails(*arguments: str) -> str:
        done = judged.command("judges", "calibrate", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        return judged.plain(done.stderr)

    assert fails("tune") == snapshot("""\
error: there is no judge 'tune'; the evals have these LLM judges: tone
  fix: did you mean 'tone'?
""")
    assert fails("field_equals(severity)") == snapshot("""\
error: 'field_equals(severity)' is a rule, which needs no labels
  fix: name an LLM judge of the evals: tone
""")
    write_labels(judged, [label(1, "pass", "pass", case="disk-9")])
    assert fails("tone") == snapshot("""\
error: fixtures/labels/tone.jsonl:1: there is no golden case 'disk-9'
  fix: name its dataset (--dataset NAME), or give the label its own `inputs`
""")
    assert fails("tone", "--dataset=nothing") == snapshot("""\
error: fixtures/golden: no dataset is called 'nothing'
  fix: write fixtures/golden/nothing.jsonl, or use one of: triage
""")
    write_labels(judged, [label(1, "pass", "pass", split="holdout")])
    assert fails("tone", "--split=train") == snapshot(
        "error: no label is of split 'train'; there are: holdout\n"
    )
    judged.eval(EVAL.replace('rubric("tone")', 'rubric("tone", model="local:fixed")'))
    assert fails("tone", "--judge-model=local:other") == snapshot("""\
error: judge 'tone' names its model itself: local:fixed
  fix: change it where the judge is declared, or leave --judge-model out
""")
    (judged.root / "fixtures" / "labels" / "tone.jsonl").unlink()
    assert fails("tone") == snapshot("""\
error: fixtures/labels/tone.jsonl: no labels of judge 'tone'
  fix: regauge judges calibrate tone --from-run latest lists outputs to label; or write one label a line: {"id": ..., "case": ..., "output": ..., "label": "pass", "author": ..., "reason": ...}
""")


def test_a_rubric_that_no_eval_uses_can_be_calibrated(judged: EvalProject):
    judged.eval(EVAL.replace(', rubric("tone")', ""))
    write_labels(judged, labels(right=16, wrong=0))
    assert (
        "there is no golden case 'disk-000'" in judged.command("judges", "calibrate", "tone").stderr
    )
    assert judged.command("judges", "calibrate", "tone", "--dataset=triage").returncode == 0
    assert judged.command("judges", "calibrate").stdout == snapshot(
        "advisory  tone: no eval has a judge of this name\n"
    )


def test_only_labels_of_a_split_write_no_record(judged: EvalProject):
    rows = [{**row, "split": "train"} for row in labels(right=2, wrong=0)]
    write_labels(judged, rows)
    done = judged.command("judges", "calibrate", "tone", "--split=train", "--repeats=1")
    assert done.returncode == 1
    assert "written" not in done.stdout
    assert not (judged.root / "fixtures" / "labels" / "tone.calibration.json").exists()


def test_two_judges_of_one_name_are_not_confused(judged: EvalProject):
    other = EVAL.replace('rubric("tone")', 'rubric("tone", votes=3)')
    judged.eval(other.replace("test_triage", "test_again"), name="test_again")
    listed = json.loads(judged.command("judges", "calibrate", "--json").stdout)
    assert [(row["judge"], row["blocking"]) for row in listed] == [("tone", False)] * 2
    refused = judged.command("judges", "calibrate", "tone")
    assert (refused.returncode, refused.stderr) == snapshot(
        (
            2,
            """\
error: evals of triage declare two different judges that are called 'tone'
  fix: give one a name of its own with .with_name(...)
""",
        )
    )


def test_a_run_gives_the_outputs_to_label(judged: EvalProject):
    """Blind: the file shows no verdict. What is there already is kept, and added once."""
    judged.run()
    file = judged.root / "fixtures" / "labels" / "tone.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    own = json.dumps(label(1, "pass", "pass"))
    file.write_text(own, encoding="utf-8")
    dry = judged.command("judges", "calibrate", "tone", "--from-run=latest", "--dry-run")
    assert "would add 5 outputs to fixtures/labels/tone.jsonl" in dry.stdout
    assert file.read_text(encoding="utf-8") == own
    done = judged.command("judges", "calibrate", "tone", "--from-run=latest")
    assert done.stdout.startswith("added 5 outputs to fixtures/labels/tone.jsonl\n")
    first, *added = file.read_text(encoding="utf-8").splitlines()
    assert first == own
    lines = [json.loads(line) for line in added]
    assert {line["case"] for line in lines} == {f"disk-00{n}" for n in range(5)}
    assert {(line["label"], line["author"], line["reason"]) for line in lines} == {("", "", "")}
    assert {line["output"] for line in lines} == {row["output"] for row in judged.rows()}
    again = judged.command("judges", "calibrate", "tone", "--from-run=latest")
    assert again.stdout.startswith("added 0 outputs")
    unlabelled = judged.command("judges", "calibrate", "tone", "--dry-run")
    assert unlabelled.stdout.startswith("3 judgements: 0 recorded, 3 to make")
    file.write_text("\n".join(added), encoding="utf-8")
    refused = judged.command("judges", "calibrate", "tone")
    assert refused.returncode == 2
    assert "no line has a label yet\n  fix: write pass or fail" in refused.stderr
