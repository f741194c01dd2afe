"""Puts a broken form into one file of a project and runs every command on it, each in a fork.

A fork of a process that has imported regauge takes a tenth of the time of a new process.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import resource
import shutil
import signal
import stat
import sys
import time
import traceback
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["COMMANDS", "FORMS", "main"]

_SECONDS = 40
_OF_SQLITE = frozenset({".sqlite3-wal", ".sqlite3-shm"})
_LIBRARIES = ("pytest", "pandas", "pyarrow.parquet", "jinja2", "httpx2", "openai")
_MEMORY = 6 * 1024**3
_EVALS = ("evals", "-q", "-p", "no:cacheprovider")
# Each with the exit code that it has where nothing is broken.
COMMANDS: dict[tuple[str, ...], int] = {
    ("pytest", *_EVALS): 1,
    ("pytest", *_EVALS, "--record=none"): 1,
    ("pytest", *_EVALS, "--gate=main"): 1,
    ("lint",): 0,
    ("lint", "--base", "main"): 0,
    ("doctor", "--offline"): 0,
    ("judges", "list"): 0,
    ("judges", "try", "max_words", "--param", "n=5", "output.txt"): 0,
    ("show", "ticket-kind"): 0,
    ("show", "ticket-kind@1.0.0"): 0,
    ("diff", "ticket-kind"): 0,
    ("log", "ticket-kind"): 0,
    ("bump", "ticket-kind", "patch", "--allow-unchanged", "-m", "x"): 0,
    ("record",): 0,
    ("record", "--prune"): 0,
    ("record", "--dry-run"): 0,
    ("judges", "calibrate", "tone"): 1,
    ("judges", "calibrate"): 0,
    ("baseline", "show"): 0,
    ("baseline", "update", "--trials", "3", "--new-session"): 0,
    ("gate", "main"): 1,
    ("gate", "--from", "latest"): 1,
    ("baseline", "flaky", "ticket-kind", "--trials", "3"): 0,
    ("baseline", "simulate"): 0,
    ("refine", "ticket-kind", "--dry-run"): 0,
    ("refine", "ticket-kind", "--max-cycles", "1"): 0,
    ("refine", "resume", "latest"): 0,
    ("refine", "stats"): 0,
    ("refine", "list"): 0,
    ("refine", "show", "latest", "--trail"): 0,
    ("refine", "diff", "latest"): 0,
    ("refine", "verify", "latest"): 0,
    ("refine", "apply", "latest"): 0,
    ("refine", "reject", "latest"): 0,
    ("refine", "rollback", "latest"): 2,
    ("report", "latest", "--format", "md"): 0,
    ("report", "latest", "--format", "html", "-o", "out.html"): 0,
    ("report", "latest", "--format", "csv"): 0,
    ("report", "latest", "--format", "json"): 0,
    (
        "runs",
        "compare",
    ): 0,
    ("log", "ticket-kind", "--runs"): 0,
    (
        "runs",
        "list",
    ): 0,
    ("report", "latest", "--comment", "--dry-run", "--pr", "1", "--repo", "a/b"): 0,
    ("new", "case", "ticket-kind", "x", "--from-run", "latest", "--case", "paid-twice"): 2,
    ("new", "case", "ticket-kind", "y", "-i", "ticket=An error", "--expected", "bug"): 0,
    ("new", "eval", "ticket-kind"): 2,
    ("new", "workflow", "evals"): 2,
    ("init", "--yes"): 0,
    ("schema", "prompt"): 0,
}


def _text(change: Callable[[str], str]) -> Callable[[Path], None]:
    def broken(path: Path) -> None:
        text = path.read_bytes().decode("utf-8", errors="surrogateescape")
        path.write_bytes(change(text).encode("utf-8", errors="surrogateescape"))

    return broken


def _bytes(content: bytes) -> Callable[[Path], None]:
    return lambda path: _replace(path, lambda: path.write_bytes(content))


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda path: _replace(path, lambda: make(path))


def _replace(path: Path, make: Callable[[], object]) -> None:
    path.unlink()
    make()


def _by_kind(**of_kind: Callable[[str], str]) -> Callable[[Path], None]:
    """A change of the text, by the format of the file; others than JSON, YAML and TOML keep it."""

    def broken(path: Path) -> None:
        kind = {"yml": "yaml", "jsonl": "json", "lock": "yaml"}.get(
            path.suffix[1:], path.suffix[1:]
        )
        if kind in of_kind:
            _text(of_kind[kind])(path)

    return broken


def _values(value: str) -> Callable[[Path], None]:
    return _by_kind(
        json=lambda text: re.sub(
            r'": ?(?:"(?:[^"\\]|\\.)*"|[\d.]+|true|false)', lambda _: f'": {value}', text
        ),
        yaml=lambda text: re.sub(r"(?m)(?<=\w): [^|\n]+$", lambda _: f": {value}", text),
        toml=lambda text: re.sub(r"(?m)= .*$", lambda _: f"= {value}", text),
        csv=lambda text: text.replace("bug", value),
    )


def _conflict(text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    return "".join(
        [*lines[:-1], "<<<<<<< HEAD\n", lines[-1], "=======\n", lines[-1], ">>>>>>> branch\n"]
    )


def _large(path: Path) -> None:
    content = path.read_bytes()
    filler = b" " * (1024 * 1024 - 1) + b"\n"
    with path.open("wb") as file:
        file.write(content)
        for _ in range(100):
            file.write(filler)


_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 9)}]\n" for name in "bcdefghi"
)

FORMS: dict[str, Callable[[Path], None]] = {
    "nothing": lambda _: None,
    "missing": lambda path: path.unlink(),
    "empty": _bytes(b""),
    "blank": _bytes(b"\n  \n\n"),
    "binary": _bytes(bytes((37 * number**2) % 256 for number in range(4000))),
    "NUL": _text(lambda text: text[: len(text) // 2] + "\0" * 4 + text[len(text) // 2 :]),
    "BOM": _text(lambda text: "\ufeff" + text),
    "UTF-16": lambda path: void(
        path.write_bytes(path.read_bytes().decode(errors="replace").encode("utf-16"))
    ),
    "latin-1": lambda path: void(
        path.write_bytes(path.read_bytes().replace(b"er", b"\xe9r").replace(b"e", b"\xe9", 1))
    ),
    "CRLF": _text(lambda text: text.replace("\n", "\r\n")),
    "CR": _text(lambda text: text.replace("\n", "\r")),
    "no final newline": _text(lambda text: text.rstrip("\n")),
    "cut in half": _text(lambda text: text[: len(text) // 2]),
    "twice": _text(lambda text: text + text),
    "a line twice": _text(
        lambda text: "".join(2 * line for line in text.splitlines(keepends=True)[:3]) + text
    ),
    "deep": _bytes(b'{"a": ' + b"[" * 100_000),
    "deep and closed": _bytes(b"a = " + b"[" * 3000 + b"]" * 3000 + b"\n"),
    "a list": _bytes(b"[1, 2]\n"),
    "a number": _bytes(b"5\n"),
    "a text": _bytes(b'"text"\n'),
    "an empty mapping": _bytes(b"{}\n"),
    "numbers for values": _values("5"),
    "lists for values": _values("[[]]"),
    "mappings for values": _values("{}"),
    "null for values": _values("null"),
    "long numbers": _values("9" * 5000),
    "infinity": _values("1e999"),
    "NaN": _values("NaN"),
    "negative": _values("-1"),
    "lone surrogates": _values(r'"\ud800"'),
    "control characters": _values(r'"\u001b[2J\u0000\u202e"'),
    "unknown keys": _by_kind(
        json=lambda text: re.sub(r"(?m)^\{", '{"surprise": 1, ', text),
        yaml=lambda text: "surprise: 1\n" + text,
        toml=lambda text: text.replace("[tool.regauge]\n", "[tool.regauge]\nsurprise = 1\n"),
        csv=lambda text: re.sub(r"(?m)$", ",surprise", text),
    ),
    "duplicate keys": _by_kind(
        json=lambda text: re.sub(r'(?m)^\{\s*("[^"]+":)', r'{\1 "first", \1', text),
        yaml=lambda text: re.sub(r"(?m)^(\w+:).*$", r"\1 first\n\g<0>", text),
        toml=lambda text: re.sub(r"(?m)^.*=.*$", r"\g<0>\n\g<0>", text),
        csv=lambda text: re.sub(r"^(\w+),", r"\1,\1,", text),
    ),
    "many laughs": _bytes(_LAUGHS.encode()),
    "an alias of itself": _bytes(b"&a [*a]\n"),
    "a Python tag": _bytes(b"!!python/object/apply:os.mkdir [pwned]\n"),
    "conflict": _text(_conflict),
    "LFS pointer": _bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
    ),
    "HTML": _bytes(b"<!DOCTYPE html><html><body>404: Not Found</body></html>\n"),
    "tabs": _text(lambda text: text.replace("  ", "\t")),
    "a directory": _instead(Path.mkdir),
    "a pipe": _instead(os.mkfifo),
    "a link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "a link to nothing": _instead(lambda path: path.symlink_to("nothing")),
    "a link to a directory": _instead(lambda path: path.symlink_to("..")),
    "no permission": lambda path: path.chmod(0),
    "100 MB": _large,
}


def void(_: object) -> None:
    """Drop a value."""


def main() -> None:
    """Print a JSON object with what each command did wrong; arguments: BASE ROOT FILE FORM."""
    base, root, name, form = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    _import_all()
    wrong: dict[str, str] = {}
    spoilt = True
    for command, code in COMMANDS.items():
        if spoilt:
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(base, root, symlinks=True)
            for path in _matching(root, name):
                FORMS[form](path)
        before = _state(root)
        contents = {path: _content(root / path) for path in before if Path(path).match(name)}
        why = _broken_promise(command, code, root, name, form)
        spoilt = before != _state(root)
        if (
            not why
            and form not in _READABLE
            and not Path(name).match(_WRITTEN_AGAIN.get(command[0], "?"))
        ):
            lost = [path for path in contents if not _holds(root / path, contents[path])]
            why = f"destroyed {', '.join(lost)}" if lost else ""
        if why:
            wrong[" ".join(command)] = why
    print(json.dumps(wrong))


# pytest ends with a traceback of its own where its settings are not UTF-8 or no file.
_SETTINGS_OF_PYTEST = "/config/findpaths.py"
# A command may read these and write them again.
_READABLE = frozenset(
    {
        "nothing",
        "missing",
        "CRLF",
        "CR",
        "BOM",
        "no final newline",
        "unknown keys",
        "a link to nothing",
    }
)


# What a command writes at its end, it writes again, whatever is there.
_WRITTEN_AGAIN = {"refine": ".regauge/refine/*/[!t]*", "judges": "*.calibration.json"}
_CONTENT_MAX = 1024 * 1024


def _content(path: Path) -> bytes:
    """The first part of a file; empty where it is no file that can be read."""
    try:
        status = path.lstat()
        return path.read_bytes()[:_CONTENT_MAX] if stat.S_ISREG(status.st_mode) else b""
    except OSError:
        return b""


def _holds(path: Path, content: bytes) -> bool:
    """Whether a file begins with what it held; appending to it is fine."""
    return os.path.lexists(path) and _content(path).startswith(content)


def _matching(root: Path, name: str) -> list[Path]:
    found = sorted(root.glob(name))
    if not found:
        raise FileNotFoundError(f"{name} is not in the project")
    return found


def _state(root: Path) -> dict[str, tuple[int, int, int]]:
    """The kind, size and time of each file, but those of git and of Python."""
    return {
        path.relative_to(root).as_posix(): (status.st_mode, status.st_size, status.st_mtime_ns)
        for path in root.rglob("*")
        if not {".git", "__pycache__"} & set(path.parts) and path.suffix not in _OF_SQLITE
        for status in (path.lstat(),)
        if not stat.S_ISDIR(status.st_mode) or not any(path.iterdir())
    }


def _broken_promise(command: Sequence[str], clean: int, root: Path, name: str, form: str) -> str:
    code, text, seconds = _run(command, root)
    if command[0] == "pytest" and _SETTINGS_OF_PYTEST in text:
        return ""
    codes = {0, 1, 2, 4, 5} if command[0] == "pytest" else {0, 1, 2, 3, 4}
    why = ""
    if code is None:
        why = f"hangs; killed after {seconds:.0f} s"
    elif "Traceback (most recent call last)" in text or "INTERNALERROR" in text:
        why = "traceback"
    elif code not in codes or (form == "nothing" and code != clean):
        why = f"exit code {code}"
    elif (root / "pwned").exists():
        why = "ran the code of a tag"
    elif code in {2, 3, 4} and code != clean:
        places = {path.name for path in root.glob(name)} | {Path(name).stem}
        if not any(place in text for place in places):
            why = "does not name the file"
        # Python's own words for a faulty module are the best there are.
        elif not name.endswith(".py") and re.search(r"\b\w+Error\b", text):
            why = "shows an exception"
    return f"{why}: {_last(text)}" if why else ""


def _last(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines() if line.strip())[-400:]


def _run(command: Sequence[str], root: Path) -> tuple[int | None, str, float]:
    output = root.parent / "output"
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(command, root, output)
    status = None
    while status is None and time.monotonic() - started < _SECONDS:
        done, ended = os.waitpid(pid, os.WNOHANG)
        if done:
            status = ended
        else:
            time.sleep(0.01)
    if status is None:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    text = output.read_text(encoding="utf-8", errors="replace")
    code = None if status is None else os.waitstatus_to_exitcode(status)
    return code, text, time.monotonic() - started


def _child(command: Sequence[str], root: Path, output: Path) -> None:
    os.setsid()
    os.chdir(root)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    nothing = os.open(os.devnull, os.O_RDONLY)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor, stream in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(descriptor, stream)
    code: Any = 70
    try:
        sys.argv = ["regauge", *command]
        if command[0] == "pytest":
            code = int(importlib.import_module("pytest").main(list(command[1:])))
        else:
            importlib.import_module("regauge.cli").main(list(command))
            code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - what Python would print
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _import_all() -> None:
    """Import what commands would, so that forks need not."""
    regauge = importlib.import_module("regauge")
    plugins = (each.module for each in entry_points(group="pytest11"))
    ours = (each.name for each in pkgutil.walk_packages(regauge.__path__, "regauge."))
    for module in (*_LIBRARIES, *plugins, *ours):
        with suppress(ImportError):
            if module != "regauge.__main__":
                importlib.import_module(module)
