"""Estimates of tables on trees that do not fit into memory."""
