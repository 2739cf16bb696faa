"""Op mappings: the file that ships is sound, and a row does to a call what its documentation says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bot.targets.op_mapping import FOLDER, MappingError, OpMapping, load_op_mapping

ADAPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from op_mapping import adapters
from framework import UnsupportedError
row, args, kwargs = json.loads(sys.argv[2])
adapt = adapters({"ops": {"op": row}}, lambda value: value, lambda value: value == "tensor")["op"]
try:
    print(json.dumps(adapt(args, kwargs)))
except UnsupportedError as error:
    print(json.dumps("unsupported"))
"""


def adapt(row: dict[str, object], args: list[object], kwargs: dict[str, object]) -> object:
    """Run the worker's adapter in a process of its own, as the worker's folder must be first on its path."""
    import json

    row = OpMapping.model_validate(
        {"framework": "x", "ops": {"op": {**row, "source": "a test"}}}
    ).message()["ops"]["op"]
    worker = FOLDER.parent
    call = json.dumps([row, args, kwargs])
    ran = subprocess.run(
        [sys.executable, "-c", ADAPT, str(worker), call], capture_output=True, check=True
    )
    return json.loads(ran.stdout)


def test_the_mapping_of_oneflow_loads_and_names_known_ops() -> None:
    mapping = load_op_mapping("oneflow")
    known = set((FOLDER / "names.txt").read_text().splitlines())
    assert mapping.framework == "oneflow"
    assert set(mapping.ops) <= known
    assert "source" not in str(mapping.message()["ops"]["allclose"])


def test_a_framework_without_differences_has_no_file() -> None:
    assert load_op_mapping("torch").ops == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("framework: x\nops: {add: {renamed: {}}}", "renamed"),
        ("framework: x\nops: {add: {rename: {a: b}}}", "source"),
        ("framework: x\nops: {add: {keep: 3, positional: [a], source: here}}", "keep"),
        ("ops: [", "x.yml"),
    ],
)
def test_a_bad_mapping_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.yml").write_text(text)
    with pytest.raises(MappingError, match=says) as caught:
        load_op_mapping("x", tmp_path)
    assert "\n" not in str(caught.value)


def test_positional_arguments_go_by_name() -> None:
    row: dict[str, object] = {"positional": ["input", "other", "rtol", "atol"], "keep": 2}
    assert adapt(row, [1, 2, 0.5, 0.25], {}) == [[1, 2], {"rtol": 0.5, "atol": 0.25}]
    assert adapt(row, [1, 2], {"atol": 3}) == [[1, 2], {"atol": 3}]
    assert adapt(row, [1, 2, 3, 4, 5], {}) == "unsupported"


def test_rename_drop_and_defaults() -> None:
    row: dict[str, object] = {
        "rename": {"slope": "alpha"},
        "drop": {"dtype": [None], "eps": []},
        "defaults": {"alpha": 0.5},
    }
    assert adapt(row, [1], {"slope": 2, "dtype": None, "eps": 9}) == [[1], {"alpha": 2}]
    assert adapt(row, [1], {"dtype": 3}) == [[1], {"dtype": 3, "alpha": 0.5}]


def test_what_has_no_effect_or_another_meaning_is_unsupported() -> None:
    only: dict[str, object] = {"only": {"inplace": [False]}}
    assert adapt(only, [], {"inplace": False}) == [[], {"inplace": False}]
    assert adapt(only, [], {"inplace": True}) == "unsupported"
    assert adapt(only, [], {"inplace": 0}) == "unsupported"
    assert adapt({"not_bool": [1]}, [1, True], {}) == "unsupported"
    assert adapt({"not_bool": [1]}, [1, 1], {}) == [[1, 1], {}]
    assert adapt({"unsupported": "another op"}, [], {}) == "unsupported"


def test_a_tensor_where_only_numbers_go_is_unsupported() -> None:
    row: dict[str, object] = {"not_tensor": [1, "min"]}
    assert adapt(row, ["tensor", 2], {}) == [["tensor", 2], {}]
    assert adapt(row, ["tensor", "tensor"], {}) == "unsupported"
    assert adapt(row, ["tensor"], {"min": "tensor"}) == "unsupported"


def test_pack_makes_a_list_of_the_rest() -> None:
    assert adapt({"pack": 1}, ["x", 0, 1], {}) == [["x", [0, 1]], {}]
    assert adapt({"pack": 1}, ["x", [0, 1]], {}) == [["x", [0, 1]], {}]
