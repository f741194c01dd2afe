from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pytest

from regauge.garbage import (
    collecting_seldom,
    import_for_good,
    import_undisturbed,
    keep_for_good,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    text = "import gc\nMEANWHILE = gc.isenabled()\nKEPT = [[] for _ in range(1000)]\n"
    (tmp_path / "large_module.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield "large_module"
    sys.modules.pop("large_module", None)


def test_the_collector_rests_while_a_module_is_imported_and_goes_on_after(module: str):
    assert import_undisturbed(module).MEANWHILE is False
    assert gc.isenabled()


def test_a_collector_that_somebody_stopped_stays_so(module: str):
    gc.disable()
    try:
        import_undisturbed(module)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_module_that_fails_leaves_the_collector_on():
    with pytest.raises(ImportError):
        import_undisturbed("no_module_of_this_name")
    assert gc.isenabled()


def test_what_was_imported_for_good_is_not_looked_at_again(module: str):
    before = gc.get_freeze_count()
    import_for_good(module)
    assert gc.get_freeze_count() > before + 1000
    gc.unfreeze()
    import_for_good(module)  # it is there already
    assert gc.get_freeze_count() == 0


def test_garbage_is_looked_for_seldom_within_the_block_and_as_before_after_it():
    before = gc.get_threshold()
    with collecting_seldom():
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
    gc.set_threshold(0)
    try:
        with collecting_seldom():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_what_is_kept_is_alive_and_what_was_garbage_is_gone():
    class Cycle:
        gone = 0

        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            Cycle.gone += 1

    gc.collect()
    Cycle()
    keep_for_good()
    assert Cycle.gone == 1
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    Cycle()
    gc.collect(1)
    keep_for_good(after_collecting=2)
    assert Cycle.gone == 2
