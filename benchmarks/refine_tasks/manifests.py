# ruff: noqa: E501 - a table of requirements, one to a line
"""Reviews of Kubernetes manifests: one dense paragraph of long sentences.

Cases differ in how hard they are, the checks of one answer often fail together, one judgement in
twenty is wrong, and what the team's scheme of names is nobody can know from the input.
"""

from __future__ import annotations

from benchmarks.refine_tasks._simulated import Requirement
from benchmarks.refine_tasks._woven import WovenTask

__all__ = ["TASK"]

_FORM, _VERDICT, _IMAGES, _FINDINGS, _LIMITS, _NAMES = (
    "form",
    "verdict",
    "images",
    "findings",
    "limits",
    "names",
)


# fmt: off
_NEEDS = (
    Requirement("yaml", _FORM, "Answer in YAML with no text outside it.", (r"\bYAML\b", r"no text outside"), "Answer in prose and not in YAML.", r"in prose and not in yaml", 0.30, "the answer is not YAML alone"),
    Requirement("path", _FORM, "Begin every finding with the path of the field.", (r"every finding", r"path of the field"), "Leave the paths of fields out of findings.", r"leave the paths of fields out", 0.20, "a finding does not begin with the path of its field"),
    Requirement("verdict", _VERDICT, "Say either approve or block under verdict.", (r"approve or block", r"verdict"), "Do not give a verdict.", r"do not give a verdict", 0.15, "verdict is missing or neither approve nor block"),
    Requirement("root", _VERDICT, "Block whenever a container may run as root.", (r"block whenever", r"root"), "Accept containers that run as root.", r"accept containers that run as root", 0.30, "a container running as root was let through"),
    Requirement("memory", _IMAGES, "Report each container that has no memory limit.", (r"each container", r"memory limit"), "Pay no attention to memory limits.", r"no attention to memory limits", 0.35, "a missing memory limit was not reported"),
    Requirement("latest", _IMAGES, "Report images whose tag is latest or absent.", (r"images", r"latest"), "Ignore the tags of images.", r"ignore the tags of images", 0.25, "an image without a fixed tag was not reported"),
    Requirement("five", _FINDINGS, "Give at most five findings, the most severe first.", (r"at most five", r"most severe first"), "Give as many findings as there are.", r"as many findings as there are", 0.40, "more than five findings, or not sorted"),
    Requirement("value", _FINDINGS, "End each finding with a value that can be pasted.", (r"each finding", r"pasted"), "Do not suggest values.", r"do not suggest values", 0.20, "a finding suggests no value"),
    Requirement("secret", _LIMITS, "Never repeat the data of a Secret.", (r"never repeat", r"Secret"), "Show the data of each Secret in full.", r"data of each secret in full", 0.45, "data of a Secret is repeated"),
    Requirement("broken", _LIMITS, "Name only the line where parsing stops if the manifest is malformed.", (r"malformed", r"parsing stops"), "Guess what a malformed manifest meant.", r"guess what a malformed manifest", 0.10, "a malformed manifest was reviewed"),
    Requirement("names", _NAMES, "Check that names follow the scheme of the team.", (r"names", r"scheme of the team"), "Pay no heed to names.", r"no heed to names", 0.50, "a name that breaks the scheme was not found"),
)
# fmt: on

TASK = WovenTask(
    name="manifests",
    layout="paragraph",
    requirements=_NEEDS,
    sections=(_FORM, _VERDICT, _IMAGES, _FINDINGS, _LIMITS, _NAMES),
    opening=("You review one Kubernetes manifest for the platform team.",),
    closing=("The manifest: {{manifest}}",),
    golden=lambda _, __, token: f"verdict: block # spec.{token[:5]} -> {token[3:]}",
    text_of=lambda case, _, token: f"manifest {case} of namespace ns-{token}",
    spread=0.7,
    units=r"[.;\n]",
    misjudged=0.05,
    together=0.5,
    at_best={"names": 0.62},
    unwatched={
        _FORM: ("Fields may be reviewed in any order.", "Indent by two spaces."),
        _VERDICT: (
            "Warnings alone do not stop a release.",
            "The platform team reads every review.",
        ),
        _IMAGES: ("Init jobs count like any other.", "Mirrors of public registries are fine."),
        _FINDINGS: ("Group what concerns the same object.", "Praise has no place here."),
        _LIMITS: ("Comments in the file are not part of it.", "Helm templates arrive rendered."),
        _NAMES: ("Labels are free.",),
    },
)
