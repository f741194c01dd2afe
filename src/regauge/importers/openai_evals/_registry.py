"""Evals in the registry of the package `evals`: YAML files that name JSON Lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import UsageError
from regauge.importers._source import SourceError, place_of, placed
from regauge.importers._suite import (
    ImportedSuite,
    Row,
    chat_of,
    fill_slots,
    input_name,
    literal,
    shared_messages,
)
from regauge.importers.openai_evals._api import sampling_parameters
from regauge.strict_json import as_list, is_list, is_mapping, mapping_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.importers._description import SourcePlace
    from regauge.importers._source import Items, Table

_FORMAT_FIELD: Final = re.compile(r"\{\{|\}\}|\{(\w+)\}")
_TOKENS: Final = {"FuzzyMatch": 100, "JsonMatch": 512, "Match": 500}
_EXAMPLES: Final = {"example_user": "user", "example_assistant": "assistant"}


def read_registry(file: Path, suite: ImportedSuite) -> None:
    """Read the evals of a YAML file.

    Raises:
        UsageError: It defines none.
        InvalidFileError: It is not YAML.
        SourceError: It cannot be read.
    """
    document = mapping_of(suite.repository.read_yaml(file))
    evals = {
        name: body for name, body in document.items() if is_mapping(body) and body.get("class")
    }
    if not evals:
        raise UsageError(
            f"{suite.repository.relative(file)} defines no eval",
            fix="name a YAML file with a `class` and `args`",
        )
    titles = {body.get("id"): name for name, body in document.items() if is_mapping(body)}
    for name, body in evals.items():
        place = place_of(document, name, otherwise=suite.place(file))
        title = titles.get(name) or str(name).partition(".")[0]
        about = mapping_of(document.get(title)).get("description")
        _RegistryEval(file, suite, body, place, title).read(about if isinstance(about, str) else "")


class _RegistryEval:
    """One eval of the registry."""

    def __init__(
        self,
        file: Path,
        suite: ImportedSuite,
        body: Mapping[str, Any],
        place: SourcePlace,
        title: str,
    ) -> None:
        self._file = file
        self._suite = suite
        self._args = mapping_of(body.get("args"))
        self._place = place
        self._title = title
        path = str(body["class"])
        self._class = path.rpartition(":")[2] if path.startswith("evals.elsuite.") else path

    def read(self, about: str) -> None:
        """Add its prompt, cases and judges."""
        imported = self._suite.imported
        if self._args.get("metaeval"):
            text = "a meta-evaluation is the calibration of a judge here: write labels"
            imported.note("manual", self._place, text)
            return
        try:
            samples = self._lines("samples_jsonl")
            examples = self._examples()
        except SourceError as error:
            imported.note("manual", self._place, f"{self._title} is not imported: {error}")
            return
        usable: list[Table] = []
        chats: list[list[dict[str, JSON]]] = []
        for sample, place in placed(samples, self._place):
            chat = chat_of(sample.get("input")) if is_mapping(sample) else None
            if chat is None:
                imported.note(
                    "manual", place, "a sample without a text or chat as `input`: left out"
                )
                continue
            usable.append(cast("Table", sample))
            chats.append([*chat[:-1], *examples, chat[-1]])
        if not usable:
            imported.note("manual", self._place, f"{self._title} has no sample to import")
            return
        renamed = map(self._without_names, chats, usable)
        self._add(about, usable, [*renamed])

    def _add(
        self, about: str, samples: Sequence[Table], chats: Sequence[list[dict[str, JSON]]]
    ) -> None:
        messages, inputs = shared_messages(chats)
        name = self._suite.name(self._title)
        document: dict[str, JSON] = {"description": about} if about else {}
        parameters: dict[str, JSON] = {}
        if self._class in _TOKENS:
            parameters = {"temperature": 0}
            parameters["maxTokens"] = self._args.get("max_tokens", _TOKENS[self._class])
        parameters.update(sampling_parameters(self._args.get("sample_kwargs")))
        if parameters:
            document["modelParameters"] = parameters
        rubric = self._rubric(name)
        rows = [
            Row(
                place=sample.place,
                inputs=row_inputs,
                expected=self._expected(sample),
                checks=[self._check(sample, rubric)],
                tags=[self._title],
            )
            for sample, row_inputs in zip(samples, inputs, strict=True)
        ]
        self._suite.add_eval(name, rows, messages=messages, document=document)

    def _lines(self, key: str) -> Items:
        """The lines of a file that an argument names.

        Raises:
            SourceError: It cannot be read.
        """
        value = self._args.get(key)
        if not isinstance(value, str):
            raise SourceError(f"`{key}` names no file; its class makes the samples")
        repository = self._suite.repository
        folders = [self._file.parent.parent / "data", self._file.parent / "data", self._file.parent]
        inside = [folder for folder in folders if folder.is_relative_to(repository.root)]
        paths = [repository.resolve(value, folder) for folder in inside]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise SourceError(f"{value} is missing; it belongs to {repository.relative(paths[0])}")
        return repository.read_json_lines(path)

    def _examples(self) -> list[dict[str, JSON]]:
        """The messages of few-shot examples.

        Raises:
            SourceError: Their file cannot be read.
        """
        count = self._args.get("num_few_shot")
        if not isinstance(count, int) or count <= 0:
            return []
        lines = self._lines("few_shot_jsonl")[:count]
        return [m for line in lines for m in chat_of(mapping_of(line).get("sample")) or []]

    def _without_names(self, chat: list[dict[str, JSON]], sample: Table) -> list[dict[str, JSON]]:
        """Replace the names of example messages by the roles that they stand for."""
        source = sample.get("input")
        names = [m.get("name") for m in source if is_mapping(m)] if is_list(source) else []
        if not any(name in _EXAMPLES for name in names):
            return chat
        text = "system messages named example_user and example_assistant became user and assistant"
        self._suite.imported.note("changed", sample.place, text)
        shift = len(chat) - len(names)
        messages = list(chat)
        for number, name in enumerate(names):
            position = number if number < len(names) - 1 else number + shift
            if name in _EXAMPLES:
                messages[position] = {**chat[position], "role": _EXAMPLES[str(name)]}
        return messages

    def _expected(self, sample: Table) -> Any:
        if self._class != "ModelBasedClassify":
            return sample.get("ideal")
        values = {input_name(key): value for key, value in sample.items() if key != "input"}
        return values or None

    def _check(self, sample: Table, rubric: JSON) -> JSON:
        """The judge of a sample, by the class of its eval."""
        suite, kind = self._suite, self._class
        if kind == "ModelBasedClassify":
            suite.imported.count(assertions=1)
            return rubric if is_mapping(rubric) else self._unmeasured(str(rubric))
        ideal = sample.get("ideal")
        texts = as_list(ideal)
        if kind not in {"Match", "Includes", "FuzzyMatch", "JsonMatch"}:
            return self._unmeasured("its class is Python, which is not run; write a judge")
        if not texts or not all(isinstance(text, str) for text in texts):
            return suite.unmeasured(kind, "`ideal` is not text", sample.place)
        check: JSON
        if kind == "Match":
            check = {"starts_with": texts}
        elif kind == "Includes":
            ignore_case = bool(self._args.get("ignore_case"))
            check = {"contains_any": {"texts": texts, "ignore_case": ignore_case}}
        elif kind == "FuzzyMatch":
            check = {"as_judge": {"function": "regauge.importers.openai_evals:fuzzy_match"}}
        else:
            try:
                values = [json.loads(str(text)) for text in texts]
            except ValueError:
                return suite.unmeasured(kind, "`ideal` is not JSON", sample.place)
            likes: list[JSON] = [{"json_like": {"value": v, "extra": "none"}} for v in values]
            check = likes[0] if len(likes) == 1 else {"any_of": likes}
        return suite.check(check, kind, sample.place)

    def _unmeasured(self, reason: str) -> JSON:
        return self._suite.unmeasured(self._class, reason, self._place)

    def _rubric(self, name: str) -> JSON:
        """The check of a model-graded eval, or the reason why there is none."""
        if self._class != "ModelBasedClassify":
            return ""
        if self._args.get("multicomp_n"):
            return "it compares several outputs of one sample; use pairwise, or the gate"
        spec_name = self._args.get("modelgraded_spec")
        spec = self._spec(str(spec_name))
        prompt = chat_of(spec.get("prompt")) or []
        prompt_text = "\n".join(str(message.get("content")) for message in prompt)
        if not prompt_text:
            return f"the definition {spec_name} of its judge is missing"
        scores = _scores(spec)
        if isinstance(scores, str):
            return scores
        if "{completion}" not in prompt_text:
            return f"the prompt of {spec_name} does not show the output"
        messages: list[JSON] = [
            {"role": message["role"], "content": _fields(str(message["content"]))}
            for message in prompt
        ]
        self._suite.need_judge_model(self._place)
        rubric: dict[str, JSON] = {"kind": "choice", "choices": scores}
        words = f"{name}-{spec_name}"
        rubric_name = self._suite.rubric(words, rubric, messages, str(spec_name), self._place)
        return {"rubric": {"name": rubric_name}}

    def _spec(self, name: str) -> Mapping[str, Any]:
        """The definition of a model-graded judge; empty where there is none."""
        repository = self._suite.repository
        registry = self._file.parent.parent / "modelgraded"
        if not re.fullmatch(r"[\w.-]+", name):
            return {}
        files = [registry / f"{name}{suffix}" for suffix in (".yaml", ".yml")]
        file = next((file for file in files if file.is_file()), None)
        return mapping_of(mapping_of(repository.read_yaml(file)).get(name)) if file else {}


def _scores(spec: Mapping[str, Any]) -> dict[str, JSON] | str:
    """The score from 0 to 1 of each label, or the reason why there are none."""
    scores, labels = spec.get("choice_scores"), spec.get("choice_strings")
    names = [str(label) for label in labels] if is_list(labels) else list(str(labels or ""))
    numbers: dict[str, float] = {}
    try:
        if is_mapping(scores):
            numbers = {str(label): float(score) for label, score in scores.items()}
        elif scores == "from_strings":
            numbers = {label: float(label) for label in names}
    except (TypeError, ValueError):
        return "its choices have scores that are not numbers"
    if not numbers:
        return "its choices have no scores: it counts labels; list those that pass"
    low, high = min(0.0, *numbers.values()), max(1.0, *numbers.values())
    return {label: (score - low) / (high - low) for label, score in numbers.items()}


def _fields(text: str) -> str:
    """Convert a format string of Python to a prompt: its fields become inputs of a rubric."""
    names = {"completion": "answer", "input": "input"}

    def fill(match: re.Match[str]) -> str:
        if match[1] is None:
            return literal(match[0][0])
        name = names.get(match[1]) or f"expected.{input_name(match[1])}"
        return f"{{{{{name}}}}}"

    return fill_slots(text, _FORMAT_FIELD, fill)
