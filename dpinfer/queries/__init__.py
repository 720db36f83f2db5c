"""What was asked of the data: domain, workload matrix, sensitivity."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
