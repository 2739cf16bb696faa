# OpDiff with environments ready to run. docs/container.md says how it is built and started.
#
# The bases are pinned by the digests that docker-library/repo-info, Docker's own record of its official images, gives
# for these tags in its commit 33a22f41ac7bf613bc03380b0317536a9a7fb5e8 (repos/python/remote/3.1*-slim-bookworm.md).
ARG BASE=python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
ARG PYTHON310=python:3.10-slim-bookworm@sha256:673f009e3763f8d03953b525c89b03a9ee8ca315bf6b8006979b5c4a4e2e4d68

# OneFlow's releases end with Python 3.10: its interpreter finds its libraries beside itself, wherever it is put.
FROM ${PYTHON310} AS python310

FROM ${BASE} AS base
# Debian keeps only the newest version of a package, so a pinned one soon cannot be installed any more: hadolint's
# DL3008 asks for what would break the build. The base's digest pins all the rest.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log \
    # A container job's checkout belongs to another user. Nothing of a repository is executed.
    && git config --system --add safe.directory '*'

# Build secrets that need not be given, and of which nothing stays in the image: "settings", a file of
# `export NAME=value` lines that names a package index or a folder of wheels for pip and uv; "certificates", a bundle of
# certificates to trust instead of the base's.
FROM base AS dependencies
COPY requirements-image.lock /build/
RUN --mount=type=secret,id=settings --mount=type=secret,id=certificates \
    if [ -f /run/secrets/certificates ]; then export PIP_CERT=/run/secrets/certificates; fi \
    && if [ -f /run/secrets/settings ]; then . /run/secrets/settings; fi \
    && python -m venv --without-pip /opt/opdiff/app \
    && python -m pip --python /opt/opdiff/app install --no-cache-dir --disable-pip-version-check \
        --only-binary :all: --require-hashes --requirement /build/requirements-image.lock

FROM dependencies AS wheel
COPY . /build/
RUN python -m pip --python /opt/opdiff/app wheel --no-cache-dir --disable-pip-version-check \
        --no-deps --no-build-isolation --wheel-dir /wheel /build

FROM base
COPY --from=python310 /usr/local /opt/opdiff/python/3.10
COPY --from=dependencies /opt/opdiff/app /opt/opdiff/app

ENV PATH=/opt/opdiff/app/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin:/opt/opdiff/python/3.10/bin

# Which environments are ready: requirements that `opdiff envs prepare` takes. TORCH_BACKEND is uv's --torch-backend
# (cpu, cu126...); empty: what the package index gives. Only what this step reads is copied before it, so that a change
# elsewhere in OpDiff does not make the environments anew.
ARG ENVIRONMENTS="torch==2.13.0 oneflow==0.9.0"
ARG TORCH_BACKEND=cpu
ENV UV_TORCH_BACKEND=${TORCH_BACKEND}
COPY bot/__init__.py /build/bot/
COPY bot/worker/__init__.py bot/worker/protocol.py /build/bot/worker/
COPY bot/targets /build/bot/targets
RUN --mount=type=secret,id=settings --mount=type=secret,id=certificates \
    --mount=type=cache,id=opdiff-uv,target=/var/cache/uv \
    if [ -f /run/secrets/certificates ]; then export SSL_CERT_FILE=/run/secrets/certificates; fi \
    && if [ -f /run/secrets/settings ]; then . /run/secrets/settings; fi \
    # A word of ENVIRONMENTS is a requirement each.
    && for environment in ${ENVIRONMENTS}; do \
        UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_PYTHON_INSTALL_DIR=/opt/opdiff/python \
            PYTHONPATH=/build PYTHONDONTWRITEBYTECODE=1 \
            python -c 'from bot.targets.envs_cli import app; app()' prepare --cache-dir /opt/opdiff/cache/opdiff "${environment}" || exit 1; \
    done \
    # uv's locks are anybody's to write.
    && mkdir -p /opt/opdiff/cache/opdiff && find /opt/opdiff/cache -perm /022 -not -type l -exec chmod go-w {} + \
    && rm -rf /build

# OpDiff itself, and what its source of programs has to offer, asked once.
COPY --from=wheel /wheel /build/wheel
RUN /usr/local/bin/python -m pip --python /opt/opdiff/app install --no-cache-dir --disable-pip-version-check \
        --no-deps --no-index /build/wheel/*.whl \
    && rm -rf /build \
    && case " ${ENVIRONMENTS}" in *" torch==2.13.0"*) XDG_CACHE_HOME=/opt/opdiff/cache opdiff ops >/dev/null ;; esac \
    # What was made with a private umask is read by any user.
    && mkdir -p /opt/opdiff/cache/opdiff/programs && chmod -R a+rX /opt/opdiff/cache/opdiff/programs

# The home folder of any user, also of one without a name; it is made when it is needed.
ENV HOME=/tmp/home \
    OPDIFF_PREPARED=/opt/opdiff/cache/opdiff \
    OPDIFF_IN_IMAGE=1 \
    PYTHONUNBUFFERED=1 \
    # GPUs are there when they are asked for: `docker run --gpus` and the NVIDIA runtime put theirs in place of "void".
    NVIDIA_VISIBLE_DEVICES=void \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

ARG REVISION=""
ARG SOURCE=""
ARG VERSION=""
LABEL org.opencontainers.image.title="OpDiff" \
      org.opencontainers.image.description="Differential testing of tensor ops for pull requests of deep-learning frameworks" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.version="${VERSION}"

# The user of GitHub's own runners; `docker run --user` takes any other.
USER 1001:1001
HEALTHCHECK --interval=5m --timeout=2m --start-period=1m CMD ["opdiff", "envs", "doctor"]
ENTRYPOINT ["opdiff"]
