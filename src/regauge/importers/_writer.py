"""The files of an imported suite: planned, compared with what exists, and written."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from regauge.errors import ConfigError, Diagnostic, PromptError, UsageError
from regauge.files import read_regular, write_whole
from regauge.importers._description import SourcePlace
from regauge.prompts import LOCK_NAME, SUFFIXES, PromptLock, parse_prompt, prompt_files, prompt_name
from regauge.scaffold import NewFile, merge_pyproject, refuse_blocked
from regauge.strict_json import is_list, is_mapping, mapping_of
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._description import (
        Imported,
        ImportedCase,
        ImportedEval,
        ImportedPrompt,
        NoteKind,
        ReportNote,
    )

_SETTINGS: Final = "pyproject.toml"
_SHOWN: Final = 5
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TITLES: Final[Mapping[NoteKind, str]] = {
    "manual": "Needs manual work",
    "changed": "Changed",
    "dropped": "Dropped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """The files that an import writes.

    Attributes:
        new: New files, the report last.
        changed: Existing files with new lines: pyproject.toml and prompts.lock.
        report: The report, also the last of the new files.
    """

    new: Sequence[NewFile]
    changed: Sequence[NewFile]
    report: str

    @property
    def paths(self) -> list[str]:
        """All files, the report last."""
        return [file.path for file in (*self.changed, *self.new)]


def plan_files(
    format_name: str, imported: Imported, root: Path, *, check: bool = False
) -> FilePlan:
    """Plan all files of an import; nothing is written.

    Args:
        root: The project's root.
        check: Whether only the report is needed; files may exist then.

    Raises:
        UsageError: A file of that name exists, or another prompt has the name.
        ConfigError: pyproject.toml cannot be read, or has a table of the same name.
    """
    _drop_faulty(imported, root)
    files = [
        *(_prompt_file(prompt) for prompt in imported.prompts),
        *(
            NewFile(path=f"fixtures/golden/{name}.jsonl", text="".join(map(_case_line, cases)))
            for name, cases in imported.datasets.items()
        ),
        *_eval_files(imported),
        *imported.files,
    ]
    is_taken = os.path.lexists(root / "IMPORT.md")
    report_path = f"IMPORT-{imported.name}.md" if is_taken else "IMPORT.md"
    if not check:
        _refuse_existing([*files, NewFile(path=report_path, text="")], imported, root)
    settings = _settings(imported, root)
    changed_files = [NewFile(path=_SETTINGS, text=settings)] if settings is not None else []
    changed_files += [] if check else _lock(files, root)
    paths = [file.path for file in (*changed_files, *files)]
    report = report_markdown(format_name, imported, paths)
    masked = [
        NewFile(path=file.path, text=_without_keys(file.text, imported))
        for file in (*files, NewFile(path=report_path, text=report))
    ]
    return FilePlan(new=masked, changed=changed_files, report=masked[-1].text)


def write_files(plan: FilePlan, root: Path) -> None:
    """Write the planned files atomically, the report last."""
    for file in (*plan.changed, *plan.new):
        write_whole(root / file.path, file.text.encode("utf-8", "backslashreplace"))


def _drop_faulty(imported: Imported, root: Path) -> None:
    """Remove prompts that are not valid prompt file, and their evals; report them."""
    for prompt in [*imported.prompts]:
        file = _prompt_file(prompt)
        try:
            parse_prompt(file.text, path=root / file.path)
        except PromptError as error:
            place = SourcePlace(path=imported.sources[0] if imported.sources else file.path)
            text = f"the prompt {prompt.name} is not written: {error.diagnostics[0].message}"
            imported.note("manual", place, text)
            imported.drop(prompt)


def _lock(files: Sequence[NewFile], root: Path) -> list[NewFile]:
    """prompts.lock with the new prompts released.

    Raises:
        LockError: It cannot be read, or has one of the versions with another content.
    """
    prompts = [file for file in files if file.path.endswith(SUFFIXES)]
    if not prompts:
        return []
    lock = PromptLock.load(root / "prompts" / LOCK_NAME)
    for file in prompts:
        lock = lock.add(parse_prompt(file.text, path=root / file.path))
    return [NewFile(path=lock.path.relative_to(root).as_posix(), text=str(lock))]


def _without_keys(text: str, imported: Imported) -> str:
    """Mask the source's keys in a text."""
    for secret in imported.secrets:
        text = text.replace(secret, "[key not copied]")
    return text


def _refuse_existing(files: Sequence[NewFile], imported: Imported, root: Path) -> None:
    existing = [file.path for file in files if os.path.lexists(root / file.path)]
    twins = {prompt_name(path).lower(): path for path in prompt_files(root / "prompts")}
    same_names = [twins.get(prompt.name.lower()) for prompt in imported.prompts]
    existing += [path.relative_to(root).as_posix() for path in same_names if path is not None]
    existing = list(dict.fromkeys(existing))
    for file in files:
        refuse_blocked(root, file.path)
    if existing:
        raise UsageError(
            f"nothing was written, because files exist: {first_of(existing, _SHOWN)}",
            fix=f"choose other names: --name {imported.name}-2; or move the files away",
        )


class _Dumper(yaml.SafeDumper):
    """YAML with multi-line texts as blocks and indented lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002 - PyYAML's own signature
        del indentless
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    scalar: yaml.ScalarNode = dumper.represent_scalar(  # pyright: ignore[reportUnknownMemberType]
        "tag:yaml.org,2002:str", text, style=style
    )
    return scalar


_Dumper.add_representer(str, _represent_text)


def _prompt_file(prompt: ImportedPrompt) -> NewFile:
    document = _plain_value({"version": "1.0.0", **prompt.document})
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    folder = "prompts/judges" if prompt.rubric else "prompts"
    return NewFile(path=f"{folder}/{prompt.name}.prompt.yml", text=text)


def _plain_value(value: object) -> JSON:
    """Convert a value to plain containers, without source lines."""
    plain: JSON = json.loads(json.dumps(value, default=str))
    return plain


def _case_line(case: ImportedCase) -> str:
    return json.dumps(case.document, ensure_ascii=False, default=str) + "\n"


def _eval_files(imported: Imported) -> list[NewFile]:
    """One file with an eval function for each eval."""
    if not imported.evals:
        return []
    functions: dict[str, str] = {}
    for number, imported_eval in enumerate(imported.evals, start=1):
        words = "_".join(filter(None, (imported_eval.prompt, imported_eval.target)))
        name = f"test_{_module_name(words)}"
        functions[name if name not in functions else f"{name}_{number}"] = _call(imported_eval)
    body = "".join(
        f"\n\n@golden({call})\ndef {name}(result):\n    result.check()\n"
        for name, call in functions.items()
    )
    stem = _module_name(imported.name)
    return [NewFile(path=f"evals/test_{stem}.py", text=f"from regauge import golden\n{body}")]


def _module_name(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_").lower()


def _call(imported_eval: ImportedEval) -> str:
    values = [json.dumps(imported_eval.prompt)]
    if imported_eval.dataset != imported_eval.prompt:
        values.append(f"dataset={json.dumps(imported_eval.dataset)}")
    if imported_eval.target:
        values.append(f"target={json.dumps(imported_eval.target)}")
    if imported_eval.model:
        values.append(f"model={json.dumps(imported_eval.model)}")
    if imported_eval.judges:
        values.append(f"judges={_plain_value(list(imported_eval.judges))!r}")
    return ", ".join(values)


def _settings(imported: Imported, root: Path) -> str | None:
    """pyproject.toml with the tables of the import; None if it needs none.

    Raises:
        ConfigError: It cannot be read, or a table has another content.
    """
    path = root / _SETTINGS
    plan = merge_pyproject(root)
    before = read_regular(path).decode() if plan.action == "keep" else plan.text
    project_settings = _own_settings(root)
    is_new = not project_settings and plan.action != "keep"
    if is_new:
        new_settings = {"model": "sim:clerk-1", **imported.settings}
        lines = "".join(f"{key} = {_toml(value)}\n" for key, value in new_settings.items())
        before = re.sub(
            r"(\[tool\.regauge\]\n)(?:#.*\n)*model = .*\n", lambda match: match[1] + lines, before
        )
    # A table of the user stays as it is.
    if not is_new and "judge_model" in imported.settings.keys() - project_settings.keys():
        place = SourcePlace(path=_SETTINGS)
        imported.note("manual", place, "set judge_model in [tool.regauge]: LLM judges need a model")
    new_tables: list[str] = []
    for kind, tables in (("providers", imported.providers), ("targets", imported.targets)):
        seen = project_settings.get(kind, {})
        for name, table in tables.items():
            if name in seen:
                if dict(seen[name]) == dict(table):
                    continue
                message = f"[tool.regauge.{kind}.{name}] exists with another content"
                fix = "rename one of them; nothing was written"
                raise ConfigError([Diagnostic(path=path, line=None, message=message, fix=fix)])
            text = _table(f"tool.regauge.{kind}.{_key(name)}", table)
            new_tables.append(_without_keys(text, imported))
    if not new_tables:
        return before if plan.action != "keep" else None
    gap = "" if before.endswith("\n") or not before else "\n"
    text = before + gap + "".join(f"\n{table}" for table in new_tables)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"tables cannot be added at its end: {error}"
        fix = "write `tool` as tables; nothing was written"
        raise ConfigError([Diagnostic(path=path, line=None, message=message, fix=fix)]) from error
    return text


def _own_settings(root: Path) -> dict[str, Mapping[str, Any]]:
    path = root / _SETTINGS
    if not path.is_file():
        return {}
    tool = mapping_of(tomllib.loads(read_regular(path).decode()).get("tool"))
    return {key: mapping_of(value) for key, value in mapping_of(tool.get("regauge")).items()}


def _table(header: str, table: Mapping[str, JSON]) -> str:
    lines = [f"[{header}]", *(f"{_key(key)} = {_toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _toml(value: object) -> str:
    """Write a value as TOML on one line, without nulls."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if is_mapping(value):
        parts = [
            f"{_key(str(key))} = {_toml(part)}" for key, part in value.items() if part is not None
        ]
        return "{" + ", ".join(parts) + "}"
    if is_list(value):
        return "[" + ", ".join(_toml(part) for part in value if part is not None) + "]"
    return _text(str(value))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# The report.


def count_text(imported: Imported) -> str:
    """The numbers of evals, golden cases and assertions, and of those without a counterpart."""
    cases = sum(map(len, imported.datasets.values()))
    assertions = plural(imported.assertions, "assertion")
    rest = f", {imported.unmeasured} without a counterpart" if imported.unmeasured else ""
    return (
        f"{plural(len(imported.evals), 'eval')}, {plural(cases, 'golden case')}, {assertions}{rest}"
    )


def report_markdown(format_name: str, imported: Imported, files: Iterable[str]) -> str:
    """The report as Markdown.

    Args:
        files: The files that are written, below the project's root.
    """
    parts = [
        f"# Import from {format_name}\n",
        f"Source: {', '.join(map(_code, imported.sources))}\n",
        f"{count_text(imported)}.\n",
    ]
    if imported.unmeasured:
        parts.append(
            "An assertion without a counterpart is the judge `unmeasured`: its case is unmeasured"
            " until you replace or remove it.\n"
        )
    for kind, title in _TITLES.items():
        notes = [note for note in imported.notes if note.kind == kind]
        parts.append(f"## {title}\n")
        parts.append("\n".join(_group(notes)) + "\n" if notes else "Nothing.\n")
    parts.append("## Files\n")
    parts.append("\n".join(f"- {_code(path)}" for path in files) + "\n")
    return "\n".join(parts)


def _group(notes: Sequence[ReportNote]) -> Iterator[str]:
    """A line for each text; its places come first if they are in one file, else last."""
    places: dict[str, list[SourcePlace]] = {}
    for note in notes:
        places.setdefault(note.text, []).append(note.place)
    for text, text_places in places.items():
        one_file = len({place.path for place in text_places}) == 1
        parts = (_join_places(text_places), _escape(text))
        yield f"- {': '.join(parts if one_file else reversed(parts))}"


def _join_places(places: Sequence[SourcePlace]) -> str:
    """Join places; those of one file share its name."""
    by_path: dict[str, list[int | None]] = {}
    for place in places:
        by_path.setdefault(place.path, []).append(place.line)
    texts: list[str] = []
    for path, lines in by_path.items():
        numbers = [str(line) for line in dict.fromkeys(lines) if line is not None]
        texts.append(_code(f"{path}:{','.join(numbers)}" if numbers else path))
    return ", ".join(texts)


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _escape(text: str) -> str:
    """Escape untrusted text as plain Markdown: no HTML, no mentions."""
    return text.replace("<", "&lt;").replace("@", "@\u200b")
