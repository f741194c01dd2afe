"""The page of a gate's run, read by a person in a real browser."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from regauge.datasets import shard_of
from tests.gate_repo import GOLDEN, NAME, PROMPT, GateRepo, label_definitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.html.conftest import Opened

    Open = Callable[..., Opened]

BARE_LABELS = "      - critical\n      - warning\n      - info\n"
AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
PROMPT_PAGE = f"#/prompt/{NAME}"


def _accepted(repo: GateRepo) -> str:
    """What ends the changelog and accepts every case: what breaks now breaks once more."""
    cases = [json.loads(line)["id"] for line in repo.read(GOLDEN).splitlines()]
    accepted = "".join(f"      - {{case: {case}, reason: Fine.}}\n" for case in cases)
    return f"    accepted:\n{accepted}"


class Rejected:
    """A repository whose gate rejected a change, and the page of that run."""

    def __init__(self, root: Path) -> None:
        repo = GateRepo(root)
        repo.edit(PROMPT, "inputs:\n", f"{_accepted(repo)}inputs:\n")
        repo.regauge("baseline", "update", "--trials", "6")
        repo.commit("Say how main fares")
        repo.pytest(code=1)
        repo.branch("bare")
        repo.release("minor", (label_definitions(repo.read(PROMPT)), BARE_LABELS))
        repo.gate(code=1)
        said = repo.regauge("report", "--format", "html", "-o", "report.html")
        assert "wrote report.html" in said
        self.repo = repo
        self.file = root / "report.html"
        self.decision = repo.decision()
        records = (root / ".regauge/runs").glob("*/run.json")
        run = max(records, key=lambda path: path.stat().st_mtime_ns)
        lines = run.with_name("trials.jsonl").read_text(encoding="utf-8").splitlines()
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.golden = {
            case["id"]: case
            for case in map(json.loads, repo.read(f"fixtures/golden/{NAME}.jsonl").splitlines())
        }

    def cases(self, verdict: str) -> list[dict[str, Any]]:
        return [case for case in self.decision["cases"] if case["status"] == verdict]


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> Rejected:
    return Rejected(tmp_path_factory.mktemp("gated"))


def case_page(case: str) -> str:
    return f"#/case/{NAME}/{quote(case, safe='')}"


def test_the_first_page_says_what_was_decided_and_why(rejected: Rejected, opened: Open):
    seen = opened(rejected.file)
    broken = len(rejected.cases("broken"))
    assert seen.text("h1").startswith("Rejected against main (")
    assert f"{broken} broken" in seen.text("h1")
    assert f"{broken} broken of {len(rejected.decision['cases'])} cases" in seen.text("h1")
    # The title has said it.
    assert "cases broke" not in seen.text(".decision")
    row = seen.text("#view-overview tbody tr")
    difference = rejected.decision["prompts"][0]["test"]["difference"]
    rates = f"{difference['base']:.0%} → {difference['candidate']:.0%}, ".replace("%", " %")
    assert rates in row
    assert f"{100 * difference['low']:+.1f} to {100 * difference['high']:+.1f}" in row
    assert NAME in row
    assert "1.0.0 → 1.1.0 (simulated)" in row
    shown = seen.text("#view-overview")
    assert " ".join(rejected.decision["sensitivity"].split()) in " ".join(shown.split())
    assert rejected.decision["rerun_command"] in shown
    assert rejected.decision["base_commit"][:12] in shown
    assert seen.page.title() == f"{seen.text('h1')} · regauge"
    seen.picture("gate-overview")


def test_changed_cases_stand_under_the_prompts_diff_in_groups_of_one_kind(
    rejected: Rejected, opened: Open
):
    seen = opened(rejected.file)
    page = seen.page
    removed = page.get_by_role("region", name=f"Change of {PROMPT}").locator(".del")
    assert "critical: somebody has to be woken up now" in removed.first.inner_text()
    texts = page.get_by_role("region", name=f"Change of {PROMPT}").inner_text()
    assert "- critical" in texts
    assert "+version: 1.1.0" not in texts

    kinds = page.locator("article.kind")
    broken = {case["case"] for case in rejected.cases("broken")}
    largest = kinds.first
    title = largest.locator("h3").inner_text()
    count = int(title.split()[0])
    assert count > 1
    assert ": field_equals(severity): expected " in title
    first = largest.get_by_role("link").first.inner_text()
    outputs = largest.get_by_role("region", name=f"Outputs of {first}")
    assert "--- passed (base, trial" in outputs.inner_text()
    assert "+++ failed (candidate, trial" in outputs.inner_text()
    rest = largest.get_by_text(f"{count - 1} more", exact=True)
    assert not largest.get_by_role("listitem").first.is_visible()
    rest.focus()
    page.keyboard.press("Enter")
    others = largest.get_by_role("listitem").get_by_role("link")
    names = others.all_inner_texts()
    assert len({first, *names} & broken) == count
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#case-title", has_text=names[0]).wait_for()
    page.go_back()
    assert rest.is_visible()
    seen.picture("gate-kinds")


def test_a_click_leads_from_the_decision_to_a_broken_case_and_what_changed_in_its_answer(
    rejected: Rejected, opened: Open
):
    seen = opened(rejected.file)
    page = seen.page
    broken = {case["case"]: case for case in rejected.cases("broken")}
    page.get_by_role("link", name=f"{len(broken)} broken of {NAME}").click()
    assert page.url.endswith(f"{PROMPT_PAGE}?status=broken")
    assert {*seen.ids()} == {*broken}
    assert seen.text(".count") == f"{len(broken)} of {len(rejected.decision['cases'])} cases"
    seen.picture("gate-prompt")
    case = next(one for one in broken.values() if one["passing"] and one["failing"])
    page.get_by_role("link", name=case["case"], exact=True).click()
    assert page.url.endswith(case_page(case["case"]))
    assert seen.text("h1#case-title") == case["case"]
    assert seen.text(".message") == case["message"]
    assert "it is edit-sensitive" in case["message"]
    assert page.locator(".badges .badge", has_text="edit-sensitive").is_visible()
    panes = page.locator(".sides").first.locator(".pane")
    assert [pane.split("\n")[0] for pane in panes.all_inner_texts()] == ["Base (main)", "Candidate"]
    assert panes.nth(0).locator("del").count() >= 1
    assert panes.nth(1).locator("ins").count() >= 1
    assert panes.nth(0).locator("ins").count() == panes.nth(1).locator("del").count() == 0
    failed = next(
        row
        for row in rejected.rows
        if row["case"] == case["case"] and row["side"] == "candidate" and row["outcome"] == "failed"
    )
    assert json.loads(panes.nth(1).locator(".text").inner_text()) == json.loads(failed["output"])
    reason = next(said["reason"] for said in failed["verdicts"] if said["outcome"] == "fail")
    assert reason in page.get_by_role("region", name="Verdicts of judges").inner_text()
    golden = rejected.golden[case["case"]]
    for name, value in golden["inputs"].items():
        told = page.get_by_role("article", name=f"Input: {name}").locator("pre")
        assert told.inner_text().strip() == str(value).strip()
    expected = page.get_by_role("article", name="Expected").inner_text()
    assert golden["expected"]["severity"] in expected
    trials = page.get_by_role("region", name="All trials").locator("tbody tr")
    assert trials.count() == sum(row["case"] == case["case"] for row in rejected.rows)
    assert failed["request_digest"][:12] in trials.first.inner_text()
    assert f"fixtures/golden/{NAME}.jsonl:" in seen.text("#view-case")
    assert page.get_by_text("E-value: the likelihood of these counts").is_visible()
    seen.picture("gate-case")


def test_another_trial_is_a_choice_that_an_address_keeps(rejected: Rejected, opened: Open):
    case = next(
        case["case"]
        for case in rejected.cases("broken")
        if 0 < case["candidate"]["passed"] < case["candidate"]["trials"]
    )
    seen = opened(rejected.file, case_page(case))
    pane = seen.page.get_by_role("article", name="Candidate")
    assert "failed" in pane.locator(".badge").inner_text()
    passed = next(
        row["trial"]
        for row in rejected.rows
        if row["case"] == case and row["side"] == "candidate" and row["outcome"] == "passed"
    )
    choice = seen.page.get_by_label("Trial of Candidate")
    choice.select_option(f"trial {passed}: passed")
    assert "passed" in pane.locator(".badge").inner_text()
    address = seen.page.evaluate("location.hash")
    again = opened(rejected.file, address)
    pane = again.page.get_by_role("article", name="Candidate")
    assert "passed" in pane.locator(".badge").inner_text()


def test_the_table_is_searched_filtered_and_sorted_and_the_address_keeps_it(
    rejected: Rejected, opened: Open
):
    seen = opened(rejected.file, PROMPT_PAGE)
    page = seen.page
    every = seen.ids()
    case = rejected.decision["cases"][3]["case"]
    page.get_by_label("Search").fill(case.upper())
    assert seen.ids() == [case]
    page.get_by_label("Search").fill("no such words")
    assert page.get_by_text("No cases match.").is_visible()
    page.get_by_role("button", name="Show all").click()
    page.locator("tr.row").first.wait_for()
    assert seen.ids() == every
    page.get_by_role("button", name="Case", exact=True).click()
    assert page.locator("th[aria-sort]").inner_text().startswith("Case")
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    ordered = seen.ids()
    assert ordered == sorted(ordered, key=str.lower)
    page.get_by_role("button", name="Case", exact=True).click()
    backwards = seen.ids()
    assert backwards == sorted(backwards, key=str.lower, reverse=True)
    page.get_by_label("Status").select_option("flaky")
    kept = seen.ids()
    assert {*kept} == {case["case"] for case in rejected.cases("flaky")}
    again = opened(rejected.file, page.evaluate("location.hash"))
    assert again.ids() == kept
    assert again.page.get_by_label("Status").input_value() == "flaky"


def test_keys_search_open_step_and_go_back(rejected: Rejected, opened: Open):
    seen = opened(rejected.file, PROMPT_PAGE)
    page = seen.page
    page.keyboard.press("/")
    page.keyboard.type("kube")
    found = seen.ids()
    assert 2 < len(found) < len(rejected.decision["cases"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.id") == found[0]
    page.keyboard.press("Enter")
    page.locator("#case-title", has_text=found[0]).wait_for()
    assert page.evaluate("document.activeElement.id") == "case-title"
    page.keyboard.press("j")
    page.locator("#case-title", has_text=found[1]).wait_for()
    page.keyboard.press("k")
    page.locator("#case-title", has_text=found[0]).wait_for()
    page.keyboard.press("Escape")
    page.locator("tr.row").first.wait_for()
    assert seen.ids() == found
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog").is_visible()


def test_an_address_of_nothing_says_so(rejected: Rejected, opened: Open):
    for address in ("#/case/alert-severity/NoSuchCase", "#/prompt/nothing", "#/else", "#/prompt/%"):
        seen = opened(rejected.file, address)
        assert seen.text("section.view:not([hidden]) h1") == "Not in this report"


def test_the_plot_shows_each_run_with_its_interval_and_where_the_version_changed(
    rejected: Rejected, opened: Open
):
    seen = opened(rejected.file, PROMPT_PAGE)
    plot = seen.page.locator("svg.plot")
    assert plot.locator("circle.dot").count() == 2  # the run of main, and the gate's
    assert plot.locator("line.begins").count() == 1
    assert {"1.0.0", "1.1.0"} <= {*plot.locator("text.tick").all_text_contents()}
    seen.page.get_by_text("Numbers", exact=True).click()
    table = seen.page.get_by_role("region", name=f"Pass rates of {NAME}")
    first = [row for row in rejected.rows if row["trial"] == 3000 and row["side"] == "candidate"]
    passed = sum(row["outcome"] == "passed" for row in first)
    assert f"{passed} of {len(first)}" in table.locator("tbody tr").first.inner_text()
    for bar, dot in zip(
        plot.locator("line.bar").all(), plot.locator("circle.dot").all(), strict=True
    ):
        high, low = (float(bar.get_attribute(name) or 0) for name in ("y1", "y2"))
        assert high <= float(dot.get_attribute("cy") or 0) <= low


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_axe_finds_nothing_on_any_page(rejected: Rejected, opened: Open, scheme: str, width: int):
    case = rejected.cases("broken")[0]["case"]
    seen = opened(rejected.file, color_scheme=scheme, width=width)
    seen.page.evaluate(AXE)
    for name, address in (("overview", "#/"), ("prompt", PROMPT_PAGE), ("case", case_page(case))):
        seen.page.evaluate("address => { location.hash = address; }", address)
        seen.page.wait_for_function(f"document.title && location.hash === {address!r}")
        found = seen.page.evaluate("async () => (await axe.run(document)).violations")
        diagnostics = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]
        assert diagnostics == [], f"{name}, {scheme}, {width}"
        wide = seen.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} scrolls sideways at {width}"
        seen.picture(f"{name}-{scheme}-{width}")


def test_the_theme_is_a_choice_that_is_kept(rejected: Rejected, opened: Open):
    seen = opened(rejected.file, color_scheme="light")
    page = seen.page
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(paper)
    assert dark != "rgb(255, 255, 255)"
    page.reload()
    assert page.evaluate(paper) == dark
    page.get_by_role("button", name="Light").click()
    assert page.evaluate(paper) == "rgb(255, 255, 255)"


def test_paper_has_every_case_and_no_controls(rejected: Rejected, opened: Open, tmp_path: Path):
    seen = opened(rejected.file, PROMPT_PAGE, color_scheme="dark")
    page = seen.page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert len(seen.ids()) == len(rejected.decision["cases"])
    assert not page.locator("header.top").is_visible()
    assert not page.get_by_label("Search").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    box, table = (page.locator(name).first.bounding_box() for name in (".grid-box", "table.grid"))
    assert box
    assert table
    assert box["height"] >= table["height"]
    assert box["width"] <= 1280
    seen.picture("print-prompt")
    assert page.pdf(format="A4").startswith(b"%PDF-")


def test_without_scripts_the_decision_and_the_numbers_are_there(rejected: Rejected, opened: Open):
    seen = opened(rejected.file, scripts=False)
    shown = seen.page.inner_text("body")
    assert "Rejected against main" in shown
    assert "The tables of cases need JavaScript." in shown
    assert f"Change of {PROMPT}" in shown


def test_a_missing_eval_and_its_fix_are_below_the_decision(tmp_path: Path, opened: Open):
    repo = GateRepo(tmp_path)
    repo.branch("gone")
    repo.git("mv", "evals/test_alert_severity.py", "evals/alert_severity.py")
    repo.commit("Rename the eval")
    printed = repo.gate(code=3)
    repo.pytest("--gate=main", code=1)
    (unmeasured,) = repo.decision()["unmeasured"]
    assert unmeasured["fix"] in printed
    repo.regauge("report", "--format", "html", "-o", "report.html")
    seen = opened(tmp_path / "report.html")
    shown = seen.text(".decision")
    assert unmeasured["message"] in shown
    assert f"Fix of {unmeasured['path']}: {unmeasured['fix']}" in shown


def test_in_an_index_of_pages_a_changed_case_leads_to_its_page(rejected: Rejected, opened: Open):
    repo = rejected.repo
    repo.edit("pyproject.toml", "[tool.regauge]\n", "[tool.regauge]\nhtml_cases_max = 20\n")
    said = repo.regauge("report", "-o", "paged.html")
    pages = -(-2 * len(rejected.decision["cases"]) // 20)
    assert f"wrote paged.html and paged-cases, {pages} pages" in said
    index = rejected.file.with_name("paged.html")
    seen = opened(index)
    assert seen.text("h1").startswith("Rejected against main (")
    case = seen.page.locator("article.kind p a").first.inner_text()
    page = index.with_name("paged-cases") / f"{shard_of(case, pages)}.html"
    seen.follow(case, page)
    assert seen.text("#case-title") == case
    assert seen.page.locator(".sides").first.locator(".pane").count() == 2
    assert seen.text(".badges .badge") == "✕ broken"
    seen.follow("Overview", index)
    assert seen.text("h1").startswith("Rejected against main (")
