"""Directories of CTranslate2: translators, language models and encoders.

    model.bin ──► model_file: ModelFile ──► architecture: Architecture, from the variables themselves
    config.json, vocabularies ──► vocabulary ──► text: tokenizers, from the files beside them, and languages
                                                     │
                                        directory: detect, plan

model_file    the variables of model.bin, dequantised as CTranslate2 does
stacks        an encoder or a decoder: settings, tensors, positions
architecture  the model around them: embeddings, output, what kind of model it is
vocabulary    the spelling of each id, and the special tokens of config.json
text          which files split text into these ids
directory     the format: detect and plan
"""
