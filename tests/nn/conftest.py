import pytest
from lstms import KINDS, SHAPES


@pytest.fixture(params=KINDS)
def options(request):
    return KINDS[request.param]


@pytest.fixture(params=SHAPES)
def shape(request):
    return SHAPES[request.param]
