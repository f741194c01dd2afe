#!/usr/bin/env bash
# Run regauge with the inputs of the action. Each INPUT_ variable becomes one word of one command,
# whatever it contains.
set -euo pipefail -o noglob

refuse() {
    printf '::error title=regauge::%s\n' "$1" >&2
    exit 2
}

word() { # NAME: print the input; refuse an option and a line break
    local value="${!1:-}"
    case "$value" in
    -* | *$'\n'* | *$'\r'*) refuse "the input ${1#INPUT_} cannot be used" ;;
    esac
    printf '%s' "$value"
}

python="${INPUT_PYTHON:-python}"
report="$(word INPUT_REPORT)"
report="${report:-run-record}"
base="$(word INPUT_BASE)"
budget="$(word INPUT_BUDGET)"
model="$(word INPUT_MODEL)"
named="$(word INPUT_PROMPT)"
recheck="$(word INPUT_RECHECK)"
feedback_pr="$(word INPUT_FEEDBACK_PR)"
more_trials="$(word INPUT_MORE_TRIALS)"
[[ "$more_trials" =~ ^[0-9]*$ ]] || refuse "the input MORE_TRIALS is a number"
# Free text, on one line; it follows a `=`, so it may begin with a hyphen.
reason="${INPUT_ACCEPT_JUDGE_CHANGE:-}"
reason="${reason//[$'\n\r\t']/ }"
prompts=()
for prompt in $named; do
    [[ "$prompt" =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || refuse "the input PROMPT cannot be used"
    prompts+=("$prompt")
done
case "${INPUT_RECORD:=none}" in
none | missing | all) ;;
*) refuse "the input RECORD is none, missing or all" ;;
esac

common=()
[[ -z "$budget" ]] || common+=("--budget-usd=$budget")
[[ -z "$model" ]] || common+=("--model=$model")

code=0
decision=""
case "${INPUT_COMMAND:-}" in
evals | gate)
    words=("-m" pytest evals "--record=$INPUT_RECORD" "--report=$report")
    if [[ "$INPUT_COMMAND" == gate ]]; then
        words+=("--gate=${base:-origin/main}")
        [[ -z "$more_trials" ]] || words+=("--more-trials=$more_trials")
        [[ -z "$reason" ]] || words+=("--accept-judge-change=$reason")
    fi
    if ((${#prompts[@]})); then
        refuse "the input PROMPT is for baseline and refine; evals of all prompts run"
    fi
    rm -f -- "$report/run.json" # an existing record is of an earlier run
    "$python" "${words[@]}" "${common[@]}" || code=$?
    if [[ -f "$report/run.json" ]]; then
        decision="$("$python" -I -c 'import json, sys
decision = json.load(open(sys.argv[1], encoding="utf-8")).get("decision") or {}
print(decision.get("decision", ""))' "$report/run.json")" || decision=""
    fi
    ;;
baseline)
    words=("-m" regauge baseline update)
    [[ -z "$recheck" ]] || words+=("--recheck=$recheck")
    [[ "${INPUT_ISSUE:-}" != true ]] || words+=(--issue)
    "$python" "${words[@]}" "${common[@]}" -- "${prompts[@]}" || code=$?
    ;;
refine)
    ((${#prompts[@]})) || refuse "the input PROMPT names no prompt to refine"
    [[ -z "$feedback_pr" ]] || common+=("--feedback-pr=$feedback_pr")
    for prompt in "${prompts[@]}"; do
        "$python" -m regauge refine "$prompt" --pr "${common[@]}" || code=$?
    done
    ;;
*)
    refuse "the input COMMAND is evals, gate, baseline or refine"
    ;;
esac

case "$decision" in
accept | reject | refused | undecided | unmeasured | "") ;;
*) decision="" ;;
esac
# A gate without a decision measured nothing, whatever pytest's exit code.
if [[ "${INPUT_COMMAND:-}" == gate && ("$decision" == "" || "$decision" == unmeasured) ]]; then
    code=3
fi
printf 'exit-code=%s\ndecision=%s\n' "$code" "$decision" >>"${GITHUB_OUTPUT:-/dev/null}"
exit "$code"
