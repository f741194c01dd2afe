"""Files are replaced whole, and only files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from regauge.files import read_regular, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_a_device_or_a_pipe_behind_a_link_is_not_replaced(tmp_path: Path):
    pipe, link = tmp_path / "pipe", tmp_path / "file.json"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match="it is a device or a pipe, not a file"):
        write_whole(link, b"{}")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(tmp_path.iterdir()) == [link, pipe]


def test_a_file_is_written_whole_with_the_mode_of_the_one_before(tmp_path: Path):
    path = tmp_path / "a/b/file.json"
    write_whole(path, b"one")
    assert path.read_bytes() == b"one"
    path.chmod(0o640)
    write_whole(path, iter([b"two", b" parts"]))
    assert path.read_bytes() == b"two parts"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_leaves_the_file_and_no_draft(tmp_path: Path):
    def parts() -> Iterator[bytes]:
        yield b"two"
        raise ValueError("no more")

    path = tmp_path / "file.json"
    write_whole(path, b"one")
    with pytest.raises(ValueError, match="no more"):
        write_whole(path, parts())
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"one", [path])
    directory = tmp_path / "directory"
    (directory / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match="directory") as caught:
        write_whole(directory, b"x")
    assert (caught.value.filename, caught.value.filename2) == (str(directory), None)
    assert sorted(tmp_path.iterdir()) == [directory, path]


def test_a_file_behind_a_link_is_written(tmp_path: Path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    write_whole(link, b"one")
    assert link.is_symlink()
    assert target.read_bytes() == b"one"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Path.mkdir, "Is a directory"),
        (os.mkfifo, "it is a named pipe, not a file"),
        (lambda path: path.write_bytes(b"12345"), None),
        (lambda path: path.write_bytes(b"123456"), "it has 1 MiB, and 0 MiB is the limit"),
    ],
)
def test_a_regular_file_up_to_its_limit_is_read(
    tmp_path: Path, make: Callable[[Path], object], words: str | None
):
    path = tmp_path / "file"
    make(path)
    if words is None:
        assert read_regular(path, bytes_max=5) == b"12345"
        return
    with pytest.raises(OSError, match=words) as caught:
        read_regular(path, bytes_max=5)
    assert caught.value.filename == str(path)
