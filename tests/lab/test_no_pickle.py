"""Nothing of the library unpickles: what the source says, and what hostile files meet."""

import ast
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

import onenth
from onenth.lab.data import vocabulary
from onenth.lab.engine.checkpoint import Store
from onenth.lab.engine.sealed import seal
from onenth.lab.errors import Problem
from onenth.models import Seq2Seq, Seq2SeqConfig

MODULES = {
    "_pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "pickle",
    "shelve",
    "torch.package",
}
CALLS = {"torch.load", "torch.serialization.load", "torch.jit.load", "torch.hub.load", "pandas.read_pickle",
         "numpy.lib.format.read_array", "eval", "exec", "builtins.eval", "builtins.exec"}  # fmt: skip
COLLECTIVES = {"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
               "send_object_list", "recv_object_list"}  # fmt: skip
IMPORTS = {"__import__", "importlib.import_module"}


class Scan(ast.NodeVisitor):
    """What a source could unpickle with, by the names it is imported under."""

    def __init__(self):
        self.names, self.found = {}, []

    def check(self, node, name):
        inside = any(name == module or name.startswith(module + ".") for module in MODULES)
        if inside or name in CALLS or name.rpartition(".")[2] in COLLECTIVES:
            self.found.append(f"{node.lineno}: {name}")

    def dotted(self, node):
        """The full name of an expression, as far as it has one."""
        match node:
            case ast.Name():
                return self.names.get(node.id, node.id)
            case ast.Attribute():
                return f"{self.dotted(node.value)}.{node.attr}"
            case ast.Call(func=ast.Name("getattr"), args=[base, ast.Constant(str(name)), *_]):
                return f"{self.dotted(base)}.{name}"
        return "?"

    def visit_Import(self, node):
        for alias in node.names:
            self.names[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
            self.check(node, alias.name)

    def visit_ImportFrom(self, node):
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            self.names[alias.asname or alias.name] = name
            self.check(node, name)

    def visit_Name(self, node):
        self.check(node, self.dotted(node))

    def visit_Attribute(self, node):
        self.check(node, self.dotted(node))
        self.generic_visit(node)

    def visit_Call(self, node):
        name = self.dotted(node.func)
        if name in IMPORTS and node.args and isinstance(node.args[0], ast.Constant):
            self.check(node, str(node.args[0].value))
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            self.check(node, self.dotted(node))
        if name == "numpy.load":
            self.check_numpy(node)
        self.generic_visit(node)

    def check_numpy(self, node):
        """numpy.load(file, mmap_mode, allow_pickle, …): the default is False."""
        given = [word.value for word in node.keywords if word.arg in ("allow_pickle", None)] + node.args[2:3]
        if any(not (isinstance(value, ast.Constant) and value.value is False) for value in given):
            self.found.append(f"{node.lineno}: numpy.load with allow_pickle")


def scan(source):
    tree, found = ast.parse(source), Scan()
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:  # at first: a name may be used above the import, within a function
        found.visit(node)
    found.found.clear()
    found.visit(tree)
    return found.found


@pytest.mark.parametrize(
    "path", sorted(Path(onenth.__file__).parent.rglob("*.py")), ids=lambda path: path.stem
)
def test_the_source_unpickles_nothing(path):
    assert scan(path.read_text(encoding="utf-8")) == []


UNPICKLING = [
    "import pickle",
    "import pickle as p",
    "def f():\n    import dill",
    "from pickle import loads",
    "from _pickle import Unpickler",
    "import cPickle, joblib",
    "import shelve",
    "import marshal",
    "import torch.package",
    "from torch.package import PackageImporter",
    "from torch import package",
    "import torch\ntorch.package.PackageImporter('f')",
    "import torch\ntorch.load('f', weights_only=True)",
    "import torch as t\nt.load('f')",
    "from torch import load as read\nread('f')",
    "import torch\ngetattr(torch, 'load')('f')",
    "import torch\nread = torch.load",
    "import torch\ntorch.serialization.load('f')",
    "import torch\ntorch.jit.load('f')",
    "import numpy as np\nnp.load('f', allow_pickle=True)",
    "from numpy import load\nload('f', None, True)",
    "import numpy\nnumpy.load('f', allow_pickle=trusted)",
    "import numpy\nnumpy.load('f', **options)",
    "import torch.distributed as dist\ndist.all_gather_object([], 1)",
    "from torch.distributed import broadcast_object_list",
    "from torch import distributed\ndistributed.scatter_object_list([], [])",
    "group.recv_object_list([])",
    "eval(open('f').read())",
    "exec(text)",
    "import builtins\nbuiltins.exec(text)",
    "__import__('pickle')",
    "import importlib\nimportlib.import_module('dill')",
    "from importlib import import_module as get\nget('torch.package')",
]


@pytest.mark.parametrize("source", UNPICKLING)
def test_the_scan_finds(source):
    assert scan(source)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.load('f', allow_pickle=False)\nnp.load('f', 'r')",
        "model.eval()\nmodel.load('f')\nload = 1",
        "from onenth.state import load\nload(model, 'f')",
        "import torch, json\njson.load(file)\ntorch.distributed.all_gather([], x)\ntorch.compile(f)",
        "import importlib\nimportlib.import_module(name)",
    ],
)
def test_the_scan_leaves_alone(source):
    assert scan(source) == []


class Hostile:
    """An object that makes a file where it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


@pytest.fixture
def marker(tmp_path):
    """The file that no test may find in the end."""
    path = tmp_path / "unpickled"
    yield path
    assert not path.exists()


@pytest.fixture
def hostile(marker):
    """A pickle that is no idle threat."""
    data = pickle.dumps({"w": Hostile(marker)})
    pickle.loads(data)["w"].close()
    marker.unlink()
    return data


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "checkpoints", 1, print)
    store.save(1, {"model": {"w": torch.ones(3)}}, {"a": 1})
    return store


def reseal(folder):
    """A manifest that fits what is in the folder, as who wrote the hostile file would make one."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    seal(folder, 1, files.items())


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "manifest.json"])
def test_a_pickle_in_a_checkpoint_is_refused(store, hostile, name, sealed):
    folder = store.folder / "step-00000001"
    (folder / name).write_bytes(hostile)
    if sealed and name != "manifest.json":
        reseal(folder)
    with pytest.raises(Problem, match=f"step-00000001 is damaged: {name} "):
        store.load(1)


def zipped(path, marker):
    """A file of torch.save that would make the marker."""
    aside = path.with_suffix(".pt")  # torch takes another name for safetensors
    torch.save({"w": Hostile(marker)}, aside)
    torch.load(aside, weights_only=False)["w"].close()
    marker.unlink()
    return aside.rename(path)


def test_a_file_of_torch_in_a_checkpoint_is_refused(store, marker):
    folder = store.folder / "step-00000001"
    zipped(folder / "model.safetensors", marker)
    reseal(folder)
    with pytest.raises(Problem, match=r"is damaged: model\.safetensors is no safetensors file"):
        store.load(1)


def test_a_file_of_torch_is_no_model(tmp_path, marker):
    path = zipped(tmp_path / "model.safetensors", marker)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or no safetensors file"):
        onenth.load(nn.Linear(3, 3), path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_pickle_is_no_pretrained_model(tmp_path, hostile, name):
    config = Seq2SeqConfig(vocabulary=9, hidden=8, filter=8, heads=2, layers=1, positions=8)
    Seq2Seq(config).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / name).write_bytes(hostile)
    with pytest.raises(ValueError, match=rf"{name} is damaged or no (JSON|safetensors file)"):
        Seq2Seq.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize("name", ["pieces.model", "words.txt"])
def test_a_pickle_is_no_vocabulary(tmp_path, hostile, name):
    (tmp_path / name).write_bytes(hostile)
    with pytest.raises(Problem, match=rf"{name}:.*: \w+"):
        vocabulary.load(tmp_path / name)
