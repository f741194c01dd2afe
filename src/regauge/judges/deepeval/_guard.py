"""Loads deepeval as a library and nothing more: no telemetry, no files, no `.env`, no prints.

deepeval reads its settings while it is imported: from the environment, where it trips over common
names such as `LOG_LEVEL`, from `.env` files and from a key file, whose content it puts into
`os.environ`. So its settings module is loaded first and fixed. The environment of the process is
neither changed nor consulted.

This and more rests on parts of deepeval that it does not document. Each goes through `part`, which
names the version that moved it.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import JudgeError
from regauge.judges.deepeval._identity import installed_version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

__all__ = ["SETTINGS", "import_quietly", "import_requests", "load", "loaded", "moved", "part"]

_SETTINGS_MODULE: Final = "deepeval.config.settings"
_BUILT_ON_IT: Final = "regauge.judges.deepeval.live"
_NAME: Final = "deepeval"  # of the package, and of its logger
_QUIET: Final = "it keeps telemetry, .env files and key files out of the run"
SETTINGS: Final[Mapping[str, Any]] = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": True,
    "DEEPEVAL_DISABLE_DOTENV": True,
    "DEEPEVAL_EVAL_MODE": "llm",
    "DEEPEVAL_MODE": "stable",
    "DEEPEVAL_DISABLE_TIMEOUTS": True,  # providers and the run have their own
    "DEEPEVAL_GRPC_LOGGING": True,  # otherwise it sets variables of gRPC
    "DEEPEVAL_VERBOSE_MODE": False,
    "CONFIDENT_OPEN_BROWSER": False,
    "LOG_LEVEL": logging.CRITICAL,
}
"""deepeval's settings, whatever the environment has; the rest are its defaults."""

_lock: Final = threading.Lock()


def moved(name: str, why: str) -> JudgeError:
    """The error for a part of deepeval that is not where regauge needs it.

    Args:
        name: The part, by its path.
        why: What regauge needs it for.
    """
    return JudgeError(
        f"deepeval {installed_version()} has moved or changed {name!r}, which regauge needs: {why}"
        "\n  fix: pip install 'deepeval==4.3.1', or install a newer regauge",
        judge=_NAME,
    )


def part(owner: Any, name: str, why: str) -> Any:
    """An undocumented part of deepeval.

    Args:
        owner: The module or class that has it.
        name: Its name there.
        why: What regauge needs it for.

    Raises:
        JudgeError: The installed version does not have it there.
    """
    if not hasattr(owner, name):
        module = getattr(owner, "__module__", "")
        place = f"{module}.{owner.__qualname__}" if module else owner.__name__
        raise moved(f"{place}.{name}", why)
    return getattr(owner, name)


def loaded() -> bool:
    """Whether `load` has come to its end in this process."""
    return _BUILT_ON_IT in sys.modules and hasattr(sys.modules[_BUILT_ON_IT], "LOADED")


def import_requests() -> None:
    """Import what deepeval needs of HTTP, on the thread of the run.

    requests filters a warning of its own while it is imported. Filters belong to the whole process:
    on another thread, a test that ends in between shows the warning.
    """
    with suppress(ImportError):
        importlib.import_module("requests")


def load() -> None:
    """Import deepeval and what here is built on it, once and quietly; from any thread.

    Raises:
        JudgeError: The installed version lacks what regauge needs of it.
        ImportError: deepeval is not installed, or something that it needs.
    """
    try:
        import_quietly()
        importlib.import_module(_BUILT_ON_IT)
    except ImportError as error:
        if error.name is None or not error.name.startswith(f"{_NAME}."):
            raise
        missing = str(getattr(error, "name_from", None) or "")  # of Python 3.12 and newer
        raise moved(f"{error.name}.{missing}".rstrip("."), "its judges import it") from error


def import_quietly() -> None:
    """Import deepeval alone; a judge needs `load`.

    Raises:
        JudgeError: The settings of the installed version are not where they were.
        ImportError: deepeval is not installed, or something that it needs.
    """
    with _lock:
        ahead = {} if _NAME in sys.modules else _settings_ahead()
        package = importlib.import_module(_NAME)
        importlib.import_module(f"{_NAME}.metrics")
        for name, module in ahead.items():  # loaded when there was no package to be part of
            vars(package).setdefault(name, module)
        settings: Any = importlib.import_module(_SETTINGS_MODULE)
        if not getattr(settings, "_regauge_settled", False):  # the project imported it itself
            _settle(settings)
        # It would print about this while it is imported.
        settings.get_settings().DEEPEVAL_FILE_SYSTEM = "READ_ONLY"


def _settings_ahead() -> dict[str, ModuleType]:
    """Load and fix the settings before the package runs, which reads them at its first line.

    Returns:
        The modules of the package that this loaded, by name.
    """
    spec = find_spec(_NAME)
    if spec is None:
        raise ModuleNotFoundError("No module named 'deepeval'", name=_NAME)
    sys.modules[_NAME] = module_from_spec(spec)  # it finds its modules and runs nothing
    try:
        _settle(importlib.import_module(_SETTINGS_MODULE))
    except BaseException:
        for name in [name for name in sys.modules if name.startswith(f"{_NAME}.")]:
            del sys.modules[name]
        raise
    finally:
        del sys.modules[_NAME]
    return {
        name.partition(".")[2]: module
        for name, module in sys.modules.items()
        if name.startswith(f"{_NAME}.") and name.count(".") == 1
    }


def _settle(settings: ModuleType) -> None:
    """Fix the settings: what comes after neither reads the environment nor writes to it."""
    module: Any = settings
    fields = part(part(module, "Settings", _QUIET), "model_fields", _QUIET)
    for name in SETTINGS:
        if name not in fields:
            raise moved(f"{_SETTINGS_MODULE}.Settings.{name}", _QUIET)
    for name in ("autoload_dotenv", "_merge_legacy_keyfile_into_env", "_calc_env_fingerprint"):
        part(module, name, _QUIET)
    part(module, "_settings_singleton", _QUIET)
    part(module, "get_settings", _QUIET)
    module.autoload_dotenv = _nothing
    module._merge_legacy_keyfile_into_env = _nothing  # noqa: SLF001 - no public switch is enough
    module._calc_env_fingerprint = _same_always  # noqa: SLF001
    module.Settings.settings_customise_sources = _Sources()
    module._settings_singleton = None  # noqa: SLF001
    module._regauge_settled = True  # noqa: SLF001
    logging.getLogger(_NAME).setLevel(logging.CRITICAL)


def _nothing(*_: object, **__: object) -> None:
    return None


def _same_always() -> str:
    return "regauge"


class _Sources:
    """Where the settings come from: `SETTINGS`, and nowhere else."""

    def __call__(self, settings_cls: Any, *_: object, **__: object) -> tuple[Any, ...]:
        from pydantic_settings import InitSettingsSource

        return (InitSettingsSource(settings_cls, init_kwargs=dict(SETTINGS)),)
