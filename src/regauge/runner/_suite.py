"""A suite: one eval bound to its prompt, its golden cases and its judges."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from regauge.datasets import Dataset, find_dataset, load_dataset
from regauge.errors import Fault, PromptError, UsageError
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
from regauge.runner._plan import deal_dataset
from regauge.targets import WorkingFiles, find_modules, load_target, settings_of_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
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
        pass_rate: The share of a case's trials that must pass.
        origin: The prompt file, as people write it.
        named_by: What names the model: an option, the eval, a file or the settings.
        target: What answers instead of a model; None where the prompt is put to a model.
        partners: Who else takes part in the conversations of its cases.
        standings: By name, what the verdicts of judges that ask a model count for.
    """

    prompt: Prompt
    dataset: Dataset
    judges: tuple[Judge, ...]
    model: ModelId
    trials: int
    pass_rate: float
    origin: str
    named_by: str = ""
    standings: Mapping[str, JudgeStatus] = field(default_factory=dict[str, JudgeStatus])
    target: Target | None = None
    partners: Partners = field(default_factory=Partners)

    @property
    def loaded_prompts(self) -> tuple[Prompt, ...]:
        """The prompts that take part besides its own: those of its target and its personas."""
        own = self.target.prompts if self.target is not None else ()
        return (*own, *self.partners.prompts)

    @property
    def version(self) -> str:
        """The version of the prompt, or of the target; empty without one."""
        if self.target is not None:
            return self.target.version
        return str(self.prompt.version or "")

    @property
    def model_judges(self) -> tuple[ModelJudge, ...]:
        """The judges that ask a model."""
        if not self.standings:
            return ()
        asking = [judge for judge in self.judges if judge.name in self.standings]
        return tuple(cast("list[ModelJudge]", asking))

    def standing(self, judge: Judge) -> JudgeStatus:
        """The status of a judge's verdicts; those of rules are blocking."""
        return self.standings.get(judge.name, _RULE)

    def request(self, case: GoldenCase, trial: int) -> CompletionRequest:
        """The request to the model or target for one trial of one case.

        Raises:
            RenderError: An input of the prompt is missing in the case, or the case has another.
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
    """Load what an eval names: one suite per model of the run; a target has no model.

    Raises:
        UsageError: The declaration makes no sense: no judges, a share out of range, a provider
            or a target that nothing declares.
        PromptError: The prompt cannot be loaded, or nothing says which model to ask.
        DatasetError: The golden dataset cannot be loaded.
    """
    where = _place(function)
    rate = cast("object", spec.pass_rate)  # an eval may say anything
    if not (isinstance(rate, (int, float)) and 0 < rate <= 1):
        raise UsageError(
            f"{where}: pass_rate must be above 0 and at most 1, not {spec.pass_rate!r}"
        )
    trials = cast("object", spec.trials)
    if trials is not None and not (isinstance(trials, int) and 1 <= trials <= TRIALS_MAX):
        raise UsageError(f"{where}: trials must be from 1 to {TRIALS_MAX}, not {spec.trials!r}")
    target = None
    if spec.target is None:
        prompt = load_prompt(spec.prompt, spec.version, root=project.root)
        models, named_by = _models(prompt, spec.model, project=project, options=options, at=where)
    else:
        target = _target(spec.target, spec, where, project=project, options=options)
        prompt = target.subject(spec.prompt, path=project.pyproject)
        models, named_by = (target.model,), ""
    path = find_dataset(spec.dataset or spec.prompt, fixtures_dir=project.fixtures_dir)
    shard = options.shard
    if shard is not None and shard.assigned_by == "time":
        shard = deal_dataset(shard, path, prompt=spec.prompt, project=project)
    dataset = load_dataset(
        path,
        fixtures_dir=project.fixtures_dir,
        salt=project.settings.split_salt,
        holdout=project.settings.holdout,
        shard=shard,
    )
    context = _context(project, options, prompt)
    checks = build_checks_judge(dataset, context)
    judges = _judges(
        (*spec.judges, checks) if checks else spec.judges, where, context, options=options
    )
    if not judges:
        fix = "give golden(..., judges=[...]) at least one, or give the golden cases `checks`"
        raise UsageError(f"{where}: the eval has no judges, so nothing would be measured", fix=fix)
    suite = Eval(
        prompt=prompt,
        dataset=dataset,
        judges=judges,
        standings=_standings(judges, project),
        model=models[0],
        trials=spec.trials or options.trials,
        pass_rate=spec.pass_rate,
        origin=str(project.relative(prompt.path)),
        named_by=named_by,
        target=target,
        partners=bind_partners(dataset, project, offline=options.record == "none"),
    )
    return tuple(replace(suite, model=model) for model in models)


def _target(
    named: str, spec: EvalSpec, where: str, *, project: Project, options: RunOptions
) -> Target:
    """The target instead of a model; a process may import its module to find its files."""
    for name, setting in (("model", spec.model), ("version", spec.version)):
        if setting is not None:
            raise UsageError(
                f"{where}: {name} changes a prompt, and {spec.prompt} tests the target"
                f" {named!r}\n  fix: leave {name} out; -k 'not ...' deselects an eval"
            )
    name, settings = settings_of_target(named, project.settings)
    discover = None
    if options.record != "none" and isinstance(settings, PythonTarget):
        function = settings
        discover = lambda: find_modules(function, root=project.root, environ=os.environ)  # noqa: E731
    return load_target(
        name, settings, root=project.root, files=WorkingFiles(project.root), discover=discover
    )


def bind_prompt_file(path: Path, *, project: Project, options: RunOptions) -> tuple[Eval, ...]:
    """Make a suite per model of a prompt file that brings its own `testData` and `evaluators`.

    Raises:
        PromptError: The file cannot be loaded, has no `testData` or no `evaluators`, or nothing
            says which model to ask.
        UsageError: Its model is served by a provider that nothing declares.
    """
    from regauge.judges import cases_from_test_data, judges_from_evaluators

    prompt = load_prompt(path, root=project.root)
    for key, entries in (("testData", prompt.test_data), ("evaluators", prompt.evaluators)):
        if not entries:
            fault = Fault(
                path=project.relative(path),
                line=None,
                message=f"it has no `{key}`, so nothing would be measured",
                fix=f"add `{key}`, or write an eval with @golden for it",
            )
            raise PromptError([fault])
    where = str(project.relative(path))
    judges = _judges(
        judges_from_evaluators(prompt), where, _context(project, options, prompt), options=options
    )
    models, named_by = _models(prompt, None, project=project, options=options, at=where)
    # Recordings state no time that rows without names of their own would be dealt by.
    shard = options.shard and replace(options.shard, assigned_by="id")
    cases = cases_from_test_data(prompt)
    own = tuple(case for case in cases if shard is None or shard.includes(case.id))
    excluded = len(cases) - len(own)
    suite = Eval(
        prompt=prompt,
        dataset=Dataset(name="testData", path=path, cases=own, shard=shard, excluded=excluded),
        judges=judges,
        standings=_standings(judges, project),
        model=models[0],
        trials=options.trials,
        pass_rate=1.0,
        origin=str(project.relative(path)),
        named_by=named_by,
    )
    return tuple(replace(suite, model=model) for model in models)


def _models(
    prompt: Prompt, model_name: str | None, *, project: Project, options: RunOptions, at: str
) -> tuple[tuple[ModelId, ...], str]:
    """The models of the run, else that of the eval, else of the prompt, else of the project.

    Returns:
        The models, and what names them where it is not the prompt, for errors.
    """
    model = model_name or prompt.model or project.settings.model
    if options.models:
        place = named_by = "--model"
    elif model is None:
        fault = Fault(
            path=project.relative(prompt.path),
            line=1,
            message="nothing says which model answers this prompt",
            fix="add `model: provider:model`, or set `model` in [tool.regauge]",
        )
        raise PromptError([fault])
    elif model_name is not None:
        place, named_by = "", f"`model` of the eval at {at}"
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


def _context(project: Project, options: RunOptions, prompt: Prompt) -> JudgeContext:
    model = options.judge_model or project.settings.judge_model
    return JudgeContext(project=project, model=model, prompt=prompt)


def _judges(
    likes: Sequence[JudgeLike], where: str, context: JudgeContext, *, options: RunOptions
) -> tuple[Judge, ...]:
    """The judges of an eval; plain functions become judges, and every name is unique."""
    judges = tuple(_judge(judge, where, context) for judge in likes)
    if options.record != "none":
        models = [model for judge in judges for model in _models_of_judge(judge)]
        for at, model in models:
            provider = parse_model_id(model, location=at).provider
            if provider not in EXTERNAL_JUDGES:
                endpoint_of(context.project.settings, provider)
    counts = Counter(judge.name for judge in judges)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise UsageError(
            f"{where}: two judges are called {twice[0]!r}, and their verdicts could not be"
            " distinguished\n  fix: remove one, or give it a name of its own with .with_name(...)"
        )
    return judges


def _models_of_judge(judge: Judge) -> list[tuple[str, str]]:
    """The models that a judge calls, each with the judge's name."""
    models = getattr(judge, "models", ()) if hasattr(judge, "judge_with") else ()
    return [(judge.name, model) for model in models]


def _judge(like: JudgeLike, where: str, context: JudgeContext) -> Judge:
    if hasattr(like, "bind") and not isinstance(like, type):
        return cast("UnboundJudge", like).bind(context)
    if isinstance(like, Rule):
        return with_prompt_schema(like, context.prompt)
    if hasattr(like, "judge"):
        return cast("Judge", like)
    if isinstance(like, str | Mapping):
        try:
            return _judge(judge_from_spec(cast("JSON", like)), where, context)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
    if isinstance(like, RuleFactory):
        fix = f"call it: {like.kind}{like.form}"
        raise UsageError(f"{where}: {like.kind} makes a judge, it is none itself", fix=fix)
    if not callable(like):
        raise UsageError(
            f"{where}: {like!r} is no judge\n"
            "  fix: give a judge of regauge.judges, such as max_words(40), or a function"
            " (output, case) -> bool | float | Verdict"
        )
    return as_judge(cast("JudgeFunction", like))


def _standings(judges: Iterable[Judge], project: Project) -> Mapping[str, JudgeStatus]:
    """The statuses of judges that call a model, by name."""
    asking = [cast("ModelJudge", judge) for judge in judges if hasattr(judge, "judge_with")]
    return {judge.name: judge_status(judge, project) for judge in asking}


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
