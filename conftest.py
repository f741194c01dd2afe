"""What the evals and tests of this repository share."""

from __future__ import annotations

import pytest
import pytest_socket


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A replay opens no socket: what tries to fails at once, and says where."""
    if item.config.getoption("--record") == "none":
        pytest_socket.disable_socket(allow_unix_socket=True)
