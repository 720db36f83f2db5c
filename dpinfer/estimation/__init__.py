"""Unbiased estimators that combine every published value about a quantity."""
