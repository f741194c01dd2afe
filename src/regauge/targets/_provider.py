"""Calls a target like a model: with limits, retries, a deadline and a pace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from regauge.errors import ProviderError
from regauge.project import CommandTarget, HttpTarget, PythonTarget, RecordedTarget
from regauge.prompts import CANDIDATES_ENV
from regauge.providers import AdaptiveLimit, AttemptError, Ledger, call_with_retries, window_for
from regauge.targets._external import CommandCaller, HttpCaller
from regauge.targets._output import completion_of
from regauge.targets._python import PythonCaller
from regauge.wording import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set as AbstractSet
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.providers import Completion, CompletionRequest
    from regauge.targets._target import Target

_AUTO_WIDTH: Final = 64
_NAMED_MAX: Final = 5
# Transient failures, which are retried.
_PASSING: Final = frozenset({"timeout", "exception", "crash", "command"})

# Failures of the code itself. A retry of the base cannot remove them, so the gate uses its baseline
# alone.
_OF_CODE: Final = frozenset({
    "import", "outside", "signature", "exception", "crash", "command", "malformed", "too-large",
    "closed",
})  # fmt: skip


Caller: TypeAlias = "PythonCaller | HttpCaller | CommandCaller"


class TargetProvider:
    """The provider of a target's outputs. For one event loop.

    Args:
        target: The target.
        home: The root of the working project, also for the code of another commit.
        environ: The environment.
        concurrency: Calls at once, if the target does not set it.
        timeout_s: The time limit of a call in seconds, if the target does not set it.
        note: Called with each warning for the user.
    """

    def __init__(
        self,
        target: Target,
        *,
        home: Path,
        environ: Mapping[str, str],
        concurrency: int | Literal["auto"],
        timeout_s: float,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._note = note
        self._target = target
        self._settings = target.call_settings or target.settings
        width = self._settings.concurrency or concurrency
        if width == "auto" and isinstance(self._settings, CommandTarget):
            width = 2 * (os.cpu_count() or 1)  # a program takes a processor
        self._width = _AUTO_WIDTH if width == "auto" else width
        self._limit = AdaptiveLimit(window_for(width))
        self._timeout_s = self._settings.timeout_s or timeout_s
        self._home = home
        self._environ = environ
        if target.candidates is not None:
            self._environ = {**environ, CANDIDATES_ENV: str(target.candidates)}
        self._open_caller: Caller | None = None

    async def complete(self, request: CompletionRequest) -> Completion:
        """The output for the case of a request.

        Raises:
            ProviderError: There is none.
        """
        case = request.case
        assert case is not None
        if self._target.unavailable:
            raise ProviderError(self._target.unavailable, kind="unavailable")

        async def attempt(ledger: Ledger) -> Completion:
            async with self._limit.permit(is_retry=ledger.attempts > 1) as permit:
                caller = self._caller()
                if isinstance(caller, PythonCaller):
                    await caller.prepare()
                timeout_s, spent_s = min(self._timeout_s, ledger.left_s), ledger.spent_s
                try:
                    with ledger.clock():
                        output = await caller.call(case, timeout_s=timeout_s)
                except AttemptError as error:
                    if error.kind == "rate-limit":
                        permit.on_rate_limit(error.quotas)
                    raise
                except ProviderError as error:
                    kind, text = error.kind, str(error)
                    transient = kind in _PASSING
                    if self._target.checkout is not None and kind in _OF_CODE:
                        kind = "unavailable"
                        text = f"{error.message}\n  fix: have the code of the base run here"
                    raise AttemptError(text, kind=kind, transient=transient) from error
                permit.on_success()
                return completion_of(
                    output,
                    provider=request.provider,
                    model=self._target.name,
                    latency_s=ledger.spent_s - spent_s,
                    cost_usd=self._settings.cost_usd,
                    attempts=ledger.attempts,
                )

        return await call_with_retries(
            attempt,
            Ledger(max_attempts=self._settings.max_attempts, deadline_s=self._settings.deadline_s),
        )

    async def aclose(self) -> None:
        """Close connections, end processes, and warn of undeclared files."""
        if self._open_caller is None:
            return
        if not isinstance(self._open_caller, HttpCaller):
            await self._open_caller.aclose()
        if isinstance(self._open_caller, PythonCaller) and self._target.as_declared:
            self._note_undeclared(self._open_caller.late)

    def _note_undeclared(self, late: AbstractSet[str]) -> None:
        """Warn of files that outputs depend on and that are missing in the target's identity."""
        files = cast("Mapping[str, JSON]", self._target.identity["files"])
        root = self._target.root
        prompts = {prompt.path.relative_to(root).as_posix() for prompt in self._target.prompts}
        undeclared = sorted(late - files.keys() - prompts)
        modules = [path for path in undeclared if path.endswith(".py")]
        other_files = [path for path in undeclared if not path.endswith(".py")]
        effect = "so a change there leaves its recordings as they are"
        if modules:
            self._note(
                f"the target {self._target.name} imports {', '.join(modules)} during its calls,"
                f" {effect}; import it at the top of a module, or name it in `files` of the target"
            )
        if other_files:
            self._note(
                f"the target {self._target.name} reads {first_of(other_files, _NAMED_MAX)},"
                f" {effect}; name prompts in `prompts` and other files in `files`,"
                " with the target's modules"
            )

    def _caller(self) -> Caller:
        if self._open_caller is None:
            self._open_caller = self._open()
        return self._open_caller

    def _open(self) -> Caller:
        target = self._target
        root = target.checkout() if target.checkout is not None else target.root
        match self._settings:
            case PythonTarget(callable=name, deadline_s=deadline_s):
                return PythonCaller(
                    name=name,
                    root=root,
                    home=self._home,
                    environ=self._environ,
                    width=self._width,
                    import_s=deadline_s,
                    is_tool=target.is_tool,
                )
            case HttpTarget() as http:
                return HttpCaller(target.name, http, environ=self._environ)
            case CommandTarget() as command:
                return CommandCaller(command, root=root, environ=self._environ)
            case RecordedTarget():
                raise AssertionError("recorded outputs are read, not called")
