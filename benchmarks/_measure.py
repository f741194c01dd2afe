"""Run processes, measure their time and memory, and summarise repeated runs."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Spread", "Usage", "alternate", "machine", "pytest_run", "python_run", "regauge_run"]

# CI decides the record mode. The others switch off what makes Python start and print fast, the
# cache of compiled modules and the buffer of the output, and few people work without these.
_NOT_PASSED_ON = frozenset({"CI", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one process took: wall clock and processor time in seconds, peak memory in bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median of repeated measurements, with the least and the greatest of them."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median=statistics.median(values), least=min(values), greatest=max(values))

    def to_json(self, digits: int = 3) -> dict[str, float]:
        return {
            "median": round(self.median, digits),
            "least": round(self.least, digits),
            "greatest": round(self.greatest, digits),
        }


def pytest_run(root: Path, *args: str, exit_codes: Sequence[int] = (0,)) -> Usage:
    """Run pytest in a project, in a process of its own, without a terminal.

    No plugin is loaded but regauge: others that happen to be installed would be measured too, and
    would make the time of plain pytest, to which ours is compared, longer than it need be.

    Raises:
        RuntimeError: It ended with another exit code than those expected.
    """
    others = {plugin.name for plugin in entry_points(group="pytest11")} - {"regauge"}
    without = [word for name in sorted(others) for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *without, *args]
    return _run(root, command, exit_codes)


def python_run(root: Path, statement: str) -> Usage:
    """Run a statement in a process of its own.

    Raises:
        RuntimeError: It failed.
    """
    return _run(root, [sys.executable, "-c", statement], (0,))


def regauge_run(root: Path, *args: str, exit_codes: Sequence[int] = (0,)) -> Usage:
    """Run a command of regauge in a project, in a process of its own.

    Raises:
        RuntimeError: It ended with another exit code than those expected.
    """
    return _run(root, [sys.executable, "-m", "regauge", *args], exit_codes)


def _run(root: Path, command: Sequence[str], exit_codes: Sequence[int]) -> Usage:
    environ = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    output = root / "output.txt"
    with output.open("wb") as sink:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=root, env=environ, stdout=sink, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in exit_codes:
        tail = output.read_text(encoding="utf-8", errors="replace")[-4000:]
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{tail}")
    per_unit = 1 if sys.platform == "darwin" else 1024
    return Usage(
        wall_s=wall_s,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_bytes=used.ru_maxrss * per_unit,
    )


def alternate(
    runs: Mapping[str, Callable[[], Usage]], *, times: int, warm_up: int = 1
) -> dict[str, list[Usage]]:
    """Do every run in turn, so that what else the machine does disturbs all of them alike.

    The order turns round each time. The first `warm_up` rounds are not counted.
    """
    taken: dict[str, list[Usage]] = {name: [] for name in runs}
    order = list(runs)
    for number in range(times + warm_up):
        for name in order:
            usage = runs[name]()
            if number >= warm_up:
                taken[name].append(usage)
        order.reverse()
    return taken


def machine() -> dict[str, object]:
    """Where this was measured, and how busy it is."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }
