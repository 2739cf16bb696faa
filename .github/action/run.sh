#!/usr/bin/env bash
# shellcheck disable=SC2153  # every OPDIFF_* is set by action.yml
# Runs one mode of OpDiff, in place or in a container, and writes the step's outputs.
#
# What a container sees: the workspace read-only, the event read-only, its own output folder. Modes that run the pull
# request's code (check) or read what it wrote (merge) get no token and no network; the token goes to plan, publish and
# command, which execute nothing of the pull request.
set -euo pipefail

workspace="$GITHUB_WORKSPACE"
checkout="$(realpath -m -- "$workspace/$OPDIFF_PATH")"
action="$(cd "$(dirname "$0")/../.." && pwd)"
mkdir -p "$RUNNER_TEMP"
# A fresh folder each time: a step earlier in this job must not have put a report there.
out="$(mktemp -d "$RUNNER_TEMP/opdiff-XXXXXX")"
engine="$OPDIFF_ENGINE"
report_folder=""
cache="$RUNNER_TEMP/opdiff-cache" # environments that the image lacks, for this job's later steps too
mkdir -p "$cache"
container=""
api_network="${OPDIFF_API_NETWORK:-bridge}"     # host, where only the runner's own network reaches the server
check_network="${OPDIFF_CHECK_NETWORK:-bridge}" # none, where the image has every environment

fail() {
  echo "::error title=OpDiff::$1"
  exit 1
}

output() { echo "$1=$2" >>"$GITHUB_OUTPUT"; }

is_true() { [[ "${1,,}" == true ]]; }

remove_container() {
  if [[ -n "$container" ]]; then
    "$engine" rm --force "$container" >/dev/null 2>&1 || true
  fi
}
trap remove_container EXIT
trap 'exit 130' INT TERM

# --- how a container is started -------------------------------------------------------------------------------------

# Least privilege for all modes: the runner's own user, no capabilities, nothing of the image can be written.
base_options() {
  printf '%s\0' --rm --init --no-healthcheck --user "$(id -u):$(id -g)" --read-only --cap-drop ALL --security-opt no-new-privileges \
    --pids-limit 4096 --tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777 --workdir "$workspace" --volume "$workspace:$workspace:ro"
  [[ "$engine" != podman ]] || printf '%s\0' --pull missing
  local more
  read -r -a more <<<"${OPDIFF_ENGINE_OPTIONS:-}" # of the runner's owner: a certificate, a shared cache
  [[ ${#more[@]} -eq 0 ]] || printf '%s\0' "${more[@]}"
}

# The candidate's sandbox makes namespaces of its own, which an engine's defaults refuse: its system call filter, the
# masked parts of /proc (no fresh /proc can be mounted while they are there), and AppArmor's rule against mounting.
# Where the host forbids it all the same, the check runs and the report says `unisolated`.
check_options() {
  printf '%s\0' --security-opt "seccomp=$action/.github/action/seccomp.json" --volume "$out:$out" --volume "$cache:/tmp/home/.cache"
  if [[ "$engine" == podman ]]; then
    printf '%s\0' --security-opt unmask=ALL
  else
    printf '%s\0' --security-opt systempaths=unconfined --security-opt "apparmor=$(apparmor_profile)"
  fi
}

# Hosts that keep user namespaces from unconfined processes let a named profile have them, where it can be loaded.
apparmor_profile() {
  local restricted=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
  if [[ "$(cat "$restricted" 2>/dev/null)" == 1 ]] && command -v apparmor_parser >/dev/null &&
    sudo -n apparmor_parser --replace "$action/.github/action/apparmor.profile" 2>/dev/null; then
    echo opdiff
  else
    echo unconfined
  fi
}

gpu_options() {
  if [[ -z "$OPDIFF_GPUS" ]]; then
    return
  fi
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi --list-gpus 2>/dev/null | grep -q GPU; then
    echo "::warning title=OpDiff::gpus: $OPDIFF_GPUS is asked for, and this runner has no NVIDIA GPU" >&2
    return
  fi
  printf '%s\0' --gpus "$OPDIFF_GPUS"
}

token_options() {
  printf '%s\0' --network "$api_network" --env OPDIFF_GITHUB_TOKEN
  local name
  for name in GITHUB_API_URL GITHUB_SERVER_URL GITHUB_REPOSITORY GITHUB_EVENT_NAME GITHUB_RUN_ID GITHUB_RUN_ATTEMPT OPDIFF_GITHUB_LOGIN; do
    printf '%s\0' --env "$name"
  done
  printf '%s\0' --env "GITHUB_EVENT_PATH=$GITHUB_EVENT_PATH" --volume "$GITHUB_EVENT_PATH:$GITHUB_EVENT_PATH:ro"
}

event_options() { printf '%s\0' --volume "$GITHUB_EVENT_PATH:$GITHUB_EVENT_PATH:ro"; }

options_of() {
  local part
  options=()
  for part in "$@"; do
    local -a found=()
    mapfile -d '' -t found < <("$part")
    options+=("${found[@]}")
  done
}

# opdiff NEEDS... -- ARGUMENTS: one command, in place or in a container of its own.
opdiff() {
  local -a needs=()
  while [[ "$1" != -- ]]; do
    needs+=("$1")
    shift
  done
  shift
  if [[ "$engine" == in-place ]]; then
    command opdiff "$@"
    return
  fi
  options_of base_options "${needs[@]}"
  "$engine" run "${options[@]}" "$OPDIFF_IMAGE" "$@"
}

# --- arguments ------------------------------------------------------------------------------------------------------

change_arguments() {
  arguments=(--repo "$checkout" --event "$GITHUB_EVENT_PATH" --event-name "$GITHUB_EVENT_NAME")
  [[ -z "$OPDIFF_FRAMEWORK" ]] || arguments+=(--framework "$OPDIFF_FRAMEWORK")
  [[ -z "$OPDIFF_CONFIG" ]] || arguments+=(--config "$(realpath -m -- "$workspace/$OPDIFF_CONFIG")")
  [[ -z "$OPDIFF_DEVICES" ]] || arguments+=(--device "$OPDIFF_DEVICES")
  [[ -z "$OPDIFF_BUDGET" || "$OPDIFF_BUDGET" == 0 ]] || arguments+=(--budget "$OPDIFF_BUDGET")
  [[ -z "$OPDIFF_OPS" ]] || arguments+=(--op "$OPDIFF_OPS")
  if is_true "$OPDIFF_ALL_OPS"; then
    arguments+=(--all)
  fi
}

# --- modes ----------------------------------------------------------------------------------------------------------

plan() {
  change_arguments
  [[ -z "$OPDIFF_SHARDS" ]] || arguments+=(--shards "$OPDIFF_SHARDS")
  opdiff token_options -- plan "${arguments[@]}" --github-output >>"$GITHUB_OUTPUT"
}

check() {
  refuse_persisted_credentials
  change_arguments
  arguments+=(--out "$out/report")
  [[ -z "$OPDIFF_CANDIDATE" ]] || arguments+=(--candidate "$OPDIFF_CANDIDATE")
  [[ -z "$OPDIFF_BASELINE" ]] || arguments+=(--baseline "$OPDIFF_BASELINE")
  [[ -z "$OPDIFF_SHARD" ]] || arguments+=(--shard "$OPDIFF_SHARD")
  [[ -z "$OPDIFF_FAIL_ON" ]] || arguments+=(--fail-on "$OPDIFF_FAIL_ON")
  local peer
  while IFS= read -r peer; do
    [[ -z "${peer//[[:space:]]/}" ]] || arguments+=(--peer "$peer")
  done <<<"$OPDIFF_PEERS"

  local code=0
  # What the check prints comes from the pull request: it must not be read as commands to the runner.
  local stop
  stop="$(head -c 32 /dev/urandom | sha256sum | cut -c 1-64)"
  echo "::stop-commands::$stop"
  run_check || code=$?
  echo "::$stop::"
  report "$code"
}

run_check() {
  if [[ "$engine" == in-place ]]; then
    command opdiff check "${arguments[@]}"
    return
  fi
  # Environments that the image lacks are made with a network; it is cut before the pull request's code starts.
  options_of base_options check_options event_options gpu_options
  container="opdiff-$(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' \n')"
  [[ "$check_network" != host ]] ||
    fail "OPDIFF_CHECK_NETWORK is host, and that cannot be cut before the pull request's code starts: give bridge or none"
  "$engine" run --detach --name "$container" --network "$check_network" --entrypoint sleep "${options[@]}" "$OPDIFF_IMAGE" infinity >/dev/null
  "$engine" exec "$container" opdiff check "${arguments[@]}" --prepare-only || return
  cut_network
  "$engine" exec "$container" opdiff check "${arguments[@]}"
}

cut_network() {
  local attached
  # shellcheck disable=SC2016  # the dollar is the template's
  for attached in $("$engine" inspect --format '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}' "$container"); do
    [[ "$attached" == none ]] || "$engine" network disconnect --force "$attached" "$container" ||
      fail "the check's container keeps its network $attached: nothing was run"
  done
}

refuse_persisted_credentials() {
  if git -C "$checkout" config --get-regexp '^http\..*\.extraheader$' >/dev/null 2>&1; then
    fail "the checkout in $OPDIFF_PATH holds a token: give actions/checkout persist-credentials: false"
  fi
}

merge() {
  local code=0
  local shards="${OPDIFF_SHARD##*/}"
  [[ "$shards" =~ ^[1-9][0-9]*$ ]] || fail "merge needs shard: how many shards there were, as in 4/4"
  report_folder="$(cd "$workspace" && realpath -m -- "${OPDIFF_REPORT:-shards}")"
  mkdir -p "$report_folder" # no artifact at all: every shard is lost, and the report says so
  arguments=(merge "$report_folder" --expected "$shards" --out "$out/report")
  [[ -z "$OPDIFF_FAIL_ON" ]] || arguments+=(--fail-on "$OPDIFF_FAIL_ON")
  [[ -z "$OPDIFF_ACCEPTED" ]] || arguments+=(--accept "$OPDIFF_ACCEPTED")
  opdiff merge_options -- "${arguments[@]}" || code=$?
  report "$code"
}

merge_options() {
  printf '%s\0' --network none --volume "$out:$out" --volume "$report_folder:$report_folder:ro"
}

read_options() { printf '%s\0' --network none --volume "$out:$out:ro"; }

# report CODE: outputs, step summary and the artifact's name of a report that was just written.
report() {
  output code "$1"
  if [[ ! -f "$out/report/results.json" ]]; then
    output result incomplete
    return
  fi
  opdiff read_options -- outputs "$out/report" >>"$GITHUB_OUTPUT"
  opdiff read_options -- step-summary "$out/report" >>"$GITHUB_STEP_SUMMARY"
  local suffix=""
  if [[ "$OPDIFF_MODE" == check && -n "$OPDIFF_SHARD" ]]; then
    suffix="-shard-${OPDIFF_DEVICES//[^a-z0-9]/-}-${OPDIFF_SHARD//\//-of-}"
  fi
  output artifact "$OPDIFF_ARTIFACT_NAME$suffix"
  output folder "$out/report"
  output upload true
}

publish() {
  local code=0
  arguments=(--out "$out/report" --artifact-name "$OPDIFF_ARTIFACT_NAME" --check-workflow "$OPDIFF_CHECK_WORKFLOW")
  if [[ "$GITHUB_EVENT_NAME" != workflow_run ]]; then
    # One stage: the report lies on this machine. Where there is none, the check broke, and that is what is published.
    report_folder="$(cd "$workspace" && realpath -m -- "${OPDIFF_REPORT:-$out/none}")"
    [[ ! -f "$report_folder" ]] || report_folder="$(dirname "$report_folder")"
    mkdir -p "$report_folder"
    arguments+=(--report "$report_folder")
  fi
  is_true "$OPDIFF_PR_COMMENT" || arguments+=(--no-pr-comment)
  is_true "$OPDIFF_CHECK_RUN" || arguments+=(--no-check-run)
  opdiff token_options publish_options -- publish "${arguments[@]}" >>"$GITHUB_OUTPUT" || code=$?
  output code "$code"
  if [[ -f "$out/report/results.json" ]]; then
    output artifact "$OPDIFF_ARTIFACT_NAME-report"
    output folder "$out/report"
    output upload true
    opdiff read_options -- step-summary "$out/report" >>"$GITHUB_STEP_SUMMARY"
  fi
}

publish_options() {
  printf '%s\0' --volume "$out:$out"
  [[ -z "$report_folder" ]] || printf '%s\0' --volume "$report_folder:$report_folder:ro"
}

answer() {
  opdiff token_options -- command --check-workflow "$OPDIFF_CHECK_WORKFLOW" --artifact-name "$OPDIFF_ARTIFACT_NAME"
}

build() {
  echo "::group::Build $OPDIFF_IMAGE"
  "$engine" build --tag "$OPDIFF_IMAGE" "$action"
  echo "::endgroup::"
}

[[ "$OPDIFF_BUILD" != engine ]] || build
case "$OPDIFF_MODE" in
plan | check | merge | publish) "$OPDIFF_MODE" ;;
command) answer ;;
*) fail "mode ${OPDIFF_MODE@Q} is none of plan, check, merge, publish, command" ;;
esac
