"""Errors that a person reads: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import errno


class OpDiffError(Exception):
    """The job cannot be done; the message is one line for the user. The command exits with 1."""


class InterruptedRunError(OpDiffError):
    """A run was interrupted (Ctrl-C, SIGTERM); the message says what is kept, and how to go on."""


EXPECTED_ERRORS: tuple[type[Exception], ...] = (OpDiffError, ValueError)
"""What rooms raise on bad input: their own ValueError subclasses (TargetError, ProgramError, ...) and OpDiffError."""


def file_error_message(error: OSError) -> str:
    """One line for a file that cannot be read or written: which, why, and what to do where that is known."""
    why = error.strerror or str(error)
    if error.filename is None:
        return why
    what = f"{error.filename} cannot be read or written: {why}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{what}: change its permissions, or name another place"
    return what


def disk_full_message(error: OSError, where: str) -> str | None:
    """One line for a full disk or quota (ENOSPC, EDQUOT), else None."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"no space left while writing {error.filename or where}; what was measured is kept in {where}: "
            "free some space and go on with --resume"
        )
    return None
