"""How a plan says what stages cost."""

import pytest

from smoothsweep.orchestrator.commands.reporting.plan_text import time_text


@pytest.mark.parametrize(("stages", "said"), [(1, "1 stage never measured"), (3, "3 stages never measured")])
def test_how_many_stages_are_unmeasured_is_grammatical(stages, said):
    cost = {"device_hours": None, "device_hours_range": None, "known_device_hours": 0, "stages_of_unknown_cost": stages}
    assert time_text(cost) == f"unknown ({said} in this store)"
