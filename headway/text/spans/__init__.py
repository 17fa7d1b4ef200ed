"""Parts of a sentence that a model does not translate, or reads in another form.

text ─► unknown_script, uppercase ─► protect (mask) ─► model ─► protect (restore)
                                                          └───► restore (by word alignment, if placeholders are lost)

protect         URLs, tags, placeholders, code, … masked by ⟦0⟧, ⟦1⟧, … and filled in again
restore         put spans back into a translation that was made without them
unknown_script  what a model cannot say: unknown scripts, rare characters; plain forms of styled letters, ligatures
uppercase       lowercase TEXT IN CAPITALS for models that tokenize it badly
"""
