"""Files are replaced whole, and only files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from regauge.atomic import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def test_a_device_or_a_pipe_behind_a_link_is_not_replaced(tmp_path: Path):
    pipe, link = tmp_path / "pipe", tmp_path / "file.json"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match="it is a device or a pipe, not a file"):
        write_whole(link, b"{}")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(tmp_path.iterdir()) == [link, pipe]
