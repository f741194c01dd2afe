"""Embeddings of texts from any endpoint with OpenAI's embeddings API, through the openai SDK."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from regauge.providers._endpoint import Endpoint
from regauge.providers._failure import AttemptError, Ledger, call_with_retries
from regauge.providers._http import HttpApi
from regauge.providers._types import CompletionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx2

    from regauge.project import EndpointSettings

# The default of the endpoint's `timeout_s`.
_TIMEOUT_S: Final = 60.0
_CONNECTIONS: Final = 100


class OpenAIEmbedder:
    """An embedding model at one OpenAI-compatible endpoint. For one event loop.

    Args:
        endpoint: `[tool.regauge.providers.<name>]`.
        name: The name of that table, or `openai`.
        model: The embedding model, without the provider.
        environ: The environment with the key.
        transport: Replaces the network; None for the network.
    """

    def __init__(
        self,
        endpoint: EndpointSettings,
        *,
        name: str,
        model: str,
        environ: Mapping[str, str],
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = endpoint
        self._endpoint = Endpoint(name=name, settings=endpoint, environ=environ)
        self._model = model
        # Errors refer to it; it is never sent.
        self._about = CompletionRequest(
            model=model, provider=name, messages=(), parameters={}, origin="the embedding judge"
        )
        self._timeout_s = endpoint.timeout_s or _TIMEOUT_S
        self._api = HttpApi(
            self._endpoint,
            timeout_s=self._timeout_s,
            connections=_CONNECTIONS,
            transport=transport,
        )

    @property
    def model(self) -> str:
        """The model, as `provider:model`."""
        return f"{self._endpoint.name}:{self._model}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the embedding of each text, in their order.

        Raises:
            ProviderError: The request failed; `kind` is the reason.
        """
        ledger = Ledger(
            max_attempts=self._settings.max_attempts, deadline_s=self._settings.deadline_s
        )

        async def attempt(ledger: Ledger) -> list[list[float]]:
            with ledger.clock():
                try:
                    response = await self._api.perform(
                        lambda sdk: sdk.client.embeddings.create(
                            model=self._model, input=list(texts), encoding_format="float"
                        ),
                        request=self._about,
                        timeout_s=min(self._timeout_s, ledger.left_s),
                    )
                except (ValueError, RecursionError, OverflowError) as error:
                    raise self._malformed_error(str(error)[:200]) from error
                return self._vectors(response, len(texts))

        return await call_with_retries(attempt, ledger)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()

    def _vectors(self, response: Any, count: int) -> list[list[float]]:
        """Return the embeddings of a response in the order of the texts."""
        data: Any = getattr(response, "data", None)
        try:
            items = sorted(data, key=lambda part: part.index)
            vectors = [[float(value) for value in part.embedding] for part in items]
        except (TypeError, ValueError, AttributeError) as error:
            raise self._malformed_error("a reply without vectors") from error
        lengths = {len(vector) for vector in vectors}
        finite = all(math.isfinite(value) for vector in vectors for value in vector)
        if len(vectors) != count or len(lengths) != 1 or 0 in lengths or not finite:
            raise self._malformed_error(f"{len(vectors)} vectors for {count} texts, or broken ones")
        return vectors

    def _malformed_error(self, problem: str) -> AttemptError:
        return AttemptError(
            f"{self._endpoint} gave no vectors of {self.model}: {problem}",
            kind="malformed",
            transient=False,
        )
