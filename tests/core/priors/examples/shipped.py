"""What the tests expect of a prior that comes with smoothsweep."""

from tests.core.priors.examples import REFUSED

EXAMPLE = {}

WRONG = [{"name": "another"}, {"seed": 1}]

SWEPT = {"ShippedPrior": ({"prior": {"kind": "shipped"}, "public": None}, "prior", {"kind": REFUSED, "name": REFUSED})}
