"""Try to break the promises of regauge from outside, and count the broken ones.

    python benchmarks/drills.py                      all drills
    python benchmarks/drills.py --quick              a part of each, in 5 minutes
    python benchmarks/drills.py --only gate --only kills
    python benchmarks/drills.py --list

Every process is a child of this one and every server listens on 127.0.0.1. A promise that is
broken is listed by name, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time

from drill_kinds import DRILLS, Drill, Report, run_drill

# The last attempts begin by then; each takes up to half a minute.
_QUICK_S = 250.0


def main() -> int:
    arguments = _parser().parse_args()
    drills = [each for each in DRILLS if not arguments.only or each.name in arguments.only]
    if arguments.list:
        for each in drills:
            print(f"{each.name:<12} {each.about}")
        return 0
    reports: list[Report] = []
    started = time.monotonic()
    for number, each in enumerate(drills):
        seconds_max = math.inf
        if arguments.quick:
            left = max(0.0, _QUICK_S - (time.monotonic() - started))
            seconds_max = min(left, 2 * left / (len(drills) - number))
        report = run_drill(
            each, quick=arguments.quick, matching=arguments.matching, seconds_max=seconds_max
        )
        reports.append(report)
        if not arguments.json:
            _print(report)
    if arguments.json:
        print(json.dumps({each.drill.name: each.to_json() for each in reports}, indent=2))
    return 0 if all(each.holds for each in reports) else 1


def _parser() -> argparse.ArgumentParser:
    names = [each.name for each in DRILLS]
    parser = argparse.ArgumentParser(
        description="Tries to break what regauge promises, and counts what broke."
    )
    parser.add_argument("--only", action="append", choices=names, help="a drill; repeatable")
    parser.add_argument("--matching", default="", help="only attempts with this in their names")
    parser.add_argument("--quick", action="store_true", help="a part of each drill, in 5 minutes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", action="store_true", help="list the drills and exit")
    return parser


def _print(report: Report) -> None:
    drill: Drill = report.drill
    tolerated = f" (up to {drill.tolerated} tolerated)" if drill.tolerated else ""
    print(
        f"{drill.name:<12} tried {report.tried:>4}  failed {len(report.failed):>3}{tolerated}"
        f"  {report.seconds:>6.0f} s  {drill.about}"
    )
    for label, named in (
        ("failed", report.failed),
        ("known", report.known),
        ("skipped", report.skipped),
    ):
        for name, why in named.items():
            print(f"  {label}: {name}: {why}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
