"""How many cases there were, how many became programs, and why the others did not."""

from typing import Any, Dict, Set


class Tally:
    """Counts of one trace request."""

    def __init__(self) -> None:
        self._cases = 0
        self._expressed = 0
        self._skipped: Dict[str, int] = {}
        self._digests: Set[str] = set()

    def case(self) -> None:
        """One case was offered."""
        self._cases += 1

    def expressed(self) -> None:
        """The case that was offered last became a program."""
        self._expressed += 1

    def skip(self, reason: str) -> None:
        """The case that was offered last did not."""
        self._skipped[reason] = self._skipped.get(reason, 0) + 1

    def is_new(self, digest: str) -> bool:
        """Whether no program of this request had the digest before."""
        if digest in self._digests:
            return False
        self._digests.add(digest)
        return True

    def counts(self) -> Dict[str, Any]:
        """The fields of a ``traced`` message."""
        return {
            "counts": {
                "cases": self._cases,
                "expressed": self._expressed,
                "programs": len(self._digests),
            },
            "skipped": self._skipped,
        }
