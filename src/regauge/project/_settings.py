"""The settings: `[tool.regauge]` and its tables."""

from __future__ import annotations

import re
from contextlib import suppress
from copy import deepcopy
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    cast,
    get_args,
    get_origin,
)
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from regauge.errors import UsageError
from regauge.model_id import parse_model_id
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

Criterion = Literal["correctness", "completeness", "format", "relevance"]
"""Aspects of an output; each judge counts under one."""
CRITERIA: Final[tuple[Criterion, ...]] = get_args(Criterion)

_STORE = re.compile(r"(postgres|postgresql|postgresql\+psycopg)://|sqlite:///.")
# A password may hold unescaped characters, so all text up to the last @ counts.
_PASSWORD = re.compile(r"(?<=//)([^:/@?]*):.*@")
_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&]*")

# All text before the last @ of the authority, also for URLs that do not parse.
_AUTHORITY = re.compile(r"\A\s*(?P<scheme>[^:/?#@]*:)?//(?P<user>[^/?#]*@)?(?P<host>[^/?#]*)")


def has_credentials(url: str) -> bool:
    """Return whether a URL names a user or a password.

    >>> has_credentials("https://user:word@host/v1"), has_credentials("https://host/v1?to=a@b")
    (True, False)
    """
    match = _AUTHORITY.match(url)
    return match is not None and match["user"] is not None


def redact_url(url: str) -> str:
    """Scheme, host and path of a URL.

    >>> redact_url("https://user:word@host:8000/v1?api-key=word#top")
    'https://host:8000/v1'
    """
    clean = re.split(r"[?#]", url, maxsplit=1)[0]
    return _AUTHORITY.sub(lambda match: f"{match['scheme'] or ''}//{match['host']}", clean)


def is_store_url(url: str) -> bool:
    """Return whether a URL names a database that can hold the run history.

    >>> is_store_url("sqlite:///history.db"), is_store_url("mysql://host/evals")
    (True, False)
    """
    return _STORE.match(url) is not None


def redact_store_url(url: str) -> str:
    """The URL of a database without its passwords.

    >>> redact_store_url("postgresql://me:p@ss/word@db/evals?sslpassword=x&sslmode=require")
    'postgresql://me:***@db/evals?sslpassword=***&sslmode=require'
    """
    return _PARAMETER.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))


# The settings of a provider that identify its models.
ENDPOINT_IDENTITY = (
    "api",
    "base_url",
    "api_key_env",
    "headers_env",
    "vary_seed",
    "api_key_command",
    "options",
)

# A pattern that matches one of these would make files of regauge unreadable.
_NOT_SECRET = ("", "accepted", "rejected", "passed", "failed", "2026-01-31T10:00:00+00:00")

TRIALS_MAX = 10_000
"""The most trials of a case in one run."""

_PERCENT = 100

RecordMode = Literal["none", "missing", "all"]


def _compilable(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"not a regular expression: {error}\n"
            "  fix: correct it; a character that is meant itself takes a backslash, such as \\("
        ) from error
    return pattern


def _distinct(models: list[str]) -> list[str]:
    twice = next((model for number, model in enumerate(models) if model in models[:number]), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is listed twice\n  fix: remove one")
    return models


def _redactable(pattern: str) -> str:
    word = next((word for word in _NOT_SECRET if re.search(_compilable(pattern), word)), None)
    if word is not None:
        raise ValueError(
            f"{pattern!r} matches {f'the word {word!r}' if word else 'the empty text'}, which every"
            " file of regauge may contain\n  fix: match what is particular to the secret, such as"
            " its prefix or its length"
        )
    return pattern


def _usable_url(url: str | None) -> str | None:
    if url is None:
        return None
    usable = False
    with suppress(ValueError):
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    if not usable:
        raise ValueError(
            f"no URL of an HTTP endpoint: {redact_url(url)}\n"
            "  fix: write the scheme, host and path, such as http://127.0.0.1:8000/v1"
        )
    if has_credentials(url):
        raise ValueError(
            f"a user name or a password in the URL ({redact_url(url)}) would be committed\n"
            "  fix: remove what is before the @; name the variable that holds the key as"
            " `api_key_env`, or further headers in `headers_env`"
        )
    return url


def _model_id(text: str) -> str:
    try:
        parse_model_id(text)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


def _store(url: str) -> str:
    if not is_store_url(url):
        raise ValueError(
            f"not a store that regauge can use: {redact_store_url(url)!r}\n"
            "  fix: write postgresql://USER@HOST/DATABASE, or sqlite:///FILE"
        )
    return url


def _criterion(word: object) -> object:
    if isinstance(word, str) and word not in CRITERIA:
        hint = did_you_mean(word, CRITERIA) or f"there are {', '.join(CRITERIA)}"
        raise ValueError(f"there is no criterion {word!r}\n  fix: {hint}")
    return word


def _share(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        fix = "write a number without quotes, such as 0.95"
    elif 0 < value < 1:
        return value
    elif 1 < value < _PERCENT:
        fix = f"a share, not a percentage: write {value / _PERCENT:g}"
    else:
        fix = "no number of trials shows that nothing ever fails: write 0.95, or 0.99"
        fix = fix if value in {1, _PERCENT} else "write a share such as 0.95"
    raise ValueError(f"must be above 0 and below 1, not {value!r}\n  fix: {fix}")


def _branch(ref: str) -> str:
    """Refuse refs that move with the change, which would be compared with itself."""
    if re.match(r"(?:HEAD|@)(?:[~^@]|\Z)", ref):
        raise ValueError(
            f"{ref} moves with every commit, so a change would be compared with itself\n"
            "  fix: name the branch that changes are merged into, such as origin/main"
        )
    return ref


def _anchor(text: str) -> str:
    number = r"(0|[1-9]\d{0,8})"
    if text not in {"major", "none"} and not re.fullmatch(rf"{number}(\.{number}){{2}}", text):
        raise ValueError(
            f"must be 'major', 'none' or a version, not {text!r}\n"
            '  fix: write a released version, such as anchor = "2.0.0"'
        )
    return text


_ModelName = Annotated[str, AfterValidator(_model_id)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class PriceSettings(_Table):
    """The price of a model, in US dollars per million tokens."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    cached_input_per_million: float | None = Field(default=None, ge=0)


class EndpointSettings(_Table):
    """One endpoint of models: `[tool.regauge.providers.<name>]`.

    Attributes:
        api: `openai` (chat completions), `responses` (OpenAI), `anthropic` (Messages), or an entry
            point of the group `regauge.providers`.
        base_url: The URL, with `/v1`, without user name and password; by default that of the API's
            SDK.
        api_key_env: The environment variable of the key; without it, no key is sent.
        api_key_command: A command that prints the key, as a list of arguments, for keys that
            expire; run before the first request and when a key is refused.
        prices: Prices by model name, for costs and budgets.
        headers_env: Further headers, each with its environment variable.
        timeout_s: Seconds per attempt; by default the project's.
        max_attempts: Attempts per request, before its case is unmeasured.
        deadline_s: Seconds for all attempts of a request.
        vary_seed: Send the trial number as `seed`, for servers that repeat themselves.
        accepts: Parameters to send although regauge lists them as ignored or rejected, such as
            `seed`.
        options: Options of an entry point's provider.
        batch_price: Price in a batch as a share of the live price; by default 0.5 for OpenAI, Azure
            and Anthropic, unknown for others.
    """

    api: str = "openai"
    base_url: Annotated[str | None, AfterValidator(_usable_url)] = None
    api_key_env: str | None = None
    prices: dict[str, PriceSettings] = {}
    headers_env: dict[str, str] = {}
    timeout_s: float | None = Field(default=None, gt=0)
    max_attempts: int = Field(default=6, ge=1)
    deadline_s: float = Field(default=120, gt=0)
    vary_seed: bool = False
    api_key_command: Annotated[list[str] | None, Field(min_length=1)] = None
    accepts: list[str] = []
    options: dict[str, Any] = {}
    batch_price: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.api_key_command and self.api_key_env is not None:
            raise ValueError("api_key_env and api_key_command both name a key\n  fix: keep one")
        if self.vary_seed and self.api in {"responses", "anthropic"}:
            raise ValueError(f"api = {self.api!r} takes no seed\n  fix: remove vary_seed")
        return self


def _inside(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or ".." in parts or ":" in parts[0]:
        raise ValueError(
            f"not a relative path: {path!r}\n"
            "  fix: write it with / and without .., such as app/pipeline.py"
        )
    return path.rstrip("/")


def _callable_name(text: str) -> str:
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ValueError(
            f"not the name of a callable: {text!r}\n"
            "  fix: write module:function, such as app.pipeline:reply"
        )
    return text


_InsidePath = Annotated[str, AfterValidator(_inside)]
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_MaybeVariable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\??$")]


class AcknowledgedCase(_Table):
    """A golden case in the changelog of a target.

    Attributes:
        case: Its id.
        reason: The reason, for reviewers.
    """

    case: str
    reason: Annotated[str, Field(min_length=1)]


class TargetChange(_Table):
    """A change of a target: `[[tool.regauge.targets.<name>.changelog]]`.

    Attributes:
        version: The target's version with this change, or any text where it declares none.
        text: The change in words.
        date: The day.
        accepted: Golden cases that may pass less often with it, each with `case` and `reason`.
        removed: Golden cases that were removed with it, each with `case` and `reason`.
    """

    version: str
    text: str
    date: str = ""
    accepted: list[AcknowledgedCase] = []
    removed: list[AcknowledgedCase] = []


class _Target(_Table):
    version: str | None = None
    changelog: list[TargetChange] = []
    files: list[_InsidePath] | None = None
    prompts: list[str] = []
    concurrency: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] | None = None
    timeout_s: float | None = Field(default=None, gt=0)
    deadline_s: float = Field(default=120, gt=0)
    max_attempts: int = Field(default=1, ge=1)
    cost_usd: float | None = Field(default=None, ge=0)


class PythonTarget(_Target):
    """A Python function: `[tool.regauge.targets.<name>]` with `kind = "python"`.

    Attributes:
        kind: `python`.
        callable: The function, sync or async, as `module:function`. It is called with the inputs
            of a case by name, or with the case where its only parameter is `case`.
        version: A text of your own; another one needs other recordings.
        changelog: Changes with the golden cases that they break on purpose, newest first.
        files: Files and directories below the root that its outputs depend on. Without them, all
            modules below the root that importing the callable loads.
        prompts: The names of prompt files that it loads.
        concurrency: Calls at once; by default those of the run.
        timeout_s: How long one call may take, in seconds; by default the project's.
        deadline_s: How long all attempts of a call may take together, in seconds.
        max_attempts: How often a call is tried that fails or takes too long.
        cost_usd: The price of a call, in US dollars, where the output states none.
    """

    kind: Literal["python"] = "python"
    callable: Annotated[str, AfterValidator(_callable_name)]


class HttpTarget(_Target):
    """An HTTP endpoint: `[tool.regauge.targets.<name>]` with `kind = "http"`.

    Attributes:
        kind: `http`.
        url: Where it is; `{{name}}` inserts an input of the case.
        method: The HTTP method.
        headers_env: Request headers, each from the environment variable named here.
        body: The JSON body; `{{name}}` inserts an input of the case. By default an object with
            all inputs, and nothing with GET.
        text: The JSON path of the text, such as `$.answer`; by default the whole response.
        tool_calls: The JSON path of the list of tool calls.
        context: The JSON path of the list of retrieved texts.
        usage: The JSON path of the token counts.
        messages: The JSON path of the list of messages.
        cost: The JSON path of the cost, in US dollars.
        status: The statuses of responses that are an output; by default 200 to 299.
        base: The target of the base branch in the gate.
        version: A text of your own; another one needs other recordings.
        changelog: Changes with the golden cases that they break on purpose, newest first.
        files: Files and directories below the root that its outputs depend on.
        prompts: The names of prompt files that it loads.
        concurrency: Requests at once; by default those of the run.
        timeout_s: How long one attempt may take, in seconds; by default the project's.
        deadline_s: How long all attempts of a request may take together, in seconds.
        max_attempts: How often a request is tried.
        cost_usd: The price of a request, in US dollars, where the response states none.
    """

    kind: Literal["http"] = "http"
    url: Annotated[str, AfterValidator(_usable_url)]
    method: Literal["GET", "POST", "PUT", "PATCH"] = "POST"
    headers_env: dict[str, _Variable] = {}
    body: Any = None
    text: str | None = None
    tool_calls: str | None = None
    context: str | None = None
    usage: str | None = None
    messages: str | None = None
    cost: str | None = None
    status: list[Annotated[int, Field(ge=200, le=599)]] | None = None
    base: str | None = None
    max_attempts: int = Field(default=6, ge=1)


class CommandTarget(_Target):
    """A program: `[tool.regauge.targets.<name>]` with `kind = "command"`.

    Attributes:
        kind: `command`.
        argv: The program and its arguments. It runs in the root, without a shell, reads the
            inputs of a case as JSON, and writes text or JSON.
        env: The environment variables that it gets, besides PATH, HOME and LANG; with `?` at its
            end, one that need not be set.
        version: A text of your own; another one needs other recordings.
        changelog: Changes with the golden cases that they break on purpose, newest first.
        files: Files and directories below the root that its outputs depend on.
        prompts: The names of prompt files that it loads.
        concurrency: Programs at once; by default two for each processor.
        timeout_s: How long it may run, in seconds; by default the project's.
        deadline_s: How long all attempts may take together, in seconds.
        max_attempts: How often it is started for a case where it fails or takes too long.
        cost_usd: The price of a run, in US dollars, where the output states none.
    """

    kind: Literal["command"] = "command"
    argv: Annotated[list[str], Field(min_length=1)]
    env: list[_MaybeVariable] = []


class RecordedTarget(_Target):
    """Outputs in a file: `[tool.regauge.targets.<name>]` with `kind = "recorded"`.

    Attributes:
        kind: `recorded`.
        path: A JSON Lines file below `fixtures`. Each line has `case`, `trial` (from 0, by default
            0), `text` or `messages`, and may have `tool_calls`, `context`, `usage`, `cost_usd`.
        version: A text of your own.
        changelog: Changes with the golden cases that they break on purpose, newest first.
        files: Files and directories below the root that the outputs depend on.
        prompts: The names of prompt files that the outputs depend on.
        concurrency: Has no effect.
        timeout_s: Has no effect.
        deadline_s: Has no effect.
        max_attempts: Has no effect.
        cost_usd: The price of an output, in US dollars, where its line states none.
    """

    kind: Literal["recorded"] = "recorded"
    path: _InsidePath


TargetSettings: TypeAlias = PythonTarget | HttpTarget | CommandTarget | RecordedTarget
TARGET_KINDS: Final = ("python", "http", "command", "recorded")


def _no_kind(providers: dict[str, EndpointSettings]) -> dict[str, EndpointSettings]:
    for name in providers:
        if name in TARGET_KINDS:
            raise ValueError(f"{name} is a kind of target\n  fix: give the provider another name")
    return providers


_Targets = dict[str, Annotated[TargetSettings, Field(discriminator="kind")]]
_Providers = Annotated[dict[str, EndpointSettings], AfterValidator(_no_kind)]


class CalibrationSettings(_Table):
    """Requirements for blocking LLM judges: `[tool.regauge.calibration]`.

    Attributes:
        floor: Required lower bound of agreement: kappa for labels and pairs, Spearman's correlation
            for scores.
        min_labels: The least number of labelled outputs.
    """

    floor: float = Field(default=0.4, ge=-1, lt=1)
    min_labels: int = Field(default=30, ge=1)


class GateSettings(_Table):
    """The limits of the gate: `[tool.regauge.gate]`.

    Attributes:
        ref: The base of `regauge gate` without REF.
        on_broken: Effect of broken cases: `net` weighs them against fixed ones, side by side on all
            cases; `block` rejects; `warn` reports. A broken critical case always rejects.
        on_undecided: Effect of undecided cases: `block` exits with 4, `warn` accepts and reports.
        on_drifted: The same for drifted cases.
        on_new: Effect of a new case that misses its bar: `block` rejects, `warn` reports.
        on_judge_change: Effect of changed judges without a changed prompt: `refuse` exits with 2
            unless `--accept-judge-change` is given, `note` reports. Changes of both are always
            refused.
        first_trials: Trials per case in the first round; `auto` is about 100 per prompt, at most 24
            per case.
        baseline_trials: Trials per case in a complete baseline; `auto` is about 200 per prompt, 12
            to 48 per case.
        anchor: The old version to compare with as well: `major` (the last new major version), a
            version such as `2.0.0`, or `none`.
        on_anchor_loss: Effect of a confirmed loss since the anchor: `warn` reports, `block`
            rejects.
        accepted_max: The most broken cases that changelogs may accept in one change.
        alpha_case: Nominal error rate of broken cases, over all cases of a run.
        alpha_suite: Error rate of calling a prompt worse as a whole.
        min_effect: A loss of a mean score, from 0 to 1, that does not count.
        new_case_trials: Trials of a new case.
        new_case_passes: How many of them must pass.
    """

    ref: Annotated[str, AfterValidator(_branch)] = "origin/main"
    on_broken: Literal["net", "block", "warn"] = "net"
    on_undecided: Literal["block", "warn"] = "block"
    on_drifted: Literal["block", "warn"] = "warn"
    on_new: Literal["block", "warn"] = "block"
    on_judge_change: Literal["refuse", "note"] = "refuse"
    first_trials: Annotated[int, Field(ge=1, le=24)] | Literal["auto"] = "auto"
    baseline_trials: Annotated[int, Field(ge=3, le=100)] | Literal["auto"] = "auto"
    anchor: Annotated[str, AfterValidator(_anchor)] = "major"
    on_anchor_loss: Literal["warn", "block"] = "warn"
    accepted_max: int | None = Field(default=None, ge=0)
    alpha_case: float = Field(default=0.05, gt=0, lt=1)
    alpha_suite: float = Field(default=0.036, gt=0, lt=1)
    min_effect: float = Field(default=0.0, ge=0, lt=1)
    new_case_trials: int = Field(default=3, ge=1, le=100)
    new_case_passes: int = Field(default=3, ge=1, le=100)

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        trials, passes = self.new_case_trials, self.new_case_passes
        if passes > trials:
            raise ValueError(
                f"new_case_passes is {passes}, but new_case_trials is {trials}\n"
                f"  fix: new_case_passes = {trials}, or more trials"
            )
        return self


class GoalSettings(_Table):
    """A goal of a refinement: `[[tool.regauge.refine.goals]]`.

    Attributes:
        pass_rate: The share of trials to pass; met when the lower bound of its 95 % interval
            reaches it.
        prompt: Only this prompt.
        judge: Only this judge, by name or kind, such as `max_words`.
        criterion: Only judges of this criterion.
        tag: Only cases with this tag.
    """

    pass_rate: Annotated[float, BeforeValidator(_share)] = Field(gt=0, lt=1)
    prompt: str | None = None
    judge: str | None = None
    criterion: Annotated[Criterion | None, BeforeValidator(_criterion)] = None
    tag: str | None = None


Association = Literal["owner", "member", "collaborator", "contributor", "anyone"]


class RefineSettings(_Table):
    """The limits of `regauge refine`: `[tool.regauge.refine]`.

    Attributes:
        model: Refiner model, as `provider:model`; by default the prompt's.
        proposers: Proposers, cheapest first.
        max_cycles: The most cycles of edit and test.
        budget_calls: Calls of all models: the prompt's, LLM judges' and the refiner's; by default
            three times the least that one fix takes.
        budget_refiner_calls: Calls of the refiner model.
        temperature: Of the refiner model's requests; by default chosen by step, and not sent if the
            model takes none.
        max_tokens: Tokens per response; by default chosen by step.
        context_tokens: Tokens of a request and its response together; by default unlimited.
        fix_flaky: Fix flaky checks too.
        budget_usd: Limit of the cost of one run, in US dollars.
        frozen: Lines of prompts that must stay as they are.
        show_expected: Show proposers the expected values of training cases.
        goals: Pass rates to reach; without goals, no reproducible failure.
        feedback_from: Authors whose comments `--feedback-pr` uses, by role in the repository.
    """

    model: _ModelName | None = None
    proposers: list[str] = Field(default=["rules", "model"], min_length=1)
    max_cycles: int = Field(default=5, ge=1)
    budget_calls: int | None = Field(default=None, ge=1)
    budget_refiner_calls: int = Field(default=40, ge=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    context_tokens: int | None = Field(default=None, ge=1)
    fix_flaky: bool = False
    budget_usd: float | None = Field(default=None, ge=0)
    frozen: list[str] = []
    show_expected: bool = False
    goals: list[GoalSettings] = []
    feedback_from: list[Association] = ["owner", "member", "collaborator"]


class MutateSettings(_Table):
    """The settings of `regauge mutate`: `[tool.regauge.mutate]`.

    Attributes:
        floor: The least mutation score; below it the command exits with 1, and with `pull_request`
            the gate does not accept.
        operators: Operators, separated by commas, or `all`; by default single deletions.
        pull_request: Whether the gate mutates changed lines and reports lost guards.
    """

    floor: float | None = Field(default=None, ge=0, le=1)
    operators: str | None = None
    pull_request: bool = False


class Settings(_Table):
    """`[tool.regauge]`: the defaults that options on the command line override.

    Attributes:
        model: Model of prompts that name none, as `provider:model`.
        models: Models that `pytest evals` compares, instead of the prompts' own; the first is the
            reference.
        judge_model: Model of judges that name none.
        trials: Trials per case.
        concurrency: Requests in flight at once; `auto` adapts to rate limits.
        record: The record mode; by default `none` where `CI` is set, else `missing`.
        budget_usd: Limit of the cost of one run, in US dollars.
        request_mb_max: Megabytes of text per request; longer ones are not sent.
        timeout_s: Seconds per attempt of a request.
        redact: Regular expressions of further secrets.
        holdout: The share of held-out cases.
        split_salt: Change it to reshuffle the automatic train/holdout split.
        targets: What evals test besides prompts, by name.
        store: URL of the run history: PostgreSQL, or `sqlite:///FILE`; by default
            `.regauge/history.sqlite3`.
        html_cases_max: Cases per HTML file; larger reports are an index with pages in a directory.
        html_mb_max: Megabytes per HTML file, about.
        gate: The limits of the gate.
        calibration: Requirements for blocking LLM judges.
        refine: The limits of `regauge refine`.
        mutate: The settings of `regauge mutate`.
    """

    model: _ModelName | None = None
    models: Annotated[list[_ModelName], AfterValidator(_distinct)] = []
    judge_model: _ModelName | None = None
    trials: int = Field(default=1, ge=1, le=TRIALS_MAX)
    concurrency: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    record: RecordMode | None = None
    budget_usd: float | None = Field(default=None, ge=0)
    request_mb_max: float = Field(default=1, gt=0)
    timeout_s: float = Field(default=60, gt=0)
    redact: list[Annotated[str, AfterValidator(_redactable)]] = []
    holdout: float = Field(default=0.3, ge=0, le=1)
    split_salt: str = ""
    store: Annotated[str, AfterValidator(_store)] | None = None
    providers: _Providers = {}
    targets: _Targets = {}
    html_cases_max: int = Field(default=2000, ge=1)
    html_mb_max: float = Field(default=20, gt=0)
    gate: GateSettings = Field(default_factory=GateSettings)
    calibration: CalibrationSettings = Field(default_factory=CalibrationSettings)
    refine: RefineSettings = Field(default_factory=RefineSettings)
    mutate: MutateSettings = Field(default_factory=MutateSettings)

    @classmethod
    def validate_leniently(cls, table: object) -> Self:
        """The settings of another version of the project, with defaults for invalid values."""
        valid = deepcopy(cast("dict[str, Any]", table)) if isinstance(table, dict) else {}
        while True:
            try:
                return cls.model_validate(valid)
            except ValidationError as error:
                for item in error.errors():
                    first, *rest = item["loc"]
                    inner = valid.get(str(first))
                    if rest and isinstance(inner, dict):
                        cast("dict[int | str, Any]", inner).pop(rest[0], None)
                    else:
                        valid.pop(str(first), None)


ANY_NAME: Final = "NAME"


class TableNames(NamedTuple):
    """The names in a table of the settings.

    Attributes:
        path: Its path below `[tool.regauge]`, with `NAME` for a name that the user chooses.
        kind: The kind of a target; empty for any other table.
        header: Its first line in the file.
        names: The names of its settings.
    """

    path: tuple[str, ...]
    kind: str
    header: str
    names: list[str]


def tables_of(
    annotation: Any = Settings, path: tuple[str, ...] = (), *, header: str = "[{}]"
) -> Iterator[TableNames]:
    """The tables of the settings, outermost first.

    >>> [table.header for table in tables_of() if table.path == ("refine", "goals")]
    ['[[tool.regauge.refine.goals]]']
    """
    if isinstance(annotation, type) and issubclass(annotation, _Table):
        fields = annotation.model_fields
        kind = str(get_args(fields["kind"].annotation)[0]) if "kind" in fields else ""
        place = header.format(".".join(("tool", "regauge", *path)))
        yield TableNames(path, kind, place, [*fields])
        for name, field in fields.items():
            yield from tables_of(field.annotation, (*path, name))
        return
    *_, inner = get_args(annotation) or (None,)
    if get_origin(annotation) is dict:
        yield from tables_of(inner, (*path, ANY_NAME))
    else:
        is_list = get_origin(annotation) in {list, tuple}
        for part in get_args(annotation):
            yield from tables_of(part, path, header="[[{}]]" if is_list else header)
