"""The 2020 Census: its noisy measurement files, its least-squares estimates, and generated ones.

No published file was at hand. The layout of the measurement files is that of public code that reads
them, and all of it is tested on generated files; of the least-squares estimates three published
lines were read; the shares of the budget are compared with the public configuration of the run.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
