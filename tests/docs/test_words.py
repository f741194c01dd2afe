"""README, CHANGELOG and docs use one word per thing, in plain sentences."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from tests.docs.test_links import DOCS, FENCE, PAGES, ROOT

# Each pattern, with the words to use. A line of a page that needs one ends with
# `<!-- words: ok REASON -->`; `EXCEPTIONS` names the files of the package that do.
BANNED = {
    r"anew|once more": "again",
    r"beside": "next to",
    r"in place of": "instead of",
    r"nobody|somebody|whoever": "the role",
    r"tells?(?! (us )?apart)|told": "report, show",
    r"hears?|heard|heeds?|mends?|amiss|fares?": "use, fix, perform",
    r"says?|said": "print, state, set",
    r"asks?|asked": "call, request",
    r"answers?|answered": "completion, output, response",
    r"stands?(?! for)|stood|standing": "is, appears",
    r"lacks?|so many|likewise|surely": "is missing, N, too, certainly",
    r"main('s)?": "base",
    r"goes on|take back|took back|came of|became of|held against": "continues, roll back, compare",
    r"(the|this|each|a|LLM) judges? (that )?(gates?|informs?)": "is blocking, is advisory",
    r"repairs?|repaired": "fix",
    r"findings?|faults?": "error, warning",
    r"people|persons?": "user, reviewer, author",
    r"draws?|drawn|drew": "trial, run",
}
# Pattern, start of a path (below `src/regauge`, or of a file elsewhere), and the reason.
EXCEPTIONS: tuple[tuple[str, str, str], ...] = (
    (r"draws?|drawn|drew", "stats/", "random numbers are drawn"),
    (r"answers?|answered", "sim/server.py", "a server answers a request"),
    (r"findings?|faults?", "cli/sim.py", "`sim --fault` injects faults"),
    (r"answers?|answered", "judges/_rule.py", "advice is text of prompts"),
    (r"answers?|answered", "judges/rules/_answers.py", "`answer_is` compares final answers"),
    (r"findings?|faults?", "sim/server.py", "the server injects faults, as `regauge sim --fault`"),
    (r"answers?|answered", "judges/_deepeval/__init__.py", "a root of declared paths"),
    (r"says?|said", "prompts/_content.py", "a pattern of instructions"),
    (r"stands?(?! for)|stood|standing", "prompts/_content.py", "a pattern of instructions"),
    (r"answers?|answered", "recordings/_store.py", "a table of the store's schema"),
    (r"answers?|answered", "mutate/_operators.py", "an order to the model"),
    (r"answers?|answered", "docs/reference/judges.md", "judges of the answer to a question"),
    (r"answers?|answered", "history/_store.py", "a column of the store"),
    (r"main('s)?", "reports/html/assets/", "an element of HTML"),
    (r"answers?|answered", "docs/reference_tables.py", "a chapter of judges"),
    (r"answers?|answered", "examples/support-service/app/", "its recordings are keyed by its code"),
    (r"answers?|answered", "examples/real-answers/build.py", "descriptions of prompts"),
)
ANY_BANNED = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)
ALLOWED = re.compile(r"<!-- words: ok \S.*? -->")
CODE = re.compile(r"`[^`\n]+`|<!--.*?-->|\]\([^)]*\)", re.DOTALL)
FRONTED = re.compile(r"(?:^|(?<=[.!?] ))(?:No|Nothing|None|Nobody|Never) [a-z]", re.MULTILINE)
CHECKED = [*PAGES, *sorted((ROOT / "examples").glob("*/README.md"))]


def lines_of(page):
    """The prose of a page, line by line, with its line numbers."""
    text = page.read_text(encoding="utf-8")
    blank = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for number, line in enumerate(blank.splitlines(), 1):
        if not ALLOWED.search(line):
            yield number, CODE.sub("`code`", line)


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_banned_word_is_used(page):
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: {hit[0]!r}: {instead}"
        for number, line in lines_of(page)
        for pattern, instead in BANNED.items()
        if not is_exception(pattern, str(page.relative_to(ROOT)))
        for hit in re.finditer(rf"\b(?:{pattern})\b", line, re.IGNORECASE)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_begin_with_what_is(page):
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for number, line in lines_of(page)
        if FRONTED.search(line) and not line.startswith("|")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_docs_stay_short():
    """README and docs together; shorten another page to add one."""
    pages = [ROOT / "README.md", *(page for page in PAGES if DOCS in page.parents)]
    tokens = " ".join(page.read_text(encoding="utf-8") for page in pages).split()
    # The bars and rules of tables are no words.
    assert sum(any(sign.isalnum() for sign in token) for token in tokens) <= 49_000
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


# Texts for models, whose change makes recordings stale; words that a parser looks for; JavaScript.
TEXTS_APART = (
    "judges/_v8.py",
    "judges/model/requests.py",
    "judges/model/response.py",
    "mutate/_model.py",
    "refine/guards.py",
    "refine/proposers/model.py",
    "sim/",
)


@functools.cache
def nodes_of(path):
    """The nodes of a file's syntax tree: many tests read those of all files."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module", autouse=True)
def _free_nodes():
    yield
    nodes_of.cache_clear()


def messages(path):
    """The texts of a file that are no docstrings, with their line numbers."""
    docs = {
        id(part.value)
        for node in nodes_of(path)
        if isinstance(body := getattr(node, "body", None), list)
        for part in body
        if isinstance(part, ast.Expr)
    }
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


# Examples, and the instructions that rules write into prompts.
NO_PROSE = re.compile(
    r"^ *>>> .*(?:\n *\S.*)*|^ *(?:Advice|Negated): .*(?:\n {8}.*)*"
    # Commands, which `cli.Command` shows behind the options.
    r"|^ *Examples:(?:\n +(?:\S.*\| )?regauge .*)+",
    re.MULTILINE,
)


def docstrings(path):
    """The docstrings of a file, with the lines where they begin."""
    for node in nodes_of(path):
        body = getattr(node, "body", None)
        for part in body if isinstance(body, list) else []:
            text = part.value if isinstance(part, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.lineno, text.value


def prose_of(path):
    """The docstrings of a file without code in them."""
    for number, text in docstrings(path):
        prose = NO_PROSE.sub(lambda part: "\n" * part[0].count("\n"), text)
        yield number, CODE.sub("`code`", prose)


def sources():
    """The files of the package, each with its path below `src/regauge`."""
    source = ROOT / "src/regauge"
    return [(path, str(path.relative_to(source))) for path in sorted(source.rglob("*.py"))]


def is_exception(pattern, path):
    return any(pattern == word and path.startswith(start) for word, start, _ in EXCEPTIONS)


def banned_words(texts, name):
    """What is wrong with the texts of a file, as lines of a report."""
    apart = {pattern for pattern in BANNED if is_exception(pattern, name)}
    for number, text in texts:
        if not ANY_BANNED.search(text):
            continue
        for pattern, instead in BANNED.items():
            if pattern in apart:
                continue
            for hit in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
                line = number + text.count("\n", 0, hit.start())
                yield f"{name}:{line}: {hit[0]!r}: {instead}"


def test_messages_of_the_code_use_no_banned_word():
    """Help texts, errors and reports; a single word may be a name."""
    wrong = [
        hit
        for path, name in sources()
        if not name.startswith(TEXTS_APART)
        for hit in banned_words(((n, text) for n, text in messages(path) if " " in text), name)
        if "'main'" not in hit
    ]
    assert not wrong, "\n".join(wrong)


def assets():
    """The scripts and templates of reports, each with its path below `src/regauge`."""
    source = ROOT / "src/regauge"
    paths = [*(source / "reports/html/assets").glob("*.js"), *source.rglob("*.j2")]
    return [
        (path.read_text(encoding="utf-8"), str(path.relative_to(source))) for path in sorted(paths)
    ]


def test_pages_of_reports_use_no_banned_word():
    assert len(assets()) > 8
    assert not [hit for text, name in assets() for hit in banned_words([(1, text)], name)]


# Names that a script or a template binds.
BINDINGS = {
    ".js": r"\b(?:const|let|function) (\w+)|\((\w+)(?:, (\w+))?\) =>",
    ".j2": r"\{%-? *(?:for|set) (\w+)(?:, (\w+))?(?:, (\w+))?|\{%-? *macro (\w+)\((\w*)",
}


def test_names_in_assets_say_what_they_hold():
    wrong = [
        f"{name}: {bound}"
        for text, name in assets()
        for names in re.findall(BINDINGS[name[-3:]], text)
        for bound in names
        if bound in NO_NAMES
    ]
    assert not wrong, "\n".join(wrong)


# The name of a branch, the messages of prompts and the input that they fill in.
NO_TEXT = re.compile(
    r"branches: \[main\]|origin/main|^inputs: \[answer\]|(?s:^messages:.*)", re.MULTILINE
)


def test_workflows_and_scaffolded_files_use_no_banned_word():
    """The action, the workflows of this repository, and files that `init` and `new` write."""
    directories = (".github", "src/regauge/scaffold/templates")
    paths = [path for name in directories for path in (ROOT / name).rglob("*.*")]
    assert len(paths) > 15
    wrong = [
        hit
        for path in paths
        for hit in banned_words(
            [(1, NO_TEXT.sub("", path.read_text(encoding="utf-8")))], str(path.relative_to(ROOT))
        )
    ]
    assert not wrong, "\n".join(wrong)


def texts_of_scripts():
    """Docstrings and messages of the scripts that write the docs, and of examples."""
    paths = [*(ROOT / "docs").glob("*.py"), *(ROOT / "examples").rglob("*.py")]
    for path in sorted(paths):
        yield path, [*docstrings(path), *((n, text) for n, text in messages(path) if " " in text)]


def test_descriptions_of_benchmarks_use_no_banned_word():
    """The docstring of a script is its help."""
    wrong = [
        hit
        for path in sorted((ROOT / "benchmarks").glob("*.py"))
        for number, text in list(prose_of(path))[:1]
        for hit in banned_words(
            [(number, re.sub(r"(?m)^    .*", "", text))], str(path.relative_to(ROOT))
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_examples_and_scripts_of_the_docs_use_no_banned_word():
    wrong = [
        hit
        for path, texts in texts_of_scripts()
        for hit in banned_words(texts, str(path.relative_to(ROOT)))
    ]
    assert not wrong, "\n".join(wrong)


# `is not a JSON file`, not `is no JSON file`; `there is no file` is English.
NO_NOUN = re.compile(
    r"(?<!there )\b(?:is|are) no (?!longer|better|other|limit)[a-z][\w-]*", re.IGNORECASE
)


def test_what_a_value_is_not_is_said_with_not():
    """In messages and docstrings; responses that are sent back to a model keep their words."""
    texts = (
        (f"{name}:{number}", " ".join(text.split()))
        for path, name in sources()
        for number, text in (*messages(path), *docstrings(path))
        if not name.startswith(TEXTS_APART) and name != "judges/model/_claims.py"
    )
    pages = (
        (f"{page.relative_to(ROOT)}:{number}", line)
        for page in PAGES
        for number, line in lines_of(page)
    )
    wrong = [f"{place}: {hit}" for place, text in (*texts, *pages) for hit in NO_NOUN.findall(text)]
    assert not wrong, "\n".join(wrong)


def test_docstrings_use_no_banned_word():
    wrong = [hit for path, name in sources() for hit in banned_words(prose_of(path), name)]
    assert not wrong, "\n".join(wrong)


def sentences(text):
    """The sentences of a text, without tables and headings."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.) )", text):
        if not paragraph.lstrip().startswith(("|", "#", ">>>")):
            yield from re.split(r"(?<=[.!?:;]) ", " ".join(paragraph.split()))


def is_heavy(sentence):
    """Return whether a sentence has more than 25 words, or three `of` without a comma between."""
    words = [word for word in sentence.split() if any(sign.isalpha() for sign in word)]
    clauses = re.split(r"[,;:(]", sentence)
    return len(words) > 25 or any(len(re.findall(r"\bof\b", clause)) > 2 for clause in clauses)


def test_sentences_of_docstrings_are_light():
    wrong = [
        f"src/regauge/{name}:{number}: {sentence}"
        for path, name in sources()
        for number, text in prose_of(path)
        for sentence in sentences(text)
        if is_heavy(sentence)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_pages_are_light(page):
    text = "\n".join(line for _, line in lines_of(page))
    assert not [sentence for sentence in sentences(text) if is_heavy(sentence)]


def test_docstrings_begin_with_their_subject():
    """`Return whether it ended` or `The number of cases`, not `Whether` or `How many`."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path, _ in sources()
        for number, text in docstrings(path)
        if re.match(
            r"(?:What|Who|Whether|How|Why|Which)\b[^?]*$", line := text.strip().split("\n")[0]
        )
    ]
    assert not wrong, "\n".join(wrong)


# Parameters of rules: they are part of the digests of judges, which baselines hold.
RULE_PARAMETERS = {"by", "fenced", "filled", "ordered", "to", "whole"}

# Names that no value, function or parameter has.
NO_NAMES = {
    *re.findall(
        r"\w+",
        """
        one found said told shown known wanted given there mine ours

        at own why each what whole where more all again most same by to both here every none
        nothing when who how anything something still things two this so less whose many others
        these those yet

        ask asks asking say says saying look looks hears needs holds fits speaks reads takes taking
        making keeps wants

        made drawn drew kept sent gone taken chosen held met spent begun come got lost meant
        written paid spoken asked named stated judged planned listed counted compared added
        declared landed filled observed called noted fenced served owed answered looked opened
        folded settled stored tried joined described moved audited revised ended ordered reached
        collected attached weighed confirmed received inserted replayed derived narrowed extended
        ranked repeated needed copied reported used mixed played gained granted claimed posted
        spared screened loosened watched
        """,
    )
}


def names_bound(path):
    """The names that a file binds, with their line numbers, without underscores at the ends."""
    for node in nodes_of(path):
        match node:
            case ast.Name(id="__all__"):
                pass
            case ast.arg(arg=name) if path.parent.name == "rules" and name in RULE_PARAMETERS:
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name.strip("_")
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name.strip("_")
            case _:
                pass


def test_no_two_classes_share_a_name():
    """A reader who meets a name finds one class."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src" / "regauge").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    shared = {name: lines for name, lines in places.items() if len(lines) > 1}
    assert not shared, shared


def test_names_say_what_they_hold():
    """A value is a noun and a function a verb with its object, not a participle or a pronoun."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {name!r}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, name in names_bound(path)
        if name in NO_NAMES
    ]
    assert not wrong, "\n".join(wrong)


ENTRIES = re.compile(r"(?m)^Args:\n((?:    .*\n?|\n)+)")


def test_documented_parameters_are_parameters():
    wrong: list[str] = []
    for path, name in sources():
        for node in nodes_of(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.args.kwarg:
                continue
            section = ENTRIES.search(ast.get_docstring(node) or "")
            args = node.args
            names = {arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
            names |= {args.vararg.arg} if args.vararg else set()
            entries = re.findall(r"(?m)^    (\w+): ", section[1]) if section else []
            wrong += [
                f"src/regauge/{name}:{node.lineno}: {entry}"
                for entry in entries
                if entry not in names
            ]
    assert not wrong, "\n".join(wrong)
