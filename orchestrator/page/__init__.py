"""The report as a page and as figures: templates and drawings, no statistics."""
