"""Telling what shape a JSON value has."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["is_list", "is_object"]


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)
