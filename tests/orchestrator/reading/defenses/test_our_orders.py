"""Our order of the defenses is shown where there is anything beside plain training, by every judge or by none."""

import pytest

from smoothsweep.core.judges.columns import CLASS_METRICS
from smoothsweep.orchestrator.reading.defenses import order
from smoothsweep.orchestrator.reading.defenses.order import Order, our_orders


@pytest.mark.parametrize(
    ("arms", "shown"),
    [((("none",), ("none",)), 0), ((("none",), ("none", "mid")), 2), ((("mid",),), 1), ((), 0)],
    ids=["plain alone", "one judge saw another", "no plain", "nobody looked"],
)
def test_plain_training_alone_is_no_order(monkeypatch, arms, shown):
    found = dict(zip(CLASS_METRICS, arms, strict=False))

    def made(summary, group, metric):
        return Order(title=metric, arms=found[metric], chosen={}) if metric in found else None

    monkeypatch.setattr(order, "our_order", made)
    assert [one.title for one in our_orders(None, None)] == list(found)[:shown]
