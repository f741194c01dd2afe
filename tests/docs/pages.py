"""Runs what the pages show, in the order a reader would.

A page is Markdown with comments that no reader sees:

- `<!-- project: repository -->` begins a copy of this repository, `<!-- project: empty -->` an
  empty directory; what follows runs there. Without one, Python runs in the repository itself and
  commands are not run.
- `<!-- file: PATH -->` above a fence writes the fence to that file, `<!-- more: PATH -->` adds it.
- `<!-- run: COMMAND -->` runs a command that must succeed.
- `<!-- serve: PORT -->` serves the simulated model; the page calls it by that port.
- `<!-- not run -->` above a fence leaves it alone.

Every other `console` fence is run and its output compared, `python` fences are run by sybil. What
differs from run to run or place (times, days, run ids, commits, the version of Python) is compared
as a placeholder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sybil import Document, Region, Sybil
from sybil.parsers.myst import PythonCodeBlockParser

from regauge.sim.server import SimServerOptions
from tests import processes
from tests.sim_server import SimServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sybil import Example

__all__ = ["LOADED", "ROOT", "Page", "pages"]

ROOT = Path(__file__).parents[2]

# Its fragments share a prompt that tests/unit/prompts makes for them.
_TESTED_APART = {"prompt-files.md"}
_COPIED = ("prompts", "fixtures", "evals", "conftest.py", "pyproject.toml", ".gitignore")
_PART = re.compile(
    r"^<!-- (?P<word>project|file|more|run|serve|not run)(?:: (?P<what>[^\n]*?))? -->$"
    r"|^(?P<tick>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=tick)$",
    re.MULTILINE | re.DOTALL,
)
_VARIABLE = (
    (re.compile(r"^[.x]+(?= +\[100%\]$)", re.MULTILINE), "PROGRESS"),
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b"), "RUN"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\+00:00|Z)"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s)\b"), "DURATION"),
    (re.compile(r"\b[0-9a-f]{9,10}\b"), "COMMIT"),
    (re.compile(r"\bPython 3\.\d+\.\d+\w*"), "PYTHON"),
    (re.compile(r"([=_═─])\1{3,}"), r"\1\1\1"),
    (re.compile(r"(?<=\S)  +"), "  "),
)
# Without a repository of its own, git would work on one further up.
_GIT = re.compile(r"(?<![\w./-])git (?!init\b)")
# A command that a shell would only split into words.
_WITHOUT_SHELL = re.compile(r"(regauge|pytest) [^|&;<>()$`*?\[\]{}~#!\\\n]*|regauge|pytest")
_DROPPED = {"CI", "FORCE_COLOR", "PY_COLORS"}
# What the evals of this repository load.
LOADED = ("quiet_deepeval",)
_PLUGINS = {
    "repository": "regauge.pytest_plugin,xdist.plugin,pytest_socket",
    "empty": "regauge.pytest_plugin",
}
_ENVIRONMENT = {
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Plugins of this repository's tests take seconds to load; a reader has but these.
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "You",
    "GIT_AUTHOR_EMAIL": "you@example.com",
    "GIT_COMMITTER_NAME": "You",
    "GIT_COMMITTER_EMAIL": "you@example.com",
}


def pages() -> list[Path]:
    """The pages whose examples are run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if "_build" not in path.parts and path.name not in _TESTED_APART]


@dataclass
class Page:
    """One page on its way from the first example to the last.

    Attributes:
        path: The page.
        scratch: Where projects are made.
        here: Where the next example runs.
        text: The page with the output that its commands have now.
        loaded: What its commands need not load.
    """

    path: Path
    scratch: Path
    text: str = ""
    here: Path = ROOT
    loaded: tuple[str, ...] = ()
    _plugins: str = ""
    _code: int = 0
    _ports: dict[str, str] = field(default_factory=dict)
    _open: ExitStack = field(default_factory=ExitStack)
    _scripts: Path = ROOT

    def run(self) -> list[str]:
        """Run every example.

        Returns:
            What does not say what is true, one text per example.
        """
        self.text = self.path.read_text(encoding="utf-8")
        document = Sybil([self._parts], path=str(self.path.parent)).parse(self.path)
        document.namespace["__name__"] = "page"
        wrong: list[str] = []
        new: list[tuple[int, int, str]] = []
        if "<!-- project: repository -->" in self.text:
            self.loaded = LOADED
        with self.commands():
            for example in document.examples():
                with chdir(self.here):
                    problem = _evaluated(example)
                if problem is not None:
                    wrong.append(f"{self.path.relative_to(ROOT)}:{example.line}\n{problem}")
                    body = example.region.parsed
                    if isinstance(body, _Console) and body.actual:
                        new.append((body.start, body.end, body.actual))
        for start, end, body in reversed(new):
            self.text = self.text[:start] + body + self.text[end:]
        return wrong

    @contextmanager
    def commands(self) -> Iterator[None]:
        """Have a shell find commands that need not load regauge first."""
        own = (Path(sys.executable).with_name(name) for name in ("regauge", "pytest"))
        with self._open:
            scripts = processes.scripts(*own, loaded=self.loaded)
            self._scripts = self._open.enter_context(scripts)
            yield

    def _parts(self, document: Document) -> Iterator[Region]:
        """What there is to do in a page; a fence belongs to the comment above it."""
        taken: list[tuple[int, int]] = []
        word = what = ""
        for part in _PART.finditer(document.text):
            start, end = part.span()
            if part["word"] in {"file", "more", "not run"}:
                word, what = part["word"], part["what"]
                continue
            if part["word"]:
                yield Region(start, end, (part["word"], part["what"]), self._do)
                continue
            if word:
                taken.append((start, end))
                if word != "not run":
                    yield Region(start, end, (word, what, part["body"]), self._do)
            elif part["language"] == "console" and "<!-- project: " in document.text:
                yield Region(start, end, _Console(part["body"], *part.span("body")), self._console)
            word = ""
        for region in PythonCodeBlockParser()(document):
            if not any(start <= region.start < end for start, end in taken):
                yield region

    def _do(self, example: Example) -> str | None:
        match example.parsed:
            case ("project", kind):
                self.begin(kind)
            case ("file" | "more" as word, path, body):
                assert self.here != ROOT, f"no project to write {path} to"
                target = self.here / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("w" if word == "file" else "a", encoding="utf-8") as file:
                    file.write(self._mapped(body))
            case ("run", command):
                said = self.shell(command)
                return said if self._code else None
            case ("serve", port):
                server = self._open.enter_context(SimServer(SimServerOptions()))
                self._ports[port] = server.base_url.rsplit(":", 1)[1].removesuffix("/v1")
        return None

    def begin(self, kind: str) -> None:
        self._plugins = _PLUGINS[kind]
        self.here = self.scratch / f"{kind}-{len(list(self.scratch.iterdir()))}" / "project"
        self.here.mkdir(parents=True)
        if kind == "repository":
            for name in _COPIED:
                source = ROOT / name
                if source.is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", ".regauge")
                    shutil.copytree(source, self.here / name, ignore=ignored)
                else:
                    shutil.copy(source, self.here / name)
            self.shell("git init -q -b main")
            self.shell("git add -A && git commit -qm 'Start'")

    def _console(self, example: Example) -> str | None:
        """Run the commands of one fence and compare what they say."""
        block: _Console = example.parsed
        for command, expected in block.commands():
            said = self.shell(command)
            if "..." in expected.splitlines() and _agrees(expected, said):
                said = expected
            block.actual += f"$ {command}\n{said}"
        if _agrees(block.body, block.actual):
            return None
        return f"shown:\n{block.body}\nbut it says:\n{block.actual}"

    def shell(self, command: str) -> str:
        """What a command says on both streams, in the words of the page."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in _DROPPED
            and not name.startswith(("PYTEST", "OPENAI_", "COV_", "GIT_", "GITHUB_"))
        }
        assert self.here != ROOT, f"no project to run {command!r} in"
        if _GIT.search(command):
            assert (self.here / ".git").is_dir(), f"no repository of its own for {command!r}"
        binaries = Path(sys.executable).parent
        line = self._mapped(command.replace("make evals", "pytest evals --record=none"))
        env = {
            **inherited,
            **_ENVIRONMENT,
            "PYTEST_PLUGINS": self._plugins,
            "PATH": os.pathsep.join(map(str, (self._scripts, binaries, inherited["PATH"]))),
            "HOME": str(self.scratch),
            "GIT_CEILING_DIRECTORIES": str(self.here.parent.resolve()),
        }
        if _WITHOUT_SHELL.fullmatch(line):
            name, *words = shlex.split(line)
            script = str(binaries / name)
            done = processes.run(
                script, *words, cwd=self.here, env=env, one_stream=True, loaded=self.loaded
            )
        else:
            done = subprocess.run(
                ["bash", "-c", f"(exit {self._code})\n{line}"],
                cwd=self.here,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                encoding="utf-8",
                timeout=120,
                check=False,
            )
        self._code = done.returncode
        said = done.stdout.replace(str(self.here), "/home/you/project")
        for shown, real in self._ports.items():
            said = said.replace(f":{real}", f":{shown}")
        said = re.sub(r"[ \t]+$", "", said, flags=re.MULTILINE).strip("\n")
        return f"{said}\n" if said else ""

    def _mapped(self, text: str) -> str:
        for shown, real in self._ports.items():
            text = text.replace(f":{shown}", f":{real}")
        return text


@dataclass
class _Console:
    """A fence with commands and what they say."""

    body: str
    start: int
    end: int
    actual: str = ""

    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command, with what is shown of its output."""
        for part in re.split(r"^\$ ", self.body, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command = f"{command}\n{more}"
            yield command, expected


def _agrees(expected: str, actual: str) -> bool:
    """Whether both say the same; a line `...` stands for any lines."""
    lines = _plain(expected).splitlines(keepends=True)
    wanted = "".join("(?:.*\n)*?" if line == "...\n" else re.escape(line) for line in lines)
    return re.fullmatch(wanted, _plain(actual)) is not None


def _plain(text: str) -> str:
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())


def _evaluated(example: Example) -> str | None:
    try:
        example.evaluate()
    except Exception as error:  # noqa: BLE001 - whatever an example raises is what is wrong
        return f"{type(error).__name__}: {error}"
    return None
