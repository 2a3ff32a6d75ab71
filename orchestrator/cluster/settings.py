"""What every Ray of ours is started with, on a laptop and on a node of a batch job. Loads no Ray."""

from __future__ import annotations

SLOT = "trial_slot"  # what a trial holds instead of a CPU
SLOTS_PER_CPU = 2
OBJECT_STORE_BYTES = 150 * 2**20  # tasks exchange paths and small rows; tensors go through the artifact store

OF_EVERY_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_oom_retries": "3",  # the default retries a task that never fits for ever
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "1",
}
"""Environment variables that Ray reads when it starts. What a user has set stays."""

NO_METRICS = {
    "RAY_enable_metrics_collection": "0",  # Prometheus' ports ask for no token
    "AUTOSCALER_METRIC_PORT": "-1",  # no port: these two have no switch, and say in their logs that they cannot listen
    "DASHBOARD_METRIC_PORT": "-1",
}
"""The same, of a Ray whose ports all have to ask for a token."""
