"""A group of commands that asks whether another name was meant."""

from __future__ import annotations

import click

__all__ = ["Group"]


class Group(click.Group):
    """Names the command that an unknown name is closest to."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # Newer versions of click ask themselves.
            if "mean" not in error.format_message():
                from regauge.wording import did_you_mean  # only who errs waits for it

                near = did_you_mean(args[0], self.list_commands(ctx))
                error.message = f"{error.message} {near[:1].upper()}{near[1:]}".rstrip()
            raise
