"""Packages that a feature needs and the core does not install: one extra for each group of them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from regauge.errors import UsageError

EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic",),
    "dask": ("distributed",),
    "infra": ("hcl2", "sqlglot"),
    "inspect": ("zstandard",),
    "js": ("py_mini_racer",),
    "otel": ("opentelemetry.exporter.otlp.proto.http",),
    "parquet": ("pyarrow",),
    "postgres": ("psycopg",),
    "text": ("langdetect", "rapidfuzz", "snowballstemmer"),
}
"""The modules of each extra of pyproject.toml."""


def find_missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if not _is_installed(module)]


def install_command(module: str) -> str:
    """The command that installs the extra of a module, or the module where it is of none."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), "")
    return f"pip install 'regauge[{extra}]'" if extra else f"pip install {module}"


def require(module: str, *, use: str) -> None:
    """Check that the module of an extra is installed; it is not imported.

    Args:
        module: Its name.
        use: What needs it, for the message.

    Raises:
        UsageError: It is not installed.
    """
    if not _is_installed(module):
        raise UsageError(
            f"{use} needs {module}, which is not installed", fix=install_command(module)
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # a module without a spec, such as one that a test put there
        return True
    except ModuleNotFoundError:  # a package above it
        return False
