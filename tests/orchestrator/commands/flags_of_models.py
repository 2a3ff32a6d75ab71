"""Flags of the commands that audit and import models, and prepare data."""

from pathlib import Path

from tests.orchestrator.commands.flag_rows import COMMANDS, HERE, Flag, flag

AUDIT, PROGRAMS = f"{COMMANDS}test_audit.py", f"{COMMANDS}test_programs.py"
DATA, INIT = f"{COMMANDS}test_data.py", f"{COMMANDS}test_init.py"
IMPORTING, NAMED = f"{COMMANDS}test_importing.py", f"{COMMANDS}test_named_models.py"
RANDOM_FACE = f"{COMMANDS}test_random_face.py"
GANS, JUDGES = "tasks/test_imported_gans.py", "core/models/test_official_judges.py"
ENROLLING = f"{COMMANDS}test_enrolling.py"
MEMBERS = f"{COMMANDS}test_audit_membership.py"
WRONG_AUDIT = f"{AUDIT}::test_what_is_wrong_is_one_line_and_nothing_is_written"
TIMES = f"{COMMANDS}test_audit_time.py::test_what_there_is_no_time_for_is_left_out_and_said"
CONSENT = f"{NAMED}::test_without_consent_or_with_wrong_terms_nothing_is_sent"
CONTENT = f"{GANS}::test_its_content_counts_and_not_where_it_lies"
NO_JUDGE = f"{JUDGES}::test_what_fits_no_embedder_is_one_line_and_nothing_is_written"
LABELS_ALONE = f"{PROGRAMS}::test_a_program_that_says_the_class_alone_has_no_calibration_and_shows_no_scores"

OF_MODELS: dict[tuple[str, str], Flag] = {
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
        f"{COMMANDS}test_audit_sweep.py::test_a_judge_of_anything_is_taken_from_its_file_or_from_where_it_is_staged",
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
