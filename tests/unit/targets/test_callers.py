"""Functions, endpoints and programs are called in processes of their own, as a run does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from regauge.datasets import GoldenCase
from regauge.errors import ProviderError, UsageError
from regauge.project import CommandTarget, HttpTarget, PythonTarget
from regauge.targets import find_modules
from regauge.targets._external import CommandCaller, HttpCaller
from regauge.targets._python import PythonCaller, document_of, import_path
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = """\
import asyncio, dataclasses, datetime, enum, os, signal, sys, time
from datetime import date
from pathlib import Path
import words

class Level(enum.Enum):
    HIGH = "high"

@dataclasses.dataclass
class Found:
    level: Level
    day: date

class Model:
    def model_dump(self, mode):
        return {"mode": mode}

def inner():
    raise ValueError("no index")

def stream():
    yield "in "
    yield "parts"

async def astream():
    yield "in "
    yield "time"

async def later():
    await asyncio.sleep(0)
    raise LookupError("no page")

OUTPUTS = {
    "text": lambda: "ä",
    "words": lambda: {"a": "ä"},
    "mapping": lambda: {"level": Level.HIGH, "day": date(2026, 1, 2), "clock": datetime.time(3, 4)},
    "object": lambda: Found(Level.HIGH, date(2026, 1, 2)),
    "model": Model,
    "stream": stream,
    "astream": astream,
    "raise": inner,
    "later": later,
    "set": lambda: {1},
    "class": lambda: Found,
    "inside": lambda: {"a": {1}},
    "nan": lambda: {"a": float("nan")},
    "numbers": lambda: (number for number in [1]),
    "large": lambda: "x" * 10_000_000,
    "full": lambda: "x" * 9_999_900,
    "exit": lambda: sys.exit("enough"),
    "end": lambda: (print("out of memory", flush=True), os._exit(9)),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "sleep": lambda: time.sleep(60),
    "pause": lambda: time.sleep(0.2) or "paused",
    "process": lambda: str(os.getpid()),
    "late": lambda: __import__("late").WORD + Path("data.txt").read_text(),
}

def run(kind):
    return OUTPUTS[kind]()

def of_case(case):
    return f"{type(case).__name__} {case.id} {case.tags!r} {case.expected}"

def no_signature(kind):
    return kind

no_signature.__signature__ = 5
"""


def case_with(**inputs: Any) -> GoldenCase:
    return GoldenCase(id="a", inputs=inputs, expected=7, tags=("x", "y"), split="train")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with the module `app`."""
    root = tmp_path.resolve() / "project"
    root.mkdir()
    (root / "app.py").write_text(APP)
    (root / "words.py").write_text("")
    (root / "late.py").write_text('WORD = "late "')
    (root / "data.txt").write_text("data")
    return root


def call_function(
    root: Path,
    cases: list[GoldenCase],
    *,
    name: str = "app:run",
    timeout_s: float = 20,
    **more: Any,
) -> tuple[list[Any], PythonCaller]:
    """The outputs or errors of calls one after another."""

    async def call() -> list[Any]:
        results: list[Any] = []
        for case in cases:
            try:
                results.append(await caller.call(case, timeout_s=timeout_s))
            except ProviderError as error:
                results.append(error)
        await caller.aclose()
        return results

    options: dict[str, Any] = {"home": root, "width": 2, "import_s": 20.0, **more}
    caller = PythonCaller(name=name, root=root, environ=os.environ, **options)
    return asyncio.run(call()), caller


def test_outputs_and_errors_of_a_function(root: Path):
    outputs: dict[str, Any] = {
        "text": "ä",
        "mapping": {"level": "high", "day": "2026-01-02", "clock": "03:04:00"},
        "object": {"level": "high", "day": "2026-01-02"},
        "model": {"mode": "json"},
        "stream": "in parts",
        "astream": "in time",
        "full": "x" * 9_999_900,
        "late": "late data",
    }
    errors = {
        "raise": (
            "exception",
            "app:run raised an error at app.py:19:\nTraceback (most recent call last):\n",
        ),
        "later": ("exception", "LookupError: no page"),
        "set": ("malformed", "app:run: the function returned set, which is neither text"),
        "class": ("malformed", "app:run: the function returned type, which is neither"),
        "inside": ("malformed", "app:run: the output cannot be written as JSON: set is not a JSON"),
        "nan": ("malformed", "app:run: the output cannot be written as JSON: "),
        "numbers": ("malformed", "app:run: the function streams int, which is not text"),
        "large": (
            "too-large",
            "app:run: the output is larger than 10,000,000 bytes\n  fix: return",
        ),
        "exit": ("exception", "SystemExit: enough"),
        "end": (
            "crash",
            "the process of app:run ended with exit status 9:\nout of memory\n  fix: f",
        ),
        "killed": ("crash", "app:run was ended by SIGKILL:\nit wrote nothing to standard error"),
    }
    found, caller = call_function(root, [case_with(kind=kind) for kind in (*outputs, *errors)])
    assert dict(zip(outputs, found, strict=False)) == outputs
    for kind, error in zip(errors, found[len(outputs) :], strict=True):
        assert error.kind == errors[kind][0], kind
        assert errors[kind][1] in str(error)
    raised = str(found[len(outputs)])
    assert raised.endswith("ValueError: no index\n  fix: correct app.py:19")
    assert "_worker.py" not in raised
    assert caller.late == {"late.py", "data.txt"}


def test_a_call_that_takes_too_long_ends_its_process_and_not_those_of_later_calls(root: Path):
    cases = [case_with(kind=kind) for kind in ("process", "process", "sleep", "process")]
    (first, same, slow, other), _ = call_function(root, cases, timeout_s=0.5)
    assert first == same != other
    assert slow.kind == "timeout"
    assert str(slow).startswith("app:run did not return within 0.5 s\n  fix: raise `timeout_s`")
    with pytest.raises(ProcessLookupError):
        os.kill(int(first), 0)


def test_calls_at_once_share_a_process_and_only_the_one_that_ends_it_fails(root: Path):
    async def call() -> list[Any]:
        caller = PythonCaller(
            name="app:run", root=root, home=root, environ=os.environ, width=2, import_s=20
        )
        await caller.prepare()
        calls = [
            caller.call(case_with(kind=kind), timeout_s=20) for kind in ("pause", "killed", "text")
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        await caller.aclose()
        return results

    paused, killed, text = asyncio.run(call())
    assert (paused, killed.kind, text) == ("paused", "crash", "ä")


def test_a_function_takes_a_case_its_inputs_or_any_name(root: Path):
    inputs = case_with(kind="text")
    assert call_function(root, [inputs], name="app:of_case")[0] == ["GoldenCase a ('x', 'y') None"]
    assert call_function(root, [inputs], name="app:no_signature")[0] == ["text"]
    (error,), _ = call_function(root, [case_with(text="x", kin="y")])
    assert error.kind == "signature"
    assert "takes (kind), and the inputs are text, kin: missing a" in str(error)
    assert str(error).endswith("  fix: let it take the inputs of the case by name")


def test_without_regauge_a_function_takes_a_plain_case(root: Path):
    (root / "regauge.py").write_text("")
    (output,), _ = call_function(root, [case_with()], name="app:of_case")
    assert output == "SimpleNamespace a ['x', 'y'] None"


def test_a_tool_returns_any_json_value_and_wrong_arguments_to_the_model(root: Path):
    cases = [case_with(kind=kind) for kind in ("text", "mapping", "class", "inside", "nan")]
    (text, mapping, *errors, wrong), _ = call_function(root, [*cases, case_with(x=1)], is_tool=True)
    assert text == {"text": "ä"}
    assert json.loads(mapping["text"])["level"] == "high"
    assert "ä" in call_function(root, [case_with(kind="words")], is_tool=True)[0][0]["text"]
    for error in errors:
        assert error.kind == "malformed"
        assert "the result of the tool cannot be written as JSON: " in str(error)
    assert json.loads(wrong["text"])["error"].startswith(
        "the function takes (kind), and the inputs"
    )


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("none:run", "import", "none:run cannot be imported:\n"),
        ("app:rum", "import", "app has no 'rum'; did you mean 'run'?\n  fix: correct the name"),
        ("app:OUTPUTS", "import", "app:OUTPUTS is not callable: dict"),
        ("json:dumps", "outside", "json:dumps was imported from "),
    ],
)
def test_a_function_that_cannot_be_imported_is_explained(
    root: Path, name: str, kind: str, words: str
):
    (error,), _ = call_function(root, [case_with()], name=name)
    assert error.kind == kind
    assert words in str(error)


def test_a_process_that_ends_or_writes_during_the_import_is_explained(root: Path):
    (root / "ends.py").write_text("import os\nos._exit(3)\n")
    (root / "writes.py").write_text("import os\nfor fd in range(3, 9):\n    try:\n        os.write(fd, b'?')\n    except OSError:\n        pass\n\ndef run(): pass\n")  # fmt: skip
    (error,), _ = call_function(root, [case_with()], name="ends:run")
    assert error.kind == "crash"
    assert "ended with exit status 3" in str(error)
    (error,), _ = call_function(root, [case_with()], name="writes:run")
    assert error.kind == "crash"
    assert "the process wrote what cannot be read" in str(error)


def test_an_import_that_takes_too_long_ends_its_process_and_is_awaited_once(root: Path):
    (root / "slow.py").write_text(
        "import os, time\nopen('pid', 'a').write(f'{os.getpid()}\\n')\ntime.sleep(600)\n"
    )

    async def call() -> list[str]:
        caller = PythonCaller(
            name="slow:run", root=root, environ=os.environ, home=root, width=2, import_s=2.0
        )
        errors: list[str] = []
        for _ in range(2):
            with pytest.raises(ProviderError) as caught:
                await caller.call(case_with(), timeout_s=20)
            errors.append(str(caught.value))
        (process,) = map(int, (root / "pid").read_text().split())
        async with asyncio.timeout(10):
            with suppress(ProcessLookupError):
                while True:
                    os.kill(process, 0)
                    await asyncio.sleep(0.02)
        await caller.aclose()
        return errors

    first, second = asyncio.run(call())
    assert first.startswith("slow:run was not imported within 2 s\n  fix: ")
    assert second == first


CLOSED = """\
import os, shutil, sqlite3, subprocess
from pathlib import Path

WAYS = {{
    "text": lambda: Path("fixtures/golden/a.jsonl").read_text(),
    "bytes": lambda: open(b"fixtures/golden/a.jsonl"),
    "write": lambda: Path("fixtures/baselines/a.json").write_text("x"),
    "link": lambda: Path("faq.jsonl").read_text(),
    "home": lambda: Path({home!r}, "fixtures/golden/a.jsonl").read_text(),
    "store": lambda: sqlite3.connect(".regauge/store.sqlite3"),
    "copy": lambda: shutil.copy("fixtures/recordings/a.jsonl", "copied"),
    "program": lambda: subprocess.run(["git", "show", "HEAD:fixtures/golden/a.jsonl"]),
    "address": lambda: sqlite3.connect("file:.regauge/store.sqlite3?mode=rwc", uri=True),
    "shell": lambda: os.system("cat fixtures/labels/a.jsonl"),
    "open": lambda: Path("fixtures/sources/a.txt").read_text(),
    "other": lambda: subprocess.run(["true", "my.regauge/a", "fixtures/golden-rules/a", "--exclude=.regauge", "app/fixtures/golden/a"]).returncode,
}}


def run(way):
    try:
        return str(WAYS[way]())
    except OSError:
        return "nothing"
"""


def test_what_only_judges_may_read_stays_closed(root: Path, tmp_path: Path):
    """A function may catch the error; no output of its process counts after that."""
    home = tmp_path / "home"
    for top in (root, home):
        for directory in ("golden", "recordings", "baselines", "labels", "sources"):
            (top / "fixtures" / directory).mkdir(parents=True)
        (top / "fixtures/golden/a.jsonl").write_text("{}")
        (top / "fixtures/recordings/a.jsonl").write_text("{}")
    (root / "fixtures/sources/a.txt").write_text("source")
    (root / "faq.jsonl").symlink_to("fixtures/golden/a.jsonl")
    (root / "closed.py").write_text(CLOSED.format(home=str(home)))
    open_ways = [case_with(way="open"), case_with(way="other")]
    assert call_function(root, open_ways, name="closed:run")[0] == ["source", "0"]
    ways = [
        "text",
        "bytes",
        "write",
        "link",
        "home",
        "store",
        "copy",
        "program",
        "address",
        "shell",
    ]
    for way in ways:
        cases = [case_with(way=way), case_with(way="open")]
        results, _ = call_function(root, cases, name="closed:run", home=home)
        assert [error.kind for error in results] == ["closed", "closed"], way
        assert "which only judges may read\n  fix: keep data" in str(results[0])
    (root / "early.py").write_text(
        "GOLDEN = open('fixtures/golden/a.jsonl').read()\n\ndef run(): ...\n"
    )
    (error,), _ = call_function(root, [case_with()], name="early:run")
    assert str(error).startswith("early:run opens fixtures/golden/a.jsonl, which only judges may")


def test_the_modules_of_an_import_are_found_in_another_process(root: Path):
    def modules(name: str) -> list[str]:
        target = PythonTarget(callable=name, deadline_s=20)
        return find_modules(target, root=root, environ=os.environ)

    (root / "ends.py").write_text("import os\nos.write(3, b'?')\nos.write(4, b'?')\nos._exit(3)\n")
    assert modules("app:run") == ["app.py", "words.py"]
    assert modules("none:run") == []
    assert modules("ends:run") == []


def test_a_function_receives_the_case_without_checks_and_expected_value(root: Path):
    case = GoldenCase(
        id="a", inputs={"x": 1}, expected=2, tags=("t",), tier="critical", split="holdout",
        source="s", licence="l", location="f:1", note="n", checks=("c",),
    )  # fmt: skip
    assert document_of(case) == {
        "id": "a", "inputs": {"x": 1}, "expected": None, "tags": ("t",), "tier": "critical",
        "split": "holdout", "source": "s", "licence": "l", "location": "f:1", "note": "n",
    }  # fmt: skip
    assert call_function(root, [case], name="app:of_case")[0] == ["GoldenCase a ('t',) None"]


def test_the_import_path_is_that_of_the_directory_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home, other = tmp_path / "home", tmp_path / "other"
    for name in ("home/src", "home/lib", "home/only", "other/src", "other/lib"):
        (tmp_path / name).mkdir(parents=True)
    entries = [str(home / "lib"), str(home / "only"), "/elsewhere"]
    monkeypatch.setattr(sys, "path", entries)
    assert import_path(home, home) == [str(home), str(home / "src"), *entries]
    assert import_path(other, home) == [
        str(other), str(other / "src"), str(other / "lib"), str(home / "only"), "/elsewhere",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "path", [str(other), *entries])
    assert import_path(other, home)[:2] == [str(other / "src"), str(other)]


class Endpoint(JsonHandler):
    """Answers with the body, or with the bytes that the path names."""

    def answer(self) -> None:
        given = self.given()
        match self.path.partition("?")[0]:
            case "/latin":
                self.say("größe".encode("latin-1"))
            case "/marked":
                self.say(b"\xef\xbb\xbfHi.")
            case "/teapot":
                self.say(b"Short.", status=418)
            case "/page":
                self.say(b"<html>")
            case "/list":
                self.say([1])
            case _:
                self.say({"method": self.command, "path": self.path, "given": given})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Served(Endpoint) as served:
        yield served.address


def call_endpoint(url: str, inputs: dict[str, Any] | None = None, **settings: Any) -> Any:
    target = HttpTarget(url=url, **settings)
    caller = HttpCaller("shop", target, environ={"KEY": "a key"})
    return asyncio.run(caller.call(case_with(**inputs or {}), timeout_s=20))


def test_the_request_is_filled_with_inputs(address: str):
    inputs = {"a": "x y/ü", "n": 2, "list": [1]}
    request = json.loads(call_endpoint(f"{address}/{{{{ a }}}}/{{{{n}}}}", inputs))
    assert request == {"method": "POST", "path": "/x%20y%2F%C3%BC/2", "given": inputs}
    body = {"q": "{{n}}", "all": ["{{list}}", "is {{a}}: {{n}}.", 5, None, "{{open"], "m": "{{n}}!"}
    request = json.loads(call_endpoint(address, inputs, body=body, method="PATCH"))
    assert request["method"] == "PATCH"
    assert request["given"] == {
        "q": 2,
        "all": [[1], "is x y/ü: 2.", 5, None, "{{open"],
        "m": "2!",
    }
    request = json.loads(call_endpoint(address, inputs, method="GET"))
    assert (request["method"], request["given"]) == ("GET", None)
    with pytest.raises(ProviderError, match=r"no input 'm'; it has a, n, list\n  fix: correct"):
        call_endpoint(f"{address}/{{{{m}}}}", inputs)


def test_the_parts_of_a_response_are_read_at_their_paths(address: str):
    pages = [{"parts": [{"t": "a"}, {"t": "b"}]}, {"parts": [{"t": "c"}]}]
    inputs = {"pages": pages, "price": 0.5, "text": {"a": 1}, "tokens": {"input_tokens": 3}}

    def read(**paths: str) -> Any:
        return call_endpoint(address, inputs, **paths)

    assert read(context="$.given.pages[*].parts[*].t")["context"] == ["a", "b", "c"]
    assert read(context="$.given.pages[*].parts")["context"] == [page["parts"] for page in pages]
    assert read(text="$.given.text", cost="$.given.price", usage="$.given.tokens") == {
        "text": '{"a": 1}',
        "cost_usd": 0.5,
        "usage": {"input_tokens": 3},
    }
    assert json.loads(read(cost="$.given.price")["text"])["method"] == "POST"
    assert read(messages="$.given.pages") == {"messages": pages}
    for path in ("$.given.price[*]", "$.method[*].x", "$.given.pages[*].none", "$.given.none"):
        with pytest.raises(ProviderError) as caught:
            read(context=path)
        assert caught.value.kind == "malformed"
        assert f"the response has no {path}; it has method, path, given: '{{" in str(caught.value)
        assert str(caught.value).endswith("correct `context` of the target shop in pyproject.toml")
    with pytest.raises(ProviderError, match=r"the response has no \$\.x: '\[1\]'"):
        call_endpoint(f"{address}/list", text="$.x")


def test_a_response_is_text_unless_a_path_is_set(address: str):
    assert call_endpoint(f"{address}/marked") == "Hi."
    assert call_endpoint(f"{address}/teapot", status=[418]) == "Short."
    with pytest.raises(ProviderError, match="status 418"):
        call_endpoint(f"{address}/teapot")
    for path, settings, words in (
        ("latin", {}, "the response is not UTF-8: "),
        ("page", {"text": "$.a"}, "the response is not JSON: "),
    ):
        with pytest.raises(ProviderError) as caught:
            call_endpoint(f"{address}/{path}", **settings)
        assert caught.value.kind == "malformed"
        assert f"{address}/{path}: {words}" in str(caught.value)
        assert "\n  fix: correct `url`: it responds with one JSON document" in str(caught.value)


def test_a_path_that_cannot_be_read_is_named_with_its_setting():
    with pytest.raises(UsageError, match=r"^pyproject.toml: tool.regauge.targets.shop.cost: "):
        HttpCaller("shop", HttpTarget(url="http://a/", cost="$.a["), environ={})


def call_program(root: Path, *argv: str, **environ: str) -> Any:
    async def call() -> Any:
        settings = CommandTarget(argv=list(argv), env=["KEY", "URL?"])
        caller = CommandCaller(settings, root=root, environ={"KEY": "k", **environ})
        try:
            return await caller.call(case_with(text="ü"), timeout_s=20)
        finally:
            await caller.aclose()

    return asyncio.run(call())


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("cat", {"text": "ü"}),
        ("echo '  Hi. '", "Hi."),
        ('printf \'\\357\\273\\277{"text": "Hi."}\'', {"text": "Hi."}),
        ("echo '[1, 2]'", "[1, 2]"),
        ("echo '{\"a\": 1'", '{"a": 1'),
        ('echo "$KEY $URL$OTHER"; pwd', "k u\n{root}"),
        ('echo "$(basename "$0") $1"', "sh $(touch x)"),
    ],
)
def test_a_program_reads_the_inputs_and_writes_the_output(root: Path, script: str, output: Any):
    environ = {"PATH": os.environ["PATH"], "URL": "u", "OTHER": "o"}
    found = call_program(root, "sh", "-c", script, "sh", "$(touch x)", **environ)
    expected = output.replace("{root}", str(root)) if isinstance(output, str) else output
    assert found == expected
    assert not (root / "x").exists()


@pytest.mark.parametrize(
    ("argv", "kind", "words"),
    [
        (
            ["sh", "-c", "printf '\\377'"],
            "malformed",
            "the command wrote what is not UTF-8: 'utf-8'",
        ),
        (
            ["sh", "-c", "echo"],
            "malformed",
            "wrote nothing to standard output\n  fix: write the out",
        ),
        (["sh", "-c", "kill -9 $$"], None, "the command was ended by SIGKILL"),
        (["sh", "-c", "echo no index >&2; exit 3"], None, "failed with exit status 3: no index"),
        (
            ["./broken"],
            None,
            "failed with exit status 127: ./broken cannot be started: Exec format error",
        ),
        (
            ["./app.py"],
            "not-found",
            "'./app.py' is not executable\n  fix: make it so with chmod +x",
        ),
        (["none-such"], "not-found", "the program 'none-such' is not found\n  fix: correct `argv`"),
        (["./none"], "not-found", "the program './none' is not found\n  fix: correct `argv`"),
    ],
)
def test_a_program_that_gives_no_output_is_explained(
    root: Path, argv: list[str], kind: str | None, words: str
):
    (root / "broken").write_bytes(b"\x7fELF")
    (root / "broken").chmod(0o755)
    with pytest.raises(ProviderError) as caught:
        call_program(root, *argv, PATH=os.environ["PATH"])
    assert kind is None or caught.value.kind == kind
    assert words in str(caught.value)
