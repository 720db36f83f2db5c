"""Numerical methods that know no noise: inverting transforms, finding roots, binomial terms."""
