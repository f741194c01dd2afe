"""Options and arguments that commands share: numbers, inputs, prompts, files to write."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._terminal import unreadable
from regauge.errors import PromptError, UsageError
from regauge.printable import printable
from regauge.prompts import find_prompt
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from regauge.digests import JSON

__all__ = [
    "STDOUT",
    "FiniteRange",
    "OutputFile",
    "evals_option",
    "input_values",
    "named_prompt",
    "write_output",
    "writing",
]


class FiniteRange(click.FloatRange):
    """As click's, without `nan` and infinity, which lie in any of its ranges."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that a word stands for."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


evals_option = click.option(
    "--evals",
    "path",
    type=click.Path(path_type=Path),
    help="Directory or file of evals; by default `evals`.",
)

STDOUT = "-"


class OutputFile(click.Path):
    """A file that a command writes at its end; what cannot be written is refused at once."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the directory of the file."""
        path = str(super().convert(value, param, ctx))
        if path != STDOUT and not Path(path).absolute().parent.is_dir():
            raise UsageError(
                f"{path} cannot be written: there is no {Path(path).parent}\n"
                "  fix: name a file in an existing directory"
            )
        return path


def write_output(text: str, output: str) -> None:
    """Write to a file, or to standard output."""
    if output == STDOUT:
        # A terminal obeys control characters of an output; a program gets the bytes.
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    else:
        with writing(output) as path:
            path.write_text(text, encoding="utf-8")


@contextmanager
def writing(output: str) -> Generator[Path]:
    """The path of the file, for a block that writes it; an error names the file and the cause."""
    try:
        yield Path(output)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror or error}\n"
            "  fix: name a file in an existing directory that you may write to"
        ) from error


def input_values(given: Iterable[str], *, option: str) -> dict[str, JSON]:
    """The inputs by name, from `NAME=TEXT`, `NAME=@FILE` and `NAME:=JSON`.

    Args:
        option: The option they were given to, for messages.

    Raises:
        UsageError: One has no value, is no JSON, or its file cannot be read.
    """
    inputs: dict[str, JSON] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"{option} {item!r} has no value\n  fix: write NAME=VALUE")
        if name.endswith(":"):
            try:
                inputs[name[:-1]] = read_json(value)
            except ValueError as error:
                raise UsageError(f"{option} {item!r}: not JSON: {error}") from error
        elif value.startswith("@"):
            try:
                inputs[name] = Path(value[1:]).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{option} {name}: {unreadable(value[1:], error)}") from error
        else:
            inputs[name] = value
    return inputs


def named_prompt(given: str, *, instead: str) -> Path:
    """The file of a prompt; who writes `NAME@1.0.0` is told what this command takes.

    Args:
        given: A name or a path.
        instead: What to write, with `{name}` and `{version}`.

    Raises:
        PromptError: There is no such prompt, or several files have its name.
        UsageError: A version is part of the name of a prompt that is there.
    """
    try:
        return find_prompt(given)
    except PromptError:
        name, at, version = given.rpartition("@")
        if not (at and version and _is_prompt(name)):
            raise
    fix = instead.format(name=name, version=version)
    raise UsageError(f"{given!r}: this command takes no version behind the name\n  fix: {fix}")


def _is_prompt(name: str) -> bool:
    try:
        find_prompt(name)
    except PromptError:
        return False
    return True
