from . import adapters as adapters
from . import census as census
from .files import read_release as read_release
from .files import validate_release as validate_release
from .files import write_release as write_release
from .problems import Problem as Problem
from .release import Release as Release
