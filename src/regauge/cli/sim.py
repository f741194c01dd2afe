"""`regauge sim`: serve the simulated model as an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
import math
import re
import signal
import sys
from typing import TYPE_CHECKING, Final

import click

from regauge.cli import Command
from regauge.cli._options import FiniteRange, json_option, number_option, seed_option
from regauge.errors import UsageError

if TYPE_CHECKING:
    from regauge.sim.server import FaultPlan, RateLimit, SimServerOptions


_RATE: Final = re.compile(r"(?P<count>\d+)\s*/\s*(?P<unit>s|m|min|h)")
_UNIT_S: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_faults(text: str, *, seed: int = 0) -> FaultPlan:
    """Parse `429=0.2,500=0.05,drop=0.01`.

    Raises:
        UsageError: A name is not a fault, a share is not a number from 0 to 1, or they exceed 1.

    >>> parse_faults("429=0.2,drop=0.01").shares
    (('429', 0.2), ('drop', 0.01))
    """
    from regauge.sim.server import STATUSES, FaultPlan

    shares: list[tuple[str, float]] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = piece.partition("=")
        try:
            share = float(value)
        except ValueError:
            share = math.nan
        if not equals or not 0 <= share <= 1:
            fix = "write NAME=SHARE with a share from 0 to 1, such as 429=0.2"
            raise UsageError(f"{piece!r} is not a fault with a share", fix=fix)
        if name.strip() not in STATUSES | {"drop", "truncate", "timeout"}:
            fix = "use an HTTP status from 400 to 599, drop, truncate or timeout"
            raise UsageError(f"{name.strip()!r} is not a fault", fix=fix)
        shares.append((name.strip(), share))
    if sum(share for _, share in shares) > 1 + 1e-9:
        message = f"the shares of {text!r} add up to more than 1"
        raise UsageError(message, fix="lower one of them")
    return FaultPlan(shares=tuple(shares), seed=seed)


def parse_rate(text: str) -> RateLimit:
    """Parse `100/s`, `600/m` or `1000/h`.

    Raises:
        UsageError: The text is not such a rate.

    >>> parse_rate("600/m").per_s
    60.0
    """
    from regauge.sim.server import RateLimit

    match = _RATE.fullmatch(text.strip())
    if match is None or int(match["count"]) < 1:
        raise UsageError(f"{text!r} is not a rate\n  fix: write such as 100/s, 600/m or 1000/h")
    return RateLimit(count=int(match["count"]), per_s=_UNIT_S[match["unit"]])


def _introduction(url: str, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"url": url, "model": "clerk-1", "simulated": True})
    return f"""Serving the simulated model clerk-1 at {url}
It is simulated: it follows prompts by rules and is not a language model.

Point regauge at it, in pyproject.toml:

  [tool.regauge.providers.local]
  base_url = "{url}"

and run with --model local:clerk-1. Ctrl-C stops it."""


async def _serve(host: str, port: int, options: SimServerOptions, *, as_json: bool) -> None:
    from regauge.sim.server import Service

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if sys.platform == "win32":
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop.set))
        else:
            # It wakes the loop. A handler of `signal` runs only after the next event, so a signal
            # just before the loop waits would have no effect.
            loop.add_signal_handler(number, stop.set)

    def introduce(url: str) -> None:
        click.echo(_introduction(url, as_json=as_json))
        sys.stdout.flush()

    service = Service(options)
    await service.serve(host, port, ready=introduce, until=stop)
    counters = service.counters
    if as_json:
        document = {
            "requests": counters.requests,
            "statuses": {str(status): count for status, count in counters.statuses.items()},
            "faults": dict(counters.faults),
            "in_flight_max": counters.in_flight_max,
        }
        click.echo(json.dumps(document))
        return
    statuses, faults = (
        ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
        for counts in (counters.statuses, counters.faults)
    )
    click.echo(
        f"Stopped after {counters.requests} requests"
        + (f" (statuses: {statuses})" if statuses else "")
        + (f"; faults injected: {faults}" if faults else "")
        + f"; at most {counters.in_flight_max} at once."
    )


@click.command(name="sim", cls=Command)
@number_option(
    "--port", click.IntRange(0, 65535), "Port; 0 selects a free one.", default=8765, metavar="PORT"
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="HOST",
    help="The address to listen on.",
)
@number_option(
    "--latency-ms", FiniteRange(min=0), "Latency of every response.", default=0, metavar="X"
)
@click.option(
    "--fault",
    default="",
    metavar="NAME=SHARE,...",
    help="Injected errors: an HTTP status, drop, truncate or timeout.",
)
@click.option(
    "--rate-limit", default=None, metavar="N/s", help="Respond 429 above it: 100/s, 600/m, 1000/h."
)
@number_option(
    "--retry-after-s",
    FiniteRange(min=0),
    "Retry-After of an injected 429.",
    default=1.0,
    metavar="X",
)
@seed_option
@number_option(
    "--drift",
    FiniteRange(min=0, max=1),
    "How far the model changed under its name.",
    default=0,
    metavar="X",
)
@click.option("--drift-shown", is_flag=True, help="Show drift in `system_fingerprint`.")
@click.option(
    "--api-key",
    default=None,
    envvar="REGAUGE_SIM_API_KEY",
    metavar="KEY",
    help="Respond 401 to requests without this key.",
)
@json_option
def command(
    *,
    port: int,
    host: str,
    latency_ms: float,
    fault: str,
    rate_limit: str | None,
    retry_after_s: float,
    seed: int,
    drift: float,
    drift_shown: bool,
    api_key: str | None,
    as_json: bool,
) -> None:
    """Serve the simulated model as an OpenAI-compatible endpoint.

    It serves POST /v1/chat/completions, GET /v1/models and GET /healthz. The same request gets
    another trial each time, or the trial of its seed.

    Examples:
      regauge sim --port 8765
      regauge sim --latency-ms 200 --fault 429=0.2,500=0.05,drop=0.01,truncate=0.01
      regauge sim --rate-limit 100/s --api-key secret
      regauge sim --drift 0.3

    Exit codes: 0 stopped by Ctrl-C, 2 wrong use.
    """
    from regauge.sim import Rules
    from regauge.sim.server import SimServerOptions

    options = SimServerOptions(
        latency_s=latency_ms / 1000,
        faults=parse_faults(fault, seed=seed),
        rate_limit=parse_rate(rate_limit) if rate_limit is not None else None,
        api_key=api_key,
        retry_after_s=retry_after_s,
        rules=Rules(drift=drift, drift_shown=drift_shown),
    )
    asyncio.run(_serve(host, port, options, as_json=as_json))
