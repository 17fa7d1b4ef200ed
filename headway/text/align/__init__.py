"""Statistical word alignment.

pairs of lines ─► words (units) ─► aligner (IBM model 1, then hmm) ─► links (source word, target word)
pairs of ids   ─► aligner ─► lexicon (token translation counts) ─► a Shortlist

words     words, the units that are counted, and which word each token belongs to
aligner   train on both directions, align, grow-diag-final-and
hmm       the forward-backward algorithm of the HMM alignment model
lexicon   which target tokens translate each source token; makes shortlists
"""
