"""Training data: from text files to batches of token ids. Needs no torch.

table_layout, quoted_tables (TSV, CSV), json_files, parquet_files ──┐
parallel_files (two files, or one of these) ◄───────────────────────┘
    │
    ▼
corpora (ParallelCorpus, TextCorpus) ──► noise (noisy copies)
    │
    ▼
encoding (all cores) / epoch_encoder (again for every epoch) ──► ragged (RaggedArray, memory-mapped ids)
    │
    ▼
batches: which examples form a padded batch or a packed sequence ──► headway.train.loader (the data loader)

labelled_files  examples of tasks, with the graphs of problems (graphs)
pictures/       pictures with labels · sounds: samples of sound files
mixed_examples  text, pictures and sounds in one sequence

check/     `headway check`: find faults in a parallel corpus
toy/       a made-up corpus for tests and first steps
workers    processes that end with their parent
"""
