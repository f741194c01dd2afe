"""The page of `regauge mutate NAME -o FILE.html`, and the badge."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_mutate import EVAL, PROMPT, Mutating, follow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.e2e.html.conftest import Opened
    from tests.fakes import Endpoint

    Open = Callable[..., Opened]

HOSTILE = (
    "<script>window.broken = 1</script>",
    "</script></pre></code></style></title><script>window.broken = 1</script>",
    '<img src="x" onerror="window.broken = 1"><svg onload="window.broken = 1">',
    '<a href="javascript:window.broken = 1" autofocus onfocus="window.broken = 1">x</a>',
    '<iframe src="data:text/html,<script>parent.broken = 1</script>"></iframe>',
    '<link rel=stylesheet href="//example.org/x.css"><base href="//example.org/">',
    "{% raw %}${7 * 7}#{7 * 7}",
    "safe \u202e gpj.exe \u2066 hidden \u200b here",
)


@pytest.fixture
def mutating(live: EvalProject, endpoint: Endpoint) -> Mutating:
    return Mutating(live, endpoint)


def page_of(mutating: Mutating, *words: str) -> Path:
    mutating.regauge("-o", "coverage.html", *words)
    return mutating.project.root / "coverage.html"


def test_each_line_has_a_mark_and_opens_by_keys(mutating: Mutating, opened: Open):
    seen = opened(page_of(mutating))
    page = seen.page
    assert seen.text("h1").startswith("triage: 2 of 5 instructions guarded, 40 % (")
    assert re.search(r"40 %\s+95\s% interval \d", seen.text(".decision"))
    assert seen.text("#model").startswith("On local:clerk. ")
    marks = page.locator(".prompt summary").evaluate_all(
        "all => all.map(one => [one.children[0].innerText, one.children[1].innerText])"
    )
    assert marks == [
        ["✓ guarded", "7"],
        ["✓ guarded", "9"],
        ["✕ survived", "10"],
        ["! no effect", "11"],
        ["✕ harmful", "12"],
    ]
    written = page.locator(".prompt .source").all_text_contents()
    assert "\n".join(written) == PROMPT.rstrip("\n")

    def keys(*names: str) -> None:
        for name in names:
            page.keyboard.press(name)

    def focused() -> str:
        return page.evaluate("document.activeElement.closest('details').id")

    keys("j", "j", "Enter")
    assert focused() == "line-9"
    guarded = seen.text("#line-9 .mutant")
    assert "max_words(12, field=reason)" in guarded
    assert re.search(r"these cases break:\s+case-\d", guarded)
    keys("n", "Enter")
    assert focused() == "line-10"
    page.wait_for_url("**#line-10")
    outputs = page.locator("#line-10 .outputs").first
    assert "of the disk" in (outputs.locator("del").first.text_content() or "")
    assert "of the disk" not in (outputs.locator("pre").nth(1).text_content() or "")
    assert seen.text("#line-10 .diff").endswith("- Name the disk in the reason.")
    seen.picture("coverage")
    keys("Escape")
    assert not page.locator("#line-10 .mutant").is_visible()
    keys("ArrowDown", "ArrowDown", "Enter")
    assert "no-host" in seen.text("#line-12 .mutant")
    keys("k", "Space")
    assert "No output changes" in seen.text("#line-11 .mutant")
    keys("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()


def test_a_line_opens_by_a_click_and_by_its_address(mutating: Mutating, opened: Open):
    file = page_of(mutating)
    page = opened(file, "#line-12").page
    assert page.locator("#line-12 .mutant").is_visible()
    bar = page.locator("header.top").bounding_box()
    line = page.locator("#line-12 summary").bounding_box()
    assert bar is not None
    assert line is not None
    assert line["y"] >= bar["y"] + bar["height"]
    page.locator("#line-7 summary").click()
    assert page.locator("#line-7 .mutant").is_visible()
    page.locator(".matrix a", has_text="11").click()
    page.locator("#line-11 .mutant").wait_for()


def test_the_matrix_shows_the_judges_of_each_instruction(mutating: Mutating, opened: Open):
    page = opened(page_of(mutating)).page
    heads = page.locator(".matrix thead th").all_text_contents()[2:]
    assert heads == [
        "json_parses(kind=object)",
        "field_equals(severity)",
        "max_words(12, field=reason)",
    ]
    row = page.locator(".matrix tbody tr", has_text="12 words")
    cells = [text.strip() for text in row.locator("td").all_text_contents()]
    assert cells == ["✓ guarded", "", "", "✓ guards"]
    rows = page.locator(".matrix tbody tr")
    assert rows.count() == 5
    assert rows.filter(has_text="Greet").locator(".yes").count() == 0


def test_the_page_follows_the_theme_and_switches_it(mutating: Mutating, opened: Open):
    file = page_of(mutating)
    back = "getComputedStyle(document.body).backgroundColor"
    page = opened(file, color_scheme="light").page
    light = page.evaluate(back)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(back)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(18, 22, 27)")
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(back) == dark
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(back) == light


def test_hostile_prompts_outputs_and_names_are_text(mutating: Mutating, opened: Open):
    lines = "\n".join(f"      - Say {text} always." for text in HOSTILE)
    head, _, tail = PROMPT.partition("      - Greet the reader kindly.\n")
    mutating.project.write("prompts/triage.prompt.yml", f"{head}{lines}\n{tail}")
    judge = "contains('<svg onload')"
    mutating.project.eval(
        EVAL.replace("judges import ", "judges import contains, ").replace(
            "judges=[", f"judges=[{judge}, "
        )
    )

    def obey(text: str) -> str:
        said = [one for one in HOSTILE if f"Say {one}" in text]
        return follow(text).replace("}", f', "said": {json.dumps(said)}}}')

    mutating.endpoint.answer = obey
    file = page_of(mutating)
    assert not {"\u202e", "\u2066", "\u200b"} & {*file.read_text(encoding="utf-8")}
    seen = opened(file)
    page = seen.page
    for summary in page.locator(".prompt summary").all():
        summary.click()
    shown = page.locator(".prompt .source").all_text_contents()
    outputs = "".join(page.locator(".outputs pre").all_text_contents())
    assert {f"      - Say {text} always." for text in HOSTILE[:-1]} <= {*shown}
    assert all(text in outputs for text in HOSTILE[:2])
    assert "<svg onload" in seen.text(".matrix thead")
    assert r"safe \u202e gpj.exe \u2066 hidden \u200b here" in "".join(shown)
    assert page.evaluate("document.scripts.length") == 1
    assert (
        page.locator("img, iframe, link, base, a[href^=javascript], main svg[onload]").count() == 0
    )
    assert page.evaluate("window.broken === undefined")


def test_a_sample_shows_the_rest_as_not_measured(mutating: Mutating, opened: Open):
    seen = opened(page_of(mutating, "--limit", "2"))
    marks = seen.page.locator(".prompt summary .badge").all_text_contents()
    assert marks.count("not measured") == 3
    assert "left out of this run" in seen.text(".tally")
    seen.page.locator("summary", has_text="not measured").first.click()
    assert "was not measured" in seen.text("details[open] .mutant")


def test_a_wrapped_statement_is_marked_on_all_of_its_lines(mutating: Mutating, opened: Open):
    wrapped = "- Greet the reader\n        kindly.\n"
    prompt = PROMPT.replace("- Greet the reader kindly.\n", wrapped)
    mutating.project.write("prompts/triage.prompt.yml", prompt)
    page = opened(page_of(mutating)).page
    tones = page.locator(".prompt .line").evaluate_all("all => all.map(one => one.className)")
    assert tones[10:13] == ["line warn marked", "line warn marked", "line bad marked"]
    assert "no effect, continued" in (page.locator(".prompt .line").nth(11).text_content() or "")


def test_the_badge_is_an_endpoint_of_shields(mutating: Mutating):
    mutating.regauge("-o", "guarded.badge.json")
    file = mutating.project.root / "guarded.badge.json"
    assert json.loads(file.read_text()) == {
        "schemaVersion": 1,
        "label": "instructions guarded",
        "message": "2 of 5",
        "color": "orange",
    }
    mutating.regauge("-o", "guarded.badge.json", "--limit", "1")
    assert json.loads(file.read_text())["message"].endswith(" of 1 (sample)")
    assert "end it in .html, .md, .json or .badge.json" in mutating.regauge("-o", "x.svg", code=2)
