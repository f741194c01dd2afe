"""One configuration of promptfoo: its prompts, tests and providers put together."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.importers._description import (
    ImportedCase,
    ImportedEval,
    ImportedPrompt,
    case_ids,
    slug,
    unique_name,
)
from regauge.importers._source import SourceError
from regauge.importers._suite import JUDGE_MODEL, text_of
from regauge.importers._templates import (
    SplitTemplate,
    TemplateError,
    has_logic,
    render,
    split_template,
)
from regauge.importers.promptfoo._assertions import checks_of
from regauge.importers.promptfoo._context import chat_messages
from regauge.importers.promptfoo._models import LEXICON, prompt_parameters
from regauge.importers.promptfoo._prompts import SourcePrompt, read_prompts
from regauge.importers.promptfoo._providers import read_providers
from regauge.importers.promptfoo._targets import target_of
from regauge.importers.promptfoo._tests import read_tests
from regauge.strict_json import is_list, mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.importers.promptfoo._context import Context
    from regauge.importers.promptfoo._providers import SourceProvider
    from regauge.importers.promptfoo._tests import SourceTest

    # The inputs of a case, and its variables that no prompt inserts.
    _Inputs = tuple[dict[str, JSON], dict[str, JSON]]

_AROUND: Final = ("prefix", "suffix")
_TOOL_KEYS: Final = ("tool_calls", "tool_call_id")
_CHAT: Final = re.compile(r"\s*(?:\[|\{\s*\"messages\"|- role:)")
_MARK_SHOWN: Final = 60
_TITLE_MAX: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _PromptForm:
    """A prompt in the form of a prompt file.

    Attributes:
        names: Variables that it inserts unchanged.
        computed: Inputs to compute for each case: their templates, by name.
        history: Whether its only message is the input `messages` of each case.
    """

    messages: Sequence[Mapping[str, JSON]]
    names: frozenset[str]
    computed: Mapping[str, str]
    history: bool = False


class Configuration:
    """The import of one configuration.

    Args:
        config: The document.
        name: The stem of its names.
    """

    def __init__(self, config: Mapping[str, Any], context: Context, name: str) -> None:
        self._config = config
        self._context = context
        self._imported = context.imported
        self._name = name
        self._checks: dict[int, list[JSON]] = {}
        self._providers: list[SourceProvider] = []
        self._models: list[SourceProvider] = []

    def read(self) -> None:
        """Read prompts, providers and tests, and combine them to evals."""
        self._note_keys()
        context, config = self._context, self._config
        context.imported.labels.clear()
        self._providers = read_providers(config, context)
        self._models = [provider for provider in self._providers if provider.kind == "model"]
        for provider in self._providers:
            if provider.model:
                context.imported.labels.update(dict.fromkeys(provider.names, provider.model))
        prompts = read_prompts(
            config.get("prompts", ["{{prompt}}"]), context.locate(config, "prompts")
        )
        tools = [provider.parameters.get("tools") for provider in self._providers]
        tests = [
            replace(
                test,
                parses_json=self._parses_json(),
                tools=next(filter(None, tools), None),
                options={**self._transform(), **test.options},
            )
            for test in read_tests(config, context)
        ]
        if not tests:
            context.locate(config, "tests").note("manual", "there is no test to import")
            if "prompts" not in config:
                return
        self._note_models()
        if tests_with_output := [test for test in tests if test.output is not None]:
            name = unique_name(f"{self._name}-outputs", self._imported.datasets)
            self._record(name, tests_with_output, lambda test: text_of(test.output))
            self._add_cases(name, tests_with_output, _all_inputs)
            self._imported.evals.append(ImportedEval(prompt=name, dataset=name, target=name))
        tests_to_run = [test for test in tests if test.output is None]
        if tests and not tests_to_run:
            return
        labels = case_ids(prompt.label for prompt in prompts)
        for number, prompt in enumerate(prompts):
            prompt_name = self._name if len(prompts) == 1 else f"{self._name}-{labels[number]}"
            self._prompt(
                prompt,
                prompt_name,
                [t for t in tests_to_run if _matches_name(t.prompts, prompt.names)],
            )
        kinds = {provider.kind for provider in self._providers}
        has_target = kinds != {"other"}
        if tests_to_run and (not has_target or not prompts):
            self._cases_alone(tests_to_run, kind="target" if prompts else "prompt")

    def _transform(self) -> dict[str, Any]:
        """The transform that all providers share; tests may override it."""
        codes = {str(provider.transform or "") for provider in self._providers}
        if codes - {""} and len(codes) == 1:
            return {"transform": codes.pop()}
        for source in self._providers:
            if source.transform:
                text = "the `transform` of one provider of several is code that is not run"
                source.context.note("manual", text)
        return {}

    def _parses_json(self) -> bool:
        """Return whether models return JSON, which promptfoo parses."""
        formats = {str(model.parameters.get("responseFormat")) for model in self._models}
        return bool(formats) and formats <= {"json_object", "json_schema"}

    def _prompt(self, prompt: SourcePrompt, name: str, tests: Sequence[SourceTest]) -> None:
        """Add the evals of one prompt: for its models, and for each target."""
        providers = [
            provider
            for provider in self._providers
            if _matches_name(provider.prompts, prompt.names)
        ]
        models = [provider for provider in providers if provider.kind == "model"]
        if not prompt.raw.strip() and (models or not self._providers):
            prompt.context.note("manual", "a prompt for a model has no text")
        elif models or not self._providers:
            self._model_evals(prompt, name, tests, models)
        for provider in providers:
            if provider.kind not in {"model", "other"}:
                cases = [test for test in tests if _matches_name(test.providers, provider.names)]
                self._target_eval(prompt, name, cases, provider)

    def _note_keys(self) -> None:
        config, dropped = self._config, LEXICON.entry("dropped")
        for key in config:
            context = self._context.locate(config, key)
            if key in dropped and config[key]:
                context.note("dropped", f"`{key}`: {dropped[key]}")
            elif key == "evaluateOptions" and (repeat := mapping_of(config[key]).get("repeat")):
                text = f"`repeat: {repeat}` is not kept; run pytest evals --trials {repeat}"
                context.note("changed", text)
            elif key not in LEXICON.words("configuration_keys") and not key.startswith(
                ("x-", "_", ".")
            ):
                context.note("dropped", f"`{key}` is not imported")

    def _note_models(self) -> None:
        names = list(dict.fromkeys(model.model for model in self._models if model.model))
        context = self._context.locate(self._config, "providers")
        if len(names) > 1:
            options = " ".join(f"--model {name}" for name in names)
            text = f"prompts name the first model; compare all with pytest evals {options}"
            context.note("changed", text)
            if any(model.parameters != self._models[0].parameters for model in self._models):
                text = "the models have different settings; prompts have those of the first"
                context.note("changed", text)
        if not self._providers:
            context.note("changed", "no provider is named; the project's model is used")

    def _form(self, prompt: SourcePrompt, tests: Sequence[SourceTest]) -> _PromptForm:
        """Convert a prompt to messages with split templates; note each computed input."""
        raw = prompt.raw
        messages = chat_messages(raw)
        around = {key: {str(test.options.get(key) or "") for test in tests} for key in _AROUND}
        if messages is None and _CHAT.match(raw) and "role" in raw and has_logic(raw):
            text = "the chat is built by its template: each case has its rendered messages"
            prompt.context.note("changed", text)
            return _PromptForm(
                messages=[{"history": "messages"}],
                names=frozenset(),
                computed={"messages": raw},
                history=True,
            )
        if messages is None:
            parts = [
                next(iter(texts)) if len(texts) == 1 else f"{{{{__{key}}}}}"
                for key, texts in around.items()
            ]
            full_text = raw.join(parts) if tests else raw
            messages = [{"role": "user", "content": full_text}]
        elif any(texts - {""} for texts in around.values()):
            prompt.context.note("dropped", "a prefix or suffix of a chat in JSON")
        form_messages: list[dict[str, JSON]] = []
        names: set[str] = set()
        computed: dict[str, str] = {}
        for number, message in enumerate(messages):
            prefix = "part" if len(messages) == 1 else f"part{number + 1}"
            split = self._split(str(message.get("content", "")), prompt.context, prefix=prefix)
            if not split.text.strip() and not message.get("tool_calls"):
                prompt.context.note("dropped", "a message of the prompt is empty")
                continue
            names |= split.names
            computed.update(split.computed)
            target: dict[str, JSON] = {
                "role": str(message.get("role", "user")),
                "content": split.text,
            }
            target.update({key: message[key] for key in _TOOL_KEYS if message.get(key)})
            form_messages.append(target)
        return _PromptForm(messages=form_messages, names=frozenset(names), computed=computed)

    def _split(self, text: str, context: Context, *, prefix: str) -> SplitTemplate:
        """Split the template of a message, with a note for each computed input."""
        try:
            split = split_template(text, prefix=prefix)
        except TemplateError as error:
            context.note("manual", f"the template is not read: {error}")
            return split_template("")
        for name, part in split.computed.items():
            mark = " ".join(part.split())[:_MARK_SHOWN]
            note = f"`{mark}` of the template is rendered into the input {name} of each case"
            context.note("changed", note)
            try:
                render(part, {})
            except TemplateError as error:
                context.note("manual", f"a template is not rendered: {error}")
            if re.search(r"\benv\.", part):
                note = "a template reads the environment, which is not read; it was left empty"
                context.note("manual", note)
        return split

    def _model_evals(
        self,
        prompt: SourcePrompt,
        name: str,
        tests: Sequence[SourceTest],
        models: Sequence[SourceProvider],
    ) -> None:
        """Add a prompt file, its datasets and evals; tests for one model have their own eval."""
        form = self._form(prompt, tests)
        name = unique_name(name, [existing.name for existing in self._imported.prompts])
        document = self._prompt_document(prompt, form, tests, models)
        self._imported.prompts.append(ImportedPrompt(name=name, document=document))
        groups: dict[str, list[SourceTest]] = {}
        for test in tests:
            test_models = _providers_for(test, models)
            if test_models or not test.providers:
                groups.setdefault(self._own_model(test, test_models, models), []).append(test)
            elif not _providers_for(test, self._providers):
                name_in_test = test.providers[0]
                text = f"the test names the provider {name_in_test}, which is not in the file"
                test.context.note("manual", text)
        for model, members in groups.items():
            words = slug(model.partition(":")[2], otherwise="model")
            dataset = name if not model else unique_name(f"{name}-{words}", self._imported.datasets)
            self._add_cases(dataset, members, lambda test: self._inputs(test, form))
            self._imported.evals.append(ImportedEval(prompt=name, dataset=dataset, model=model))

    def _own_model(
        self,
        test: SourceTest,
        test_models: Sequence[SourceProvider],
        models: Sequence[SourceProvider],
    ) -> str:
        """The model of the eval of a test that is not for the first model, else empty."""
        model = test_models[0].model if test_models and test_models[0] is not models[0] else ""
        if len(test_models) < len(models):
            names = ", ".join(provider.model or provider.id for provider in test_models)
            effect = f"runs on {model} in an eval of its own" if model else "runs on every --model"
            test.context.note("changed", f"a test is only for {names}; it {effect}")
        return model

    def _prompt_document(
        self,
        prompt: SourcePrompt,
        form: _PromptForm,
        tests: Sequence[SourceTest],
        models: Sequence[SourceProvider],
    ) -> dict[str, JSON]:
        """The keys of a prompt file."""
        document: dict[str, JSON] = {}
        description = self._config.get("description")
        if isinstance(description, str) and description.strip():
            document["description"] = description.strip()
        if models:
            if models[0].model:
                document["model"] = models[0].model
            self._imported.settings.setdefault("model", models[0].model or JUDGE_MODEL)
            document.update(models[0].parameters)
        if prompt.config:
            document.update(prompt_parameters(prompt.config, prompt.context))
        extra = {f"__{key}" for key in _AROUND}
        optional = {
            name for name in form.names - extra if not all(name in test.vars for test in tests)
        }
        for name in sorted(optional):
            prompt.context.note("changed", f"a test has no value for {name}, which is then empty")
        if optional:
            document["inputs"] = [
                {"name": name, "required": False} if name in optional else {"name": name}
                for name in sorted({*form.names, *form.computed})
            ]
        document["messages"] = cast("JSON", list(form.messages))
        return document

    def _inputs(self, test: SourceTest, form: _PromptForm) -> _Inputs:
        """The inputs of a case, and the variables that its prompt does not insert."""
        values = dict(test.vars)
        for key in ("prefix", "suffix"):
            values[f"__{key}"] = str(test.options.get(key) or "")
        inputs: dict[str, JSON] = {
            name: values[name] for name in sorted(form.names) if name in values
        }
        for name, part in form.computed.items():
            text = test.context.render(part, values)
            inputs[name] = _chat(text) if form.history else text
        rest = {name: value for name, value in test.vars.items() if name not in form.names}
        return inputs, rest

    def _target_eval(
        self,
        prompt: SourcePrompt,
        name: str,
        tests: Sequence[SourceTest],
        provider: SourceProvider,
    ) -> None:
        """Add the eval of a target, whose cases have all variables and the rendered prompt."""
        if not tests:
            return
        target_name = re.sub(r"\A(?:file://|python:|exec:|https?://)\s*", "", provider.id)
        label = slug(provider.label or target_name, otherwise="target")
        name = name if len(self._providers) == 1 else f"{name}-{label}"
        evals = (imported_eval.prompt for imported_eval in self._imported.evals)
        name = unique_name(name[:90], [*self._imported.datasets, *evals])
        prompt_input = "prompt"
        is_prompt_input = prompt.raw.strip() in {"{{prompt}}", "{{ prompt }}"}
        if not is_prompt_input and any("prompt" in test.vars for test in tests):
            prompt_input = "rendered_prompt"

        names = {key for test in tests for key in test.vars if not key.startswith("__")}
        missing = dict.fromkeys(sorted(names), "") if provider.kind == "http" else {}

        def inputs(test: SourceTest) -> _Inputs:
            values: dict[str, JSON] = {
                **missing,
                **{key: value for key, value in test.vars.items() if not key.startswith("__")},
            }
            if provider.kind != "http" or "prompt" in json.dumps(provider.config):
                values[prompt_input] = self._render(prompt, test)
            return values, {}

        if provider.kind == "echo":  # it returns the prompt
            self._record(name, tests, lambda test: self._render(prompt, test))
        else:
            try:
                input_names = {*names, prompt_input}
                self._imported.targets[name] = target_of(
                    provider,
                    name,
                    prompt_input,
                    own_prompt=is_prompt_input,
                    names=input_names,
                )
            except SourceError as error:
                text = f"the provider is not imported: {error}; write a target named {name}"
                provider.context.note("manual", text)
        self._add_cases(name, tests, inputs)
        if name in self._imported.targets:
            self._imported.evals.append(ImportedEval(prompt=name, dataset=name, target=name))

    def _render(self, prompt: SourcePrompt, test: SourceTest) -> str:
        """Render the prompt as promptfoo does."""
        messages = chat_messages(prompt.raw) if prompt.raw.lstrip()[:1] in {"[", "{"} else None
        if messages is not None:
            rendered = prompt.context.render_all(messages, test.vars)
            return json.dumps(rendered, ensure_ascii=False, indent=2, default=str)
        text = f"{test.options.get('prefix') or ''}{prompt.raw}{test.options.get('suffix') or ''}"
        return prompt.context.render(text, test.vars)

    def _record(
        self, name: str, tests: Sequence[SourceTest], outputs: Callable[[SourceTest], str]
    ) -> None:
        """Declare a target that has an output for each test."""
        ids = case_ids(_title(test) for test in tests)
        lines = [
            {"case": case, "text": outputs(test)} for case, test in zip(ids, tests, strict=True)
        ]
        self._context.suite.record(name, lines)

    def _cases_alone(self, tests: Sequence[SourceTest], *, kind: str) -> None:
        """Add golden cases without an eval; the user has to write a provider or prompt."""
        name = unique_name(self._name, self._imported.datasets)
        self._add_cases(name, tests, _all_inputs)
        self._context.locate(self._config, "tests").note(
            "manual",
            f"the golden cases {name} have no eval: write a {kind}, and an eval with"
            f" dataset={name!r}",
        )

    def _add_cases(
        self, dataset: str, tests: Sequence[SourceTest], inputs: Callable[[SourceTest], _Inputs]
    ) -> None:
        ids = case_ids(_title(test) for test in tests)
        self._imported.datasets[dataset] = [
            self._case(test, case_id, *inputs(test))
            for test, case_id in zip(tests, ids, strict=True)
        ]

    def _case(
        self, test: SourceTest, name: str, inputs: dict[str, JSON], rest: dict[str, JSON]
    ) -> ImportedCase:
        document: dict[str, JSON] = {"id": name, "inputs": inputs}
        if rest:
            document["expected"] = rest
        key = id(test)
        if key not in self._checks:
            self._checks[key] = checks_of(test)
        checks = self._checks[key]
        if not checks:
            text = "a test without assertions is unmeasured until it has checks"
            test.context.note("manual", text)
            checks = [{"unmeasured": f"the test at {test.context.place} has no assertion"}]
        document["checks"] = checks
        if test.threshold is not None and 0 < test.threshold < 1:
            document["pass_at"] = test.threshold
            text = "`threshold` counts passing checks by weight, not their scores"
            test.context.note("changed", text)
        tags = test.metadata.get("tags")
        if is_list(tags):
            words = [re.sub(r"\s+", "-", str(tag).strip()).replace(";", ",") for tag in tags]
            document["tags"] = [*dict.fromkeys(word for word in words if word)]
        if dropped_keys := sorted(test.metadata.keys() - {"tags"}):
            text = f"`metadata` of a test, apart from `tags`: {', '.join(dropped_keys)}"
            test.context.note("dropped", text)
        title = " ".join(test.description.split())
        document["note"] = f"{title} ({test.context.place})" if title else str(test.context.place)
        return ImportedCase(document=document, place=test.context.place)


def _matches_name(patterns: Sequence[str], names: frozenset[str]) -> bool:
    """Return whether a pattern matches one of the names; `group:*` matches a prefix."""
    if not patterns:
        return True
    return any(
        pattern in names
        or (pattern.endswith("*") and any(name.startswith(pattern[:-1]) for name in names))
        or any(name.startswith(f"{pattern}:") for name in names)
        for pattern in patterns
    )


def _providers_for(test: SourceTest, providers: Sequence[SourceProvider]) -> list[SourceProvider]:
    return [provider for provider in providers if _matches_name(test.providers, provider.names)]


def _all_inputs(test: SourceTest) -> _Inputs:
    return {**test.vars}, {}


def _title(test: SourceTest) -> str:
    """The text for an id."""
    if test.description.strip():
        return test.description
    for value in test.vars.values():
        if isinstance(value, str) and value.strip() and len(value) < _TITLE_MAX:
            return value
    return ""


def _chat(text: str) -> JSON:
    """Rendered messages, or the text as one message."""
    messages = chat_messages(text)
    return cast("JSON", messages) if messages else [{"role": "user", "content": text}]
