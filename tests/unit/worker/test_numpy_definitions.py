"""The definitions that NumPy's forms call. Values by hand, from the formulas of PyTorch's documentation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bot.worker import numpy_indexing as places
from bot.worker import numpy_ops as ops
from bot.worker import numpy_windows as windows

F32 = np.float32


# Dtypes: the rules of torch.result_type, "Type promotion" in PyTorch's tensor attributes.


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((np.ones(2, np.int32), np.ones(2, F32)), "float32"),
        ((np.ones(2, np.int64), np.ones(2, np.float16)), "float16"),
        ((np.ones(2, np.uint8), np.ones(2, np.int8)), "int16"),
        ((np.ones(2, np.bool_), np.ones(2, np.uint8)), "uint8"),
        ((np.ones(2, F32), np.ones(2, np.float64)), "float64"),
        # An array without dimensions counts only where its kind is higher.
        ((np.ones(2, F32), np.ones((), np.float64)), "float32"),
        ((np.ones(2, np.int32), np.ones((), np.float64)), "float64"),
        ((np.ones(2, np.float64), np.ones((), np.complex64)), "complex128"),
        # A plain number too; it is of the default dtype of its kind.
        ((np.ones(2, np.int32), 2), "int32"),
        ((np.ones(2, np.int32), 2.5), "float32"),
        ((np.ones(2, np.float16), 2.5), "float16"),
        ((np.ones((), np.int8), 2), "int8"),
        ((np.ones(2, F32), 1j), "complex64"),
        ((np.ones(2, np.bool_), 2), "int64"),
    ],
)
def test_result_type_is_pytorchs(operands: tuple[object, ...], expected: str) -> None:
    assert ops.result_type(*operands) == np.dtype(expected)


def test_integers_of_a_float_function_are_float32() -> None:
    assert ops.inexact(np.array([1, 2])).dtype == F32
    assert ops.inexact(np.array([1.0])).dtype == np.float64
    left, right = ops.promoted_inexact(np.array([1]), np.array(2))
    assert left.dtype == F32
    assert right.dtype == F32


def test_softmax_and_its_logarithm() -> None:
    x = np.array([[0.0, math.log(3)], [1000.0, 1000.0]])
    assert ops.softmax(x, 1) == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert ops.log_softmax(x, 1)[1] == pytest.approx([-math.log(2)] * 2)


def test_nll_loss_is_a_weighted_mean_without_what_is_ignored() -> None:
    logs = np.array([[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]])
    weight = np.array([1.0, 3.0])
    target = np.array([0, 1, -100])
    # Losses 1 and 4 with weights 1 and 3; the ignored one has none.
    assert ops.nll_loss(logs, target, weight, -100, "mean") == pytest.approx(3.25)
    assert ops.nll_loss(logs, target, weight, -100, "none").tolist() == [1, 12, 0]


def test_batch_norm_moves_the_running_variance_to_the_unbiased_one() -> None:
    x = np.array([[0.0], [2.0]])
    mean, var = np.array([10.0]), np.array([10.0])
    result, _, _ = ops.batch_norm(x, mean, var, None, None, True, 0.1, 0.0)
    assert result.ravel().tolist() == [-1, 1]
    assert mean.tolist() == pytest.approx([9.1])
    assert var.tolist() == pytest.approx([9.2])  # 0.9 * 10 + 0.1 * 2


# Windows.


def test_convolution_is_a_cross_correlation() -> None:
    x = np.array([[[1.0, 2, 3, 4]]])
    w = np.array([[[1.0, 0, -1]]])
    assert windows.conv(x, w).tolist() == [[[-2, -2]]]
    assert windows.conv(x, w, np.array([10.0]), padding=1).tolist() == [[[8, 8, 8, 13]]]
    assert windows.conv(x, w, stride=2, padding=1).tolist() == [[[-2, -2]]]
    assert windows.conv(x, np.array([[[1.0, -1]]]), dilation=2).tolist() == [[[-2, -2]]]
    # An even kernel: "same" puts the odd zero after.
    assert windows.conv(x, np.array([[[1.0, 1]]]), padding="same").tolist() == [[[3, 5, 7, 4]]]


def test_groups_see_their_own_channels() -> None:
    x = np.array([[[1.0], [2.0], [3.0], [4.0]]])
    w = np.array([[[1.0], [1.0]], [[1.0], [-1.0]]])
    assert windows.conv(x, w, groups=2).tolist() == [[[3], [-1]]]


def test_transposed_convolution_adds_where_elements_land() -> None:
    x = np.array([[[1.0, 2]]])
    w = np.array([[[1.0, 10, 100]]])
    # 1 * (1, 10, 100) at 0 and 2 * (1, 10, 100) at 2.
    assert windows.conv_transpose(x, w, stride=2).tolist() == [[[1, 10, 102, 20, 200]]]
    assert windows.conv_transpose(x, w, stride=2, padding=1, output_padding=1).tolist() == [
        [[10, 102, 20, 200]]
    ]


def test_pools() -> None:
    x = np.array([[1.0, 5, 2, 4, 3]])
    values, where = windows.max_pool(1, x, 2, None, 0, 1, False)
    assert (values.tolist(), where.tolist()) == ([[5, 4]], [[1, 3]])
    values, where = windows.max_pool(1, x, 2, 2, 0, 1, True)
    assert (values.tolist(), where.tolist()) == ([[5, 4, 3]], [[1, 3, 4]])
    # The last window holds one element; what ceil_mode adds is not counted, padding is.
    assert windows.avg_pool(1, x, 2, None, 0, True, True).tolist() == [[3, 3, 3]]
    assert windows.avg_pool(1, x, 3, 2, 1, False, True).tolist() == [[2, 11 / 3, 7 / 3]]
    assert windows.avg_pool(1, x, 3, 2, 1, False, False).tolist() == [[3, 11 / 3, 3.5]]


def test_a_pool_of_the_lowest_number_points_into_the_input() -> None:
    x = np.full((1, 2), -np.inf)
    _, where = windows.max_pool(1, x, 2, 1, 1, 1, False)
    assert where.tolist() == [[0, 0, 1]]


def test_adaptive_cells_overlap() -> None:
    x = np.array([[1.0, 2, 3, 4, 5]])
    # Cells [0, 2), [1, 4), [3, 5).
    assert windows.adaptive_avg_pool(1, x, 3).tolist() == [[1.5, 3, 4.5]]
    values, where = windows.adaptive_max_pool(1, x, 3)
    assert (values.tolist(), where.tolist()) == ([[2, 4, 5]], [[1, 3, 4]])


def test_resizing() -> None:
    x = np.array([[[0.0, 10.0]]])

    def resized(size: int | None, scale: float | None, mode: str, align: bool) -> list[float]:
        found = windows.interpolate(x, size, scale, mode, align, None)
        return [round(float(value), 9) for value in found[0, 0]]

    assert resized(4, None, "nearest", False) == [0, 0, 10, 10]
    assert resized(4, None, "linear", False) == [0, 2.5, 7.5, 10]
    assert resized(3, None, "linear", True) == [0, 5, 10]
    # A factor is used as it is given: 2 elements times 1.7 are 3, one every 1 / 1.7.
    assert resized(None, 1.7, "nearest", False) == [0, 0, 10]


def test_the_cubic_kernel_keeps_a_constant_and_goes_through_its_points() -> None:
    assert windows.interpolate(np.full((1, 1, 4, 4), 3.0), 7, None, "bicubic", False, None) == (
        pytest.approx(np.full((1, 1, 7, 7), 3.0))
    )
    x = np.arange(16.0).reshape(1, 1, 4, 4) ** 2
    assert windows.interpolate(x, 4, None, "bicubic", True, None) == pytest.approx(x)


def test_pads_begin_with_the_last_dimension_and_cut_where_negative() -> None:
    x = np.array([[1.0, 2, 3], [4, 5, 6]])
    assert windows.pad(x, [1, -1, 0, 1], "constant", 9).tolist() == [
        [9, 1, 2],
        [9, 4, 5],
        [9, 9, 9],
    ]
    assert windows.pad(x, [2, -3], "replicate").tolist() == [[1, 1], [4, 4]]
    assert windows.pad(x, [2, 0], "reflect").tolist() == [[3, 2, 1, 2, 3], [6, 5, 4, 5, 6]]
    assert windows.pad(x, [1, -1], "circular").tolist() == [[2, 1, 2], [5, 4, 5]]
    assert windows.pad(x, [1, 1], "circular").tolist() == [[3, 1, 2, 3, 1], [6, 4, 5, 6, 4]]


def test_unfold_puts_blocks_in_columns() -> None:
    x = np.arange(9.0).reshape(1, 1, 3, 3)
    assert windows.unfold(x, 2, 1, 0, 1)[0].T.tolist() == [
        [0, 1, 3, 4],
        [1, 2, 4, 5],
        [3, 4, 6, 7],
        [4, 5, 7, 8],
    ]


# Sorts and scatters.


def test_descending_sorts_keep_the_order_of_equals() -> None:
    values, indices = places.sort(np.array([1, 3, 3, 2]), -1, True)
    assert (values.tolist(), indices.tolist()) == ([3, 3, 2, 1], [1, 2, 3, 0])


def test_the_lower_median_and_nan() -> None:
    x = np.array([[4.0, 1, 3, 2], [1, math.nan, 0, 2]])
    values, indices = places.median(x, 1, False)
    assert values[0] == 2
    assert math.isnan(values[1])
    assert indices.tolist() == [3, 1]
    values, indices = places.nanmedian(x, 1, True)
    assert (values.tolist(), indices.tolist()) == ([[2], [1]], [[3], [0]])


def test_cumulative_maximum_points_to_the_last_equal() -> None:
    values, indices = places.cumulative(np.array([2, 1, 2, 3, 0]), 0, "max")
    assert (values.tolist(), indices.tolist()) == ([2, 2, 2, 3, 3], [0, 0, 2, 3, 3])


def test_scatters() -> None:
    x = np.array([1.0, 2, 3])
    index, src = np.array([0, 0, 2]), np.array([10.0, 20, 30])
    assert places.scatter(x, 0, np.array([2, 0]), src).tolist() == [20, 2, 10]
    assert places.scatter(x, 0, index, src, "sum").tolist() == [31, 2, 33]
    assert places.scatter(x, 0, index, src, "mean").tolist() == [31 / 3, 2, 16.5]
    assert places.scatter(x, 0, index, src, "mean", False).tolist() == [15, 2, 30]
    assert places.scatter(x, 0, index, src, "amax", False).tolist() == [20, 2, 30]
    assert places.scatter(x, 0, index, src, "prod", False).tolist() == [200, 2, 30]


def test_gather_takes_along_a_dimension_of_a_smaller_index() -> None:
    x = np.array([[1, 2], [3, 4], [5, 6]])
    assert places.gather(x, 0, np.array([[2, 0]])).tolist() == [[5, 2]]
    assert places.gather(x, 1, np.zeros((2, 0), int)).shape == (2, 0)


def test_unique_consecutive() -> None:
    values, runs, counts = places.unique_consecutive(np.array([1, 1, 2, 2, 1]), True, True, None)
    assert values.tolist() == [1, 2, 1]
    assert runs.tolist() == [0, 0, 1, 1, 2]
    assert counts.tolist() == [2, 2, 1]


def test_slices_of_an_index_are_added_as_often_as_they_are_named() -> None:
    x = np.zeros((2, 2))
    source = np.array([[1.0, 2], [3, 4]])
    assert places.index_combine(x, 0, np.array([1, 1]), source, "add").tolist() == [[0, 0], [4, 6]]


def test_searches_row_by_row_and_among_nothing() -> None:
    rows = np.array([[1, 3, 5], [2, 4, 6]])
    found = places.searchsorted(rows, np.array([[3, 6], [3, 6]]), False, None, False)
    assert found.tolist() == [[1, 3], [1, 2]]
    empty = places.searchsorted(np.zeros((0, 0)), np.zeros((0, 3)), True, None, True)
    assert (empty.shape, empty.dtype) == ((0, 3), np.int32)
