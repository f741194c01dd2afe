"""`rubric(...)` and `pairwise(...)`: judges that call a model with the prompt file of a rubric."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, cast

from regauge.digests import digest_of
from regauge.errors import JudgeError, UsageError
from regauge.judges._types import DeclaredJudge, Verdict, format_number, shorten_name
from regauge.judges.model.requests import (
    PROTOCOL,
    OneModelJudge,
    build_request,
    check_parameters,
    check_reducer,
    gather_all,
    judged_text,
    load_rubric,
    model_of,
    reduce_scores,
    request_response,
    response_form,
    rubric_kind_error,
    text_of_value,
    texts_for,
    texts_of,
    usual_reference,
)
from regauge.judges.model.response import (
    Response,
    ResponseError,
    json_object,
    read_response,
    score_of,
    share_of,
    text_of,
    value_of,
)
from regauge.judges.output import Expected, JudgedOutput
from regauge.wording import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls, JudgeContext
    from regauge.judges.model.requests import Reducer
    from regauge.prompts import Prompt, RubricSpec
    from regauge.providers import Completion, CompletionRequest, TokenLogprob


_FORM = """\
Reply with one JSON object and nothing else. Its only key is "verdicts": a list with one object \
for each of the {count} criteria, in their order. The keys of each, in this order:
- "number": the number of the criterion;
- "reasoning": the evidence that decides, in a few sentences;
- "score": {kind} from {low} (worst) to {high} (best)."""


def number_criteria(criteria: Sequence[str]) -> str:
    """The numbered list of criteria for a prompt.

    >>> print(number_criteria(["is polite", "names a time"]))
    1. is polite
    2. names a time
    """
    return "\n".join(f"{place}. {text}" for place, text in enumerate(criteria, start=1))


def several_form(spec: RubricSpec, count: int) -> str:
    """The instruction on the response's format."""
    kind = "a whole number" if spec.steps else "a number"
    return _FORM.format(
        count=count, kind=kind, low=format_number(spec.low), high=format_number(spec.high)
    )


def several_format(spec: RubricSpec, count: int) -> dict[str, JSON]:
    """The response format for the OpenAI API."""
    score: dict[str, JSON] = (
        {"type": "integer", "enum": list(spec.steps)} if spec.steps else {"type": "number"}
    )
    verdict = _object_schema(number={"type": "integer"}, reasoning={"type": "string"}, score=score)
    verdicts = {"type": "array", "items": verdict, "minItems": count, "maxItems": count}
    schema = _object_schema(verdicts=verdicts)
    return {
        "type": "json_schema",
        "json_schema": {"name": "rubric_criteria", "strict": True, "schema": schema},
    }


def _object_schema(**properties: JSON) -> JSON:
    """The schema of an object with exactly these properties, all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def read_several(completion: Completion, spec: RubricSpec, criteria: Sequence[str]) -> Response:
    """Read the scores in a response as one verdict: the lowest score, with all parts.

    Raises:
        ResponseError: A criterion has no score, two scores, or an unreadable one.
    """
    verdicts = json_object(text_of(completion)).get("verdicts")
    if not isinstance(verdicts, list) or len(verdicts) != len(criteria):
        raise ResponseError(
            f"the response does not have {len(criteria)} verdicts: {quote(str(verdicts))}"
        )
    parts = [
        _part(document, spec, place, criteria[place - 1])
        for place, document in enumerate(verdicts, start=1)
    ]
    worst = min(parts, key=lambda part: part.score)
    return Response(
        value=worst.value,
        score=worst.score,
        reasoning=f"{worst.criterion}: {worst.reasoning}",
        parts=tuple(parts),
    )


def _part(document: JSON, spec: RubricSpec, place: int, criterion: str) -> Response:
    if not isinstance(document, dict) or document.get("number") != place:
        raise ResponseError(
            f"verdict {place} is not about criterion {place}: {quote(str(document))}"
        )
    reasoning = document.get("reasoning")
    if not isinstance(reasoning, str) or "score" not in document:
        raise ResponseError(f"verdict {place} has no reasoning or no score: {quote(str(document))}")
    value = value_of(document["score"], spec)
    return Response(
        value=value, score=share_of(value, spec), reasoning=reasoning, criterion=criterion
    )


# With less probability on verdicts, the token is not the verdict's.
_MASS_MIN = 0.5


def expected_score(response: Response, completion: Completion, spec: RubricSpec) -> Response:
    """The response with its mean score over the token's alternatives, weighted by probability.

    Unchanged without log-probabilities, or if one token does not distinguish verdicts.
    """
    token = _token_at(completion, response.offset)
    if token is None or not token.top:
        return response
    weights: dict[float, float] = {}
    for text, logprob in token.top:
        score = _token_score(text, spec)
        if score is not None and math.isfinite(logprob):
            weights[score] = weights.get(score, 0.0) + math.exp(logprob)
    mass = sum(weights.values())
    if mass < _MASS_MIN:
        return response
    mean = sum(score * weight for score, weight in weights.items()) / mass
    return replace(response, score=min(1.0, max(0.0, mean)))


def _token_at(completion: Completion, offset: int | None) -> TokenLogprob | None:
    """The token with the character at an offset of the text; None if unknown."""
    if offset is None or not completion.logprobs or completion.text is None:
        return None
    if "".join(token.token for token in completion.logprobs) != completion.text:
        return None  # a character's bytes may be split between tokens: offsets are unreliable
    end = 0
    for token in completion.logprobs:
        end += len(token.token)
        if offset < end:
            return token
    return None


def _token_score(token: str, spec: RubricSpec) -> float | None:
    """The score of the verdict that a token is or begins; None if none or several."""
    word = token.strip().strip('"').strip()
    if not word:
        return None
    if spec.kind == "graded":
        return share_of(int(word), spec) if word in map(str, spec.steps) else None
    labels = [label for label in spec.labels if label.casefold().startswith(word.casefold())]
    return score_of(labels[0], spec) if len(labels) == 1 else None


_CRITERION: Final = "criterion"
# More criteria in one call get careless verdicts; split the rubric.
_CRITERIA_MAX: Final = 20


def rubric(
    name: str | None = None,
    *,
    criterion: str | Sequence[str] | None = None,
    pass_at: float | None = None,
    votes: int = 1,
    reducer: Reducer = "median",
    model: str | None = None,
    field: str = "",
    reference: Expected | None = None,
    version: str | None = None,
) -> DeclaredJudge[RubricJudge]:
    """Judge by a rubric, `prompts/judges/<name>.prompt.yml`, or by a stated criterion.

    Args:
        name: The name of the rubric: one of the project, or one included in regauge.
        criterion: Criterion to judge by instead of a rubric file, such as `"is polite"`, or a list,
            judged in one call; all must pass. All criteria share the rubric `criterion` and its
            calibration.
        pass_at: The score from 0 to 1 that passes.
        votes: Calls per output.
        reducer: How votes make one score: `median`, `mean`, `majority`, `min`, `all`.
        model: The judge model, as `provider:model`; by default the project's.
        field: Judge this part of a JSON output.
        reference: The value of `{{reference}}`; by default `expected.reference`, or `expected` if a
            text.
        version: An older version of the rubric.

    Raises:
        UsageError: A parameter is invalid.

    >>> rubric("incident-faithfulness", pass_at=0.7).name
    'incident-faithfulness'
    >>> rubric(criterion="is polite", pass_at=0.7).name
    'rubric(is polite)'
    """
    criteria = _parse_criterion(criterion)
    has_name = isinstance(cast("object", name), str) and bool(name)
    if has_name is bool(criteria) or not (has_name or name is None):
        raise UsageError(
            "rubric takes the name of a rubric, or a criterion\n"
            '  fix: rubric("name"), or rubric(criterion="is polite")'
        )
    if name == _CRITERION and not criteria:
        raise UsageError(
            f'rubric("{_CRITERION}") does not state the criterion\n'
            '  fix: rubric(criterion="is polite")'
        )
    label = f"rubric({shorten_name('; '.join(criteria))})" if name is None else name
    check_parameters(
        label, at_least=pass_at, field=field, model=model, declaration=label, parameter="pass_at"
    )
    if isinstance(cast("object", votes), bool) or not isinstance(cast("object", votes), int):
        raise UsageError(f"{label}: votes is a whole number, not {votes!r}")
    if votes < 1:
        raise UsageError(f"{label}: votes must be at least 1, not {votes!r}")
    check_reducer(reducer, judge=label)

    def make(judge_name: str, context: JudgeContext) -> RubricJudge:
        prompt, spec = load_rubric(name or _CRITERION, context, version=version, judge=judge_name)
        _check_kind(prompt, spec, criteria)
        return RubricJudge(
            name=judge_name,
            prompt=prompt,
            spec=spec,
            judge_model=model_of(model, prompt, context, judge=judge_name),
            at_least=spec.pass_at if pass_at is None else pass_at,
            votes=votes,
            reducer=reducer,
            field=field,
            reference=reference,
            criteria=criteria,
            several=len(criteria) > 1,
        )

    short = label if name is None else name.rpartition("/")[2]
    return DeclaredJudge(name=short, criterion="relevance", make=make)


def _check_kind(prompt: Prompt, spec: RubricSpec, criteria: Sequence[str]) -> None:
    """Check that a rubric judges single outputs and supports the stated criteria.

    Raises:
        PromptError: It does not.
    """
    if spec.kind == "pair":
        raise rubric_kind_error(
            prompt,
            "this rubric compares two outputs",
            fix=f'judge by it with pairwise("{prompt.name}")',
        )
    if criteria and _CRITERION not in prompt.variables:
        raise rubric_kind_error(
            prompt,
            "a criterion was stated, and no message of this rubric uses {{criterion}}",
            fix="put {{criterion}} into a message",
        )
    if len(criteria) > 1 and spec.kind != "graded":
        raise rubric_kind_error(
            prompt,
            f"several criteria in one call need a graded rubric, and this one is {spec.kind}",
            fix="write `kind: graded`, or state the criteria one by one",
        )


def _parse_criterion(criterion: object) -> tuple[str, ...]:
    """The criteria of a declaration.

    Raises:
        UsageError: A criterion is not text, empty, or stated twice.
    """
    if criterion is None:
        return ()
    criteria = [criterion] if isinstance(criterion, str) else criterion
    texts = cast("list[object]", criteria) if isinstance(criteria, list | tuple) else [criteria]
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise UsageError(
                f"rubric: a criterion is a sentence, not {text!r}\n"
                '  fix: rubric(criterion="is polite")'
            )
    result = tuple(" ".join(str(text).split()) for text in texts)
    if not 1 <= len(result) <= _CRITERIA_MAX:
        raise UsageError(f"rubric: one call takes 1 to {_CRITERIA_MAX} criteria, not {len(result)}")
    if twice := next((text for text in result if result.count(text) > 1), None):
        raise UsageError(f"rubric: the criterion {twice!r} is stated twice")
    return result


@dataclass(frozen=True, kw_only=True)
class _PromptJudge(OneModelJudge):
    """A judge with the prompt of a rubric, bound to a project."""

    prompt: Prompt
    spec: RubricSpec

    def _request(self, texts: Mapping[str, str], *, trial: int, form: str) -> CompletionRequest:
        return build_request(self.prompt, texts, model=self.judge_model, trial=trial, form=form)

    def _read(self, completion: Completion, texts: Mapping[str, str]) -> Response:
        return read_response(text_of(completion), self.spec, judged_texts=texts.values())


@dataclass(frozen=True, kw_only=True)
class RubricJudge(_PromptJudge):
    """A judge with a rubric, bound to a project.

    Attributes:
        prompt: The rubric's file.
        spec: The verdict that it requires.
        criteria: The criteria that the eval or the case states. If empty, `{{criterion}}` is an
            input of the case.
        several: Whether one call judges a list of criteria.
    """

    votes: int = 1
    reducer: Reducer = "median"
    reference: Expected | None = None
    criteria: tuple[str, ...] = ()
    several: bool = False

    @property
    def calibrated(self) -> tuple[RubricJudge, ...]:
        """The judge whose calibration counts: for stated criteria, the rubric itself.

        Its name has all differences from one call about one criterion at the rubric's `pass_at`.
        Several criteria, other votes and other thresholds have their own records.
        """
        if not self.criteria:
            return (self,)
        name = "criteria" if self.several else _CRITERION
        default = lowest_pass(self.spec, self.spec.pass_at)
        is_default = self.votes == 1 and lowest_pass(self.spec, self.at_least) == default
        at_least = self.spec.pass_at if is_default else self.at_least
        differences = [f"votes={self.votes}"] if self.votes > 1 else []
        differences += [f"pass_at={at_least:g}"] if at_least != self.spec.pass_at else []
        if differences:
            name = f"{name}({', '.join(differences)})"
        return (replace(self, name=name, criteria=(), field="", at_least=at_least),)

    @property
    def measurement_digest(self) -> str:
        """The digest of everything that can change a score, without the threshold."""
        return digest_of(
            {
                "kind": "rubric",
                "protocol": PROTOCOL,
                "messages": [m.to_json() for m in self.prompt.messages],
                "parameters": self.prompt.parameters,
                "rubric": {**self.spec.to_json(), "pass_at": None},
                "reply": self.prompt.response_format,
                "model": str(self.judge_model),
                "votes": self.votes,
                "reducer": self.reducer,
                "field": self.field,
                "reference": str(self.reference) if self.reference else None,
                **({"criteria": list(self.criteria)} if self.criteria else {}),
                **({"several": True} if self.several else {}),
            }
        )

    def _identity(self) -> dict[str, JSON]:
        return {"measurement": self.measurement_digest, "at_least": self.at_least}

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Call the model for every vote, and compare the combined score with the threshold.

        Raises:
            JudgeError: A response cannot be read, or the case has no value for an input.
            UnmeasuredError: The model could not be called.
        """
        texts = self._judged_parts(completion, case)
        if isinstance(texts, Verdict):
            return texts
        return self._verdict(await self.responses(texts, case, calls))

    def _judged_parts(self, completion: Completion, case: GoldenCase) -> dict[str, str] | Verdict:
        """The parts of a completion that the rubric uses, or an abstention without text."""
        texts = texts_of(completion, self.prompt, case)
        if "answer" not in self.prompt.variables and texts:
            return texts
        text = judged_text(completion, case, self.field)
        return text if isinstance(text, Verdict) else {**texts, "answer": text}

    async def verdicts_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> dict[str, Verdict]:
        """The verdict on each of several stated criteria, all from the same call.

        Raises:
            JudgeError: As `judge_with`.
            UnmeasuredError: As `judge_with`.
        """
        texts = self._judged_parts(completion, case)
        if isinstance(texts, Verdict):
            return dict.fromkeys(self.criteria, texts)
        responses = await self.responses(texts, case, calls)
        return {
            criterion: self._verdict([response.parts[place] for response in responses])
            for place, criterion in enumerate(self.criteria)
        }

    async def responses(
        self, own_texts: Mapping[str, str], case: GoldenCase, calls: JudgeCalls
    ) -> list[Response]:
        """The model's responses to parts of a completion, one for each vote.

        Raises:
            JudgeError: As `judge_with`.
            UnmeasuredError: As `judge_with`.
        """
        own_texts = dict(own_texts)
        criteria = self.criteria or _criteria_of(case)
        if self.several and len(criteria) < 2:  # noqa: PLR2004 - fewer are not a list
            raise JudgeError(
                f"{self.name}: case {case.id!r} states no list of criteria\n"
                '  fix: give it the input `criterion`, such as ["is polite", "names a time"]',
                judge=self.name,
            )
        if self.several or len(criteria) == 1:
            own_texts[_CRITERION] = number_criteria(criteria) if self.several else criteria[0]
            case = replace(
                case, inputs={key: case.inputs[key] for key in case.inputs if key != _CRITERION}
            )
        texts = texts_for(self.prompt, case, own_texts, judge=self.name, reference=self.reference)
        form, count = response_form(self.spec), len(criteria)
        if self.several:
            form = several_form(self.spec, count)
        request = self._request(texts, trial=calls.trial * self.votes, form=form)
        if self.several:
            request = replace(request, response_format=several_format(self.spec, count))

        def read(completion: Completion) -> Response:
            if self.several:
                return read_several(completion, self.spec, criteria)
            return expected_score(self._read(completion, texts), completion, self.spec)

        return await gather_all(
            request_response(
                request.for_trial(request.trial + vote), read, calls=calls, judge=self.name
            )
            for vote in range(self.votes)
        )

    def _verdict(self, responses: list[Response]) -> Verdict:
        scores = [response.score for response in responses]
        ballot = reduce_scores(scores, self.reducer, at_least=self.at_least)
        # The reason is that of the vote nearest to the combined score.
        nearest = min(responses, key=lambda response: abs(response.score - ballot.score))
        details: dict[str, JSON] = {
            "rubric": str(self.prompt.id),
            "votes": [_vote(response) for response in responses],
            "agreement": ballot.agreement,
        }
        values = ", ".join(_format_value(response.value) for response in responses)
        reason = " ".join(nearest.reasoning.split())
        text = f"{self.spec.verdict_key} {values}: {reason}" if reason else values
        return self.grade(
            ballot.score, text, code="below_threshold", details=details, passes=ballot.passes
        )


def _vote(response: Response) -> dict[str, JSON]:
    vote: dict[str, JSON] = {
        "value": response.value,
        "score": response.score,
        "reasoning": response.reasoning,
    }
    if response.parts:
        vote["criteria"] = [
            {"criterion": part.criterion, "score": part.score, "reasoning": part.reasoning}
            for part in response.parts
        ]
    return vote


def _criteria_of(case: GoldenCase) -> tuple[str, ...]:
    """The criteria in the input `criterion` of a case."""
    value = case.inputs.get(_CRITERION)
    if isinstance(value, str):
        return (value,)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def merge_criteria(judges: Sequence[RubricJudge]) -> RubricJudge | None:
    """Merge judges into one that judges all criteria in one call; None if impossible.

    Args:
        judges: Judges that differ only in their criteria.
    """
    criteria = tuple(dict.fromkeys(text for judge in judges for text in judge.criteria))
    first = judges[0]
    if first.spec.kind != "graded" or not 1 < len(criteria) <= _CRITERIA_MAX:
        return None
    return replace(first, name="criteria", criteria=criteria, several=True)


def lowest_pass(spec: RubricSpec, pass_at: float) -> float:
    """The lowest passing score of a rubric's steps, or `pass_at` for a continuous scale.

    Thresholds with the same lowest score are equivalent.
    """
    scores = [share_of(step, spec) for step in spec.steps]
    return min((score for score in scores if score >= pass_at), default=pass_at)


def _format_value(value: float | str) -> str:
    return value if isinstance(value, str) else format_number(value)


Winner = Literal["a", "b", "tie"]

_SHOWN: Final[dict[str, Winner]] = {"first": "a", "second": "b", "tie": "tie"}
_EXCHANGED: Final[dict[str, Winner]] = {"first": "b", "second": "a", "tie": "tie"}
_SCORES: Final[dict[Winner, float]] = {"a": 1.0, "b": 0.0, "tie": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedVerdict:
    """The result of comparing two outputs in both orders.

    Attributes:
        winners: The winner with `a` shown first, and with `b` shown first.
        reasonings: The model's reasoning, in the same order.
    """

    winners: tuple[Winner, Winner]
    reasonings: tuple[str, str]

    @property
    def flips(self) -> bool:
        """Return whether the winner changed with the order."""
        return self.winners[0] != self.winners[1]

    @property
    def winner(self) -> Winner | None:
        """The winner or a stated tie; None if it depends on the order."""
        return None if self.flips else self.winners[0]

    @property
    def reason(self) -> str:
        """The reason, on one line."""
        if self.flips:
            first_winner, other = self.winners
            return (
                f"the order decides: {first_winner} wins when a is shown first, {other} when b is"
            )
        return " ".join(self.reasonings[0].split())


def pairwise(
    rubric: str,
    *,
    against: Expected | None = None,
    at_least: float | None = None,
    model: str | None = None,
    field: str = "",
    version: str | None = None,
) -> DeclaredJudge[PairJudge]:
    """Compare the output with another one in both orders; it must be at least as good.

    If the winner changes with the order, the judge abstains.

    Args:
        rubric: A rubric of kind `pair`.
        against: The other output; by default `expected.reference`, or `expected` if a text.
        at_least: 1 requires a win, 0.5 accepts a stated tie; by default the rubric's `pass_at`.
        model: The judge model, as `provider:model`; by default the project's.
        field: Judge this part of a JSON output.
        version: An older version of the rubric.

    Raises:
        UsageError: A parameter is invalid.

    >>> from regauge.judges import expected, pairwise
    >>> pairwise("better-summary", against=expected("summary")).name
    'better-summary'
    """
    check_parameters(
        rubric, at_least=at_least, field=field, model=model, declaration=f"pairwise({rubric!r})"
    )

    def make(judge_name: str, context: JudgeContext) -> PairJudge:
        prompt, spec = load_rubric(rubric, context, version=version, judge=judge_name)
        if spec.kind != "pair":
            raise rubric_kind_error(
                prompt,
                f"pairwise needs a rubric of the kind pair, and this one is {spec.kind}",
                fix=f'judge by it with rubric("{prompt.name}")',
            )
        return PairJudge(
            name=judge_name,
            prompt=prompt,
            spec=spec,
            judge_model=model_of(model, prompt, context, judge=judge_name),
            against=against,
            at_least=spec.pass_at if at_least is None else at_least,
            field=field,
        )

    return DeclaredJudge(name=rubric.rpartition("/")[2], criterion="relevance", make=make)


@dataclass(frozen=True, kw_only=True)
class PairJudge(_PromptJudge):
    """A judge that compares outputs, bound to a project.

    Attributes:
        prompt: The rubric's file.
        spec: The verdict that it requires.
        against: The other output; None for the case's reference.
    """

    against: Expected | None

    def _identity(self) -> dict[str, JSON]:
        return {
            "kind": "pairwise",
            "version": 1,
            "protocol": PROTOCOL,
            "prompt": self.prompt.digest,
            "model": str(self.judge_model),
            "against": str(self.against) if self.against else None,
            "field": self.field,
            "at_least": self.at_least,
        }

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Compare the output with the other one.

        Raises:
            JudgeError: A response cannot be read, or the case has no other output.
            UnmeasuredError: The model could not be called.
        """
        text = judged_text(completion, case, self.field)
        if isinstance(text, Verdict):
            return text
        reference = self.against or usual_reference(case)
        other = JudgedOutput(None, case=case).resolve(reference, judge=self.name)
        return self._verdict(await self.compare(text, text_of_value(other), case, calls))

    async def compare(self, a: str, b: str, case: GoldenCase, calls: JudgeCalls) -> PairedVerdict:
        """Compare two outputs of one case, in both orders.

        Raises:
            JudgeError: A response cannot be read, or the case has no value for an input.
            UnmeasuredError: The model could not be called.
        """
        if a.strip() == b.strip():
            reason = "both outputs are the same text"
            return PairedVerdict(winners=("tie", "tie"), reasonings=(reason, reason))
        responses, exchanged = await gather_all(
            (self._ask_pair(a, b, case, calls), self._ask_pair(b, a, case, calls))
        )
        return PairedVerdict(
            winners=(_SHOWN[str(responses.value)], _EXCHANGED[str(exchanged.value)]),
            reasonings=(responses.reasoning, exchanged.reasoning),
        )

    async def _ask_pair(
        self, first: str, second: str, case: GoldenCase, calls: JudgeCalls
    ) -> Response:
        pair = {"first": first, "second": second}
        texts = texts_for(self.prompt, case, pair, judge=self.name)
        return await request_response(
            self._request(texts, trial=calls.trial, form=response_form(self.spec)),
            lambda completion: self._read(completion, texts),
            calls=calls,
            judge=self.name,
        )

    def _verdict(self, comparison: PairedVerdict) -> Verdict:
        """The verdict on the output, which is `a`."""
        orders: list[JSON] = [
            {"shown_first": response, "winner": winner, "reasoning": reasoning}
            for response, winner, reasoning in zip(
                ("a", "b"), comparison.winners, comparison.reasonings, strict=True
            )
        ]
        facts: dict[str, JSON] = {
            "rubric": str(self.prompt.id),
            "winner": comparison.winner,
            "flip": comparison.flips,
            "orders": orders,
        }
        if comparison.winner is None:
            return Verdict(
                outcome="abstain",
                score=0.0,
                reason=comparison.reason,
                details={"code": "order_flip", **facts},
            )
        meanings = {"a": "the output is better", "b": "the other output is better", "tie": "a tie"}
        reason = f"{meanings[comparison.winner]}, in both orders: {comparison.reason}"
        return self.grade(_SCORES[comparison.winner], reason, code="not_better", details=facts)
