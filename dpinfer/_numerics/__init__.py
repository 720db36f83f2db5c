"""Numerical methods: inversion of characteristic functions, bracketing, theta sums."""
