"""What is built on deepeval itself; to import it is to import deepeval, quietly."""

from __future__ import annotations

from regauge.judges.deepeval._guard import import_quietly

# The modules of this package import deepeval at their top, so it has to be quiet by then.
import_quietly()
