"""Parts of images that shadow models are trained on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import check_part, inside_part


@given(st.lists(st.integers(4, 15), min_size=1, max_size=5), st.integers(0, 9), st.integers(0, 5))
def test_every_image_is_in_one_of_two_halves_and_classes_are_balanced(counts, pair, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    one, other = (inside_part(labels, model=2 * pair + i, share=0.5, seed=seed) for i in (0, 1))
    assert (one ^ other).all()
    assert all(abs(2 * one[labels == label].sum() - count) <= 1 for label, count in enumerate(counts))


def test_the_order_is_drawn_anew_for_every_pair_class_and_seed():
    labels = np.repeat([0, 1], 20)
    parts = [inside_part(labels, model=0, share=0.5, seed=0), inside_part(labels, model=2, share=0.5, seed=0)]
    parts += [inside_part(labels, model=0, share=0.5, seed=1)]
    assert len({part.tobytes() for part in parts}) == 3 and (parts[0][:20] != parts[0][20:]).any()


@pytest.mark.parametrize(("counts", "share"), [((10, 3), 0.5), ((10, 10), 0.1), ((10, 10), 0.95)])
def test_fewer_than_two_images_of_a_class_are_refused_in_one_line(counts, share):
    with pytest.raises(InputError, match="at least 2 images of every class in a shadow model's part and outside it"):
        check_part(counts, share)
