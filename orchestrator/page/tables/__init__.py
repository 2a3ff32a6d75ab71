"""The tables of an export as files: LaTeX, Markdown and CSV of the same typed rows."""
