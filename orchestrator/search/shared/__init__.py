"""What every search strategy is given, and what several of them use."""
