"""Estimates of tables on a hierarchy of units, from marginals of them."""
