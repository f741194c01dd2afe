"""A project: where its files are (`_project.py`), and what may be set in it (`_settings.py`)."""

from __future__ import annotations

from regauge.project._project import Project
from regauge.project._settings import (
    ENDPOINT_IDENTITY,
    TARGET_KINDS,
    TRIALS_MAX,
    CalibrationSettings,
    CommandTarget,
    EndpointSettings,
    GateSettings,
    GoalSettings,
    HttpTarget,
    PriceSettings,
    PythonTarget,
    RecordedTarget,
    RecordMode,
    RefineSettings,
    Settings,
    TargetChange,
    TargetSettings,
    has_credentials,
    is_store,
    shown_store,
    shown_url,
)

__all__ = [
    "ENDPOINT_IDENTITY",
    "TARGET_KINDS",
    "TRIALS_MAX",
    "CalibrationSettings",
    "CommandTarget",
    "EndpointSettings",
    "GateSettings",
    "GoalSettings",
    "HttpTarget",
    "PriceSettings",
    "Project",
    "PythonTarget",
    "RecordMode",
    "RecordedTarget",
    "RefineSettings",
    "Settings",
    "TargetChange",
    "TargetSettings",
    "has_credentials",
    "is_store",
    "shown_store",
    "shown_url",
]
