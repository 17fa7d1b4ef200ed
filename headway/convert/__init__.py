"""Models of other toolkits, in and out.

    SOURCE ── source.plan_import: find the files, detect their format ──► that format's plan_import
                 │                                                          │ Architecture: our config, TensorRules
                 └── weight_files: WeightSource, read tensor by tensor ─────┤ ModelText: tokenizers, languages
                                                                            ▼
                                                 ImportPlan.write ──► a model directory, and an ImportReport

source           from what the user names to an ImportPlan; the table of formats
hub              names on the Hugging Face hub: download what an import needs, by its own library
hub_install      models of the hub installed by name, translators of OPUS-MT by direction
options          what an import is told beside its source
architecture     what a family is to us: its config, its tensors by our names, what is lost; the table of families
readings         which reading of a config the weights fit: tied or not, with a bias or without
tensor_rules     one tensor of ours as a change of one of theirs, and back
layer_stacks     tensors that layers have one each of, and ours one for all
sentencepiece_file  what stands in the file of a sentencepiece model
weight_files     safetensors (in one or many files), PyTorch's .bin only with consent
json_files       JSON from elsewhere: one object of a bounded size
importer         ImportPlan: check, convert, write
trial            compute once with what was written, block by block
rule_source      tensors of one toolkit under the names of another
mapping          safetensors of a model that no family knows, named by a file of the user
marian_npz       Marian's own files (OPUS-MT)
streaming        write safetensors tensor by tensor, in memory no larger than the largest
card             the README.md of an imported model
huggingface/     directories of Hugging Face, and one file a family: reads its config.json, names its tensors
ctranslate2/     directories of CTranslate2: the architecture from the variables, tokenizers from the files beside them
gguf/            GGUF files: container, dequantisation, vocabulary, Llama-like models
export/          the other way: a model directory for other toolkits
"""
