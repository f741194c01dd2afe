"""Assertions of promptfoo: JavaScript in V8 and Python, their results, limits and files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from regauge.errors import JudgeError, UsageError
from regauge.judges import javascript, judge_from_spec, promptfoo_python
from regauge.judges._v8 import ScriptLimitError, _engine
from regauge.judges.output import JudgedOutput
from regauge.providers import Completion, ToolCall, Usage
from tests.unit.judges.samples import CASE, completion

if TYPE_CHECKING:
    from pathlib import Path


def verdict(spec, output="abc", **given):
    """The outcome in one word, and the reason."""
    try:
        said = judge_from_spec(spec).check_text(output, **given)
    except JudgeError as error:
        return "unmeasured", str(error)
    return said.outcome, said.reason


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        ("output.length < 10", "pass", "returned true"),
        ("output.length < 3;", "fail", "returned false"),
        ("  output === 'abc'\n", "pass", "true"),
        ("const n = output.length; n === 3", "pass", "true"),
        ("let a = 'x;y'; a.includes(';') && output === 'abc';", "pass", "true"),
        ("const f = x => { return x + ';'; }; f(output) === `abc;`", "pass", "true"),
        ("const s = output;\nif (s === 'abc') return true;\nreturn false;", "pass", "true"),
        ("// a comment\nreturn output.startsWith('a')", "pass", "true"),
        ("0.4", "pass", "0.4, above 0"),
        ("0", "fail", "0, above 0"),
        ("-2", "fail", "-2"),
        ("NaN", "fail", "nan"),
        ("1 / 0", "pass", "inf"),
        ("({pass: true, score: 0.2, reason: 'as it is'})", "pass", "as it is"),
        ("({pass: false, score: 0.9, reason: 'too long'})", "fail", "too long"),
        ("JSON.parse(output).x === 1", "fail", "SyntaxError"),
        ("output.x.y", "fail", "TypeError"),
        ("(() => { throw new Error('mine'); })()", "fail", "mine"),
        ("(() => { throw 'a text'; })()", "fail", "a text"),
        ("'a reason'", "fail", "a text: 'a reason'"),
        ("null", "fail", "`return`"),
        ("const n = 1;\nn > 0", "fail", "`return`"),
        ("Promise.resolve(output === 'abc')", "pass", "true"),
        ("(async () => { await null; return 0.5; })()", "pass", "0.5"),
        ("new Promise((done) => setTimeout(() => done(true), 1e9))", "pass", "true"),
        ("Promise.reject(new Error('no'))", "fail", "no"),
        ("new Promise(() => {})", "unmeasured", "never settled"),
        ("return true", "unmeasured", "syntax"),
        ("output.", "unmeasured", "syntax"),
        ("undefinedName > 3", "unmeasured", "undefinedName is not defined"),
        ("({pass: true})", "unmeasured", "not a verdict"),
        ("({pass: output.x, score: 0, reason: 'r'})", "fail", "pass: undefined"),
        ("({pass: 1, score: 1, reason: 'r'})", "unmeasured", "not a verdict"),
        ("[1]", "unmeasured", "not a verdict"),
        ("fetch('https://example.org')", "unmeasured", "fetch"),
        ("require('fs').readFileSync('/etc/passwd')", "unmeasured", "require('fs').readFileSync"),
        ("process.mainModule.require('os').hostname()", "unmeasured", "require('os').hostname"),
        ("process.env.HOME ? true : true", "unmeasured", "process.env"),
        ("import('fs').then(() => true)", "unmeasured", "Not supported"),
        ("Date.now() > 0", "unmeasured", "current time"),
        ("new Date().getFullYear() > 2000", "unmeasured", "current time"),
        ("new Date('2024-02-03').getUTCDate() === 3", "pass", "true"),
        ("new Date(0) instanceof Date", "pass", "true"),
        ("context.prompt.length > 0", "unmeasured", "context.prompt"),
        ("!context.metadata?.citations", "unmeasured", "context.metadata"),
        ("context.test.metadata.topic === 'x'", "unmeasured", "context.test.metadata"),
        ("context.config === undefined", "pass", "true"),
        ("context.vars.limit >= output.length", "pass", "true"),
        ("context.test.vars.limit === 3 && context.expected.word === 'abc'", "pass", "true"),
        ("(require('assert').strictEqual(output, 'abc'), true)", "pass", "true"),
        ("(require('node:assert')(output === 'x', 'not x'), true)", "fail", "not x"),
    ],
)
def test_javascript_decides_as_promptfoo_does_or_gives_no_verdict(
    code: str, outcome: str, words: str
):
    given = {"inputs": {"limit": 3}, "expected": {"word": "abc"}}
    got, reason = verdict({"javascript": code}, **given)
    assert (got, words in reason) == (outcome, True), reason


def test_what_is_missing_is_stated_even_if_the_script_catches_the_error():
    code = "try {\n new URL(output); return true;\n} catch { return false; }"
    assert verdict({"javascript": code})[0] == "unmeasured"


def test_a_threshold_applies_to_numbers_only():
    assert verdict({"javascript": {"code": "0.6", "pass_at": 0.7}})[0] == "fail"
    assert verdict({"javascript": {"code": "0.7", "pass_at": 0.7}})[0] == "pass"
    graded = "({pass: true, score: 0.1, reason: 'r'})"
    assert verdict({"javascript": {"code": graded, "pass_at": 0.7}})[0] == "pass"


def test_a_negation_inverts_opinions_and_keeps_failures_to_have_one():
    assert verdict({"not": {"javascript": "output === 'x'"}})[0] == "pass"
    assert verdict({"not": {"javascript": "({pass: true, score: 1, reason: 'r'})"}})[0] == "fail"
    assert verdict({"not": {"javascript": "JSON.parse(output)"}})[0] == "fail"
    assert verdict({"not": {"javascript": "null"}})[0] == "fail"


def test_parts_of_a_result_are_kept():
    code = (
        "({pass: false, score: 0.5, reason: 'half', componentResults: ["
        "{pass: true, score: 1, reason: 'one'}, {pass: false, score: 0, reason: 'two'}]})"
    )
    said = javascript(code).check_text("x")
    assert (said.outcome, said.score) == ("fail", 0.5)
    assert said.details["components"] == [
        {"pass": True, "score": 1, "reason": "one"},
        {"pass": False, "score": 0, "reason": "two"},
    ]


def test_a_script_sees_the_completion_and_its_configuration():
    code = (
        "const {provider, providerResponse: said, config} = context;\n"
        "return provider.id === 'openai:m' && said.tokenUsage.total === 30 && said.cost === 0.5 &&\n"
        "  said.latencyMs === 200 && context.test.description === 'db-down' && config.most === 3;"
    )
    made = Completion(
        text="x",
        usage=Usage(input_tokens=10, output_tokens=20),
        model="m",
        provider="openai",
        latency_s=0.2,
        cost_usd=0.5,
    )
    code = code.replace("db-down", CASE.id)
    assert str(javascript(code, config={"most": 3}).check(made, CASE)) == "pass: it returned true"


def test_the_output_is_parsed_on_request_and_tool_calls_stand_for_a_missing_text():
    assert (
        verdict({"javascript": {"code": "output.a === 1", "parse_json": True}}, '{"a": 1}')[0]
        == "pass"
    )
    assert (
        verdict({"javascript": {"code": "output === 'no'", "parse_json": True}}, "no")[0] == "pass"
    )
    call = ToolCall(id="1", name="search", arguments='{"q": 1}')
    made = Completion(text=None, tool_calls=(call,), finish_reason="tool_calls")
    judge = javascript("JSON.parse(output[0].function.arguments).q === 1")
    assert judge.examine(JudgedOutput.from_completion(made, CASE)).outcome == "pass"
    assert javascript("true").check_text(None).code == "no_text"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("while (true) {}\nreturn 1;", "longer than 0.3 s"),
        ("const f = async () => { while (true) await null; };\nreturn f();", "longer than 0.3 s"),
        ("/(a+)+b/.test('a'.repeat(60))", "longer than 0.3 s"),
        ("const a = [];\nwhile (true) a.push(new Array(1000).fill(1.5));", "more than 64 MB"),
        ("let s = output;\nwhile (true) s = s + s + JSON.stringify(s).length;", ""),
        ("const b = [];\nwhile (true) b.push(new Uint8Array(1e7).fill(1));", ""),
        ("const f = () => f();\nreturn f();", "call stack"),
    ],
)
def test_a_loop_and_a_memory_bomb_end_without_a_verdict_and_harm_nothing(code: str, words: str):
    began = time.monotonic()
    timeout_s = 0.3 if "longer" in words else 1
    spec = {"javascript": {"code": code, "timeout_s": timeout_s, "memory_mb": 64}}
    outcome, reason = verdict(spec)
    assert outcome == "unmeasured"
    assert words in reason
    assert time.monotonic() - began < 30
    assert verdict({"javascript": "true"})[0] == "pass"


def test_every_call_has_a_context_of_its_own_and_is_repeatable():
    assert (
        verdict({"javascript": "(globalThis.seen = (globalThis.seen || 0) + 1) === 1"})[0] == "pass"
    )
    assert (
        verdict({"javascript": "(globalThis.seen = (globalThis.seen || 0) + 1) === 1"})[0] == "pass"
    )
    first = javascript("String(Math.random() + Math.random())").check_text("x").reason
    assert first == javascript("String(Math.random() + Math.random())").check_text("x").reason
    local = "new Date(0).toString() + (1234.5).toLocaleString()"
    assert "00:00:00 GMT+0000" in javascript(local).check_text("x").reason


@given(st.text(max_size=200))
def test_any_text_comes_back_from_the_script(text: str):
    said = javascript("({pass: true, score: 1, reason: output})").check_text(text)
    assert said.reason == (" ".join(JudgedOutput(text).text.split()) or "it returned true")


def test_half_a_character_does_not_reach_reports():
    said = javascript("'x'.repeat(1999) + '\\u{1F600}'").check_text("x")
    said.reason.encode()
    assert (
        "\ud800"
        not in javascript("({pass: true, score: 1, reason: '\\ud800'})").check_text("x").reason
    )


@given(st.text(max_size=200))
def test_any_text_reaches_the_script_as_it_is(text: str):
    answer = JudgedOutput(text)
    code = f"output === {json.dumps(answer.text)}"
    assert (
        javascript(f"const same = {code[11:]};\nreturn output === same;").check_text(text).outcome
        == "pass"
    )


def test_threads_and_forked_processes_get_their_own_verdicts():
    script = (
        "import os\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from regauge.judges import javascript\n"
        "judge = javascript('Number(output) % 2 === 0')\n"
        "texts = [str(n) for n in range(40)]\n"
        "def outcomes():\n"
        "    with ThreadPoolExecutor(8) as pool:\n"
        "        said = pool.map(lambda text: judge.check_text(text).outcome, texts)\n"
        "    return [one == 'pass' for one in said] == [n % 2 == 0 for n in range(40)]\n"
        "assert outcomes()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0 if outcomes() else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert outcomes()\n"
        "print('done')\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


def test_an_engine_that_was_killed_is_an_error_and_the_next_one_starts():
    engine = _engine(os.getpid())
    for _ in range(2):
        assert verdict({"javascript": "true"})[0] == "pass"
        process = engine._process
        assert process is not None
        process.kill()
        process.wait()
        with pytest.raises(ScriptLimitError, match="it took more than 64 MB of memory"):
            engine.run("true", {}, timeout_s=60, memory_mb=64)


def test_the_engine_ends_with_the_run_that_started_it():
    script = (
        "import os, signal\n"
        "from regauge.judges import javascript\n"
        "from regauge.judges._v8 import _engine\n"
        "javascript('true').check_text('x')\n"
        "print(_engine(os.getpid())._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == -signal.SIGKILL
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        try:
            os.kill(int(run.stdout), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the engine outlives its run")


MODULES = {
    "asserts/plain.js": "module.exports = (output, context) => output.length <= context.vars.most;\n",
    "asserts/named.js": (
        "const {least} = require('./lib/limits.json');\n"
        "const words = require('./lib/words');\n"
        "exports.short = (output) => words(output) < 3;\n"
        "exports.long = async (output) => words(output) >= least;\n"
    ),
    "asserts/lib/limits.json": '{"least": 4}',
    "asserts/lib/words.js": "module.exports = (text) => text.split(' ').length;\n",
    "asserts/modern.mjs": (
        "import words from './lib/words.js';\n"
        "import {\n  least as fewest,\n} from './lib/limits.json';\n"
        "import * as limits from './lib/limits.json';\n"
        "import fs from 'fs';\n\n"
        "export const short = (output) => words(output) < fewest;\n"
        "export function same() { return limits.least === fewest; }\n"
        "function hidden(output) { return fs.existsSync(output); }\n"
        "export { hidden as reads };\n"
        "export default async function (output) {\n"
        "  if (words(output) > 100) throw new Error('too many');\n"
        "  return {pass: true, score: 1, reason: 'few words'};\n"
        "}\n"
    ),
    "asserts/object.mjs": "export default {\n  check(output) { return output !== ''; },\n};\n",
    "asserts/empty.js": "exports.value = 3;\n",
    "asserts/broken.js": "module.exports = (output) => {\n",
    "asserts/typed.ts": "export default (output: string): boolean => true;\n",
    "asserts/throws.js": "module.exports = (output) => {\n  return output.a.b;\n};\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in MODULES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "evals").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "outcome", "words"),
    [
        ("asserts/plain.js", "pass", "true"),
        ("file://asserts/plain.js", "pass", "true"),
        ("asserts/named.js:short", "fail", "false"),
        ("asserts/named.js:long", "fail", "false"),
        ("asserts/modern.mjs", "pass", "few words"),
        ("asserts/modern.mjs:short", "pass", "true"),
        ("asserts/modern.mjs:same", "pass", "true"),
        ("asserts/modern.mjs:reads", "unmeasured", "require('fs').existsSync"),
        ("asserts/empty.js", "unmeasured", "exports no function 'default'"),
        ("asserts/plain.js:missing", "unmeasured", "exports no function 'missing'"),
        ("asserts/object.mjs:check", "pass", "true"),
        ("asserts/broken.js", "unmeasured", "syntax"),
        ("asserts/throws.js", "fail", "asserts/throws.js:2"),
        ("asserts/typed.ts", "unmeasured", "compile it to JavaScript"),
    ],
)
def test_a_file_of_javascript_is_a_judge(project: Path, file: str, outcome: str, words: str):
    got, reason = verdict({"javascript": {"file": file}}, "one two three", inputs={"most": 13})
    assert (got, words in reason) == (outcome, True), reason


def test_the_function_of_a_file_has_a_parameter_of_its_own(project: Path):
    spec = {"javascript": {"file": "asserts/named.js", "function": "long"}}
    assert verdict(spec, "one two three four")[0] == "pass"


def test_a_file_is_found_from_the_root_and_every_file_of_it_is_in_the_digest(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    before = javascript(file="asserts/named.js:short").digest
    monkeypatch.chdir(project / "evals")
    assert javascript(file="asserts/named.js:short").digest == before
    words = project / "asserts/lib/words.js"
    words.write_text(words.read_text() + "// more\n", encoding="utf-8")
    assert javascript(file="asserts/named.js:short").digest != before
    assert javascript("output === 'a'").digest == javascript("output === 'a'").digest


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"javascript": {}}, "either `code` or `file`"),
        ({"javascript": {"code": "1", "file": "a.js"}}, "either `code` or `file`"),
        ({"javascript": "  "}, "code is empty"),
        ({"javascript": {"file": "no/such.js"}}, "no file 'no/such.js'"),
        ({"javascript": {"code": "1", "timeout_s": 0}}, "timeout_s is a number from 0.01"),
        ({"javascript": {"code": "1", "memory_mb": 1}}, "memory_mb is a number from 16"),
        ({"javascript": {"code": "1", "pass_at": "half"}}, "pass_at is a number"),
        ({"promptfoo_python": {}}, "either `code` or `file`"),
        ({"promptfoo_python": "return 1"}, "not Python"),
        ({"promptfoo_python": {"file": "no/such.py"}}, "no file 'no/such.py'"),
    ],
)
def test_senseless_parameters_are_refused(project: Path, spec, words: str):
    with pytest.raises(UsageError, match=".*".join(map(str, [words]))):
        judge_from_spec(spec)


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        ("len(output) == 3", "pass", "true"),
        ("'x' in output", "fail", "false"),
        ("0.4", "pass", "0.4"),
        ("import re\nreturn bool(re.match('a', output))", "pass", "true"),
        ("if output:\n    return 1\nreturn 0", "pass", "1"),
        ("{'pass': True, 'score': 1, 'reason': 'fine'}", "pass", "fine"),
        ("{'pass_': False, 'score': 0, 'reason': 'bad'}", "fail", "bad"),
        ("json.dumps({'pass': True, 'score': 1, 'reason': 'text'})", "pass", "text"),
        ("'True'", "pass", "true"),
        ("'0.5'", "pass", "0.5"),
        ("'no number'", "fail", "a text"),
        ("context['vars']['limit'] == 3", "pass", "true"),
        ("json.loads(output)", "fail", "JSONDecodeError"),
        ("context['vars']['other']", "fail", "KeyError"),
        ("None", "fail", "`return`"),
        ("assert_nothing", "unmeasured", "NameError"),
        ("open('/no/such/file')", "unmeasured", "FileNotFoundError"),
        ("context['prompt']", "unmeasured", "prompt"),
        ("context.get('metadata', {}) == {}", "unmeasured", "metadata"),
        ("context['test'].get('metadata') is None", "unmeasured", "metadata"),
        ("context.get('config', {}) == {}", "pass", "true"),
        ("{'pass': True}", "unmeasured", "not a verdict"),
        ("{'pass': None, 'score': 0, 'reason': 'r'}", "fail", "pass: None"),
    ],
)
def test_python_decides_as_promptfoo_does_or_gives_no_verdict(code: str, outcome: str, words: str):
    got, reason = verdict({"promptfoo_python": code}, inputs={"limit": 3})
    assert (got, words in reason) == (outcome, True), reason


def test_a_threshold_applies_to_numbers_and_scores_of_python():
    graded = "{'pass': True, 'score': 0.5, 'reason': 'half'}"
    assert verdict({"promptfoo_python": {"code": "0.5", "pass_at": 0.6}})[0] == "fail"
    assert verdict({"promptfoo_python": {"code": graded, "pass_at": 0.6}})[0] == "fail"
    assert verdict({"promptfoo_python": {"code": graded, "pass_at": 0.5}})[0] == "pass"


def test_a_file_of_python_is_a_judge(project: Path):
    (project / "asserts/near_words.py").write_text("LEAST = 2\n", encoding="utf-8")
    path = project / "asserts/check.py"
    path.write_text(
        "import asyncio\n"
        "from near_words import LEAST\n\n"
        "def count(output):\n    return len(output.split())\n\n"
        "def get_assert(output, context):\n"
        "    return {'pass': count(output) >= LEAST, 'score': 1, 'reason': context['config']['why']}\n\n"
        "async def later(output, context):\n    await asyncio.sleep(0)\n    return count(output) > 5\n\n"
        "class Checks:\n    def short(output, context):\n        return count(output) < 9\n",
        encoding="utf-8",
    )
    before = [*sys.path]
    judge = promptfoo_python(file="asserts/check.py", config={"why": "two words"})
    assert sys.path == before
    assert str(judge.check_text("one two")) == "pass: two words"
    assert (
        promptfoo_python(file="asserts/check.py", function="later").check_text("x").outcome
        == "fail"
    )
    assert promptfoo_python(file="asserts/check.py:Checks.short").check_text("x").outcome == "pass"
    with pytest.raises(UsageError, match="no function 'missing'"):
        promptfoo_python(file="asserts/check.py:missing")
    path.write_text(
        path.read_text().replace("LEAST", "LEAST + 1").replace("import LEAST + 1", "import LEAST")
    )
    changed = promptfoo_python(file="asserts/check.py", config={"why": "two words"})
    assert changed.digest != judge.digest
    assert changed.check_text("one two").outcome == "fail"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import no_such_package", "No module named 'no_such_package'\n  fix: install the package"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def get_assert(:", "SyntaxError: "),
    ],
)
def test_a_python_file_that_cannot_be_imported_leaves_its_case_unmeasured(
    project: Path, line: str, words: str
):
    (project / "check.py").write_text(
        f"{line}\n\ndef get_assert(output, context):\n    return True\n", encoding="utf-8"
    )
    judge = promptfoo_python(file="check.py")
    with pytest.raises(JudgeError, match=f"check.py cannot be imported: .*{re.escape(words)}"):
        judge.check_text("x")


def test_completions_reach_python_assertions():
    judge = promptfoo_python("context['test']['description'] == " + repr(CASE.id))
    assert judge.check(completion("x"), CASE).outcome == "pass"
