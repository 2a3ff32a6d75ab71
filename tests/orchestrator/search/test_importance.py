"""Importance of searched parameters: the one that decides comes first; few or equal recipes have none."""

import numpy as np
import pytest

from smoothsweep.orchestrator.search.record import LEAST, importances
from smoothsweep.sweeps.load import load_sweep
from tests.orchestrator.commands.reporting.test_search_report import ALPHA, KIND, START, SWEEP


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    path = tmp_path_factory.mktemp("searched") / "searched.yaml"
    path.write_text(SWEEP)
    return load_sweep(path)


def tried(values, accuracy, leak):
    return values, {"test_acc": accuracy, "embedder_acc1": leak}


def drawn(count):
    """Leak follows alpha; accuracy follows when a ramp begins, which half of the recipes have, about a middle."""
    random, made = np.random.default_rng(3), []
    for number in range(count):
        alpha = round(float(random.choice(np.arange(-0.4, 0.11, 0.05))), 2)
        values = {ALPHA: alpha, KIND: "constant"}
        if number % 2:
            values = {ALPHA: alpha, KIND: "ramp", START: round(float(random.choice(np.arange(0, 0.71, 0.1))), 1)}
        accuracy = 0.9 - 0.2 * (values.get(START, 0.35) - 0.35)
        made.append(tried(values, accuracy, 0.5 + alpha))
    return made


def test_the_parameter_that_decides_comes_first_and_the_shares_are_a_whole(loaded):
    accuracy, leak = importances(loaded, drawn(40))
    assert leak.objective == "embedder_acc1" and leak.recipes == 40
    assert leak.shares[0][0] == ALPHA and leak.shares[0][1] > 0.9
    assert accuracy.shares[0][0] == START and accuracy.shares[0][1] > 0.6
    for one in (accuracy, leak):
        assert sum(share for _, share in one.shares) == pytest.approx(1.0)
        assert {key for key, _ in one.shares} == {ALPHA, KIND, START}
    assert importances(loaded, drawn(12)) == importances(loaded, drawn(12))


def test_few_recipes_equal_values_and_recipes_outside_count_for_nothing(loaded):
    assert importances(loaded, drawn(LEAST - 1)) == ()
    equal = [tried({ALPHA: -0.05 * n, KIND: "constant"}, 0.9, 0.5) for n in range(LEAST)]
    assert importances(loaded, equal) == ()
    outside = [tried({ALPHA: 0.3 + n, KIND: "constant"}, 0.9, n / 9) for n in range(LEAST)]
    assert importances(loaded, outside) == ()
