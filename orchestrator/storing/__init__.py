"""A store on S3: objects, the mirror of them on this machine, and unfinished work that other machines can take over."""
