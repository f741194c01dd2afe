"""`python -m regauge` is the `regauge` command."""

from __future__ import annotations

from regauge.cli import main

if __name__ == "__main__":
    main()
