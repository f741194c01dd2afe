"""What `[tool.regauge]` in pyproject.toml may say: every setting, its range and its default."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Annotated, Any, Literal, Self, cast
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

from regauge.criteria import CRITERIA, Criterion
from regauge.errors import UsageError
from regauge.model_id import parse_model_id
from regauge.project._urls import has_credentials, is_store, shown_store, shown_url
from regauge.wording import did_you_mean

__all__ = [
    "ENDPOINT_IDENTITY",
    "SETTING_NAMES",
    "TRIALS_MAX",
    "CalibrationSettings",
    "EndpointSettings",
    "GateSettings",
    "GoalSettings",
    "PriceSettings",
    "RecordMode",
    "RefineSettings",
    "Settings",
]

# The settings of a provider that decide which model answers.
ENDPOINT_IDENTITY = (
    "api",
    "base_url",
    "api_key_env",
    "headers_env",
    "vary_seed",
    "api_key_command",
    "options",
)

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


def _usable_url(url: str | None) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(
            f"no URL of an HTTP endpoint: {shown_url(url)}\n"
            "  fix: write the scheme, host and path, such as http://127.0.0.1:8000/v1"
        )
    if has_credentials(url):
        raise ValueError(
            f"a user name or a password in the URL ({shown_url(url)}) would be committed\n"
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
    if not is_store(url):
        raise ValueError(
            f"not a store that regauge can use: {shown_store(url)!r}\n"
            "  fix: postgresql://USER@HOST/DATABASE, or sqlite:///FILE"
        )
    return url


def _criterion(word: object) -> object:
    if isinstance(word, str) and word not in CRITERIA:
        hint = did_you_mean(word, CRITERIA) or f"there are {', '.join(CRITERIA)}"
        raise ValueError(f"there is no criterion {word!r}\n  fix: {hint}")
    return word


def _share(given: object) -> object:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        fix = "write a number without quotes, such as 0.95"
    elif 0 < given < 1:
        return given
    elif 1 < given < _PERCENT:
        fix = f"a share, not a percentage: write {given / _PERCENT:g}"
    else:
        fix = "no number of trials shows that nothing ever fails: write 0.95, or 0.99"
        fix = fix if given in {1, _PERCENT} else "write a share such as 0.95"
    raise ValueError(f"must be above 0 and below 1, not {given!r}\n  fix: {fix}")


def _branch(ref: str) -> str:
    """Refuse what moves with the change: it would be compared with itself."""
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
    """What a model costs, in US dollars per million tokens."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    cached_input_per_million: float | None = Field(default=None, ge=0)


class EndpointSettings(_Table):
    """One endpoint of models: `[tool.regauge.providers.<name>]`.

    Attributes:
        api: `openai` for chat completions, which most servers speak, `responses` for OpenAI's
            Responses API, `anthropic` for Anthropic's Messages API, or the name of an entry point
            of the group `regauge.providers`.
        base_url: Where it is, up to and with `/v1`, without user name and password; None is the
            default of the API's own SDK.
        api_key_env: The environment variable that holds the key; None sends no key.
        api_key_command: A command that prints the key, as a list of arguments, for keys that
            expire. It runs before the first request and when a key is refused.
        prices: By model name, for the cost in reports and the budget.
        headers_env: Further headers, each from the environment variable named here.
        timeout_s: How long one attempt may take, in seconds; None takes the project's.
        max_attempts: How often a request is tried before its case is unmeasured.
        deadline_s: How long all attempts of a request may take together, in seconds.
        vary_seed: Send the trial number as `seed`, for servers that answer alike otherwise.
        accepts: Parameters that the endpoint takes although regauge lists them as ignored or
            rejected, such as `seed`.
        options: Passed to the provider of an entry point.
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

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.api_key_command and self.api_key_env is not None:
            raise ValueError("api_key_env and api_key_command both name a key\n  fix: keep one")
        if self.vary_seed and self.api in {"responses", "anthropic"}:
            raise ValueError(f"api = {self.api!r} takes no seed\n  fix: remove vary_seed")
        return self


class CalibrationSettings(_Table):
    """When a judge that asks a model may gate: `[tool.regauge.calibration]`.

    Attributes:
        floor: What the lower bound of its agreement with people must be above: kappa for labels
            that pass or fail and for pairs, Spearman's correlation for scores.
        min_labels: How many labelled answers it must have judged.
    """

    floor: float = Field(default=0.4, ge=-1, lt=1)
    min_labels: int = Field(default=30, ge=1)


class GateSettings(_Table):
    """What the gate holds a change to: `[tool.regauge.gate]`.

    Attributes:
        ref: What `regauge gate` compares with when the command names nothing.
        on_broken: What broken cases do: `net` weighs them against fixed ones, with both versions
            side by side on all cases; `block` rejects; `warn` only reports them. A broken critical
            case always rejects.
        on_undecided: What a case that may have got worse does: `block` exits with 4, `warn`
            accepts and says so.
        on_drifted: The same, when the model or a judge changed and not the prompt.
        on_new: What a new case does that misses its bar: `block` rejects, `warn` only says so.
        on_judge_change: What a change does that judges otherwise than main and changes no prompt:
            `refuse` exits with 2 unless somebody accepts it (`--accept-judge-change`), `note`
            only says so. A change of both is refused always.
        first_draws: Trials of every case in the first round; `auto` takes about 100 in all for
            each prompt, at most 24 of a case.
        baseline_trials: Trials of every case in a complete baseline; `auto` takes about 200 in
            all, 12 to 48 of a case.
        anchor: The old version that each version is also compared with: `major`, the last release
            with a new major version, a version such as `2.0.0`, or `none`.
        on_anchor_loss: What a confirmed loss against the anchor does in the gate: `warn` reports
            it, `block` rejects.
        accepted_max: The most broken cases that changelogs may accept in one change; no limit if
            unset.
        alpha_case: The nominal error rate of calling cases broken, over all cases of a run.
        alpha_suite: The error rate of calling a prompt worse as a whole, side by side.
        min_effect: By how much a mean score, from 0 to 1, may fall without mattering.
        new_case_trials: Trials of a case that main does not have.
        new_case_passes: How many of those must pass.
    """

    ref: Annotated[str, AfterValidator(_branch)] = "origin/main"
    on_broken: Literal["net", "block", "warn"] = "net"
    on_undecided: Literal["block", "warn"] = "block"
    on_drifted: Literal["block", "warn"] = "warn"
    on_new: Literal["block", "warn"] = "block"
    on_judge_change: Literal["refuse", "note"] = "refuse"
    first_draws: Annotated[int, Field(ge=1, le=24)] | Literal["auto"] = "auto"
    baseline_trials: Annotated[int, Field(ge=3, le=100)] | Literal["auto"] = "auto"
    anchor: Annotated[str, AfterValidator(_anchor)] = "major"
    on_anchor_loss: Literal["warn", "block"] = "warn"
    accepted_max: int | None = Field(default=None, ge=0)
    alpha_case: float = Field(default=0.05, gt=0, lt=1)
    alpha_suite: float = Field(default=0.036, gt=0, lt=1)
    min_effect: float = Field(default=0.0, ge=0, lt=1)
    new_case_trials: int = Field(default=3, ge=1, le=100)
    new_case_passes: int = Field(default=3, ge=1, le=100)


class GoalSettings(_Table):
    """What a refinement is to reach: `[[tool.regauge.refine.goals]]`.

    Attributes:
        pass_rate: The share of trials that has to pass, above 0 and below 1; it is met when the
            lower bound of its 95 % interval reaches it.
        prompt: Only of the prompt of this name; None counts for every prompt that is refined.
        judge: Only by this judge: its name, or its kind, such as `max_words`.
        criterion: Only by judges that count under this one.
        tag: Only on cases with this tag.
    """

    pass_rate: Annotated[float, BeforeValidator(_share)] = Field(gt=0, lt=1)
    prompt: str | None = None
    judge: str | None = None
    criterion: Annotated[Criterion | None, BeforeValidator(_criterion)] = None
    tag: str | None = None


Association = Literal["owner", "member", "collaborator", "contributor", "anyone"]


class RefineSettings(_Table):
    """What `regauge refine` may do: `[tool.regauge.refine]`.

    Attributes:
        model: Who criticises and proposes, as `provider:model`; None is the prompt's own model.
        proposers: Who is asked for edits, the cheapest first.
        max_cycles: Rounds of diagnosing, proposing and verifying.
        budget_calls: Calls of all models together: the prompt's, LLM judges' and the refiner's;
            None is three times the least one repair takes.
        budget_refiner_calls: Calls of the refiner model.
        temperature: Of the refiner model's requests; None is what suits the step, and nothing where
            the model takes none.
        max_tokens: Tokens of one of its replies; None is what suits the step.
        context_tokens: Tokens that a request and its reply may take together; None is no limit.
        localise_calls: Trials that may tell which sentence of a prompt carries which check.
        variance: Whether flaky checks are worked on, once nothing else fails.
        budget_usd: What one run may spend, in US dollars.
        frozen: Lines of prompts that must stay as they are.
        show_goldens: Whether proposers may see what is expected of train cases.
        goals: What is to be reached; without any, that nothing fails reproducibly.
        feedback_from: Whose comments `--feedback-pr` takes in, by what they are to the repository;
            `anyone` lets all in.
    """

    model: _ModelName | None = None
    proposers: list[str] = ["rules", "model"]
    max_cycles: int = Field(default=5, ge=1)
    budget_calls: int | None = Field(default=None, ge=1)
    budget_refiner_calls: int = Field(default=40, ge=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    context_tokens: int | None = Field(default=None, ge=1)
    localise_calls: int = Field(default=0, ge=0)
    variance: bool = False
    budget_usd: float | None = Field(default=None, ge=0)
    frozen: list[str] = []
    show_goldens: bool = False
    goals: list[GoalSettings] = []
    feedback_from: list[Association] = ["owner", "member", "collaborator"]


class Settings(_Table):
    """`[tool.regauge]`: the defaults that options on the command line override.

    Attributes:
        model: The model of prompts that name none, as `provider:model`.
        judge_model: The model of judges that name none, as `provider:model`.
        trials: How often every case is drawn.
        concurrency: Requests in flight at once; `auto` grows until the provider objects.
        record: The record mode; None means `none` where `CI` is set and `missing` elsewhere.
        budget_usd: What one run may spend, in US dollars.
        timeout_s: How long one attempt of one request may take, in seconds.
        redact: Regular expressions of further secrets that never reach a file.
        holdout: The share of cases that belongs to the holdout split, from 0 to 1.
        split_salt: Another text deals cases that name no split anew into train and holdout.
        store: Where the history of runs is kept: the URL of a PostgreSQL database, or
            `sqlite:///FILE`; None means `.regauge/history.sqlite3`.
        gate: What the gate holds a change to.
        calibration: When a judge that asks a model may gate.
        refine: What `regauge refine` may do.
    """

    model: _ModelName | None = None
    judge_model: _ModelName | None = None
    trials: int = Field(default=1, ge=1, le=TRIALS_MAX)
    concurrency: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    record: RecordMode | None = None
    budget_usd: float | None = Field(default=None, ge=0)
    timeout_s: float = Field(default=60, gt=0)
    redact: list[Annotated[str, AfterValidator(_compilable)]] = []
    holdout: float = Field(default=0.3, ge=0, le=1)
    split_salt: str = ""
    store: Annotated[str, AfterValidator(_store)] | None = None
    providers: dict[str, EndpointSettings] = {}
    gate: GateSettings = Field(default_factory=GateSettings)
    calibration: CalibrationSettings = Field(default_factory=CalibrationSettings)
    refine: RefineSettings = Field(default_factory=RefineSettings)

    @classmethod
    def of_other_version(cls, table: object) -> Self:
        """The settings of another version of the project; what is invalid has its default."""
        kept = deepcopy(cast("dict[str, Any]", table)) if isinstance(table, dict) else {}
        while True:
            try:
                return cls.model_validate(kept)
            except ValidationError as error:
                for item in error.errors():
                    first, *rest = item["loc"]
                    inner = kept.get(str(first))
                    if rest and isinstance(inner, dict):
                        cast("dict[int | str, Any]", inner).pop(rest[0], None)
                    else:
                        kept.pop(str(first), None)


SETTING_NAMES = sorted(
    {
        name
        for table in (
            Settings,
            CalibrationSettings,
            EndpointSettings,
            GateSettings,
            GoalSettings,
            PriceSettings,
            RefineSettings,
        )
        for name in table.model_fields
    }
)
