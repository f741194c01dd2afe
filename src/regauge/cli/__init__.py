"""The `regauge` command: its subcommands, each loaded when it is called."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import traceback
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click

from regauge.errors import MachineError, RegaugeError, UsageError
from regauge.stop_signals import interrupt_once
from regauge.wording import printable
from regauge.workflow_commands import GuardedOutput, in_github_actions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.recordings import Redactor

__all__ = ["COMMANDS", "GROUPS", "HIDDEN", "INTERRUPTED", "Command", "Group", "group", "main"]


class Command(click.Command):
    """A command whose docstring ends with its examples and exit codes, shown behind the options."""

    def __init__(self, *args: Any, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        text, mark, examples = inspect.cleandoc(self.help or "").partition("\n\nExamples:\n")
        if mark:
            self.help, self.epilog = text, f"\b\nExamples:\n{examples}"


class Group(Command, click.Group):
    """A group that suggests the closest command for an unknown name."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # Newer versions of click suggest a name themselves.
            if "mean" not in error.format_message():
                from regauge.wording import did_you_mean  # imported only for an error

                near = did_you_mean(args[0], self.list_commands(ctx))
                error.message = f"{error.message} {near[:1].upper()}{near[1:]}".rstrip()
            raise


GROUPS: dict[str, dict[str, str]] = {
    "Write": {
        "init": "Set up regauge in this project",
        "new": "Create a file from a template",
        "import": "Import a suite of another tool, such as promptfoo",
        "bump": "Release a new version of a prompt",
    },
    "Check": {
        "lint": "Check prompts, datasets, recordings and baselines",
        "doctor": "Check the project's set-up",
        "judges": "List, try out or calibrate judges",
        "mutate": "Find instructions that no golden case guards",
    },
    "Run": {
        "record": "Record missing completions; remove stale ones",
        "baseline": "Show or update baselines, find flaky cases, simulate the gate",
        "gate": "Compare prompts with the base; accept or reject",
    },
    "Compare": {
        "show": "Show a prompt at any version",
        "diff": "Diff two versions of a prompt",
        "log": "List versions with pass rates",
        "runs": "List, compare or merge runs",
        "report": "Write a run as HTML, Markdown, JSON, CSV or PR comment",
        "migrate": "Gate prompts on another model",
    },
    "Fix": {"refine": "Propose a small revision that fixes failing cases"},
}
"""The commands by group, in the order of `regauge --help`, with their one-line help."""
HIDDEN = {
    "sim": "Serve the simulated model",
    "schema": "Print JSON Schemas",
    "completion": "Print the shell completion script",
}
COMMANDS = {name: text for group in (*GROUPS.values(), HIDDEN) for name, text in group.items()}

# Modules of several commands or of another name; any other has a module of its own name.
_HOMES = {
    **dict.fromkeys(("bump", "diff", "log", "show"), "prompts"),
    **dict.fromkeys(("doctor", "lint"), "lint"),
    **dict.fromkeys(("completion", "schema"), "completion"),
    **dict.fromkeys(("import", "init"), "init"),
}

_EPILOG = """\
Evals run under pytest: `pytest evals`.

Exit codes: 0 done, 1 errors or a rejection, 2 wrong use or a faulty file, 3 unmeasured,
4 undecided, 130 Ctrl-C.
"""
_STDOUT_CLOSED = "standard output is closed\n  fix: leave it open, or redirect it to /dev/null"
INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells: 128 plus the signal's number."""


# Longer than any path or name.
_LONG_WORD = re.compile(r"\S{1000,}")


class _LazyGroup(Group):
    """A group that lists its commands from a table, and imports only the called one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        home = _HOMES.get(cmd_name)
        module = importlib.import_module(f"regauge.cli.{home or cmd_name}")
        return cast("click.Command", getattr(module, f"{cmd_name}_command" if home else "command"))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            # click counts the dashes, so that every option is near every other one.
            name = error.option_name.strip("-")
            options = {option.strip("-"): option for option in error.possibilities or ()}
            error.possibilities = [options[word] for word in get_close_matches(name, options)]
            raise
        # click would exit with 1, the code for errors found; a prompt raises Abort.
        except (KeyboardInterrupt, click.Abort) as stop:
            from regauge.cli._terminal import clear_line

            clear_line()
            click.echo("interrupted" + (f": {stop}" if str(stop) else ""), err=True)
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        width = max(map(len, COMMANDS))
        for name, commands in GROUPS.items():
            with formatter.section(name):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])
        formatter.write_paragraph()
        formatter.write_text(f"More commands: {', '.join(HIDDEN)}.")


@click.group(
    cls=_LazyGroup,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="regauge", prog_name="regauge")
def group() -> None:
    """A regression harness for prompts: versions, golden datasets, evals, recordings."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error of regauge or of the system becomes one message.

    Secrets are redacted on standard error. In GitHub Actions, untrusted workflow commands are
    escaped.
    """
    closed = _open_closed_streams()
    output = GuardedOutput(active=in_github_actions(os.environ), redact_errors=_redaction())
    try:
        words = list(sys.argv[1:] if arguments is None else arguments)
        _refuse(words, closed)
        with interrupt_once(), output.flushed():
            group.main(args=words, prog_name="regauge")
    except RegaugeError as error:
        _end_with(error)
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        sys.exit(1)
    except OSError as error:
        _end_with(MachineError.from_os_error(error))
    except Exception:  # noqa: BLE001 - as Python ends; but a traceback may quote a key
        click.echo(traceback.format_exc(), nl=False, err=True)
        sys.exit(1)
    finally:
        output.restore()


def _open_closed_streams() -> list[str]:
    """Open closed standard streams, and return their names.

    Otherwise, the next opened file would get the descriptor of a closed stream, and its output.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        # The system assigns the lowest free descriptor.
        mode = "r" if name == "stdin" else "w"
        setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    return closed


def _refuse(words: Sequence[str], closed: Sequence[str]) -> None:
    """Refuse a command line that cannot be recorded, is empty, or whose output goes nowhere."""
    if "stdout" in closed:
        raise MachineError(_STDOUT_CLOSED)
    before = ""
    for word in words:
        option, sign, value = word.partition("=")
        if not word or (sign and not value and word.startswith("--")):
            name = option or (before if before.startswith("-") else "an argument")
            if name != "--expected":  # an empty output may be expected
                raise UsageError(f"{name} is empty", fix="write a value, or leave it out")
        before = word
        # Arguments are bytes; those that are not UTF-8 become surrogates.
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise UsageError(f"the argument {word!a} is not UTF-8")


def _end_with(error: RegaugeError) -> NoReturn:
    # Several lines may repeat a long value.
    words = _LONG_WORD.sub(lambda word: f"{word[0][:100]}...{word[0][-100:]}", str(error))
    # Paths relative to the working directory.
    with suppress(OSError):
        words = words.replace(f"{Path.cwd()}/", "")
    with suppress(OSError):  # standard error may be on a full disk, too
        click.echo(printable(f"error: {words}"), err=True)
    sys.exit(error.exit_code)


def _redaction() -> Callable[[str], str]:
    """Return a function that redacts secrets; it reads the settings for its first text."""

    @cache
    def redactor() -> Redactor:
        from regauge.project import Project, Settings
        from regauge.recordings import redactor_for

        try:
            settings = Project.find(Path.cwd()).settings
        except (RegaugeError, OSError):
            settings = Settings()
        return redactor_for(settings, os.environ)

    return lambda text: redactor().redact(text) if text.strip() else text
