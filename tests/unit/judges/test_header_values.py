"""Values of environment variables that judges send as headers."""

from __future__ import annotations

import pytest

from regauge.errors import ProviderError
from regauge.judges._external_calls import build_headers


def test_headers_have_the_values_of_their_variables():
    variables = {"Authorization": "TOKEN", "X-Team": "TEAM"}
    values = {"TOKEN": "Bearer abc ~", "TEAM": "", "OTHER": "x"}
    assert build_headers(variables, values) == {"Authorization": "Bearer abc ~", "X-Team": ""}
    assert build_headers({}, values) == {}


@pytest.mark.parametrize("value", ["Zoë", "two\nlines", "a\tb", "\x7f", "a\u2028b"])
def test_a_value_that_is_no_line_of_ascii_text_is_an_error_without_it(value: str):
    with pytest.raises(
        ProviderError, match=r"value of \$TEAM cannot be sent as the header"
    ) as caught:
        build_headers({"Authorization": "TOKEN", "X-Team": "TEAM"}, {"TOKEN": "a", "TEAM": value})
    assert caught.value.kind == "bad-request"
    assert value not in str(caught.value)
