"""Images and PDF files of golden cases: what is sent, recorded, refused and reported."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.served import JsonHandler, Served

if TYPE_CHECKING:
    from tests.conftest import EvalProject

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
PDF = b"%PDF-1.7\n" + bytes(64)


class Vision(Served):
    """A chat endpoint on 127.0.0.1 that keeps the bodies of requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        bodies = self.bodies

        class Handler(JsonHandler):
            def answer(self) -> None:
                bodies.append(self.given())
                message = {"role": "assistant", "content": "a cat"}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
                head = {"id": "c", "object": "chat.completion", "created": 1, "model": "eye"}
                self.say({**head, "choices": [choice], "usage": usage})

        super().__init__(Handler)
        self.base_url = f"{self.address}/v1"


@pytest.fixture
def vision() -> Any:
    with Vision() as served:
        yield served


@pytest.fixture
def shots(live: EvalProject, vision: Vision) -> EvalProject:
    live.use(vision.base_url)
    live.prompt(system="Name the animal.", user="Look: {{shot}} and {{paper}}. Which one?")
    for name, data in (("cat.png", PNG), ("paper.pdf", PDF)):
        path = live.write(f"fixtures/shots/{name}", "")
        path.write_bytes(data)
    inputs = {"shot": {"image": "shots/cat.png"}, "paper": {"pdf": "shots/paper.pdf"}}
    live.golden([{"id": "cat", "inputs": inputs}])
    live.judged_by("contains('cat')")
    return live


def test_an_image_and_a_file_are_parts_of_the_message_and_named_in_reports(
    shots: EvalProject, vision: Vision
):
    shots.run().assert_outcomes(passed=1)
    [body] = vision.bodies
    text = base64.b64encode(PNG).decode()
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "Look: "},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{text}"}},
        {"type": "text", "text": " and "},
        {
            "type": "file",
            "file": {
                "filename": "paper.pdf",
                "file_data": f"data:application/pdf;base64,{base64.b64encode(PDF).decode()}",
            },
        },
        {"type": "text", "text": ". Which one?"},
    ]
    assert shots.command("report", "-o", "report.html").returncode == 0
    written = [*(shots.root / ".regauge/runs").rglob("*.json*"), shots.root / "report.html"]
    written += [*(shots.root / "fixtures/recordings").rglob("*.jsonl")]
    everything = "".join(path.read_text("utf-8") for path in written)
    assert "shots/cat.png" in everything
    assert text[:40] not in everything


def test_other_content_under_the_same_name_is_another_case_and_needs_a_recording(
    shots: EvalProject, vision: Vision
):
    shots.run()
    shots.run("--record=none").assert_outcomes(passed=1)
    (shots.root / "fixtures/shots/cat.png").write_bytes(PNG + b"!")
    assert shots.run("--record=none").parseoutcomes() == {"unmeasured": 1}
    shots.run().assert_outcomes(passed=1)
    assert len(vision.bodies) == 2


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ({"image": "shots/dog.png"}, "there is no file 'shots/dog.png' in the folder 'fixtures'"),
        (
            {"image": "../pyproject.toml"},
            "the file '../pyproject.toml' is not named by its path inside",
        ),
        (
            {"image": "shots/fake.png"},
            "the content of 'shots/fake.png' is not image data of this file type",
        ),
        ({"image": "shots/paper.pdf"}, "the image 'shots/paper.pdf' does not end in .png, .jpg"),
        ({"image": "shots/huge.png"}, "the file 'shots/huge.png' cannot be read"),
    ],
)
def test_a_file_that_is_no_such_attachment_is_an_error_of_its_line(
    shots: EvalProject, vision: Vision, inputs: dict[str, str], error: str
):
    shots.write("fixtures/shots/fake.png", "GIF or not")
    with (shots.root / "fixtures/shots/huge.png").open("wb") as file:
        file.write(PNG)
        file.truncate(21 * 1024 * 1024)
    shots.golden([{"id": "cat", "inputs": {"shot": inputs, "paper": "no paper"}}])
    result = shots.run()
    assert result.ret == 2
    result.stdout.fnmatch_lines([f"*triage.jsonl:1: inputs.shot: {error}*"])
    assert vision.bodies == []


def test_an_attachment_belongs_into_a_message_of_the_user(shots: EvalProject, vision: Vision):
    shots.prompt(system="See {{shot}}", user="{{paper}}")
    result = shots.run()
    assert result.parseoutcomes() == {"unmeasured": 1}
    result.stdout.fnmatch_lines(["*input 'shot' is an attachment in a system message*"])
    assert vision.bodies == []


def test_the_simulated_model_and_endpoints_without_eyes_are_not_asked(
    shots: EvalProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for model, reason in (
        ("sim:clerk-1", "has an attachment, which the simulated model does not read"),
        ("openai:gpt-3.5-turbo", "needs `image`, which openai:gpt-3.5-turbo rejects"),
    ):
        shots.prompt(model=model, user="{{shot}} {{paper}}")
        result = shots.run()
        assert result.parseoutcomes() == {"unmeasured": 1}
        result.stdout.fnmatch_lines([f"*{reason}*"])


def test_a_cell_of_a_table_may_name_an_image(shots: EvalProject, vision: Vision):
    (shots.root / "fixtures/golden/triage.jsonl").unlink()
    cell = json.dumps({"image": "shots/cat.png"}).replace('"', '""')
    shots.write("fixtures/golden/triage.csv", f'id,inputs.shot,inputs.paper\ncat,"{cell}",none\n')
    shots.run().assert_outcomes(passed=1)
    assert vision.bodies[0]["messages"][1]["content"][1]["type"] == "image_url"


HISTORY = """\
name: Triage
version: 1.0.0
model: local:clerk
messages:
  - role: system
    content: Name the animal.
  - history: earlier
  - role: user
    content: "{{text}}"
"""
PARTS = [{"type": "text", "text": "Look: "}, {"image": "shots/cat.png"}]
IMAGE = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"},
}


def test_messages_of_a_history_have_images(shots: EvalProject, vision: Vision):
    shots.write("prompts/triage.prompt.yml", HISTORY)
    earlier: list[Any] = [
        {"role": "user", "content": PARTS},
        {"role": "assistant", "content": "A cat."},
    ]
    case = {"id": "cat", "inputs": {"text": "Sure?", "earlier": earlier}}
    shots.golden([case])
    shots.run().assert_outcomes(passed=1)
    shots.run("--record=none").assert_outcomes(passed=1)
    [body] = vision.bodies
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Look: "}, IMAGE]
    (shots.root / "fixtures/shots/cat.png").write_bytes(PNG + b"!")
    assert shots.run("--record=none").parseoutcomes() == {"unmeasured": 1}

    for content, said in (
        ([{"image": "shots/dog.png"}], "inputs.earlier[[]0[]].content: there is no file"),
        ([{"image_url": "x"}], "the content of message 0 has a part that is neither text nor"),
    ):
        earlier[0]["content"] = content
        shots.golden([case])
        shots.run().stdout.fnmatch_lines([f"*{said}*"])
    earlier[0] = {"role": "assistant", "content": PARTS}
    shots.golden([case])
    shots.run().stdout.fnmatch_lines(["*message 0 has an attachment, and its role is assistant*"])


def test_turns_of_a_conversation_have_images(shots: EvalProject, vision: Vision):
    shots.prompt(system="Name the animal.", user="{{text}}")
    turns = [{}, {"user": ["And this?", {"image": "shots/cat.png"}]}, {"user": "Sure?"}]
    shots.golden([{"id": "cat", "inputs": {"text": "Hello"}, "turns": turns}])
    shots.run().assert_outcomes(passed=1)
    shots.run("--record=none").assert_outcomes(passed=1)
    assert len(vision.bodies) == 3
    for body in vision.bodies[1:]:
        assert body["messages"][3]["content"] == [{"type": "text", "text": "And this?"}, IMAGE]
    rows = "".join(path.read_text() for path in (shots.root / ".regauge/runs").rglob("*.jsonl"))
    assert "And this?[image: shots/cat.png]" in rows
    (shots.root / "fixtures/shots/cat.png").write_bytes(PNG + b"!")
    assert shots.run("--record=none").parseoutcomes() == {"unmeasured": 1}

    shots.golden([{"id": "cat", "inputs": {"text": "Hello"}, "turns": [{"user": [{"x": 1}]}]}])
    refused = shots.run("--record=none")
    refused.stdout.fnmatch_lines(["*triage.jsonl:1: the user of turn 1 is a list, not text*"])


def test_a_target_receives_images_of_turns_as_a_case_names_them(shots: EvalProject, vision: Vision):
    shots.write("app.py", "def answer(messages):\n    return str(messages[-1]['content'])\n")
    shots.eval(
        "from regauge import golden\nfrom regauge.judges import contains\n"
        "@golden('triage', target='app:answer', judges=[contains('shots/cat.png')])\n"
        "def test_triage(result):\n    result.check()\n"
    )
    turns = [{"user": ["What is it?", {"image": "shots/cat.png"}]}]
    shots.golden([{"id": "cat", "inputs": {}, "turns": turns}])
    shots.run().assert_outcomes(passed=1)
    [line] = shots.recordings()
    assert line["completion"]["text"].startswith("['What is it?', {'image': 'shots/cat.png', 'sha")
    assert vision.bodies == []
