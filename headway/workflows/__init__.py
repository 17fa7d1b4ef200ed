"""Whole tasks made of the packages below, each of them one `headway` command.

evaluation         BLEU, chrF and perplexity on held-out text            headway evaluate
calibration        fit the confidence of a translator                    headway calibrate
back_translation   monolingual text ─► pairs to train on                 headway augment
distillation       a teacher's translations ─► pairs for a student       headway distil
leakage            how much of a text stands in an index word for word
indexing           documents ─► chunks with vectors                     headway index
doctor             check the installation and the machine                headway doctor
"""
