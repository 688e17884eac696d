"""Layouts and fans."""

import numpy as np
import pytest

import fanin
import reference


@pytest.mark.parametrize(
    "answer", reference.KNOWN_ANSWERS["fans"], ids=lambda a: f"{a['shape']}-{a['layout']}"
)
def test_known_answers(answer):
    fans = fanin.fans(tuple(answer["shape"]), answer["layout"], answer["groups"])
    assert fans == tuple(answer["fans"])
    assert all(type(fan) is int for fan in fans)


def test_shapes_may_be_lists_and_numpy_integers():
    assert fanin.fans([3, np.int64(5)]) == (5, 3)
    assert fanin.fans(np.array([3, 5])) == (5, 3)
    assert fanin.fans(7, "i") == (7, 1)


def test_a_stacked_transposed_convolution_divides_its_inputs():
    assert fanin.fans((2, 16, 16, 4, 4), "biokk", groups=4) == (64, 256)


@pytest.mark.parametrize("shape", [(), (7,)])
def test_too_few_axes_without_a_layout(shape):
    with pytest.raises(ValueError, match=rf"has {len(shape)} axes.*pass a layout"):
        fanin.fans(shape)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("ox", r"layout 'ox' contains 'x'; allowed letters: o \(output\), i"),
        ("OI", "contains 'I'"),
        ("oik", r"layout 'oik' names 3 axes, but shape \(3, 5\) has 2"),
        ("", "has neither an output axis"),
        ("kk", "layout 'kk' has neither an output axis"),
    ],
)
def test_bad_layouts(layout, message):
    with pytest.raises(ValueError, match=message):
        fanin.fans((3, 5), layout)


@pytest.mark.parametrize("layout", [0, ("o", "i"), b"oi"])
def test_layouts_are_strings(layout):
    with pytest.raises(TypeError, match="layout must be a string"):
        fanin.fans((3, 5), layout)


@pytest.mark.parametrize(
    ("shape", "layout", "groups", "message"),
    [
        ((4, 1, 3, 3), None, 3, r"groups must divide the 4 outputs of shape \(4, 1, 3, 3\).*got 3"),
        ((6, 4, 3, 3), "iokk", 4, "groups must divide the 6 inputs"),
        ((4, 1, 3, 3), None, 0, "groups must be at least 1, got 0"),
        ((4, 1, 3, 3), None, -2, "groups must be at least 1, got -2"),
    ],
)
def test_bad_groups(shape, layout, groups, message):
    with pytest.raises(ValueError, match=message):
        fanin.fans(shape, layout, groups)


@pytest.mark.parametrize("groups", [True, 2.0, "2", None])
def test_groups_are_integers(groups):
    with pytest.raises(TypeError, match="groups must be an integer"):
        fanin.fans((4, 4), groups=groups)


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((3, -1), ValueError, r"an axis of shape \(3, -1\) must be at least 0, got -1"),
        ((3, 2.0), TypeError, "must be an integer, got 2.0"),
        ((3, True), TypeError, "must be an integer, got True"),
        ("35", TypeError, "shape must be an integer or a tuple of integers, got '35'"),
        (2.5, TypeError, "shape must be an integer or a tuple of integers, got 2.5"),
        (None, TypeError, "shape must be an integer or a tuple of integers, got None"),
        ((2**32, 2**31), ValueError, r"has 2\*\*63 elements or more"),
    ],
)
def test_bad_shapes(shape, error, message):
    with pytest.raises(error, match=message):
        fanin.fans(shape)
