"""The wheel and the sdist of this tree, built once."""

import pytest

from tests.helpers.environments import build


@pytest.fixture(scope="package")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="package")
def wheel(built):
    return built[1]
