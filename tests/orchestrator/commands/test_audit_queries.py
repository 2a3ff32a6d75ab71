"""What an endpoint's attacks may ask: which of them fit into a budget, and what is said of those that do not."""

import pytest

from smoothsweep.core.audit.portfolio import portfolio
from smoothsweep.orchestrator.commands.audit.queries import Allowance


def kinds(attacks):
    return [one["kind"] for one in attacks]


@pytest.mark.parametrize(
    ("queries", "kept"),
    [
        (None, ["rlb_mi", "brep_mi", "selection_only", "random_latents"]),
        (1099, ["random_latents"]),
        (1100, ["selection_only", "random_latents"]),  # 500 pictures and their mirrors, beside 100 for reading
        (161_099, ["selection_only", "random_latents"]),
        (161_100, ["rlb_mi", "selection_only", "random_latents"]),  # 8,000 for each of 20 people
        (10**6, ["rlb_mi", "brep_mi", "selection_only", "random_latents"]),
    ],
)
def test_attacks_that_do_not_fit_are_left_out_and_named_with_what_they_need(queries, kept):
    allowance, every = Allowance(queries=queries, reading=100, per_second=5, people=20), portfolio("scores", whole=True)
    assert kinds(allowance.kept(every)) == kept
    said = allowance.left_out(every)
    assert len(said) == 4 - len(kept) and all(line.startswith("Not tried: ") for line in said)
    if "rlb_mi" not in kept:
        assert "RLB-MI, which may ask 160,000 queries for 20 people (8,000 a person)" in said[0]
    assert allowance.covers(allowance.kept(every), seeds=1)
    assert allowance.covers(every, seeds=9) == (queries is None)
