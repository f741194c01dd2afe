"""Every example of the README and of the pages in docs runs and says what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, Page, pages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_the_page_shows_is_what_happens(path: Path, tmp_path: Path):
    wrong = Page(path=path, scratch=tmp_path).run()
    assert not wrong, "\n\n".join([*wrong, "write it anew: python -m tests.docs"])
