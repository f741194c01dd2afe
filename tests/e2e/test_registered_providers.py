"""A provider that another package registers: the example package, as pip installs it."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.test_plugin_records import NO_SOCKETS
from tests.place import Place
from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "examples" / "gateway-provider"
PROMPT = """\
version: 1.0.0
model: house:small
inputs: {text: {}}
messages:
  - role: user
    content: "Shout: {{text}}"
"""
EVAL = """\
from regauge import golden
from regauge.judges import contains

@golden("shout", judges=[contains("DISK")])
def test_shout(result):
    result.check()
"""
SETTINGS = """\
[tool.pytest.ini_options]
addopts = ["-p", "no:deepeval"]

[tool.regauge.providers.house]
api = "gateway"
base_url = "{url}"
api_key_env = "GATEWAY_TOKEN"
options = {{ team = "on-call" }}
prices = {{ small = {{ input_per_million = 1.0, output_per_million = 2.0 }} }}
"""


class Gateway(Served):
    """The gateway of the example; every third request is refused."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.heads: list[str] = []
        gateway = self

        class Handler(JsonHandler):
            def answer(self) -> None:
                gateway.asked.append(asked := self.given())
                gateway.heads.append(self.headers["Authorization"])
                if len(gateway.asked) % 3 == 0:
                    self.say({"error": "busy"}, status=429, headers={"retry-after": "0"})
                    return
                words = asked["turns"][-1]["text"].upper()
                self.say({"output": words, "tokens": {"in": 1000, "out": 100}})

        super().__init__(Handler)


def install(site: Path) -> None:
    """What pip leaves of the example package: its module and its entry points."""
    declared = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    info = site / f"{declared['name'].replace('-', '_')}-{declared['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: {declared['version']}\n"
    )
    lines = [
        line
        for group, points in declared["entry-points"].items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    shutil.copy(SOURCE / "regauge_gateway.py", site)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("prompts/shout.prompt.yml", PROMPT)
    place.write("evals/test_shout.py", EVAL)
    cases = [{"id": f"c{n}", "inputs": {"text": f"disk {n}"}} for n in range(6)]
    place.write("fixtures/golden/shout.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    return place


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as served:
        yield served


def evals(place: Place, *arguments: str, installed: bool = True) -> Any:
    site = place.root / "site"
    if installed and not site.exists():
        install(site)
    environment = {"PYTHONPATH": str(site)} if installed else {}
    return place.process(
        "pytest", "evals", "-q", *arguments, GATEWAY_TOKEN="tok-12345", **environment
    )


def test_the_example_package_is_retried_priced_recorded_and_replayed(
    place: Place, gateway: Gateway
):
    place.write("pyproject.toml", SETTINGS.format(url=gateway.address))
    done = evals(place, "--record=missing")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
    assert len(gateway.asked) == 8
    assert gateway.asked[0]["team"] == "on-call"
    assert set(gateway.heads) == {"Token tok-12345"}
    (file,) = (place.root / "fixtures" / "recordings").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    answers = [line["completion"] for line in lines if "completion" in line]
    assert {answer["provider"] for answer in answers} == {"house"}
    assert {answer["cost_usd"] for answer in answers} == {0.0012}
    gateway.stop()
    place.write("conftest.py", NO_SOCKETS)
    done = evals(place, "--record=none")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_package_that_is_not_installed_is_named(place: Place, gateway: Gateway):
    place.write("pyproject.toml", SETTINGS.format(url=gateway.address))
    done = evals(place, "--record=missing", installed=False)
    assert done.returncode != 0
    assert "api = 'gateway' is neither an API that regauge speaks nor an entry point" in done.stdout
    assert "install the package that registers 'gateway'" in done.stdout
    assert "6 passed" not in done.stdout


@pytest.mark.parametrize("attributes", ["", "    local = True\n"], ids=["remote", "local"])
def test_a_provider_that_breaks_leaves_its_cases_unmeasured(
    place: Place, gateway: Gateway, attributes: str
):
    place.write("pyproject.toml", SETTINGS.format(url=gateway.address))
    site = place.root / "site"
    install(site)
    module = site / "regauge_gateway.py"
    text = module.read_text().replace("document = response.json()", 'raise KeyError("missing")')
    module.write_text(text.replace("    def __init__", f"{attributes}    def __init__", 1))
    done = evals(place, "--record=missing")
    assert done.returncode == 1
    assert "6 unmeasured" in done.stdout
    assert "raised KeyError: 'missing'" in done.stdout
