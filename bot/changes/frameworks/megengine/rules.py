"""MegEngine's rules: its layout, what its files are for and how they are cut into definitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.megengine.declared import OPS_TD
from bot.changes.frameworks.megengine.sources import PARAMS, read_megengine_cpp, read_params
from bot.changes.frameworks.megengine.walk import MegEngineReader
from bot.changes.index.python_index import PythonIndex, PythonLayout
from bot.changes.index.tree import Note, Tree
from bot.changes.python_walk import PythonRules, PythonWalk
from bot.changes.roles import shared_role
from bot.changes.rules import Reader, Role
from bot.changes.sources.python_source import python_definitions
from bot.changes.sources.tablegen import read_tablegen

LAYOUT: Final = PythonLayout(
    package="megengine",
    roots=("imperative/python/", "python_module/", ""),
    public=(
        "megengine", "megengine.functional", "megengine.functional.vision", "megengine.functional.nn",
        "megengine.functional.loss", "megengine.functional.metric", "megengine.functional.img_proc",
        "megengine.functional.quantized", "megengine.functional.distributed", "megengine.functional.utils",
        "megengine.functional.external", "megengine.module.external",
        "megengine.module", "megengine.module.qat", "megengine.module.quantized", "megengine.module.init",
        "megengine.random", "megengine.optimizer", "megengine.quantization",
        "megengine.quantization.fake_quant", "megengine.quantization.observer", "megengine.quantization.utils",
        "megengine.distributed", "megengine.distributed.functional", "megengine.distributions", "megengine.amp",
    ),
    ignored=("/test/", "/tests/", "/xla/"),
    searched=(
        "megengine.functional", "megengine.module", "megengine.core", "megengine.tensor", "megengine.optimizer",
        "megengine.quantization", "megengine.random", "megengine.distributed", "megengine.distributions",
        "megengine.amp", "megengine.autodiff",
    ),
)  # fmt: skip

PYTHON_RULES: Final = PythonRules(
    tensor_class="megengine.Tensor",
    tables=("_opr_map",),
    quiet_methods=(
        "__repr__", "__str__", "_module_info_string", "extra_repr", "state_dict", "load_state_dict", "_load_state_dict",
        "_load_state_dict_with_closure", "__getstate__", "__setstate__", "__reduce_ex__", "__deepcopy__", "__copy__",
    ),
    not_ops=(
        "megengine.Tensor", "megengine.Parameter", "megengine.tensor", "megengine.save", "megengine.load",
        "megengine.config.", "megengine.device.", "megengine.module.Module", "megengine.module.Sequential",
        "megengine.module.QATModule", "megengine.module.QuantizedModule", "megengine.module.qat.QATModule",
        "megengine.module.quantized.QuantizedModule", "megengine.optimizer.Optimizer", "megengine.random.RNG",
        "megengine.random.seed", "megengine.distributed.launcher", "megengine.distributed.Server",
        "megengine.distributed.Client", "megengine.distributed.Group", "megengine.get_logger", "megengine.set_log_file",
        "megengine.set_log_level", "megengine.enable_debug_log",
    ),
)  # fmt: skip
"""``not_ops``: containers, state and set-up (imperative/python/megengine/{__init__,module/module,module/sequential}.py)."""

_OTHER_SOURCES: Final = re.compile(r"^(lite|sdk|toolchain|third_party|tools|scripts)/")


@dataclass(frozen=True)
class MegEngineRules:
    """MegEngine's repository (``imperative/``, ``dnn/``, ``src/``) or its installed release (``megengine/``)."""

    name: str = "megengine"

    def matches(self, tree: Tree) -> bool:
        """Whether the tree is MegEngine's."""
        known = (
            "imperative/python/megengine/__init__.py",
            "python_module/megengine/__init__.py",
            "megengine/functional/__init__.py",
            OPS_TD,
        )
        return any(path in tree.path_set for path in known)

    def role(self, path: str, text: str | None) -> Role:
        """What a file is for."""
        if path == OPS_TD or path.endswith(".cuinl"):
            return "source"
        role = shared_role(path)
        if role == "source" and _OTHER_SOURCES.match(path):
            return "other"
        return role

    def definitions(self, path: str, text: str) -> tuple[Definition, ...] | None:
        """The definitions of a source file; None when it cannot be parsed."""
        if path == PARAMS:
            return read_params(path, text)
        if path.endswith((".py", ".pyi")):
            return python_definitions(path, text, LAYOUT.roots, PYTHON_RULES.tables)
        if path.endswith(".td"):
            return read_tablegen(path, text)
        return read_megengine_cpp(path, text)

    def reader(self, tree: Tree, note: Note) -> Reader:
        """The tree, ready to be walked."""
        python = PythonWalk(PythonIndex(tree, LAYOUT, note), PYTHON_RULES, note)
        return MegEngineReader(tree, python, note)
