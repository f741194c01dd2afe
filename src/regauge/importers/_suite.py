"""Suites of the smaller formats: their files and rows of data, converted to evals."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import InvalidFileError, UsageError
from regauge.importers._description import (
    Imported,
    ImportedCase,
    ImportedEval,
    ImportedPrompt,
    SourcePlace,
    case_ids,
    slug,
    unique_name,
)
from regauge.importers._source import SourceError, SourceTree
from regauge.judges import judge_from_spec
from regauge.recordings import find_secrets
from regauge.scaffold import NewFile
from regauge.strict_json import is_list, is_mapping, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON

_SKIPPED: Final = frozenset(
    {
        "node_modules", ".git", ".venv", "venv", "dist", "build", "__pycache__", ".regauge",
        "site-packages", ".deepeval",
    }
)  # fmt: skip
_TITLE_MAX: Final = 500
_VARIABLE: Final = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}", re.ASCII)
JUDGE_MODEL: Final = "openai:gpt-5.4-mini"
ROLES: Final = ("system", "developer", "user", "assistant", "tool")


class NoCounterpartError(Exception):
    """A criterion without a counterpart; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of data, which becomes a golden case.

    Attributes:
        inputs: Inputs by name; those that the prompt does not insert are left out.
        expected: The expected value; None without one.
        title: The text for the id.
        checks: Judges of this case.
        tags: Tags; forbidden characters are replaced.
        note: A note for readers.
    """

    place: SourcePlace
    inputs: Mapping[str, Any]
    expected: Any = None
    title: str = ""
    checks: Sequence[JSON] = ()
    tags: Sequence[str] = ()
    note: str = ""


def files_below(directory: Path) -> Iterator[Path]:
    """The files of a directory in order, without those of packages and builds."""
    for folder, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        yield from (Path(folder) / name for name in sorted(files))


class ImportedSuite:
    """The reader of one source.

    Args:
        path: The file or directory; it exists.
        root: The project's root.
        name: The stem of the names of written files; by default from the path.
        title: The name of the format, for errors.

    Raises:
        UsageError: The path is a link.
    """

    def __init__(self, path: Path, *, root: Path, name: str, title: str) -> None:
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` follows links
        if absolute.is_symlink():
            raise UsageError(
                f"{path} is a link, which is not followed", fix="name the file that it leads to"
            )
        self.repository = SourceTree.containing(path, project=root)
        self.path = absolute.parent.resolve() / absolute.name
        self.root = root.resolve()
        self.title = title
        self._display_path = path
        stem = slug(name or re.sub(r"(\.\w+)+\Z", "", self.path.name), otherwise="imported")
        self.imported = Imported(name=stem)
        self._rubrics: dict[str, str] = {}  # names by content

    def place(self, path: Path, line: int | None = None) -> SourcePlace:
        """A line of a file."""
        return SourcePlace(path=self.repository.relative(path), line=line)

    def files(self, *suffixes: str, accepts: Callable[[str], bool] | None = None) -> list[Path]:
        """The file of the path, or the files below it by their suffixes and content.

        Args:
            accepts: Called with the text of each file below a directory; returns whether it has
                this format.
        """
        if not self.path.is_dir():
            return [self.path]
        paths: list[Path] = []
        for file in files_below(self.path):
            if not file.name.endswith(suffixes) or file.is_symlink() or not file.is_file():
                continue
            try:
                if accepts is None or accepts(self.repository.read_text(file)):
                    paths.append(file)
            except SourceError as error:
                self.imported.note("dropped", self.place(file), f"not read: {error}")
        return paths

    def read(self, files: Sequence[Path], reader: Callable[[Path], None]) -> None:
        """Read each file; one of several that cannot be read is noted.

        Raises:
            UsageError: The only one cannot be read.
            InvalidFileError: The only one cannot be parsed.
        """
        for file in files:
            self.imported.sources.append(self.repository.relative(file))
            try:
                reader(file)
            except SourceError as error:
                if len(files) == 1:
                    raise UsageError(str(error), fix="name a readable file in UTF-8") from error
                self.imported.note("manual", self.place(file), f"not imported: {error}")
            except (InvalidFileError, UsageError) as error:
                if len(files) == 1:
                    raise
                line, message = (
                    None,
                    error.message.removeprefix(f"{self.repository.relative(file)}: "),
                )
                if isinstance(error, InvalidFileError):
                    line, message = error.diagnostics[0].line, error.diagnostics[0].message
                self.imported.note("manual", self.place(file, line), f"not imported: {message}")

    def finish(self, fix: str, *, passwords: bool = True) -> Imported:
        """The whole description.

        Args:
            passwords: Passwords are masked as keys are; tests of promptfoo make them up.

        Raises:
            UsageError: There is nothing to import.
        """
        if self.imported.prompts or self.imported.datasets:
            self._mask_keys(passwords=passwords)
            return self.imported
        notes = [note for note in self.imported.notes if note.kind != "changed"]
        # The reasons come before remarks on parts of the same files.
        notes.sort(key=lambda note: not note.text.startswith("not imported: "))
        texts = "; ".join(f"{note.place}: {note.text}" for note in notes[:3])
        raise UsageError(
            f"nothing of {self._display_path} can be imported as {self.title}"
            + (f": {texts}" if texts else ""),
            fix=fix,
        )

    def _mask_keys(self, *, passwords: bool) -> None:
        """Mark keys in data or prompts as secrets to mask, with a note for each."""
        imported = self.imported
        source_place = SourcePlace(path=imported.sources[0])
        texts = [
            *((row.place, row.document) for rows in imported.datasets.values() for row in rows),
            *((source_place, prompt.document) for prompt in imported.prompts),
            *((source_place, imported_eval.judges) for imported_eval in imported.evals),
            *(
                (source_place, target)
                for target in (*imported.targets.values(), *imported.providers.values())
            ),
            *((source_place, line) for file in imported.files for line in file.text.splitlines()),
        ]
        # JSON escapes quotes around a key, and shows the name before a key.
        for place, text in dict.fromkeys(
            (place, text)
            for place, value in texts
            for text in (text_of(value), *walk(value))
            if isinstance(text, str)
        ):
            for hit in find_secrets(text):
                secret = text[hit.start : hit.end]
                # A plain word would be masked everywhere, also in code.
                if secret.strip("\"'").isalpha() or (hit.kind == "password" and not passwords):
                    continue
                imported.secrets.add(secret)
                imported.note("manual", place, f"a key was not copied ({hit.kind})")

    def name(self, words: str = "") -> str:
        """A new name for a prompt and its dataset."""
        names = [*self.imported.datasets, *(prompt.name for prompt in self.imported.prompts)]
        return unique_name(slug(words, otherwise=self.imported.name), names)

    def check(self, spec: JSON, kind: str, place: SourcePlace) -> JSON:
        """The judge of a criterion; `unmeasured` if its parameters are invalid."""
        if problem := self.problem_of(spec, place):
            return self.unmeasured(kind, problem, place)
        self.imported.count(assertions=1)
        return spec

    def problem_of(self, spec: JSON, place: SourcePlace) -> str:
        """The reason why a judge's parameters are invalid, else empty; notes a missing package."""
        try:
            judge_from_spec(spec)
        except UsageError as error:
            if "is not installed" not in error.message:
                return " ".join(error.message.split())
            self.imported.note("manual", place, f"{error.message} ({error.fix})")
        return ""

    def unmeasured(self, kind: str, reason: str, place: SourcePlace) -> JSON:
        """The judge of a criterion without a counterpart."""
        self.imported.count(assertions=1, unmeasured=1)
        self.imported.note("manual", place, f"`{kind}` is unmeasured: {reason}")
        return {"unmeasured": f"{self.title}: {kind} at {place}: {reason}"}

    def need_judge_model(self, place: SourcePlace) -> None:
        """Set a model for LLM judges in the project."""
        model = self.imported.settings.setdefault("judge_model", JUDGE_MODEL)
        text = f"LLM judges call judge_model of pyproject.toml, {model} if the import writes it"
        self.imported.note("changed", place, text)

    def rubric(
        self,
        words: str,
        rubric: Mapping[str, JSON],
        messages: Sequence[JSON],
        source: str,
        place: SourcePlace,
    ) -> str:
        """The name of a rubric with this content; adds it, with a note about its source."""
        document: dict[str, JSON] = {
            "modelParameters": {"temperature": 0},
            "rubric": dict(rubric),
            "messages": list(messages),
        }
        key = repr(document)
        if key not in self._rubrics:
            name = self.name(words)
            self.imported.prompts.append(
                ImportedPrompt(name=name, document={"name": name, **document}, rubric=True)
            )
            self._rubrics[key] = name
        name = self._rubrics[key]
        text = f"{source} became the rubric {name}: remove its output format, then calibrate it"
        self.imported.note("manual", place, text)
        return name

    def add_eval(
        self,
        name: str,
        rows: Sequence[Row],
        *,
        messages: Sequence[Mapping[str, JSON]] = (),
        document: Mapping[str, JSON] | None = None,
        judges: Sequence[JSON] = (),
        target: str = "",
    ) -> None:
        """Add a prompt or a target with its golden cases.

        Args:
            name: The name of the prompt and the dataset.
            messages: The prompt's messages; empty with a target.
            document: Further keys of the prompt.
        """
        inserted_names = _find_used(messages)
        if not target:
            keys: dict[str, JSON] = {**(document or {}), "messages": [dict(m) for m in messages]}
            missing = {name for name in inserted_names for row in rows if name not in row.inputs}
            if missing:
                keys["inputs"] = [
                    {"name": name, "required": False} if name in missing else {"name": name}
                    for name in inserted_names
                ]
            self.imported.prompts.append(ImportedPrompt(name=name, document=keys))
        if not rows:
            return
        cases: list[ImportedCase] = []
        for case_id, row in zip(_ids(rows), rows, strict=True):
            inputs = dict(row.inputs)
            if not target:
                inputs = {key: value for key, value in inputs.items() if key in inserted_names}
            tags = dict.fromkeys(" ".join(tag.replace(";", ",").split()) for tag in row.tags)
            optional: dict[str, JSON] = {
                "tags": [tag for tag in tags if tag],
                "note": row.note,
                "checks": list(row.checks),
            }
            case: dict[str, JSON] = {"id": case_id, "inputs": inputs}
            if row.expected is not None:
                case["expected"] = row.expected
            case.update({key: value for key, value in optional.items() if value})
            cases.append(ImportedCase(document=case, place=row.place))
        self.imported.datasets[name] = cases
        self.imported.evals.append(
            ImportedEval(prompt=name, dataset=name, target=target, judges=judges)
        )

    def add_dataset(self, name: str, rows: Sequence[Row], judges: Sequence[JSON] = ()) -> None:
        """Add rows without a prompt, with a new prompt that only sends their inputs.

        Args:
            judges: Judges of all rows; without any, the eval is unmeasured.
        """
        if not rows:
            return
        place = rows[0].place
        keys = list(dict.fromkeys(key for row in rows for key in row.inputs))
        chats = [
            k for k in keys if any(is_list(r.inputs.get(k)) and chat_of(r.inputs[k]) for r in rows)
        ]
        texts = [key for key in keys if key not in chats]
        lines = [f"{literal(key)}: {{{{{key}}}}}" for key in texts]
        text = "\n".join(lines) if len(texts) > 1 else "".join(f"{{{{{k}}}}}" for k in texts)
        messages: list[dict[str, JSON]] = [{"history": key} for key in chats]
        if text:
            messages.append({"role": "user", "content": text})
        note = (
            f"the data has no prompt: {name} sends its inputs alone; write yours, or name a target"
        )
        self.imported.note("manual", place, note)
        self.add_eval(name, rows, messages=messages, judges=self.scored(name, rows, judges))

    def add_outputs(
        self,
        name: str,
        rows: Sequence[Row],
        outputs: Sequence[Sequence[str]],
        judges: Sequence[JSON] = (),
    ) -> None:
        """Add rows with existing outputs, which become a recorded target.

        Args:
            outputs: The outputs of each row, by trial.
            judges: Judges of all rows; rows without any judge are unmeasured.
        """
        lines: list[dict[str, JSON]] = [
            {"case": case, **({"trial": trial} if trial else {}), "text": text}
            for case, texts in zip(_ids(rows), outputs, strict=True)
            for trial, text in enumerate(texts)
        ]
        self.record(name, lines)
        note = f"existing outputs became target {name}; replace it by your prompt or application"
        self.imported.note("changed", rows[0].place, note)
        self.add_eval(name, rows, judges=self.scored(name, rows, judges), target=name)

    def record(self, name: str, lines: Sequence[Mapping[str, JSON]]) -> None:
        """Declare a recorded target with these outputs."""
        path = f"outputs/{name}.jsonl"
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        self.imported.files.append(NewFile(path=f"fixtures/{path}", text=text))
        self.imported.targets[name] = {"kind": "recorded", "path": path}

    def scored(self, name: str, rows: Sequence[Row], judges: Sequence[JSON]) -> Sequence[JSON]:
        """The judges; an unmeasured one if neither they nor a row has any."""
        if judges or any(row.checks for row in rows):
            return judges
        note = "the source names no scorer: replace the judge `unmeasured` of its eval"
        self.imported.note("manual", rows[0].place, note)
        return [{"unmeasured": f"choose judges for {name}"}]

    def stem(self, file: Path) -> str:
        """The name for the content of a file."""
        return self.name("" if file == self.path else re.sub(r"(\.\w+)+\Z", "", file.name))


def literal(text: str) -> str:
    """Escape a text for a prompt file, where `{{` would begin an input.

    >>> literal("{{x}}")
    '{{"{{"}}x}}'
    """
    return text.replace("{{", '{{"{{"}}')


def fill_slots(text: str, slot: re.Pattern[str], fill: Callable[[re.Match[str]], str]) -> str:
    """Convert a template of a source to one of a prompt file.

    Args:
        slot: A pattern of the source's insertions.
        fill: Called with each match; returns its replacement.
    """
    parts: list[str] = []
    position = 0
    for match in slot.finditer(text):
        parts += [literal(text[position : match.start()]), fill(match)]
        position = match.end()
    return "".join([*parts, literal(text[position:])])


def input_name(key: str) -> str:
    """Convert a key to a valid input name.

    >>> input_name("user question?")
    'user_question'
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "_", key).strip("_") or "input"
    return name if not name[0].isdigit() else f"_{name}"


def text_of(value: object) -> str:
    """Convert a value to text, as for an input: a text as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def chat_of(value: object) -> list[dict[str, JSON]] | None:
    """The messages of a chat, with contents as text; None if the value is not a chat."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    messages: list[dict[str, JSON]] = []
    for item in value if is_list(value) else []:
        role = item.get("role") if is_mapping(item) else None
        if role not in ROLES:
            return None
        content = content_text(item.get("content"))
        message: dict[str, JSON] = {"role": role}
        if content is not None:
            message["content"] = content
        for key in ("tool_calls", "tool_call_id"):
            if item.get(key):
                message[key] = item[key]
        if content is None and "tool_calls" not in message:
            return None
        messages.append(message)
    return messages or None


def content_text(value: object) -> str | None:
    """The joined text of a message's content; None if a part is not text."""
    if isinstance(value, str):
        return value
    if is_mapping(value):
        value = [value]
    parts = value if is_list(value) else [None]
    texts = [
        part.get("text") if is_mapping(part) else part if isinstance(part, str) else None
        for part in parts
    ]
    return "\n".join(cast("list[str]", texts)) if all(isinstance(t, str) for t in texts) else None


def shared_messages(
    chats: Sequence[Sequence[Mapping[str, JSON]]],
) -> tuple[list[dict[str, JSON]], list[dict[str, Any]]]:
    """The messages of one prompt for several chats, and the inputs of each.

    Texts that all chats share are in the prompt, others are inputs; there is at least one input.
    Chats of different forms become one input with their messages.

    >>> prompt, inputs = shared_messages([[{"role": "user", "content": "a"}]] * 2)
    >>> (prompt, inputs)
    ([{'role': 'user', 'content': '{{input}}'}], [{'input': 'a'}, {'input': 'a'}])
    """
    forms = {tuple((m["role"], "content" in m and len(m) == 2) for m in chat) for chat in chats}  # noqa: PLR2004 - role and content
    plain = len(forms) == 1 and all(is_text for _, is_text in next(iter(forms)))
    if not plain:
        return [{"history": "messages"}], [{"messages": list(chat)} for chat in chats]
    varying = [
        number
        for number in range(len(chats[0]))
        if any(chat[number]["content"] != chats[0][number]["content"] for chat in chats)
    ] or [len(chats[0]) - 1]
    prompt: list[dict[str, JSON]] = []
    names: dict[int, str] = {}
    for number, message in enumerate(chats[0]):
        content = literal(str(message["content"]))
        if number in varying:
            role_name = "input" if number == varying[-1] else str(message["role"])
            names[number] = unique_name(role_name, names.values()).replace("-", "_")
            content = f"{{{{{names[number]}}}}}"
        prompt.append({"role": message["role"], "content": content})
    inputs = [{name: chat[number]["content"] for number, name in names.items()} for chat in chats]
    return prompt, inputs


def _find_used(messages: Iterable[Mapping[str, JSON]]) -> list[str]:
    """The inputs that messages insert."""
    names: dict[str, None] = {}
    for message in messages:
        if "history" in message:
            names[str(message["history"])] = None
        for match in _VARIABLE.finditer(str(message.get("content", ""))):
            names[match[1]] = None
    return list(names)


def _ids(rows: Sequence[Row]) -> list[str]:
    return case_ids(row.title[:_TITLE_MAX] or _first_text(row.inputs) for row in rows)


def _first_text(inputs: Mapping[str, Any]) -> str:
    for value in inputs.values():
        if isinstance(value, str) and value.strip():
            return value[:_TITLE_MAX]
        if is_list(value):
            chat = chat_of(value) or []
            texts = [str(m.get("content", "")) for m in chat if m["role"] == "user"]
            if texts:
                return texts[-1][:_TITLE_MAX]
    return ""
