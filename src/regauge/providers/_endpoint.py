"""The URL, key and headers of an endpoint, from settings and environment."""

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

# The SDKs require a key; servers without authentication ignore it.
_NO_KEY: Final = "no-key"
_COMMAND_S: Final = 30.0
_KEY_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class _ApiDefaults:
    """The default URL of an API, and the environment variables of its SDK."""

    url: str
    url_env: str
    key_env: str


_OPENAI: Final = _ApiDefaults(url=OPENAI_URL, url_env="OPENAI_BASE_URL", key_env="OPENAI_API_KEY")
_DEFAULTS: Final[Mapping[str, _ApiDefaults]] = {
    "openai": _OPENAI,
    "responses": _OPENAI,
    "anthropic": _ApiDefaults(
        url="https://api.anthropic.com/v1",
        url_env="ANTHROPIC_BASE_URL",
        key_env="ANTHROPIC_API_KEY",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An endpoint as one run sees it.

    Attributes:
        name: The provider's name in model ids.
        settings: Its table in `[tool.regauge.providers]`; its key `options` is free-form.
        environ: The environment of the run.
    """

    name: str
    settings: EndpointSettings
    environ: Mapping[str, str]

    @cached_property
    def url(self) -> str:
        """The URL including `/v1`, without a trailing slash; empty if nothing sets one."""
        home = _DEFAULTS.get(self.settings.api)
        base_url = self.settings.base_url or (
            (self.environ.get(home.url_env) or home.url) if home else ""
        )
        url = base_url.rstrip("/")
        # Anthropic's own tools name the host alone.
        has_path = self.settings.api != "anthropic" or url.endswith("/v1")
        return url if has_path else f"{url}/v1"

    @property
    def key_fix(self) -> str:
        """The fix if the endpoint rejects the key."""
        table = f"[tool.regauge.providers.{self.name}] of pyproject.toml"
        if self.settings.api_key_command:
            return f"see that `api_key_command` prints a key that {self.name!r} accepts, in {table}"
        if self.key_env:
            return f"put a key that {self.name!r} accepts into {self.key_env}"
        return f"name the variable that holds the key as `api_key_env` in {table}"

    @property
    def key_env(self) -> str | None:
        """The variable that holds the key; None if no key is sent, or a command prints it."""
        if self.settings.api_key_env is not None:
            return self.settings.api_key_env
        home = _DEFAULTS.get(self.settings.api)
        if self.settings.base_url or self.settings.api_key_command or home is None:
            return None
        return home.key_env

    def __str__(self) -> str:
        return f"{self.name} ({redact_url(self.url)})" if self.url else self.name

    def check(self) -> None:
        """Check that the key and the headers are set; no command is run.

        Raises:
            ProviderError: The key or a header is missing.
        """
        self.key()
        self.headers()
        command = self.settings.api_key_command
        if command and shutil.which(command[0]) is None:
            raise self._command_error(f"there is no program {command[0]!r}")

    def key(self) -> str:
        """Return the key in the environment, or a placeholder if none is needed.

        Raises:
            ProviderError: The variable is not set, or the URL contains credentials.
        """
        self._refuse_credentials()
        if self.key_env is None:
            return _NO_KEY
        return self._value(
            self.key_env,
            problem=f"no key for provider {self.name!r}",
            other_fix="name another variable as `api_key_env` in",
        )

    async def fetch_key(self) -> str:
        """Return the key for a request: the output of `api_key_command`, else that of `key`.

        Raises:
            ProviderError: There is no key; the message never contains the output of the command.
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
            raise self._command_error(f"cannot be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(_COMMAND_S):
                printed, _ = await process.communicate()
        except TimeoutError as error:
            raise self._command_error(f"did not end within {_COMMAND_S:g} s") from error
        finally:
            # Also ends the command's own processes, and runs if this task is cancelled.
            end_group(process.pid)
        if process.returncode:
            raise self._command_error(f"ended with exit code {process.returncode}")
        key = printed.decode("utf-8", "replace").strip()
        if not key or len(key) > _KEY_MAX or not (key.isascii() and key.isprintable()):
            raise self._command_error("did not print a key, one line of ASCII text")
        return key

    def headers(self) -> dict[str, str]:
        """Return the additional headers of `headers_env`.

        Raises:
            ProviderError: A variable is not set.
        """
        return {
            header: self._value(
                variable,
                problem=f"no value for the header {header!r} of provider {self.name!r}",
                other_fix="remove it from headers_env in",
            )
            for header, variable in self.settings.headers_env.items()
        }

    def _refuse_credentials(self) -> None:
        # Settings refuse them when they are read; this URL may come from the environment.
        if has_credentials(self.url):
            home = _DEFAULTS[self.settings.api]
            raise ProviderError(
                f"the URL of provider {self.name!r} holds a user name or a password:"
                f" {redact_url(self.url)}\n"
                f"  fix: remove what is before the @ from {home.url_env}, and put the key into"
                f" {self.key_env or 'the variable that `api_key_env` names'}",
                kind="authentication",
            )

    def _command_error(self, problem: str) -> ProviderError:
        command = self.settings.api_key_command or [""]
        return ProviderError(
            f"no key for provider {self.name!r}: api_key_command ({command[0]}) {problem}\n"
            f"  fix: run it by hand, then correct it in [tool.regauge.providers.{self.name}] of"
            " pyproject.toml",
            kind="authentication",
        )

    def _value(self, variable: str, *, problem: str, other_fix: str) -> str:
        value = self.environ.get(variable, "").strip()
        if not value or not (value.isascii() and value.isprintable()):
            state = "empty" if variable in self.environ else "not set"
            state = "not one line of ASCII text" if value else state
            raise ProviderError(
                f"{problem}: {variable} is {state}\n"
                f"  fix: export {variable}=..., or {other_fix}"
                f" [tool.regauge.providers.{self.name}] of pyproject.toml",
                kind="authentication",
            )
        return value
