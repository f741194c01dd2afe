"""The gate inside a pytest run: it decides before the items report, and each says its part.

`_gate.py` runs it and lets items and the summary say what came of it, `_result.py` is what an item
holds of it, `_request.py` what a command asks of it, and `_again.py` the command that goes on.
"""

from __future__ import annotations

from regauge.pytest_gate._gate import PytestGate
from regauge.pytest_gate._request import GateRequest, request_key
from regauge.pytest_gate._result import GatedResult, GateFailed

__all__ = ["GateFailed", "GateRequest", "GatedResult", "PytestGate", "request_key"]
