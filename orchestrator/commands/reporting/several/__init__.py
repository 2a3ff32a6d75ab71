"""`smoothsweep report A B`: several sweeps in one report, their recipes compared where that is legitimate."""
