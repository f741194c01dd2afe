"""Recordings: stored completions, replayed without calls.

`_file.py` and `_measurements.py` read and write committed files; `_store.py` is the local store,
which keeps each completion at once. `_redact.py` keeps secrets out of all of them.
"""

from regauge.project import RecordMode as RecordMode
from regauge.recordings._file import (
    Recording as Recording,
    RecordingKey as RecordingKey,
    RecordingsFile as RecordingsFile,
    append_lines as append_lines,
    check_file_sizes as check_file_sizes,
    encode_line as encode_line,
    lock_file as lock_file,
    read_lines as read_lines,
    replacements_in as replacements_in,
    request_summary as request_summary,
    utc_now as utc_now,
)
from regauge.recordings._find_secrets import find_secrets as find_secrets
from regauge.recordings._measurements import (
    MeasurementLine as MeasurementLine,
    MeasurementsFile as MeasurementsFile,
    VectorsFile as VectorsFile,
    parse_vector as parse_vector,
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
