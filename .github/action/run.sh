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
container=""   # what the engine runs now
child=""       # the process that is waited for
stop_token=""  # while the runner takes no commands from what is printed
# One job at a time has this. A digest, since an engine reads quotes and commas in a filter.
label="opdiff.runner=$(sha256sum <<<"${RUNNER_NAME:-}:$RUNNER_TEMP" | cut -c 1-32)"
api_network="${OPDIFF_API_NETWORK:-bridge}"     # host, where only the runner's own network reaches the server
check_network="${OPDIFF_CHECK_NETWORK:-bridge}" # none, where the image has every environment

fail() {
  resume_commands
  echo "::error title=OpDiff::$1"
  exit 1
}

output() { echo "$1=$2" >>"$GITHUB_OUTPUT"; }

is_true() { [[ "${1,,}" == true ]]; }

stop_commands() {
  stop_token="$(head -c 32 /dev/urandom | sha256sum | cut -c 1-64)"
  echo "::stop-commands::$stop_token"
}

# On a line of its own, whatever was printed last.
resume_commands() {
  [[ -z "$stop_token" ]] || printf '\n::%s::\n' "$stop_token"
  stop_token=""
}

# --- a job that is cancelled leaves nothing running -----------------------------------------------------------------

# A shell acts on a signal only when the command that it runs has ended, unless that runs in the background. The runner
# gives a cancelled step ten seconds.
wait_for() {
  "$@" &
  child=$!
  local code=0
  wait "$child" || code=$?
  child=""
  return "$code"
}

end_child() {
  [[ -z "$child" ]] || kill -TERM "$child" 2>/dev/null || true
  exit 130
}

remove_container() {
  [[ -z "$container" ]] || "$engine" rm --force "$container" >/dev/null 2>&1 || true
}

# Of a job on this runner that was killed before it could remove its own.
remove_leftovers() {
  local -a left=()
  mapfile -t left < <("$engine" ps --all --quiet --filter "label=$label" 2>/dev/null)
  [[ ${#left[@]} -eq 0 ]] || "$engine" rm --force "${left[@]}" >/dev/null 2>&1 || true
}

name_container() { container="opdiff-$(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' \n')"; }

trap remove_container EXIT
trap end_child INT TERM

# --- how a container is started -------------------------------------------------------------------------------------

# Least privilege for all modes: the runner's own user, no capabilities, nothing of the image can be written.
base_options() {
  user_options
  printf '%s\0' --rm --init --no-healthcheck --label "$label" --read-only --cap-drop ALL --security-opt no-new-privileges \
    --pids-limit 4096 --tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777 --workdir "$workspace" --volume "$workspace:$workspace:ro"
  [[ "$engine" != podman ]] || printf '%s\0' --pull missing
  local more
  read -r -a more <<<"${OPDIFF_ENGINE_OPTIONS:-}" # of the runner's owner: a certificate, a shared cache
  [[ ${#more[@]} -eq 0 ]] || printf '%s\0' "${more[@]}"
}

# What a rootless engine calls root is the user who runs it; other numbers are nobody's, and may write to no folder here.
user_options() {
  if [[ "$engine" == podman && "$(id -u)" != 0 ]]; then
    printf '%s\0' --userns keep-id --user "$(id -u):$(id -g)"
  elif [[ "$engine" == docker && "$(docker info --format '{{.SecurityOptions}}' 2>/dev/null)" == *name=rootless* ]]; then
    printf '%s\0' --user 0:0
  else
    printf '%s\0' --user "$(id -u):$(id -g)"
  fi
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
  if [[ "$engine" != podman ]]; then
    printf '%s\0' --gpus "$OPDIFF_GPUS"
    return
  fi
  local gpu # podman's older versions know GPUs by their names in the Container Device Interface alone
  for gpu in $(tr ',' ' ' <<<"${OPDIFF_GPUS#device=}"); do
    printf '%s\0' --device "nvidia.com/gpu=$gpu"
  done
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
    wait_for "$(type -P opdiff)" "$@"
    return
  fi
  options_of base_options "${needs[@]}"
  name_container
  local code=0
  wait_for "$engine" run --name "$container" "${options[@]}" "$OPDIFF_IMAGE" "$@" || code=$?
  container=""
  return "$code"
}

# --- arguments ------------------------------------------------------------------------------------------------------

# What the checkout holds is the pull request's own, and decides nothing: only a file that git says is untracked is not.
# Git does not say so of what lies in a submodule or another nested repository, behind a tracked link, or where it fails.
refuse_own_configuration() {
  [[ "$GITHUB_EVENT_NAME" == pull_request* ]] || return 0
  local root file
  local -a git=(git -c safe.directory='*' --literal-pathspecs -C "$checkout")
  root="$("${git[@]}" rev-parse --show-toplevel 2>/dev/null)" || root="$checkout"
  for file in "$@"; do
    [[ "$file" == "$root"/* || "$file" == "$checkout"/* ]] || continue
    "${git[@]}" ls-files --others --error-unmatch -- "$file" >/dev/null 2>&1 ||
      fail "config: $OPDIFF_CONFIG lies in the checkout, which a pull request can change: leave config empty (the base commit's is read), or check another repository out beside it"
  done
}

change_arguments() {
  arguments=(--repo "$checkout" --event "$GITHUB_EVENT_PATH" --event-name "$GITHUB_EVENT_NAME")
  [[ -z "$OPDIFF_FRAMEWORK" ]] || arguments+=(--framework "$OPDIFF_FRAMEWORK")
  if [[ -n "$OPDIFF_CONFIG" ]]; then
    local file named
    file="$(realpath -m -- "$workspace/$OPDIFF_CONFIG")"
    named="$(realpath -ms -- "$(realpath -m -- "$workspace")/$OPDIFF_CONFIG")" # with the links that lead to the file
    refuse_own_configuration "$file" "$named"
    arguments+=(--config "$file")
  fi
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

  failed_programs
  local code=0
  if [[ "$engine" != in-place ]]; then
    [[ "$check_network" != host ]] ||
      fail "OPDIFF_CHECK_NETWORK is host, and that cannot be cut before the pull request's code starts: give bridge or none"
    options_of base_options check_options event_options gpu_options failed_options
  fi
  # What the check prints comes from the pull request: it must not be read as commands to the runner.
  stop_commands
  run_check || code=$?
  resume_commands
  report_of_devices "$code"
}

# A folder that the checkout holds could lead elsewhere by a link; and only the default branch's runs may write to it.
failed_programs() {
  failed_folder=""
  [[ -n "${OPDIFF_FAILED_PROGRAMS:-}" ]] || return 0
  local root
  root="$(realpath -m -- "$workspace")"
  failed_folder="$(realpath -ms -- "$root/$OPDIFF_FAILED_PROGRAMS")"
  [[ "$failed_folder" == "$root"/* && "$failed_folder" == "$(realpath -m -- "$failed_folder")" ]] ||
    fail "failed-programs: $OPDIFF_FAILED_PROGRAMS is not in the workspace, or a link leads to it: name a folder there"
  mkdir -p -- "$failed_folder"
  arguments+=(--failed-programs "$failed_folder")
}

failed_options() {
  [[ -n "$failed_folder" ]] || return 0
  local how=rw
  [[ "$GITHUB_EVENT_NAME" != pull_request* ]] || how=ro
  printf '%s\0' --volume "$failed_folder:$failed_folder:$how"
}

run_check() {
  if [[ "$engine" == in-place ]]; then
    wait_for "$(type -P opdiff)" check "${arguments[@]}"
    return
  fi
  # Environments that the image lacks are made with a network; it is cut before the pull request's code starts.
  name_container
  wait_for "$engine" run --detach --name "$container" --network "$check_network" --entrypoint sleep "${options[@]}" "$OPDIFF_IMAGE" infinity >/dev/null || return
  wait_for "$engine" exec "$container" opdiff check "${arguments[@]}" --prepare-only || return
  cut_network
  local code=0
  wait_for "$engine" exec "$container" opdiff check "${arguments[@]}" || code=$?
  remove_container
  container=""
  return "$code"
}

# A check on several devices leaves a report of each, in a folder of its name; what is uploaded is one report.
report_of_devices() {
  local -a devices=()
  IFS=, read -r -a devices <<<"$OPDIFF_DEVICES"
  if [[ -f "$out/report/results.json" || -z "$(compgen -G "$out/report/*/results.json")" ]]; then
    report "$1" "$out/report"
    return
  fi
  local expected=${#devices[@]} code=0
  ((expected > 1)) || expected=2 # the configuration's devices: cpu and cuda
  report_folder="$out/report"
  arguments=(merge "$report_folder" --expected "$expected" --out "$out/merged")
  [[ -z "$OPDIFF_FAIL_ON" ]] || arguments+=(--fail-on "$OPDIFF_FAIL_ON")
  opdiff merge_options -- "${arguments[@]}" || code=$?
  report "$code" "$out/merged"
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
  # Also where the checkout is another user's, of whose configuration git otherwise reads nothing. A token is in a header
  # of its own, or in an address as https://NAME:TOKEN@HOST or https://TOKEN@HOST.
  local -a git=(git -c safe.directory='*' -C "$checkout" config)
  if "${git[@]}" --get-regexp '^http\..*\.extraheader$' >/dev/null 2>&1 ||
    "${git[@]}" --list 2>/dev/null | grep -qiE '^(remote\..*\.(push)?url=|url\.)https?://[^/=]+@'; then
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
  report "$code" "$out/report"
}

merge_options() {
  printf '%s\0' --network none --volume "$out:$out" --volume "$report_folder:$report_folder:ro"
}

read_options() { printf '%s\0' --network none --volume "$out:$out:ro"; }

# Where the host allowed no sandbox, the pull request's code could write into the report's folder: what uploads an
# artifact follows links, to files of this machine.
only_files() {
  [[ ! -L "$1" ]] || fail "the report's folder was made a link to another one: nothing is uploaded"
  [[ ! -d "$1" ]] || find "$1" ! -type f ! -type d -delete
}

# report CODE FOLDER: outputs, step summary and the artifact's name of a report that was just written.
report() {
  output code "$1"
  only_files "$2"
  if [[ ! -f "$2/results.json" ]]; then
    output result incomplete
    return
  fi
  # What only --resume reads can be many times the report, and publish reads no artifact beyond 256 MiB.
  find "$2" -mindepth 1 -maxdepth 1 ! -name results.json ! -name report.md ! -name findings -exec rm -rf {} +
  opdiff read_options -- outputs "$2" >>"$GITHUB_OUTPUT"
  opdiff read_options -- step-summary "$2" >>"$GITHUB_STEP_SUMMARY"
  local suffix=""
  if [[ "$OPDIFF_MODE" == check && -n "$OPDIFF_SHARD" ]]; then
    suffix="-shard-${OPDIFF_DEVICES//[^a-z0-9]/-}-${OPDIFF_SHARD//\//-of-}"
  fi
  upload "$OPDIFF_ARTIFACT_NAME$suffix" "$2"
}

# upload NAME FOLDER: for the step that uploads. GitHub Enterprise Server does not take artifacts from the versions of
# upload-artifact that github.com takes, and the other way round: there the workflow's own step uploads the folder.
upload() {
  output folder "$2"
  local server="${GITHUB_SERVER_URL:-https://github.com}"
  server="${server#*://}" server="${server%%[:/]*}"
  case "${server,,}" in
  github.com | *.ghe.com | *.localhost)
    output artifact "$1"
    output upload true
    ;;
  *) echo "::notice title=OpDiff::$server takes no artifact from this action: upload report-folder in a step of your own" ;;
  esac
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
    upload "$OPDIFF_ARTIFACT_NAME-report" "$out/report"
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
  local -a arguments=()
  [[ -z "$OPDIFF_BUILD_ARGUMENTS" ]] || arguments=(--build-arg "$OPDIFF_BUILD_ARGUMENTS")
  wait_for "$engine" build "${arguments[@]}" --tag "$OPDIFF_IMAGE" "$action"
  echo "::endgroup::"
}

[[ "$engine" == in-place ]] || remove_leftovers
[[ "$OPDIFF_BUILD" != engine ]] || build
case "$OPDIFF_MODE" in
plan | check | merge | publish) "$OPDIFF_MODE" ;;
command) answer ;;
*) fail "mode ${OPDIFF_MODE@Q} is none of plan, check, merge, publish, command" ;;
esac
