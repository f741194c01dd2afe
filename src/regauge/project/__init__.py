"""A project: where its files are (`_project.py`), and what may be set in it (`_settings.py`)."""

from __future__ import annotations

from regauge.project._project import Project
from regauge.project._settings import (
    ENDPOINT_IDENTITY,
    TRIALS_MAX,
    CalibrationSettings,
    EndpointSettings,
    GateSettings,
    GoalSettings,
    PriceSettings,
    RecordMode,
    RefineSettings,
    Settings,
)
from regauge.project._urls import has_credentials, is_store, shown_store, shown_url

__all__ = [
    "ENDPOINT_IDENTITY",
    "TRIALS_MAX",
    "CalibrationSettings",
    "EndpointSettings",
    "GateSettings",
    "GoalSettings",
    "PriceSettings",
    "Project",
    "RecordMode",
    "RefineSettings",
    "Settings",
    "has_credentials",
    "is_store",
    "shown_store",
    "shown_url",
]
