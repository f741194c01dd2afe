"""The run that a command changes something by: it has to be named."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["NamedRun"]


class NamedRun(click.Argument):
    """Says what a run can be named by, where none is."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Take the value, or ask for one."""
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter as error:
            error.message = "Name a run: `latest`, a prompt, or an id of `regauge refine list`"
            raise
