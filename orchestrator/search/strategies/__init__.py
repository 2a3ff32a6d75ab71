"""How a search chooses: one file for each strategy, and what strategies share. Nothing here imports what runs them."""
