"""Positional encodings: how a model knows the order of tokens. Each kind applies to one of three things.

    applies_to   where                          kinds
    "input"      added to x before layer 0      sinusoidal, learned            positions.py
                                                counting, normalised           counting.py
    "qk"         rotates queries and keys       rope (rotary)                  positions.py
                                                xpos (rotary that fades)       xpos.py
    "scores"     changes attention scores       alibi                          positions.py
                                                t5 (bucketed bias)             t5.py
                                                shaw (relative keys, values)   shaw.py
                                                transformer_xl                 transformer_xl.py

rope_scaling.py holds other rates of rope, for longer texts: linear, llama3, yarn.
score_mod.py holds what those of the last group return: a ScoreMod, FlexAttention's score_mod with a few additions.
"""
