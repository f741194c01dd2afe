"""Templates of Handlebars and Mustache, translated to Jinja."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from regauge.importers._templates import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_DEPTH_MAX: Final = 10
_MARKS: Final = re.compile(
    r"\{\{!--.{0,20000}?--\}\}|\{\{\{([^{}]{0,2000})\}\}\}|\{\{~?([^{}]{0,2000}?)~?\}\}", re.DOTALL
)
_OWN_LINE: Final = re.compile(
    r"^[ \t]*(\{\{~?(?:[#/!>]|else\b)[^{}\n]{0,2000}\}\})[ \t]*\n", re.MULTILINE
)
_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_WORD: Final = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s=]+(?:=(?:\"[^\"]*\"|'[^']*'|\S+))?")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?|true|false")
_LOOP: Final = {"@index": "loop.index0", "@first": "loop.first", "@last": "loop.last"}
_TESTS: Final = {"ifEquals": "==", "unlessEquals": "!="}


def to_jinja(
    text: str,
    *,
    partial: Callable[[str], str] | None = None,
    helper: Callable[[str], str | None] | None = None,
) -> str:
    r"""Translate a template.

    Args:
        partial: Called with the name of each partial; returns its text.
        helper: Called with each mark; returns its replacement, or None to translate it.

    Raises:
        TemplateError: A helper or a path has no counterpart.

    >>> to_jinja("{{#each xs}}- {{name}} {{../unit}}{{/each}}{{#unless xs}}none{{/unless}}")
    '{% for item1 in xs %}- {{ item1.name }} {{ unit }}{% endfor %}{% if not xs %}none{% endif %}'
    """
    return _TemplateTranslation(partial=partial, helper=helper).translate(text, {}, 0)


# The arguments of partials by scope and name: they are values of the scope that includes them.
_Arguments: TypeAlias = "Mapping[tuple[int, str], str]"


@dataclass(slots=True, kw_only=True)
class _TemplateTranslation:
    partial: Callable[[str], str] | None
    helper: Callable[[str], str | None] | None
    _scopes: list[str] = field(default_factory=lambda: [""])
    _open: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def translate(self, text: str, names: _Arguments, depth: int) -> str:
        """Translate a text; `names` maps arguments of partials to expressions."""
        depth_before = len(self._open)
        parts: list[str] = []
        position = 0
        text = _OWN_LINE.sub(r"\1", text)
        for match in _MARKS.finditer(text):
            before = text[position : match.start()]
            position = match.end()
            if before.endswith("\\") and not before.endswith("\\\\"):  # an escaped mark
                parts.append(f"{_without_marks(before[:-1])}{{% raw %}}{match[0]}{{% endraw %}}")
                continue
            parts.append(_without_marks(before.removesuffix("\\")))
            inner = match[1] or match[2]
            if inner is not None and not inner.startswith("!"):
                parts.append(self._mark(inner.strip(), names, depth))
        if len(self._open) != depth_before:
            raise TemplateError(f"{{{{#{self._open[-1][0]}}}}} has no end")
        return "".join([*parts, _without_marks(text[position:])])

    def _mark(self, inner: str, names: _Arguments, depth: int) -> str:
        replacement = self.helper(inner) if self.helper else None
        if replacement is not None:
            return replacement
        kind, rest = inner[:1], inner[1:].strip()
        if kind == ">":
            return self._include(rest, names, depth)
        if kind == "#":
            return self._begin(rest, names)
        return self._end(rest) if kind == "/" else self._insert(inner, names)

    def _end(self, word: str) -> str:
        if not self._open or self._open[-1][0] != word:
            raise TemplateError(f"{{{{/{word}}}}} ends no block")
        _, end = self._open.pop()
        if word in {"each", "with"}:
            self._scopes.pop()
        return end

    def _insert(self, inner: str, names: _Arguments) -> str:
        words = _WORD.findall(inner)
        if words[:1] == ["else"]:
            if not self._open or self._open[-1][0] == "with":
                raise TemplateError("{{else}} is in no condition")
            test = f"elif {self._value(words[2], names)}" if len(words) == 3 else "else"  # noqa: PLR2004 - else if x
            return f"{{% {test} %}}"
        if len(words) > 1 and words[0] == "json":
            return f"{{{{ {self._value(words[1], names)} | dump }}}}"
        if len(words) != 1:
            raise TemplateError(f"the helper {{{{{inner}}}}} has no counterpart")
        value = self._value(words[0], names)
        return str(json.loads(value)) if value.startswith('"') else f"{{{{ {value} }}}}"

    def _begin(self, inner: str, names: _Arguments) -> str:
        word, *rest = _WORD.findall(inner) or [""]
        values = [self._value(word, names) for word in rest]
        if word in {"if", "unless"} and len(values) == 1:
            self._open.append((word, "{% endif %}"))
            return f"{{% if {'not ' if word == 'unless' else ''}{values[0]} %}}"
        if word in _TESTS and len(values) == 2:  # noqa: PLR2004 - a comparison
            self._open.append((word, "{% endif %}"))
            return f"{{% if {values[0]} {_TESTS[word]} {values[1]} %}}"
        if word == "each" and len(values) == 1:
            self._open.append((word, "{% endfor %}"))
            self._scopes.append(f"item{len(self._scopes)}")
            return f"{{% for {self._scopes[-1]} in {values[0]} %}}"
        if word == "with" and len(values) == 1:
            self._open.append((word, ""))
            self._scopes.append(values[0])
            return ""
        raise TemplateError(f"the block {{{{#{inner}}}}} has no counterpart")

    def _include(self, inner: str, names: _Arguments, depth: int) -> str:
        name, *words = _WORD.findall(inner) or [""]
        if self.partial is None or depth >= _DEPTH_MAX:
            raise TemplateError(f"the partial {name!r} is not read")
        pairs = [word.partition("=") for word in words]
        if not all(value for _, _, value in pairs):
            raise TemplateError(f"the partial {name!r} gets another context")
        level = len(self._scopes) - 1
        arguments = {(level, key): self._value(value, names) for key, _, value in pairs}
        return self.translate(self.partial(name), {**names, **arguments}, depth + 1)

    def _value(self, word: str, names: _Arguments) -> str:
        """Translate a path, text or number to an expression."""
        if word[0] in "\"'":
            return json.dumps(word[1:-1], ensure_ascii=False)
        if _NUMBER.fullmatch(word):
            return word
        if word in _LOOP and "item" in self._scopes[-1]:
            return _LOOP[word]
        level = len(self._scopes) - 1
        if word.startswith("@root."):
            level, word = 0, word.removeprefix("@root.")
        while word.startswith("../"):
            level, word = max(0, level - 1), word.removeprefix("../")
        scope = self._scopes[level]
        if word in {"this", "."} and scope:
            return scope
        word = word.removeprefix("this.").removeprefix("./").replace("/", ".")
        if not _PATH.fullmatch(word):
            raise TemplateError(f"{{{{{word}}}}} has no counterpart")
        first, _, rest = word.partition(".")
        if (level, first) in names:
            return names[level, first] + (f".{rest}" if rest else "")
        return f"{scope}.{word}" if scope else word


def _without_marks(text: str) -> str:
    """Escape marks of Jinja."""
    return re.sub(r"\{(?=[%#])", "{{ '{' }}", text)
