"""The page of any run: thousands of cases, hostile answers, earlier runs, what is missing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from regauge.cli import group
from regauge.datasets import shard_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import EvalProject
    from tests.e2e.html.conftest import Opened
    from tests.fakes import Endpoint

    Open = Callable[..., Opened]
    Write = Callable[..., Path]

PROMPT_PAGE = "#/prompt/triage"
MEGABYTE = 1_000_000
HOSTILE = {
    "script": "<script>parent.broken = 1; window.broken = 1</script>",
    "closed": "</script></pre></textarea></style></title><script>window.broken = 1</script>",
    "comment": "<!--<script>window.broken = 1</script>",
    "image": '<img src="x" onerror="window.broken = 1"><svg onload="window.broken = 1">',
    "link": '<a href="javascript:window.broken = 1" autofocus onfocus="window.broken = 1">x</a>',
    "frame": '<iframe src="data:text/html,<script>parent.broken = 1</script>"></iframe>',
    "load": '<link rel=stylesheet href="//example.org/x.css"><img src="//example.org/x.png">',
    "leave": '<meta http-equiv="refresh" content="0;url=data:text/html,gone"><base href="//x/">',
    "template": "{{ 7 * 7 }}${7 * 7}{% raw %}#{7 * 7}",
    "bidi": "safe \u202e gpj.exe \u2066 hidden \u200b here \ufeff",
    "control": "\x1b]0;title\x07 \x00 \x9b31m",
    "lines": "one\u2028two\u2029three",
    "json": '{"__proto__": {"broken": 1}, "constructor": {"prototype": {"broken": 1}}}',
}


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes the page of a run, the latest unless one is named."""

    def write(project: EvalProject, *arguments: str) -> Path:
        monkeypatch.chdir(project.root)
        words = ["report", *arguments, "--format", "html", "-o", "report.html"]
        done = CliRunner().invoke(group, words)
        assert done.exit_code == 0, done.output
        assert done.stderr == "wrote report.html\n"
        return project.root / "report.html"

    return write


def many(project: EvalProject, cases: int) -> None:
    """The latest run with as many cases, each a copy of one that it has."""
    path = max(project.root.glob(".regauge/runs/*/trials.jsonl"))
    rows = project.rows()
    copies = [{**rows[n % len(rows)], "case": f"case-{n:04}", "node": str(n)} for n in range(cases)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in copies), encoding="utf-8")


def test_of_thousands_of_cases_only_those_in_sight_are_in_the_document(
    project: EvalProject, opened: Open, page_of: Write
):
    project.golden([project.case(number, ok=number % 3 > 0) for number in range(6)])
    project.run()
    many(project, 5000)
    seen = opened(page_of(project), PROMPT_PAGE)
    page = seen.page
    rows = page.locator("tr.row")
    assert seen.text(".count") == "5,000 cases"
    assert rows.count() < 80
    assert page.locator("table.grid").get_attribute("aria-rowcount") == "5001"
    whole = page.evaluate("document.querySelector('.grid-box').scrollHeight")
    page.evaluate("document.querySelector('.grid-box').scrollTop = 1e9")
    page.locator("tr.row", has_text="case-4999").wait_for()
    assert rows.count() < 80
    assert page.locator("tr.row[aria-rowindex='5001']").count() == 1
    assert page.evaluate("document.querySelector('.grid-box').scrollHeight") == whole
    page.get_by_label("Search").fill("case-49 disk")
    assert seen.text(".count") == "100 of 5,000 cases"
    page.get_by_label("Status").select_option("failed")
    assert 0 < len(seen.ids()) < 100
    page.get_by_label("Search").fill("")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#case-title").wait_for()
    assert "1 of 1,667" in seen.text("#view-case .steps")
    seen.picture("thousands")


def test_hostile_answers_are_text_and_do_nothing(
    live: EvalProject, endpoint: Endpoint, opened: Open, page_of: Write
):
    answers = {f"{name} attack": text for name, text in HOSTILE.items()}
    endpoint.answer = lambda text: answers[text]
    live.golden(
        {
            "id": name,
            "inputs": {"text": f"{name} attack"},
            "expected": {"ok": False, "said": HOSTILE[name]},
            "tags": ["<b onclick='window.broken = 1'>", name],
        }
        for name in HOSTILE
    )
    live.eval(
        "from regauge import Verdict, golden\n\n"
        "def echo(output, case):\n"
        "    return Verdict(outcome='fail', score=0, reason=output, actual=output)\n\n"
        "@golden('triage', judges=[echo])\ndef test_triage(result):\n    result.check()\n"
    )
    live.run()
    file = page_of(live)
    assert "\u202e" not in file.read_text(encoding="utf-8")
    seen = opened(file, PROMPT_PAGE)
    page = seen.page
    elements = page.evaluate("document.querySelectorAll('script, img, iframe, link, base').length")
    assert elements == 2  # the page's own data, and its own script
    assert len(seen.ids()) == len(HOSTILE)
    for name, text in HOSTILE.items():
        page.evaluate("name => { location.hash = `#/case/triage/${name}`; }", name)
        page.locator("#case-title", has_text=re.compile(f"^{name}$")).wait_for()
        page.locator(".pane pre").first.click()
        if name not in {"bidi", "control", "lines", "json"}:
            assert page.locator(".pane pre").first.text_content() == text
            assert text in (page.locator(".verdicts .prose").first.text_content() or "")
    assert page.evaluate("window.broken === undefined && ({}).broken === undefined")
    assert (
        page.evaluate(
            "document.querySelectorAll('img, iframe, link, base, a[href^=javascript]').length"
        )
        == 0
    )
    page.evaluate("location.hash = '#/case/triage/control'")
    page.locator("#case-title", has_text="control").wait_for()
    assert page.locator(".pane pre").first.text_content() == "\\x1b]0;title\\x07 \\x00 \\x9b31m"
    page.evaluate("location.hash = '#/case/triage/lines'")
    page.locator("#case-title", has_text="lines").wait_for()
    assert page.locator(".pane pre").first.text_content() == "one\\u2028two\\u2029three"
    seen.picture("hostile")


def test_an_answer_of_a_megabyte_is_cut_until_somebody_wants_all_of_it(
    live: EvalProject, endpoint: Endpoint, opened: Open, page_of: Write
):
    endpoint.answer = lambda _: "<b>x</b> " * (MEGABYTE // 9)
    live.golden([live.case(0)])
    live.run()
    seen = opened(page_of(live), "#/case/triage/disk-000")
    block = seen.page.locator(".pane pre").first
    assert len(block.text_content() or "") == 100_000
    seen.page.get_by_role("button", name="Show all 999,999 characters").click()
    assert block.text_content() == "<b>x</b> " * (MEGABYTE // 9)
    assert block.locator("b").count() == 0


def test_a_run_stands_beside_the_one_that_is_named(
    live: EvalProject, endpoint: Endpoint, opened: Open, page_of: Write
):
    said = {"word": "calm"}
    endpoint.answer = lambda text: f"It is {said['word']} here: {text}"
    live.run()
    said["word"] = "stormy"
    live.prompt(version="1.1.0", system="Say what the weather is.")
    live.run()
    first, _ = (record["id"] for record in live.records())
    seen = opened(page_of(live, "latest", "--against", first), "#/case/triage/disk-001")
    panes = seen.page.locator(".sides").first.locator(".pane")
    assert panes.count() == 2
    assert panes.nth(0).locator("del").all_text_contents() == ["calm"]
    assert panes.nth(1).locator("ins").all_text_contents() == ["stormy"]
    assert panes.nth(0).inner_text().startswith(f"Base (run {first})")
    seen.page.get_by_label("Mark differences").uncheck()
    assert panes.nth(0).locator("del").count() == 0
    plain = live.command("report", "--against", first)
    assert plain.returncode == 2
    assert "fix: add --format html" in plain.stderr


def test_what_is_missing_is_said_and_the_rest_is_shown(
    project: EvalProject, opened: Open, page_of: Write
):
    project.golden([project.case(0), project.case(1), project.case(2)])
    project.run()
    project.golden([project.case(0), project.case(1, inputs={"text": "critical: other"})])
    file = page_of(project)
    changed = opened(file, "#/case/triage/disk-001").text(".warning")
    assert changed == "The case was changed after this run; this is its current state."
    gone = opened(file, "#/case/triage/disk-002").text(".warning")
    assert gone == "The case 'disk-002' is no longer in the golden cases."
    project.write("fixtures/golden/triage.jsonl", "{")
    unread = opened(page_of(project), "#/case/triage/disk-000").text(".warning")
    assert unread.startswith("The golden cases could not be read: ")


def test_unmeasured_cases_say_why(project: EvalProject, opened: Open, page_of: Write):
    project.golden([project.case(0)])
    project.prompt(model="local:clerk")
    project.run("--record=none")
    seen = opened(page_of(project))
    assert seen.text("h1") == "1 case, none failed, 1 unmeasured"
    assert "not measured" in seen.text("#view-overview tbody")
    seen.page.get_by_role("link", name="1 unmeasured of triage").click()
    seen.page.get_by_role("link", name="disk-000").click()
    assert "no recorded completion: case 'disk-000'" in seen.text(".pane")


def test_the_past_of_a_prompt_is_its_runs_of_as_many_cases(
    project: EvalProject, opened: Open, page_of: Write
):
    project.run("-k", "disk-000")
    project.golden([project.case(number, ok=number > 0) for number in range(5)])
    project.run()
    project.prompt(version="1.1.0", system="Say how severe it is, as JSON.")
    project.run()
    runs = [record["id"] for record in project.records()]
    (project.root / f".regauge/runs/{runs[0]}-broken").mkdir()
    project.write(f".regauge/runs/{runs[0]}-broken/run.json", '{"schema_version": 99}')
    latest = opened(page_of(project, runs[2]), PROMPT_PAGE).page.locator("svg.plot")
    assert latest.locator("circle.dot").count() == 2
    assert latest.locator("line.begins").count() == 1
    earlier = opened(page_of(project, runs[1]), PROMPT_PAGE).page.locator("svg.plot")
    assert earlier.locator("circle.dot").count() == 1  # what came later is not its past


def test_a_suggested_repair_is_shown_with_the_cycles_that_led_to_it(
    project: EvalProject, opened: Open, page_of: Write
):
    project.judged_by("max_words(3)")
    project.run("--suggest")
    (made,) = project.records()[-1]["suggestions"]
    seen = opened(page_of(project))
    shown = seen.text("#view-overview")
    assert "Suggested revision of triage" in shown
    assert made["headline"] in shown
    assert made["run"] in shown
    seen.page.locator("details.cycle summary").first.click()
    told = seen.page.locator("details.cycle").first.locator("tbody tr")
    assert told.count() >= 1
    seen.picture("repair")


def test_a_history_that_cannot_be_read_leaves_the_page_without_a_past(
    project: EvalProject, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    project.run()
    file = project.write("history.sqlite3", "no database")
    monkeypatch.setenv("REGAUGE_STORE", f"sqlite:///{file}")
    done = project.command("report", "--format", "html", "-o", "report.html")
    assert done.returncode == 0
    assert "the page shows no earlier runs: " in done.stderr
    plot = opened(project.root / "report.html", PROMPT_PAGE).page.locator("svg.plot")
    assert plot.locator("circle.dot").count() == 1


def test_a_tracked_case_that_fails_is_told_apart(
    project: EvalProject, opened: Open, page_of: Write
):
    project.golden([project.case(0), project.case(1, ok=False, tier="tracked")])
    project.run()
    seen = opened(page_of(project))
    assert seen.text("h1") == "2 cases, none failed; 1 tracked case failed without blocking"
    seen.page.get_by_role("link", name="1 failed (tracked) of triage").click()
    assert seen.ids() == ["disk-001"]
    judges = seen.page.get_by_role("region", name="Judges of triage").locator("tbody tr")
    assert [row.split() for row in judges.all_inner_texts()] == [
        ["min_chars(1)", "2", "0", "0", "blocking"],
        ["agrees", "1", "1", "0", "blocking"],
    ]


@pytest.mark.parametrize("wrong", ["no-such-run", "2030"])
def test_a_run_to_compare_with_that_is_not_there_is_told(project: EvalProject, wrong: str):
    project.run()
    done = project.command("report", "--format", "html", "--against", wrong)
    assert done.returncode == 2
    assert f"there is no run {wrong!r}" in done.stderr


def test_the_page_loads_nothing_that_a_plain_run_does_not_need(
    modules_loaded_by: Callable[[str], set[str]],
):
    assert "jinja2" not in modules_loaded_by("import regauge.reports.html, regauge.cli")


def test_several_models_are_a_grid_with_their_answers_side_by_side(
    live: EvalProject, endpoint: Endpoint, opened: Open, page_of: Write
):
    endpoint.answer_of["apprentice"] = lambda text: (
        "all is well" if "disk 1" in text else json.dumps({"severity": "critical"})
    )
    live.judged_by("contains('critical')")
    live.run("--model=local:clerk", "--model=local:apprentice")
    seen = opened(page_of(live))
    page = seen.page
    models = page.get_by_role("table").first
    assert models.locator("tbody tr th").all_text_contents() == ["local:clerk", "local:apprentice"]
    assert "-20.0 points" in models.inner_text()
    seen.go(live.root / "report.html", PROMPT_PAGE)
    assert seen.text(".count") == "5 cases"
    heads = page.locator("table.grid thead th").all_inner_texts()
    assert [head for head in heads if ":" in head] == ["local:clerk", "local:apprentice"]
    first = page.locator("tr.row").first
    assert "disk-001" in first.inner_text()
    assert first.locator(".badge").all_inner_texts() == ["✕ failed", "✓ passed", "✕ failed"]
    page.locator("table.grid thead button", has_text="apprentice").click()
    page.get_by_role("link", name="disk-001").click()
    panes = page.locator(".sides .pane h3")
    panes.first.wait_for()
    names = panes.all_inner_texts()
    assert names[:2] == ["local:clerk", "local:apprentice"]
    assert "all is well" in page.locator(".sides .pane").nth(1).inner_text()
    assert page.locator("#view-case table.verdicts").inner_text().count("local:apprentice") == 1


def test_a_large_run_is_an_index_that_leads_to_pages_of_cases(
    project: EvalProject, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    project.settings("html_cases_max = 20")
    project.golden([project.case(number, ok=number % 3 > 0) for number in range(30)])
    project.run()
    monkeypatch.chdir(project.root)
    stale = project.write("report-cases/7.html", "of a larger run")
    kept = project.write("report-cases/notes.txt", "mine")
    done = CliRunner().invoke(group, ["report", "-o", "report.html"])
    assert done.stderr == "wrote report.html and report-cases, 3 pages\n"
    assert not stale.exists()
    assert kept.exists()
    assert sorted(path.name for path in kept.parent.iterdir()) == [
        *("1.html", "2.html", "3.html", "notes.txt")
    ]
    index = project.root / "report.html"
    pages = {number: project.root / f"report-cases/{number}.html" for number in (1, 2, 3)}

    seen = opened(index)
    page = seen.page
    assert seen.text("h1") == "10 of 30 cases failed"
    assert "30 cases on 3 pages" in seen.text("#view-overview")
    page.get_by_role("link", name="10 failed of triage").click()
    assert len(seen.ids()) == 10
    page.get_by_label("Search").fill("disk-003")
    assert seen.ids() == ["disk-003"]
    of_case = pages[shard_of("disk-003", 3)]
    seen.follow("disk-003", of_case)
    assert seen.text("#case-title") == "disk-003"
    assert seen.text(".badges .badge") == "✕ failed"
    shown = page.locator(".inputs").all_inner_texts()
    assert project.case(3, ok=False)["inputs"]["text"] in shown[0]
    page.keyboard.press("j")
    page.locator("#case-title", has_not_text="disk-003").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(f"{index.as_uri()}#/prompt/triage")
    assert len(seen.ids()) == 30
    seen.picture("index")

    # Addresses in the form of a report of one file lead to the page, too.
    page.goto(f"{index.as_uri()}#/case/triage/disk-004")
    page.locator("#case-title", has_text="disk-004").wait_for()
    seen.files.add(pages[shard_of("disk-004", 3)].as_uri())
    page.keyboard.press("o")
    page.wait_for_url(f"{index.as_uri()}#/")

    listed: list[str] = []
    for number, file in pages.items():
        on_page = opened(file)
        assert on_page.text("h1") == f"Page {number} of 3"
        on_page.page.locator("#view-overview a", has_text="triage").click()
        listed += on_page.ids()
    assert sorted(listed) == [f"disk-{number:03}" for number in range(30)]


def test_a_report_of_one_file_leaves_no_pages_of_a_larger_one(project: EvalProject):
    project.settings("html_cases_max = 4")
    project.run()
    for is_kept in (False, True):
        project.settings("html_cases_max = 4")
        assert project.command("report", "-o", "report.html").returncode == 0
        pages = project.root / "report-cases"
        assert (pages / "3.html").exists()
        own = project.write("report-cases/9.html", "mine") if is_kept else None
        project.settings("html_cases_max = 2000")
        done = project.command("report", "-o", "report.html")
        assert done.stderr == "wrote report.html\n"
        assert ([*pages.iterdir()] if pages.exists() else []) == ([own] if own else [])


def test_a_report_of_several_files_is_not_written_to_standard_output(project: EvalProject):
    project.settings("html_cases_max = 4")
    project.run()
    done = project.command("report", "--format", "html")
    assert done.returncode == 2
    assert "the report is an index with 3 pages of cases, not one file" in done.stderr
    assert "fix: regauge report -o report.html, or raise html_cases_max" in done.stderr


def test_a_report_of_long_texts_has_pages_of_a_bounded_size(project: EvalProject):
    """Long inputs in files count, too; the simulated model repeats them."""
    project.settings("html_mb_max = 0.2")
    project.write("fixtures/long.txt", "x" * 50_000)
    project.golden(
        [project.case(number) | {"inputs": {"text": {"file": "long.txt"}}} for number in range(12)]
    )
    project.run()
    done = project.command("report", "-o", "report.html")
    assert done.stderr.startswith("wrote report.html and report-cases, ")
    sizes = [path.stat().st_size for path in (project.root / "report-cases").iterdir()]
    assert len(sizes) == 13
    assert max(sizes) < 300_000
