from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.seeds import derive_seed, generator

KEYS = st.lists(st.integers(0, 2**40) | st.text(max_size=5), max_size=4)


def test_the_derivation_does_not_change():
    assert derive_seed(42, 3, "optimise", 0) == 6137726443759718973


@settings(deadline=None)
@given(KEYS, KEYS)
def test_a_seed_is_a_function_of_its_key_and_fits_63_bits(first, second):
    assert 0 <= derive_seed(*first) < 2**63
    assert (derive_seed(*first) == derive_seed(*second)) == (first == second)


def test_types_and_borders_of_the_key_count():
    assert len({derive_seed(1, 23), derive_seed(12, 3), derive_seed("1", "23"), derive_seed(123)}) == 4


def test_a_generator_is_fresh_each_time():
    first = torch.rand(5, generator=generator(1, "a"))
    assert torch.equal(first, torch.rand(5, generator=generator(1, "a")))
    assert not torch.equal(first, torch.rand(5, generator=generator(1, "b")))


def test_kinds_of_integers_count_as_one():
    assert derive_seed(np.int64(3), "a") == derive_seed(3, "a") == derive_seed(torch.tensor(3), "a")
    with pytest.raises(TypeError):
        derive_seed(0.5)
