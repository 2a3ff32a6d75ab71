"""Flags of the commands that look after stores, share results, and read what is recorded."""

from pathlib import Path

from tests.orchestrator.commands.flag_rows import CLI, COMMANDS, HERE, Flag, flag

STORAGE = f"{COMMANDS}health/storage/test_storage.py"
STUDY, RECORDS = f"{COMMANDS}test_study.py", f"{COMMANDS}records/test_"
REFUSED = f"{STUDY}::test_what_cannot_be_asked_is_refused"
EXPORT, BUNDLE = (f"{COMMANDS}reporting/sharing/test_{name}.py" for name in ("export", "bundle"))
NOT_EXPORTED = f"{EXPORT}::test_what_cannot_be_exported_is_one_line_and_nothing_is_written"
PLAIN_BUNDLE = f"{BUNDLE}::test_a_plain_bundle_has_report_tables_manifests_and_settings_and_no_picture"
FULL_BUNDLE = f"{BUNDLE}::test_a_bundle_with_everything_has_pictures_and_a_store"
NO_OTHER = f"{RECORDS}rejudge.py::test_what_is_no_other_judge_is_one_line_and_nothing_starts"

OF_STORES: dict[tuple[str, str], Flag] = {
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
}
