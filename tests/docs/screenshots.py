"""Pictures of a pull request's comment, of the HTML report and of a coverage page, for README.

`python -m tests.docs.screenshots` writes them, in light and dark, with the digest of the text that
they show. The change is that of README's "Gate a change", gated with the simulated model; the
coverage page is that of the project that `regauge init` writes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

from tests.docs.pages import LOADED, Page

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "explanation" / "pictures"
DIGESTS = PICTURES / "screenshots.json"
CHANGE = (
    "git checkout -q -b shorter",
    'sed -i "/- info: nobody has to act/,/at its pod capacity/d" prompts/alert-severity.prompt.yml',
    'regauge bump alert-severity minor -m "Shorten the rules"; git commit -q -a -m "Shorten the rules"',
    "regauge gate main",
    "regauge report latest --comment --dry-run > comment.md",
    "regauge report latest -o report.html",
)
# As GitHub shows a comment: its fonts, sizes and colours.
STYLE = """
:root { color-scheme: light dark }
body { margin: 0; padding: 20px 24px; width: 992px; font: 14px/1.5 system-ui, sans-serif;
  color: light-dark(#1f2328, #f0f6fc); background: light-dark(#fff, #0d1117) }
h3 { font-size: 17px; margin: 0 0 12px }
code { font: 12px ui-monospace, monospace; padding: 2px 5px; border-radius: 6px;
  background: light-dark(#818b981f, #656c7633) }
pre { padding: 12px; border-radius: 6px; background: light-dark(#f6f8fa, #151b23) }
pre code { padding: 0; background: none; line-height: 18px }
pre { line-height: 18px }
table { border-collapse: collapse; margin: 0 0 14px }
th, td { border: 1px solid light-dark(#d1d9e0, #3d444d); padding: 5px 12px }
.no { display: inline-block; width: 11px; height: 3px; margin-right: 4px; background: #fff;
  border: solid #d1242f; border-width: 7px 3px; border-radius: 9px; vertical-align: -2px }
.gone { display: block; background: light-dark(#ffebe9, #67060c) }
sub { color: light-dark(#59636e, #9198a1) }
"""
HEIGHT = 640
# The prompt of the coverage page ends here.
TALL = 930
# Ids, digests, times, and how many trials a run could take from recordings.
VARYING = re.compile(
    r"\d{8}-\d{6}-[0-9a-f]{4}|[0-9a-f]{7,}|\d{4}-\d\d-\d\d[^ <]*"
    r"|[\d.]+ m?s\b(?: → [\d.]+ m?s\b)?|[\d,]+ (?:trials|calls)"
)


def rejected(scratch: Path) -> tuple[str, Path]:
    """The comment, as Markdown, and the report of a gate that rejects the change."""
    page = Page(path=ROOT / "README.md", scratch=scratch, loaded=LOADED)
    page.begin("repository")
    with page.commands():
        for command in CHANGE:
            page.shell(command)
    comment = page.here / "comment.md"
    return comment.read_text(encoding="utf-8"), page.here / "report.html"


def covered(scratch: Path) -> Path:
    """The coverage page of the prompt that `regauge init` writes."""
    page = Page(path=ROOT / "README.md", scratch=scratch)
    page.begin("empty")
    with page.commands():
        page.shell("regauge init --yes && regauge mutate ticket-kind -o coverage.html")
    return page.here / "coverage.html"


def shown_prompt(page: Path) -> str:
    """The prompt of a coverage page with the marks of its lines."""
    return page.read_text(encoding="utf-8").partition('id="prompt"')[2].partition("</ol>\n<h2")[0]


def digest(comment: str) -> str:
    """The digest of a comment without what differs from run to run."""
    return hashlib.sha256(VARYING.sub("*", comment).encode()).hexdigest()


def main() -> None:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("no Chromium: make browser")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        comment, report = rejected(Path(scratch))
        coverage = covered(Path(scratch))
        body = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(comment)
        body = re.sub("[⛔❌]", '<span class="no"></span>', body)  # browsers differ in its picture
        body = re.sub(r"^(-(?!--).*)\n", r'<span class="gone">\1</span>', body, flags=re.MULTILINE)
        shown = report.with_name("comment.html")
        shown.write_text(f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{body}")
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
        for scheme in ("light", "dark"):
            wide = browser.new_page(color_scheme=scheme, viewport={"width": 1120, "height": HEIGHT})
            wide.goto(report.as_uri())
            wide.screenshot(path=PICTURES / f"report-{scheme}.png")
            narrow = browser.new_page(
                color_scheme=scheme, viewport={"width": 1040, "height": HEIGHT}
            )
            narrow.goto(shown.as_uri())
            narrow.screenshot(path=PICTURES / f"comment-{scheme}.png")
            wide.set_viewport_size({"width": 1120, "height": TALL})
            wide.goto(coverage.as_uri())
            wide.screenshot(path=PICTURES / f"coverage-{scheme}.png")
        browser.close()
        digests = {"comment": digest(comment), "coverage": digest(shown_prompt(coverage))}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
