"""The search made for the GPU: what the reference search finds, in tensors of fixed shape, replayed as CUDA graphs, so
that the host neither launches single kernels nor waits for the device at every step.

    search.run_search         one search, through as many buffers as it takes → lattice → hypotheses
      │  graphs.GraphRunner   records a BeamState's steps as CUDA graphs, and replays them
      │  beam_state.BeamState all tensors of a search: KV cache, beams, candidates of every step
      │      ├─ decoder.CudaDecoder     one token for all beams: logits
      │      │     └─ position_tables   positions and masks, looked up in tables
      │      └─ candidates, the stopping rule: FusedBeamStep (Triton, nn/ops/triton/beam_step.py), or plain operations

It also runs on a CPU, without graphs: that is how it is tested.
"""
