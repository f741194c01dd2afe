"""Where an endpoint is and what it is told about the caller, from settings and environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from regauge.errors import ProviderError
from regauge.project import has_credentials, shown_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.project import EndpointSettings

__all__ = ["OPENAI_URL", "Endpoint"]

OPENAI_URL: Final = "https://api.openai.com/v1"

_OPENAI_KEY: Final = "OPENAI_API_KEY"
# The SDK insists on a key; servers that want none do not look at it.
_NO_KEY: Final = "no-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint as one run sees it."""

    name: str
    settings: EndpointSettings
    environ: Mapping[str, str]

    @property
    def url(self) -> str:
        """Up to and with `/v1`, without a slash behind it."""
        given = self.settings.base_url or self.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        return given.rstrip("/")

    @property
    def key_env(self) -> str | None:
        """The variable that holds the key; None where none is sent."""
        if self.settings.api_key_env is not None:
            return self.settings.api_key_env
        return None if self.settings.base_url else _OPENAI_KEY

    def __str__(self) -> str:
        return f"{self.name} ({shown_url(self.url)})"

    def key(self) -> str:
        """The key, or a placeholder where none is needed.

        Raises:
            ProviderError: The variable that should hold it is not set, or there are credentials
                in the URL.
        """
        self._refuse_credentials()
        if self.key_env is None:
            return _NO_KEY
        return self._value(
            self.key_env,
            what=f"no key for provider {self.name!r}",
            otherwise="name another variable as `api_key_env` in",
        )

    def headers(self) -> dict[str, str]:
        """The further headers of `headers_env`.

        Raises:
            ProviderError: A variable that should hold one is not set.
        """
        return {
            header: self._value(
                variable,
                what=f"no value for the header {header!r} of provider {self.name!r}",
                otherwise="remove it from headers_env in",
            )
            for header, variable in self.settings.headers_env.items()
        }

    def _refuse_credentials(self) -> None:
        # Settings refuse them when they are read; this URL may come from the environment.
        if has_credentials(self.url):
            raise ProviderError(
                f"the URL of provider {self.name!r} holds a user name or a password:"
                f" {shown_url(self.url)}\n"
                "  fix: remove what is before the @ from OPENAI_BASE_URL, and put the key into"
                f" {self.key_env or 'the variable that `api_key_env` names'}",
                kind="authentication",
            )

    def _value(self, variable: str, *, what: str, otherwise: str) -> str:
        value = self.environ.get(variable, "").strip()
        if not value:
            raise ProviderError(
                f"{what}: {variable} is not set\n"
                f"  fix: export {variable}=..., or {otherwise}"
                f" [tool.regauge.providers.{self.name}] of pyproject.toml",
                kind="authentication",
            )
        return value
