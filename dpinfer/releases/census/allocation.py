"""The published allocation of the budget of the 2020 redistricting data, at its exact ρ."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpinfer.privacy.redistricting import PERSONS

PL94_PERSONS_ALLOCATION = replace(PERSONS, rho=Fraction(542, 339) ** 2)
"""Shares of the production run for the redistricting data of persons in the United States.

From the public configuration of that run, U.S. Census Bureau (2021), DAS 2020 Redistricting
Production Code, a work in the public domain, whose budget (542/339)² is published as 2.56. They are
those before budget is moved on the spine, and were not compared with the variances in a published
file, which are the ones that count there.
"""
