"""Whether the model that proposes can be asked at all, found out before anything is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import ProviderError
from regauge.runner import endpoint_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.project import Settings
    from regauge.providers import ModelId

__all__ = ["check_key"]


def check_key(settings: Settings, model: ModelId, environ: Mapping[str, str]) -> None:
    """Look for the key of the model that proposes; nobody is asked.

    Raises:
        UsageError: Nothing says where its provider is.
        ProviderError: The variable that should hold its key is not set.
    """
    from regauge.providers._endpoint import Endpoint

    declared = endpoint_of(settings, model.provider)
    if declared is None:
        return
    endpoint = Endpoint(name=model.provider, settings=declared, environ=environ)
    try:
        endpoint.key()
        endpoint.headers()
    except ProviderError as error:
        raise ProviderError(
            f"{model}, which is to propose edits, cannot be asked: {error}\n"
            "  or: let another model propose, with --refiner-model, or none, with"
            " --proposers=rules",
            kind=error.kind,
        ) from error
