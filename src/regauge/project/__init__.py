"""A project: its files (`_project.py`) and settings (`_settings.py`)."""

from __future__ import annotations

from regauge.project._project import CALIBRATION_SUFFIX as CALIBRATION_SUFFIX, Project as Project
from regauge.project._settings import (
    CRITERIA as CRITERIA,
    ENDPOINT_IDENTITY as ENDPOINT_IDENTITY,
    TARGET_KINDS as TARGET_KINDS,
    TRIALS_MAX as TRIALS_MAX,
    CalibrationSettings as CalibrationSettings,
    CommandTarget as CommandTarget,
    Criterion as Criterion,
    EndpointSettings as EndpointSettings,
    GateSettings as GateSettings,
    GoalSettings as GoalSettings,
    HttpTarget as HttpTarget,
    MutateSettings as MutateSettings,
    PriceSettings as PriceSettings,
    PythonTarget as PythonTarget,
    RecordedTarget as RecordedTarget,
    RecordMode as RecordMode,
    RefineSettings as RefineSettings,
    Settings as Settings,
    TargetChange as TargetChange,
    TargetSettings as TargetSettings,
    has_credentials as has_credentials,
    is_store_url as is_store_url,
    redact_store_url as redact_store_url,
    redact_url as redact_url,
)
