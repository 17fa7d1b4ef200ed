"""Cut text into the pieces that a model translates, so that joined they are the text again.

text ─► wrapped_lines ─► sentences ─► long_sentences ─► model

wrapped_lines   join lines that were broken at a fixed width, and break the translation again
sentences       split text into sentences
abbreviations   words after which a full stop does not end a sentence, by language
long_sentences  split a sentence that is longer than a model can read
sentence_spacing  the space between translated sentences, where only one language has any
"""
