"""Providers: who answers a request, and what an answer is."""

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
    ModelId,
    Provider,
    TokenLogprob,
    ToolCall,
    Usage,
    parse_model_id,
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
