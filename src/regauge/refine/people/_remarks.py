"""Comments on a pull request, and notes in a file, as evidence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from regauge.errors import UsageError
from regauge.refine.people._evidence import Evidence, Heard
from regauge.refine.people._words import own_words
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from regauge.github import Remark

__all__ = ["heard_on_pull", "noted_in"]

_REMARKS_MAX: Final = 20
_FILE_BYTES_MAX: Final = 100_000
_SUFFIXES: Final = (".prompt.yml", ".prompt.yaml")


def heard_on_pull(
    remarks: Sequence[Remark], bots: int, *, trusted: Collection[str], prompt: str
) -> Heard:
    """What people said on a pull request, as far as it counts: the newest, the oldest first.

    Args:
        remarks: All of them, the oldest first.
        bots: How many more were of bots, or are regauge's own.
        trusted: Whose count, by what GitHub says they are; `anyone` lets all in.
        prompt: The name of the prompt; what is said on the file of another one is left out.
    """
    left_out = [f"{bots} of bots"] if bots else []
    known = [one for one in remarks if {one.association, "anyone"} & set(trusted)]
    if len(known) < len(remarks):
        left_out.append(f"{len(remarks) - len(known)} of people who may not write here")
    ours = [one for one in known if not _is_of_another(one.path, prompt)]
    if len(ours) < len(known):
        left_out.append(f"{len(known) - len(ours)} on other prompts")
    said: list[Evidence] = []
    refused = Counter[str]()
    for one in ours:
        text, lines = own_words(one.text)
        refused += lines
        if text:
            said.append(Evidence(kind="comment", text=text, by=one.by, at=one.url))
    return _newest(said, left_out, refused)


def noted_in(path: Path) -> Heard:
    """What a file says: every paragraph is a note.

    Raises:
        UsageError: It cannot be read, or says nothing.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"--feedback: {path} cannot be read: {why}") from error
    if len(data) > _FILE_BYTES_MAX:
        raise UsageError(
            f"--feedback: {path} has {len(data):,} bytes, more than {_FILE_BYTES_MAX:,}\n"
            "  fix: write down what answers lack, a paragraph for each"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"--feedback: {path} is not UTF-8: {error}") from error
    said: list[Evidence] = []
    refused = Counter[str]()
    for line, paragraph in _paragraphs(text):
        words, lines = own_words(paragraph)
        refused += lines
        if words:
            said.append(Evidence(kind="note", text=words, at=f"{path.as_posix()}:{line}"))
    if not said:
        raise UsageError(
            f"--feedback: {path} says nothing that can be used\n"
            "  fix: write down what answers lack, a paragraph for each"
        )
    return _newest(said, [], refused)


def _newest(said: list[Evidence], left_out: list[str], refused: Counter[str]) -> Heard:
    for kind, number in refused.items():
        if number:
            noun, _, rest = kind.partition(" in ")
            left_out.append(plural(number, noun) + (f" in {rest}" if rest else ""))
    if len(said) > _REMARKS_MAX:
        left_out.append(f"{len(said) - _REMARKS_MAX} older ones")
    return Heard(said=tuple(said[-_REMARKS_MAX:]), left_out=tuple(left_out))


def _is_of_another(path: str, prompt: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(_SUFFIXES) and not any(name == f"{prompt}{end}" for end in _SUFFIXES)


def _paragraphs(text: str) -> list[tuple[int, str]]:
    """Paragraphs with the number of their first line."""
    found: list[tuple[int, str]] = []
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip():
            lines.append(line)
        elif lines:
            found.append((number - len(lines), "\n".join(lines)))
            lines = []
    return found
