"""Names that people type, and the entries that they mean."""

import pytest

from bot.programs.op_index import OpIndex, UnknownOpError
from bot.programs.source import SourceEntry


def entry(name: str, group: str, *names: str, calls: tuple[str, ...] = ()) -> SourceEntry:
    return SourceEntry("opinfo", name, group=group, names=names, calls=calls)


SOFTPLUS = entry("nn.functional.softplus", "nn.functional.softplus", "nn.functional.softplus")
MODULE = SourceEntry(
    "moduleinfo", "nn.Softplus", group="nn.functional.softplus", names=("nn.Softplus",)
)
ADD = entry("add", "add", "add", "Tensor.add", "Tensor.add_")
RAND_LIKE = entry("rand_like", "randn_like", calls=("randn_like",))
FOLD = entry("nn.functional.unfold", "nn.functional.unfold", "nn.functional.unfold")
VIEW = entry("unfold", "Tensor.unfold", calls=("Tensor.unfold",))
PCA = entry("pca_lowrank", "pca_lowrank", "pca_lowrank", calls=("pca_lowrank", "matmul"))
INDEX = OpIndex([SOFTPLUS, MODULE, ADD, RAND_LIKE, FOLD, VIEW, PCA])


@pytest.mark.parametrize(
    ("typed", "group"),
    [
        ("nn.functional.softplus", "nn.functional.softplus"),
        ("torch.nn.functional.softplus", "nn.functional.softplus"),
        ("softplus", "nn.functional.softplus"),
        ("nn.Softplus", "nn.functional.softplus"),
        ("Tensor.add_", "add"),
        ("add_", "add"),
        ("Tensor.__radd__", "add"),
        ("rand_like", "randn_like"),
        ("randn_like", "randn_like"),
        ("Tensor.unfold", "Tensor.unfold"),
    ],
)
def test_resolves(typed: str, group: str) -> None:
    assert INDEX.resolve(typed) == group


def test_function_and_module_are_found_together() -> None:
    assert INDEX.entries_of("nn.functional.softplus") == (SOFTPLUS, MODULE)


def test_an_op_that_is_only_called_is_reached() -> None:
    assert INDEX.resolve("matmul") == "matmul"
    assert INDEX.entries_of("matmul") == (PCA,)


def test_an_ambiguous_short_name_is_refused() -> None:
    with pytest.raises(
        UnknownOpError, match=r"ambiguous: say which of Tensor\.unfold, nn\.functional\.unfold"
    ):
        INDEX.resolve("unfold")


def test_a_misspelt_name_gets_near_names() -> None:
    with pytest.raises(
        UnknownOpError, match=r"no op 'sofplus' is known; near names: nn\.functional\.softplus"
    ):
        INDEX.resolve("sofplus")


def test_a_name_near_to_nothing() -> None:
    with pytest.raises(UnknownOpError, match="opdiff ops"):
        INDEX.resolve("zzzzzzzz")


def test_no_entries_for_an_unknown_group() -> None:
    assert INDEX.entries_of("nothing") == ()
