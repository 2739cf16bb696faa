"""PaddlePaddle's Python: who runs an op, and which functions are Tensor's methods."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final

from bot.changes.definition import Definition
from bot.changes.frameworks.paddle.tables import paddle_tables
from bot.changes.graph import Edge, Node
from bot.changes.index.python_index import PythonLayout
from bot.changes.python_walk import PythonRules, PythonWalk

PUBLIC: Final = (
    "paddle", "paddle.nn.functional", "paddle.nn", "paddle.linalg", "paddle.fft", "paddle.signal", "paddle.special",
    "paddle.sparse", "paddle.sparse.nn", "paddle.sparse.nn.functional", "paddle.geometric", "paddle.vision.ops",
    "paddle.incubate", "paddle.incubate.nn", "paddle.incubate.nn.functional", "paddle.incubate.sparse",
    "paddle.incubate.sparse.nn", "paddle.incubate.sparse.nn.functional", "paddle.incubate.nn.memory_efficient_attention",
    "paddle.nn.initializer", "paddle.static.nn",
    "paddle.audio.functional",
)  # fmt: skip

IGNORED: Final = (
    "/tests/", "/test/", "/paddle/distributed/", "/paddle/dataset/", "/paddle/hapi/", "/paddle/jit/", "/paddle/onnx/",
    "/paddle/inference/", "/paddle/profiler/", "/paddle/reader/", "/paddle/cost_model/", "/paddle/quantization/",
    "/paddle/optimizer/", "/paddle/incubate/optimizer/", "/paddle/incubate/distributed/", "/paddle/incubate/asp/",
    "/paddle/static/quantization/", "/paddle/static/amp/", "/paddle/fluid/contrib/", "/paddle/fluid/incubate/",
    "/paddle/fluid/dataloader/", "/paddle/fluid/transpiler/", "/paddle/fluid/distributed/", "/paddle/utils/code_gen/",
    "/paddle/cinn/", "/paddle/tensorrt/",
)  # fmt: skip
"""Training, export, compilation and deployment: their functions run ops but are none."""

RULE_MODULES: Final = ("paddle.incubate.autograd.", "paddle.decomposition.")
"""Where ops are taken apart into simpler ones for static graphs."""

PYTHON_RULES: Final = PythonRules(
    tensor_class="paddle.Tensor",
    tables=("monkey_patch_varbase", "monkey_patch_tensor", "monkey_patch_math_varbase", "monkey_patch_math_tensor",
            "monkey_patch_variable", "monkey_patch_value"),
    quiet_methods=("extra_repr", "__repr__", "__str__", "__dir__", "state_dict", "set_state_dict", "to_static_state_dict",
                   "full_name", "name_scope"),
    not_ops=(
        "paddle.Tensor", "paddle.nn.Layer", "paddle.nn.Sequential", "paddle.nn.LayerList", "paddle.nn.LayerDict",
        "paddle.nn.ParameterList", "paddle.nn.ParameterDict", "paddle.ParamAttr", "paddle.nn.BeamSearchDecoder", "paddle.nn.dynamic_decode", "paddle.Model", "paddle.DataParallel",
        "paddle.save", "paddle.load", "paddle.seed", "paddle.set_printoptions", "paddle.set_device", "paddle.get_device",
        "paddle.no_grad", "paddle.enable_grad", "paddle.set_grad_enabled", "paddle.is_grad_enabled", "paddle.grad",
        "paddle.summary", "paddle.flops", "paddle.batch", "paddle.enable_static", "paddle.disable_static",
        "paddle.in_dynamic_mode", "paddle.get_rng_state", "paddle.set_rng_state", "paddle.get_cuda_rng_state",
        "paddle.set_cuda_rng_state", "paddle.set_default_dtype", "paddle.get_default_dtype", "paddle.iinfo",
        "paddle.finfo", "paddle.dtype", "paddle.Size", "paddle.LazyGuard", "paddle.disable_signal_handler",
        "paddle.get_flags", "paddle.set_flags", "paddle.CPUPlace", "paddle.CUDAPlace", "paddle.CUDAPinnedPlace",
        "paddle.static.nn.py_func", "paddle.static.nn.cond", "paddle.static.nn.case", "paddle.static.nn.switch_case",
        "paddle.static.nn.while_loop",
    ),
)  # fmt: skip
"""``not_ops``: containers, state and set-up (python/paddle/__init__.py, nn/layer/{layers,container}.py)."""

_LISTED: Final = re.compile(
    r"^tensor_method_func\s*=\s*\[((?:(?!^tensor_method_func\b).)*?)^\]", re.MULTILINE | re.DOTALL
)
_PAIRED: Final = re.compile(
    r"^magic_method_func\s*=\s*\[((?:(?!^magic_method_func\b).)*?)^\]", re.MULTILINE | re.DOTALL
)
_TEXT: Final = re.compile(r"[\"'](\w+)[\"']")
_PAIR: Final = re.compile(r"\(\s*[\"'](\w+)[\"']\s*,\s*[\"'](\w+)[\"']")
_PATCHES: Final = re.compile(
    r"(?:^|/)(?:varbase|tensor|variable|math_op|math_op_patch)\w{0,99}patch\w{0,99}\.py$|math_op_patch\.py$"
)


def paddle_layout(paths: frozenset[str]) -> PythonLayout:
    """Where Python lies: below ``python/`` in the repository, at the top in an installed release."""
    repository = "python/paddle/__init__.py" in paths
    return PythonLayout("paddle", ("python/",) if repository else ("",), PUBLIC, IGNORED)


class PaddlePython(PythonWalk):
    """The walk through Python, with Paddle's lists of methods and its calls of ops."""

    @cached_property
    def tensor_methods(self) -> dict[str, tuple[str, ...]]:
        """Full dotted path -> Tensor methods, those of ``tensor_method_func`` included (python/paddle/tensor/__init__.py)."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path, methods in super().tensor_methods.items():
            found[path] += methods
        text = self.index.tree.text(self.index.modules.get("paddle.tensor", "")) or ""
        pairs = [(name, name) for part in _LISTED.findall(text) for name in _TEXT.findall(part)]
        pairs += [pair for part in _PAIRED.findall(text) for pair in _PAIR.findall(part)]
        for method, function in pairs:
            target = self.index.resolve("paddle.tensor", function)
            found[target].append(f"{self.rules.tensor_class}.{method}")
        return {path: tuple(dict.fromkeys(methods)) for path, methods in found.items()}

    def _raw_aliases(self, path: str) -> tuple[str, ...]:
        """Names that a module lists in ``__all__``, where it has one: Paddle's public modules all do."""
        return tuple(name for name in super()._raw_aliases(path) if self._is_listed(name))

    def _is_listed(self, alias: str) -> bool:
        module, _, name = alias.rpartition(".")
        if name.isupper():
            return False  # a constant
        exported = self.index.file(module).exported if module in self.index.modules else None
        return exported is None or name in exported

    def successors(self, node: Node) -> Iterator[Edge]:
        """What a changed Python definition changes. The layers of fluid were public once: who calls them is a composite."""
        for edge in super().successors(node):
            if edge.target.name.startswith(RULE_MODULES) and not node.name.startswith(RULE_MODULES):
                continue  # a rule takes an op apart into others, which are tested themselves
            composite = edge.target.kind == "python" and self._was_public(node.name)
            yield replace(edge, direct=edge.direct and not composite)

    def _was_public(self, path: str) -> bool:
        module, name = self.index.split(path)
        return module.startswith("paddle.fluid.layers.") and name in (
            self.index.file(module).exported or ()
        )

    def start(self, definition: Definition, added: bool) -> Node | str:
        """Where the walk from a changed Python definition begins, or why there is none."""
        if _PATCHES.search(definition.file) and definition.kind == "function":
            text = self.index.tree.text(definition.file) or ""
            bound = re.search(
                rf"\(\s*[\"']({definition.name})[\"']\s*,|\.{definition.name}\s*=\s*{definition.name}\b",
                text,
            )
            if bound:
                return Node("public", f"{self.rules.tensor_class}.{definition.name}")
        return super().start(definition, added)

    def op_users(
        self, names: frozenset[str], old: frozenset[str]
    ) -> Iterator[tuple[str, Definition]]:
        """Every definition, with its full dotted path, that runs an op of one of the names.

        ``old`` are the names by which static graphs know it: ``type='reduce_sum'``.
        """
        words = sorted(
            names | {f"{name}_" for name in names} | {f"final_state_{name}" for name in names}
        )
        paths = dict.fromkeys(
            path for word in words for path in self.index.tree.containing(word, self.index.paths)
        )
        alternatives = "|".join(map(re.escape, sorted(names)))
        written = "|".join(map(re.escape, sorted(old)))
        runs = re.compile(
            rf"_C_ops\s*\.\s*(?:final_state_)?(?:{alternatives})_?\b"
            rf"|core(?:\.eager)?\.ops\.(?:final_state_)?(?:{alternatives})_?\b"
            rf"|\b(?:op_type|l_type|type|op_name)\s*=\s*[\"'](?:{written})[\"']"
            rf"|\bLayerHelper\(\s*[\"'](?:{written})[\"']"
            rf"|\bgenerate_(?:layer|activation|inplace)_fn\(\s*[\"'](?:{alternatives})_?[\"']"
        )
        for path in paths:
            text = self.index.tree.text(path) or ""
            module = self.index.module_of(path) or ""
            places = [match.start() for match in runs.finditer(text)]
            if not places or self.index.modules.get(module) != path:
                continue
            starts = [0, *(match.end() for match in re.finditer("\n", text))]
            lines = frozenset(bisect_right(starts, place) for place in places)
            for definition in self._around(module, lines):
                yield f"{module}.{definition.name}", definition

    def _around(self, module: str, lines: frozenset[int]) -> Iterator[Definition]:
        """The innermost definitions around lines."""
        found: dict[Definition, None] = {}
        definitions = [
            d for d in self.index.file(module).definitions if d.kind not in ("import", "statement")
        ]
        for line in sorted(lines):
            around = [d for d in definitions if d.first <= line <= d.last]
            if around:
                found[min(around, key=lambda d: d.last - d.first)] = None
        yield from found

    def decorated_ops(self, path: str) -> Iterator[str]:
        """The ops that the function of a full dotted path is registered for."""
        module, name = self.index.split(path)
        for decorated, decorator, arguments in self.index.file(module).decorators:
            if (
                decorated == name
                and decorator.rpartition(".")[2] in paddle_tables().decorator_names
            ):
                yield from (argument.removeprefix("pd_op.") for argument in arguments[:1])
