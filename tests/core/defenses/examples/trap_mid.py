"""What the tests expect of the defense trap_mid."""

EXAMPLE = {}

WRONG = [{"blend": 0}, {"blend": 1}, {"weight": 0}, {"weight": 1}, {"step": 0}, {"smooth_traps": "both"}]

FACTS = {"trap_loss", "trap_acc", "told_apart"}

TRAVEL = {"blend": ({}, 0.5), "weight": ({}, 0.5), "step": ({}, 0.5), "smooth_traps": ({}, False)}

ALPHA = -0.5

COUNTED = [{"smooth_traps": False}]

UNSMOOTHED = {"smooth_traps": False}

PASSES = 2  # the altered images are in the same batch
