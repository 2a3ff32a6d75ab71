"""Settings that a search strategy has beside the keys of `search` that all share."""

from dataclasses import dataclass, replace

import pytest

from smoothsweep.core.bounds import Count
from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.strategies import STRATEGIES
from tests.sweeps.test_search import sweep


@dataclass(frozen=True, kw_only=True)
class Own:
    """within: draws."""

    within: Count = 3


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"within": 0}, r"search\.settings\.within: expected a whole number of at least 1, got 0"),
        ({"without": 1}, r"search\.settings: does not read 'without'; it reads within"),
    ],
)
def test_settings_of_a_strategy_are_checked_by_its_class(tmp_path, monkeypatch, given, refusal):
    monkeypatch.setitem(STRATEGIES, "random", replace(STRATEGIES["random"], settings=Own))
    random = {"strategy": "random"}
    assert load_sweep(sweep(tmp_path, random)).sweep.search.built_settings == Own()
    assert load_sweep(sweep(tmp_path, {**random, "settings": {"within": 5}})).sweep.search.built_settings == Own(
        within=5
    )
    with pytest.raises(InputError, match=refusal):
        load_sweep(sweep(tmp_path, {**random, "settings": given}))
