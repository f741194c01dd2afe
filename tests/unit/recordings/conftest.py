"""Recordings to keep, lose and find again."""

from __future__ import annotations

import hashlib

import pytest

from regauge.providers import Completion, Usage
from regauge.recordings import Recording, RecordingKey


def recording(number=0, text="yes", **changes):
    """Recording number `number`: of a case and a request of its own."""
    completion = Completion(
        text=text,
        finish_reason="stop",
        usage=Usage(input_tokens=40, output_tokens=3),
        model="clerk-1",
        fingerprint="fp_1",
        provider="sim",
        latency_s=0.1,
        cost_usd=0.0,
    )
    given = {
        "key": RecordingKey(hashlib.sha256(str(number).encode()).hexdigest(), 0),
        "prompt": "alert",
        "version": "1.0.0",
        "case": f"case-{number:04}",
        "model": "sim:clerk-1",
        "completion": completion,
        "recorded_at": "2026-01-01T00:00:00Z",
        "request": {"prompt_digest": "a" * 64, "messages": 2, "parameters": {"temperature": 0}},
    }
    return Recording(**{**given, **changes})


@pytest.fixture(scope="session")
def made():
    return recording
