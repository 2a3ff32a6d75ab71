"""`python -m orchestrator` is `smoothsweep`: what `ray job submit --working-dir .` runs without installing us."""

import sys

from orchestrator.cluster import interrupts

interrupts.listen()  # before anything that takes time

from orchestrator.cli import main  # noqa: E402

sys.exit(main())
