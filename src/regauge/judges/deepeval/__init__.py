"""deepeval's metrics as judges. deepeval itself is imported only when one has to be measured."""

from __future__ import annotations

from regauge.judges.deepeval._declared import DeepevalDeclaration, deepeval
from regauge.judges.deepeval._judge import DeepevalJudge

__all__ = ["DeepevalDeclaration", "DeepevalJudge", "deepeval"]
