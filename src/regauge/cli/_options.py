"""Options that commands share, each with one name and one help text, and their values."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from regauge.errors import PromptError, UsageError
from regauge.model_id import parse_model_id
from regauge.project import Project
from regauge.prompts import find_prompt
from regauge.strict_json import read_json
from regauge.wording import encodable, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from click.decorators import FC

    from regauge.digests import JSON
    from regauge.project import RecordMode


class FiniteRange(click.FloatRange):
    """A range that excludes `nan` and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert a text to a number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def _in_order(*options: Callable[[Any], Any]) -> Callable[[FC], FC]:
    """Combine options to one decorator, in the order of the help."""

    def decorate(function: FC) -> FC:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


batch_options = _in_order(
    click.option(
        "--batch",
        is_flag=True,
        help="Take the results of batches, then submit what is missing as batches, at half the"
        " price at most vendors.",
    ),
    click.option(
        "--collect",
        is_flag=True,
        help="Take the results of batches, or those in FILE.jsonl; submit nothing.",
    ),
    click.option(
        "--no-submit", is_flag=True, help="With --batch: only write the files of requests."
    ),
)
STDOUT = "-"


class OutputFile(click.Path):
    """A file that a command writes at its end; its directory is checked at the start."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the directory of the file."""
        path = str(super().convert(value, param, ctx))
        if path != STDOUT and not Path(path).absolute().parent.is_dir():
            fix = "name a file in an existing directory"
            raise UsageError(f"{path} cannot be written: there is no {Path(path).parent}", fix=fix)
        return path


class Concurrency(click.IntRange):
    """A number of requests, or `auto`."""

    def __init__(self) -> None:
        super().__init__(1, 1024)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the number."""
        return str(value if value == "auto" else super().convert(value, param, ctx))


class ModelName(click.ParamType):
    """A model, as provider:model."""

    name = "model"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that it names a provider and a model."""
        del ctx
        parse_model_id(value, location=param.opts[0] if param is not None else "")
        return str(value)


def number_option(
    name: str, kind: click.ParamType, text: str, *, default: float | None = None, metavar: str = "N"
) -> Callable[[FC], FC]:
    """An option for a number; its help states a default."""
    with_default = default is not None
    return click.option(
        name, type=kind, default=default, show_default=with_default, metavar=metavar, help=text
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
dry_run_option = click.option(
    "-n", "--dry-run", is_flag=True, help="Print planned calls, cost or files, then exit."
)
evals_option = click.option(
    "--evals",
    "path",
    type=click.Path(path_type=Path),
    help="Directory or file of evals; by default `evals`.",
)
concurrency_option = click.option(
    "--concurrency", type=Concurrency(), metavar="N|auto", help="Requests in flight at once."
)
judge_model_option = click.option(
    "--judge-model",
    type=ModelName(),
    metavar="ID",
    help="Model of judges that name none, as provider:model.",
)
seed_option = number_option("--seed", click.IntRange(min=0), "Random seed.", default=0)
limit_option = number_option("--limit", click.IntRange(min=1), "Most items.", default=20)
baseline_option = click.option(
    "--baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A baseline to use instead of the committed one.",
)
apply_option = click.option(
    "--apply", "apply_it", is_flag=True, help="Write the proposal to its files."
)
prune_option = click.option("--prune", is_flag=True, help="Remove stale recordings.")
proposers_option = click.option("--proposers", metavar="A,B", help="Proposers, cheapest first.")
refiner_option = click.option(
    "--refiner-model", type=ModelName(), metavar="ID", help="Model for critiques and edits."
)
strict_option = click.option("--strict", is_flag=True, help="Exit with 1 on warnings too.")
tier_option = click.option(
    "--tier", type=click.Choice(["critical", "required", "tracked"]), help="The case's tier."
)
input_option = click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="INPUT=VALUE",
    help="An input: NAME=TEXT, NAME=@FILE or NAME:=JSON; repeatable.",
)


dataset_option = click.option("--dataset", metavar="NAME", help="The golden dataset of the cases.")
from_run_option = click.option(
    "--from-run", metavar="RUN", help="Take outputs of this run: its id, or latest."
)
install_option = click.option(
    "--install", metavar="COMMAND", help="Command that installs regauge in workflows."
)


branch_option = click.option(
    "--branch",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    help="Commit the proposal on a branch.",
)
pr_option = click.option(
    "--pr", is_flag=True, help="Push the branch; open or update its pull request."
)


def _repeatable_option(
    name: str, text: str, *, multiple: bool = False, **attributes: Any
) -> Callable[[FC], FC]:
    """An option whose parameter is named in the plural if it is repeatable."""
    parameter = f"{name}s" if multiple else name
    return click.option(f"--{name}", parameter, multiple=multiple, help=text, **attributes)


model_option = partial(
    _repeatable_option, "model", "Model, as provider:model.", type=ModelName(), metavar="ID"
)
prompt_option = partial(_repeatable_option, "prompt", "Only this prompt.", metavar="NAME")


def record_option(*modes: RecordMode, default: RecordMode | None = None) -> Callable[[FC], FC]:
    """`--record MODE`, with the modes that a command has."""
    return click.option(
        "--record",
        type=click.Choice(modes or ("none", "missing", "all")),
        default=default,
        help="Record mode, as for `pytest evals`.",
    )


def trials_option(low: int, high: int, *, default: int | None = None) -> Callable[[FC], FC]:
    """`--trials N`."""
    return number_option("--trials", click.IntRange(low, high), "Trials per case.", default=default)


def output_option(*, default: str | None = None) -> Callable[[FC], FC]:
    """`-o, --output FILE`."""
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=OutputFile(),
        default=default,
        help="File to write, with its format as suffix; `-` is standard output.",
    )


budget_options = _in_order(
    number_option(
        "--budget-usd", FiniteRange(min=0), "Limit of the cost in US dollars.", metavar="X"
    ),
    number_option("--budget-calls", click.IntRange(min=0), "Limit of calls."),
    number_option("--budget-tokens", click.IntRange(min=0), "Limit of tokens."),
)
run_options = _in_order(concurrency_option, budget_options, evals_option)
"""The options of all commands that run evals."""


def refuse_options(options: Mapping[str, object], reason: str, *, fix: str) -> None:
    """Refuse options that are given.

    Args:
        options: The values by option.
        reason: The message after the name of the option.
        fix: The fix; `{option}` is the name of the option.

    Raises:
        UsageError: An option has a value other than None, False and the like.
    """
    for option, value in options.items():
        if value:
            raise UsageError(f"{option} {reason}", fix=fix.format(option=option))


def write_output(text: str | Iterable[str], output: str) -> None:
    """Write a text, or its pieces, to a file or to standard output."""
    pieces = [text] if isinstance(text, str) else text
    if output == STDOUT:
        # Control characters are escaped for a terminal only.
        sys.stdout.writelines(map(printable if sys.stdout.isatty() else encodable, pieces))
    else:
        with output_path(output) as path, path.open("w", encoding="utf-8") as file:
            file.writelines(map(encodable, pieces))


def write_and_report(text: str | Iterable[str], output: str) -> None:
    """Write as `write_output` does, and print the name of the file."""
    write_output(text, output)
    if output != STDOUT:
        click.echo(f"wrote {output}", err=True)


@contextmanager
def output_path(output: str) -> Generator[Path]:
    """The path of a file that the block writes; an error becomes a UsageError."""
    try:
        yield Path(output)
    except OSError as error:
        message = f"{output} cannot be written: {error.strerror or error}"
        fix = "name a file in an existing directory that you may write to"
        raise UsageError(message, fix=fix) from error


def read_file(name: str, *, place: str = "", prefix: str = "", is_stdin: bool = False) -> str:
    """Read a text file that the user named.

    Args:
        name: The path.
        place: The path in the message; by default `name`.
        prefix: Text before the message.
        is_stdin: Whether to read standard input instead.

    Raises:
        UsageError: It cannot be read, or is not UTF-8.
    """
    place = place or name
    try:
        stdin = click.get_text_stream("stdin") if is_stdin else None
        text = Path(name).read_text(encoding="utf-8") if stdin is None else stdin.read()
        return text.removeprefix("\ufeff")  # the byte order mark of Windows
    except UnicodeDecodeError as error:
        raise UsageError(f"{prefix}{place} is not UTF-8", fix="save it as UTF-8") from error
    except OSError as error:
        message = f"{prefix}{place} cannot be read: {error.strerror or error}"
        raise UsageError(message, fix="name a file that is there") from error


def parse_inputs(words: Iterable[str]) -> dict[str, JSON]:
    """Parse `--input` options: `NAME=TEXT`, `NAME=@FILE` and `NAME:=JSON`.

    Raises:
        UsageError: An input has no value, is not JSON, or its file cannot be read.
    """
    inputs: dict[str, JSON] = {}
    for item in words:
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--input {item!r} has no value\n  fix: write NAME=VALUE")
        if name.endswith(":"):
            try:
                inputs[name[:-1]] = read_json(value)
            except ValueError as error:
                raise UsageError(f"--input {item!r}: not JSON: {error}") from error
        elif value.startswith("@"):
            inputs[name] = read_file(value[1:], prefix=f"--input {name}: ")
        else:
            inputs[name] = value
    return inputs


def find_prompt_file(prompt_name: str, *, instead: str) -> Path:
    """Find the file of a prompt; `NAME@1.0.0` is refused.

    Args:
        prompt_name: A name or a path.
        instead: The correct command, with `{name}` and `{version}`.

    Raises:
        PromptError: There is no such prompt, or several files have its name.
        UsageError: The name of an existing prompt has a version.
    """
    try:
        return find_prompt(prompt_name, also=[*Project.find().settings.targets])
    except PromptError:
        name, sign, version = prompt_name.rpartition("@")
        if not (sign and version):
            raise
        with suppress(PromptError):
            find_prompt(name)
            fix = instead.format(name=quote(name), version=version)
            raise UsageError(
                f"{prompt_name!r}: this command takes no version behind the name", fix=fix
            ) from None
        raise
