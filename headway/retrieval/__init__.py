"""Retrieval: indexes of text on disk, and the search in them. Needs no torch.

index_folder     DIR/index.json: what an index is, how it is built over hours, how it is opened
array_file       arrays of rows in plain files, mapped into memory
vector_search    the nearest vectors, exactly, in blocks of a file that stays on disk
bm25             documents by their words: an inverted index on disk
rank_fusion      one ranking from several

lines ─► indexed_text: documents as token ids ─► chunk_index: chunks with vectors ─► the nearest, and what follows
                                                      ▲
                                                      └ ngram_embedding: vectors without a model; or a model's
approximate        the nearest vectors by faiss, nearly all of them in much less time
neighbour_search   the neighbours of every chunk of a text, searched once
"""
