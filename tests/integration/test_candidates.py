"""Pull requests of PaddlePaddle, MindSpore and MegEngine through ``opdiff check``: a fault in their Python is found."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from command import opdiff

from bot.report.results import read_results
from bot.targets.environment_store import EnvironmentStore

PLANTS = {
    # The gradient through the norm is cut: d(a.b/|a||b|)/da loses its second term.
    "paddlepaddle==3.3.1": (
        "paddle/nn/functional/common.py",
        "    cos_sim = w12 / n12\n",
        "    cos_sim = w12 / n12.detach()\n",
        ("nn.functional.cosine_similarity", "gradient"),
    ),
    # log sum exp(x) = m + log sum exp(x - m): without the shift the result is larger by m.
    "megengine==1.13.0": (
        "megengine/functional/nn.py",
        "        return squeeze(max_value, axis=None) + log(\n            sum(exp(inp - max_value), axis, keepdims)\n",
        "        return squeeze(max_value, axis=None) + log(\n            sum(exp(inp), axis, keepdims)\n",
        ("logsumexp", "value"),
    ),
    # 1/2 (log v + (x - t)^2 / v): the sign of the second term.
    "mindspore==2.10.0": (
        "mindspore/ops/function/nn_func.py",
        "0.5 * (logarithm + squared_loss / maxima)",
        "0.5 * (logarithm - squared_loss / maxima)",
        ("nn.functional.gaussian_nll_loss", "value"),
    ),
}


def patch(source: Path, file: str, old: str, new: str) -> str:
    text = (source / file).read_text(encoding="utf-8")
    assert text.count(old) == 1
    before, after = text.splitlines(keepends=True), text.replace(old, new).splitlines(keepends=True)
    lines = difflib.unified_diff(before, after, f"a/{file}", f"b/{file}")
    return f"diff --git a/{file} b/{file}\n" + "".join(lines)


@pytest.mark.parametrize("release", PLANTS)
def test_a_fault_in_a_pull_request_is_the_candidates(
    release: str, environment_store: EnvironmentStore, tmp_path: Path
) -> None:
    file, old, new, (op, kind) = PLANTS[release]
    source = environment_store.site_packages(environment_store.prepare(release))
    (tmp_path / "fault.patch").write_text(patch(source, file, old, new))
    done = opdiff(
        "check", "--patch", tmp_path / "fault.patch", "--source", source,
        "--peer", "torch==2.13.0", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    results = read_results(tmp_path / "out/results.json")
    assert results.changes is not None
    assert [row.op for row in results.changes.ops if row.how == "direct"] == [op]
    new_ones = {
        (row.op, row.kind)
        for row in results.findings
        if (row.verdict, row.status) == ("candidate", "new")
    }
    assert (op, kind) in new_ones
    assert {name for name, _ in new_ones} == {op}
    assert [target.role for target in results.targets] == ["candidate", "baseline", "peer"]
