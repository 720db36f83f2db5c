from .embedded import EmbeddedRelease as EmbeddedRelease
from .embedded import anes96_path as anes96_path
from .embedded import load_anes96 as load_anes96
from .embedded import load_example_4_1 as load_example_4_1
from .synthetic_geography import SyntheticPopulation as SyntheticPopulation
from .synthetic_geography import synthetic_population as synthetic_population
