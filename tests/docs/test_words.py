"""README, CHANGELOG and docs use one word per thing, in plain sentences."""

from __future__ import annotations

import re

import pytest

from tests.docs.test_links import DOCS, FENCE, PAGES, ROOT

# Each pattern, with the words to use. A line that needs one ends with `<!-- words: ok REASON -->`.
BANNED = {
    r"anew|once more": "again",
    r"beside": "next to",
    r"in place of": "instead of",
    r"nobody|somebody|whoever": "the role",
    r"tells?(?! (us )?apart)|told": "report, show",
    r"hears?|heard|heeds?|mends?|amiss|fares?": "use, fix, perform",
    r"likewise|surely": "too, certainly",
    r"goes on|take back|took back|came of|became of|held against": "continues, roll back, compare",
    r"(the|this|each|a|LLM) judges? (that )?(gates?|informs?)": "is blocking, is advisory",
    r"repairs?|repaired": "fix",
    r"findings?": "error, warning",
    r"draws?|drawn|drew": "trial, run",
}
ALLOWED = re.compile(r"<!-- words: ok \S.*? -->")
CODE = re.compile(r"`[^`\n]+`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
FRONTED = re.compile(r"(?:^|(?<=[.!?] ))(?:No|Nothing|None|Nobody|Never) [a-z]", re.MULTILINE)
# Pages that others write at the moment, or that describe texts of models.
LATER = {"docs/explanation/refinement.md", "docs/explanation/refinement-benchmark.md"}
CHECKED = [page for page in PAGES if str(page.relative_to(ROOT)) not in LATER]


def lines_of(page):
    """The prose of a page, line by line, with its line numbers."""
    text = page.read_text(encoding="utf-8")
    blank = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for number, line in enumerate(blank.splitlines(), 1):
        if not ALLOWED.search(line):
            yield number, CODE.sub("`code`", line)


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_banned_word_is_used(page):
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: {hit[0]!r}: {instead}"
        for number, line in lines_of(page)
        for pattern, instead in BANNED.items()
        for hit in re.finditer(rf"\b(?:{pattern})\b", line, re.IGNORECASE)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_begin_with_what_is(page):
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for number, line in lines_of(page)
        if FRONTED.search(line) and not line.startswith("|")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_docs_stay_short():
    """README and docs together; shorten another page to add one."""
    pages = [ROOT / "README.md", *(page for page in PAGES if DOCS in page.parents)]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 67_600
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
