"""The drills are listed; running them takes minutes, so they are not part of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests import processes

ROOT = Path(__file__).parents[3]


def test_drills_are_listed_with_what_they_try():
    script = ROOT / "benchmarks" / "drills.py"
    listed = processes.run(str(script), "--list", cwd=ROOT, env={**os.environ})
    assert listed.returncode == 0, listed.stderr
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    wanted = {"kills", "green", "gate", "commands", "git", "keys", "injections", "replies"}
    assert wanted | {"providers", "machine"} <= set(names)
    assert all(len(line.split()) > 3 for line in listed.stdout.splitlines())
