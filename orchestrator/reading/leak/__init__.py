"""What a leak is worth: whether it was removed or hidden, and what the judge gets wrong."""
