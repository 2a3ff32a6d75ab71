"""Made-up searches for the report's tests."""

from typing import Any

from smoothsweep.orchestrator.result.data import Objective, ProposalRow, SearchView, same_recipe

OBJECTIVES = (
    Objective(column="test_acc", way="max"),
    Objective(column="embedder_acc1", way="min"),
)


def proposed(number: int, acc: float | None, leak: float | None, **changes: Any) -> ProposalRow:
    """A finished proposal of the full attack that took a tenth of a device-hour."""
    values = {"alpha": f"\u2212{number / 100:g}"}
    fields: dict[str, Any] = {
        "number": number,
        "values": values,
        "key": same_recipe(values),
        "rung": None,
        "status": "done",
        "objectives": {"test_acc": acc, "embedder_acc1": leak},
        "device_hours": 0.1,
        "recipe": f"recipe {number}",
    }
    return ProposalRow(**(fields | changes))


def view(*proposals: ProposalRow, **changes: Any) -> SearchView:
    fields: dict[str, Any] = {
        "strategy": "random",
        "objectives": OBJECTIVES,
        "proposals": proposals,
        "asked": 40,
        "space": ("alpha: \u22120.5 to 0.3 in steps of 0.01",),
        "constraints": ("test accuracy at least 90\u00a0%",),
        "spent_device_hours": sum(p.device_hours for p in proposals),
        "stopped_by": "recipes",
    }
    return SearchView(**(fields | changes))


def halving(leaks: list[tuple[float, float]], kept: int, audited: int) -> SearchView:
    """leaks: (by the cheap attack, by the full one) of every recipe, best first by the cheap one; the first `kept` go
    on, and the last `audited` of the others meet the full attack too."""
    cheap = [
        proposed(k, 0.9, proxy, rung=0, kept=k < kept, recipe=None, device_hours=0.01)
        for k, (proxy, _) in enumerate(leaks)
    ]
    chosen = [*range(kept), *range(len(leaks) - audited, len(leaks))]
    full = [
        proposed(len(leaks) + place, 0.9, leaks[k][1], key=cheap[k].key, values=cheap[k].values, audited=k >= kept)
        for place, k in enumerate(chosen)
    ]
    return view(*cheap, *full, strategy="halving", rungs=("4 classes, steps 10",))
