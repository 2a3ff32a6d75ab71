"""What an endpoint's attacks may ask: which of them fit into a budget, and what is said of those that do not."""

import re
from dataclasses import replace

import pytest

from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.external.base import Budget
from smoothsweep.orchestrator.commands.audit.costs import Allowance, allowance_of
from smoothsweep.orchestrator.commands.audit.sweep_file import portfolio

SHOWN, MEMBERS, OTHERS = 14, 180, 120
"""Pictures for each image: itself, its mirror image, six shifted copies, six under noise; images of three people."""


def kinds(attacks):
    return [one["kind"] for one in attacks]


@pytest.mark.parametrize(
    ("queries", "kept"),
    [
        (None, ["cma_es", "rlb_mi", "brep_mi", "selection_only", "random_latents"]),
        (1099, ["random_latents"]),
        (1100, ["selection_only", "random_latents"]),  # 500 pictures and their mirrors, beside 100 for reading
        (21_099, ["selection_only", "random_latents"]),
        (21_100, ["cma_es", "selection_only", "random_latents"]),  # 1,000 for each of 20 people, from the same pool
        (181_099, ["cma_es", "selection_only", "random_latents"]),
        (181_100, ["cma_es", "rlb_mi", "selection_only", "random_latents"]),  # 8,000 for each
        (10**6, ["cma_es", "rlb_mi", "brep_mi", "selection_only", "random_latents"]),
    ],
)
def test_attacks_that_do_not_fit_are_left_out_and_named_with_what_they_need(queries, kept):
    allowance, every = Allowance(queries=queries, reading=100, per_second=5, people=20), portfolio("scores", "whole")
    assert kinds(allowance.fitting(every)) == kept
    said = allowance.left_out(every)
    assert len(said) == 5 - len(kept) and all(line.startswith("Not tried: ") for line in said)
    if "rlb_mi" not in kept:
        assert "RLB-MI, which may ask 160,000 queries for 20 people (8,000 a person)" in " ".join(said)
    assert allowance.covers(allowance.fitting(every), seeds=1)
    assert allowance.covers(every, seeds=9) == (queries is None)


def test_what_attacks_may_ask_is_for_every_seed_anew_and_what_they_share_counts_once():
    allowance, every = Allowance(queries=10**7, reading=100, per_second=5, people=20), portfolio("scores", "whole")
    asked = [1000 * 20 + 1000, 8000 * 20, 406_280, 1000, 0]
    assert [allowance.queries_of([one]) for one in every] == asked
    alone = replace(allowance, people=1)
    assert [alone.queries_of([one]) for one in every[:4]] == [2000, 8000, 30_042, 1000]
    assert allowance.queries_of([{"kind": "ppa"}]) == 0
    together = sum(asked) - 1000  # the pool of the search and of selection is one
    for seeds in (1, 3):
        whole = 100 + seeds * together
        assert [replace(allowance, queries=whole - less).covers(every, seeds=seeds) for less in (0, 1)] == [True, False]
        assert allowance.queries_of(every, seeds=seeds) == seeds * together


@pytest.mark.parametrize("measured", [0, 3000])
@pytest.mark.parametrize("queries", [50, 1099, 1100, 21_100, 181_099, 181_100, 400_000, 587_379, 587_380])
def test_the_budget_that_is_named_is_enough(queries, measured):
    """Of 587,380 all can be asked for. What membership takes grows with the budget, to 3,000 here."""
    every = portfolio("scores", "whole")

    def allowed(many):
        took = min(measured, max(0, many - 1100))
        asked = {"membership": {}, "measuring": took, "unbounded": measured}
        return Allowance(queries=many, reading=100, per_second=2.5, people=20, **asked)

    kept = kinds(allowed(queries).fitting(every))
    left = [one for one in every if one["kind"] not in kept]
    said = allowed(queries).left_out(every)
    assert len(said) == len(left) and (len(left) == 0) == (queries >= 587_380 + measured)
    for settings, line in zip(left, said, strict=True):
        enough = int(re.search(r"with --queries (\d+) tries it", line)[1])
        assert settings in allowed(enough).fitting(every) and f"--queries {queries} does not" in line
        assert "at 2.5 a second" in line


def split(root, train, test):
    """People's images in folders train and test; in one folder alone where there are none for testing."""
    for part, count in (("train", train), ("test", test)):
        for person in ("ann", "bob", "cem"):
            folder = root / part / person if test else root / person
            folder.mkdir(parents=True, exist_ok=True)
            for at in range(count):
                (folder / f"{at:03}.png").write_bytes(b"")
    return root


def asking(data, budget, *, access, people=3):
    agreed, known = Budget(queries=budget, per_second=10.0), {"access": access, "scores": access != "labels"}
    return allowance_of(agreed, count_labelled(data), attacked=people, membership=True, **known)


@pytest.mark.parametrize(
    ("access", "people", "train", "test", "budget"),
    [
        # 14 of each of 1,800 images are 25,200; RLB-MI asks 24,000 for three people, beside 1,000 for selection
        ("scores", 3, 500, 100, 700),
        ("scores", 3, 500, 100, 1700),
        # 12 of each of 2,550 images are 30,600; BREP-MI asks 30,042 for one person
        ("labels", 1, 700, 150, 1000),
        ("labels", 1, 70, 15, 300),
    ],
)
def test_the_budget_that_is_named_for_membership_is_enough_to_measure_it_whole(
    tmp_path, access, people, train, test, budget
):
    """Also where with more queries attacks come first that did not fit before."""
    data = split(tmp_path, train, test)
    found = asking(data, budget, access=access, people=people)
    [line] = found.unmeasured
    enough, each = int(re.search(r"with --queries (\d+) measures it", line)[1]), 14 if access == "scores" else 12
    more = asking(data, enough, access=access, people=people)
    assert more.membership == {"trained_on_data": True} and not more.unmeasured
    for one in (found.unbounded, more.unbounded, more.measuring):
        assert one == each * 3 * (train + test)


@pytest.mark.parametrize(
    ("access", "budget", "drawn", "fits"),
    [
        # 8 to find out what it gives, the test images twice; of scores 1,000 for selection; then 2 or 0 of each image
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS), None, True),
        ("scores", 8 + 240 + 1000 + SHOWN * (MEMBERS + OTHERS) - 1, MEMBERS - 1, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (50 + 50), 50, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20), 20, True),
        ("scores", 8 + 240 + 1000 + 2 * (MEMBERS + OTHERS) + 12 * (20 + 20) - 1, None, False),
        ("labels", 8 + 240 + 12 * (MEMBERS + OTHERS), None, True),
        ("labels", 8 + 240 + 12 * (30 + 30) + 23, 30, True),
        ("labels", 8 + 240 + 12 * 40 - 1, None, False),
    ],
)
def test_membership_takes_no_more_than_the_budget_leaves(tmp_path, access, budget, drawn, fits):
    found = asking(split(tmp_path, MEMBERS // 3, OTHERS // 3), budget, access=access)
    assert found.reading + found.measuring + found.queries_of(found.fitting(portfolio(access))) <= budget
    if not fits:
        [line] = found.unmeasured
        per = SHOWN if access == "scores" else SHOWN - 2
        assert found.membership is None and found.measuring == 0
        assert f"may ask {per * (MEMBERS + OTHERS):,} queries" in line and f"--queries {budget} does not" in line
        return
    assert found.membership == {"trained_on_data": True, **({"images": drawn} if drawn else {})}
    few = [min(count, drawn or count) for count in (MEMBERS, OTHERS)]
    assert found.measuring == 12 * sum(few) + (2 * (MEMBERS + OTHERS) if access == "scores" else 0)
    assert not found.unmeasured
