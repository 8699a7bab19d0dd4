"""Places: reading through reshapes and broadcasting."""

from __future__ import annotations

import pytest

from rushlight.passes.spaces import axes_of, broadcast, flat, reshaped, same, split, total


@pytest.mark.parametrize(
    ("result", "shape"),
    [
        ((2, 3, 4), (6, 4)),
        ((6, 4), (2, 3, 4)),
        ((6, 4), (1, 2, 3, 1, 4)),
        ((24,), (2, 3, 4)),
        ((2, 3, 4), (24,)),
        ((1,), ()),
        ((), (1, 1)),
        ((6, 4), (3, 2, 2, 2)),
    ],
)
def test_reshapes_keep_all_axes_in_order(result, shape):
    place = axes_of(result)
    found = reshaped(place, result, shape)
    assert [total(axes) for axes in found] == list(shape)
    assert flat(found) == flat(place)
    back = reshaped(found, shape, result)
    assert same(back, place)


def test_a_reshape_across_factors_is_computed():
    assert reshaped(axes_of((6, 4)), (6, 4), (4, 6)) == (None, None)
    kept = axes_of((5, 6, 4))
    assert reshaped(kept, (5, 6, 4), (5, 4, 6)) == (kept[0], None, None)


def test_a_reshape_to_another_number_of_elements_is_computed():
    assert reshaped(axes_of((6, 2)), (6, 2), (13, 1)) == (None, ())


def test_an_axis_cut_in_two_is_still_itself():
    place = axes_of((6,))
    (axis,) = flat(place)
    parts = split((axis,), (2, 3))
    assert flat(place) == flat(parts)
    assert split((axis,), (4, 2)) is None


def test_broadcasting_reads_size_one_at_no_axis():
    place = axes_of((2, 3, 4))
    assert broadcast(place, (3, 1)) == (place[1], ())
