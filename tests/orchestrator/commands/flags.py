"""Every flag of every command: what it changes of what the command is asked to do, and the test of what that is for.

`ASKED`: command -> its arguments without flags, and the functions that do its work. `FLAGS`: (command, flag) -> what is
typed, what arrives, and a test, as file::function below `tests/`, that looks at the flag's effect.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Flag:
    """typed: after the flag, apart by blanks; arrives: name of an argument of the work, dotted -> its value; instead:
    what of the command's arguments it stands in the place of, where it excludes them."""

    typed: str
    arrives: dict[str, Any]
    test: str
    instead: str = ""


COMMANDS = "orchestrator/commands/"
ASKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": ("s.yaml", ("orchestrator.commands.run:run_and_report",)),
    "plan": (
        "s.yaml",
        (
            "orchestrator.commands.plan:open_store",
            "orchestrator.commands.plan:load_sweep",
            "orchestrator.commands.plan:trials_of",
            "orchestrator.commands.plan:ahead_of",
            "orchestrator.commands.plan:make_plan",
            "orchestrator.commands.plan:refuse_impossible",
            "orchestrator.commands.plan:plan_summary",
            "orchestrator.commands.plan:weights_summary",
            "orchestrator.commands.plan:before_data",
            "orchestrator.commands.plan:history_of",
            "orchestrator.commands.plan:power_of_plan",
            "orchestrator.commands.plan:membership_of_plan",
            "orchestrator.commands.plan:plan_text",
        ),
    ),
    "status": (
        "s.yaml",
        (
            "orchestrator.store.opening:open_existing_store",
            "sweeps.load:load_sweep",
            "orchestrator.planning.trials:trials_of",
            "orchestrator.reading.axes:sweep_axes",
            "orchestrator.commands.records.status:status_summary",
            "orchestrator.commands.records.status:status_text",
        ),
    ),
    "report": ("s.yaml", ("orchestrator.commands.run:report_only",)),
    "slurm": ("s.yaml --time 60", ("orchestrator.commands.batch.submit:submit_sweep",)),
    "export": ("s.yaml --out o", ("orchestrator.commands.reporting.sharing.export:export",)),
    "bundle": ("s.yaml b.zip", ("orchestrator.commands.reporting.sharing.bundle:bundle",)),
    **{
        f"store {part}": (words, (f"orchestrator.commands.health.storage.commands:{function}",))
        for part, words, function in (
            ("ls", "", "list_sweeps"),
            ("du", "", "list_sizes"),
            ("gc", "", "collect_garbage"),
            ("verify", "", "verify"),
            ("export", "n o", "export_sweep"),
            ("link", "l", "change_links"),
            ("unlink", "l", "change_links"),
        )
    },
    "study build": ("s.yaml", ("orchestrator.commands.study.build:build_study",)),
    "study read": ("a.json", ("orchestrator.commands.study.read:read_study",)),
    "ui": ("", ("orchestrator.commands.records.ui:serve_pages",)),
    "doctor": (
        "",
        (
            "orchestrator.commands.health.doctor:examine",
            "orchestrator.commands.health.doctor:examine_artifacts",
            "orchestrator.commands.health.calibrating:calibrate",
        ),
    ),
    "audit": ("m.pth --data d", ("orchestrator.commands.audit.auditing:run_audit",)),
    "diff": ("a b", ("orchestrator.commands.records.diff:tell_differences",)),
    "lineage": ("a", ("orchestrator.commands.records.lineage:tell_lineage",)),
    "rejudge": ("s.yaml --judges a=1", ("orchestrator.commands.records.rejudge:rejudge",)),
    "import prior": (
        "random-face --out o",
        ("orchestrator.commands.importing.random_face:import_random_face",),
    ),
    "import target": ("f.pth --classes 3 --out o", ("orchestrator.commands.importing.converting:import_target_file",)),
    "import gan": (
        "f.tar --part general_gan --out o",
        ("orchestrator.commands.importing.converting:import_gan_files",),
    ),
    "import judge": ("f.pth --out o", ("orchestrator.commands.importing.converting:import_judge_file",)),
    "data check": (
        "p",
        (
            "orchestrator.commands.data.checking:check_own_data",
            "orchestrator.commands.data.checking:check_published_data",
        ),
    ),
    "init": ("", ("orchestrator.commands.data.starting:write_own_sweep",)),
    "weights stage": ("", ("orchestrator.commands.importing.stage_weights:stage_weights_of",)),
}


def flag(typed: str, test: str, *, instead: str = "", **arrives: Any) -> Flag:
    """Arguments whose names have a dot are written with two underscores."""
    dotted = {name.replace("__", "."): value for name, value in arrives.items()}
    return Flag(typed=typed, test=test, arrives=dotted, instead=instead)


RUN, CLI, AUDIT = f"{COMMANDS}test_run.py", "orchestrator/test_cli.py", f"{COMMANDS}test_audit.py"
IMPORTING, NAMED = f"{COMMANDS}test_importing.py", f"{COMMANDS}test_named_models.py"
RANDOM_FACE = f"{COMMANDS}test_random_face.py"
HERE = f"{COMMANDS}test_flag_effects.py"
STUDY, RECORDS, PROGRAMS = f"{COMMANDS}test_study.py", f"{COMMANDS}records/test_", f"{COMMANDS}test_programs.py"
DATA, INIT, PLAN = f"{COMMANDS}test_data.py", f"{COMMANDS}test_init.py", "orchestrator/planning/test_plan.py"
POWER = "orchestrator/planning/power/test_summary.py"
GANS, JUDGES = "tasks/test_imported_gans.py", "core/models/test_official_judges.py"
READS = "orchestrator/stages/test_imported_reading.py"
WRONG_AUDIT = f"{AUDIT}::test_what_is_wrong_is_one_line_and_nothing_is_written"
TIMES = f"{AUDIT}::test_what_there_is_no_time_for_is_left_out_and_said"
CONSENT = f"{NAMED}::test_without_consent_or_with_wrong_terms_nothing_is_sent"
REFUSED = f"{STUDY}::test_what_cannot_be_asked_is_refused"
CROP = f"{PLAN}::test_a_crop_larger_than_the_priors_images_is_refused_before_anything_starts"
CONTENT = f"{GANS}::test_its_content_counts_and_not_where_it_lies"
NO_JUDGE = f"{JUDGES}::test_what_fits_no_embedder_is_one_line_and_nothing_is_written"
SLURM, STORAGE = f"{COMMANDS}batch/test_slurm.py", f"{COMMANDS}health/storage/test_storage.py"
TYPED = f"{SLURM}::test_what_is_typed_reaches_the_command_as_it_was_typed"
DRY = f"{SLURM}::test_a_dry_run_prints_the_script_and_writes_and_submits_nothing"
SITE = f"{SLURM}::test_every_site_option_stands_in_the_script"
CONTAINER = f"{SLURM}::test_set_up_lines_and_python_of_a_container"
EXPORT, BUNDLE = (f"{COMMANDS}reporting/sharing/test_{name}.py" for name in ("export", "bundle"))
ENROLLING = f"{COMMANDS}test_enrolling.py"
MEMBERS = f"{COMMANDS}test_audit_membership.py"
NOT_EXPORTED = f"{EXPORT}::test_what_cannot_be_exported_is_one_line_and_nothing_is_written"
PLAIN_BUNDLE = f"{BUNDLE}::test_a_plain_bundle_has_report_tables_manifests_and_settings_and_no_picture"
FULL_BUNDLE = f"{BUNDLE}::test_a_bundle_with_everything_has_pictures_and_a_store"
NO_OTHER = f"{RECORDS}rejudge.py::test_what_is_no_other_judge_is_one_line_and_nothing_starts"
LABELS_ALONE = f"{PROGRAMS}::test_a_program_that_says_the_class_alone_has_no_calibration_and_shows_no_scores"

FLAGS: dict[tuple[str, str], Flag] = {
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
    ("run", "--price"): flag("4.5", f"{CLI}::test_dollars_have_a_threshold_of_their_own", asked__price=4.5),
    ("run", "--confirm-above"): flag("7", f"{CLI}::test_below_the_thresholds_nobody_is_asked", asked__above_hours=7.0),
    ("run", "--confirm-above-dollars"): flag(
        "9 --price 4.5",
        f"{CLI}::test_dollars_have_a_threshold_of_their_own",
        asked__above_dollars=9.0,
        asked__price=4.5,
    ),
    ("run", "--yes"): flag("", f"{CLI}::test_yes_is_the_answer_for_scripts_and_a_person_may_give_it", asked__yes=True),
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
    ("store ls", "--store"): flag(
        "there", f"{STORAGE}::test_ls_says_what_each_sweep_needs_and_what_it_needs_alone", location="there"
    ),
    ("store du", "--store"): flag(
        "there", f"{STORAGE}::test_gc_takes_damaged_artifacts_and_leaves_unfinished_work", location="there"
    ),
    ("store gc", "--store"): flag(
        "there", f"{STORAGE}::test_gc_lists_first_and_removes_only_what_no_sweep_needs", location="there"
    ),
    ("store gc", "--yes"): flag(
        "", f"{STORAGE}::test_gc_lists_first_and_removes_only_what_no_sweep_needs", remove=True
    ),
    ("store verify", "--store"): flag("there", f"{STORAGE}::test_verify_reads_everything", location="there"),
    ("store export", "--store"): flag(
        "there", f"{STORAGE}::test_an_export_is_a_store_that_needs_nothing_more", location="there"
    ),
    ("store link", "--store"): flag("there", f"{STORAGE}::test_link_and_unlink", location="there"),
    ("store unlink", "--store"): flag("there", f"{STORAGE}::test_link_and_unlink", location="there"),
    ("export", "--set"): flag("a=1", NOT_EXPORTED, request__overrides=["a=1"]),
    ("export", "--store"): flag("there", NOT_EXPORTED, request__store="there"),
    ("export", "--out"): flag(
        "here",
        f"{EXPORT}::test_a_folder_that_holds_something_else_is_refused_and_stays_as_it_is",
        request__out=Path("here"),
    ),
    ("export", "--tables"): flag("csv,md", NOT_EXPORTED, request__tables="csv,md"),
    ("export", "--figures"): flag("none", NOT_EXPORTED, request__figures="none"),
    ("export", "--images"): flag(
        "all", f"{EXPORT}::test_all_images_are_every_seed_attack_and_rank", request__images="all"
    ),
    ("export", "--redact"): flag(
        "", f"{EXPORT}::test_a_redacted_export_has_no_name_and_no_picture", request__redact=True
    ),
    ("bundle", "--set"): flag("a=1", PLAIN_BUNDLE, request__overrides=["a=1"]),
    ("bundle", "--store"): flag("there", PLAIN_BUNDLE, request__store="there"),
    ("bundle", "--with-images"): flag("", FULL_BUNDLE, request__images=True),
    ("bundle", "--with-artifacts"): flag("", FULL_BUNDLE, request__artifacts=True),
    ("study build", "--set"): flag("a=1", REFUSED, request__overrides=["a=1"]),
    ("study build", "--store"): flag("there", REFUSED, request__store="there"),
    ("study build", "--out"): flag(
        "here", f"{STUDY}::test_another_study_is_not_written_over", request__out=Path("here")
    ),
    ("study build", "--seed"): flag("5", f"{STUDY}::test_positions_are_drawn_and_follow_the_seed", request__seed=5),
    ("study build", "--people"): flag("7", f"{STUDY}::test_positions_are_drawn_and_follow_the_seed", request__people=7),
    ("study build", "--examples"): flag("3", REFUSED, request__examples=3),
    ("study build", "--checks"): flag("9", REFUSED, request__checks=9),
    ("study build", "--recipe"): flag("a --recipe b", REFUSED, request__recipes=("a", "b")),
    ("study build", "--attack"): flag("ppa", REFUSED, request__attack="ppa"),
    ("study read", "--study"): flag(
        "k.json", f"{STUDY}::test_a_key_that_was_changed_is_refused", key_file=Path("k.json")
    ),
    ("study read", "--json"): flag("", f"{STUDY}::test_from_the_answers_to_the_shares", as_json=True),
    ("ui", "--store"): flag(
        "there", f"{RECORDS}ui.py::test_it_prints_where_each_sweep_is_compared_and_becomes_the_server", location="there"
    ),
    ("ui", "--port"): flag(
        "6001", f"{RECORDS}ui.py::test_a_port_that_cannot_be_had_is_refused_before_anything_is_opened", port=6001
    ),
    ("ui", "--no-browser"): flag(
        "", f"{RECORDS}ui.py::test_it_prints_where_each_sweep_is_compared_and_becomes_the_server", browser=False
    ),
    ("doctor", "--store"): flag(
        "there",
        f"{CLI}::test_the_doctor_examines_and_finds_what_is_shipped",
        examine__store="there",
        examine__only_read=True,
        examine_artifacts__location="there",
    ),
    ("doctor", "--calibrate"): flag(
        "r.json",
        f"{COMMANDS}health/test_calibrating.py::test_it_times_prior_and_networks_and_a_plan_reads_what_it_wrote",
        calibrate__place=Path("r.json"),
    ),
    ("audit", "--data"): flag("e", WRONG_AUDIT, request__data=Path("e")),
    ("audit", "--gallery"): flag(
        "g",
        f"{ENROLLING}::test_the_people_of_a_gallery_are_enrolled_by_the_templates_asked_for",
        instead="--data d",
        request__data=Path("g"),
        request__gallery=True,
    ),
    ("audit", "--templates"): flag(
        "each",
        f"{ENROLLING}::test_the_people_of_a_gallery_are_enrolled_by_the_templates_asked_for",
        request__templates="each",
    ),
    ("audit", "--threshold"): flag(
        "0.5",
        f"{ENROLLING}::test_the_threshold_is_the_one_given_or_lets_one_stranger_in_a_hundred_in",
        request__threshold=0.5,
    ),
    ("audit", "--trained-on-data"): flag(
        "",
        f"{MEMBERS}::test_what_the_flag_asks_for_is_in_the_sweep_and_nothing_without_it",
        request__trained_on_data=True,
    ),
    ("audit", "--public"): flag(
        "e", f"{AUDIT}::test_without_public_images_one_line_says_what_to_bring", request__public=Path("e")
    ),
    ("audit", "--access"): flag(
        "labels", f"{HERE}::test_an_audit_shows_no_more_than_its_access", request__access="labels"
    ),
    ("audit", "--minutes"): flag("3.5", TIMES, request__minutes=3.5),
    ("audit", "--seeds"): flag("4", TIMES, request__seeds=4),
    ("audit", "--reference"): flag("resnet18", TIMES, request__reference="resnet18", request__minutes=20.0),
    ("audit", "--fix"): flag("", TIMES, request__fix=True, request__minutes=60.0),
    ("audit", "--epochs"): flag("6", WRONG_AUDIT, request__epochs=6),
    ("audit", "--out"): flag(
        "here", f"{HERE}::test_the_place_of_another_models_audits_is_refused", request__out=Path("here")
    ),
    ("audit", "--people"): flag("8", f"{HERE}::test_an_audit_shows_no_more_than_its_access", request__people=8),
    ("audit", "--prior"): flag(
        "p",
        f"{RANDOM_FACE}::test_an_audit_takes_the_least_resolution_that_the_model_sees",
        request__prior=Path("p"),
    ),
    ("audit", "--eyes"): flag(
        "1 2 3 2 5",
        f"{RANDOM_FACE}::test_an_audit_takes_the_least_resolution_that_the_model_sees",
        request__eyes=(1.0, 2.0, 3.0, 2.0, 5.0),
    ),
    ("audit", "--judge"): flag(
        "ir50=f",
        f"{AUDIT}::test_a_judge_of_anything_is_taken_from_its_file_or_from_where_it_is_staged",
        request__judge="ir50=f",
    ),
    ("audit", "--redact"): flag(
        "", f"{HERE}::test_a_redacted_audit_leaves_no_name_and_no_picture_of_anybody", request__redact=True
    ),
    ("audit", "--architecture"): flag("vgg16", WRONG_AUDIT, request__architecture="vgg16"),
    **{
        (command, name): flag(typed, test, **{f"request__{key}": value for key, value in arrives.items()})
        for command in ("audit", "import target")
        for name, typed, test, arrives in (
            (
                "--channels",
                "bgr",
                f"{ENROLLING}::test_a_model_gets_the_channels_in_the_order_said",
                {"channels": "bgr"},
            ),
            ("--image-size", "96", f"{IMPORTING}::test_the_image_size_is_not_guessed", {"image_size": 96}),
            (
                "--mean",
                ".1 .2 .3",
                f"{IMPORTING}::test_an_impossible_normalisation_is_one_line",
                {"mean": [0.1, 0.2, 0.3]},
            ),
            (
                "--std",
                ".1 .2 .3",
                f"{IMPORTING}::test_an_impossible_normalisation_is_one_line",
                {"std": [0.1, 0.2, 0.3]},
            ),
            (
                "--input-range",
                "0 255",
                f"{IMPORTING}::test_a_low_resolution_checkpoint_is_shown_pictures_in_0_to_1_unless_it_says_otherwise",
                {"input_range": [0.0, 255.0]},
            ),
            (
                "--transform-input",
                "false",
                f"{IMPORTING}::test_inception_must_say_how_it_sees_its_inputs",
                {"transform_input": False},
            ),
            ("--answers", "labels", LABELS_ALONE, {"answers": "labels"}),
            ("--test-acc", ".75", f"{HERE}::test_a_stated_accuracy_is_held_against_real_images", {"stated_acc": 0.75}),
            (
                "--class-names",
                "n.txt",
                f"{IMPORTING}::test_a_checkpoint_that_does_not_fit_is_one_line",
                {"class_names": Path("n.txt")},
            ),
            ("--yes", "", CONSENT, {"options__yes": True}),
            (
                "--queries",
                "77",
                f"{NAMED}::test_a_budget_that_is_spent_stops_in_one_line_and_a_larger_one_goes_on",
                {"options__queries": 77},
            ),
            ("--per-second", "2.5", CONSENT, {"options__per_second": 2.5}),
            ("--token-env", "TOKEN", CONSENT, {"options__token_env": "TOKEN"}),
        )
    },
    ("diff", "--store"): flag("there", f"{RECORDS}diff.py::test_a_mistyped_store_is_not_made", location="there"),
    ("diff", "--other-store"): flag(
        "there",
        f"{RECORDS}diff.py::test_two_runs_in_two_stores_are_paired_and_say_code_versions_and_what_is_only_in_one",
        other_location="there",
    ),
    ("diff", "--json"): flag(
        "", f"{RECORDS}diff.py::test_two_recipes_differ_in_what_was_swept_and_in_nothing_before_it", as_json=True
    ),
    ("lineage", "--number"): flag(
        "fid", f"{RECORDS}lineage.py::test_a_number_leads_to_the_stages_it_stands_on_and_no_others", number="fid"
    ),
    ("lineage", "--store"): flag(
        "there", f"{RECORDS}lineage.py::test_what_names_nothing_is_one_line", location="there"
    ),
    ("lineage", "--json"): flag(
        "", f"{RECORDS}lineage.py::test_a_trial_leads_to_every_stage_it_was_made_of_inputs_first", as_json=True
    ),
    ("rejudge", "--set"): flag("a=1", NO_OTHER, request__overrides=["a=1"]),
    ("rejudge", "--store"): flag(
        "there", f"{RECORDS}rejudge.py::test_a_store_that_is_not_there_is_not_made", request__store="there"
    ),
    ("rejudge", "--judges"): flag(
        "b=2",
        f"{RECORDS}rejudge.py::test_only_the_new_judge_and_what_it_is_made_of_would_run",
        request__judges=["a=1", "b=2"],
    ),
    ("rejudge", "--name"): flag("n", NO_OTHER, request__name="n"),
    ("rejudge", "--out"): flag(
        "here",
        f"{RECORDS}rejudge.py::test_only_the_new_judge_and_what_it_is_made_of_would_run",
        request__out=Path("here"),
    ),
    ("rejudge", "--yes"): flag("", f"{HERE}::test_a_dear_rejudging_asks_unless_it_is_told_yes", request__yes=True),
    ("import prior", "--out"): flag(
        "p", f"{IMPORTING}::test_a_pickle_that_is_none_is_one_line_and_leaves_nothing", request__out=Path("p")
    ),
    ("import prior", "--resolution"): flag(
        "64", f"{RANDOM_FACE}::test_the_package_becomes_priors_with_their_licence_and_stays", request__resolutions=(64,)
    ),
    ("import prior", "--images"): flag(
        "30", f"{RANDOM_FACE}::test_the_package_becomes_priors_with_their_licence_and_stays", request__images=30
    ),
    ("import prior", "--judge"): flag(
        "ir50=f", f"{RANDOM_FACE}::test_what_cannot_be_imported_is_one_line", request__judge="ir50=f"
    ),
    ("import prior", "--store"): flag("there", f"{IMPORTING}::test_a_pickle_becomes_a_prior_that_a_sweep_can_name"),
    ("import target", "--architecture"): flag(
        "vgg16", f"{IMPORTING}::test_a_checkpoint_that_does_not_fit_is_one_line", request__architecture="vgg16"
    ),
    ("import target", "--classes"): flag(
        "8", f"{IMPORTING}::test_a_checkpoint_that_does_not_fit_is_one_line", request__classes=8
    ),
    ("import target", "--alpha"): flag(
        "-.5", f"{IMPORTING}::test_a_checkpoint_becomes_a_target_with_its_card", request__alpha=-0.5
    ),
    ("import target", "--data"): flag(
        "facescrub", f"{IMPORTING}::test_a_checkpoint_becomes_a_target_with_its_card", request__data="facescrub"
    ),
    ("import target", "--data-path"): flag(
        "d", f"{IMPORTING}::test_a_checkpoint_becomes_a_target_with_its_card", request__data_path=Path("d")
    ),
    ("import target", "--out"): flag(
        "p", f"{IMPORTING}::test_a_checkpoint_becomes_a_target_with_its_card", request__out=Path("p")
    ),
    ("import target", "--store"): flag("there", f"{HERE}::test_what_is_imported_goes_into_the_store_it_names"),
    ("import gan", "--part"): flag("plg_gan", f"{GANS}::test_it_decodes_what_the_attack_finds", part="plg_gan"),
    ("import gan", "--discriminator"): flag("d", CONTENT, discriminator=Path("d")),
    ("import gan", "--out"): flag("p", CONTENT, out=Path("p")),
    ("import gan", "--store"): flag("there", f"{HERE}::test_what_is_imported_goes_into_the_store_it_names"),
    ("import judge", "--out"): flag("p", NO_JUDGE, out=Path("p")),
    ("import judge", "--store"): flag("there", f"{JUDGES}::test_the_default_place_is_in_the_store"),
    ("data check", "--public"): flag(
        "q",
        f"{DATA}::test_a_private_picture_among_the_public_ones_exits_with_2_and_its_names",
        check_own_data__public=Path("q"),
    ),
    ("data check", "--as"): flag(
        "celeba", f"{DATA}::test_wrong_questions_are_one_line", check_published_data__kind="celeba"
    ),
    ("data check", "--classes"): flag(
        "9 --as celeba", f"{DATA}::test_wrong_questions_are_one_line", check_published_data__classes=9
    ),
    ("data check", "--pictures"): flag(
        "aligned --as celeba", f"{DATA}::test_wrong_questions_are_one_line", check_published_data__pictures="aligned"
    ),
    ("init", "--data"): flag(
        "d", f"{INIT}::test_sizes_and_counts_are_those_of_the_data_and_plan_takes_the_file", data=Path("d")
    ),
    ("init", "--public"): flag(
        "d", f"{INIT}::test_sizes_and_counts_are_those_of_the_data_and_plan_takes_the_file", public=Path("d")
    ),
    ("init", "--no-faces"): flag(
        "",
        "orchestrator/commands/test_init.py::test_images_that_are_no_faces_get_another_judge_and_other_words",
        faces=False,
    ),
    ("init", "--out"): flag(
        "f", f"{INIT}::test_without_data_the_file_has_names_to_fill_in_and_plan_takes_it_too", out=Path("f")
    ),
    ("weights stage", "--dir"): flag(
        "d", f"{IMPORTING}::test_staging_says_what_could_not_be_had_and_where_to_put_it", folder=Path("d")
    ),
}
