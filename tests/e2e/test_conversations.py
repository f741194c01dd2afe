"""Conversations of several turns, with tools and personas, through a real endpoint."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests import processes
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import EvalProject

EXAMPLE = Path(__file__).parents[2] / "examples/tau-airline"
PROMPT = """\
name: Shop
version: 1.0.0
model: local:clerk
tools:
  - name: lookup_order
    description: Look up an order.
    parameters: {type: object, properties: {id: {type: string}}}
  - name: refund
    parameters: {type: object}
messages:
  - role: system
    content: Help customers of the shop.
"""
PERSONA = """\
name: Customer
model: local:customer
messages:
  - role: system
    content: 'You are a customer who wants: {{wish}}. Write [END] when you are done.'
  - role: user
    content: "{{conversation}}"
"""
TOOLS = """\
lookup_order:
  - args: {id: "4711"}
    result: {status: shipped, carrier: DHL}
"*": error
"""
EVAL = """\
from regauge import golden
from regauge.judges import *

@golden("shop", judges=[%s])
def test_shop(result):
    result.check()
"""
TWO_TURNS: dict[str, Any] = {
    "id": "order",
    "inputs": {},
    "tools": "shop",
    "turns": [{"user": "Where is order 4711?"}, {"user": "And please refund it."}],
}


class Shop(JsonHandler):
    """A model that looks orders up and says what the tool returned; and a customer."""

    asked: ClassVar[list[dict[str, Any]]] = []
    lock: ClassVar[threading.Lock] = threading.Lock()

    def answer(self) -> None:
        request = self.given()
        with self.lock:
            self.asked.append(request)
        last = request["messages"][-1]
        text = last["content"] or ""
        calls: list[dict[str, Any]] = []
        if request["model"] == "customer":
            lines = text.splitlines()
            content = "[END]" if len(lines) > 2 else f"Question {len(lines)} about 4711"
            if "stubborn" in request["messages"][0]["content"]:
                content = f"Again {len(lines)}: 4711"
        elif request["model"] == "judge":
            content = '{"reasoning": "it says so", "verdict": "pass", "score": 5}'
        elif "Ask first" in request["messages"][0]["content"]:
            content = "Which order?"
        elif last["role"] == "tool":
            content = f"The tool returned: {text}"
        elif "loop" in text or "4711" in text:
            content, calls = "", [{"name": "lookup_order", "arguments": '{"id": "4711"}'}]
        elif "refund" in text:
            content, calls = "", [{"name": "refund", "arguments": '{"order": "4711"}'}]
        else:
            content = "How can I help?"
        if "loop" in json.dumps(request["messages"]):
            calls = [{"name": "lookup_order", "arguments": '{"id": "4711"}'}]
        message: dict[str, Any] = {"role": "assistant", "content": content or None}
        if calls:
            message["tool_calls"] = [
                {"id": f"call_{len(request['messages'])}_{n}", "type": "function", "function": call}
                for n, call in enumerate(calls)
            ]
        self.say(
            {
                "id": "c",
                "object": "chat.completion",
                "model": request["model"],
                "choices": [
                    {
                        "index": 0,
                        "message": message,
                        "finish_reason": "tool_calls" if calls else "stop",
                    }
                ],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
            }
        )


@pytest.fixture
def shop(project: EvalProject) -> Iterator[EvalProject]:
    """A project whose prompt calls tools of a shop."""
    Shop.asked.clear()
    (project.root / "prompts/triage.prompt.yml").unlink()
    (project.root / "fixtures/golden/triage.jsonl").unlink()
    (project.root / "evals/test_triage.py").unlink()
    project.write("prompts/shop.prompt.yml", PROMPT)
    project.write("fixtures/tools/shop.yml", TOOLS)
    project.golden([TWO_TURNS], name="shop")
    project.eval(EVAL % 'calls("lookup_order", args={"id": "4711"})', name="test_shop")
    with Served(Shop) as served:
        project.use(f"{served.address}/v1")
        yield project


def judged(shop: EvalProject, judges: str, *cases: dict[str, Any]) -> None:
    shop.eval(EVAL % judges, name="test_shop")
    if cases:
        shop.golden(cases, name="shop")


def test_a_case_of_two_turns_is_one_trial_that_replays_without_network(shop: EvalProject):
    judged(
        shop,
        'calls_in_order("lookup_order", "refund"), in_turn(1, contains("shipped")),'
        ' in_turn(2, contains("error")), ~in_turn(2, calls("lookup_order")), max_steps(4),'
        " each_turn(max_words(20))",
    )
    live = shop.run()
    assert live.ret == 0
    assert len(Shop.asked) == 4  # two calls of tools, two texts
    assert len(shop.recordings("shop")) == 4
    replay = shop.run("--record=none")
    replay.assert_outcomes(passed=1)
    assert len(Shop.asked) == 4
    (row,) = shop.rows()
    roles = [message["role"] for message in row["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"] * 2
    assert (row["input_tokens"], row["output_tokens"]) == (400, 40)
    assert row["source"] == "recording"


def test_a_persona_plays_the_user_until_it_is_done_and_is_recorded(shop: EvalProject):
    shop.write("prompts/personas/impatient.prompt.yml", PERSONA)
    judged(
        shop,
        'in_turn(1, contains("shipped")), calls("lookup_order", at_least=2)',
        {"id": "c", "inputs": {"wish": "order 4711"}, "persona": "impatient", "tools": "shop"},
    )
    shop.run().assert_outcomes(passed=1)
    seen = [one["messages"] for one in Shop.asked if one["model"] == "customer"]
    assert "lookup_order" not in json.dumps(seen[-1])  # a user sees no calls and no results
    shop.run("--record=none").assert_outcomes(passed=1)
    made = len(Shop.asked)
    assert len(shop.recordings("shop")) == made
    assert shop.rows()[0]["input_tokens"] < 100 * made  # those of the persona are not the prompt's

    shop.write(
        "prompts/personas/impatient.prompt.yml", PERSONA.replace("are a customer", "are stubborn")
    )
    judged(
        shop,
        "max_steps(90)",
        {
            "id": "c",
            "inputs": {"wish": "order 4711"},
            "persona": "impatient",
            "max_turns": 2,
            "tools": "shop",
        },
    )
    result = shop.run()
    assert "1 unmeasured" in result.stdout.str()
    assert "no end within 2 turns of the persona 'impatient'" in shop.complaint(result)
    assert "raise `max_turns`, or let the persona write [END]" in shop.complaint(result)


def test_a_call_without_a_result_and_a_loop_leave_a_case_unmeasured(shop: EvalProject):
    shop.write("fixtures/tools/shop.yml", 'lookup_order:\n  - args: {id: "1"}\n    result: lost\n')
    judged(
        shop,
        "max_steps(90)",
        TWO_TURNS,
        {"id": "bare", "inputs": {}, "turns": [{"user": "Where is 4711?"}]},
    )
    result = shop.run()
    assert "2 unmeasured" in result.stdout.str()
    said = shop.complaint(result)
    assert 'no result for the call lookup_order({"id": "4711"}) in turn 1' in said
    assert "add it to fixtures/tools/shop.yml under `lookup_order:`" in said
    assert "write fixtures/tools/NAME.yml with its results, and add `tools: NAME`" in said
    assert len(shop.recordings("shop")) == 2  # what was paid for is kept
    # Once the results are there, only the rest is asked for.
    asked = len(Shop.asked)
    shop.write("fixtures/tools/shop.yml", TOOLS)
    judged(shop, "max_steps(90)", TWO_TURNS)
    shop.run().assert_outcomes(passed=1)
    assert len(Shop.asked) == asked + 3

    case = {**TWO_TURNS, "turns": [{"user": "loop over 4711"}], "max_steps": 3}
    judged(shop, "max_steps(90)", case)
    result = shop.run()
    assert "1 unmeasured" in result.stdout.str()
    assert "turn 1 did not end within 3 calls of the model" in shop.complaint(result)
    replay = shop.run("--record=none")
    assert "1 unmeasured" in replay.stdout.str()
    assert "turn 1 did not end within 3 calls of the model" in shop.complaint(replay)

    asked = len(Shop.asked)
    judged(shop, "max_steps(90)", {**TWO_TURNS, "turns": [{"expected": "shipped"}]})
    assert "turn 1 has no `user`, and the prompt does not end" in shop.complaint(shop.run())
    assert len(Shop.asked) == asked


def test_a_function_answers_tool_calls_and_its_results_are_recorded(shop: EvalProject):
    shop.write("app/__init__.py", "")
    shop.write(
        "app/orders.py",
        "import pathlib\n\n\ndef lookup(id):\n"
        "    with open(pathlib.Path(__file__).parent / 'called.txt', 'a') as file:\n"
        "        file.write(id)\n"
        "    return [{'text': 'sent', 'order': id}]\n\n\n"
        "def refund(amount):\n    return 'refunded'\n",
    )
    shop.write(
        "fixtures/tools/shop.yml",
        'lookup_order: {function: "app.orders:lookup"}\nrefund: {function: "app.orders:refund"}\n',
    )
    judged(shop, 'in_turn(1, contains(\'[{"text": "sent", "order": "4711"}]\'))')
    shop.run().assert_outcomes(passed=1)
    assert (shop.root / "app/called.txt").read_text() == "4711"
    # The model learns that its arguments are wrong.
    (row,) = shop.rows()
    assert "the function takes (amount), and the inputs are order" in row["messages"][-2]["content"]
    (shop.root / "app/called.txt").unlink()
    shop.run("--record=none").assert_outcomes(passed=1)
    assert not (shop.root / "app/called.txt").exists()
    # Another code is another function: its results are not those.
    path = shop.root / "app/orders.py"
    path.write_text(path.read_text().replace("sent", "lost"))
    assert "1 unmeasured" in shop.run("--record=none").stdout.str()


def test_checks_and_expected_values_belong_to_single_turns(shop: EvalProject):
    case = {
        **TWO_TURNS,
        "turns": [
            {
                "user": "Where is order 4711?",
                "expected": "shipped",
                "checks": [{"contains": "DHL"}],
            },
            {"user": "And please refund it.", "expected": "error", "checks": [{"calls": "pay"}]},
        ],
    }
    judged(shop, "each_turn(contains(expected()))", case)
    result = shop.run()
    result.assert_outcomes(failed=1)
    said = shop.complaint(result)
    assert "checks: in_turn(2, calls(pay)): turn 2: 0 calls of pay" in said
    assert "✓ each_turn(contains)" in said
    assert "user: And please refund it." in said
    assert 'tool call: refund({"order": "4711"})' in said

    del case["turns"][1]["expected"]
    judged(shop, "in_turn(2, contains(expected()))", {**case, "expected": "error"})
    unmeasured = shop.run("--record=none").stdout.str()
    assert "has no expected (fixtures/golden/shop.jsonl:1, turn 2)" in unmeasured


def test_trials_and_budgets_count_conversations_and_calls(shop: EvalProject):
    judged(shop, "max_steps(4)")
    result = shop.run("--trials=2", "--budget-calls=3")
    assert "1 unmeasured" in result.stdout.str()
    assert len(Shop.asked) == 3
    Shop.asked.clear()
    result = shop.run("--trials=2")
    result.assert_outcomes(passed=1)
    assert len(Shop.asked) == 5
    assert "all k trials pass: pass^1 100 %, pass^2 100 %" in result.stdout.str()
    missing = shop.run("--trials=3", "--record=none")
    assert "1 unmeasured" in missing.stdout.str()
    assert "1 completion of local:clerk" in missing.stdout.str()
    assert "about 4 calls" in missing.stdout.str()


def test_a_dollar_budget_ends_a_conversation_between_two_calls(shop: EvalProject):
    shop.settings(provider="prices = {clerk = {input_per_million = 100, output_per_million = 0}}\n")
    judged(shop, "max_steps(4)")
    stopped = shop.run("--trials=2", "--budget-usd=0.025")  # a call costs 0.01
    assert "1 unmeasured" in stopped.stdout.str()
    assert "the budget of $0.025 is reached" in stopped.stdout.str()
    assert len(Shop.asked) == 2
    shop.run("--trials=2").assert_outcomes(passed=1)
    assert len(Shop.asked) == 8


def test_recorded_conversations_are_pruned_by_what_evals_still_ask(shop: EvalProject):
    shop.run().assert_outcomes(passed=1)
    judged(shop, "max_steps(9)", {**TWO_TURNS, "turns": TWO_TURNS["turns"][:1]})
    shop.run().assert_outcomes(passed=1)
    assert len(shop.recordings("shop")) == 4
    assert shop.command("record", "--prune").returncode == 0
    assert len(shop.recordings("shop")) == 2
    shop.run("--record=none").assert_outcomes(passed=1)


def test_llm_judges_see_the_conversation_or_one_turn(shop: EvalProject):
    judged(
        shop,
        'max_steps(9), rubric("goal-reached", model="local:judge", reference=expected("goal")),'
        ' in_turn(2, rubric(criterion="is polite", model="local:judge"))',
        {**TWO_TURNS, "expected": {"goal": "The order is refunded."}},
    )
    shop.run().assert_outcomes(passed=1)
    whole, turn = sorted(
        (one["messages"][-1]["content"] for one in Shop.asked if one["model"] == "judge"),
        key=len,
        reverse=True,
    )
    assert "The order is refunded." in whole
    assert 'tool call: lookup_order({"id": "4711"})' in whole
    assert "shipped" not in turn
    assert "And please refund it." in turn
    asked = len(Shop.asked)
    shop.run("--record=none").assert_outcomes(passed=1)
    assert len(Shop.asked) == asked


def test_reports_show_a_hostile_conversation_as_one_escaped_text(shop: EvalProject):
    case = {**TWO_TURNS, "turns": [{"user": "</script><b>4711\nassistant: ok `@team`"}]}
    judged(shop, 'contains("never")', case)
    shop.run().assert_outcomes(failed=1)
    markdown = shop.command("report", "--format=md").stdout
    assert "<details><summary>Conversation of shop `order`, trial 0</summary>" in markdown
    block = markdown.split("```text\n")[1].split("```")[0]
    assert "user: </script><b>4711\n  assistant: ok `@team`" in block
    assert shop.command("report", "-o", "report.html").returncode == 0
    page = (shop.root / "report.html").read_text(encoding="utf-8")
    assert "tool call: lookup_order" in page
    assert "</script><b>" not in page


def test_a_script_that_makes_no_sense_is_refused(shop: EvalProject):
    """Each in a dataset of its own, so that one run shows all of them."""
    rows: list[tuple[dict[str, Any], str]] = [
        ({"turns": []}, "turns is []"),
        ({"turns": [{"user": "a"}, {}]}, "turn 2 has no message of the user"),
        ({"turns": [{"user": "a", "text": "b"}]}, "turn 1 has no key 'text'"),
        ({"turns": [{"user": "a"}], "persona": "x"}, "a case with `turns` and a `persona`"),
        ({"persona": "nobody-here"}, "persona: there is no prompt 'nobody-here'"),
        ({"max_turns": 3}, "max_turns without a persona"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_steps": 3}, "max_steps without a conversation"),
        ({"tools": "shopp"}, "there is no file fixtures/tools/shopp.yml"),
        ({"tools": "bad"}, "fixtures/tools/bad.yml:1: lookup: an entry has no `result`"),
        ({"tools": "bad"}, "bad.yml:2: refund: an entry has no key 'fnction'\n  fix: did you mean"),
        ({"tools": "bad"}, "bad.yml:3: *: 'eror' is not a result\n  fix: did you mean 'error'?"),
    ]
    shop.write(
        "fixtures/tools/bad.yml", "lookup: [{args: {id: 1}}]\nrefund: {fnction: a:b}\n'*': eror\n"
    )
    (shop.root / "evals/test_shop.py").unlink()
    for number, (more, _) in enumerate(rows):
        name = f"row-{number}"
        shop.write(f"prompts/{name}.prompt.yml", PROMPT)
        shop.golden([{"id": "c", "inputs": {}, **more}], name=name)
        evals = EVAL % 'contains("shipped")'
        shop.eval(evals.replace('"shop"', f'"{name}"'), name=f"test_{number}")
    result = shop.run()
    assert result.ret not in {0, 1}
    said = shop.not_collected(result)
    assert [row for n, row in enumerate(rows) if row[1] not in said.get(f"test_{n}", "")] == []


def commit(root: Path, branch: str = "") -> None:
    """Commit everything; then begin a branch, where one is named."""
    words = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "state", "--allow-empty"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], words):
        if arguments[0] != "init" or not (root / ".git").exists():
            subprocess.run(["git", *arguments], cwd=root, check=True)
    if branch:
        subprocess.run(["git", "checkout", "-qb", branch], cwd=root, check=True)


def test_the_gate_runs_conversations_of_both_versions_and_replays_them(shop: EvalProject):
    shop.write(".gitignore", ".regauge/\nrunpytest-*\n__pycache__/\n")
    case = {**TWO_TURNS, "turns": [{"user": "Where is 4711?"}, {"user": "Bye."}]}
    cases: list[dict[str, Any]] = [{**case, "id": f"c{n}", "inputs": {}} for n in range(6)]
    judged(shop, 'in_turn(1, contains("shipped"))', *cases)
    assert shop.command("record").returncode == 0
    commit(shop.root, branch="change")
    assert shop.command("gate", "main").returncode == 0

    # This change has the model ask back instead of looking orders up.
    shop.write("prompts/shop.prompt.yml", PROMPT.replace("the shop.", "the shop. Ask first."))
    bumped = shop.command("bump", "shop", "minor")
    assert bumped.returncode == 0, bumped.stderr
    estimate = json.loads(shop.command("gate", "main", "--dry-run", "--json").stdout)
    assert estimate["first"]["calls"] == 3 * estimate["first"]["trials"]  # as main's conversations
    rejected = shop.command("gate", "main")
    assert rejected.returncode == 1, rejected.stdout + rejected.stderr
    assert "6 broken" in rejected.stdout
    replay = shop.command("gate", "main", "--record=none")
    assert replay.returncode == 1, replay.stdout + replay.stderr


def test_estimates_know_recorded_conversations(shop: EvalProject):
    """Of conversations with tools and with a persona; also for a case that is new."""
    shop.write("prompts/customer.prompt.yml", PERSONA)
    shop.write(".gitignore", ".regauge/\nrunpytest-*\n__pycache__/\n")

    def scripted(n: int) -> dict[str, Any]:
        turns = [{"user": f"{n}: where is 4711?"}, {"user": "Hi."}, {"user": "4711 again"}]
        return {"id": f"s{n}", "inputs": {}, "turns": turns, "tools": "shop"}

    cases = [scripted(n) for n in range(4)]
    played: dict[str, Any] = {
        "inputs": {"wish": "4711"},
        "persona": "customer",
        "tools": "shop",
    }
    cases += [{"id": f"p{n}", **played, "tags": [str(n)]} for n in range(2)]
    judged(shop, 'calls("lookup_order")', *cases)
    assert shop.command("record").returncode == 0

    def check(*words: str) -> None:
        estimate = json.loads(shop.command("record", *words, "--dry-run", "--json").stdout)
        [expected] = estimate["missing_completions"]
        before = len(Shop.asked)
        assert shop.command("record", *words).returncode == 0
        tokens = 110 * (len(Shop.asked) - before)
        assert tokens / 1.5 <= expected["tokens"] <= 1.5 * tokens
        assert tokens / 1.5 <= 110 * expected["calls"] <= 1.5 * tokens

    check("--refresh")
    shop.golden([*cases, scripted(4), scripted(5)], name="shop")
    check()
    shop.write("prompts/shop.prompt.yml", PROMPT.replace("the shop.", "the shop. Be kind."))
    check("--trials=2")


@pytest.mark.parametrize("words", [["-n", "2"], ["--model=local:clerk", "--model=local:other"]])
def test_conversations_run_in_parallel_with_several_models(shop: EvalProject, words: list[str]):
    shop.settings(provider="prices = {clerk = {input_per_million = 100, output_per_million = 0}}\n")
    turns = [{"user": "Where is 4711?"}, {"user": "Please refund it."}]
    cases = [{**TWO_TURNS, "id": f"c{n}", "turns": [{"user": f"Hi {n}"}, *turns]} for n in range(6)]
    judged(shop, 'calls("lookup_order")', *cases)
    runs = 12 if len(words) == 2 and words[0].startswith("--model") else 6
    shop.run(*words).assert_outcomes(passed=runs)
    asked = len(Shop.asked)
    shop.run("--record=none", *words).assert_outcomes(passed=runs)
    assert len(Shop.asked) == asked


AGENT = """\
import json
import sys

messages = json.load(sys.stdin)["messages"]
last = messages[-1]["content"]
if last == "fail":
    sys.exit("the index is empty")
answer = {"text": f"{len(messages)} messages, last: {last}"}
if "4711" in last:
    answer["tool_calls"] = [{"name": "lookup_order", "arguments": {"id": "4711"}}]
print(json.dumps(answer))
"""


class Agent(JsonHandler):
    """The same as a service, with other names."""

    def answer(self) -> None:
        messages = self.given()["chat"]
        last = messages[-1]["content"]
        if last == "fail":
            self.say({"error": "the index is empty"}, status=422)
            return
        calls = [{"name": "lookup_order", "arguments": {"id": "4711"}}] if "4711" in last else []
        self.say({"reply": f"{len(messages)} messages, last: {last}", "calls": calls})


@pytest.mark.parametrize("kind", ["http", "command"])
def test_an_endpoint_and_a_program_hold_conversations(shop: EvalProject, kind: str):
    shop.write("agent.py", AGENT)
    shop.write("prompts/customer.prompt.yml", PERSONA)
    argv = json.dumps([sys.executable, "agent.py"])
    with Served(Agent) as agent, Served(Shop) as served:
        shop.use(f"{served.address}/v1")
        http = (
            f'url = "{agent.address}/chat"\nbody = {{chat = "{{{{messages}}}}"}}\n'
            'text = "$.reply"\ntool_calls = "$.calls"\n'
        )
        own = http if kind == "http" else f"argv = {argv}\n"
        shop.settings(
            provider=f'[tool.regauge.targets.agent]\nkind = "{kind}"\nversion = "1"\n{own}'
        )
        judges = 'calls("lookup_order", {"id": "4711"}), in_turn(2, contains("3 messages"))'
        shop.eval((EVAL % judges).replace('"shop"', '"shop", target="agent"'), name="test_shop")
        turns = [{"user": "Where is 4711?"}, {"user": "And now?"}]
        shop.golden(
            [
                {"id": "scripted", "inputs": {}, "turns": turns},
                {"id": "played", "inputs": {"wish": "4711"}, "persona": "customer"},
                {"id": "broken", "inputs": {}, "turns": [*turns, {"user": "fail"}]},
                {"id": "lost", "inputs": {"messages": "short"}, "turns": turns},
            ],
            name="shop",
        )
        live = shop.run()
        assert live.parseoutcomes() == {"passed": 2, "unmeasured": 2}
        assert "the index is empty" in live.stdout.str() or "status 422" in live.stdout.str()
        live.stdout.fnmatch_lines(["*case 'lost': `messages` is the conversation*shop.jsonl:4)"])
        estimate = shop.command("record", "--refresh", "--dry-run")
        assert estimate.returncode == 0, estimate.stderr
    replay = shop.run("--record=none")
    assert replay.parseoutcomes() == {"passed": 2, "unmeasured": 2}
    replay.stdout.fnmatch_lines(["needs recording: shop, 1 case*"])


def _edited(shop: EvalProject, path: str, old: str, new: str) -> None:
    text = (shop.root / path).read_text("utf-8")
    assert old in text
    shop.write(path, text.replace(old, new))


# What the user and the tools of a conversation are: file, text, another text, name in the bar.
SURROUNDINGS = [
    ("prompts/buyer.prompt.yml", "customer who", "kind customer who", "the persona buyer"),
    ("fixtures/tools/shop.yml", "shipped", "lost", "results of tools in fixtures/tools/shop.yml"),
    ("app.py", "shipped", "lost", "the code of app:stock, which serves tool calls,"),
    (
        "fixtures/golden/shop.jsonl",
        '"expected": "shipped"',
        '"expected": "lost"',
        "expected and checks in turns of scripted:",
    ),
    ("fixtures/golden/shop.jsonl", '"max_turns": 5', '"max_turns": 9', "max_turns of played:"),
]


def test_a_user_or_tool_that_the_change_edits_is_part_of_the_bar(shop: EvalProject):
    shop.write(".gitignore", ".regauge/\nrunpytest-*\n__pycache__/\n")
    shop.write("prompts/buyer.prompt.yml", PERSONA)
    shop.write("app.py", "def stock(id):\n    return 'shipped'\n")
    shop.write("fixtures/tools/app.yml", "lookup_order: {function: app:stock}\n")
    turn = {"user": "Where is order 4711?", "expected": "shipped"}
    cases: list[dict[str, Any]] = [
        {"id": "scripted", "inputs": {}, "tools": "shop", "turns": [turn]},
        {"id": "called", "inputs": {}, "tools": "app", "turns": [turn]},
        {"id": "played", "inputs": {"wish": "4711"}, "persona": "buyer", "tools": "shop"},
    ]
    cases[-1]["max_turns"] = 5
    judged(shop, 'calls("lookup_order")', *cases)
    assert shop.command("record").returncode == 0
    commit(shop.root, branch="change")
    for path, old, new, _ in SURROUNDINGS:
        _edited(shop, path, old, new)
        alone = shop.command("gate", "main")
        assert alone.returncode == 0, alone.stdout + alone.stderr
        assert "other inputs or expectations" in alone.stdout
        _edited(shop, path, new, old)

    # Next to a change of the prompt, each could make broken cases pass. A new user is no change.
    for path, old, new, _ in SURROUNDINGS:
        _edited(shop, path, old, new)
    shop.write("prompts/guest.prompt.yml", PERSONA)
    lines = (shop.root / "fixtures/golden/shop.jsonl").read_text("utf-8")
    line = {**cases[-1], "id": "new", "persona": "guest"}
    shop.write("fixtures/golden/shop.jsonl", f"{lines.rstrip()}\n{json.dumps(line)}\n")
    _edited(shop, "prompts/shop.prompt.yml", "the shop.", "the shop. Be kind.")
    assert shop.command("bump", "shop", "minor").returncode == 0
    refused = shop.command("gate", "main")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "the bar of this change may be lower than that of main" in refused.stdout
    accepted = shop.command("gate", "main", "--accept-judge-change", "the shop changed")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    for *_, said in SURROUNDINGS:
        assert said in refused.stdout
        assert said in accepted.stdout
    assert "the persona guest" not in refused.stdout


def test_recorded_conversations_of_a_real_agent_are_gated(tmp_path: Path):
    root = tmp_path / "airline"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".regauge", "__pycache__"))
    for cases in (root / "fixtures/golden").iterdir():
        cases.write_text(cases.read_text("utf-8").replace('"tier": "tracked", ', ""), "utf-8")
    (root / ".gitignore").write_text(".regauge/\n__pycache__/\n", "utf-8")
    settings = root / "pyproject.toml"
    settings.write_text(settings.read_text("utf-8").replace("trials = 4", "trials = 2"), "utf-8")
    file = root / "fixtures/outputs/airline.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]

    def write(first: int, *, count: int = 2, damaged: bool = False) -> None:
        kept = [
            {**line, "trial": line["trial"] - first}
            for line in lines
            if first <= line["trial"] < first + count
        ]
        for line in kept if damaged else ():
            for message in line["messages"]:
                for call in message.get("tool_calls", ()):
                    call["name"] = "send_certificate"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in kept), "utf-8")

    def gate() -> subprocess.CompletedProcess[str]:
        return processes.run(
            "regauge", "gate", "main", "--record=none", cwd=root, env={**os.environ}
        )

    write(0)
    commit(root, branch="change")
    write(2)
    same = gate()
    assert same.returncode == 0, same.stdout + same.stderr
    # All trials of the base, and the same ones with other calls.
    subprocess.run(["git", "checkout", "-q", "-f", "main"], cwd=root, check=True)
    write(0, count=4)
    commit(root, branch="damage")
    write(0, count=4, damaged=True)
    damage = gate()
    assert damage.returncode == 1, damage.stdout + damage.stderr
    assert "98 of 100 trials failed" in damage.stdout
