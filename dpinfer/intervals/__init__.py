"""Confidence intervals for the confidential value or for the population."""
