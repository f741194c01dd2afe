"""The simulated model behind HTTP: requests, routes, and faults on purpose."""

from __future__ import annotations

from regauge.sim.serving._faults import FaultPlan, RateLimit, parse_faults, parse_rate
from regauge.sim.serving._http import Connection
from regauge.sim.serving._service import Counters, Service, SimServerOptions

__all__ = [
    "Connection",
    "Counters",
    "FaultPlan",
    "RateLimit",
    "Service",
    "SimServerOptions",
    "parse_faults",
    "parse_rate",
]
