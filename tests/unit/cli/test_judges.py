"""What `regauge judges list` shows of a judge."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from regauge.cli import group


def listed(*arguments: str) -> str:
    done = CliRunner().invoke(group, ["judges", "list", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "contains_all",
            [
                "contains_all(*texts, ignore_case=False, whole_word=False, field=None)",
                "    The output contains all of these texts; the score is the share it contains.",
                "      *texts: The texts.",
                "      ignore_case: Ignore case, by Unicode case folding. (default False)",
                "      whole_word: Match whole words only. (default False)",
                "      field: Judge this part of a JSON output.",
                "1 judge",
            ],
        ),
        (
            "no-such-judge",
            [
                "0 judges",
                "no judge has 'no-such-judge' in its name or summary: `regauge judges list` lists all",
            ],
        ),
    ],
)
def test_a_judge_is_shown_with_its_parameters_and_their_defaults(name: str, lines: list[str]):
    assert listed(name).splitlines() == lines


def test_judges_are_found_by_name_and_summary_in_any_case():
    shown = listed("Langdetect")
    assert "detected_language(language, *, field=None)\n" in shown
    assert "    install: pip install 'regauge[text]'\n" in shown
    names = [judge["name"] for judge in json.loads(listed("--json"))]
    assert names == sorted(names)
    assert {"contains", "detected_language"} < {*names}
    assert {judge["name"] for judge in json.loads(listed("langdetect", "--json"))} < {*names}


def test_an_output_of_a_file_has_no_latency(tmp_path):
    output = tmp_path / "output.txt"
    output.write_text("It is done.")
    done = CliRunner().invoke(group, ["judges", "try", "max_latency_s: 1", str(output)])
    assert "the latency is unknown: a batch, or a text alone" in done.output


def test_an_output_that_windows_saved_is_read_without_its_mark(tmp_path):
    output = tmp_path / "output.json"
    output.write_bytes(b'\xef\xbb\xbf{"kind":\r\n "bug"}\r\n')
    done = CliRunner().invoke(group, ["judges", "try", "json_parses", str(output)])
    assert done.output.startswith("json_parses: pass")


@pytest.mark.parametrize(
    ("document", "judge", "said"),
    [
        ({"text": "hi", "finish_reason": "length"}, "equals: hi", "pass"),
        ({"text": "hi", "usage": {"input_tokens": 1}}, "equals: hi", "pass"),
        ({"text": "hi", "latency_s": 5}, "max_latency_s: 1", "abstain: 5 s"),
        ({"text": "hi", "finish_reason": "stop"}, "max_latency_s: 1", "the latency is unknown"),
        (
            {"case": "a", "digest": "0", "completion": {"text": "hi", "finish_reason": "stop"}},
            "equals: hi",
            "pass",
        ),
        ({"text": "hi", "kind": "bug"}, "field_in: [kind, [bug]]", "pass"),
        ({"text": "hi"}, "field_in: [text, [hi]]", "pass"),
        ({"text": 3, "latency_s": 5}, "equals: hi", "cannot be read"),
        ({"text": "hi", "latency_s": "x"}, "max_latency_s: 1", "cannot be read"),
    ],
)
def test_a_completion_is_read_from_what_is_known_of_it(tmp_path, document, judge, said):
    output = tmp_path / "output.json"
    output.write_text(json.dumps(document))
    done = CliRunner().invoke(group, ["judges", "try", judge, str(output)])
    assert said in done.output + str(done.exception), done.output
