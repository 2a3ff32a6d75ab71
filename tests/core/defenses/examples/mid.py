"""What the tests expect of the defense mid."""

EXAMPLE = {"beta": 0.005}

WRONG = [{"beta": -1}, {"beta": float("nan")}, {"beta": 0.1, "k": 0}, {"beta": 0.1, "beta_warmup": 1.5}]

FACTS = {"kl", "sigma_mean", "beta"}

TRAVEL = {"beta": ({"beta": 0.1}, 1.0), "k": ({"beta": 0.1}, 16), "beta_warmup": ({"beta": 1.0}, 1.0)}

COUNTED = [{"k": 1}]
