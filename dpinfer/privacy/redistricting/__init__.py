"""The 2020 Census redistricting data as a case study: budgets, and what they mean for secrets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
