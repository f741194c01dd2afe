"""deepeval's metrics as judges. deepeval itself is imported only when one has to be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.judges.deepeval._declared import DeepevalDeclaration, deepeval
from regauge.on_demand import names_of

if TYPE_CHECKING:
    from regauge.judges.deepeval._judge import DeepevalJudge
else:
    __getattr__ = names_of(__name__, {"_judge": "DeepevalJudge"})

__all__ = ["DeepevalDeclaration", "DeepevalJudge", "deepeval"]
