"""Recordings: answers that were given once and are replayed ever after.

Committed files are read and written in `_file.py` and `_measurements.py`; `_store.py` is the local
store, for answers the moment they land. `_redact.py` keeps secrets out of all of them.
"""

from regauge.project import RecordMode as RecordMode
from regauge.recordings._file import (
    Recording as Recording,
    RecordingKey as RecordingKey,
    RecordingsFile as RecordingsFile,
    Replacements as Replacements,
    append_lines as append_lines,
    encode_line as encode_line,
    exclusive as exclusive,
    placed_lines_of as placed_lines_of,
    replacements_in as replacements_in,
    request_summary as request_summary,
    rewriting as rewriting,
    utc_now as utc_now,
    warn_of_sizes as warn_of_sizes,
)
from regauge.recordings._find_secrets import find_secrets as find_secrets
from regauge.recordings._measurements import (
    MeasurementLine as MeasurementLine,
    MeasurementsFile as MeasurementsFile,
    VectorsFile as VectorsFile,
    check_vector as check_vector,
)
from regauge.recordings._redact import (
    REDACTED as REDACTED,
    Redactor as Redactor,
    map_texts as map_texts,
    redactor_for as redactor_for,
)
from regauge.recordings._store import (
    Claim as Claim,
    LocalStore as LocalStore,
    describe_process as describe_process,
)
