"""`make bench`: every benchmark of this folder, one after the other."""

from __future__ import annotations

from importlib import import_module

BENCHMARKS = (
    "synthetic_faces",
    "priors",
    "attack_core",
    "attack_side_by_side",
    "attack_counted",
    "orchestration",
    "workers",
    "data_loading",
    "data_checking",
    "import_prior",
    "defense_cost",
    "scheduling",
    "search_quality",
    "verification",
    "black_box",
    "plg_mi",
    "gan_attacks",
    "gan_attacks_batch",
    "isolated_programs",
    "large_plans",
)

for name in BENCHMARKS:
    print(f"== {name}", flush=True)
    import_module(f"benchmarks.{name}").main()
