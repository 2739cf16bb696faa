"""What one target did, in words for a report."""

from __future__ import annotations

from bot.oracle.finding import Mismatch
from bot.oracle.signature import first_line, telling_line
from bot.targets.outcome import Death, Outcome

_WHERE = {"build": "while building its inputs", "forward": "in forward", "backward": "in backward"}


def error_text(outcome: Outcome) -> str:
    """``raised ValueError in forward, call 0: message``."""
    if outcome.error is None:
        return "raised"
    where = _WHERE.get(outcome.phase, f"in {outcome.phase}")
    call = "" if outcome.call is None else f", call {outcome.call}"
    return f"raised {outcome.error.type} {where}{call}: {first_line(outcome.error.message)}"


_DEATHS = {
    "crash": ("died of ", "answered what does not add up"),
    "hang": ("did not finish in time",),
    "memory": ("exceeded its memory",),
}


def dead_targets(mismatch: Mismatch) -> tuple[str, ...]:
    """The targets that died, of a mismatch of kind crash, hang or memory; () for others."""
    said = _DEATHS.get(mismatch.kind, ())
    return tuple(
        observation.target
        for observation in mismatch.observations
        if said and (observation.happened or "").startswith(said)
    )


def accepting_targets(mismatch: Mismatch) -> tuple[str, ...]:
    """The targets that took an illegal input, of a mismatch of kind accepts; () for others."""
    return tuple(
        observation.target
        for observation in mismatch.observations
        if mismatch.kind == "accepts" and not (observation.happened or "").startswith("raised")
    )


def refusing_targets(mismatch: Mismatch) -> tuple[str, ...]:
    """The targets that raised, of a mismatch of kind refuses; () for others."""
    return tuple(
        observation.target
        for observation in mismatch.observations
        if mismatch.kind == "refuses" and (observation.happened or "").startswith("raised")
    )


def is_confirmed(mismatch: Mismatch) -> bool:
    """Whether every death in it came again when the program ran alone in a fresh worker."""
    return all(observation.confirmed for observation in mismatch.observations)


def death_text(death: Death) -> str:
    """``died of SIGFPE``, with the line of its last words that says why."""
    if death.signal == "timeout":
        said = "did not finish in time"
    elif death.signal == "memory":
        said = "exceeded its memory"
    elif death.signal == "protocol":
        said = "answered what does not add up"
    else:
        said = f"died of {death.signal}"
    words = telling_line(death.last_words)[:300]
    return f"{said}: {words}" if words else said
