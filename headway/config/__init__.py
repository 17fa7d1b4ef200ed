"""The configuration: what settings there are, where they come from, how they are checked. Needs no torch.

flag  >  environment  >  file  >  preset  >  default          sources: the first that gives a value wins
                    │
                    ▼
schema (types, ranges, slots) + catalogue (kinds of each slot) + renamed (old names)
                    │
                    ▼
config.Config:  model │ train │ search (Search) │ tokenizer │ languages  ──►  config.json, --print-config

config      Config; TOML and JSON
sources     layers of settings, and the origin of each value for --print-config
schema      Node and Part: how settings are declared and read
shorthand   parts written as "local(256)" or "my_package.module:MyMixer(heads=4)"
own_kinds   classes of other packages as kinds, and who may import them
catalogue   every kind of every slot: position, mask, mixer, feedforward, residual …
kind_settings   the settings of a kind, with their defaults and allowed values, for people
renamed     old names of keys and kinds, which are still read
presets     tiny, small, base, big, gpt2, bert …
durations   90s, 20m, 1.5h
search      Search: beam search, sampling, length limits and penalties
"""
