"""What the numbers say, in sentences, and which recipes a decision is about."""
