"""Providers: who answers a request, and what an answer is."""

from regauge.providers._types import (
    Completion,
    CompletionRequest,
    FinishReason,
    ModelId,
    Provider,
    ToolCall,
    Usage,
    parse_model_id,
)

__all__ = [
    "Completion",
    "CompletionRequest",
    "FinishReason",
    "ModelId",
    "Provider",
    "ToolCall",
    "Usage",
    "parse_model_id",
]
