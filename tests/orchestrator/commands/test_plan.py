"""The collector of circular garbage rests while a plan is made, and no longer."""

import gc

import pytest

from smoothsweep.orchestrator.commands.plan import without_collection


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
