"""Recordings: answers that were given once and are replayed ever after.

Committed files are read and written in `_file.py`, `_measurements.py` and `_vectors.py`, on the
lines of `_lines.py`; `_store.py` is the local store, for answers the moment they land.
`_redact.py` keeps secrets out of all of them, and `_size.py` warns of files that are large.
"""

from regauge.project import RecordMode
from regauge.recordings._file import RecordingsFile
from regauge.recordings._find_secrets import find_secrets
from regauge.recordings._measurements import MeasurementLine, MeasurementsFile
from regauge.recordings._owner import describe_process
from regauge.recordings._recording import Recording, RecordingKey, request_summary, utc_now
from regauge.recordings._redact import REDACTED, Redactor, map_texts, redactor_for
from regauge.recordings._replaced import Replacements, replacements_in
from regauge.recordings._size import warn_of_sizes
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
    "Replacements",
    "VectorsFile",
    "describe_process",
    "find_secrets",
    "map_texts",
    "redactor_for",
    "replacements_in",
    "request_summary",
    "utc_now",
    "warn_of_sizes",
]
