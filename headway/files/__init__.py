"""Reading and writing files. Knows nothing of text processing, data or models, and loads without torch.

text_files    lines of UTF-8 text, plain or compressed, from files, pipes and terminals
prefetch      run an iterator ahead in a background thread
atomic        write a file or directory completely or not at all
resumable     an output file that grows over hours and can be resumed
tensors       safetensors files by any name
notebook_html  tables, grids and framed pages for notebook cells
cache         directories of computed data, named by a fingerprint
"""
