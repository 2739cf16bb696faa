"""Op groups: the forms of an op as PyTorch's own documentation relates them."""

import pytest

from bot.programs.op_groups import group_of, load_op_groups, op_groups

MINIMAL = """
aliases: {source: s, groups: {abs: [absolute]}}
functional: {source: s, names: "relu"}
variants: {source: s, groups: {}}
reordered: {source: s, names: ""}
operators: {source: s, groups: {}}
methods: {source: s, names: "Tensor.view"}
modules: {source: s, groups: {}}
"""


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("add", "add"),
        ("Tensor.add", "add"),
        ("Tensor.add_", "add"),
        ("Tensor.__radd__", "add"),
        ("Tensor.__iadd__", "add"),
        ("absolute", "abs"),
        ("Tensor.absolute_", "abs"),
        ("special.expit", "sigmoid"),
        ("nn.Sigmoid", "sigmoid"),
        ("nn.functional.relu_", "nn.functional.relu"),
        ("relu_", "nn.functional.relu"),
        ("Tensor.relu", "nn.functional.relu"),
        ("nn.ReLU", "nn.functional.relu"),
        ("nn.Conv2d", "nn.functional.conv2d"),
        ("conv2d", "nn.functional.conv2d"),
        ("nn.functional.softplus", "nn.functional.softplus"),
        ("Tensor.masked_fill_", "masked_fill"),
        ("Tensor.T.__get__", "Tensor.T"),
        ("Tensor.real.__get__", "real"),
        ("Tensor.view", "Tensor.view"),
        ("Tensor.resize_", "Tensor.resize_"),
        ("Tensor.uniform_", "Tensor.uniform_"),
        ("Tensor.unfold", "Tensor.unfold"),
        ("nn.Unfold", "nn.functional.unfold"),
        ("nn.LSTM", "nn.LSTM"),
        ("oneflow.nn.FusedBatchNorm2d", "oneflow.nn.FusedBatchNorm2d"),
        ("maximum", "maximum"),
    ],
)
def test_group(name: str, group: str) -> None:
    assert group_of(name) == group


def test_a_group_is_its_own_group() -> None:
    for group in set(op_groups().irregular.values()):
        assert group_of(group) == group


def test_a_name_in_two_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="two op groups"):
        load_op_groups(MINIMAL.replace("abs: [absolute]", "abs: [absolute], neg: [absolute]"))


def test_a_group_that_is_a_form_of_another_is_refused() -> None:
    with pytest.raises(ValueError, match="itself listed"):
        load_op_groups(MINIMAL.replace("abs: [absolute]", "abs: [absolute], absolute: [other]"))


def test_an_unknown_section_is_refused() -> None:
    with pytest.raises(ValueError):
        load_op_groups(MINIMAL + "extra: {source: s, groups: {}}\n")


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("Tensor.add", ("add", "plain")),
        ("Tensor.add_", ("add", "in place")),
        ("relu_", ("relu", "in place")),
        ("Tensor.__add__", ("add", "plain")),
        ("Tensor.__iadd__", ("add", "in place")),
        ("Tensor.__radd__", ("add", "reversed")),
        ("Tensor.__rshift__", ("bitwise_right_shift", "plain")),
        ("Tensor.__rrshift__", ("bitwise_right_shift", "reversed")),
        ("Tensor.__invert__", ("bitwise_not", "plain")),
        ("Tensor.__ior__", ("bitwise_or", "in place")),
        ("absolute", ("abs", "plain")),
        ("Tensor.absolute_", ("abs", "in place")),
        ("special.expit", ("sigmoid", "plain")),
        ("add", None),
        ("Tensor.__getitem__", None),  # an operator of its own, not a form of a function
        ("nn.ReLU", None),
        ("Tensor.where", None),  # where(condition, self, other)
        ("Tensor.polygamma_", None),  # polygamma(n, self)
        ("special.polygamma", ("polygamma", "plain")),
    ],
)
def test_a_form_that_takes_the_arguments_of_its_function(
    name: str, same: tuple[str, str] | None
) -> None:
    assert op_groups().same_call(name) == same
