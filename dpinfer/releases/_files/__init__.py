"""A release in files: the table, the sidecar beside it, and what can be wrong with either."""
