"""The hosts that the URLs of an answer belong to."""

from __future__ import annotations

import html
import re
import socket
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from regauge.errors import UsageError
from regauge.judges._evidence import listed
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["no_urls_of", "urls_only_of"]

# With a scheme, where slashes may be escaped or turned; without one; a bare host with a path.
_URL = re.compile(
    r"(?<![a-z0-9])(?P<scheme>[a-z][a-z0-9+.-]{1,20}):(?:\\?[/\\]){2,}(?P<rest>[^\s<>\"'`\])}]+)"
    r"|(?<![\w:/\\.-])(?:\\?/){2}(?P<relative>[\w%-]+(?:[.\u3002\uff0e\uff61][\w%-]+)+[^\s<>\"'`\])}]*)"
    r"|(?<![\w@/\\.-])(?P<www>www\d?[.\u3002\uff0e][^\s<>\"'`\])}]+)"
    r"|(?<![\w@/\\.:-])(?P<bare>(?:[\w-]+\.)+"
    r"(?:com|org|net|io|dev|app|co|ai|ly|me|info|biz|xyz|gg|gl|to|us|uk|de|fr|eu|ru|cn|jp)"
    r"(?::\d+)?/[^\s<>\"'`\])}]*)",
    re.IGNORECASE,
)
_HIDDEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")


def host_name(host: str) -> str:
    """A host as it is looked up: lower case, punycode, no dot at the end, IPv4 as four numbers.

    >>> host_name("Bücher.de."), host_name("0x7f.1")
    ('xn--bcher-kva.de', '127.0.0.1')
    """
    host = _HIDDEN.sub("", unquote(host)).strip().rstrip(".").lower()
    if re.fullmatch(r"[\da-fx.]+", host):
        try:
            return socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            return host
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii").rstrip(".")
    except UnicodeError:
        return unicodedata.normalize("NFKC", host)


def _hosts(text: str) -> Iterator[tuple[str, str]]:
    """The URLs of a text with their hosts."""
    if "&" in text:
        text = html.unescape(text)
    for found in _URL.finditer(text):
        url = found[0].rstrip(".,;:!?*_\\")
        rest = next(filter(None, (found[name] for name in ("rest", "relative", "www", "bare"))), "")
        authority = re.split(r"[/\\?#]", rest, maxsplit=1)[0].rpartition("@")[2]
        authority = authority.rstrip(".,;:!?*_")
        try:
            host = urlsplit(f"//{authority}").hostname
        except ValueError:
            host = ""
        yield url, host_name(host or "")


def _of(host: str, hosts: Sequence[str]) -> bool:
    return any(host == wanted or host.endswith("." + wanted) for wanted in hosts)


def _cleaned(hosts: Sequence[str]) -> tuple[str, ...]:
    return tuple(host_name(host.removeprefix("*.").strip("./ ")) for host in hosts)


@rule(codes=("url_not_allowed",), version=2)
def urls_only_of(*hosts: str, field: str | None = None) -> Check:
    r"""Every URL in the answer belongs to one of these hosts; without hosts, there is no URL.

    URLs of any scheme count, with escaped slashes (`https:\/\/`) or without a scheme
    (`//host`, `www.host`, `host.com/path`), and hosts in punycode, in percent-encoding or as a
    number.

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


@rule(codes=("url_forbidden",), version=2)
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
