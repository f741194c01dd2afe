"""The hosts that the URLs of an answer belong to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from regauge.errors import UsageError
from regauge.judges._evidence import listed
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["no_urls_of", "urls_only_of"]

_URL = re.compile(r"\b(?:https?|ftp)://[^\s<>\"'`\])}]+", re.IGNORECASE)


def _hosts(text: str) -> Iterator[tuple[str, str]]:
    """The URLs of a text with their hosts in lower case."""
    for found in _URL.finditer(text):
        url: str = found[0].rstrip(".,;:!?*_")
        try:
            host: str | None = urlsplit(url).hostname
            yield url, (host or "").lower()
        except ValueError:
            yield url, ""


def _of(host: str, hosts: Sequence[str]) -> bool:
    return any(host == wanted or host.endswith("." + wanted) for wanted in hosts)


def _cleaned(hosts: Sequence[str]) -> tuple[str, ...]:
    return tuple(host.lower().removeprefix("*.").strip("./ ") for host in hosts)


@rule(codes=("url_not_allowed",))
def urls_only_of(*hosts: str, field: str | None = None) -> Check:
    """Every URL in the answer belongs to one of these hosts; without hosts, there is no URL.

    Args:
        hosts: Hosts, with the hosts below them: `corp.io` allows `wiki.corp.io`.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(urls_only_of("corp.io").check_text("See https://wiki.corp.io/x, not http://evil.io."))
    fail: 1 URL of another host: 'http://evil.io'
    """
    allowed = _cleaned(hosts)

    def check(text: str) -> Verdict:
        foreign = [url for url, host in _hosts(text) if not _of(host, allowed)]
        if not foreign:
            return passed("no URL of another host")
        return failed(
            f"{plural(len(foreign), 'URL')} of another host: {listed(foreign)}",
            code="url_not_allowed",
            expected=list(allowed),
            actual=foreign[:20],
        )

    return on_text(field, check)


@rule(codes=("url_forbidden",))
def no_urls_of(*hosts: str, field: str | None = None) -> Check:
    """No URL in the answer belongs to one of these hosts.

    Args:
        hosts: Hosts, with the hosts below them.
        field: Judge this part of a JSON answer instead of the whole.

    >>> print(no_urls_of("bit.ly").check_text("See https://bit.ly/3x."))
    fail: 1 URL of a forbidden host: 'https://bit.ly/3x'
    """
    if not hosts:
        raise UsageError("no_urls_of: name at least one host")
    forbidden = _cleaned(hosts)

    def check(text: str) -> Verdict:
        bad = [url for url, host in _hosts(text) if _of(host, forbidden)]
        if not bad:
            return passed("no URL of a forbidden host")
        return failed(
            f"{plural(len(bad), 'URL')} of a forbidden host: {listed(bad)}",
            code="url_forbidden",
            actual=bad[:20],
        )

    return on_text(field, check)
