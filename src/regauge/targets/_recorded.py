"""Outputs that exist already: a JSON Lines file below `fixtures`."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.digests import digest_of
from regauge.errors import DatasetError, Fault, ProviderError
from regauge.strict_json import read_json
from regauge.targets._output import OUTPUT_FIELDS, OUTPUT_MAX, completion_of
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = ["RecordedOutputs", "read_outputs"]

_KEYS: Final = ("case", "trial", *OUTPUT_FIELDS)


class RecordedOutputs:
    """The outputs of a file, by case and trial.

    Args:
        name: The target.
        lines: By case and trial.
        cost_usd: The cost of an output that states none.
    """

    def __init__(
        self,
        name: str,
        lines: Mapping[str, Mapping[int, Mapping[str, JSON]]],
        *,
        cost_usd: float | None,
    ) -> None:
        self._name = name
        self._lines = lines
        self._cost_usd = cost_usd

    @property
    def digest(self) -> str:
        """Of all outputs."""
        return digest_of({case: self.digest_of_case(case) for case in self._lines})

    def digest_of_case(self, case: str) -> str:
        """Of all outputs of a case."""
        lines = self._lines.get(case, {})
        return digest_of([[trial, lines[trial]] for trial in sorted(lines)])

    def find(self, case: str, trial: int) -> Completion | None:
        """The output of a trial of a case; None where the file has no such line."""
        output = self._lines.get(case, {}).get(trial)
        if output is None:
            return None
        return completion_of(output, provider="recorded", model=self._name, cost_usd=self._cost_usd)


def read_outputs(
    data: bytes | None, *, shown: Path, name: str, cost_usd: float | None
) -> RecordedOutputs:
    """Read a file of outputs.

    Args:
        data: What it holds; None where there is none.
        shown: Its path, for errors.
        name: The target.
        cost_usd: The cost of an output that states none.

    Raises:
        DatasetError: It does not exist, or lines cannot be read: all of them at once.
    """
    if data is None:
        fix = "write it, or correct `path` in [tool.regauge.targets." + name + "]"
        raise DatasetError([Fault(path=shown, line=None, message="no such file", fix=fix)])
    found: dict[str, dict[int, Mapping[str, JSON]]] = defaultdict(dict)
    faults: list[Fault] = []
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            case, trial, output = _read_line(line)
        except ValueError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            faults.append(Fault(path=shown, line=number, message=message, fix=fix))
            continue
        if trial in found[case]:
            message, fix = f"case {case!r} has trial {trial} twice", "count its trials from 0"
            faults.append(Fault(path=shown, line=number, message=message, fix=fix))
        found[case][trial] = output
    if faults:
        raise DatasetError(faults)
    return RecordedOutputs(name, found, cost_usd=cost_usd)


def _read_line(line: bytes) -> tuple[str, int, Mapping[str, JSON]]:
    if len(line) > OUTPUT_MAX:
        raise ValueError(f"the line is larger than {OUTPUT_MAX:,} bytes")
    document: object = read_json(line.decode("utf-8"))
    if not isinstance(document, Mapping):
        raise ValueError("not an object\n  fix: write case, trial and text")  # noqa: TRY004
    given = cast("Mapping[str, Any]", document)
    for key in given:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"there are {', '.join(_KEYS)}"
            raise ValueError(f"unknown key {key!r}\n  fix: {hint}")
    case, trial = given.get("case"), given.get("trial", 0)
    if not isinstance(case, str) or not case:
        raise ValueError("`case` is missing\n  fix: name the golden case")
    if type(trial) is not int or trial < 0:
        raise ValueError(f"`trial` is {trial!r}, not a number from 0")
    if "text" not in given and "messages" not in given:
        raise ValueError("it has neither `text` nor `messages`")
    output = {key: given[key] for key in OUTPUT_FIELDS if key in given}
    try:
        completion_of(output, provider="", model="")
    except ProviderError as error:
        raise ValueError(str(error)) from error
    return case, trial, output
