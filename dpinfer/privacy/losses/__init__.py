"""Privacy losses of mechanisms, alone and composed: exact (ε, δ) and trade-off curves."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
