"""From mismatching programs to findings, on simulated targets whose mathematics is known."""

from __future__ import annotations

import random

import numpy as np
import pytest
from made_outcomes import crashed, outcome, program, raised
from simulated_targets import Simulation, forward, to_float64, with_gradient

from bot.oracle.settle import Settlement, settle
from bot.programs.program import Origin
from bot.targets.outcome import Death, RawOutcome, dead

CANDIDATE, BASELINE, PEER = "oneflow@pr:cpu", "oneflow==0.9.0:cpu", "torch==2.13.0:cpu"


def check(candidate, baseline, peer) -> Simulation:
    return Simulation(
        [
            (CANDIDATE, "oneflow", candidate),
            (BASELINE, "oneflow", baseline),
            (PEER, "torch", peer),
        ]
    )


def settled(
    simulation: Simulation, programs, roles=("candidate", "baseline", "peer")
) -> Settlement:
    return settle(
        simulation.cases(programs), simulation.comparator, roles, simulation.rerun, to_float64
    )


def peers(left, right, frameworks=("oneflow", "torch")) -> Simulation:
    return Simulation([(BASELINE, frameworks[0], left), (PEER, frameworks[1], right)])


RIGHT = with_gradient(np.square, lambda x: 2 * x)
WRONG = with_gradient(np.square, lambda x: 3 * x)


def test_the_candidate_alone_is_wrong():
    """d(x^2)/dx is 2x; the candidate says 3x, the baseline and the peer say 2x, in float64 too."""
    result = settled(check(WRONG, RIGHT, RIGHT), [program("square")])
    (finding,) = result.findings
    assert (finding.kind, finding.verdict, finding.status) == ("gradient", "candidate", "new")
    assert (finding.confidence, finding.blamed) == ("strong", (CANDIDATE,))
    assert [e.rung for e in finding.evidence] == [
        "repeat",
        "baseline",
        "float64",
        "vote",
        "verdict",
    ]


def test_candidate_and_baseline_share_a_fault():
    (finding,) = settled(check(WRONG, WRONG, RIGHT), [program("square")]).findings
    assert finding.status == "known"
    # In float64 they differ as well, so nothing but two frameworks' words stand against each other.
    assert (finding.verdict, finding.confidence) == ("undecided", "weak")


def test_the_candidate_fixes_its_baseline():
    (finding,) = settled(check(RIGHT, WRONG, RIGHT), [program("square")]).findings
    assert (finding.status, finding.verdict, finding.blamed) == ("fixed", "upstream", (BASELINE,))


def test_what_only_the_candidate_supports_is_not_hidden_by_what_is_known():
    """The baseline has the op in float64 alone, wrong; the candidate brings float32, wrong as well."""
    lacks = outcome(status="unsupported", phase="forward", error=("UnsupportedError", "float32"))

    def float64_only(decoded, x):
        return WRONG(decoded, x) if x.dtype == np.float64 else lacks

    made = [program("square", [1.0, 2.0], kind) for kind in ("f4", "f8")]
    findings = settled(check(WRONG, float64_only, RIGHT), made).findings
    assert sorted(str(finding.status) for finding in findings) == ["changed", "known"]


def test_all_three_differ():
    other = with_gradient(np.square, lambda x: 4 * x)
    (finding,) = settled(check(WRONG, other, RIGHT), [program("square")]).findings
    assert (finding.status, finding.verdict) == ("changed", "undecided")


def test_a_new_fault_is_not_hidden_by_a_known_one():
    """Every output differs from the peer's already; the candidate's gradient is new."""
    cube, twice = np.array, lambda x: 2 * x
    candidate = with_gradient(lambda x: x + 1, lambda x: 3 * x)
    baseline = with_gradient(lambda x: x + 1, twice)
    peer = with_gradient(cube, twice)
    findings = settled(check(candidate, baseline, peer), [program("square")]).findings
    assert [(f.kind, f.status) for f in findings] == [("gradient", "new"), ("value", "known")]


def test_rounding_is_dismissed_and_counted():
    """exp(x + 0.1) / exp(0.1) and exp(x - 0.1) * exp(0.1) both carry the rounding of the sum, up to 2^-19."""

    def shifted(by):
        def exp(x):
            kind = x.dtype.type
            return np.exp(x + kind(by)) * kind(np.exp(-by))

        return forward(exp)

    left, right = shifted(0.1), shifted(-0.1)
    made = program("exp", np.linspace(30, 50, 2000))
    simulation = peers(left, right)
    assert simulation.cases([made])
    result = settled(simulation, [made], ("peer", "peer"))
    assert result.findings == ()
    assert result.within_float64_witness == 1
    assert result.rounding_only == (made.digest,)


LOG1P = (
    forward(lambda x: x.dtype.type(1e6) * np.log(x.dtype.type(1) + x)),
    forward(lambda x: x.dtype.type(1e6) * np.log1p(x)),
    np.linspace(1e-3, 2e-3, 50),
)


@pytest.mark.parametrize(("off", "findings"), [(9.2e-5, 0), (10e-5, 1)])
def test_approximations_of_one_function_may_differ_by_eight_tolerances(off, findings):
    """The tolerance at 1.5 is 1e-5 + 1.3e-6 * 1.5 = 1.195e-5, and 8 of it are 9.56e-5."""

    def rough(x):
        return x + np.float32(off) if x.dtype == np.float32 else x

    simulation = peers(forward(rough), forward(lambda x: x))
    assert len(settled(simulation, [program("id", [1.5])], ("peer", "peer")).findings) == findings


def test_what_rounding_the_input_explains_is_nobodys_fault():
    """1 / sqrt(1 - x*x) next to 1: rounding x*x costs it as much as rounding x does; (1 - x) (1 + x) loses nothing."""
    rough = forward(lambda x: x.dtype.type(1) / np.sqrt(x.dtype.type(1) - x * x))
    good = forward(lambda x: x.dtype.type(1) / np.sqrt((1 - x) * (1 + x)))
    x = np.float32(1) - np.float32(2) ** np.arange(-14, -8, dtype=np.float32)
    simulation, made = peers(rough, good), program("id", x + np.float32(3e-6))
    assert simulation.cases([made])
    result = settled(simulation, [made], ("peer", "peer"))
    assert result.findings == ()
    assert result.within_float64_witness == 1


def test_float64_names_the_side_that_lost_its_digits():
    """log(1 + x) for x = 1e-3: computed as written, float32 is 2^-24 / 1e-3 = 6e-5 off; log1p keeps all digits."""
    naive, good, x = LOG1P
    (finding,) = settled(peers(naive, good), [program("log1p", x)], ("peer", "peer")).findings
    assert (finding.verdict, finding.blamed) == ("upstream", (BASELINE,))
    assert finding.confidence == "strong"
    assert finding.status is None


def test_who_agrees_with_the_wrong_is_wrong_too():
    """Off by 9.6, 9.4 and 0.5 tolerances: over 3 * 0.5 + 8 is the candidate alone, yet its baseline is on its side."""

    def off(by):
        def moved(x):
            return x + by * (1e-5 + 1.3e-6 * x) if x.dtype == np.float32 else x

        return forward(moved)

    made = program("id", [10.0, 11.0, 12.0])
    (finding,) = settled(check(off(9.6), off(9.4), off(-0.5)), [made]).findings
    assert finding.sides == ((PEER,), (CANDIDATE, BASELINE))
    assert set(finding.blamed) == {CANDIDATE, BASELINE}
    assert finding.status == "known"


def test_float64_of_one_framework_is_weak():
    naive, good, x = LOG1P
    simulation = peers(naive, good, ("torch", "torch"))
    (finding,) = settled(simulation, [program("log1p", x)], ("peer", "peer")).findings
    assert (finding.blamed, finding.confidence) == ((BASELINE,), "weak")


def test_an_overflow_that_float64_does_not_have():
    """softplus(100) = 100; log(1 + exp(x)) is infinite in float32."""
    naive = forward(lambda x: np.log(x.dtype.type(1) + np.exp(x)))
    good = forward(lambda x: np.logaddexp(x, x.dtype.type(0)))
    made = program("softplus", [1.0, 100.0])
    (finding,) = settled(peers(naive, good), [made], ("peer", "peer")).findings
    assert (finding.kind, finding.blamed, finding.confidence) == ("nan", (BASELINE,), "strong")


def test_equally_wrong_on_both_sides_is_not_rounding():
    """One side is 1 above, the other 1 below, in float32 only: the errors are equal, and far too large."""

    def off(by):
        return forward(lambda x: x + by if x.dtype == np.float32 else x)

    (finding,) = settled(peers(off(1), off(-1)), [program("id")], ("peer", "peer")).findings
    assert finding.verdict == "undecided"


def test_a_crash_is_proved():
    def die(decoded, x):
        return crashed("SIGFPE", "")

    (new,) = settled(check(die, RIGHT, RIGHT), [program("square")]).findings
    assert (new.kind, new.verdict, new.confidence, new.status) == (
        "crash",
        "candidate",
        "proved",
        "new",
    )
    (known,) = settled(check(die, die, RIGHT), [program("square")]).findings
    assert (known.status, known.blamed) == ("known", (CANDIDATE, BASELINE))
    (fixed,) = settled(check(RIGHT, die, RIGHT), [program("square")]).findings
    assert (fixed.status, fixed.verdict) == ("fixed", "upstream")
    (peer,) = settled(check(RIGHT, RIGHT, die), [program("square")]).findings
    assert (peer.status, peer.verdict, peer.blamed) == ("known", "upstream", (PEER,))


def test_a_death_that_did_not_come_again_is_not_proved():
    def die(decoded, x):
        return dead("crash", Death("SIGSEGV", "", confirmed=x.size > 2))

    (once,) = settled(check(die, RIGHT, RIGHT), [program("square", [1.0])]).findings
    assert (once.kind, once.verdict, once.status) == ("crash", "candidate", "new")
    assert once.confidence == "weak"
    larger = program("square", [1.0, 2.0, 3.0])
    (proved,) = settled(check(die, RIGHT, RIGHT), [program("square", [1.0]), larger]).findings
    assert (proved.confidence, proved.program) == ("proved", larger.digest)


def test_an_answer_that_does_not_add_up_is_proof():
    def babble(decoded, x):
        return RawOutcome(b'{"type":"outcome"}', b"")

    (finding,) = settled(check(babble, RIGHT, RIGHT), [program("square")]).findings
    assert (finding.kind, finding.verdict, finding.confidence) == ("crash", "candidate", "proved")


def test_a_target_that_differs_from_itself_is_flaky():
    generator = np.random.default_rng(0)
    noisy = forward(lambda x: x + generator.standard_normal(x.shape).astype(x.dtype))
    (finding,) = settled(
        peers(noisy, forward(np.array)), [program("id")], ("peer", "peer")
    ).findings
    assert (finding.kind, finding.verdict, finding.blamed) == (
        "nondeterminism",
        "flaky",
        (BASELINE,),
    )


def test_a_difference_that_does_not_come_back():
    """What was written down of the first run says which target has changed its mind."""
    calls = iter([True])
    once = forward(lambda x: x + 1 if next(calls, False) else x)
    (finding,) = settled(peers(once, forward(np.array)), [program("id")], ("peer", "peer")).findings
    assert (finding.kind, finding.verdict, finding.confidence, finding.blamed) == (
        "nondeterminism",
        "flaky",
        "weak",
        (BASELINE,),
    )


def test_a_larger_program_represents_when_the_smallest_does_not_repeat():
    seen: set[int] = set()

    def sometimes(x):
        first = x.size not in seen
        seen.add(x.size)
        return x + 1 if x.size > 1 or first else x

    simulation = peers(forward(sometimes), forward(np.array))
    small, large = program("id", [1], "f8"), program("id", [1, 2], "f8")
    (finding,) = settled(simulation, [small, large], ("peer", "peer")).findings
    assert (finding.program, finding.count) == (large.digest, 2)


def test_error_inputs():
    def accepts(decoded, x):
        return outcome(("output", "r0", x))

    def refuses(decoded, x):
        return raised("ValueError", "expected 3 dimensions")

    made = program("conv", origin=Origin(source="opinfo", kind="error"))
    (weak,) = settled(peers(accepts, refuses), [made], ("peer", "peer")).findings
    assert (weak.kind, weak.verdict, weak.confidence) == ("accepts", "upstream", "weak")
    assert weak.blamed == (weak.sides[0] if "oneflow" in weak.sides[0][0] else weak.sides[1])
    third = Simulation([("a", "oneflow", accepts), ("b", "torch", refuses), ("c", "jax", refuses)])
    (vote,) = settled(third, [made], ("peer",) * 3).findings
    assert (vote.verdict, vote.blamed, vote.confidence) == ("upstream", ("a",), "weak")
    (new,) = settled(check(accepts, refuses, refuses), [made]).findings
    assert (new.verdict, new.status, new.confidence) == ("candidate", "new", "strong")


def three_causes(count: int):
    """Programs of one op in several dtypes and sizes: the sign of the gradient is wrong for sizes over 3, negative inputs
    are refused, and 0 kills the worker."""

    def faulty(decoded, x):
        if (x == 0).any():
            return crashed(
                "SIGFPE", f"F2024 10:10:10.1 {x.size} div.cpp:{x.size}] Check failed: {x.size}"
            )
        if (x < 0).any():
            return raised("RuntimeError", f"input of shape ({x.size},) is negative")
        sign = -1 if x.size > 3 else 1
        return outcome(("output", "r0", x * x), ("gradient", "x", sign * 2 * x))

    generator = np.random.default_rng(0)
    made = []
    for index in range(count):
        x = generator.uniform(1, 2, 4 + index % 50)
        if index % 3:
            x[index % 4] = 0 if index % 3 == 1 else -1
        made.append(program("square", x, ("f4", "f8")[index % 2], seed=index))
    return peers(faulty, RIGHT), made


def test_a_thousand_mismatches_of_three_causes():
    simulation, made = three_causes(1000)
    result = settled(simulation, made, ("peer", "peer"))
    assert [f.kind for f in result.findings] == ["crash", "gradient", "refuses"]
    assert sum(f.count for f in result.findings) == 1000
    assert all(f.mismatches[0].program == f.program for f in result.findings)
    gradient = result.findings[1]
    assert gradient.argument_class["sizes"] == ["small"]
    assert len(gradient.programs) == 100


def test_the_order_of_the_cases_does_not_matter():
    simulation, made = three_causes(60)
    cases = simulation.cases(made)

    def run(these):
        return settle(these, simulation.comparator, ("peer", "peer"), simulation.rerun, to_float64)

    expected = run(cases)
    for seed in range(3):
        random.Random(seed).shuffle(cases)
        assert run(cases) == expected


def test_fingerprints_are_stable():
    """More programs, other values, other versions: the same fingerprints. Another op: another one."""

    def fingerprints(seed: int, versions: tuple[str, str], op: str = "square") -> list[str]:
        generator = np.random.default_rng(seed)
        made = [
            program(op, generator.uniform(1, 2, 5 + i), "f4", seed=seed) for i in range(2 + seed)
        ]
        simulation = Simulation(
            [
                (f"oneflow=={versions[0]}:cpu", "oneflow", WRONG),
                (f"torch=={versions[1]}:cpu", "torch", RIGHT),
            ]
        )
        return [f.fingerprint for f in settled(simulation, made, ("peer", "peer")).findings]

    first = fingerprints(1, ("0.9.0", "2.13.0"))
    assert len(first) == 1
    assert first == fingerprints(2, ("0.8.0", "1.13.1"))
    assert first != fingerprints(1, ("0.9.0", "2.13.0"), "cube")


def test_versions_of_one_framework_keep_their_findings_apart():
    """Once 1.10 is odd, once 2.13: without versions the sides are equal, the findings must not be."""

    def odd(wrong_for):
        def run(decoded, x):
            return outcome(("output", "r0", x + (decoded.seed == wrong_for)))

        return run

    simulation = Simulation(
        [
            ("torch==1.10.0:cpu", "torch", odd(1)),
            ("torch==2.13.0:cpu", "torch", odd(2)),
            (BASELINE, "oneflow", odd(0)),
        ]
    )
    made = [program("id", [1.0], "f8", seed=seed) for seed in (1, 2)]
    findings = settled(simulation, made, ("peer",) * 3).findings
    assert len({f.fingerprint for f in findings}) == 2


def test_two_candidates_are_refused():
    with pytest.raises(ValueError, match="more than one candidate"):
        settled(peers(RIGHT, WRONG), [program("square")], ("candidate", "candidate"))


def test_a_pool_that_was_stopped():
    """No result comes back: nothing is dismissed, and nothing is called confirmed."""
    simulation = peers(WRONG, RIGHT)
    cases = simulation.cases([program("square")])

    def stopped(jobs, *, fresh=False):
        list(jobs)
        return []

    result = settle(cases, simulation.comparator, ("peer", "peer"), stopped, to_float64)
    (finding,) = result.findings
    assert (finding.verdict, finding.confidence) == ("flaky", "weak")
    assert finding.evidence[0].says == "it could not be run again"


def test_dying_in_one_of_two_runs_is_unsteady():
    wrong_then_dead = with_gradient(np.square, lambda x: 3 * x)
    runs = iter(range(9))

    def run(decoded, x):
        # first seen, the witness's two runs, the first repetition; then it dies
        return wrong_then_dead(decoded, x) if next(runs) < 4 else crashed()

    (finding,) = settled(peers(run, RIGHT), [program("square")], ("peer", "peer")).findings
    assert (finding.kind, finding.verdict, finding.blamed) == (
        "nondeterminism",
        "flaky",
        (BASELINE,),
    )


def test_one_change_of_a_candidate_is_one_finding_whether_values_or_infinities_show_it():
    """3x for x * x: another finite value at 2, and at the largest number infinite on the baseline's side alone."""
    tripled = forward(lambda x: x * x.dtype.type(3))
    squared = forward(lambda x: x * x)
    made = [program("square", [2.0]), program("square", [1e38])]
    (finding,) = settled(check(tripled, squared, squared), made).findings
    assert (finding.kind, finding.status, finding.count) == ("value", "new", 2)
    findings = settled(peers(tripled, squared), made, ("peer", "peer")).findings
    assert [finding.kind for finding in findings] == ["nan", "value"]
