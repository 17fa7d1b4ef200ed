"""Makes tests/golden/xpos.safetensors with torchscale 0.3.0 (PyPI, installed without its dependencies):

    PYTHONPATH=/path/of/torchscale python tests/golden/make/xpos.py

torchscale computes the angles of the rotation in float32; here they are in float64, and nothing else is changed.
"""

import importlib.util
import json
from pathlib import Path

import torch
from safetensors.torch import save_file

WIDTH, LENGTH, LATER = 16, 40, 7


def load_xpos() -> type:
    """The one module that is needed: the package itself imports others that are not installed."""
    package = importlib.util.find_spec("torchscale")
    assert package is not None and package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "component" / "xpos_relative_position.py"
    spec = importlib.util.spec_from_file_location("xpos_relative_position", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.XPOS  # type: ignore[no-any-return]


torch.set_default_dtype(torch.float64)
torch.float = torch.float64  # type: ignore[misc]  # the module asks for angles of this type
torch.manual_seed(1)
xpos = load_xpos()(WIDTH, scale_base=512)
q, k = torch.randn(2, 2, LENGTH, WIDTH)
scores = xpos(q) @ xpos(k, downscale=True).mT
last = xpos(q[:, -LATER:], offset=LENGTH - LATER) @ xpos(k, downscale=True).mT  # the last queries, as in decoding
tensors = {"in.q": q, "in.k": k, "out.scores": scores, "out.last": last}
config = {"width": WIDTH, "length": LENGTH, "later": LATER, "base": 10000, "scale_base": 512}
metadata = {
    "config": json.dumps(config),
    "reference": "torchscale 0.3.0, component/xpos_relative_position.py",
    "seed": "1",
}
save_file(tensors, Path(__file__).parent.parent / "xpos.safetensors", metadata)
