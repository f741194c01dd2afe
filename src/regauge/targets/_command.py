"""Programs: each case starts one, without a shell."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from regauge.errors import ProviderError
from regauge.judges._external_calls import run_program, values_of
from regauge.prompts import CANDIDATES_ENV
from regauge.strict_json import read_json
from regauge.targets._output import OUTPUT_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.project import CommandTarget

__all__ = ["CommandCaller"]

_GUARD: Final = Path(__file__).with_name("_guard.py")
_ALWAYS: Final = ("PATH", "HOME", "LANG", CANDIDATES_ENV)


class CommandCaller:
    """Starts a program for each case. It ends with this process, whatever ends this one.

    Args:
        settings: Its table.
        root: The directory that it runs in.
        environ: Where the variables are that it gets.
    """

    def __init__(self, settings: CommandTarget, *, root: Path, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._root = root
        self._environ = environ
        # Nothing is written; the guard of a program reads its end, which comes when this one ends.
        self._pipe = os.pipe()

    async def prepare(self) -> None:
        """There is nothing to prepare."""

    async def call(self, case: GoldenCase, *, timeout_s: float) -> JSON:
        """The output of the program: text, or an object as JSON.

        Raises:
            ProviderError: It cannot be started, fails, takes too long, or writes too much.
        """
        own = values_of(
            (
                name.removesuffix("?")
                for name in self._settings.env
                if not name.endswith("?") or self._environ.get(name[:-1])
            ),
            self._environ,
        )
        environ = {name: self._environ[name] for name in _ALWAYS if name in self._environ} | own
        program = self._settings.argv[0]
        if (
            shutil.which(
                self._root / program if "/" in program else program, path=environ.get("PATH")
            )
            is None
        ):
            if "/" in program and (self._root / program).is_file():
                raise ProviderError(
                    f"the program {program!r} is not executable\n"
                    "  fix: make it so with chmod +x, or begin `argv` with its interpreter",
                    kind="not-found",
                )
            raise ProviderError(
                f"the program {program!r} is not found\n"
                "  fix: correct `argv` of the target; the program is looked for in PATH, a path in"
                f" {self._root}",
                kind="not-found",
            )
        body = await run_program(
            [sys.executable, "-I", "-S", str(_GUARD), str(self._pipe[0]), *self._settings.argv],
            json.dumps(case.inputs, ensure_ascii=False).encode("utf-8", "backslashreplace"),
            environ=environ,
            directory=self._root,
            timeout_s=timeout_s,
            output_max=OUTPUT_MAX,
            secrets=own.values(),
            pass_fds=(self._pipe[0],),
        )
        if len(body) > OUTPUT_MAX:
            raise ProviderError(
                f"the command wrote more than {OUTPUT_MAX:,} bytes\n"
                "  fix: write the output alone to standard output",
                kind="too-large",
            )
        try:
            text = body.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ProviderError(
                f"the command wrote what is not UTF-8: {error}\n  fix: write UTF-8",
                kind="malformed",
            ) from error
        if not text:
            raise ProviderError(
                "the command wrote nothing to standard output\n"
                "  fix: write the output as text or JSON",
                kind="malformed",
            )
        try:
            document: JSON = read_json(text)
        except ValueError:
            return text
        return document if isinstance(document, dict) else text

    async def aclose(self) -> None:
        """Have the guards end what still runs."""
        for end in self._pipe:
            os.close(end)
