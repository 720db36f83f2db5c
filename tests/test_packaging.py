"""What other package managers and citations say is what pyproject.toml says."""

import re
import tomllib
from pathlib import Path

import dpinfer

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def listed(text, key):
    """Return the items of the list under a key of a YAML file, as texts without spaces."""
    block = re.search(rf"^( *){key}:\n((?:\1 +- .*\n)+)", text, re.MULTILINE).group(2)
    return {line.strip().removeprefix("- ").replace(" ", "") for line in block.splitlines()}


def test_the_recipe_for_conda_has_the_dependencies_of_the_project():
    recipe = (ROOT / ".ci" / "recipe.yaml").read_text("utf-8")
    python = f"python{PROJECT['requires-python']}"
    assert listed(recipe, "run") == {*PROJECT["dependencies"], python}
    assert listed(recipe, "entry_points") == {
        f"{name}={place}" for name, place in PROJECT["scripts"].items()
    }
    assert f"version: {dpinfer.__version__}\n" in recipe
    assert f"summary: {PROJECT['description']}\n" in recipe


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {dpinfer.__version__}\n" in citation
    assert PROJECT["description"].lower() in citation.lower()
    assert listed(citation, "keywords") == {word.replace(" ", "") for word in PROJECT["keywords"]}
