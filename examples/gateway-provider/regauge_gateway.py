"""Models behind a gateway that takes `{"model", "turns"}` and returns `{"output", "tokens"}`."""

from __future__ import annotations

import httpx2

from regauge.providers import (
    AttemptError,
    Completion,
    CompletionRequest,
    ProviderContext,
    Usage,
)


class GatewayProvider:
    """A provider with one attempt per call; regauge retries and limits the rate."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context
        self._team = context.settings.options.get("team", "")
        self._client = httpx2.AsyncClient(base_url=context.settings.base_url or "", timeout=None)

    async def complete(self, request: CompletionRequest) -> Completion:
        key = await self._context.fetch_key()
        turns = [{"by": m.role, "text": m.content} for m in request.messages]
        try:
            response = await self._client.post(
                "/ask",
                json={"model": request.model, "turns": turns, "team": self._team},
                headers={"Authorization": f"Token {key}"},
            )
        except httpx2.HTTPError as error:
            raise AttemptError(
                f"the gateway cannot be reached: {error}", kind="connection", transient=True
            ) from error
        if response.status_code == 429:
            raise AttemptError(
                "the gateway is busy",
                kind="rate-limit",
                status=429,
                transient=True,
                retry_after_s=float(response.headers.get("retry-after", 1)),
            )
        if response.status_code != 200:
            raise AttemptError(
                f"the gateway returned {response.status_code}: {response.text[:200]}",
                kind="server",
                status=response.status_code,
                transient=response.status_code >= 500,
            )
        document = response.json()
        return Completion(
            text=document["output"],
            finish_reason="stop",
            usage=Usage(
                input_tokens=document["tokens"]["in"], output_tokens=document["tokens"]["out"]
            ),
            model=request.model,
            provider=request.provider,
            latency_s=0.0,
        )

    async def aclose(self) -> None:
        await self._client.aclose()
