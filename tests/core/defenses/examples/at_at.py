"""What the tests expect of the defense at_at."""

EXAMPLE = {}

WRONG = [{"weight": 0}, {"eps": 0}, {"step": -1e-4}, {"steps": 0}]

FACTS = {"towards_loss", "towards_acc"}

TRAVEL = {"weight": ({}, 1.0), "eps": ({}, 0.1), "step": ({}, 0.01), "steps": ({}, 1)}

PASSES = 2  # the altered images are in the same batch
