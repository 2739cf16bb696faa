#!/usr/bin/env bash
# Decides what runs OpDiff, for the steps behind it: `engine`, `image` and `build` in $GITHUB_OUTPUT.
#   engine  in-place (the job already is in OpDiff's image), docker or podman
#   image   what the engine runs
#   build   no (the image is there or can be pulled), buildx (the action's own steps build it), engine (run.sh does)
#   context, arguments, scope   of that build: folder, build argument, layer cache
set -euo pipefail

action="$(cd "$(dirname "$0")/../.." && pwd)"

say() { echo "$1=$2" >>"$GITHUB_OUTPUT"; }

usable() { command -v "$1" >/dev/null && "$1" info >/dev/null 2>&1; }

# The image sets OPDIFF_IN_IMAGE, so a container job that runs in it needs no engine.
if [[ -n "${OPDIFF_IN_IMAGE:-}" ]] && command -v opdiff >/dev/null; then
  say engine in-place
  say image ""
  say build no
  exit
fi

# A docker command that is podman takes podman's options.
if usable docker && [[ "$(docker --version)" != *podman* ]]; then
  engine=docker
elif usable podman; then
  engine=podman
else
  echo "::error::OpDiff needs Docker or podman on the runner, or a container job in OpDiff's image"
  exit 1
fi
say engine "$engine"

image="${OPDIFF_IMAGE:-}"
if [[ -z "$image" && -s "$action/.github/action/image" ]]; then
  # A release names its images here, by digest: one for checks, then one without environments for all else.
  mapfile -t released <"$action/.github/action/image"
  image="${released[0]}"
  [[ "$OPDIFF_MODE" == check || -z "${released[1]:-}" ]] || image="${released[1]}"
fi
if [[ -n "$image" ]]; then
  say image "$image"
  say build no
  exit
fi

# One tag for one content: a runner that keeps its images builds each version once.
content="$(cd "$action" && find Dockerfile .dockerignore pyproject.toml requirements-image.lock bot -type f ! -name '*.pyc' -print0 |
  sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-16)"
image="localhost/opdiff:$content"
say context "$action"
if [[ "$OPDIFF_MODE" == check ]] || "$engine" image inspect "$image" >/dev/null 2>&1; then
  say scope opdiff
else # no other mode starts a framework, and environments are nine tenths of the image
  image="localhost/opdiff:bot-$content"
  say arguments ENVIRONMENTS=
  say scope opdiff-bot
fi
say image "$image"
if "$engine" image inspect "$image" >/dev/null 2>&1; then
  say build no
elif [[ "$engine" == docker ]] && docker buildx version >/dev/null 2>&1; then
  say build buildx
else
  say build engine
fi
