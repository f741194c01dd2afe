"""Baselines on disk: the same bytes every time, a line for every fault."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from regauge.evidence import Count
from regauge.gate._types import TrialFacts
from regauge.gate.baselines import (
    Baseline,
    BaselineError,
    BaselineKey,
    Session,
    StoredBaseline,
    StoredTrials,
    baseline_of,
    baseline_text,
    load_baseline,
    numbers_of,
    older_names,
    parse_baseline,
    ranges_text,
    save_baseline,
)
from regauge.project import Project

SHOWN = Path("fixtures/baselines/greet.json")
KEY = BaselineKey(
    prompt="a" * 64,
    model="sim:clerk-1",
    parameters={"temperature": 0.7, "max_tokens": 40},
    dataset="greet",
    judges={"tone": "b" * 64, "length": "c" * 64},
)


def facts(*, length: bool | None = True, tone: bool | None = True, score: float = 1.0, answer="0"):
    return TrialFacts(
        checks={"length": length, "tone": tone}, scores={"tone": score}, output_digest=answer * 64
    )


def small() -> Baseline:
    ann = StoredTrials(digest="1" * 16)
    for number in range(100, 104):
        ann = ann.add(number, facts())
    bob = StoredTrials(digest="2" * 16)
    bob = bob.add(100, facts(tone=False, score=0.4)).add(102, facts(tone=None, answer="1"))
    bob = bob.add(103, facts(length=False, score=0.9))
    history = StoredBaseline(
        key=KEY,
        version="1.0.0",
        sessions=(
            Session(id="2026-11-20T09:00:00Z", first=100, last=101, models=("clerk-1 sim-3",)),
            Session(id="2026-11-21T09:00:00Z", first=102, last=103),
        ),
        cases={"bob": bob, "ann": ann},
    )
    return Baseline(prompt="greet", baselines=(history,))


def test_a_file_has_one_sorted_line_for_each_case_and_names_only_what_went_wrong():
    assert baseline_text(small()) == snapshot("""\
{
  "schema_version": 1,
  "prompt": "greet",
  "baselines": [
    {
      "prompt_digest": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      "version": "1.0.0",
      "model": "sim:clerk-1",
      "parameters": {
        "max_tokens": 40,
        "temperature": 0.7
      },
      "dataset": "greet",
      "judges": {
        "length": "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
        "tone": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
      },
      "sessions": [
        {"id": "2026-11-20T09:00:00Z", "trials": "100-101", "models": ["clerk-1 sim-3"]},
        {"id": "2026-11-21T09:00:00Z", "trials": "102-103"}
      ],
      "cases": {
        "ann": {"digest": "1111111111111111", "trials": 4, "passed": 4, "numbers": "100-103", "outputs": ["00000000"]},
        "bob": {"digest": "2222222222222222", "trials": 3, "passed": 1, "numbers": "100,102-103", "outputs": ["00000000", "11111111"], "failed": {"length": 1, "tone": 1}, "abstained": {"tone": 1}, "scores": {"tone": [0.4, 0.9]}}
      }
    }
  ],
  "previous": []
}
""")


def test_what_was_written_is_read():
    text = baseline_text(small())
    read = parse_baseline(text.encode(), place=SHOWN)
    assert read == small()
    assert baseline_text(read) == text


def test_a_history_counts_trials_checks_scores_sessions_and_answers():
    (stored,) = small().baselines
    history = stored.find_trials("bob", "2" * 64)
    assert history is not None
    assert history.total == Count(passed=1, trials=3)
    assert history.checks == {
        "length": Count(passed=2, trials=3),
        "tone": Count(passed=1, trials=2),
    }
    assert history.scores == {"tone": (0.4, 0.9)}
    assert history.sessions == ("2026-11-20T09:00:00Z", "2026-11-21T09:00:00Z")
    assert history.distinct_outputs == 2


def test_trials_of_an_older_state_of_a_case_do_not_count():
    (stored,) = small().baselines
    assert stored.find_trials("bob", "3" * 64) is None
    assert stored.find_trials("cy", "3" * 64) is None


def test_a_trial_counts_once():
    case = StoredTrials(digest="1" * 16).add(100, facts())
    assert case.add(100, facts(length=False)) == case


def test_a_trial_that_no_judge_has_an_opinion_of_is_neither_a_pass_nor_a_failure():
    """The gate does not count such a trial of the candidate either."""
    case = StoredTrials(digest="2" * 16).add(100, facts()).add(101, facts(length=None, tone=None))
    history = StoredBaseline(key=KEY, cases={"bob": case}).find_trials("bob", "2" * 64)
    assert history is not None
    assert history.total == Count(passed=1, trials=1)
    assert set(history.checks.values()) == {Count(passed=1, trials=1)}
    assert case.numbers == (100, 101)


def test_keys_tell_in_what_they_differ():
    other = BaselineKey(
        prompt="a" * 64,
        model="openai:gpt-5-mini",
        parameters=KEY.parameters,
        dataset="greet",
        judges={"tone": "d" * 64, "form": "e" * 64},
    )
    assert [str(part) for part in KEY.differences(other)] == snapshot(
        [
            "model: sim:clerk-1 then, openai:gpt-5-mini now",
            "judge 'form' is new",
            "judge 'length' is gone",
            "judge 'tone': bbbbbbbbbbbb then, dddddddddddd now",
        ]
    )
    assert KEY.differences(KEY) == ()
    hotter = replace(KEY, parameters={**KEY.parameters, "temperature": 2})
    (difference,) = KEY.differences(hotter)
    assert str(difference).startswith("parameters: ")
    assert "'temperature': 2" in str(difference)


def test_saving_writes_only_what_differs(tmp_path: Path):
    path = tmp_path / "baselines" / "greet.json"
    assert load_baseline(path, place=SHOWN) is None
    assert save_baseline(path, small())
    assert not save_baseline(path, small())
    assert load_baseline(path, place=SHOWN) == small()


def broken(edit: Any) -> str:
    document = json.loads(baseline_text(small()))
    edit(document["baselines"][0])
    text = json.dumps(document, indent=1)
    with pytest.raises(BaselineError) as caught:
        parse_baseline(text.encode(), place=SHOWN)
    lines = text.splitlines()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.line is not None
    return f"{lines[diagnostic.line - 1].strip()} -> {diagnostic.message}"


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda h: h["cases"]["bob"].update(trials=4), "trials is 4, but 3 numbers are listed"),
        (lambda h: h["cases"]["bob"].update(passed=5), "5 of 3 trials cannot have passed"),
        (
            lambda h: h["cases"]["bob"].update(passed=3),
            "a trial that a judge failed has not passed",
        ),
        (lambda h: h["cases"]["bob"].update(silent=4), "4 of 3 trials cannot be without"),
        (lambda h: h["cases"]["bob"].update(numbers="100,x"), "are not trial numbers"),
        (lambda h: h["cases"]["bob"].update(numbers="103,100-101"), "do not rise"),
        (lambda h: h["cases"]["bob"].update(word=1), "`baselines.0.cases.bob.word` is unknown"),
        (lambda h: h["cases"]["bob"]["scores"].update(tone=[0.4]), "not one score for each trial"),
        (lambda h: h["cases"]["bob"]["scores"].update(tone=[0.4, 2]), "between 0 and 1"),
        (lambda h: h["cases"]["bob"]["failed"].update(tone=9), "more often than it judged"),
    ],
)
def test_a_case_that_does_not_add_up_is_an_error_on_its_line(edit: Any, told: str):
    message = broken(edit)
    assert '"bob": {' in message or "bob" in message
    assert told in message


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda h: h["cases"]["bob"].update(trials="3"), "valid integer"),
        (lambda h: h["cases"]["bob"].update(trials=True), "valid integer"),
        (lambda h: h["cases"]["bob"].update(passed="2"), "valid integer"),
        (lambda h: h["cases"]["bob"].update(passed=-1), "-1 of 3 trials cannot have passed"),
        (lambda h: h["cases"]["bob"].update(silent=-1), "-1 of 3 trials cannot be without"),
        (lambda h: h["cases"]["bob"]["failed"].update(tone=-1), "more often than it judged"),
        (lambda h: h["cases"]["bob"].update(abstained={"tone": -1}), "more often than it judged"),
        (lambda h: h["cases"]["bob"]["scores"].update(tone=[0.4, -0.1]), "between 0 and 1"),
        (lambda h: h["cases"]["bob"].update(outputs="ab"), "valid list"),
        (lambda h: h["cases"]["bob"].update(digest="ab"), "String should match pattern"),
        (lambda h: h["sessions"][0].update(trials=100), "valid string"),
        (lambda h: h["sessions"][0].update(models=[1]), "valid string"),
        (lambda h: h["judges"].update(tone=1), "valid string"),
        (lambda h: h.update(version=1), "valid string"),
        (lambda h: h.update(prompt_digest="A" * 64), "String should match pattern"),
        (lambda h: h.update(rules={"tone": "1"}), "valid integer"),
    ],
)
def test_a_value_of_another_type_or_below_its_least_is_an_error(edit: Any, told: str):
    assert told in broken(edit)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda h: h["cases"]["bob"].update(numbers="100,103,108"), "trials of no session"),
        (lambda h: h["cases"]["bob"]["failed"].update(odd=1), "names 'odd', which is not a judge"),
        (lambda h: h["cases"]["bob"].update(silent=1), "1 silent trials, and a judge spoke"),
        (lambda h: h["sessions"][1].update(trials="101-103"), "do not follow those before"),
        (lambda h: h["sessions"][1].update(trials="1000-1003"), "from 100 to 999"),
        (lambda h: h["sessions"][0].update(id="monday"), "String should match pattern"),
    ],
)
def test_sessions_and_cases_that_contradict_each_other_are_errors(edit: Any, told: str):
    assert told in broken(edit)


def complaint(text: str) -> str:
    with pytest.raises(BaselineError) as caught:
        parse_baseline(text.encode(), place=SHOWN)
    return str(caught.value)


def test_a_number_of_too_many_digits_is_named():
    with pytest.raises(BaselineError, match="not JSON: an integer has too many digits"):
        parse_baseline(b'{"schema_version": ' + b"9" * 5000 + b"}", place=Path("b.json"))


def test_a_file_that_is_not_utf_8_is_named():
    with pytest.raises(BaselineError, match="not UTF-8: invalid start byte"):
        parse_baseline(b"\xff{}", place=SHOWN)


def test_a_merge_conflict_is_called_what_it_is():
    text = baseline_text(small()).replace('      "version"', '<<<<<<< HEAD\n      "version"')
    assert complaint(text) == snapshot("""\
fixtures/baselines/greet.json:7: a merge conflict was left here
  fix: take the last copy that was whole from git, or delete the file; then run: regauge baseline update greet\
""")


def test_a_case_that_stands_twice_is_not_read_halfway():
    text = baseline_text(small())
    line = next(line for line in text.splitlines() if '"ann"' in line)
    told = complaint(text.replace(line, f"{line}\n{line}"))
    assert "'ann' appears twice" in told
    assert told.startswith(f"{SHOWN}:{text.splitlines().index(line) + 2}: ")


def test_a_newer_schema_is_not_guessed_at():
    text = baseline_text(small()).replace('"schema_version": 1', '"schema_version": 2')
    assert complaint(text) == snapshot("""\
fixtures/baselines/greet.json: schema version 2; this regauge reads version 1
  fix: use the regauge that wrote it, or a newer one\
""")


NUMBERS = st.lists(st.integers(100, 140), min_size=1, unique=True).map(sorted).map(tuple)


@given(NUMBERS)
def test_ranges_name_the_numbers_they_were_made_of(numbers: tuple[int, ...]):
    assert numbers_of(ranges_text(numbers)) == numbers


OPINIONS = st.sampled_from([True, False, None])
TRIALS = st.lists(
    st.tuples(OPINIONS, OPINIONS, st.floats(0, 1), st.sampled_from("0123")), min_size=1, max_size=12
)
NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable())


@given(st.dictionaries(NAMES, TRIALS, max_size=4))
def test_every_baseline_survives_its_file(cases: dict[str, list[Any]]):
    found: dict[str, StoredTrials] = {}
    for name, trials in cases.items():
        case = StoredTrials(digest="f" * 16)
        for number, (length, tone, score, answer) in enumerate(trials, 100):
            case = case.add(number, facts(length=length, tone=tone, score=score, answer=answer))
        found[name] = case
    session = Session(id="2026-11-20T09:00:00Z", first=100, last=111)
    history = StoredBaseline(key=KEY, sessions=(session,), cases=found)
    baseline = Baseline(prompt="greet", baselines=(history,), previous=(history,))
    text = baseline_text(baseline)
    assert parse_baseline(text.encode(), place=SHOWN) == baseline
    assert text.count("\n") == len(text.splitlines())


def test_the_baseline_of_the_nearest_older_name_counts(tmp_path: Path, made: Any):
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        command = ["git", *identity, *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    prompts = tmp_path / "prompts"
    prompts.mkdir()
    names = ["first", "second", "third", "greet"]
    (prompts / "first.prompt.yml").write_text("version: 1.0.0\nmessages: one of many lines\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    for before, after in pairwise(names):
        git("mv", f"prompts/{before}.prompt.yml", f"prompts/{after}.prompt.yml")
        git("commit", "-qm", after)
    project = Project(root=tmp_path)
    path = prompts / "greet.prompt.yml"
    suite = made.suite(name="greet")
    suite = replace(
        suite,
        prompt=replace(suite.prompt, path=path),
        dataset=replace(suite.dataset, name="greet"),
    )
    assert older_names(project, path) == ["third", "second", "first"]

    def found(*stored: str) -> tuple[Baseline | None, str]:
        baselines = {name: replace(small(), prompt=name) for name in stored}
        baseline, older = baseline_of(project, suite, read=lambda path: baselines.get(path.stem))
        return baseline, older.stem if older is not None else ""

    assert found() == (None, "")
    for stored, older in (
        (("first",), "first"),
        (("second", "first"), "second"),
        (("first", "third", "second"), "third"),
        (("greet", "third"), ""),
    ):
        assert found(*stored) == (replace(small(), prompt="greet"), older)
    (prompts / "third.prompt.yml").write_text("messages: another one\n")
    assert older_names(project, path) == ["second", "first"]
