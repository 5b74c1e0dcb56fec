"""Every recipe is a valid configuration."""

from pathlib import Path

import pytest

from seqloom.config import make_config, read_config
from seqloom.train.defaults import check_model

ROOT = Path(__file__).parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_recipe_is_a_valid_configuration(recipe):
    check_model(make_config(read_config(recipe)))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_recipe_documents_its_commands(recipe):
    head = recipe.read_text(encoding="utf-8").split("\nseed:")[0]
    assert f"seqloom train recipes/{recipe.name} --train" in head
    assert "seqloom evaluate" in head
