"""Numerical methods that know no noise: inverting transforms, finding roots, binomial terms.

CONTRIBUTING.md has a table of the ways in which transforms are inverted: which serves which law, to
what error, proved or estimated, and why not another.
"""
