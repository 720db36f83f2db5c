"""Budget spent on error estimates, and on releases before they are made."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
