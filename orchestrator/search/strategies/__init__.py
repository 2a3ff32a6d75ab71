"""How a search chooses: one file for each strategy. Nothing here imports what runs them."""
