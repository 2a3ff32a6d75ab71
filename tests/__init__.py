"""The tests are a package of their own: torch-fidelity installs one of the same name."""
