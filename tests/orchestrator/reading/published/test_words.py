"""How the comparison with the paper is put in words, from counts made by hand."""

import pytest

from smoothsweep.orchestrator.reading.published import share_words

HELD = "Of {} numbers that can be held against an interval of ours, {} lie within it"
ONE_SEED, DIFFERENT = "have no interval here (one seed)", "do not measure the same in both places"


@pytest.mark.parametrize(
    ("within", "outside", "without", "other", "expected"),
    [
        (3, 2, 0, 0, HELD.format(5, 3)),
        (0, 4, 0, 0, HELD.format(4, 0)),
        (3, 2, 1, 0, f"{HELD.format(5, 3)}; 1 {ONE_SEED}"),
        (0, 0, 6, 2, f"{HELD.format(0, 0)}; 6 {ONE_SEED}; 2 {DIFFERENT}"),
        (0, 0, 0, 7, "No number can be compared yet"),
    ],
)
def test_the_share_is_of_what_has_an_interval(within, outside, without, other, expected):
    counts = {"within": within, "outside": outside, "no interval": without, "not comparable": other}
    assert share_words(counts) == f"{expected}."
