"""Estimates of vectors on a tree, with small matrices in place of variances."""
