"""Valid statistical inference from differentially private noisy counts.

The public names are listed in ``__init__.pyi``; each is loaded when it is first used, so that
``import dpinfer`` costs next to nothing.
"""

import threading

import lazy_loader

__version__ = "0.1.0"

_resolve, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_one_thread = threading.Lock()


def __getattr__(name: str) -> object:
    """Load a name; NumPy, which two threads cannot import at once, is loaded by one before."""
    with _one_thread:
        import numpy.typing  # noqa: F401
    return _resolve(name)
