"""Recordings: answers that were given once and are replayed ever after.

Committed files are read and written in `_file.py`, `_measurements.py` and `_vectors.py`;
`_store.py` is the local store, for answers the moment they land. `_redact.py` keeps secrets out of
all of them.
"""

from regauge.project import RecordMode
from regauge.recordings._file import (
    Recording,
    RecordingKey,
    RecordingsFile,
    Replacements,
    append_lines,
    encode_line,
    exclusive,
    placed_lines_of,
    replacements_in,
    request_summary,
    rewriting,
    utc_now,
    warn_of_sizes,
)
from regauge.recordings._find_secrets import find_secrets
from regauge.recordings._measurements import MeasurementLine, MeasurementsFile
from regauge.recordings._redact import REDACTED, Redactor, map_texts, redactor_for
from regauge.recordings._store import Claim, LocalStore, describe_process
from regauge.recordings._vectors import VectorsFile, check_vector

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
    "Replacements",
    "VectorsFile",
    "append_lines",
    "check_vector",
    "describe_process",
    "encode_line",
    "exclusive",
    "find_secrets",
    "map_texts",
    "placed_lines_of",
    "redactor_for",
    "replacements_in",
    "request_summary",
    "rewriting",
    "utc_now",
    "warn_of_sizes",
]
