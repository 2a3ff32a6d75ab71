"""Flags of the commands that run, plan and report a sweep."""

from pathlib import Path

from tests.orchestrator.commands.flag_rows import CLI, COMMANDS, HERE, Flag, flag

RUN, PLAN = f"{COMMANDS}test_run.py", "orchestrator/planning/test_plan.py"
POWER = "orchestrator/planning/power/test_summary.py"
SLURM = f"{COMMANDS}batch/test_slurm.py"
CROP = f"{PLAN}::test_a_crop_larger_than_the_priors_images_is_refused_before_anything_starts"
TYPED = f"{SLURM}::test_what_is_typed_reaches_the_command_as_it_was_typed"
DRY = f"{SLURM}::test_a_dry_run_prints_the_script_and_writes_and_submits_nothing"
SITE = f"{SLURM}::test_every_site_option_stands_in_the_script"
CONTAINER = f"{SLURM}::test_set_up_lines_and_python_of_a_container"

OF_SWEEPS: dict[tuple[str, str], Flag] = {
    ("run", "--set"): flag(
        "a.b=1 --set c=2", f"{RUN}::test_a_wider_grid_costs_only_the_difference", overrides=["a.b=1", "c=2"]
    ),
    ("run", "--store"): flag("there", f"{CLI}::test_a_missing_sweep_is_one_line_and_leaves_no_store", location="there"),
    ("run", "--tracking-uri"): flag(
        "http://m",
        "orchestrator/tracking/server/test_bad_uris.py::test_what_is_no_uri_of_a_tracking_store",
        tracking_uri="http://m",
    ),
    ("run", "--address"): flag("auto", f"{HERE}::test_a_cluster_that_is_not_there_is_named", address="auto"),
    ("run", "--out"): flag("here", f"{RUN}::test_a_second_run_does_nothing_twice", out=Path("here")),
    ("run", "--price"): flag("4.5", f"{CLI}::test_dollars_have_a_threshold_of_their_own", limits__price=4.5),
    ("run", "--confirm-above"): flag("7", f"{CLI}::test_below_the_thresholds_nobody_is_asked", limits__above_hours=7.0),
    ("run", "--confirm-above-dollars"): flag(
        "9 --price 4.5",
        f"{CLI}::test_dollars_have_a_threshold_of_their_own",
        limits__above_dollars=9.0,
        limits__price=4.5,
    ),
    ("run", "--yes"): flag("", f"{CLI}::test_yes_is_the_answer_for_scripts_and_a_person_may_give_it", limits__yes=True),
    ("plan", "--set"): flag("a=1", CROP, load_sweep__overrides=["a=1"]),
    ("plan", "--store"): flag(
        "there", f"{CLI}::test_a_missing_sweep_is_one_line_and_leaves_no_store", open_store__location="there"
    ),
    ("plan", "--price"): flag(
        "2.5", f"{PLAN}::test_the_plan_as_json_has_the_price", plan_summary__price=2.5, before_data__price=2.5
    ),
    ("plan", "--rates"): flag(
        "H100",
        "orchestrator/planning/rates/test_calibrated.py::test_a_stated_rate_is_told_for_other_devices_with_its_ratio",
        before_data__device="H100",
    ),
    ("plan", "--tell"): flag("12.5", f"{POWER}::test_what_a_difference_needs_is_answered", power_of_plan__tell=0.125),
    ("plan", "--json"): flag("", f"{PLAN}::test_the_plan_as_json_has_the_price", is_json=True),
    ("status", "--set"): flag(
        "a=1", f"{RUN}::test_status_and_plan_know_that_all_is_done", load_sweep__overrides=["a=1"]
    ),
    ("status", "--store"): flag(
        "there", f"{CLI}::test_who_only_reads_a_store_makes_none", open_existing_store__location="there"
    ),
    ("status", "--json"): flag("", f"{RUN}::test_status_and_plan_know_that_all_is_done", is_json=True),
    ("report", "--set"): flag("a=1", f"{HERE}::test_the_report_goes_where_it_is_told", overrides=["a=1"]),
    ("report", "--store"): flag("there", f"{CLI}::test_who_only_reads_a_store_makes_none", location="there"),
    ("report", "--out"): flag("here", f"{HERE}::test_the_report_goes_where_it_is_told", out=Path("here")),
    ("slurm", "--set"): flag("a=1", TYPED, request__overrides=["a=1"]),
    ("slurm", "--store"): flag("there", TYPED, request__store="there"),
    ("slurm", "--tracking-uri"): flag("http://m", TYPED, request__tracking_uri="http://m"),
    ("slurm", "--nodes"): flag("2", DRY, request__nodes="2"),
    ("slurm", "--gpus-per-node"): flag("4", DRY, request__gpus_per_node="4"),
    ("slurm", "--cpus-per-node"): flag("16", DRY, request__cpus_per_node="16"),
    ("slurm", "--mem"): flag("64G", DRY, request__mem="64G"),
    ("slurm", "--time"): flag(
        "90", f"{SLURM}::test_a_time_limit_that_is_none_or_too_short_is_refused", request__time="90"
    ),
    ("slurm", "--partition"): flag("p", SITE, request__partition="p"),
    ("slurm", "--account"): flag("a", SITE, request__account="a"),
    ("slurm", "--qos"): flag("q", SITE, request__qos="q"),
    ("slurm", "--sbatch"): flag("x --sbatch y", SITE, request__sbatch=["x", "y"]),
    ("slurm", "--grace"): flag("600", SITE, request__grace="600"),
    ("slurm", "--array"): flag(
        "0-7", f"{SLURM}::test_workers_that_come_and_go_are_an_array_of_their_own", request__array="0-7"
    ),
    ("slurm", "--setup"): flag("a --setup b", CONTAINER, request__setup=["a", "b"]),
    ("slurm", "--python"): flag("python3", CONTAINER, request__python="python3"),
    ("slurm", "--folder"): flag(
        "here", f"{SLURM}::test_a_job_is_tried_before_it_is_written_and_then_submitted", request__folder=Path("here")
    ),
    ("slurm", "--dry-run"): flag("", DRY, request__dry_run=True),
}
