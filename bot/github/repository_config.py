"""The repository's configuration at a commit, through the API: the base commit's, never the pull request's."""

from __future__ import annotations

import base64
import binascii

from bot.config import CONFIG_PATH, MAX_CONFIG_BYTES, Config, ConfigError, parse_config
from bot.github.client import ApiModel, Client, NotFoundError


class _File(ApiModel):
    type: str
    size: int
    encoding: str = ""
    content: str = ""


def read_config(client: Client, sha: str) -> Config:
    """``.github/opdiff.yml`` at commit ``sha``; the defaults where there is none. Raises ConfigError, ApiError."""
    where = f"{CONFIG_PATH} of the base commit"
    path = client.path("contents") + f"/{CONFIG_PATH}"
    try:
        file = client.get(_File, path, {"ref": sha})
    except NotFoundError:
        return Config()
    if file.type != "file" or file.encoding != "base64" or file.size > MAX_CONFIG_BYTES:
        raise ConfigError(f"{where} is no file of at most {MAX_CONFIG_BYTES} bytes")
    try:
        raw = base64.b64decode(file.content)
    except binascii.Error:
        raise ConfigError(f"{where} cannot be decoded") from None
    return parse_config(raw, where)
