"""Import of promptfoo configurations, as documented in November 2026."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import UsageError
from regauge.importers._description import slug, unique_name
from regauge.importers._suite import ImportedSuite, files_below
from regauge.importers.promptfoo._configuration import Configuration
from regauge.importers.promptfoo._context import Context
from regauge.strict_json import is_list, is_mapping, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.importers._description import Imported

_NAMED: Final = re.compile(r"promptfoo.*\.(?:ya?ml|json)\Z|.*promptfoo.*\.ya?ml\Z", re.IGNORECASE)
_CONFIG: Final = re.compile(r"promptfooconfig.*\.(?:ya?ml|json|[cm]?[jt]s)\Z", re.IGNORECASE)
_ANY: Final = "prompts|providers|targets|tests|scenarios"
_BOTH: Final = ("providers|targets", "prompts|tests|scenarios")
_ALONE: Final = ("prompts|providers|targets",)
_CODE: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
_BYTES_MAX: Final = 16 * 1024 * 1024
_GENERIC: Final = frozenset(
    {
        "eval", "evals", "evaluation", "promptfoo", "test", "tests", "config", "configs", "llm",
        "ai", "promptfooconfig", "src",
    }
)  # fmt: skip


def read_promptfoo(path: Path, /, *, root: Path, name: str = "") -> Imported:
    """Read a configuration, or all configurations of a directory; no code of it runs.

    Args:
        path: A configuration, or a directory.
        root: The project's root.
        name: The stem of the names of written files.

    Raises:
        UsageError: There is none, or it is code.
        InvalidFileError: The only one is not YAML, or not a configuration.
    """
    suite = ImportedSuite(path, root=root, name=name, title="promptfoo")
    configs = _find(suite.path, path)
    stem = slug(name) if name else _stem(suite.path, root)
    imported = suite.imported
    imported.rename(stem)

    def read(config: Path) -> None:
        names = [*imported.datasets, *(prompt.name for prompt in imported.prompts)]
        config_name = stem if len(configs) == 1 else unique_name(_stem_of_file(config, stem), names)
        context = Context(suite, config)
        Configuration(_document(config, context), context, config_name).read()

    suite.read(configs, read)
    for file in _left_out(suite.path, configs):
        reason = "it has no prompts, providers or tests"
        if file.suffix in _CODE:
            reason = f"its code is not run: {_code_fix(Path(os.path.relpath(file)))}"
        imported.note("manual", suite.place(file), f"not imported: {reason}")
    return suite.finish("see regauge new prompt, and test-an-application", passwords=False)


def _document(config: Path, context: Context) -> Mapping[str, Any]:
    """The document of a configuration.

    Raises:
        SourceError: It cannot be read.
        InvalidFileError: It is not YAML.
        UsageError: It is something else.
    """
    document = context.repository.read_yaml(config)
    keys = {"prompts", "providers", "targets", "tests", "scenarios"}
    if not is_mapping(document) or keys.isdisjoint(document):
        raise UsageError(
            f"{context.repository.relative(config)} is not a configuration of promptfoo",
            fix="name a file that has `prompts`, `providers` and `tests`",
        )
    return cast("Mapping[str, Any]", _dereference(document, context))


def _find(absolute: Path, path: Path) -> list[Path]:
    """The configurations at a path.

    Raises:
        UsageError: There is none.
    """
    if not absolute.is_dir():
        if absolute.suffix in _CODE:
            raise UsageError(f"{path} is code, which is not run", fix=_code_fix(path))
        return [absolute]
    if configs := _configs(files_below(absolute)):
        return configs
    left_out = list(_left_out(absolute, ()))
    code = next((file for file in left_out if file.suffix in _CODE), None)
    if code is not None:
        inner = code.relative_to(absolute)
        raise UsageError(
            f"{path} has {inner}, which is code and is not run", fix=_code_fix(path / inner)
        )
    empty = next(iter(left_out), None)
    raise UsageError(
        f"{path} has no configuration of promptfoo"
        + (f": {empty.relative_to(absolute)} has no prompts, providers or tests" if empty else ""),
        fix="name the file: regauge import promptfoo PATH/promptfooconfig.yaml",
    )


def _left_out(path: Path, configs: Sequence[Path]) -> Iterator[Path]:
    """The files of a directory that are named as configurations and cannot be read as one.

    Those next to a configuration of the same name are left out: it was written from them.
    """
    names = {config.with_suffix("") for config in configs}
    for file in files_below(path):
        if not _CONFIG.fullmatch(file.name) or file.is_symlink() or file.with_suffix("") in names:
            continue
        if file.suffix in _CODE or not _readable(file):
            yield file


def _code_fix(path: Path) -> str:
    """The command that writes the value of a configuration in JavaScript as JSON."""
    if path.suffix not in {".js", ".mjs", ".cjs"}:
        return "write the configuration as YAML, then import that"
    script = f"import('./{path.as_posix()}').then(m => console.log(JSON.stringify(m.default)))"
    return (
        f'node -e "{script}" > {path.with_suffix(".json").as_posix()} runs it and writes all but'
        " its functions; then import that"
    )


def _configs(files: Iterable[Path]) -> list[Path]:
    """The configurations among files: by name, and others next to these."""
    configurations = [
        file
        for file in files
        if (_NAMED.fullmatch(file.name) and _readable(file))
        or (file.parent.name == "promptfoo" and _is_yaml(file) and _readable(file, keys=_BOTH))
    ]
    near = {
        file
        for folder in {config.parent for config in configurations}
        for file in folder.iterdir()
        if _is_yaml(file) and _readable(file, keys=_BOTH)
    }
    configs = sorted({*configurations, *near})
    # A file of tests alone belongs to another configuration.
    return [file for file in configs if _readable(file, keys=_ALONE)] or configs


def _is_yaml(file: Path) -> bool:
    return file.suffix in {".yaml", ".yml"}


def _readable(file: Path, *, keys: Sequence[str] = (_ANY,)) -> bool:
    """Return whether a file has the keys of a configuration; it may not parse."""
    if file.is_symlink() or not file.is_file() or file.stat().st_size > _BYTES_MAX:
        return False
    text = file.read_text(encoding="utf-8", errors="replace")
    # A key of JSON may be anywhere in a line.
    begin, end = ('"', '"') if file.suffix == ".json" else ('^[" {]*', '"?')
    return all(re.search(rf"{begin}(?:{key}){end}\s*:", text, re.MULTILINE) for key in keys)


def _stem(path: Path, root: Path) -> str:
    """The stem of names: the nearest directory whose name is specific."""
    start = path if path.is_dir() else path.parent
    file = "" if path.is_dir() else _stem_of_file(path, "")
    above = root.resolve().parents
    names = (slug(folder.name) for folder in (start, *start.parents) if folder not in above)
    words = next((name for name in names if name not in {"", *_GENERIC}), "")
    return "-".join(dict.fromkeys(filter(None, (words, file)))) or "promptfoo"


def _stem_of_file(file: Path, otherwise: str) -> str:
    words = slug(re.sub(r"promptfoo(?:config)?", " ", file.stem, flags=re.IGNORECASE))
    if words and words not in _GENERIC:
        return words
    if not otherwise:
        return ""
    folder = slug(file.parent.name)
    return folder if folder and folder not in _GENERIC else otherwise


def _dereference(value: Any, context: Context) -> Any:
    """Replace each `$ref: '#/...'` of a document by its target."""

    def walk(node: Any, above: tuple[str, ...]) -> Any:
        if is_mapping(node):
            reference = node.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/") and reference not in above:
                nested: Any = value
                for part in reference[2:].split("/"):
                    nested = mapping_of(nested).get(part)
                if nested is not None:
                    return walk(nested, (*above, reference))
                context.locate(node, "$ref").note("manual", f"{reference} names nothing")
            for key, part in node.items():
                cast("dict[str, Any]", node)[key] = walk(part, above)
        elif is_list(node):
            node[:] = [walk(part, above) for part in node]
        return node

    text = json.dumps(value, default=str)
    return walk(value, ()) if '"$ref"' in text else value
