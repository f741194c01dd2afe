"""Terraform, Kubernetes manifests, SQL."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from regauge.errors import UsageError
from regauge.judges._rule import Check, on_text
from regauge.judges._rule_factory import Names, rule
from regauge.judges._types import Verdict, failed, passed, quote_list
from regauge.judges.rules._documents import yaml_documents
from regauge.lexicon import Lexicon
from regauge.strict_json import is_list, is_mapping, list_of, mapping_of
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

__all__ = ["kubernetes_manifests", "sql_parses", "terraform_parses"]

# The parser is slow: 20,000 characters took 37 s on a busy core. A larger limit delays the run.
_HCL_CHARS_MAX = 20_000
_FORMATS: Final = Lexicon("regauge.judges", file="data/formats.toml")


def _hcl_blocks(text: str) -> list[str] | str:
    """The names of the top-level blocks of a Terraform file, or the reason why it is invalid."""
    from hcl2.parser import parser

    if len(text) > _HCL_CHARS_MAX:
        return f"longer than {_HCL_CHARS_MAX} characters"
    try:
        # The grammar needs a line end at the end of the file.
        hcl: Any = parser()
        [body] = hcl.parse(text + "\n").children
    except RecursionError:
        return "nested too deeply"
    except Exception as error:  # noqa: BLE001 - callbacks of a grammar raise any error
        return str(error).partition("\n")[0][:200] or type(error).__name__
    names: set[str] = set()
    for part in body.children:
        if part.data != "block":
            continue
        kind, *labels = (
            "".join(label.scan_values(_is_no_quote))
            for label in part.children
            if getattr(label, "data", "") in {"identifier", "string"}
        )
        label_count = _FORMATS.entry("terraform_labels").get(kind, len(labels))
        if len(labels) != label_count:
            return f"{kind} takes {plural(label_count, 'label')}, and one has {len(labels)}"
        names.add(".".join((kind, *labels)))
    return sorted(names)


def _is_no_quote(token: Any) -> bool:
    return bool(token.type != "DBLQUOTE")


@rule(version=3, about="format", required_module="hcl2")
def terraform_parses(*, blocks: Names = (), field: str | None = None) -> Check:
    r"""The whole output is Terraform (HCL2) with at least one block, by python-hcl2.

    Args:
        blocks: Required blocks: `provider`, `resource.aws_s3_bucket`,
            `resource.aws_s3_bucket.logs`.
        field: Judge this part of a JSON output.

    Fails as: hcl_invalid, missing_block
    Advice: {fill} Terraform code only: no prose around it, no code fence. | Include a block
        {blocks:code}.
    Negated: Do not {fill} Terraform code alone.

    >>> print(terraform_parses(blocks=["resource.aws_s3_bucket"]).check_text(
    ...     'resource "aws_s3_bucket" "logs" {\n  bucket = "logs"\n}\n'))
    pass: Terraform with 'resource.aws_s3_bucket.logs'
    """

    def check(text: str) -> Verdict:
        hcl_blocks = _hcl_blocks(text)
        if isinstance(hcl_blocks, str):
            return failed(f"not HCL: {hcl_blocks}", code="hcl_invalid")
        if not hcl_blocks:
            return failed("not Terraform: no block", code="hcl_invalid")
        missing = [
            block
            for block in blocks
            if not any(name == block or name.startswith(block + ".") for name in hcl_blocks)
        ]
        if missing:
            return failed(
                f"no block {quote_list(missing)}", code="missing_block", actual=hcl_blocks[:20]
            )
        return passed(f"Terraform with {quote_list(hcl_blocks)}")

    return on_text(field, check)


# Kubernetes 1.34 forbids a host in these.
_HOOKS = (
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle postStart",
    "lifecycle preStop",
)
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = mapping_of(value).get(key)
    return value


def _containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The containers of a pod, each with its place."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for place, container in enumerate(list_of(_dig(pod, "spec", key))):
            yield f"{key}[{place}]", mapping_of(container)


def _is_tagged(image: Any) -> bool:
    """Return whether an image names a version other than `latest`."""
    if not isinstance(image, str):
        return False
    if "@sha256:" in image:
        return True
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag not in {"", "latest"}


def _manifests(documents: Sequence[Any]) -> Iterator[Any]:
    """The manifests of documents, including those in lists."""
    for document in documents:
        items = _dig(document, "items")
        if str(_dig(document, "kind")).endswith("List") and is_list(items):
            yield from _manifests(items)
        elif document is not None:
            yield document


def _all_privileges(pod: Mapping[str, Any]) -> Iterator[str]:
    """The privileges of a pod on its node, each with its place."""
    spec = mapping_of(pod.get("spec"))
    yield from (f": {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    for volume in map(mapping_of, list_of(spec.get("volumes"))):
        if volume.get("hostPath") is not None:
            yield f": volume {volume.get('name')!r} is a hostPath"
    annotations = mapping_of(_dig(pod, "metadata", "annotations"))
    for key in annotations:
        if str(key).startswith(_APPARMOR) and annotations[key] == "unconfined":
            yield f": annotation {key} unconfined"
    for sysctl in list_of(_dig(spec, "securityContext", "sysctls")):
        if _dig(sysctl, "name") not in _FORMATS.words("sysctls"):
            yield f": sysctl {_dig(sysctl, 'name')}"
    yield from (
        f": {privilege}" for privilege in _privileges(mapping_of(spec.get("securityContext")))
    )
    for place, container in _containers(pod):
        yield from (f" {place}: {privilege}" for privilege in _container_privileges(container))


def _container_privileges(container: Mapping[str, Any]) -> Iterator[str]:
    """The privileges of one container."""
    for port in list_of(container.get("ports")):
        if _dig(port, "hostPort"):
            yield f"hostPort {_dig(port, 'hostPort')}"
    for hook in _HOOKS:
        for action in ("httpGet", "tcpSocket"):
            if host := _dig(container, *hook.split(), action, "host"):
                yield f"{hook.split()[-1]} of host {host}"
    yield from _privileges(mapping_of(container.get("securityContext")))


def _privileges(context: Mapping[str, Any]) -> Iterator[str]:
    """The privileges of the security context of a pod or a container."""
    yield from (
        key for key in ("privileged", "allowPrivilegeEscalation") if context.get(key) is True
    )
    for name in list_of(_dig(context, "capabilities", "add")):
        if str(name).upper().removeprefix("CAP_") not in _FORMATS.words("capabilities"):
            yield f"capability {name}"
    if context.get("procMount") not in {None, "Default"}:
        yield f"procMount {context.get('procMount')}"
    if _dig(context, "windowsOptions", "hostProcess") is True:
        yield "hostProcess"
    for profile in ("seccompProfile", "appArmorProfile"):
        if _dig(context, profile, "type") == "Unconfined":
            yield f"{profile} Unconfined"
    linux = mapping_of(context.get("seLinuxOptions"))
    if (
        linux.get("user")
        or linux.get("role")
        or linux.get("type", "") not in _FORMATS.entry("selinux_types")
    ):
        yield "seLinuxOptions"


def _manifest_errors(
    manifest: Any, *, limits: bool, pinned: bool, unprivileged: bool
) -> Iterator[tuple[str, str]]:
    """The errors of a manifest, each with its code and message."""
    if not is_mapping(manifest):
        yield "manifest_invalid", "a document is not a mapping"
        return
    title = _dig(manifest, "metadata", "name") or _dig(manifest, "metadata", "generateName")
    required = {"apiVersion": manifest.get("apiVersion"), "kind": manifest.get("kind")}
    for path, value in {**required, "metadata.name": title}.items():
        if not isinstance(value, str):
            yield "missing_field", f"no {path}"
    name = f"{manifest.get('kind')}/{title}"
    pod_path = _FORMATS.entry("pod_templates").get(str(manifest.get("kind")))
    pod = mapping_of(None if pod_path is None else _dig(manifest, *pod_path))
    containers = list(_containers(pod))
    if pod_path is not None and not containers:
        yield "missing_field", f"{name}: no containers"
    if unprivileged:
        yield from (("privileged", f"{name}{privilege}") for privilege in _all_privileges(pod))
    for place, container in containers:
        location = f"{name} {place}"
        if pinned and not _is_tagged(container.get("image")):
            yield (
                "image_not_pinned",
                f"{location}: image {container.get('image')!r} has no fixed tag",
            )
        missing = [
            key for key in ("cpu", "memory") if _dig(container, "resources", "limits", key) is None
        ]
        if limits and missing:
            yield "no_limits", f"{location}: no limit of {' and '.join(missing)}"


@rule(version=4, about="format")
def kubernetes_manifests(
    *,
    kinds: Names = (),
    limits: bool = True,
    pinned: bool = True,
    unprivileged: bool = True,
    field: str | None = None,
) -> Check:
    r"""The whole output is YAML of Kubernetes manifests that are fit to run.

    Each has `apiVersion`, `kind` and a name; workloads have containers. Items of a `List` are
    checked; schemas of kinds are not.

    Args:
        kinds: Required kinds, such as `Deployment`.
        limits: Containers need limits of `cpu` and `memory`.
        pinned: Images need a digest, or a tag other than `latest`.
        unprivileged: Forbid `allowPrivilegeEscalation: true` and everything that the level
            "baseline" of the Pod Security Standards forbids.
        field: Judge this part of a JSON output.

    Fails as: yaml_invalid, manifest_invalid, missing_field, missing_kind, image_not_pinned,
        no_limits, privileged
    Advice: {fill} YAML of Kubernetes manifests only: no prose around it, no code fence. | Include a
        {kinds:bare}. | Set resource limits on every container{limits:flag}. | Pin every image to a
        version{pinned:flag}. | Run no container with privileges{unprivileged:flag}.
    Negated: Do not {fill} Kubernetes manifests alone.

    >>> print(kubernetes_manifests().check_text(
    ...     "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
    ...     "spec: {containers: [{image: nginx}]}"))
    fail: Pod/web containers[0]: image 'nginx' has no fixed tag, and 1 more
    """

    def check(text: str) -> Verdict:
        documents = yaml_documents(text)
        if isinstance(documents, str):
            return failed(f"not YAML: {documents}", code="yaml_invalid")
        manifests = [*_manifests(documents)]
        if not manifests:
            return failed("no manifest", code="manifest_invalid")
        errors = [
            error
            for manifest in manifests
            for error in _manifest_errors(
                manifest, limits=limits, pinned=pinned, unprivileged=unprivileged
            )
        ]
        if errors:
            code, first = errors[0]
            suffix = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
            return failed(
                f"{first}{suffix}", code=code, details={"errors": [text for _, text in errors[:20]]}
            )
        found_kinds = {str(mapping_of(manifest).get("kind")) for manifest in manifests}
        missing = [kind for kind in kinds if kind not in found_kinds]
        if missing:
            return failed(
                f"no {quote_list(missing)}", code="missing_kind", actual=sorted(found_kinds)
            )
        return passed(f"{plural(len(manifests), 'manifest')}: {quote_list(sorted(found_kinds))}")

    return on_text(field, check)


# Longer outputs fail, as parsing time grows with the length.
_SQL_CHARS_MAX = 50_000
_INCOMPLETE = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*?(\w+)'>")
_NO_STATEMENTS = frozenset({"alias", "literal", "column", "paren", "identifier", "boolean", "null"})


@contextmanager
def _mute_parser() -> Generator[None]:
    """Suppress the parser's log of statements that it does not parse."""
    log = logging.getLogger("sqlglot")

    def silent(_record: logging.LogRecord) -> bool:
        return False

    log.addFilter(silent)
    try:
        yield
    finally:
        log.removeFilter(silent)


def _parse(text: str, dialect: str) -> list[Any] | str:  # noqa: PLR0911 - one per error
    """Parse the statements of a text; return the reason if it is not SQL."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    if len(text) > _SQL_CHARS_MAX:
        return f"longer than {_SQL_CHARS_MAX} characters"
    try:
        with _mute_parser():
            # A comment after the last semicolon is a statement to the parser.
            checks: list[Any] = [
                part
                for part in sqlglot.parse(text, read=dialect or None)
                if part is not None and part.key != "semicolon"
            ]
    except SqlglotError as error:
        errors: list[Any] = getattr(error, "errors", [])
        if errors:
            first = errors[0]
            # The parser names any of several missing parts, in no fixed order.
            problem = _INCOMPLETE.sub(r"\1 is incomplete", first["description"])
            return f"{problem} at line {first['line']}, column {first['col']}"[:200]
        return " ".join(str(error).split())[:200]
    except RecursionError:
        return "nested too deeply"
    except (ValueError, IndexError, AttributeError, TypeError, KeyError) as error:
        return f"the parser gives up: {error}"[:200]
    if not checks:
        return "no statement"
    for statement in checks:
        # A valid command that the parser does not parse begins with a word.
        misspelt = statement.key == "command" and not str(statement.this or "").isalpha()
        if statement.key in _NO_STATEMENTS or misspelt:
            return f"no statement: {str(statement)[:60]!r}"
    return checks


@rule(version=2, about="format", required_module="sqlglot")
def sql_parses(
    *,
    dialect: str = "",
    statements: Names = (),
    tables: Names | None = None,
    field: str | None = None,
) -> Check:
    """The whole output is SQL that parses, by sqlglot; tables and columns are not looked up.

    Inner statements, as in `WITH x AS (DELETE ...)`, count too; `SELECT ... INTO` is `select into`.

    Args:
        dialect: Such as `postgres`, `mysql`, `sqlite`, `bigquery`; by default a common core.
        statements: The only allowed kinds, such as `select`.
        tables: The only allowed tables, as `name` or `schema.name`.
        field: Judge this part of a JSON output.

    Fails as: sql_invalid, statement_not_allowed, table_not_allowed
    Advice: {fill} SQL only: no prose around it, no code fence. | Write it for {dialect:bare}. | Use
        {statements:choice} statements only. | Use only the table{tables:s} {tables:code}.
    Negated: Do not {fill} SQL alone.

    >>> print(sql_parses(statements=["select"]).check_text("SELECT 1; DROP TABLE pods"))
    fail: 'drop' is not among 'select'
    >>> print(sql_parses(tables=["pods"]).check_text("SELECT name FROM pods"))
    pass: 1 statement of SQL
    """
    if dialect:
        import sqlglot

        try:
            sqlglot.Dialect.get_or_raise(dialect)
        except ValueError as error:
            raise UsageError(f"sql_parses: {error}") from error
    kinds = frozenset(kind.lower() for kind in statements)
    if kinds and (unknown := sorted(kinds - _all_kinds(dialect))):
        name = dialect or "common SQL"
        raise UsageError(f"sql_parses: {name} has no statement {unknown[0]!r}, such as 'select'")
    allowed = None if tables is None else frozenset(table.lower() for table in tables)

    def check(text: str) -> Verdict:
        parsed = _parse(text, dialect)
        if isinstance(parsed, str):
            return failed(f"not SQL: {parsed}", code="sql_invalid")
        for statement in parsed if kinds else ():
            foreign_kinds = [kind for kind in _kinds(statement) if kind not in kinds]
            if foreign_kinds:
                return failed(
                    f"{foreign_kinds[0]!r} is not among {quote_list(sorted(kinds))}",
                    code="statement_not_allowed",
                )
        if allowed is not None:
            table_names = sorted({table for statement in parsed for table in _tables(statement)})
            if foreign := [name for name in table_names if name not in allowed]:
                return failed(
                    f"uses {quote_list(foreign)}", code="table_not_allowed", actual=table_names
                )
        return passed(f"{plural(len(parsed), 'statement')} of SQL")

    return on_text(field, check)


def _all_kinds(dialect: str) -> set[str]:
    """The kinds of expressions, and the words that can begin a command."""
    import sqlglot
    from sqlglot import exp

    words = sqlglot.Dialect.get_or_raise(dialect).tokenizer_class.KEYWORDS
    classes = [value for value in vars(exp).values() if isinstance(value, type)]
    keys = {str(getattr(value, "key", "")) for value in classes}
    return {"select into", *keys, *(part.lower() for word in words for part in word.split())}


def _kinds(statement: Any) -> list[str]:
    """The kind of a statement, then those of its inner statements."""
    from sqlglot import exp

    changes = (
        exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.DDL, exp.Drop, exp.Copy, exp.Command
    )  # fmt: skip

    def is_merge(node: object) -> bool:
        return isinstance(node, exp.Merge)

    def kind(node: Any) -> str:
        if node.key == "command":
            return str(node.this).lower()
        return "select" if isinstance(node, exp.SetOperation) else str(node.key)

    outer = statement.unnest() if isinstance(statement, exp.Subquery) else statement
    kinds = [kind(outer)]
    # The updates and inserts of a merge are parts of it.
    nodes: Iterator[Any] = statement.walk(prune=is_merge)
    for node in nodes:
        if isinstance(node, exp.Into):
            kinds.append("select into")
        elif node is not outer and isinstance(node, changes):
            kinds.append(kind(node))
    return kinds


def _tables(statement: Any) -> set[str]:
    """The tables of a statement in lower case, without those that it defines."""
    from sqlglot import exp

    has_ctes = statement.find(exp.CTE) is not None
    names: set[str] = set()
    for table in statement.find_all(exp.Table):
        name = ".".join(part.name for part in table.parts).lower()
        if name and not (has_ctes and _is_cte(table, name)):
            names.add(name)
    return names


def _is_cte(table: Any, name: str) -> bool:
    """Return whether a name is that of a common table expression in scope.

    Inside the expression, the name is that of a table unless the expression is recursive.
    """
    from sqlglot import exp

    node = table
    while (parent := node.parent) is not None:
        clause = (
            parent
            if isinstance(parent, exp.With)
            else parent.args.get("with_", parent.args.get("with"))
        )
        if isinstance(clause, exp.With) and clause is not node:
            ctes: list[Any] = clause.expressions
            if parent is clause and not clause.args.get("recursive"):
                ctes = ctes[: ctes.index(node)]
            if any(str(cte.alias).lower() == name for cte in ctes):
                return True
        node = parent
    return False
