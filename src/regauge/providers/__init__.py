"""Providers: who answers a request, and what an answer is.

`_types.py` is what every provider takes and gives. `openai.py` serves any endpoint that speaks
OpenAI's interface: `_wire.py` writes requests and reads replies, `_retry.py` is the one place
where a request is made again, `_failure.py` and `_network.py` say what failed, `_pace.py` learns
the rate that a server grants, `_quota.py` reads what it states, and `_rate.py` holds requests
back.
"""

from regauge.model_id import ModelId, parse_model_id
from regauge.providers._cost import (
    Estimate,
    approximate_tokens,
    cost_of,
    estimate_requests,
    price_of,
)
from regauge.providers._rate import AdaptiveLimit, Permit, Window, window_for
from regauge.providers._types import (
    Completion,
    CompletionRequest,
    FinishReason,
    Provider,
    TokenLogprob,
    ToolCall,
    Usage,
)

__all__ = [
    "AdaptiveLimit",
    "Completion",
    "CompletionRequest",
    "Estimate",
    "FinishReason",
    "ModelId",
    "Permit",
    "Provider",
    "TokenLogprob",
    "ToolCall",
    "Usage",
    "Window",
    "approximate_tokens",
    "cost_of",
    "estimate_requests",
    "parse_model_id",
    "price_of",
    "window_for",
]
