"""Models that criticise and propose as providers serve them: each behaviour over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from regauge.project import EndpointSettings
from regauge.providers import parse_model_id
from regauge.providers.remote import RemoteProvider
from regauge.refine.proposers.model import ModelForm, ModelProposer, ProposerCalls, request_edits
from tests import processes
from tests.served import JsonHandler, Served
from tests.unit.refine.proposers.problems import RELEASED, told, without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from regauge.refine.loop._state import ProposalResult

PROMPT = """\
name: report
version: 1.0.0
model: sim:clerk-1
inputs:
  - name: report
messages:
  - role: system
    content: |
      You summarise incident reports for the on-call engineer.

      Answer with one JSON object only: no prose around it. Its keys:
      - summary: what happened, in one sentence.
  - role: user
    content: |
      <report>
      {{report}}
      </report>
"""
EVAL = """\
from regauge import golden
from regauge.judges import has_keys, json_parses

@golden("report", judges=[json_parses(), has_keys("summary", "cause")])
def test_report(result):
    result.check()
"""
PLACES = ["billing", "search", "login", "checkout", "mail", "report", "media", "queue"]
ADDED = "- cause: the reason for the incident, in a few words."
EDIT = {
    "rationale": "the key is not asked for",
    "ops": [
        {
            "op": "insert_after",
            "line": "- summary: what happened, in one sentence.",
            "find": "",
            "text": ADDED,
        }
    ],
}
REASON = "- reason: one sentence of at most 30 words."
CRITIQUE = {"hypothesis": "the key is missing", "kind": "missing", "quotes": []}
Reply = tuple[int, dict[str, Any]]


def refusal(message: str, *, param: str | None = None, status: int = 400) -> Reply:
    """A refusal as OpenAI words it."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    return status, {"error": error}


def says(text: str | None, *, finish: str = "stop", tokens: int = 50) -> Reply:
    """A chat completion."""
    return 200, {
        "id": "x",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 500, "completion_tokens": tokens, "total_tokens": 550},
    }


def good(body: dict[str, Any]) -> Reply:
    """The reply of a model that finds the right edit."""
    return says(json.dumps(EDIT if "Why it fails" in asked(body) else CRITIQUE))


def asked(body: dict[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


class Model:
    """A model that behaves in one way; keeps every request.

    Attributes:
        behave: The reply to a request.
    """

    def __init__(self) -> None:
        self.behave: Callable[[dict[str, Any]], Reply] = good
        self.bodies: list[dict[str, Any]] = []

    def answer(self, handler: JsonHandler) -> None:
        body = handler.given()
        self.bodies.append(body)
        status, said = self.behave(body)
        handler.say(said, status=status)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def project(tmp_path: Path, model: Model) -> Iterator[Path]:
    """A prompt that misses a key, and an endpoint that proposes."""

    class Handler(JsonHandler):
        def answer(self) -> None:
            model.answer(self)

    with Served(Handler) as served:
        for path, text in {
            "prompts/report.prompt.yml": PROMPT,
            "evals/test_report.py": EVAL,
            "fixtures/golden/report.jsonl": "\n".join(map(json.dumps, cases())) + "\n",
            "pyproject.toml": settings(served.address),
        }.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        yield tmp_path


def settings(address: str) -> str:
    return (
        "[tool.regauge]\n[tool.regauge.providers.local]\nmax_attempts = 1\ndeadline_s = 5\n"
        f'base_url = "{address}/v1"\nprices = {{ m = {{ input_per_million = 1.0, output_per_million = 1.0 }} }}\n'
    )


def cases() -> Iterator[dict[str, Any]]:
    for number, place in enumerate(PLACES + PLACES[:4]):
        yield {
            "id": f"{place}-{number}",
            "inputs": {
                "report": f"At {10 + number}:05 the {place} service of region {number} stopped to"
                f" serve requests. The {place} team found that a deployment of the cache had"
                " filled the disk of the primary node, so writes failed and readers timed out for"
                f" {number + 20} minutes. A restart with a larger volume ended the incident."
            },
            "split": "holdout" if number % 3 == 2 else "train",
        }


def refine(project: Path, *more: str, code: int = 0, proposers: str = "model") -> str:
    words = ("refine", "report", "--proposers", proposers, "--refiner-model", "local:m", *more)
    done = processes.run("regauge", *words, cwd=project, env={**os.environ}, timeout_s=240)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    return said


def result(project: Path) -> dict[str, Any]:
    # Two runs may begin in the same second.
    runs = (project / ".regauge/refine").glob("*/result.json")
    last: dict[str, Any] = json.loads(max(runs, key=lambda run: run.stat().st_mtime_ns).read_text())
    return last


def no_temperature(body: dict[str, Any]) -> Reply:
    if "temperature" in body:
        return refusal(
            "Unsupported value: 'temperature' does not support 0.2 with this model.",
            param="temperature",
        )
    return good(body)


def no_schema(body: dict[str, Any]) -> Reply:
    if "response_format" in body:
        return refusal("json_schema is not supported by this model")
    return good(body)


def nothing_but_messages(body: dict[str, Any]) -> Reply:
    if {*body} - {"model", "messages"}:
        return refusal("Extra inputs are not permitted", status=422)
    return good(body)


def no_system(body: dict[str, Any]) -> Reply:
    if any(message["role"] == "system" for message in body["messages"]):
        return refusal("System role not supported")
    return good(body)


def routed(body: dict[str, Any]) -> Reply:
    if "response_format" in body:
        return refusal("No endpoints found that support the requested parameters", status=404)
    return good(body)


def reasons_long(body: dict[str, Any]) -> Reply:
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 10**6
    if limit < 6_000:
        return says(None, finish="length", tokens=limit)
    return good(body)


def thinks(body: dict[str, Any]) -> Reply:
    text = good(body)[1]["choices"][0]["message"]["content"]
    return says(f'<think>\nMaybe {{"ops": []}}? No.\n</think>\n\n{text}')


def thinks_without_tag(body: dict[str, Any]) -> Reply:
    text = good(body)[1]["choices"][0]["message"]["content"]
    return says(f"First I look at the prompt.\n</think>\n```json\n{text}\n```")


def chats(body: dict[str, Any]) -> Reply:
    text = good(body)[1]["choices"][0]["message"]["content"]
    return says(f"Here is my proposal:\n\n```json\n{text}\n```\n\nLet me know if {{this}} helps!")


def short_context(body: dict[str, Any]) -> Reply:
    if len(asked(body)) > 5_600:
        return refusal(
            "This model's maximum context length is 1400 tokens. However, you requested 2100"
            " tokens. Please reduce the length of the messages.",
            param="messages",
        )
    return good(body)


def prose_first(body: dict[str, Any]) -> Reply:
    return (
        good(body)
        if "Your reply to this could not be read" in asked(body)
        else says("I would ask for the cause.")
    )


BEHAVIOURS = [
    good,
    no_temperature,
    no_schema,
    nothing_but_messages,
    no_system,
    routed,
    reasons_long,
    thinks,
    thinks_without_tag,
    chats,
    short_context,
    prose_first,
]


@pytest.fixture
def exchange(model: Model) -> Iterator[Callable[..., ProposalResult]]:
    """Four candidates, over HTTP and the real SDK."""

    class Handler(JsonHandler):
        def answer(self) -> None:
            model.answer(self)

    with Served(Handler) as served:

        async def talk(form: ModelForm) -> ProposalResult:
            endpoint = EndpointSettings(
                base_url=f"{served.address}/v1", max_attempts=1, deadline_s=5
            )
            provider = RemoteProvider(endpoint, name="local", environ={})
            proposer = ModelProposer(model=parse_model_id("local:m"), form=form)
            _, _, problem = told(without(RELEASED, REASON))
            try:
                return await request_edits(proposer, problem, ProposerCalls(provider.complete, 40))
            finally:
                await provider.aclose()

        yield lambda **settings: asyncio.run(talk(ModelForm(**settings)))


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_model_is_called_in_the_form_it_takes(
    exchange: Callable[..., ProposalResult],
    model: Model,
    behaviour: Callable[[dict[str, Any]], Reply],
) -> None:
    model.behave = behaviour
    found = exchange()
    assert [edit.added_text for edit in found.edits] == [ADDED] * 4, found.refused
    assert found.unread == 0
    # What a refusal taught holds for the run: no request is refused for the same reason twice.
    refused = sum(behaviour(body)[0] != 200 for body in model.bodies)
    assert refused <= 4


def test_settings_reach_the_model(exchange: Callable[..., ProposalResult], model: Model) -> None:
    exchange(temperature=0.4, max_tokens=700, context_tokens=1900)
    assert {body["temperature"] for body in model.bodies} == {0.4}
    assert {body["max_tokens"] for body in model.bodies} == {700}
    assert max(len(asked(body)) for body in model.bodies) <= 4 * 1200


def refuses_all(body: dict[str, Any]) -> Reply:
    del body
    return refusal("This model is only available for embeddings.")


def always_reasons(body: dict[str, Any]) -> Reply:
    return says(None, finish="length", tokens=body.get("max_tokens", 20_000))


def tiny_context(body: dict[str, Any]) -> Reply:
    if len(asked(body)) > 1_000:
        return refusal("prompt is too long: 900 tokens > 256 maximum")
    return good(body)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (lambda _: says("I'd ask for the cause."), "holds not one JSON object with the key `ops`"),
        (lambda _: says('{"rationale": "x", "ops": ['), "its JSON is cut off or broken"),
        (lambda _: says("<think>Hm, the prompt"), "the reply ends inside its thoughts"),
        (lambda _: says(""), "the reply has no text"),
        (always_reasons, "all spent on reasoning"),
        (tiny_context, "does not fit into the model's context"),
        (refuses_all, "refuses the request in every form"),
    ],
)
def test_a_proposal_says_why_a_model_cannot_be_read(
    exchange: Callable[..., ProposalResult],
    model: Model,
    behaviour: Callable[[dict[str, Any]], Reply],
    why: str,
) -> None:
    model.behave = behaviour
    found = exchange()
    assert why in found.refused[0]
    assert found.edits == ()
    assert found.unread == len(found.refused) == 2


def everything_at_once(body: dict[str, Any]) -> Reply:
    """A reasoning model with a short context behind a strict server."""
    for behaviour in (no_temperature, no_schema, short_context, reasons_long):
        if (reply := behaviour(body)) != good(body):
            return reply
    return thinks(body)


def test_a_difficult_model_repairs_and_its_replies_are_replayed(
    project: Path, model: Model
) -> None:
    model.behave = everything_at_once
    refine(project)
    assert f"+      {ADDED}" in result(project)["revision"]["diff"]
    answered = sum(everything_at_once(body)[0] == 200 for body in model.bodies)
    refine(project, "--ignore-attempts")
    again = sum(everything_at_once(body)[0] == 200 for body in model.bodies)
    assert again <= answered + 1  # what is cut off is kept for no other run
    # Another seed changes the diagnosis, too.
    model.bodies.clear()
    refine(project, "--ignore-attempts", "--seed", "7")
    assert any("Why it fails" not in asked(body) for body in model.bodies)


def test_a_model_that_is_never_read_ends_the_run_and_its_trials_serve_another_one(
    project: Path, model: Model
) -> None:
    model.behave = lambda _: says("I'd ask for the cause.")
    said = refine(project, code=3)
    assert "report: nothing could be proposed (no response of the refiner model" in said
    assert "holds not one JSON object with the key `ops`" in said
    assert "no change" not in said
    assert "--refiner-model" in said
    assert result(project)["stop"]["reason"] == "unreadable"
    first_look = result(project)["usage"]["completions"]
    # None of its responses is kept for a later run, and all trials are.
    model.behave = good
    refine(project)
    assert result(project)["revision"] is not None
    assert result(project)["usage"]["replays"] >= first_look


def test_rules_go_on_where_the_model_cannot_be_read_and_the_end_says_so(
    project: Path, model: Model
) -> None:
    model.behave = lambda _: says("I would rather not.")
    refine(project, proposers="rules,model")
    assert result(project)["revision"] is not None
    # Without a rule that helps, nothing is said of the prompt.
    prompt = project / "prompts/report.prompt.yml"
    prompt.write_text(prompt.read_text().replace("what happened", "the incident"))
    said = refine(project, code=3, proposers="examples,model")
    assert "nothing could be proposed" in said


SUMMARY = EDIT["ops"][0]["line"]  # type: ignore[index]
ROLE = "You summarise incident reports for the on-call engineer."
SLOPPY = {
    "other marks": [("replace", SUMMARY, f"* {SUMMARY[2:]}"), ("insert_after", SUMMARY, ADDED)],
    "a shorter role": [
        ("replace", ROLE, "You summarise incident reports."),
        ("insert_after", SUMMARY, ADDED),
    ],
    "a lost tag": [("insert_after", SUMMARY, ADDED), ("delete", "</report>", "")],
    "a request of its own": [
        ("insert_after", SUMMARY, ADDED),
        ("insert_after", ROLE, "Mention every source that you used."),
    ],
    "in many operations": [
        ("delete", SUMMARY, ""),
        ("insert_before", SUMMARY, SUMMARY),
        ("insert_before", ROLE, ROLE),
        ("delete", ROLE, ""),
        ("insert_after", SUMMARY, ADDED),
    ],
}


@pytest.mark.parametrize("ops", SLOPPY.values(), ids=SLOPPY)
def test_of_a_careless_proposal_only_the_repair_is_accepted(
    project: Path, model: Model, ops: list[tuple[str, str, str]]
) -> None:
    document = {
        "rationale": "better",
        "ops": [{"op": op, "line": line, "find": "", "text": text} for op, line, text in ops],
    }
    model.behave = lambda body: says(
        json.dumps(document if "Why it fails" in asked(body) else CRITIQUE)
    )
    refine(project, "--apply")
    written = (project / "prompts/report.prompt.yml").read_text()
    body = written[written.index("messages:") :]
    assert body == PROMPT[PROMPT.index("messages:") :].replace(
        f"{SUMMARY}\n", f"{SUMMARY}\n      {ADDED}\n"
    )


def test_nothing_is_put_between_a_tag_and_its_input(project: Path, model: Model) -> None:
    op = {"op": "insert_after", "line": "<report>", "find": "", "text": ADDED}
    edit = {"rationale": "better", "ops": [op]}
    model.behave = lambda body: says(
        json.dumps(edit if "Why it fails" in asked(body) else CRITIQUE)
    )
    said = refine(project, "--apply")
    assert "model-add: it puts text between '<report>' and its input" in said
    assert (project / "prompts/report.prompt.yml").read_text() == PROMPT


def test_an_edit_of_a_folded_prompt_changes_the_lines_it_is_about(
    project: Path, model: Model
) -> None:
    folded = (
        "    content: >\n"
        "      You summarise incident reports for the on-call engineer. Never name\n"
        "      a person. Answer with one JSON object only, with the key\n"
        "      summary, and with no prose around it. Times are in UTC.\n"
    )
    head, tail = PROMPT.split("    content: |\n      You")
    prompt = head + folded + "  # the report\n" + tail[tail.index("  - role: user") :]
    path = project / "prompts/report.prompt.yml"
    path.write_text(prompt)
    line = " ".join(folded.split()[2:])
    op = {
        "op": "replace",
        "line": line,
        "find": "the key summary",
        "text": "the keys summary and cause",
    }
    edit = {"rationale": "a key is missing", "ops": [op]}
    model.behave = lambda body: says(
        json.dumps(edit if "Why it fails" in asked(body) else CRITIQUE)
    )
    refine(project, "--apply")
    written = path.read_text()
    lines = prompt[prompt.index("messages:") :].split("\n")
    now = written[written.index("messages:") :].split("\n")
    assert len(now) == len(lines)
    changed = [after.strip() for before, after in zip(lines, now, strict=True) if before != after]
    assert len(changed) <= 2
    assert "keys summary and cause" in " ".join(" ".join(changed).split())


@pytest.mark.parametrize(
    ("output", "places"),
    [(" \n", PLACES), ("The disk was", PLACES), ("", PLACES[:3])],
    ids=["blank", "cut off", "empty in few cases"],
)
def test_an_edit_that_ends_most_outputs_is_refused_though_checks_that_forbid_pass(
    project: Path, model: Model, output: str, places: list[str]
) -> None:
    """All outputs pass with the edit; those of few cases may be empty on purpose."""
    path = project / "prompts/report.prompt.yml"
    path.write_text(PROMPT.replace("sim:clerk-1", "local:m"))
    judged = EVAL.replace("has_keys, json_parses", "contains")
    forbids = judged.replace('json_parses(), has_keys("summary", "cause")', '~contains("sorry")')
    (project / "evals/test_report.py").write_text(forbids)

    def behave(body: dict[str, Any]) -> Reply:
        report = body["messages"][-1]["content"]
        if not report.startswith("<report>"):
            return good(body)
        if ADDED not in asked(body):
            return says("I am sorry to report that the disk was full.")
        if any(f"The {place} team" in report for place in places):
            return says(output, finish="length" if output.strip() else "stop")
        return says("The disk was full.")

    model.behave = behave
    text = refine(project)
    refused = "outputs of 12 of 12 cases are empty or cut off, and none before" in text
    assert refused == (places == PLACES)
    assert (result(project)["revision"] is None) == refused


@pytest.mark.parametrize("given", ["rules", "rules,model"])
def test_the_next_command_has_each_option_once(project: Path, model: Model, given: str) -> None:
    judged = EVAL.replace("json_parses(), ", "").replace('has_keys("summary", "cause")', "never")
    never = "def never(output, case):\n    return False\n\n@golden"
    (project / "evals/test_report.py").write_text(judged.replace("@golden", never, 1))
    model.behave = lambda _: says("I have no idea.")
    refine(project, "--max-cycles=1", proposers=given, code=3 if "model" in given else 0)
    assert (
        result(project)["next"]
        == {
            "rules": "regauge refine report --refiner-model local:m --max-cycles=1"
            " --proposers rules,model",
            "rules,model": "regauge refine report --proposers rules,model --max-cycles=1"
            " --refiner-model PROVIDER:MODEL",
        }[given]
    )


def test_a_content_with_a_comment_in_its_line_is_edited(project: Path, model: Model) -> None:
    path = project / "prompts/report.prompt.yml"
    block = PROMPT[PROMPT.index("content: |") : PROMPT.index("  - role: user")]
    path.write_text(PROMPT.replace(block, "content: Summarise the incident.  # for engineers\n"))
    line = "Summarise the incident."
    op = {"op": "insert_after", "line": line, "find": "", "text": "Answer in JSON: summary, cause."}
    edit = {"rationale": "a key is missing", "ops": [op]}
    model.behave = lambda body: says(
        json.dumps(edit if "Why it fails" in asked(body) else CRITIQUE)
    )
    refine(project, "--apply")
    written = path.read_text()
    assert written[written.index("messages:") : written.index("  - role: user")] == (
        "messages:\n  - role: system\n    content: |-  # for engineers\n"
        "      Summarise the incident.\n      Answer in JSON: summary, cause.\n"
    )


def test_a_prompt_that_no_edit_can_be_written_into_is_refused_before_any_call(
    project: Path, model: Model
) -> None:
    path = project / "prompts/report.prompt.yml"
    start = PROMPT.index("messages:")
    shared = 'x-text: &text "Summarise {{report}}"\nmessages:\n  - role: user\n    content: *text\n'
    path.write_text(PROMPT[:start] + shared)
    text = refine(project, code=2)
    assert "report.prompt.yml:9: the messages cannot be edited here: a message's content is" in text
    assert "fix: write each content as a literal block" in text
    assert not [*(project / ".regauge/refine").glob("*/trail.jsonl")]
    assert model.bodies == []
