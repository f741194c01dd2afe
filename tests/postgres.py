"""A PostgreSQL server of the tests' own, from Debian's packages."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg
import pytest

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PostgresServer"]

PASSWORD = "p4ss%40word"  # as a URL has it
_SPOKEN = "p4ss@word"


class PostgresServer:
    """A server on a socket in a directory of its own; it listens on no port."""

    def __init__(self) -> None:
        self._bin = _binaries()
        self._user = _user()
        self._databases = 0
        self.directory = Path(tempfile.mkdtemp(prefix="regauge-pg-"))

    def __enter__(self) -> Self:
        secret = self.directory / "password"
        secret.write_text(_SPOKEN)
        if self._user:
            for path in (self.directory, secret):
                shutil.chown(path, self._user, pwd.getpwnam(self._user).pw_gid)
        self._command(
            "initdb",
            "--username=team",
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        )
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        options = f"-k {self.directory} -c listen_addresses= -c fsync=off -c shared_buffers=16MB"
        log = self.directory / "log"
        self._command("pg_ctl", "start", "-w", "-l", str(log), "-o", options)

    def stop(self) -> None:
        self._command("pg_ctl", "stop", "-w", "-m", "fast")

    def url(self, database: str, *, password: str = PASSWORD, user: str = "team") -> str:
        return f"postgresql://{user}:{password}@/{database}?host={self.directory}"

    def make_database(self) -> str:
        """A new database's name."""
        self._databases += 1
        name = f"evals{self._databases}"
        self.run(f"CREATE DATABASE {name}", database="postgres")
        return name

    def run(self, statement: str, *, database: str) -> list[tuple[object, ...]]:
        with psycopg.connect(
            host=str(self.directory),
            dbname=database,
            user="team",
            password=_SPOKEN,
            autocommit=True,
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _command(self, name: str, *arguments: str) -> None:
        # A server outlives pg_ctl and would hold pipes of it open.
        done = subprocess.run(
            [self._bin / name, "-D", self.directory / "data", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.directory,
            user=self._user,
            group=pwd.getpwnam(self._user).pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            check=False,
            timeout=120,
        )
        log = self.directory / "log"
        assert not done.returncode, f"{name}: {log.read_text() if log.exists() else 'failed'}"


def _binaries() -> Path:
    """Where initdb and pg_ctl are; a test that has none is skipped, except in CI."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    if not found:
        words = "PostgreSQL is not installed: apt-get install postgresql"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return max(found, key=lambda path: (path.parent.name.isdigit(), path.parent.name.zfill(3)))


def _user() -> str | None:
    """PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    return "postgres" if any(one.pw_name == "postgres" for one in pwd.getpwall()) else "nobody"
