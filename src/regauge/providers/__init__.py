"""Providers of models: requests, completions, retries and rate limits.

`_types.py` defines the values and the protocol of every provider. `remote.py` is the loop around
each attempt: `_failure.py` explains a failure and decides on retries. `_rate.py` learns the limits
of a server and delays requests. `_http.py` makes an attempt over HTTP.
`_chat.py`, `_responses.py` and `_messages.py` write the requests of an API and read its responses.
`registry.py` finds the providers of other packages.
"""

from regauge.model_id import ModelId as ModelId, parse_model_id as parse_model_id
from regauge.prompts import ToolCall as ToolCall
from regauge.providers._cost import (
    approximate_tokens as approximate_tokens,
    batch_cost_of as batch_cost_of,
    cost_of as cost_of,
    price_of as price_of,
    sum_if_known as sum_if_known,
)
from regauge.providers._endpoint import Endpoint as Endpoint
from regauge.providers._failure import (
    AttemptError as AttemptError,
    Ledger as Ledger,
    call_with_retries as call_with_retries,
    retry_after_s as retry_after_s,
)
from regauge.providers._rate import (
    AdaptiveLimit as AdaptiveLimit,
    PacedTurns as PacedTurns,
    Quota as Quota,
    Window as Window,
    quotas_in as quotas_in,
    window_for as window_for,
)
from regauge.providers._types import (
    Completion as Completion,
    CompletionRequest as CompletionRequest,
    Conversation as Conversation,
    FinishReason as FinishReason,
    Provider as Provider,
    TokenLogprob as TokenLogprob,
    Usage as Usage,
    limit_reached as limit_reached,
    shown_messages as shown_messages,
    shown_output as shown_output,
    text_of as text_of,
    transcript as transcript,
)
from regauge.providers.registry import ProviderContext as ProviderContext
