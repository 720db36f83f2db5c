"""Valid statistical inference from differentially private noisy counts.

The public names are listed in ``__init__.pyi``; each is loaded when it is first used, so that
``import dpinfer`` costs next to nothing.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
