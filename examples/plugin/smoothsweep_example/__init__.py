"""An attack, a defense, a judge, a prior and a kind of data for smoothsweep."""
