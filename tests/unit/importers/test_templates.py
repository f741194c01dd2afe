"""Templates of other tools: what is rendered, split into inputs, or refused."""

from __future__ import annotations

import pytest

from regauge.importers._templates import TemplateError, render, split_template, variables_of

VALUES = {
    "name": "Ada",
    "none": None,
    "yes": True,
    "n": 3,
    "words": ["a", "b"],
    "mixed": ["a", {"k": 1}],
    "rows": [{"k": "x"}, {"k": "y"}, {"other": 1}],
    "table": {"k": "ä"},
    "lines": "a\nb",
}


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("{{ name }}, {{ none }}{{ missing.part }}.", "Ada, ."),
        ("{{ yes }} {{ n }}", "true 3"),
        ("{{ words }} {{ mixed }} {{ table }}", 'a,b ["a",{"k":1}] {"k":"ä"}'),
        ("{{ table | dump }}|{{ table | dump(1) }}", '{"k":"ä"}|{\n "k": "ä"\n}'),
        ("{{ words | join }} {{ words | join('; ') }}", "ab a; b"),
        ("{{ rows | join('-', 'k') }}{{ none | join }}", "x-y-"),
        ("{{ name | replace('A', 'E') }} {{ n | replace(3, 4) }}", "Eda 4"),
        ("{{ 'aaa' | replace('a', 'b', 2) }}", "bba"),
        ("{{ lines | nl2br }}", "a<br />\nb"),
        ("{% if n === 3 %}a{% elseif n !== 4 %}b{% else %}c{% endif %}", "a"),
        ("{% if n == 4 %}a{% else if n !== 4 %}b{% else %}c{% endif %}", "b"),
        ("{# {{ n === 3 }} #}x", "x"),
        ("{% for a, b in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}", "12"),
        ("{% for i in range(3) %}{{ i }}{% endfor %}\n", "012\n"),
        ("{% set x = n %}{{ x }}", "3"),
    ],
)
def test_a_template_is_rendered_as_nunjucks_does(source: str, output: str):
    assert render(source, VALUES) == output


LOOP = "{% for i in range(99999) %}"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("{% include 'x' %}", "it uses 'include'"),
        ("{% macro m() %}{% endmacro %}", "it uses 'macro'"),
        ("{{ 2 ** 9 }}", "it uses 'pow'"),
        ("{{ 'a' * 9 }}", "it uses 'mul'"),
        ("{{ '%s' % 9 }}", "it uses 'mod'"),
        ("{% block b %}{% endblock %}", "it uses 'block'"),
        ("{% set x = name ~ name %}", "joins texts in `set`"),
        ("{% set x = name + name %}", "joins texts in `set`"),
        ("{{ " + " ~ ".join(["name"] * 1001) + " }}", "joins too many texts"),
        ("{{ name.upper() }}", "calls a function or method"),
        ("{{ cycler('a') }}", "calls a function or method"),
        ("{{ name | pprint }}", "it uses the filter 'pprint'"),
        ("{% for a in words recursive %}{% endfor %}", "recursive loop"),
        ("{% for i in range(9999999) %}{% endfor %}", "a range is longer than"),
        (f"{LOOP}{LOOP}{LOOP}x{'{% endfor %}' * 3}", "steps|range"),
        ("{% if %}", "Expected|expected"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deeply|more than"),
        ("x" * 3_000_000, "it has more than"),
        ("{{n}}" * 20_000, "it has more than"),
    ],
)
def test_what_costs_too_much_or_runs_code_is_refused(source: str, error: str):
    with pytest.raises(TemplateError, match=error):
        render(source, VALUES)


@pytest.mark.parametrize(
    ("source", "size", "error"),
    [
        ("{{ big }}", 20_000_000, "its values have more than"),
        ("{{ big }}{{ big }}{{ big }}", 1_500_000, "its output is longer than"),
        ("{{ big | nl2br }}", 1_000_000, "a text is longer than"),
        ("{{ big | replace('', 'xxxxxxxxx') }}", 1_000_000, "a text is longer than"),
    ],
)
def test_values_and_outputs_have_a_limit(source: str, size: int, error: str):
    with pytest.raises(TemplateError, match=error):
        render(source, {"big": "x" * size})


@pytest.mark.parametrize(
    ("source", "text", "computed"),
    [
        ("Hi {{ name }}.", "Hi {{name}}.", {}),
        ("{{ a.b }} {{a.b}} {{ a.b }}", "{{a.b}} {{a.b}} {{a.b}}", {"a.b": "{{ a.b }}"}),
        ("{{ x | upper }}, {{ x | upper }}", "{{part_1}}, {{part_1}}", {"part_1": "{{ x | upper }}"}),
        ("a {{- name -}} b", "a{{name}}b", {}),
        ("{# note #}a", "a", {}),
        ("{{ x | upper }} {{part_1}}", "{{part}}", {"part": "{{ x | upper }} {{part_1}}"}),
        ("{% if a %}{{ b }}{% endif %}{{ c }}", "{{part_1}}{{c}}", {"part_1": "{% if a %}{{ b }}{% endif %}"}),
        ("x {% set a = 1 %} {{ a }}", "x {{part_1}}", {"part_1": "{% set a = 1 %} {{ a }}"}),
        ("{% raw %}{{ b }}{% endraw %}", '{{"{{"}} b }}', {}),
        ("{% if a %}{% raw %}{% endif %}{% endraw %}{% endif %}z", "{{part_1}}z", {"part_1": "{% if a %}{% raw %}{% endif %}{% endraw %}{% endif %}"}),
        ("a\r\nb\rc", "a\nb\nc", {}),
        ("{{ env.x }} {{ env.x }}", "{{env.x}} {{env.x}}", {"env.x": "{{ env.x }}"}),
    ],
)  # fmt: skip
def test_a_template_keeps_plain_inputs_and_computes_the_rest(source, text, computed):
    split = split_template(source)
    assert split.text == text
    assert split.computed == computed


def test_the_variables_of_a_template_are_those_that_it_reads():
    assert variables_of("{% for x in xs %}{{ x }}{{ y === z }}{% endfor %}{# {{ c }} #}") == {
        "xs", "y", "z",
    }  # fmt: skip
    with pytest.raises(TemplateError):
        variables_of("{% if %}")
