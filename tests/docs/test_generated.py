"""What cog writes into the reference pages is what it would write now."""

from __future__ import annotations

import os

from tests import processes
from tests.docs.pages import ROOT


def test_the_generated_parts_of_the_reference_are_not_stale():
    pages = sorted(str(path) for path in (ROOT / "docs" / "reference").glob("*.md"))
    done = processes.run("cogapp", "--check", *pages, cwd=ROOT, env={**os.environ})
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nwrite it anew: make docs"
