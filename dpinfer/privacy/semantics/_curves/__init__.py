"""Largest power at each level, one file for each kind of guarantee."""
