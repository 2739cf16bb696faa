"""What a person reads when a file cannot be read or written."""

import errno

import pytest

from bot.errors import file_error_message


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "/a/b"),
            "/a/b cannot be read or written: Permission denied: change its permissions, or name another place",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/a"),
            "/a cannot be read or written: Read-only file system: change its permissions, or name another place",
        ),
        (
            OSError(errno.EIO, "Input/output error", "/a"),
            "/a cannot be read or written: Input/output error",
        ),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "Broken pipe"),
        (OSError("no number"), "no number"),
    ],
)
def test_one_line_that_says_which_why_and_what_to_do(error: OSError, says: str) -> None:
    assert file_error_message(error) == says
