"""Keys in outputs of a model: the files and the terminal of a run hold none of them."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import string
import urllib.parse
from functools import partial
from typing import TYPE_CHECKING

from ._project import Ended, Project, stub_project
from ._stub import Reply, Request, completion, stub
from ._try import Drill, Try

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["KEYS", "LOOKALIKES"]

# {40a}: 40 random characters that are secret. a letters and digits, h hex, A upper case and
# digits, l lower case and digits, d digits, w letters, digits, - and _, b base64.
_FORMATS = """\
AWS access key | AKIA{16A}
AWS session key | ASIA{16A}
AWS secret | AWS_SECRET_ACCESS_KEY={40b}
AWS Bedrock | ABSK{110b}
OpenAI | sk-{20a}T3BlbkFJ{20a}
OpenAI project | sk-proj-{60w}T3BlbkFJ{60w}
OpenRouter | sk-or-v1-{64h}
Anthropic | sk-ant-api03-{93w}AA
Groq | gsk_{52a}
xAI | xai-{80a}
Perplexity | pplx-{48a}
Replicate | r8_{37a}
Hugging Face | hf_{34a}
Google | AIza{35w}
Google OAuth | ya29.a0{80w}
Google client secret | GOCSPX-{28w}
Azure OpenAI | api-key: {32h}
Azure storage | AccountKey={86b}==;EndpointSuffix=core.windows.net
GitHub | ghp_{36a}
GitHub app | ghs_{36a}
GitHub refresh | ghr_{36a}
GitHub fine-grained | github_pat_{22a}_{59a}
GitLab | glpat-{20w}
GitLab runner | glrt-{20w}
GitLab deploy | gldt-{20w}
GitLab job | glcbt-64_{20w}
Slack bot | xoxb-{12d}-{13d}-{24a}
Slack app | xapp-1-A{10A}-{13d}-{64h}
Slack webhook | https://hooks.slack.com/services/T{10A}/B{10A}/{24a}
Discord bot | MT{24a}.G{5w}.{38w}
Telegram | {10d}:AA{33w}
Stripe | sk_live_{24a}
Stripe webhook | whsec_{32a}
Shopify | shpat_{32h}
SendGrid | SG.{22w}.{43w}
npm | npm_{36a}
PyPI | pypi-AgEIcHlwaS5vcmc{100w}
Docker | dckr_pat_{27w}
Databricks | dapi{32h}
Vault | hvs.{95w}
Terraform | {14a}.atlasv1.{67w}
Grafana | glsa_{32a}_{8h}
Sentry | sntrys_eyJ{90w}_{43w}
Linear | lin_api_{40a}
Notion | ntn_{46a}
Supabase | sbp_{40h}
DigitalOcean | dop_v1_{64h}
New Relic | NRAK-{27A}
JSON web token | eyJhbGciOiJIUzI1NiJ9.eyJ{60w}.{43w}
Postgres URL | postgresql://app:{20a}@db.internal:5432/app
basic auth URL | https://ci:{24a}@registry.internal/simple
netrc | machine api.internal login ci password {20a}
curl -u | curl -u ci:{20a} https://api.internal/v1
Bearer header | Authorization: Bearer {40w}
Basic header | Authorization: Basic {40b}
Cookie header | Cookie: session={40w}
German password | Passwort: {8a}#{8a}
private key | -----BEGIN PRIVATE KEY-----\\n{64b}\\n{64b}\\n-----END PRIVATE KEY-----
signed URL | https://store.internal/a.csv?sv=2024&sig={43w}%3D
password on a command line | mysql --password={16a} -h db
"""

# Values of variables of the run, as a careless gateway repeats them.
_VARIABLES = ("DRILL_API_KEY", "GH_PAT", "SERVICE_AUTH", "UPLOAD_TOKEN", "STORE_ACCESS_KEY")

_LOOKALIKES = """\
3f2b8a54-0c1d-4f7e-9a66-5d0c2b7e1f90
fixed in 9fceb02d0ae598e95dc970b74767f19372d61af8
sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
md5 5d41402abc4b2a76b9719d911017c592
trace_id=7bf92f3577b34da6a3ce929d0e0e4711
integrity="sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH8n ops@internal
secret: prod/db/password-v2
api_key = os.environ["SERVICE_API_KEY"]
token: ${{ secrets.DEPLOY_TOKEN }}
Authorization: Bearer $ACCESS_TOKEN
curl -u "$USER:$PASSWORD" https://api.internal
postgresql://USER:PASSWORD@HOST:5432/NAME
export OPENAI_API_KEY=sk-...
the password must have twelve characters
max_tokens=2048 prompt_tokens=911
task-based-desk-sharing-for-risk-averse-teams
primary key (tenant_id, created_at)
pod/checkout-6d4cf56db6-k8zq7 restarted
ghcr.io/team/app:sha-9fceb02
kubectl create secret generic tls --from-file=tls.key
2026-11-22T10:15:30.123456789Z request 01JD8Q3V5Y8M4N6P7R9S2T4V6W
https://docs.internal/reset-password?step=2&lang=en
"""

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
}


def _made(template: str, chance: random.Random) -> tuple[str, list[str]]:
    """A text with a key, and the parts of it that are secret."""
    parts: list[str] = []

    def fill(match: re.Match[str]) -> str:
        alphabet = _ALPHABETS[match[2]]
        part = "".join(chance.choices(alphabet, k=int(match[1]) - 2))
        # No - or + at an edge, where no generator has it.
        part = f"Q7{part}" if match[2] not in "hld" else f"72{part}"
        parts.append(part)
        return part

    text = re.sub(r"\{(\d+)([a-zA-Z])\}", fill, template.replace("\\n", "\n"))
    return text, [part for part in parts if len(part) >= 10]


def _everything(project: Project, ended: Ended) -> dict[str, bytes]:
    """What the run left behind, by file."""
    found = {"terminal": ended.text.encode()}
    for path in project.files():
        if "golden" not in path.parts:
            found[str(path.relative_to(project.root))] = path.read_bytes()
    return found


def _forms(text: str) -> dict[str, str]:
    return {
        "as it is": f"Use this: {text}\nBye.",
        "JSON": "Use this: " + json.dumps({"value": text}) + "\nBye.",
        "percent-encoded": "Use this: " + urllib.parse.quote(text, safe="") + "\nBye.",
        "HTML": "Use this: <b>" + html.escape(text) + "</b>\nBye.",
    }


def _tries(shared: Path) -> Iterator[Try]:
    chance = random.Random(20261122)
    outputs: list[str] = []
    names: list[str] = []
    secrets: list[list[str]] = []
    for line in _FORMATS.splitlines():
        name, _, template = line.partition(" | ")
        text, parts = _made(template, chance)
        for form, output in _forms(text).items():
            names.append(f"{name}, {form}")
            outputs.append(output)
            secrets.append(parts)
    values = {name: f"{name[:2]}Ab-{chance.getrandbits(100):x}" for name in _VARIABLES}
    for name, value in values.items():
        for form, output in (
            *_forms(value).items(),
            ("base64", "Use " + base64.b64encode(value.encode()).decode()),
        ):
            names.append(f"the value of {name}, {form}")
            outputs.append(output)
            secrets.append([value, base64.b64encode(value.encode()).decode()])
    yield from _run(shared, outputs, names, secrets, values)


def _run(
    shared: Path,
    outputs: list[str],
    names: list[str],
    secrets: list[list[str]],
    values: dict[str, str],
) -> Iterator[Try]:
    # A third of the outputs comes as an error of the provider, and one as arguments of a tool.
    def behave(request: Request) -> Reply:
        text = outputs[request.case]
        if request.case % 3 == 2:
            body = json.dumps({"error": {"message": text, "code": "bad"}}).encode()
            return Reply(body=body, status=400)
        return Reply(body=completion(text))

    with stub(behave) as server:
        project = stub_project(
            shared,
            server.base_url,
            inputs=["x"] * len(outputs),
            judges="lambda output, case: False",
            provider='api_key_env = "DRILL_API_KEY"',
        )
        project.environ.update(values)
        project.environ["GITHUB_ACTIONS"] = "true"
        project.environ["GITHUB_STEP_SUMMARY"] = str(project.root / "summary.md")
        ended = project.pytest("evals", "--junitxml=junit.xml", "--tb=long", "-rA")
        recorded = project.regauge("record")
        project.regauge("report", "latest", "--format", "html", "-o", "report.html")
    ended = Ended(code=ended.code, out=ended.text, err=recorded.text)
    left = _everything(project, ended)
    for name, parts in zip(names, secrets, strict=True):
        yield Try(name=name, failure=partial(_leak, left, parts))
    yield Try(name="the run made its files", failure=partial(_complete, left))


def _complete(left: dict[str, bytes], _: Path) -> str:
    """The drill is worth something only if outputs are in these files, without the keys."""
    wanted = ("junit.xml", "report.html", "fixtures/recordings/notes.jsonl")
    missing = [name for name in wanted if b"Bye." not in left.get(name, b"")]
    return f"without outputs: {missing}" if missing else ""


def _leak(left: dict[str, bytes], parts: list[str], _: Path) -> str:
    """A key is out where half of its longest part can be read in one piece."""
    for part in parts:
        piece = part[: max(10, len(part) // 2)]
        for form in (piece, piece.replace("/", "\\/"), urllib.parse.quote(piece, safe="")):
            for name, content in left.items():
                if form.encode() in content:
                    return f"{piece[:24]}... is in {name}"
    return ""


def _kept(shared: Path) -> Iterator[Try]:
    lines = _LOOKALIKES.splitlines()
    with stub(lambda request: Reply(body=completion(lines[request.case]))) as server:
        project = stub_project(shared, server.base_url, inputs=["x"] * len(lines))
        ended = project.regauge("record")
        assert ended.code == 0, ended.text
    text = (project.root / "fixtures/recordings/notes.jsonl").read_text(encoding="utf-8")
    for line in lines:
        yield Try(name=line[:40], failure=partial(_redacted, text, line))


def _redacted(text: str, line: str, _: Path) -> str:
    return "" if json.dumps(line)[1:-1] in text else "redacted"


KEYS = Drill(
    name="keys",
    about="keys in outputs and errors of a model that a file or the terminal shows",
    tries=_tries,
    quick=999,
)
LOOKALIKES = Drill(
    name="lookalikes",
    about="texts that look like keys and are redacted",
    tries=_kept,
    quick=999,
    tolerated=1,
)
