"""The collector of circular garbage rests while a plan is made, and no longer."""

import gc

import pytest

from smoothsweep.orchestrator.commands.plan import without_collection
from smoothsweep.orchestrator.commands.reporting.plan_text import time_text


def test_the_collector_is_as_it_was_afterwards():
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            with without_collection():
                assert not gc.isenabled()
            assert gc.isenabled() is was_on
            with pytest.raises(KeyError), without_collection():
                raise KeyError
            assert gc.isenabled() is was_on
        finally:
            gc.enable()


@pytest.mark.parametrize(("stages", "said"), [(1, "1 stage never measured"), (3, "3 stages never measured")])
def test_how_many_stages_are_unmeasured_is_grammatical(stages, said):
    cost = {"device_hours": None, "device_hours_range": None, "known_device_hours": 0, "stages_of_unknown_cost": stages}
    assert time_text(cost) == f"unknown ({said} in this store)"
