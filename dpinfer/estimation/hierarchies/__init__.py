"""Estimates of numbers on a hierarchy of units: two passes over a tree."""
