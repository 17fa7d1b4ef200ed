"""Makes tests/golden/clrs_processors.safetensors with dm-clrs 2.0.3, in float64, on JAX's CPU.

    pip install jax dm-haiku chex attrs safetensors && pip install --no-deps --target clrs dm-clrs==2.0.3
    python tests/golden/make/clrs_processors.py clrs FILE

The package's own __init__ and TensorFlow, which its processors and decoders do not call, are left out.
"""

import json
import sys
import types

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

BATCH, NODES, WIDTH, TRIPLETS, SEED = 2, 5, 6, 4, 3
VARIANTS = {  # name: class, settings
    "triplets": ("MPNN", {"use_triplets": True, "nb_triplet_fts": TRIPLETS, "gated": True, "use_ln": True}),
    "edges": ("PGN", {}),
}


def import_clrs(folder: str) -> tuple[types.ModuleType, types.ModuleType, types.ModuleType]:
    package = types.ModuleType("clrs")
    package.__path__ = [f"{folder}/clrs"]
    sys.modules |= {"clrs": package, "tensorflow": types.ModuleType("tensorflow")}
    from clrs._src import decoders, processors, specs

    return processors, decoders, specs


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    processors, decoders, specs = import_clrs(sys.argv[1])
    random = np.random.default_rng(SEED)
    shapes = {"nodes": (NODES, WIDTH), "edges": (NODES, NODES, WIDTH), "graph": (WIDTH,), "state": (NODES, WIDTH)}
    inputs = {name: random.normal(size=(BATCH, *shape)) for name, shape in shapes.items()}
    adjacent = random.random((BATCH, NODES, NODES)) < 0.4
    adjacent |= np.eye(NODES, dtype=bool)
    tensors = {f"in.{name}": value for name, value in inputs.items()} | {"in.adjacent": adjacent}
    for name, (kind, settings) in VARIANTS.items():

        def run(nodes, edges, graph, state, adjacent, kind=kind, settings=settings):  # type: ignore[no-untyped-def]
            processor = getattr(processors, kind)(out_size=WIDTH, name="p", **settings)
            hidden, triplets = processor(nodes, edges, graph, adjacent, state)
            read = jnp.concatenate([nodes, hidden], -1)
            joined = edges if triplets is None else jnp.concatenate([edges, triplets], -1)
            outputs = []
            for kind in (specs.Type.POINTER, specs.Type.MASK):
                layers = decoders.construct_decoders(specs.Location.NODE, kind, WIDTH, 1, kind)
                outputs.append(decoders._decode_node_fts(layers, kind, read, joined, adjacent, False, False))
            return hidden, triplets, *outputs

        network = hk.without_apply_rng(hk.transform(run))
        given = (*inputs.values(), jnp.asarray(adjacent, jnp.float64))
        parameters = network.init(jax.random.PRNGKey(SEED), *given)
        parameters = jax.tree.map(lambda x: random.normal(x.mean(), 0.4, x.shape), parameters)
        hidden, triplets, pointers, marks = network.apply(parameters, *given)
        found = {"state": hidden, "triplets": triplets, "pointers": pointers, "marks": marks}
        tensors |= {f"out.{name}.{key}": np.asarray(value) for key, value in found.items() if value is not None}
        for module, own in parameters.items():
            tensors |= {f"w.{name}.{module}.{key}": np.asarray(value) for key, value in own.items()}
    config = {"width": WIDTH, "triplets": TRIPLETS, "nodes": NODES}
    reference = "dm-clrs 2.0.3, processors.py, decoders.py"
    metadata = {"config": json.dumps(config), "reference": reference, "seed": str(SEED)}
    save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, sys.argv[2], metadata)


if __name__ == "__main__":
    main()
