"""The columns of `results` by what they are about; `core.metrics.table` puts them in order."""
