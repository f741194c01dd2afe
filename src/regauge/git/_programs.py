"""Overrides for settings of one repository that name programs.

Settings of the user, the system and the environment keep working: credential helpers, an ssh
command, filters. Those of `.git/config`, of the files it includes and of `config.worktree` do not:
an archive, a `.git` file or a bare repository in a directory can bring them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REPOSITORY_SCOPES: Final = frozenset({"local", "worktree"})
# The last part of each key that git or git-lfs starts as a program, and the value without one.
_PROGRAMS: Final = {
    "alternaterefscommand": "",
    "askpass": "",
    "clean": "",
    "cmd": "",
    "command": "",
    "defaultkeycommand": "",
    "difffilter": "",
    "driver": "",
    "editor": "",
    "external": "",
    "fsmonitor": "false",
    "helper": "",
    "packobjectshook": "",
    "pager": "",
    "process": "",
    "program": "",
    "recentobjectshook": "",
    "smudge": "",
    "sshcommand": "ssh",
    "textconv": "",
}
_HELPER: Final = "credential.helper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of `git config --list`.

    Attributes:
        scope: `system`, `global`, `command`, `local` or `worktree`.
        key: Section and name in lower case.
        value: Empty where the file states none.
    """

    scope: str
    key: str
    value: str

    @property
    def default(self) -> str | None:
        """The value that starts no program; None for a setting that never starts one."""
        section, _, rest = self.key.partition(".")
        name = rest.rpartition(".")[2]
        if section == "filter" and name == "required":
            return "false"
        if section == "lfs" and name == "path":
            return ""
        return _PROGRAMS.get(name)


def parse_settings(listed: bytes) -> list[Setting]:
    """Read the output of `git config --list --show-scope -z`."""
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    settings: list[Setting] = []
    for scope, text in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = text.partition("\n")
        settings.append(Setting(scope=scope, key=key, value=value))
    return settings


def override_programs(settings: Sequence[Setting]) -> list[tuple[str, str]]:
    """Settings that undo each program of the repository and restore those of the user.

    >>> evil = Setting(scope="local", key="core.sshcommand", value="./evil")
    >>> override_programs([evil])
    [('core.sshcommand', 'ssh')]
    >>> override_programs([Setting(scope="global", key="core.sshcommand", value="ssh -4"), evil])
    [('core.sshcommand', 'ssh'), ('core.sshcommand', 'ssh -4')]
    """
    defaults = {
        setting.key: default
        for setting in settings
        if setting.scope in _REPOSITORY_SCOPES and (default := setting.default) is not None
    }
    overrides: list[tuple[str, str]] = []
    for key, default in defaults.items():
        overrides.append((key, default))
        # A helper of one URL hides the general ones, so these are restored under its key as well.
        keys = {key, _HELPER} if key.startswith("credential.") else {key}
        overrides += [
            (key, setting.value)
            for setting in settings
            if setting.scope not in _REPOSITORY_SCOPES and setting.key in keys
        ]
    return overrides


def add_settings(environ: Mapping[str, str], settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Add settings to an environment, after those that it holds already."""
    before = environ.get("GIT_CONFIG_COUNT", "0")
    count = int(before) if before.isdecimal() else 0
    added = dict(environ)
    for number, (key, value) in enumerate(settings, start=count):
        added |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    if settings:
        added["GIT_CONFIG_COUNT"] = str(count + len(settings))
    return added
