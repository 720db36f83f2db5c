"""Plans of intervals: how wide they will be, and what makes them as narrow as is wanted."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
