"""The page of `regauge judges calibrate JUDGE --from-run RUN -o FILE.html`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.labelled import EVAL, RUBRIC, label, told, write_labels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.e2e.html.conftest import Opened
    from tests.fakes import Endpoint

    Open = Callable[..., Opened]

HOSTILE = "</script><img src=x onerror='window.broken = 1'> \u202e \u2028 {{ 7 * 7 }} \"quoted\" ä"


@pytest.fixture
def judged(live: EvalProject, endpoint: Endpoint) -> EvalProject:
    """A run whose answers fail the judge in every second case."""
    answers = {f"disk {n}": f"answer {n} {'pass' if n % 2 else 'fail'}" for n in range(5)}

    def answer(text: str) -> str:
        if "<answer-" in text:
            return told(text)
        return next((said for words, said in answers.items() if words in text), HOSTILE)

    endpoint.answer = answer
    live.settings('judge_model = "local:clerk"')
    live.write("prompts/judges/tone.prompt.yml", RUBRIC)
    live.eval(EVAL)
    live.run()
    return live


def page_of(project: EvalProject, *words: str) -> Path:
    done = project.command(
        "judges", "calibrate", "tone", "--from-run=latest", "-o", "labels.html", *words
    )
    assert done.returncode == 0, done.stderr
    return project.root / "labels.html"


def saved(seen: Opened, project: EvalProject) -> str:
    """The file that the page saves, moved to where it belongs."""
    with seen.page.expect_download() as download:
        seen.page.keyboard.press("s")
    assert download.value.suggested_filename == "tone.jsonl"
    path = project.root / "fixtures" / "labels" / "tone.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    download.value.save_as(path)
    return path.read_text(encoding="utf-8")


def test_outputs_are_labelled_by_keys_and_saved_as_the_file_of_labels(
    judged: EvalProject, opened: Open
):
    write_labels(judged, [label(1, "pass", "pass")])
    file = judged.root / "fixtures" / "labels" / "tone.jsonl"
    own = file.read_text(encoding="utf-8")
    page = page_of(judged)
    assert file.read_text(encoding="utf-8") == own
    judged.command("judges", "calibrate", "tone", "--from-run=latest")
    written = file.read_text(encoding="utf-8")
    seen = opened(page)
    keys = seen.page.keyboard
    assert "Output 1 of 5, 0 labelled" in seen.text(".choices")
    seen.page.get_by_label("Your name").fill("Ada")
    keys.press("Escape")
    assert saved(seen, judged) == written

    outputs: list[str] = []
    for key in ("p", "f", "1", "2"):
        outputs.append(seen.text('[aria-label="Output"] pre'))
        keys.press(key)
    outputs.append(seen.text('[aria-label="Output"] pre'))
    assert outputs == [json.loads(line)["output"] for line in written.splitlines()[1:]]
    assert sorted(outputs) != outputs
    keys.press("w")
    keys.type("sounds rude")
    keys.press("Escape")
    keys.press("f")
    seen.picture("labels")
    assert "5 labelled" in seen.text(".choices")
    first, *rest = saved(seen, judged).splitlines()
    assert first == own.rstrip("\n")
    lines = [json.loads(line) for line in rest]
    assert [line["label"] for line in lines] == ["pass", "fail", "pass", "fail", "fail"]
    assert [line["reason"] for line in lines] == ["", "", "", "", "sounds rude"]
    assert {line["author"] for line in lines} == {"Ada"}
    assert list(lines[0]) == list(json.loads(written.splitlines()[1]))
    compared = judged.command("judges", "calibrate", "tone", "--repeats=1")
    assert "6 outputs" in compared.stdout
    again = judged.command("judges", "calibrate", "tone", "--from-run=latest")
    assert again.stdout.startswith("added 0 outputs")
    assert opened(page_of(judged)).text("main").endswith("All outputs have a label.")


def test_the_page_is_blind_and_keeps_labels_when_it_is_opened_again(
    judged: EvalProject, opened: Open
):
    page = page_of(judged)
    text = page.read_text(encoding="utf-8")
    assert "It is marked" not in text
    assert '"outcome"' not in text
    seen = opened(page)
    seen.page.get_by_label("Your name").fill("Ada")
    seen.page.get_by_role("button", name="Fail").click()
    seen.page.keyboard.press("k")
    assert seen.page.get_by_role("button", name="Fail").get_attribute("aria-pressed") == "true"
    seen.page.reload()
    assert "Output 2 of 5, 1 labelled" in seen.text(".choices")
    assert seen.page.get_by_label("Your name").input_value() == "Ada"
    seen.page.keyboard.press("k")
    seen.page.keyboard.press("u")
    assert "0 labelled" in seen.text(".choices")


def test_hostile_outputs_are_text_and_are_saved_as_they_are(
    judged: EvalProject, endpoint: Endpoint, opened: Open
):

    def answer(text: str) -> str:
        return told(text) if "<answer-" in text else HOSTILE

    endpoint.answer = answer
    judged.run("--record=all")
    seen = opened(page_of(judged))
    assert "onerror" in seen.text('[aria-label="Output"] pre')
    assert seen.page.evaluate("window.broken") is None
    seen.page.keyboard.press("p")
    lines = [json.loads(line) for line in saved(seen, judged).rstrip("\n").split("\n")]
    assert {line["output"] for line in lines} == {HOSTILE}


def test_scores_are_labelled_where_the_file_has_scores(judged: EvalProject, opened: Open):
    row = label(1, "pass", "pass")
    del row["label"]
    write_labels(judged, [{**row, "score": 0.5}])
    seen = opened(page_of(judged))
    seen.page.keyboard.press("4")
    rest = saved(seen, judged).split("\n")[1:-1]
    assert [json.loads(line)["score"] for line in rest] == [0.75, None, None, None, None]
    dry = judged.command("judges", "calibrate", "tone", "--dry-run")
    assert dry.stdout.startswith("6 judgements")


def test_a_page_needs_a_run_and_a_judge(judged: EvalProject):
    refused = judged.command("judges", "calibrate", "tone", "-o", "labels.html")
    assert (refused.returncode, "fix: add --from-run latest" in refused.stderr) == (2, True)
    refused = judged.command("judges", "calibrate", "--from-run=latest")
    assert (refused.returncode, "needs a judge" in refused.stderr) == (2, True)
    write_labels(judged, [{"id": "x", "case": "disk-000", "a": "1", "b": "2", "label": "a"}])
    refused = judged.command("judges", "calibrate", "tone", "--from-run=latest")
    assert (refused.returncode, "this file holds pairs" in refused.stderr) == (2, True)
