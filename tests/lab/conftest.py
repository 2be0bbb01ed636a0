import pytest
from lab.commands import MAKE, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two tasks, two variants, two seeds."""
    folder = tmp_path_factory.mktemp("trained")
    for task in MAKE:
        for variant in ("dense", "n4"):
            for seed in (0, 1):
                found = train(folder, f"{task}/small/{variant}", "--seed", seed)
                assert found.exit_code == 0, found.output
    return folder
