"""Hugging Face directories, and families of models, one file each: config.json ─► Architecture.

directory        detect and plan: the family by model_type, languages, search settings, card
model_folder     ModelFolder: the JSON files, and the special ids that they name; ModelText
tokenizer_files  tokenizers, from whichever files there are
generation       search settings of generation_config.json

bert             BERT, RoBERTa, DistilBERT: an encoder alone, post-norm, learned positions
bitnet           BitNet b1.58: Llama with ternary weights and more norms
gpt2             GPT-2: a decoder alone, pre-norm, learned positions
gpt_neox         GPT-NeoX: the same with rotary positions
llama            Llama, Mistral, Qwen2, Qwen3: a decoder alone, pre-norm, rotary positions
language_tokens  tokenizers with language tokens: NLLB, M2M100, mBART, mBART-50
m2m100           M2M100, NLLB: pre-norm, sinusoids of other rates, language tokens
marian           Marian (OPUS-MT): the paper's translator, sinusoids by halves, a bias of the logits
mixtral          Llama with a mixture of experts
mbart            mBART, mBART-50, BART: learned positions, a norm of the embeddings
marian_text      its two sentencepiece models over one vocabulary, or two; target languages as >>fra<<
pegasus          Pegasus: the same with pre-norm
rope             what configs say of rotary positions, for several families
rwkv             RWKV-4: no attention, but a running average of values
sentence_transformers  how the vectors of an encoder become one for a text
t5               T5, mT5, MADLAD: pre-norm without biases, relative positions, RMS norm
t5_text          what stands before a text for each target language: <2de>, "translate English to German:"
xlnet            XLNet: a decoder alone with two streams, relative positions
xlnet_text       its tokenizer, from a sentencepiece model alone
"""
