"""Which axes of a sweep get a param of their own beside those that every trial has."""

import pytest

from smoothsweep.orchestrator.tracking.runs.names import _is_said

SAID = {"recipe_alpha": "-0.2", "recipe_schedule": "ramp", "recipe_schedule_start": "0.1", "recipe_defense": "mid"}


@pytest.mark.parametrize(
    ("axis", "text", "said"),
    [
        ("alpha", "-0.2", True),
        ("alpha", "-0.3", False),  # another value is another thing
        ("start", "0.1", True),
        ("kind", "ramp", True),
        ("kind", "mid", True),
        ("kind", "constant", False),
        ("schedule", "anything", True),  # its parts are params
        ("loss", "ramp", False),
    ],
)
def test_an_axis_that_repeats_a_param_is_left_out(axis, text, said):
    assert _is_said(axis, text, SAID) is said
