"""Joint posteriors of tables: draws of all cells at once, given everything that was published."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
