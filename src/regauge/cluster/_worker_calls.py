"""The calls of one worker of a cluster; loaded there in a thread, as it takes seconds."""

from __future__ import annotations

import asyncio
import os
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regauge.cluster._calls import (
    case_from,
    digest_endpoint,
    error_to_json,
    find_identity,
    request_from,
    result_to_json,
)
from regauge.errors import ProviderError, UsageError
from regauge.project import EndpointSettings, Project, PythonTarget
from regauge.providers import Endpoint
from regauge.providers.registry import APIS, endpoint_of, load_provider
from regauge.providers.remote import drop_unsupported, open_api
from regauge.recordings import map_texts, redactor_for
from regauge.targets import (
    TargetProvider,
    WorkingFiles,
    find_modules,
    load_target,
    settings_of_target,
)

if TYPE_CHECKING:
    from regauge.providers.remote import AttemptApi
    from regauge.recordings import Redactor
    from regauge.targets import Target


class WorkerCalls:
    """The project and the connections of one worker. For one event loop.

    Args:
        root: The root of the project; None for the project of the working directory.
        width: The most calls at once.
    """

    def __init__(self, root: str | None, width: int) -> None:
        self._project = Project.find(Path(root) if root else None)
        # Read once: loaded modules do not change with a later checkout.
        self._identity = find_identity(self._project.root)
        self._exists = self._project.exists
        self._width = width
        self._endpoints: dict[str, tuple[Endpoint, str]] = {}
        self._apis: dict[str, AttemptApi] = {}
        self._targets: dict[str, tuple[Target, TargetProvider]] = {}
        self._loading = asyncio.Lock()

    @cached_property
    def _redactor(self) -> Redactor:
        return redactor_for(self._project.settings, os.environ)

    async def make(self, call: dict[str, Any]) -> dict[str, Any]:
        """The result of a call: a completion, or the error of an attempt.

        Raises:
            RegaugeError: This worker differs from the driver.
        """
        self._compare(call["identity"])
        redact = self._redactor.redact  # settings that cannot be read prevent the call
        if "target" in call:
            return await self._call_target(call)
        endpoint, api = await self._open(call)
        try:
            request = request_from(call["request"], root=self._project.root)
            if endpoint.settings.api in APIS:
                request = drop_unsupported(request, endpoint)
            completion, quotas = await api.call(request, timeout_s=call["timeout_s"])
        except ProviderError as error:
            return map_texts({"error": error_to_json(error)}, redact)
        result = result_to_json(completion, quotas)
        clean = map_texts(result, redact)
        if clean is not result:
            # The tokens contain the secret, too.
            clean["completion"].pop("logprobs", None)
        return clean

    def _compare(self, driver: dict[str, str]) -> None:
        """Compare this worker with the driver.

        Raises:
            UsageError: They differ.
        """
        if driver["version"] != self._identity["version"]:
            raise UsageError(
                f"it runs regauge {self._identity['version']}, and this command"
                f" {driver['version']}",
                fix=f"install regauge {driver['version']} there, and restart it",
            )
        if not self._exists:
            raise UsageError(
                f"there is no project in its directory, {self._project.root}",
                fix="start it in a checkout of the project",
            )
        if driver["commit"] != self._identity["commit"]:
            theirs, expected = (
                commit[:12] or "no commit"
                for commit in (self._identity["commit"], driver["commit"])
            )
            raise UsageError(
                f"its project is at {theirs}, and the one of this command at {expected}",
                fix=f"check out {expected} there, and restart it",
            )

    async def _call_target(self, call: dict[str, Any]) -> dict[str, Any]:
        """The output of a target for a case, with the retries of its settings.

        Raises:
            RegaugeError: The target differs from the driver's.
        """
        name = call["target"]
        async with self._loading:
            if name not in self._targets:
                self._targets[name] = await asyncio.to_thread(self._load_target, name)
        target, provider = self._targets[name]
        if target.digest != call["digest"]:
            raise UsageError(
                f"the target {name} or a file that it loads is not the one of this command",
                fix="commit it, check it out there, and restart it",
            )
        request = target.request(case_from(call["case"]), call["trial"], origin=call["origin"])
        try:
            result = result_to_json(await provider.complete(request), ())
        except ProviderError as error:
            # Final, as the retries are made.
            error = ProviderError(str(error), kind=error.kind, status=error.status)
            result = {"error": error_to_json(error)}
        return map_texts(result, self._redactor.redact)

    def _load_target(self, name: str) -> tuple[Target, TargetProvider]:
        root, project = self._project.root, self._project.settings
        name, settings = settings_of_target(name, project)
        discover = None
        if isinstance(settings, PythonTarget):
            discover = partial(find_modules, settings, root=root, environ=os.environ)
        target = load_target(name, settings, root=root, files=WorkingFiles(root), discover=discover)
        return target, TargetProvider(
            target,
            home=root,
            environ=os.environ,
            concurrency=self._width,
            timeout_s=project.timeout_s,
        )

    async def _open(self, call: dict[str, Any]) -> tuple[Endpoint, AttemptApi]:
        """The endpoint of a call, and its open connections.

        Raises:
            RegaugeError: The provider differs from the driver's, or has no API key here.
        """
        name = call["request"]["provider"]
        if name not in self._endpoints:
            settings = endpoint_of(self._project.settings, name) or EndpointSettings(api=name)
            endpoint = Endpoint(name=name, settings=settings, environ=os.environ)
            self._endpoints[name] = endpoint, digest_endpoint(endpoint)
        endpoint, digest = self._endpoints[name]
        if digest != call["endpoint"]:
            raise UsageError(
                f"[tool.regauge.providers.{name}] or the URL in its environment is not the one of"
                " this command",
                fix="commit pyproject.toml, check it out there, and restart it",
            )
        api = self._apis.get(name)
        if api is None:
            endpoint.check()
            api_name = endpoint.settings.api
            registered = None if api_name in APIS else load_provider(api_name)(endpoint)
            api = self._apis[name] = open_api(
                endpoint,
                timeout_s=call["timeout_s"],
                connections=self._width + 1,
                registered=registered,
            )
        await api.open()
        return endpoint, api
