"""The study of defaults on its quickest procedures; a simulated one errs by six standard errors.

That happens by accident with probability below 1e-8 in each simulated case.
"""

import json
from pathlib import Path

import defaults
import pytest

QUICK = (
    "count_confint",
    "linear_confint",
    "combine().conf_int",
    "combine_hierarchy().conf_int",
    "count_confint, clamp",
    "count_confint, threshold",
    "unpublished_bound",
    "proportion_confint",
    "poisson_confint",
    "response_proportions, k = 2",
    "share_confint",
    "counts_2indep",
    "poisson_2indep",
)
STORED = Path(__file__).parents[2] / "vignettes" / "about" / "defaults.json"


@pytest.mark.parametrize("name", QUICK)
def test_no_default_errs_more_often_than_stated(name):
    (procedure,) = (one for one in defaults.PROCEDURES if one.name == name)
    found = defaults.worst(procedure)
    assert found["times_alpha"] <= 1.03
    stored = {row["procedure"]: row for row in json.loads(STORED.read_text(encoding="utf-8"))}
    assert found["times_alpha"] == pytest.approx(stored[name]["times_alpha"], abs=2e-3)


def test_the_page_shows_every_procedure_and_none_above_its_level():
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    assert [row["procedure"] for row in rows] == [one.name for one in defaults.PROCEDURES]
    for row in rows:
        assert row["times_alpha"] <= (1.2 if row["how"] == "simulated" else 1.03)
