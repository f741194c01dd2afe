"""Templates of Handlebars, translated and rendered: what Handlebars itself makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from regauge.importers._handlebars import to_jinja
from regauge.importers._templates import TemplateError, render

VALUES: dict[str, Any] = {
    "name": "Ada",
    "unit": "ms",
    "n": 2,
    "yes": True,
    "no": False,
    "none": [],
    "xs": [{"name": "a", "tags": ["p", "q"]}, {"name": "b", "tags": []}],
    "words": ["one", "two", "three"],
    "user": {"name": "Bob", "home": {"city": "Rome"}},
}
ROWS = [
    ("Hi {{name}}!", "Hi Ada!"),
    (r"Write \{{name}} or \{{{n}}}, {{name}}", "Write {{name}} or {{{n}}}, Ada"),
    (r"C:\\{{name}} and C:\x {{name}}", "C:\\Ada and C:\\x Ada"),
    ("{{user.name}} of {{user.home.city}}", "Bob of Rome"),
    ("{{{name}}}{{! a note }}{{!-- {{name}} --}}.", "Ada."),
    ("{{#if yes}}a{{else}}b{{/if}}{{#if no}}c{{else}}d{{/if}}", "ad"),
    ("{{#if no}}a{{else if yes}}b{{else}}c{{/if}}", "b"),
    ("{{#if none}}a{{else}}b{{/if}}", "b"),
    ("{{#unless no}}a{{/unless}}{{#unless yes}}b{{/unless}}", "a"),
    ("{{#each words}}{{this}} {{/each}}", "one two three "),
    ("{{#each words}}{{@index}}{{#unless @last}},{{/unless}}{{/each}}", "0,1,2"),
    ("{{#each words}}{{#if @first}}[{{/if}}{{.}}{{/each}}", "[onetwothree"),
    ("{{#each xs}}{{name}}{{this.name}}{{./name}} {{/each}}", "aaa bbb "),
    ("{{#each xs}}{{name}}{{../unit}}{{@root.unit}} {{/each}}", "amsms bmsms "),
    ("{{#each xs}}{{#each tags}}{{../name}}{{this}}{{../../name}} {{/each}}{{/each}}", "apAda aqAda "),
    ("{{#each xs}}{{#each tags}}{{this}}{{/each}}{{name}} {{/each}}{{name}}", "pqa b Ada"),
    ("{{#with user}}{{name}} {{home.city}} {{../name}}{{/with}} {{name}}", "Bob Rome Ada Ada"),
    ("{{#with user}}{{#with home}}{{city}} {{../name}}{{/with}}{{/with}}", "Rome Bob"),
    ("{{user/home/city}}", "Rome"),
    ('{{json words}} {{"a text"}}', '["one","two","three"] a text'),
    ("{% if yes %} {# kept #} {{n}}", "{% if yes %} {# kept #} 2"),
    ("{{> line who=name}}, {{> line who=user.name}}, {{> line who='x'}}", "<Ada>, <Bob>, <x>"),
    ("{{#each words}}{{> line who=this}}{{/each}}", "<one><two><three>"),
    ("{{#each xs}}{{> tags who=name}}{{/each}}", "a:pa,qa, b: "),
    ("{{> deep who=user}}", "Rome"),
]  # fmt: skip
PARTIALS = {
    "line": "<{{who}}>",
    "tags": "{{who}}:{{#each tags}}{{this}}{{../who}},{{/each}} ",
    "deep": "{{who.home.city}}",
    "endless": "{{> endless}}",
}


@pytest.mark.parametrize(("template", "output"), ROWS)
def test_a_template_says_what_it_says_in_handlebars(template: str, output: str):
    translated = to_jinja(template, partial=PARTIALS.__getitem__)
    assert render(translated, VALUES) == output


@pytest.mark.parametrize(
    ("template", "error"),
    [
        ("{{#if yes}}a", "{{#if}} has no end"),
        ("{{#each words}}{{#if yes}}{{/each}}{{/if}}", "{{/each}} ends no block"),
        ("a{{/if}}", "{{/if}} ends no block"),
        ("{{else}}", "{{else}} is in no condition"),
        ("{{#with user}}{{else}}{{/with}}", "{{else}} is in no condition"),
        ("{{lookup xs 0}}", "the helper {{lookup xs 0}} has no counterpart"),
        ("{{#repeat 3}}{{/repeat}}", "the block {{#repeat 3}} has no counterpart"),
        ("{{#if yes no}}{{/if}}", "the block {{#if yes no}} has no counterpart"),
        ("{{#each words as |word|}}{{/each}}", "has no counterpart"),
        ("{{> endless}}", "the partial 'endless' is not read"),
        ("{{> line user}}", "the partial 'line' gets another context"),
        ("{{xs.[0].name}}", "has no counterpart"),
    ],
)
def test_what_has_no_counterpart_is_named(template: str, error: str):
    with pytest.raises(TemplateError) as caught:
        to_jinja(template, partial=PARTIALS.__getitem__)
    assert error in str(caught.value)


def test_partials_that_nobody_reads_and_helpers_of_a_format():
    with pytest.raises(TemplateError, match="the partial 'line' is not read"):
        to_jinja("{{> line who=name}}")
    translated = to_jinja(
        "{{role 'user'}}{{name}}", helper=lambda mark: "" if mark.startswith("role ") else None
    )
    assert render(translated, VALUES) == "Ada"
