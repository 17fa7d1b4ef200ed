"""Export to CTranslate2: model.bin, config.json, vocabularies, and the tokenizer.

kinds           which kinds it computes
specification   a model as a specification of the package
format          CTranslate2Format: all of it
"""
