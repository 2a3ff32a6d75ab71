"""What every attack is given and gives: its interface, views of the target, execution."""
