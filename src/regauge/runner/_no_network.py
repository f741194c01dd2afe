"""Keeps the functions of users off the network while they judge a replay.

Nothing in the interpreter changes but for the time of the call: two methods of `socket.socket` and
`socket.getaddrinfo` are replaced while such a function runs, and what they do changes for the
function alone, in its thread or task. Other threads and tests connect as before.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["no_network"]

_addresses: Final[ContextVar[list[str] | None]] = ContextVar("regauge_addresses", default=None)
_lock: Final = threading.Lock()
_METHODS: Final = ("connect", "connect_ex", "sendto")


class _ClosedError(OSError):
    """What the function sees."""


class _Patch:
    """The replaced names; in place while at least one function runs."""

    def __init__(self) -> None:
        self._users = 0
        self._kept: list[tuple[Any, str, Any, Any]] = []

    def begin(self) -> None:
        with _lock:
            self._users += 1
            if self._users == 1:
                for name in _METHODS:
                    self._replace(socket.socket, name, _guarded(getattr(socket.socket, name)))
                self._replace(socket, "getaddrinfo", _guarded_lookup(socket.getaddrinfo))

    def end(self) -> None:
        with _lock:
            self._users -= 1
            while not self._users and self._kept:
                owner, name, own, guard = self._kept.pop()
                if _own(owner, name) is not guard:
                    continue  # it was replaced again meanwhile
                if own is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, own)

    def _replace(self, owner: Any, name: str, guard: Any) -> None:
        # None where the name is inherited: to delete the guard is to restore it.
        self._kept.append((owner, name, _own(owner, name), guard))
        setattr(owner, name, guard)


def _own(owner: Any, name: str) -> Any:
    """The attribute of an object itself; None where it is inherited."""
    return cast("dict[str, Any]", owner.__dict__).get(name)


_patch: Final = _Patch()


@contextmanager
def no_network(judge: str, *, active: bool) -> Generator[None]:
    """Refuse connections of the function that runs inside, whatever it makes of the refusal.

    Args:
        judge: The name of the judge, for the error.
        active: Whether connections are refused at all.

    Raises:
        JudgeError: It tried to connect to another machine, or to a port of this one.
    """
    if not active:
        yield
        return
    tried: list[str] = []
    token = _addresses.set(tried)
    _patch.begin()
    try:
        yield
    except Exception as error:
        if tried:
            raise _refused(judge, tried[0]) from error
        raise
    finally:
        _patch.end()
        _addresses.reset(token)
    if tried:
        raise _refused(judge, tried[0])


def _refused(judge: str, address: str) -> JudgeError:
    return JudgeError(
        f"{judge} opens a connection to {address}, and a run with --record=none opens none\n"
        "  fix: have the judge recorded: rubric(...), command_judge(...) or http_judge(...)",
        judge=judge,
    )


def _guarded(original: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: socket.socket, *arguments: Any) -> Any:
        tried = _addresses.get()
        if tried is not None and self.family in {socket.AF_INET, socket.AF_INET6}:
            _note(tried, arguments[-1])
        return original(self, *arguments)

    return method


def _guarded_lookup(original: Callable[..., Any]) -> Callable[..., Any]:
    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        tried = _addresses.get()
        if tried is not None and host is not None and not _is_numeric(host):
            _note(tried, (host, *arguments))
        return original(host, *arguments, **options)

    return getaddrinfo


def _note(tried: list[str], address: Any) -> None:
    parts: tuple[Any, ...] = address if isinstance(address, tuple) else (address,)  # pyright: ignore[reportUnknownVariableType]
    tried.append(
        ":".join(part.decode() if isinstance(part, bytes) else str(part) for part in parts[:2])
    )
    raise _ClosedError("the network is closed: this run has --record=none")


def _is_numeric(host: Any) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host)
    except ValueError:
        return False
    return True
