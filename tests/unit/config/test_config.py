"""The configuration file: what it says, and one line with the place for everything that is wrong in it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import row

from bot.config import Config, ConfigError, IgnoreRule, OpRule, parse_config

WHOLE = """\
# checks of this repository
version: 1
framework: oneflow
candidate: build/*.whl
baseline: oneflow==0.9.0
peers: [torch==2.13.0, "torch==1.8.1:cpu"]
devices: cpu,cuda
budget: 600
shards: 4
seed: 7
fail-on: any
ops:
  - paths: [oneflow/core/**/soft*.cpp]
    ops: [nn.functional.softplus]
  - paths: ["cmake/**"]
    ops: []
ignore:
  - fingerprint: 1234567812345678
    reason: issue 12
    until: 2030-01-31
  - {op: nn.functional.*, kind: nan, reason: documented}
"""


def parsed(text: str) -> Config:
    return parse_config(text.encode())


def problem(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text if isinstance(text, bytes) else text.encode())
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 500
    return said


def test_every_key() -> None:
    assert parsed(WHOLE) == Config(
        version=1,
        framework="oneflow",
        candidate="build/*.whl",
        baseline="oneflow==0.9.0",
        peers=("torch==2.13.0", "torch==1.8.1:cpu"),
        devices=("cpu", "cuda"),
        budget=600.0,
        shards=4,
        seed=7,
        fail_on="any",
        ops=(
            OpRule(paths=("oneflow/core/**/soft*.cpp",), ops=("nn.functional.softplus",)),
            OpRule(paths=("cmake/**",), ops=()),
        ),
        ignore=(
            IgnoreRule(fingerprint="1234567812345678", reason="issue 12", until=date(2030, 1, 31)),
            IgnoreRule(op="nn.functional.*", kind="nan", reason="documented"),
        ),
    )


def test_what_is_left_out_is_the_default() -> None:
    assert parsed("version: 1") == Config(version=1)
    assert Config().fail_on == "candidate"


@pytest.mark.parametrize("candidate", ["overlay", "build/*.whl", "python=/a/b", "torch==1.10.0"])
def test_what_a_candidate_may_be(candidate: str) -> None:
    assert parsed(f"version: 1\ncandidate: {candidate}").candidate == candidate


def test_a_rule_may_name_a_frameworks_own_op() -> None:
    own = "oneflow.nn.FusedBatchNorm2d"
    assert parsed(f"version: 1\nops: [{{paths: [a], ops: [{own}]}}]").ops[0].ops == (own,)


def test_a_fingerprint_of_digits_stays_text() -> None:
    text = "version: 1\nignore: [{fingerprint: 0012345671234567, reason: r}]"
    assert parsed(text).ignore[0].fingerprint == "0012345671234567"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: no version"),
        ("- 1", "1: not a mapping"),
        ("version: 2", "1: version: "),
        ("version: !!python/object/apply:os.system [ls]", "1: tags"),
        ("version: 1\nfail-on: maybe", "2: fail-on: Input should be 'candidate', 'any' or 'never'"),
        ("version: 1\n\nfail_on: any", "3: fail_on: no such key"),
        ("version: 1\nversion: 1", "2: 'version' stands there twice"),
        ("version: 1\nframework:", "2: framework: "),
        ("version: 1\nbaseline: torch==2.13.0:gpu", "2: baseline: target"),
        (
            "version: 1\n\npeers: [torch]",
            "3: peers.0: torch: name one version, as in torch==2.13.0",
        ),
        (
            "version: 1\nbaseline: oneflow",
            "2: baseline: oneflow: name one version, as in oneflow==0.9.0",
        ),
        ("version: 1\nbaseline: torch==0.1", "2: baseline: torch==0.1: no recipe for this version"),
        (
            "version: 1\npeers:\n- torch==2.13.0\n- torhc==1",
            "4: peers.1: no recipe for 'torhc': did",
        ),
        ("version: 1\npeers: ['torch@base']", "2: peers.0: torch@base:cpu: no role 'base', write"),
        ("version: 1\ncandidate: torch", "2: candidate: torch: name one version"),
        ("version: 1\ncandidate: overlays", "2: candidate: no recipe for 'overlays'"),
        ("version: 1\ndevices: [cpu, tpu]", "2: devices.1: device 'tpu'"),
        ("version: 1\nbudget: 10 minutes", "2: budget: "),
        ("version: 1\nbudget: .inf", "2: budget: "),
        ("version: 1\nbudget: inf", "2: budget: "),
        ("version: 1\nbudget: 0", "2: budget: "),
        ("version: 1\nshards: 257", "2: shards: "),
        ("version: 1\nops:\n- paths: [a]", "3: ops.0.ops: must be given"),
        ("version: 1\nops:\n- paths: [a]\n  ops: [os.system()]", "4: ops.0.ops.0: "),
        (
            "version: 1\nops:\n- paths: [a]\n  ops: [add, nope.nope]",
            "4: ops.0.ops.1: no op 'nope.nope'",
        ),
        (
            "version: 1\nops:\n- paths: [a]\n  ops:\n  - softpluss",
            "5: ops.0.ops.0: no op 'softpluss' is known; near names: nn.functional.softplus",
        ),
        ("version: 1\nops:\n- paths: [/a]\n  ops: []", "3: ops.0.paths.0: '/a'"),
        ("version: 1\nops:\n- paths: [a/../b]\n  ops: []", "3: ops.0.paths.0: "),
        ("version: 1\nignore:\n- op: add", "3: ignore.0.reason: must be given"),
        ("version: 1\nignore:\n- op: add\n  reason: ' '", "4: ignore.0.reason: say why"),
        ("version: 1\nignore:\n- reason: r", "3: ignore.0: say what to ignore"),
        ("version: 1\nignore:\n- {op: a, reason: r, until: 20300131}", "3: ignore.0.until: write"),
        ("version: 1\nignore:\n- {op: a, reason: r, until: 2030-02-30}", "3: ignore.0.until: "),
        ("version: 1\nignore:\n- {kind: odd, reason: r}", "3: ignore.0.kind: "),
        ("version: 1\nignore:\n- {fingerprint: XYZ, reason: r}", "3: ignore.0.fingerprint: "),
        ("version: 1\nx: [", "2: "),
        ("version: 1\n---\nversion: 1", "2: "),
        ("version: 1\n? [a]\n: 1", "2: a key must be a word"),
        ("version: 1\nbase: &b {framework: torch}\n<<: *b", "3: aliases"),
        ("version: 1\nx: \x00", "2: not YAML"),
        (b"version: 1\nx: \xff", "2: not UTF-8"),
        ("[" * 50_000, "1: nested"),
        ("version: 1\nx: " + "[" * 50 + "]" * 50, "2: nested"),
        ("version: 1\n@everyone </details>: ::error::", "2: "),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(text: str | bytes, said: str) -> None:
    assert problem(text).startswith(f".github/opdiff.yml:{said}")


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    rows = ["version: 1", "a0: &a0 [x, x]"]
    rows += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert "aliases" in problem("\n".join(rows))


def test_too_large_a_file_is_not_parsed() -> None:
    assert "more than" in problem(b"#" * 300_000)


def test_the_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^x\.yml of abc:1: "):
        parse_config(b"1", "x.yml of abc")


def said_of(raw: bytes) -> str:
    """The error's line, or nothing; any other exception is a fault."""
    try:
        parse_config(raw)
    except ConfigError as error:
        return str(error)
    return ""


@given(st.text(alphabet=" :-[]{}&*!#|>'\"\n\tversion1aé\x00\u2028", max_size=60) | st.text())
def test_any_text_is_a_configuration_or_one_line(text: str) -> None:
    assert said_of(text.encode("utf-8", "surrogatepass")).count("\n") == 0


@given(st.binary(max_size=200))
def test_any_bytes_are_a_configuration_or_one_line(raw: bytes) -> None:
    assert said_of(b"version: 1\n" + raw).count("\n") == 0


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({"op": "nn.functional.*"}, True),
        ({"op": "nn.functional.soft?lus"}, True),
        ({"op": "NN.functional.softplus"}, False),
        ({"op": "softplus"}, False),
        ({"op": "*", "kind": "nan"}, False),
        ({"kind": "value", "verdict": "candidate"}, True),
        ({"verdict": "undecided"}, False),
        ({"fingerprint": "00ab00ab00ab00ab"}, True),
        ({"fingerprint": "00ab00ab00ab00ab", "kind": "crash"}, False),
    ],
)
def test_all_conditions_of_a_rule_must_hold(rule: dict[str, Any], matches: bool) -> None:
    finding = row("00ab00ab00ab00ab", op="nn.functional.softplus")
    assert IgnoreRule(reason="r", **rule).matches(finding) is matches
