"""Where an endpoint is and what it receives about the caller, from settings and environment."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from regauge.errors import ProviderError
from regauge.project import has_credentials, redact_url
from regauge.stop_signals import end_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.project import EndpointSettings

OPENAI_URL: Final = "https://api.openai.com/v1"

# The SDKs insist on a key; servers that want none do not look at it.
_NO_KEY: Final = "no-key"
_COMMAND_S: Final = 30.0
_KEY_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Home:
    """Where an API is where the settings name no `base_url`, and the variables of its SDK."""

    url: str
    url_env: str
    key_env: str


_OPENAI: Final = _Home(url=OPENAI_URL, url_env="OPENAI_BASE_URL", key_env="OPENAI_API_KEY")
_HOMES: Final[Mapping[str, _Home]] = {
    "openai": _OPENAI,
    "responses": _OPENAI,
    "anthropic": _Home(
        url="https://api.anthropic.com/v1",
        url_env="ANTHROPIC_BASE_URL",
        key_env="ANTHROPIC_API_KEY",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An endpoint as one run sees it."""

    name: str
    settings: EndpointSettings
    environ: Mapping[str, str]

    @cached_property
    def url(self) -> str:
        """Up to and with `/v1`, without a slash behind it; empty where nothing sets one."""
        home = _HOMES.get(self.settings.api)
        base_url = self.settings.base_url or (
            (self.environ.get(home.url_env) or home.url) if home else ""
        )
        url = base_url.rstrip("/")
        # Anthropic's own tools name the host alone.
        whole = self.settings.api != "anthropic" or url.endswith("/v1")
        return url if whole else f"{url}/v1"

    @property
    def key_fix(self) -> str:
        """The fix where the endpoint refuses the key."""
        table = f"[tool.regauge.providers.{self.name}] of pyproject.toml"
        if self.settings.api_key_command:
            return f"see that `api_key_command` prints a key that {self.name!r} accepts, in {table}"
        if self.key_env:
            return f"put a key that {self.name!r} accepts into {self.key_env}"
        return f"name the variable that holds the key as `api_key_env` in {table}"

    @property
    def key_env(self) -> str | None:
        """The variable that holds the key; None where none is sent, or a command prints it."""
        if self.settings.api_key_env is not None:
            return self.settings.api_key_env
        home = _HOMES.get(self.settings.api)
        if self.settings.base_url or self.settings.api_key_command or home is None:
            return None
        return home.key_env

    def __str__(self) -> str:
        return f"{self.name} ({redact_url(self.url)})" if self.url else self.name

    def check(self) -> None:
        """Look for the key and the headers; no command is run.

        Raises:
            ProviderError: One of them cannot be had.
        """
        self.key()
        self.headers()
        command = self.settings.api_key_command
        if command and shutil.which(command[0]) is None:
            raise self._command_failed(f"there is no program {command[0]!r}")

    def key(self) -> str:
        """The key in the environment, or a placeholder where none is needed.

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

    async def fetch_key(self) -> str:
        """The key for a request: what `api_key_command` prints, else that of `key`.

        Raises:
            ProviderError: There is none; the output of the command is never part of the message.
        """
        command = self.settings.api_key_command
        if not command:
            return self.key()
        self._refuse_credentials()
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise self._command_failed(f"cannot be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(_COMMAND_S):
                printed, _ = await process.communicate()
        except TimeoutError as error:
            raise self._command_failed(f"did not end within {_COMMAND_S:g} s") from error
        finally:
            # Whatever it started, too, and where this task is cancelled.
            end_group(process.pid)
        if process.returncode:
            raise self._command_failed(f"ended with exit code {process.returncode}")
        key = printed.decode("utf-8", "replace").strip()
        if not key or len(key) > _KEY_MAX or not key.isprintable():
            raise self._command_failed("did not print a key, one line of text")
        return key

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
            home = _HOMES[self.settings.api]
            raise ProviderError(
                f"the URL of provider {self.name!r} holds a user name or a password:"
                f" {redact_url(self.url)}\n"
                f"  fix: remove what is before the @ from {home.url_env}, and put the key into"
                f" {self.key_env or 'the variable that `api_key_env` names'}",
                kind="authentication",
            )

    def _command_failed(self, what: str) -> ProviderError:
        command = self.settings.api_key_command or [""]
        return ProviderError(
            f"no key for provider {self.name!r}: api_key_command ({command[0]}) {what}\n"
            f"  fix: run it by hand, then correct it in [tool.regauge.providers.{self.name}] of"
            " pyproject.toml",
            kind="authentication",
        )

    def _value(self, variable: str, *, what: str, otherwise: str) -> str:
        value = self.environ.get(variable, "").strip()
        if not value:
            state = "empty" if variable in self.environ else "not set"
            raise ProviderError(
                f"{what}: {variable} is {state}\n"
                f"  fix: export {variable}=..., or {otherwise}"
                f" [tool.regauge.providers.{self.name}] of pyproject.toml",
                kind="authentication",
            )
        return value
