"""Export evals, runs, output items and files of one OpenAI project.

Usage: export_openai_evals.py [DIRECTORY]
"""

import json
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

BASE = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1").rstrip("/")
HEADERS = {
    "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}",
    "OpenAI-Organization": os.environ.get("OPENAI_ORG_ID", ""),
    "OpenAI-Project": os.environ.get("OPENAI_PROJECT_ID", ""),
}
ATTEMPTS = 6
FINAL = {"completed", "failed", "canceled", "cancelled"}


def fetch(path, target):
    """Write the body of a response to a file, which exists only when it is whole."""
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, ATTEMPTS + 1):
        request = urllib.request.Request(BASE + path)
        for name, value in HEADERS.items():
            if value:
                # Other hosts never get it, if a download redirects there.
                request.add_unredirected_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=120) as response, part.open("wb") as file:
                shutil.copyfileobj(response, file)
            part.replace(target)
            break
        except urllib.error.HTTPError as error:
            wait = error.headers.get("Retry-After", "")
            lasting = error.code < 500 and error.code not in {408, 409, 429}
            if lasting or attempt == ATTEMPTS:
                raise
        except OSError:
            wait = ""
            if attempt == ATTEMPTS:
                raise
        time.sleep(float(wait) if re.fullmatch(r"\d{1,3}(\.\d+)?", wait) else 2**attempt / 4)


def objects(path, scratch):
    """Each object of a list, from all of its pages."""
    after = None
    while True:
        query = {"limit": "100", "order": "asc"} | ({"after": after} if after else {})
        fetch(f"{path}?{urllib.parse.urlencode(query)}", scratch)
        page = json.loads(scratch.read_text(encoding="utf-8"))
        scratch.unlink()
        yield from page["data"]
        if not page.get("has_more") or not page["data"]:
            return
        after = page.get("last_id") or page["data"][-1]["id"]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def check_id(id_):
    """Return the id if it can be the name of a file."""
    if not re.fullmatch(r"[A-Za-z0-9_-]+", id_):
        raise ValueError(f"{id_!r} is not an id")
    return id_


def file_ids(value):
    """The ids of files that a data source names, at any depth."""
    if isinstance(value, dict):
        if value.get("type") == "file_id" and isinstance(value.get("id"), str):
            yield value["id"]
        if isinstance(value.get("file_id"), str):
            yield value["file_id"]
        for part in value.values():
            yield from file_ids(part)
    elif isinstance(value, list):
        for part in value:
            yield from file_ids(part)


def export_files(root, value):
    """Write each file that a data source names, and its metadata."""
    for id_ in dict.fromkeys(file_ids(value)):
        for name, path in (("json", ""), ("content", "/content")):
            target = root / "files" / f"{check_id(id_)}.{name}"
            if not target.exists():
                attempt(root, f"file {id_}", fetch, f"/files/{id_}{path}", target)


def export_run(root, eval_id, run):
    """Write the files and the output items of a run, and then the run itself."""
    directory = root / "evals" / check_id(eval_id) / "runs" / check_id(run["id"])
    export_files(root, run)
    done = directory / "run.json"
    if done.exists() and json.loads(done.read_text(encoding="utf-8")).get("status") in FINAL:
        return
    path = f"/evals/{eval_id}/runs/{run['id']}/output_items"
    items = [json.dumps(item, ensure_ascii=False) for item in objects(path, root / "page")]
    write(directory / "output_items.jsonl", "".join(f"{item}\n" for item in items))
    write(done, json.dumps(run, ensure_ascii=False, indent=1) + "\n")
    print(f"{eval_id} {run['id']}: {len(items)} output items", flush=True)


def attempt(root, what, act, *arguments):
    """Call a function; record a failure and continue."""
    try:
        return act(*arguments)
    except (OSError, ValueError, KeyError) as error:
        failures.append(what)
        print(f"FAILED {what}: {error}", file=sys.stderr, flush=True)
        with (root / "failures.txt").open("a", encoding="utf-8") as file:
            file.write(f"{what}: {error}\n")
        return None


def export_eval(root, eval_):
    write(
        root / "evals" / check_id(eval_["id"]) / "eval.json",
        json.dumps(eval_, ensure_ascii=False, indent=1) + "\n",
    )
    export_files(root, eval_)
    for run in objects(f"/evals/{eval_['id']}/runs", root / "page"):
        attempt(root, f"run {run['id']} of {eval_['id']}", export_run, root, eval_["id"], run)


def main(root):
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("set OPENAI_API_KEY to a key of the project whose evals you export")
    root.mkdir(parents=True, exist_ok=True)
    (root / "failures.txt").unlink(missing_ok=True)
    evals = attempt(root, "the list of evals", lambda: list(objects("/evals", root / "page"))) or []
    for eval_ in evals:
        attempt(root, f"eval {eval_['id']}", export_eval, root, eval_)
    print(f"{len(evals)} evals in {root}, {len(failures)} failures")
    return 1 if failures else 0


failures = []
if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "openai-evals")))
