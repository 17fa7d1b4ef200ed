"""`headway compare`: which architecture is better for this text, at equal size and equal budget.

study              Study: text, settings, what varies, budget, seeds; read from TOML or made from flags
axes               Axis: a setting and its values; "mixer=attention,retention" and where in the config it goes
parameter_budget   widths solved for, so that all variants have the same number of parameters
trials             Trial: one variant with one seed, in a folder named by its fingerprint
trial_worker       trains and measures one trial, in a process of its own
measurements       decoding speed, size of the state, time and memory by length
probes/            what papers claim about an architecture, measured on a trained language model
answers            how many prompts of a synthetic task a language model answers right
runner             runs trials side by side; resumes, skips what is finished, reports what failed
results            the table: means, spread over seeds, paired bootstrap; JSON and CSV
charts             learning curves, cost by length and the Pareto front as SVG
report             one self-contained HTML page

Study ── axes ──► variants ── parameter_budget ──► trials × seeds ── runner ──► results ──► table, report
"""
