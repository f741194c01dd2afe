"""Providers of models: requests, completions, and everything between them.

`_types.py` is what every provider takes and gives. `remote.py` is the loop around each attempt:
`_retry.py` is the one place where a request is made again, `_rate.py` learns the limits of a server
and holds requests back. `_http.py` makes an attempt over HTTP; `_chat.py`, `_responses.py` and
`_messages.py` write the requests of an API and read its responses, `_failure.py` and `_client.py`
say what failed. `registry.py` finds the providers of other packages.
"""

from regauge.model_id import ModelId, parse_model_id
from regauge.providers._conversation import (
    Conversation,
    shown_messages,
    shown_output,
    text_of,
    transcript,
)
from regauge.providers._cost import (
    approximate_tokens,
    batch_cost_of,
    cost_of,
    price_of,
)
from regauge.providers._failure import AttemptError
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
from regauge.providers.registry import ProviderContext

__all__ = [
    "AdaptiveLimit",
    "AttemptError",
    "Completion",
    "CompletionRequest",
    "Conversation",
    "FinishReason",
    "ModelId",
    "Permit",
    "Provider",
    "ProviderContext",
    "TokenLogprob",
    "ToolCall",
    "Usage",
    "Window",
    "approximate_tokens",
    "batch_cost_of",
    "cost_of",
    "parse_model_id",
    "price_of",
    "shown_messages",
    "shown_output",
    "text_of",
    "transcript",
    "window_for",
]
