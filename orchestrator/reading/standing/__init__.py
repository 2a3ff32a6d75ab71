"""Leaks compared with chance, control, reach and ceiling, and by the attacker's access."""
