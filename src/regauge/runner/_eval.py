"""Evals, each bound to its prompt, golden cases, judges and model."""

from __future__ import annotations

import inspect
import os
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from regauge.datasets import Dataset, find_dataset, load_dataset
from regauge.errors import PromptError, UsageError
from regauge.judges import (
    EXTERNAL_JUDGES,
    JudgeContext,
    JudgeStatus,
    Rule,
    RuleFactory,
    as_judge,
    build_checks_judge,
    judge_from_spec,
    judge_status,
    with_prompt_schema,
)
from regauge.project import TRIALS_MAX, PythonTarget
from regauge.prompts import load_prompt
from regauge.providers import CompletionRequest, parse_model_id
from regauge.providers.registry import endpoint_of
from regauge.runner._conversation import Partners, bind_partners
from regauge.runner._plan import assign_dataset
from regauge.targets import WorkingFiles, find_modules, load_target, settings_of_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges import Judge, JudgeFunction, ModelJudge, UnboundJudge
    from regauge.project import Project
    from regauge.prompts import Prompt
    from regauge.providers import ModelId
    from regauge.runner._spec import EvalSpec, JudgeLike, RunOptions
    from regauge.targets import Target

_RULE = JudgeStatus(blocking=True, reason="")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Eval:
    """One eval, ready to run.

    Attributes:
        trials: Trials per case.
        pass_rate: The share of a case's trials that must pass, above 0 and up to 1.
        origin: The prompt file, relative to the project.
        named_by: The source of the model's name, for errors; empty for the prompt.
        target: The target that is called instead of a model; None for a model.
        partners: The personas and tools in conversations of its cases.
        function: The name of its function; empty for a prompt file.
        judge_statuses: Whether each LLM judge is blocking, by name.
        directory: The directory of the eval, relative to the project; empty if unknown.
    """

    prompt: Prompt
    dataset: Dataset
    judges: tuple[Judge, ...]
    model: ModelId
    trials: int
    pass_rate: float
    origin: str
    named_by: str = ""
    judge_statuses: Mapping[str, JudgeStatus] = field(default_factory=dict[str, JudgeStatus])
    target: Target | None = None
    partners: Partners = field(default_factory=Partners)
    function: str = ""
    directory: str = ""

    @property
    def evals(self) -> str:
        """The directory of the eval, for commands; empty if it is in `evals`."""
        is_usual = Path(self.directory).parts[:1] in {(), ("evals",)}
        return "" if is_usual else self.directory

    @property
    def evals_option(self) -> list[str]:
        """The option with which commands find the eval; empty if they do without it."""
        return ["--evals", self.evals] if self.evals else []

    def command(self, *words: str) -> str:
        """A command of regauge on its prompt, for a shell."""
        return shlex.join(["regauge", *words, self.prompt.name, *self.evals_option])

    @property
    def loaded_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of its target and its personas."""
        target_prompts = self.target.prompts if self.target is not None else ()
        return (*target_prompts, *self.partners.prompts)

    @property
    def version(self) -> str:
        """The version of the prompt, or of the target; empty without one."""
        if self.target is not None:
            return self.target.version
        return str(self.prompt.version or "")

    @property
    def model_judges(self) -> tuple[ModelJudge, ...]:
        """The LLM judges."""
        if not self.judge_statuses:
            return ()
        model_judges = [judge for judge in self.judges if judge.name in self.judge_statuses]
        return tuple(cast("list[ModelJudge]", model_judges))

    def status_of(self, judge: Judge) -> JudgeStatus:
        """The status of a judge; rules are blocking."""
        return self.judge_statuses.get(judge.name, _RULE)

    def request(self, case: GoldenCase, trial: int) -> CompletionRequest:
        """The request to the model or target for one trial of one case.

        Raises:
            RenderError: The inputs of the case are not those of the prompt.
        """
        script = case.script
        if self.target is not None:
            request = self.target.request(case, trial, origin=self.origin)
            if script is None or self.target.outputs is not None:
                return request
        else:
            inputs = case.inputs
            if script is not None and script.persona:
                inputs = self.partners.inputs_of(case, script.persona, self.prompt)
            request = CompletionRequest(
                provider=self.model.provider,
                model=self.model.model,
                messages=self.prompt.render(inputs, case_at=case.location),
                parameters=self.prompt.parameters,
                response_format=self.prompt.response_format,
                tools=self.prompt.tools,
                trial=trial,
                origin=self.origin,
                named_by=self.named_by,
                files=self.dataset.fixtures_dir,
            )
        if script is None:
            return request
        return replace(request, conversation=self.partners.digest_of(script))


def bind(
    spec: EvalSpec, function: Callable[..., Any], *, project: Project, options: RunOptions
) -> tuple[Eval, ...]:
    """Load the prompt, dataset and judges of an eval: one `Eval` per model of the run.

    Raises:
        UsageError: The declaration is invalid: no judges, a number out of range, an undeclared
            provider or target.
        PromptError: The prompt cannot be loaded, or has no model.
        DatasetError: The golden dataset cannot be loaded.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    location = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
    rate = cast("object", spec.pass_rate)  # an eval may pass any object
    if not (isinstance(rate, (int, float)) and 0 < rate <= 1):
        raise UsageError(
            f"{location}: pass_rate must be above 0 and at most 1, not {spec.pass_rate!r}"
        )
    trials = cast("object", spec.trials)
    if trials is not None and not (isinstance(trials, int) and 1 <= trials <= TRIALS_MAX):
        raise UsageError(f"{location}: trials must be from 1 to {TRIALS_MAX}, not {spec.trials!r}")
    target = None
    if spec.target is None:
        prompt = load_prompt(spec.prompt, spec.version, root=project.root)
        models, named_by = _models(
            prompt, spec.model, project=project, options=options, location=location
        )
    else:
        target = _target(spec.target, spec, location, project=project, options=options)
        prompt = target.describe_subject(spec.prompt, path=project.pyproject)
        models, named_by = (target.model,), ""
    path = find_dataset(spec.dataset or spec.prompt, fixtures_dir=project.fixtures_dir)
    shard = options.shard
    if shard is not None and shard.assigned_by == "time":
        shard = assign_dataset(shard, path, prompt=spec.prompt, project=project)
    dataset = load_dataset(
        path,
        fixtures_dir=project.fixtures_dir,
        salt=project.settings.split_salt,
        holdout=project.settings.holdout,
        shard=shard,
    )
    context = _judge_context(project, options, prompt)
    checks = build_checks_judge(dataset, context)
    judges = _judges(
        (*spec.judges, checks) if checks else spec.judges, location, context, options=options
    )
    if not judges:
        fix = "give golden(..., judges=[...]) at least one, or give the golden cases `checks`"
        raise UsageError(
            f"{location}: the eval has no judges, so nothing would be measured", fix=fix
        )
    eval_ = Eval(
        prompt=prompt,
        dataset=dataset,
        judges=judges,
        judge_statuses=_judge_statuses(judges, project),
        model=models[0],
        trials=spec.trials or options.trials,
        pass_rate=spec.pass_rate,
        origin=str(project.relative(prompt.path)),
        named_by=named_by,
        target=target,
        function=function.__name__,
        partners=bind_partners(dataset, project, offline=options.record == "none")
        if any(case.script is not None for case in dataset.cases)
        else Partners(),
        directory=project.relative(Path(location).parent).as_posix(),
    )
    return tuple(replace(eval_, model=model) for model in models)


def _target(
    target_name: str, spec: EvalSpec, location: str, *, project: Project, options: RunOptions
) -> Target:
    """Load the target of an eval; a process may import its module to find its files."""
    for name, setting in (("model", spec.model), ("version", spec.version)):
        if setting is not None:
            raise UsageError(
                f"{location}: {name} changes a prompt, and {spec.prompt} tests the target"
                f" {target_name!r}\n  fix: leave {name} out; -k 'not ...' deselects an eval"
            )
    name, settings = settings_of_target(target_name, project.settings)
    discover = None
    if options.record != "none" and isinstance(settings, PythonTarget):
        function = settings
        discover = lambda: find_modules(function, root=project.root, environ=os.environ)  # noqa: E731
    return load_target(
        name, settings, root=project.root, files=WorkingFiles(project.root), discover=discover
    )


def bind_prompt_file(path: Path, *, project: Project, options: RunOptions) -> tuple[Eval, ...]:
    """Load the evals of a prompt file with `testData` and `evaluators`, one per model.

    Raises:
        PromptError: The file cannot be loaded, or has no `testData`, `evaluators` or model.
        UsageError: The provider of its model is not declared.
    """
    from regauge.judges import cases_from_test_data, judges_from_evaluators

    prompt = load_prompt(path, root=project.root)
    for key, entries in (("testData", prompt.test_data), ("evaluators", prompt.evaluators)):
        if not entries:
            raise PromptError.at_place(
                project.relative(path),
                f"it has no `{key}`, so nothing would be measured",
                fix=f"add `{key}`, or write an eval with @golden for it",
            )
    location = str(project.relative(path))
    judges = _judges(
        judges_from_evaluators(prompt),
        location,
        _judge_context(project, options, prompt),
        options=options,
    )
    models, named_by = _models(prompt, None, project=project, options=options, location=location)
    # Rows have no ids that would identify their recorded latency.
    shard = options.shard and replace(options.shard, assigned_by="id")
    cases = cases_from_test_data(prompt)
    shard_cases = tuple(case for case in cases if shard is None or shard.includes(case.id))
    excluded = len(cases) - len(shard_cases)
    eval_ = Eval(
        prompt=prompt,
        dataset=Dataset(
            name="testData", path=path, cases=shard_cases, shard=shard, excluded=excluded
        ),
        judges=judges,
        judge_statuses=_judge_statuses(judges, project),
        model=models[0],
        trials=options.trials,
        pass_rate=1.0,
        origin=str(project.relative(path)),
        named_by=named_by,
    )
    return tuple(replace(eval_, model=model) for model in models)


def _models(
    prompt: Prompt, model_name: str | None, *, project: Project, options: RunOptions, location: str
) -> tuple[tuple[ModelId, ...], str]:
    """The models to run: of the options, else the eval, the prompt or the settings.

    Returns:
        The models, and the source of their names for errors; empty for the prompt.
    """
    model = model_name or prompt.model or project.settings.model
    if options.models:
        place = named_by = "--model"
    elif model is None:
        raise PromptError.at_place(
            project.relative(prompt.path),
            "the prompt has no model",
            fix="add `model: provider:model`, or set `model` in [tool.regauge]",
            line=1,
        )
    elif model_name is not None:
        place, named_by = "", f"`model` of the eval at {location}"
    else:
        place = str(project.relative(prompt.path))
        named_by = "" if prompt.model else "`model` in [tool.regauge]"
    models = tuple(
        parse_model_id(name, location=place) for name in options.models or (model or "",)
    )
    if options.record != "none":
        for name in models:
            endpoint_of(project.settings, name.provider)
    return models, named_by


def _judge_context(project: Project, options: RunOptions, prompt: Prompt) -> JudgeContext:
    model = options.judge_model or project.settings.judge_model
    return JudgeContext(project=project, model=model, prompt=prompt)


def _judges(
    likes: Sequence[JudgeLike], location: str, context: JudgeContext, *, options: RunOptions
) -> tuple[Judge, ...]:
    """The judges of an eval, with unique names; plain functions become judges."""
    judges = tuple(_judge(judge, location, context) for judge in likes)
    if options.record != "none":
        for judge in judges:
            for model in getattr(judge, "models", ()) if hasattr(judge, "judge_with") else ():
                provider = parse_model_id(model, location=judge.name).provider
                if provider not in EXTERNAL_JUDGES:
                    endpoint_of(context.project.settings, provider)
    counts = Counter(judge.name for judge in judges)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise UsageError(
            f"{location}: two judges are called {twice[0]!r}, and their verdicts could not be"
            " distinguished\n  fix: remove one, or give it a name of its own with .with_name(...)"
        )
    return judges


def _judge(like: JudgeLike, location: str, context: JudgeContext) -> Judge:
    if hasattr(like, "bind") and not isinstance(like, type):
        return cast("UnboundJudge", like).bind(context)
    if isinstance(like, Rule):
        return with_prompt_schema(like, context.prompt)
    if hasattr(like, "judge"):
        return cast("Judge", like)
    if isinstance(like, str | Mapping):
        try:
            return _judge(judge_from_spec(cast("JSON", like)), location, context)
        except UsageError as error:
            raise UsageError(f"{location}: {error}") from error
    if isinstance(like, RuleFactory):
        fix = f"call it: {like.kind}{like.form}"
        raise UsageError(f"{location}: {like.kind} makes a judge, it is none itself", fix=fix)
    if not callable(like):
        raise UsageError(
            f"{location}: {like!r} is not a judge\n"
            "  fix: give a judge of regauge.judges, such as max_words(40), or a function"
            " (output, case) -> bool | float | Verdict"
        )
    return as_judge(cast("JudgeFunction", like))


def _judge_statuses(judges: Iterable[Judge], project: Project) -> Mapping[str, JudgeStatus]:
    """The statuses of LLM judges, by name."""
    model_judges = [cast("ModelJudge", judge) for judge in judges if hasattr(judge, "judge_with")]
    return {judge.name: judge_status(judge, project) for judge in model_judges}
