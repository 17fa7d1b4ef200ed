"""Look inside a model: record everything it computes for one text (a trace), then plot or explore it.

model + text ─► tracer ─► Trace (trace.py) ─► trace.json + trace.safetensors, and back: load_trace
                          │
          ┌───────────────┼──────────────────────────────┐
          ▼               ▼                              ▼
    attention         beam_tree, embeddings,        events ─► html_page: a page without a server
    experts           rank_collapse                 (also what `headway serve` streams to its page)
          │               │                         with what its panels ask: recorded_answers,
          │               │                         of the head that it opens on: telling_head
          │               │                         static_site: several texts as a site of files
          ├─► terminal_plots   heatmaps in a terminal
          ├─► plots            PNG, SVG, PDF: attention, masks, positions, experts, curves
          └─► trace_plots      PNG, SVG, PDF of one trace: predictions, beam, paths of tokens

a trace and its model: layers ─► neurons, operations, output_scores ─► layer_answers: a token's way to the next word
without a trace: positions (tables of positional encodings), model_summary (parameters and FLOPs of each block),
kind_pictures (what masks, positions and mixers do, for the gallery of variants), ablation (a model without some of its
parts), attribution (on which words an output depends)
"""
