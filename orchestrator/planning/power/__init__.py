"""What a sweep can tell, told before it runs: its size, its costs, what varies, and what more would buy."""
