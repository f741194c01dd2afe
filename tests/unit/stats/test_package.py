from __future__ import annotations

import regauge.stats


def test_the_package_exports_what_it_lists():
    assert all(hasattr(regauge.stats, name) for name in regauge.stats.__all__)
    assert sorted(regauge.stats.__all__) == sorted({*regauge.stats.__all__})


def test_it_loads_neither_scipy_nor_pandas(modules_loaded_by):
    assert not {"scipy", "pandas", "openai"} & modules_loaded_by("import regauge.stats")


def test_the_program_starts_without_it(modules_loaded_by):
    assert not {"numpy", "regauge.stats"} & modules_loaded_by("import regauge")
