"""Loads deepeval as a library and nothing more: no telemetry, no files, no `.env`, no prints.

deepeval reads its settings while it is imported: from the environment, where it trips over common
names such as `LOG_LEVEL`, from `.env` files and from a key file, whose content it puts into
`os.environ`. So its settings module is replaced in part at the moment it is loaded. The environment
of the process is neither changed nor consulted.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["SETTINGS", "import_quietly", "load", "loaded"]

_SETTINGS_MODULE: Final = "deepeval.config.settings"
_BUILT_ON_IT: Final = "regauge.judges.deepeval.live._metrics"
_NAME: Final = "deepeval"  # of the package, and of its logger
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
"""What deepeval's settings say, whatever the environment says; the rest are its defaults."""

_lock: Final = threading.Lock()


def loaded() -> bool:
    """Whether `load` has come to its end in this process."""
    return _BUILT_ON_IT in sys.modules and hasattr(sys.modules[_BUILT_ON_IT], "LOADED")


def load() -> None:
    """Import deepeval and what here is built on it, once and quietly; from any thread.

    Raises:
        ImportError: deepeval is not installed, or is a version that cannot be loaded.
    """
    importlib.import_module(_BUILT_ON_IT)


def import_quietly() -> None:
    """Import deepeval alone; `load` is what a judge wants.

    Raises:
        ImportError: deepeval is not installed, or is a version that cannot be loaded.
    """
    with _lock:
        finder = _SettingsFinder()
        sys.meta_path.insert(0, finder)
        try:
            importlib.import_module("deepeval.metrics")
        finally:
            sys.meta_path.remove(finder)
        settings: Any = sys.modules[_SETTINGS_MODULE]
        if not getattr(settings, "_regauge_settled", False):  # the project imported it itself
            _settle(settings)
        # It would print about this while it is imported.
        settings.get_settings().DEEPEVAL_FILE_SYSTEM = "READ_ONLY"


def _settle(settings: ModuleType) -> None:
    """Fix the settings: what comes after neither reads the environment nor writes to it."""
    module: Any = settings
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

        fields = settings_cls.model_fields
        known = {name: value for name, value in SETTINGS.items() if name in fields}
        return (InitSettingsSource(settings_cls, init_kwargs=known),)


class _SettingsFinder(MetaPathFinder):
    """Finds deepeval's modules, and has its settings settled before anything uses them.

    deepeval is a plugin of pytest, too, which rewrites the asserts of all its 400 modules. That is
    for tests, and loading takes a quarter longer with it.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as it is on disk; the settings with a loader around its loader."""
        if fullname.partition(".")[0] != _NAME:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if fullname != _SETTINGS_MODULE:
            return spec
        for finder in sys.meta_path:
            if spec is None and finder is not self:
                spec = finder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _SettlingLoader(spec.loader)
        return spec


class _SettlingLoader(Loader):
    """A loader that runs another one and then settles what it loaded."""

    def __init__(self, inner: Loader) -> None:
        self._inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the other loader does."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the other loader does, and settle."""
        self._inner.exec_module(module)
        _settle(module)
