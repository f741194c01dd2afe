"""`regauge refine`: propose a small revision that fixes failing cases."""

from __future__ import annotations

import click

from regauge.cli._refine.run import EPILOG, RUN, resume_command, run_command
from regauge.cli._refine.runs import RUN_COMMANDS, stats_command
from regauge.errors import PromptError, UsageError
from regauge.project import Project
from regauge.prompts import find_prompt
from regauge.wording import did_you_mean

__all__ = ["command"]


class _RefineGroup(click.Group):
    """A group that runs the loop for a prompt's name instead of a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self._subcommands(), "-h", "--help"}:
            self._check_misspelling(args[0])
            args = [RUN, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(self._subcommands())

    def _subcommands(self) -> set[str]:
        return self.commands.keys() - {RUN}

    def _check_misspelling(self, name: str) -> None:
        """Check that a name is no misspelt command.

        Raises:
            UsageError: It is close to a command, and no prompt or target has this name.
        """
        near = did_you_mean(name, self._subcommands())
        if name.startswith("-") or not near or name in Project.find().settings.targets:
            return
        try:
            find_prompt(name)
        except PromptError as error:
            (diagnostic,) = error.diagnostics
            suggestion = near.replace("'", "`").replace("`", "`regauge refine ", 1)
            raise UsageError(
                f"{diagnostic.message}: {suggestion}\n  fix: {diagnostic.fix}"
            ) from error

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "NAME [OPTIONS] | COMMAND RUN")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.commands[RUN].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(
    name="refine",
    cls=_RefineGroup,
    commands=[run_command, resume_command, stats_command, *RUN_COMMANDS],
    epilog=EPILOG,
)
def command() -> None:
    """Propose a small revision that fixes failing cases and breaks none.

    It finds reproducible failures, tests small edits on independent trials, and gates the result on
    all cases. If the evidence justifies no edit, it proposes none.
    """
