"""Time to open, filter and sort the page of a run with 5,000 cases in Chromium.

Run it in a project that has a run: `python benchmarks/html_filters.py [RUN]`. It needs the tests'
dependencies and a Chromium on the path; the target is 200 ms for any filter.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from playwright.sync_api import sync_playwright

from regauge.project import Project
from regauge.reports import find_run, read_rows
from regauge.reports.html import html_report, load_source

CASES = 5000
# Until what follows the change is laid out, and until the next frame is drawn.
TIMED = """async ([where, value]) => {
  const field = document.querySelector(where);
  const began = performance.now();
  field.value = value;
  field.dispatchEvent(new Event(field.tagName === "INPUT" ? "input" : "change"));
  document.body.offsetHeight;
  const laid = performance.now() - began;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return [laid, performance.now() - began, document.querySelector(".count").textContent];
}"""
SORTED = """() => [...document.querySelectorAll(".grid thead button")].map((button) => {
  const began = performance.now();
  button.click();
  document.body.offsetHeight;
  return [button.textContent, performance.now() - began];
})"""


def page_of(run: Path, project: Project, target: Path) -> None:
    """The page of a run whose first prompt has 5,000 cases, copies of those of `run`."""
    rows = list(read_rows(run))
    rows = [row for row in rows if row["prompt"] == rows[0]["prompt"] and row["side"] != "base"]
    copies = [
        {**row, "case": f"{row['case']}-{n:04}", "node": str(n), "side": None}
        for n, row in enumerate(islice(cycle(rows), CASES))
    ]
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        record = json.loads((run / "run.json").read_text(encoding="utf-8"))
        (copy / "run.json").write_text(json.dumps(record | {"decision": None}), encoding="utf-8")
        lines = "".join(f"{json.dumps(row)}\n" for row in copies)
        (copy / "trials.jsonl").write_text(lines, encoding="utf-8")
        began = time.perf_counter()
        text = html_report(load_source(copy, project=project))
        print(f"write  {(time.perf_counter() - began) * 1000:7.0f} ms, {len(text) / 1e6:.1f} MB")
    target.write_text(text, encoding="utf-8")


def main() -> None:
    project = Project.find()
    run = find_run(project, sys.argv[1] if len(sys.argv) > 1 else "latest")
    name = next(read_rows(run))["prompt"]
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        target = Path(scratch) / "report.html"
        page_of(run, project, target)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome")
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto(f"{target.as_uri()}#/prompt/{name}")
        page.locator("tr.row").first.wait_for()
        print(f"open   {(time.perf_counter() - began) * 1000:7.0f} ms")
        section = "section.view:not([hidden]) "
        for text in ("k", "kube", "severity", "kube critical", "zzzz", ""):
            laid, drawn, count = page.evaluate(TIMED, [f"{section}input[type=search]", text])
            print(f"search {laid:7.0f} ms, drawn {drawn:5.0f} ms  {text!r}: {count}")
        verdict = page.locator(f"{section}.filters select").first
        for value in verdict.locator("option").evaluate_all("all => all.map(one => one.value)"):
            laid, drawn, count = page.evaluate(TIMED, [f"{section}.filters select", value])
            print(f"filter {laid:7.0f} ms, drawn {drawn:5.0f} ms  {value or 'all'}: {count}")
        for column, took in page.evaluate(SORTED):
            print(f"sort   {took:7.0f} ms  {column}")
        browser.close()


if __name__ == "__main__":
    main()
