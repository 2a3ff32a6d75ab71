"""Small settings of every attack of the table, for targets of a few people: they leak within seconds."""

from smoothsweep.core.attacks.registry import ATTACKS
from tests.core.attacks.examples import PEOPLE, POOL, SIZE, example

__all__ = ["EXAMPLES", "PEOPLE", "POOL", "SIZE"]

EXAMPLES = {name: example(name).EXAMPLE for name in ATTACKS}
