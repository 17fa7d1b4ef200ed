"""ONNX: graphs that onnxruntime, optimum and transformers.js run without Headway.

TracedGraph ── graphs.convert_graph ──► an ONNX graph with optimum's names
                 └─ merged.merge_decoder: the first step and later ones in one graph
format      OnnxFormat: onnx/encoder_model.onnx, onnx/decoder_model_merged.onnx, or onnx/model.onnx
settings    config.json and generation_config.json, by which runtimes drive the graphs
sessions    the graphs in onnxruntime, compared with the model
int8        dynamic quantisation
"""
