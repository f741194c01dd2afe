"""Lines of files of results, and the keys in them: untrusted text."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given, strategies as st

from regauge.maintenance.batches import key_of, result_id
from regauge.providers.batches import ResultLine
from regauge.recordings import RecordingKey

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["custom_id", "response", "status_code", "body", "error", "result", "type", "message", "code"]
)
_LINES = st.recursive(
    _JSON | st.sampled_from(["succeeded", "errored", "expired", 200, 400]),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    digest=st.binary(min_size=32, max_size=32).map(bytes.hex),
    trial=st.integers(min_value=0, max_value=10**15 - 1),
)
def test_a_key_goes_through_its_id(digest: str, trial: int):
    """Anthropic takes 64 characters of this alphabet."""
    custom_id = result_id(RecordingKey(digest, trial))
    assert len(custom_id) <= 64
    assert set(custom_id) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert key_of(custom_id) == RecordingKey(digest, trial)


@given(st.text())
def test_other_ids_are_no_keys(text: str):
    key = key_of(text)
    assert key is None or result_id(key)[:42] == text[:42]


@given(st.binary() | _LINES.map(lambda line: json.dumps(line).encode()))
def test_any_line_is_a_result_or_is_refused(line: bytes):
    with suppress(ValueError):
        result = ResultLine.parse(line)
        assert result.custom_id
        assert bool(result.body) != bool(result.problem)
