"""Recordings: answers that were given once and are replayed ever after."""

from regauge.project import RecordMode
from regauge.recordings._atomic import write_whole
from regauge.recordings._file import RecordingsFile
from regauge.recordings._measurements import MeasurementLine, MeasurementsFile
from regauge.recordings._owner import describe_process
from regauge.recordings._recording import Recording, RecordingKey, request_summary, utc_now
from regauge.recordings._redact import REDACTED, Redactor, map_texts
from regauge.recordings._store import Claim, LocalStore
from regauge.recordings._vectors import VectorsFile

__all__ = [
    "REDACTED",
    "Claim",
    "LocalStore",
    "MeasurementLine",
    "MeasurementsFile",
    "RecordMode",
    "Recording",
    "RecordingKey",
    "RecordingsFile",
    "Redactor",
    "VectorsFile",
    "describe_process",
    "map_texts",
    "request_summary",
    "utc_now",
    "write_whole",
]
