"""What GitHub's runner executes in the log of a step, by its documented behaviour.

Reimplemented from the two parsers of actions/runner, `ActionCommand.TryParseV2` and `TryParse`:
`::name properties::data` at the beginning of a line, after blanks, else `##[name properties]data`
anywhere in a line. Characters without a weight in the culture of the runner are skipped there, so
they are here.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["COMMANDS", "executed"]

COMMANDS = frozenset(
    [
        "add-mask",
        "add-matcher",
        "add-path",
        "debug",
        "echo",
        "endgroup",
        "error",
        "group",
        "internal-set-repo-path",
        "notice",
        "remove-matcher",
        "save-state",
        "set-env",
        "set-output",
        "stop-commands",
        "warning",
    ]
)
_LINE_END = re.compile(r"\r\n|\r|\n")


def executed(log: str) -> list[str]:
    """The commands that the runner takes out of a log, by name."""
    return [name for line in _LINE_END.split(log) if (name := _command(line)) is not None]


def _command(line: str) -> str | None:
    for text in (line, "".join(char for char in line.lstrip() if not _weightless(char))):
        start = text.lstrip()
        if start.startswith("::") and (end := start.find("::", 2)) > 0:
            name = start[2:end].split(" ")[0].lower()
            if name in COMMANDS:
                return name
        at = text.find("##[")
        if at >= 0 and (end := text.find("]", at)) > 0:
            name = text[at + 3 : end].split(" ")[0].lower()
            if name in COMMANDS:
                return name
    return None


def _weightless(char: str) -> bool:
    return char not in "\t\n\v\f\r" and (
        unicodedata.category(char) in {"Cc", "Cf", "Cn"} or "\ufe00" <= char <= "\ufe0f"
    )
