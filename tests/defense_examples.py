"""Parameters with which every defense can be tried: those it needs, one value each."""

from smoothsweep.core.defenses.registry import DEFENSES
from tests.core.defenses.examples import example

EXAMPLES = {name: example(name).EXAMPLE for name in DEFENSES}
