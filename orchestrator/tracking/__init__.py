"""MLflow: the record people compare in. A view of the store, written by the driver alone, and only ever added to once.

One experiment per sweep name; in it one parent run for the sweep, one child run per trial, and one child run per recipe
that holds the means over its seeds. Every run is found again by a fingerprint among its tags, and every point is
written with the time its stage finished: written a second time (after a kill, say) it is the identical row, which
MLflow drops. Only this folder imports mlflow.
"""

from smoothsweep.orchestrator.tracking.runs import Verdicts, verdicts_of
from smoothsweep.orchestrator.tracking.server import error_line, follow, local_uri, refusals, tracking_errors
from smoothsweep.orchestrator.tracking.tracker import Closing, SweepPages, Tracker, list_sweep_pages

__all__ = [
    "Closing",
    "SweepPages",
    "Tracker",
    "Verdicts",
    "error_line",
    "follow",
    "list_sweep_pages",
    "local_uri",
    "refusals",
    "tracking_errors",
    "verdicts_of",
]
