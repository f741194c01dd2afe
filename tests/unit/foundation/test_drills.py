"""The drills are listed; running them takes minutes, so they are no part of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_drills_are_listed_with_what_they_try():
    script = ROOT / "benchmarks" / "drills.py"
    listed = subprocess.run(
        [sys.executable, str(script), "--list"], capture_output=True, text=True, check=True
    )
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    wanted = {"kills", "green", "gate", "commands", "git", "keys", "injections", "replies"}
    assert wanted | {"providers", "machine"} <= set(names)
    assert all(len(line.split()) > 3 for line in listed.stdout.splitlines())
