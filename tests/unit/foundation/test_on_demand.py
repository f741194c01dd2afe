"""Packages of many names load the module of a name when the name is asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ["regauge.history", "regauge.judges", "regauge.prompts", "regauge.reports"]
_LOADED = """\
import sys
{code}
print(*[name for name in sys.modules if name.startswith("regauge.")])
"""


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_of_a_package_can_be_had_and_is_listed(name: str):
    package = importlib.import_module(name)
    for offered in package.__all__:
        assert getattr(package, offered) is not None, offered
    assert set(package.__all__) <= set(dir(package))


def test_a_module_offers_the_types_that_its_annotations_name():
    hookspecs = importlib.import_module("regauge.hookspecs")
    for offered in hookspecs.__all__:
        assert getattr(hookspecs, offered) is not None, offered


@pytest.mark.parametrize("name", [*PACKAGES, "regauge.hookspecs"])
def test_a_name_that_a_package_does_not_have_is_an_error_as_ever(name: str):
    package = importlib.import_module(name)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'max_wrods'"):
        _ = package.max_wrods
    assert not hasattr(package, "__wrapped__")


def modules_loaded_by(code: str, at: Path) -> set[str]:
    """The modules of regauge that a statement loads."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED.format(code=code)],
        cwd=at, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_a_judge_does_not_load_the_others(tmp_path: Path):
    loaded = modules_loaded_by("from regauge.judges import max_words", tmp_path)
    assert "regauge.judges.rules._counts" in loaded
    assert not {name for name in loaded if ".model." in name or name.endswith("._infrastructure")}


def test_importing_the_judges_loads_none_of_them(tmp_path: Path):
    loaded = modules_loaded_by("import regauge.judges", tmp_path)
    assert loaded == {"regauge.judges", "regauge.on_demand"}


def test_threads_may_ask_for_the_first_name_at_once(tmp_path: Path):
    code = """
import threading
import regauge.prompts
barrier, found = threading.Barrier(8), []
def ask():
    barrier.wait()
    found.append(regauge.prompts.load_prompt)
threads = [threading.Thread(target=ask) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 8, found
"""
    assert "regauge.prompts._versions" in modules_loaded_by(code, tmp_path)


def test_rules_and_declarations_load_no_provider(tmp_path: Path):
    code = "from regauge.judges import all_of, deepeval, max_steps, no_secrets, judge_from_spec"
    assert not {name for name in modules_loaded_by(code, tmp_path) if "providers" in name}
