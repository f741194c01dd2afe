"""Writes what commands say now into the pages: `python -m tests.docs [PAGE]...`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import Page, pages


def main() -> int:
    """Returns how many pages still show something wrong, such as Python that fails."""
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    left = 0
    for path in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            page = Page(path=path, scratch=Path(scratch))
            if page.run():
                path.write_text(page.text, encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch:
            wrong = Page(path=path, scratch=Path(scratch)).run()
        left += bool(wrong)
        print("\n\n".join(wrong) or f"{path}: right")  # noqa: T201 - a command speaks
    return left


if __name__ == "__main__":
    sys.exit(main())
