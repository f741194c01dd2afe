"""Finished refinement runs: review and delivery of proposals, and commands on runs."""

from __future__ import annotations

import html
import json
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from regauge.cli._options import branch_option, json_option, pr_option
from regauge.cli._terminal import echo, short_path, table_lines
from regauge.digests import digest_of
from regauge.errors import GitError, GitHubError, UsageError
from regauge.git import check_branch, current_branch, has_unpushed, push, remote_address, remote_tip
from regauge.github import GitHub, GitHubAccess, repo_of_remote
from regauge.maintenance.collection import RESUME_NOTE, with_evals
from regauge.project import Project
from regauge.prompts import find_prompt
from regauge.refine.attempts import EditResultTable
from regauge.refine.delivery import (
    apply_run,
    check_not_committed,
    commit_on_branch,
    evidence_lines,
    headline,
    roll_back,
    uncommitted_files,
)
from regauge.refine.refinement import Refinement, RefineOptions
from regauge.refine.runs import (
    dead_runs,
    edits_of_runs,
    find_refinement,
    list_refinements,
    read_trail,
    read_verified,
    reject_edits,
)
from regauge.strict_json import read_json
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.git import Branch
    from regauge.github import Posted
    from regauge.refine.attempts import Grouping
    from regauge.refine.runs import Run
    from regauge.runner import EvalSession


def check_terminal() -> None:
    """Check that the user can confirm edits.

    Raises:
        UsageError: Standard input is no terminal.
    """
    if not sys.stdin.isatty():
        message = "--interactive confirms every edit, and stdin is not a terminal"
        fix = "run it in a terminal; or use --branch, and review its commit"
        raise UsageError(message, fix=fix)


def review_edits(project: Project, run: Run, result: Mapping[str, Any]) -> list[int]:
    """Let the user confirm each proposed edit.

    Returns:
        The numbers of rejected edits, from 0; later runs do not propose them again.
    """
    changes = result["changes"]
    proofs = evidence_lines(result)
    refused: list[int] = []
    for number, change in enumerate(changes):
        echo(err=True)
        echo(
            f"edit {number + 1} of {len(changes)}: {change['strategy']} by {change['proposer']},"
            f" for {change['check']}",
            bold=True,
            err=True,
        )
        echo(f"  {change['rationale'] or 'no reason given'}", err=True)
        for sign, key, style in (("-", "removed", "red"), ("+", "added", "green")):
            for line in str(change[key]).splitlines():
                echo(f"  {sign} {line}", style=style, err=True)
        echo(f"  {proofs[number]}", err=True)
        if not click.confirm("accept it?", err=True):
            refused.append(number)
    if refused:
        reject_edits(project, run, refused)
    return refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of a proposal.

    Attributes:
        write: Whether to write the prompt's file.
        branch: The branch to commit it on; empty for a generated name, None for no branch.
        base: The base branch of the pull request; empty for no pull request.
        access: Access to GitHub; None for no pull request.
        print_line: Called with each line of progress.
    """

    project: Project
    prompt: str
    write: bool
    branch: str | None
    print_line: Callable[[str], None]
    base: str = ""
    access: GitHubAccess | None = None

    @classmethod
    def prepare(
        cls,
        project: Project,
        prompt: str,
        *,
        write: bool,
        branch: str | None,
        pr: bool,
        print_line: Callable[[str], None],
    ) -> Self:
        """Check that the requested delivery is possible.

        Raises:
            UsageError: The pull request cannot be opened, or the branch cannot be created.
            GitError: The remote cannot be reached.
            GitHubError: GitHub cannot be reached, or refuses the token.
        """
        delivery = cls(
            project=project, prompt=prompt, write=write, branch=branch, print_line=print_line
        )
        if branch:
            check_branch(delivery.path, branch, renew=pr)
        if not pr:
            return delivery
        path = delivery.path
        base = branch_for_proposals(project, path)
        access = access_to_github(path)
        check_work(path, base)
        name = branch or f"refine/{prompt}-on-{re.sub(r'[^A-Za-z0-9._-]+', '-', base)}"
        try:
            # Detect a wrong token or repository before any call.
            with GitHub(access, on_wait=print_line) as github:
                existing = github.pull_request_from(name, base)
        except GitHubError as error:
            raise GitHubError(f"--pr: {error}", kind=error.kind, status=error.status) from error
        if existing is not None:
            print_line(f"pull request {existing.number} is open: {existing.url}")
        return replace(delivery, branch=name, base=base, access=access)

    @property
    def path(self) -> Path:
        """The prompt's file."""
        return find_prompt(self.prompt, root=self.project.root)

    @property
    def has_destination(self) -> bool:
        """Return whether the proposal is written or committed."""
        return self.write or self.branch is not None

    def deliver(self, run: Run, result: Mapping[str, Any]) -> dict[str, JSON]:
        """Deliver the proposal; return what was done, as JSON."""
        done: dict[str, JSON] = {}
        if self.write:
            changed = apply_run(run, self.path)
            run.note(status="applied")
            self.print_line(f"wrote {', '.join(str(short_path(path)) for path in changed)}")
            self.print_line(f"  undo it: regauge refine rollback {run.id}")
            done["wrote"] = [self.project.relative(path).as_posix() for path in changed]
        if self.branch is not None:
            done.update(self._branch(run, result, self.branch))
        return done

    def _branch(self, run: Run, result: Mapping[str, Any], name: str) -> dict[str, JSON]:
        refused = None
        if self.access is not None:
            with GitHub(self.access, on_wait=self.print_line) as github:
                refused = github.refused_pull_request(name, self.base, _mark(result))
        if refused is not None:
            reject_edits(self.project, run, range(len(result["changes"])))
            self.print_line(
                f"pull request {refused.number} proposed the same and was closed: {refused.url}\n"
                "  so it is not proposed again; to propose it, reopen that one, or name another"
                " branch with --branch"
            )
            return {"refused": refused.url}
        note = str(result["revision"]["note"]) or "Revise the prompt"
        title = f"{self.prompt}: {note[0].lower()}{note[1:]}"
        branch = commit_on_branch(
            run,
            self.path,
            name=name,
            message=f"{title}\n\n{headline(result)}\n",
            renew=self.access is not None,
        )
        run.note(branch=branch.name, commit=branch.commit)
        self.print_line(f"committed {branch.commit[:9]} on branch {branch.name}")
        done: dict[str, JSON] = {"branch": branch.name, "commit": branch.commit}
        if self.access is None:
            self.print_line(f"  push it: git push origin {branch.name}")
            return done
        body = f"{_mark(result)}\n{run.markdown.read_text(encoding='utf-8')}"
        pull_request = self._open(self.access, run, branch, title=title, body=body)
        return {**done, "pull_request": pull_request.url}

    def _open(
        self, access: GitHubAccess, run: Run, branch: Branch, *, title: str, body: str
    ) -> Posted:
        """Push, and open or update the pull request.

        Raises:
            RegaugeError: One of the two was refused; the branch exists.
        """
        try:
            push(self.path, branch)
            with GitHub(access, on_wait=self.print_line) as github:
                pull_request = github.open_pull_request(
                    head=branch.name, base=self.base, title=title, body=body
                )
        except (GitError, UsageError, GitHubError) as error:
            command = f"regauge refine apply {run.id} --pr"
            words = f"{error}\n  the proposal is on the branch {branch.name} here; again: {command}"
            if isinstance(error, GitHubError):
                raise GitHubError(words, kind=error.kind, status=error.status) from error
            raise type(error)(words) from error
        run.note(pull_request=pull_request.url)
        self.print_line(f"pull request {pull_request.outcome}: {pull_request.url}")
        return pull_request


def _mark(result: Mapping[str, Any]) -> str:
    """The invisible mark that identifies a proposal."""
    lines: list[JSON] = [[change["removed"], change["added"]] for change in result["changes"]]
    return f"<!-- regauge revision {digest_of(lines)[:16]} -->"


def branch_for_proposals(project: Project, path: Path) -> str:
    """The base branch of a proposal: the one that is checked out."""
    return (
        current_branch(path)
        or os.environ.get("GITHUB_HEAD_REF")
        or project.settings.gate.ref.removeprefix("origin/")
    )


def access_to_github(path: Path) -> GitHubAccess:
    """Access to GitHub from the environment.

    Raises:
        UsageError: There is no remote, no token, or no repository.
    """
    address = remote_address(path)
    if not address:
        fix = "git remote add origin ADDRESS; or take --branch, which pushes nothing"
        raise UsageError("--pr: there is no remote 'origin' to push a branch to", fix=fix)
    repo = os.environ.get("GITHUB_REPOSITORY") or repo_of_remote(address)
    if not repo:
        fix = "set GITHUB_REPOSITORY=OWNER/NAME; or take --branch, which pushes nothing"
        raise UsageError("--pr: the remote 'origin' is not an address of GitHub", fix=fix)
    try:
        return GitHubAccess.from_environ(os.environ, repo=repo)
    except UsageError as error:
        raise UsageError(f"--pr: {error}; or use --branch, which makes no requests") from error


def check_work(path: Path, base: str) -> None:
    """Check that a pull request would hold only the proposal.

    Raises:
        UsageError: It would hold other changes, or has no base branch.
        GitError: The remote cannot be reached.
    """
    changed = uncommitted_files(path)
    if changed:
        names = ", ".join(str(short_path(file)) for file in changed)
        raise UsageError(
            f"--pr: {names} differs from the last commit,"
            " so the pull request would hold more than the proposal\n"
            "  fix: commit it and push, or undo it; or use --apply"
        )
    try:
        tip = remote_tip(path, base)
    except GitError as error:
        raise GitError(f"--pr: the remote 'origin' cannot be reached: {error}") from error
    if not tip:
        message = f"--pr: there is no branch {base!r} at the remote to open a pull request into"
        raise UsageError(message, fix=f"git push origin {base}")
    if has_unpushed(path, tip):
        raise UsageError(
            f"--pr: {base!r} has commits here that are not on the remote; they would be in the pull"
            f" request, too\n  fix: git push origin {base}"
        )


class NamedRun(click.Argument):
    """A RUN argument, whose error message lists the possible names."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value; explain a missing one."""
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter as error:
            error.message = "Name a run: `latest`, a prompt, or an id of `regauge refine list`"
            raise


@click.command(name="list")
@json_option
def list_command(*, as_json: bool) -> None:
    """List runs, newest first."""
    project = Project.find()
    runs, dead = list_refinements(project), dead_runs(project)
    rows = [
        {"run": run.id, **run.facts(), **({"status": "cut-off"} if run.id in dead else {})}
        for run in runs
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not runs:
        echo("no prompt was refined here yet: regauge refine NAME")
    for facts in rows:
        words = [str(facts[name]) for name in ("run", "prompt", "status", "stop") if name in facts]
        if facts["run"] in dead:
            words.append(f"continue: regauge refine resume {facts['run']}")
        echo("  ".join(words))


@click.command(name="show")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option("--trail", is_flag=True, help="Every decision in the audit trail.")
@json_option
def show_command(name: str, *, trail: bool, as_json: bool) -> None:
    """Show the reasons and the evidence of a run."""
    run = find_refinement(Project.find(), name)
    if trail:
        _show_trail(run, as_json=as_json)
        return
    _result(run)
    if as_json:
        echo(run.read_end(run.result).rstrip())
    else:
        echo(as_text(run.read_end(run.markdown)))


def as_text(markdown: str) -> str:
    """Convert Markdown for a terminal, without entities."""
    return html.unescape(markdown).replace("\N{ZERO WIDTH SPACE}", "").rstrip()


@click.command(name="diff")
@click.argument("name", metavar="[RUN]", default="latest")
@json_option
def diff_command(name: str, *, as_json: bool) -> None:
    """Show a run's changes to the prompt file, as a patch."""
    run = find_refinement(Project.find(), name)
    result = _result(run)
    read_verified(run)
    diff = run.diff.read_text(encoding="utf-8") if run.diff.is_file() else ""
    if as_json:
        _print_json(run, diff=diff)
    elif diff:
        click.echo(diff, nl=False)
    else:
        echo(headline(result))
        if result["unverified"]:
            echo(f"next: {result['unverified']['command']}")


@click.command(name="apply")
@click.argument("name", metavar="RUN", cls=NamedRun)
@branch_option
@pr_option
@json_option
def apply_command(name: str, *, branch: str | None, pr: bool, as_json: bool) -> None:
    """Write a run's revision to the prompt file, its version to prompts.lock."""
    project = Project.find()
    run = find_refinement(project, name)
    result = _result(run)
    if result["revision"] is None:
        raise UsageError(f"run {run.id} proposes no revision, so there is nothing to apply")
    if branch is not None or pr:
        check_not_committed(run, find_prompt(_prompt(run), root=project.root))
    delivery = Delivery.prepare(
        project,
        _prompt(run),
        write=branch is None and not pr,
        branch=branch,
        pr=pr,
        print_line=lambda line: echo(line, err=as_json),
    )
    done = delivery.deliver(run, result)
    if as_json:
        _print_json(run, **done)


@click.command(name="reject")
@click.argument("name", metavar="RUN", cls=NamedRun)
@click.option("--edit", "edits", type=click.IntRange(min=1), multiple=True, help="Only this edit.")
@json_option
def reject_command(name: str, *, edits: tuple[int, ...], as_json: bool) -> None:
    """Reject a run's edits for later runs."""
    project = Project.find()
    run = find_refinement(project, name)
    changes = _result(run)["changes"]
    number = len(changes) if (run.directory / "accepted.json").exists() else 0
    if not number or max(edits, default=0) > number:
        has = f"proposes {plural(number, 'edit')}" if number else "proposes none"
        which = f"no edit {max(edits)}" if number else "nothing to reject"
        fix = f"regauge refine show {run.id}"
        raise UsageError(f"run {run.id} {has}, so there is {which}\n  fix: {fix}")
    refused = sorted(set(edits)) or [*range(1, number + 1)]
    reject_edits(project, run, [edit - 1 for edit in refused])
    run.note(rejected=[*refused])
    if as_json:
        _print_json(run, rejected=[*refused])
        return
    for edit in refused:
        change = changes[edit - 1]
        echo(f"edit {edit} is not proposed again: {change['strategy']} for {change['check']}")


@click.command(name="rollback")
@click.argument("name", metavar="RUN", cls=NamedRun)
@json_option
def rollback_command(name: str, *, as_json: bool) -> None:
    """Undo `apply`."""
    project = Project.find()
    run = find_refinement(project, name)
    changed = roll_back(run, find_prompt(_prompt(run), root=project.root))
    run.note(status="rolled-back")
    if as_json:
        _print_json(run, wrote=[project.relative(path).as_posix() for path in changed])
    else:
        echo(f"rolled back run {run.id}: {', '.join(str(short_path(path)) for path in changed)}")
        echo(f"  should it not be proposed again: regauge refine reject {run.id}")


@click.command(name="verify")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option("--recompute", is_flag=True, help="Make every decision again, without calls.")
@json_option
def verify_command(name: str, *, recompute: bool, as_json: bool) -> None:
    """Check a run's audit trail and revision for changes."""
    project = Project.find()
    run = find_refinement(project, name)
    events = read_verified(run)
    decisions = _recompute(project, run) if recompute else None
    if as_json:
        _print_json(run, events=len(events), last=events[-1].digest, recomputed=decisions)
        return
    echo(f"{run.id}: {len(events)} events, chain whole, last {events[-1].digest[:12]}")
    if run.revision.is_file():
        echo(f"  {run.revision.name} is what the run wrote")
    if decisions is not None:
        echo(f"  {decisions} decisions recomputed from the observations, all equal")


RUN_COMMANDS = (
    list_command,
    show_command,
    diff_command,
    apply_command,
    reject_command,
    rollback_command,
    verify_command,
)


def _recompute(project: Project, run: Run) -> int:
    """Recompute a run's decisions and count the equal ones."""
    facts = run.facts()
    counts: list[int] = []

    def act(evals: EvalSession) -> None:
        options = RefineOptions.from_json(facts["options"])
        refinement = Refinement(evals, evals.plan.cases, options, name=_prompt(run), earlier=run)
        counts.append(refinement.verify(run))
        evals.close()

    words = [word for word in map(str, facts["words"]) if not word.startswith("--record=")]
    on_evals(project, _prompt(run), facts.get("evals"), [*words, "--record=none"], act)
    return counts[0]


def on_evals(
    project: Project,
    prompt: str,
    path: Path | str | None,
    words: Sequence[str],
    act: Callable[[EvalSession], None],
    *,
    interrupted: Callable[[], str] = lambda: RESUME_NOTE,
) -> None:
    """Call `act` with the evals of a prompt and of targets that load it.

    Args:
        path: The directory or file of evals; empty or None for `evals`.
        words: Options of the plugin.
        act: Called with the session.
        interrupted: Returns the message after Ctrl-C.
    """
    with_evals(
        project,
        Path(path or project.root / "evals"),
        act,
        prompts=[prompt],
        options=words,
        prefetch=False,
        include_targets=True,
        interrupt_message=interrupted,
    )


def _result(run: Run) -> dict[str, Any]:
    """The result of a run.

    Raises:
        UsageError: The run is not finished.
        TrailError: The file was changed since.
    """
    decision: dict[str, Any] = read_json(run.read_end(run.result))
    return decision


def _print_json(run: Run, **facts: JSON) -> None:
    click.echo(json.dumps({"run": run.id, "prompt": _prompt(run), **facts}, ensure_ascii=False))


def _show_trail(run: Run, *, as_json: bool) -> None:
    for event in read_trail(run.trail):
        body = event.body
        if as_json:
            click.echo(json.dumps({"seq": event.seq, "kind": event.kind, "body": body}))
        elif event.kind == "began":
            echo(f"0 began: {body['prompt']} {body['version']}")
        elif event.kind == "wrote":
            echo(f"{event.seq} wrote: {', '.join(body['files'])}")
        else:
            phase = body["state"]["phase"]
            echo(f"{event.seq} {body['observation']['kind']} -> {phase}", bold=True)
            for decision in body["decisions"]:
                echo(f"    {decision['event']}: {decision['text']}")


def _prompt(run: Run) -> str:
    return str(run.facts()["prompt"])


_GROUPINGS: Mapping[Grouping, str] = {
    "strategy": "strategy",
    "proposer": "proposer",
    "ops": "operations",
}


@click.command(name="stats")
@click.argument("prompt", metavar="[NAME]", required=False)
@json_option
def stats_command(prompt: str | None, *, as_json: bool) -> None:
    """Count the results of all edits, by kind.

    Similar candidates are ordered by `prior` of --json, (kept + 1) / (measured + 2).
    """
    project = Project.find()
    edits = edits_of_runs(project)
    if prompt is not None:
        edits = [edit for edit in edits if edit["prompt"] == prompt]
        if not edits:
            find_prompt(prompt, root=project.root)  # reports an unknown name
    tables: dict[Grouping, EditResultTable] = {
        grouping: EditResultTable.from_entries(edits, grouping) for grouping in _GROUPINGS
    }
    if as_json:
        click.echo(json.dumps(_document(edits, tables), indent=1))
        return
    if not edits:
        of = f" of {prompt}" if prompt else ""
        echo(f"no run tried an edit{of} yet: regauge refine {prompt or 'NAME'}")
        return
    runs = len({edit["run"] for edit in edits})
    echo(f"{plural(len(edits), 'edit')} of {plural(runs, 'run')}")
    for grouping, table in tables.items():
        echo()
        _print_table(_GROUPINGS[grouping], table)


def _document(
    edits: Sequence[Mapping[str, Any]], tables: Mapping[Grouping, EditResultTable]
) -> dict[str, Any]:
    def row(table: EditResultTable, kind: str) -> dict[Any, Any]:
        share = table.share_kept(kind)
        return {
            **table.counts[kind],
            "measured": table.measured(kind),
            "share_kept": None if share is None else round(share, 4),
            "prior": round(table.prior(kind), 4),
        }

    rows: dict[Any, Any] = {
        grouping: {kind: row(table, kind) for kind in table.counts}
        for grouping, table in tables.items()
    }
    return {"runs": len({edit["run"] for edit in edits}), "edits": len(edits), **rows}


def _print_table(title: str, table: EditResultTable) -> None:
    rows = [[title, *table.fates]]
    rows += [
        [kind, *(str(row.get(fate, 0) or "") for fate in table.fates)]
        for kind, row in table.counts.items()
    ]
    for number, line in enumerate(table_lines(rows, counts=True)):
        echo(line, bold=number == 0)
