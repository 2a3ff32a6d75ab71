"""A study of what people see: the sealed key, what they answered, and what that shows."""
